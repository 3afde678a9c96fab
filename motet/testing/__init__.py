"""Checks for authors of methods: those that every registered method passes, to run on your own.

    from motet.testing import check_method

    check_method("./mine.py:Mine")      # or a name, a sum, a class of Part or Method, a MethodEntry

It raises `Fault` with one sentence that says what is wrong, or returns the names of the checks that the method passed.
"""

from motet.testing.checks import CHECKS, check_method
from motet.testing.trial import Fault

__all__ = ["CHECKS", "Fault", "check_method"]
