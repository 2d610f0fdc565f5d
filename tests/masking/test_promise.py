"""The promise in real tokens, on a few sessions of `tests.tools.benchmarks.promise`."""

import pytest

from tests.support.marks import thorough
from tests.tools.benchmarks.assumed import read_shipped
from tests.tools.benchmarks.promise import GENERATED, MARGIN, find_worst

POLICY = read_shipped().policy


@pytest.mark.parametrize(
    "name",
    [
        thorough("results: padded table"),
        thorough("the rest: Russian"),
        thorough("the rest: hexadecimal dump"),
        thorough("the rest: integers"),
        thorough("now and then: table in boxes"),
        "tool schemas, padded tables",
        "images in results",
        thorough("all kinds in turn"),
    ],
)
def test_it_holds_within_a_point(name: str) -> None:
    worst = find_worst(GENERATED[name](), POLICY)
    assert [bill for bill in worst if bill > 1 + POLICY.max_loss + MARGIN] == []
