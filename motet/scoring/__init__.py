"""Scores: each named by its model, its test data and its weighting."""

from motet.scoring import family
from motet.scoring.accuracy import Spread, accuracy, class_weighted, right_per_class, spread
from motet.scoring.settings import ScoringSettings

__all__ = ["ScoringSettings", "Spread", "accuracy", "class_weighted", "family", "right_per_class", "spread"]
