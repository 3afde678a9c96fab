"""Scores: a figure has one name (`figures`), a measure one object (`measures`), a test set one pass (`passes`)."""

from motet.scoring.figures import Figure
from motet.scoring.measures import describe_measures, measures_of, measures_of_a_run, require_measures
from motet.scoring.settings import ScoringSettings

__all__ = ["Figure", "ScoringSettings", "describe_measures", "measures_of", "measures_of_a_run", "require_measures"]
