"""The promise in real tokens, on a few sessions of `tests.tools.benchmarks.promise`."""

import pytest

from addon.replay.files import RecordedConversation
from tests.tools.benchmarks.assumed import read_shipped
from tests.tools.benchmarks.promise import MARGIN, find_worst, generate

POLICY = read_shipped().policy


@pytest.fixture(scope="module")
def sessions() -> dict[str, RecordedConversation]:
    return dict(generate())


@pytest.mark.parametrize(
    "name",
    [
        "results: padded table",
        "the rest: hexadecimal dump",
        "the rest: integers",
        "the rest: Russian",
        "now and then: table in boxes",
        "tool schemas, padded tables",
        "images in results",
        "all kinds in turn",
    ],
)
def test_it_holds_within_a_point(sessions: dict[str, RecordedConversation], name: str) -> None:
    worst = find_worst(sessions[name], POLICY)
    assert [bill for bill in worst if bill > 1 + POLICY.max_loss + MARGIN] == []
