"""Marks of cases."""

import pytest
from _pytest.mark import ParameterSet


def thorough(*values: object) -> ParameterSet:
    """Return a case that only repeats what another one tests, for thorough runs."""
    return pytest.param(*values, marks=pytest.mark.thorough)
