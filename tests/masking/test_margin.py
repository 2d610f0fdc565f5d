"""Margins of error, and what becomes of them in a sum."""

import pytest

from masking.accounting.cost import NO_MARGIN, Margin, read_margin


def test_what_recurs_adds_up_and_what_is_chance_evens_out() -> None:
    total = sum([Margin(3.0, 16.0)] * 4, start=NO_MARGIN)
    assert Margin(12.0, 64.0) == total
    assert 12 + 2 * 8 == total.width
    assert 0 == NO_MARGIN.width


@pytest.mark.parametrize("factor", [0.0, 0.5, 3.0])
def test_a_margin_in_another_unit_is_as_wide(factor: float) -> None:
    assert factor * Margin(3.0, 16.0).width == Margin(3.0, 16.0).scale(factor).width


@pytest.mark.parametrize("margin", [Margin(3.0, 16.0), Margin(3.0), Margin(0.0, 16.0), NO_MARGIN])
def test_a_margin_is_read_from_its_width_and_the_part_that_is_chance(margin: Margin) -> None:
    assert margin == read_margin(margin.width, margin.chance)


def test_a_margin_that_was_rounded_is_none_below_0() -> None:
    assert Margin(0.0, 4.0) == read_margin(3.9, 4.0)
