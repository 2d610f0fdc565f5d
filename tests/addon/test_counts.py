"""A count and its noun agree."""

import pytest

from addon.counts import pluralize, pluralize_part


@pytest.mark.parametrize(
    ("count", "said"), [(0, "0 more files"), (1, "1 more file"), (2_000, "2,000 more files")]
)
def test_a_count_and_its_noun_agree(count: int, said: str) -> None:
    assert said == pluralize(count, "more file")


@pytest.mark.parametrize(
    ("count", "whole", "said"),
    [(1, 1, "1 request"), (4, 4, "all 4 requests"), (1, 4, "1 of 4 requests")],
)
def test_of_some_things_all_are_said_to_be_all(count: int, whole: int, said: str) -> None:
    assert said == pluralize_part(count, whole, "request")
