"""Sums over replayed requests."""

import pytest

from masking.replay.summary import summarize


def test_nothing_cannot_be_summed_up() -> None:
    with pytest.raises(ValueError, match="no requests to sum up"):
        summarize([])
