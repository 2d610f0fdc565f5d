"""What the calls of a session refer to, by the request that each of them answers."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import pytest

from addon.replay.references import SessionReferences, find_session_references
from addon.replay.replay import RecordedRequest, ReplaySettings, replay
from masking.arrival import ArrivalPolicy
from masking.model import ChatMessage
from masking.rewrite import Strategies
from masking.tokens import TokenCounter
from masking.window import MaskPolicy
from tests.support.marks import as_one_test
from tests.support.talks import WHEN, Talk, grow, work, write_body

SETTINGS = ReplaySettings(strategies=Strategies(schema1=MaskPolicy(True, 8)))
LONG = work(12)
TOOLS = [[{"type": "function", "function": {"name": name}}] for name in ("read", "write")]
NOTE: ChatMessage = {"role": "user", "content": "Stop. Do something else."}
ASKS: ChatMessage = {"role": "user", "content": "Provide a summary of the conversation."}
OTHER: list[ChatMessage] = [{"role": "system", "content": "Be verbose."}, *LONG[1:]]


def cut(*lengths: int) -> list[bytes]:
    return [write_body(LONG[:length]) for length in lengths]


@as_one_test
@pytest.mark.parametrize(
    ("bodies", "expected"),
    [
        pytest.param([], {}, id="no request"),
        pytest.param(cut(3, 5, 7), {1: 1, 2: 1}, id="a conversation that grows"),
        pytest.param(cut(3, 3, 5), {2: 1}, id="a retry is what was answered"),
        pytest.param(cut(9, 3, 5, 7), {2: 1, 3: 1}, id="history taken back"),
        pytest.param([*cut(3), b"no JSON", *cut(5)], {1: 1}, id="one that cannot be read"),
        pytest.param(
            [body for at in (3, 5) for body in (write_body(LONG[:at]), write_body(OTHER[:at]))],
            {1: 1, 2: 1},
            id="two conversations side by side",
        ),
        pytest.param(
            [*cut(3), write_body([*LONG[:5], ASKS]), *cut(7)], {1: 1}, id="a request for a summary"
        ),
        pytest.param(
            [*cut(3), write_body([LONG[0], NOTE]), write_body([LONG[0], NOTE, *LONG[1:3]])],
            {2: 1},
            id="a history made compact",
        ),
        pytest.param(
            [write_body(LONG[:at], tools=TOOLS[at % 4 // 2]) for at in (3, 5, 7)],
            {1: 1, 2: 1},
            id="tools that change",
        ),
    ],
)
def test_calls_are_found_at_the_request_that_they_answer(
    bodies: Sequence[bytes], expected: dict[int, int]
) -> None:
    found = find_session_references(Talk(tuple(bodies)), SETTINGS)
    assert expected == {number: len(calls) for number, calls in found.items()}


def test_a_call_that_is_made_again_repeats_the_results_of_the_first() -> None:
    found = find_session_references(grow([*work(5), LONG[1], LONG[2]]), SETTINGS)
    assert [(), (), (), (), (), (0,)] == [
        call.repeats for calls in found.values() for call in calls
    ]


@dataclass(frozen=True, slots=True)
class Signed:
    """A session with a request between two that cannot be masked."""

    name: str = "signed"

    def requests(self) -> Iterator[RecordedRequest]:
        first, last = Talk(tuple(cut(9, 11))).requests()
        yield from (first, RecordedRequest(body=b"", when=WHEN, passed_over="signed"), last)


def test_requests_have_the_numbers_that_a_replay_gives_them() -> None:
    assert [1, 3] == [each.number for each in replay(Signed(), SETTINGS, TokenCounter())]
    assert [1] == [*find_session_references(Signed(), SETTINGS)]


def test_a_session_is_read_once_for_all_settings_that_shorten_alike() -> None:
    reads = []

    class Counted:
        name = "counted"

        def requests(self) -> Iterator[RecordedRequest]:
            reads.append(self.name)
            return grow(LONG).requests()

    references = SessionReferences(Counted())
    for window in (4, 8):
        schema1 = MaskPolicy(True, window)
        references.find(replace(SETTINGS, strategies=Strategies(schema1=schema1)))
    assert 1 == len(reads)
    strategies = replace(SETTINGS.strategies, arrival=ArrivalPolicy(enabled=True))
    references.find(replace(SETTINGS, strategies=strategies))
    references.find(SETTINGS)
    assert 2 == len(reads)
