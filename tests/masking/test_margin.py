"""Margins of error, and what becomes of them in a sum."""

import pytest

from masking.accounting.margin import NO_MARGIN, Margin


def test_what_recurs_adds_up_and_what_is_chance_evens_out() -> None:
    total = sum([Margin(3.0, 16.0)] * 4, start=NO_MARGIN)
    assert Margin(12.0, 64.0) == total
    assert 12 + 2 * 8 == total.width
    assert 0 == NO_MARGIN.width


@pytest.mark.parametrize("factor", [0.0, 0.5, 3.0])
def test_a_margin_in_another_unit_is_as_wide(factor: float) -> None:
    assert factor * Margin(3.0, 16.0).width == Margin(3.0, 16.0).scale(factor).width
