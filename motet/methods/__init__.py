"""The methods, one file each, and the grammar that sums their parts."""

from motet.methods.method import Facts, Family, Method, Predictor
from motet.methods.registry import METHODS, build_method, canonical, describe_methods

__all__ = ["METHODS", "Facts", "Family", "Method", "Predictor", "build_method", "canonical", "describe_methods"]
