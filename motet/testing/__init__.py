"""For who writes a method: the checks that every registered method passes, to run on one's own.

    from motet.testing import check_method

    check_method("./mine.py:Mine")      # or a name, a sum, a class of Part or Method, an Entry

raises `Fault`, one sentence that says what is wrong, or returns the names of the checks that were passed.
"""

from motet.testing.checks import CHECKS, check_method
from motet.testing.trial import Fault

__all__ = ["CHECKS", "Fault", "check_method"]
