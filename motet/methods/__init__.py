"""The methods, one file each, and the registry of their names."""

from motet.methods.registry import METHODS, build_method, canonical, describe_methods

__all__ = ["METHODS", "build_method", "canonical", "describe_methods"]
