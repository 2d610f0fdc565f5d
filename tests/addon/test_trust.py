"""When a program that refuses the proxy's certificate is tried again; the clock is the test's."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from addon.proxy.handshake import Failure
from addon.proxy.trust import FIRST_DELAY, LONGEST_DELAY, Peer, Trust

AGENT = Peer("127.0.0.1", "api.openai.com", ("TLS of an agent",))
ELSEWHERE = AGENT._replace(host="pypi.org")


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def trust(clock: Clock) -> Trust:
    return Trust(clock)


def refuse_again(trust: Trust, clock: Clock, peer: Peer = AGENT) -> float | None:
    """Have a refused peer come back as late as it is tried again, and refuse."""
    while not trust.opens_next(peer):
        clock.now += 1.0
    return trust.refuse(peer, "refused")


def test_a_program_is_opened_until_it_refuses(trust: Trust) -> None:
    assert trust.opens_next(AGENT)
    assert FIRST_DELAY == trust.refuse(AGENT, "refused")
    assert not trust.opens_next(AGENT)


@pytest.mark.parametrize(
    "other",
    [
        AGENT._replace(address="10.0.0.7"),
        AGENT._replace(host="pypi.org"),
        AGENT._replace(program=("TLS of another",)),
    ],
    ids=["another address", "another host", "another program"],
)
def test_a_refusal_is_that_of_one_program_for_one_host(trust: Trust, other: Peer) -> None:
    trust.refuse(AGENT, "refused")
    assert trust.opens_next(other)


def test_each_further_refusal_doubles_the_time_to_the_next_trial(
    trust: Trust, clock: Clock
) -> None:
    trust.refuse(AGENT, "refused")
    delays = [refuse_again(trust, clock) for _ in range(12)]
    doubled = [10, 20, 40, 80, 160, 320, 640, 1280, 2560]
    assert [*doubled, LONGEST_DELAY, LONGEST_DELAY, LONGEST_DELAY] == delays


def test_of_connections_at_the_same_time_one_is_the_trial(trust: Trust, clock: Clock) -> None:
    trust.refuse(AGENT, "refused")
    clock.now = FIRST_DELAY
    assert [True, False, False] == [trust.opens_next(AGENT) for _ in range(3)]


def test_a_trial_without_an_outcome_is_followed_by_another(trust: Trust, clock: Clock) -> None:
    trust.refuse(AGENT, "refused")
    clock.now = FIRST_DELAY
    assert trust.opens_next(AGENT)
    clock.now = 2 * FIRST_DELAY
    assert trust.opens_next(AGENT)


def test_connections_opened_before_a_refusal_renew_nothing(trust: Trust, clock: Clock) -> None:
    answers = [trust.refuse(AGENT, "refused") for _ in range(5)]
    assert [FIRST_DELAY, None, None, None, None] == answers
    clock.now = FIRST_DELAY
    assert trust.opens_next(AGENT)


def test_a_success_lifts_the_refusal(trust: Trust, clock: Clock) -> None:
    trust.refuse(AGENT, "refused")
    clock.now = FIRST_DELAY
    assert trust.opens_next(AGENT)
    assert [True, False] == [trust.accept(AGENT) for _ in range(2)]
    assert [True] * 3 == [trust.opens_next(AGENT) for _ in range(3)]


@pytest.mark.parametrize(
    ("pause", "delay"), [(0.0, 2 * FIRST_DELAY), (2 * LONGEST_DELAY, FIRST_DELAY)]
)
def test_a_refusal_soon_after_a_lifted_one_continues_from_its_delay(
    trust: Trust, clock: Clock, pause: float, delay: float
) -> None:
    """Two programs with the same TLS, one of which trusts: the other must not fail each time."""
    trust.refuse(AGENT, "refused")
    trust.accept(AGENT)
    clock.now += pause
    assert delay == trust.refuse(AGENT, "refused")


def test_a_success_with_another_host_brings_the_trial_forward(trust: Trust) -> None:
    trust.refuse(AGENT, "refused")
    assert not trust.accept(ELSEWHERE)
    assert [True, False] == [trust.opens_next(AGENT) for _ in range(2)]


@pytest.mark.parametrize("change", [{"address": "10.0.0.7"}, {"program": ()}], ids=str)
def test_a_success_of_another_program_brings_no_trial_forward(
    trust: Trust, change: dict[str, object]
) -> None:
    trust.refuse(AGENT, "refused")
    trust.accept(ELSEWHERE._replace(**change))  # type: ignore[arg-type]
    assert not trust.opens_next(AGENT)


def test_a_trial_is_brought_forward_once_until_one_comes_by_itself(
    trust: Trust, clock: Clock
) -> None:
    """A program may trust the proxy, but never for a host whose certificate it knows."""
    trust.refuse(AGENT, "refused")
    trust.accept(ELSEWHERE)
    assert trust.opens_next(AGENT)
    trust.refuse(AGENT, "refused")
    trust.accept(ELSEWHERE)
    assert not trust.opens_next(AGENT)
    assert 4 * FIRST_DELAY == refuse_again(trust, clock)
    trust.accept(ELSEWHERE)
    assert trust.opens_next(AGENT)


@pytest.mark.parametrize("failure", ["closed", "failed"])
class TestWithoutAWord:
    """Handshakes that end without an alert on the certificate."""

    def test_the_second_in_a_row_is_a_refusal(self, trust: Trust, failure: Failure) -> None:
        assert [None, FIRST_DELAY] == [trust.refuse(AGENT, failure) for _ in range(2)]

    def test_two_failures_far_apart_are_no_refusal(
        self, trust: Trust, clock: Clock, failure: Failure
    ) -> None:
        assert trust.refuse(AGENT, failure) is None
        clock.now += 60.0
        assert trust.refuse(AGENT, failure) is None
        assert FIRST_DELAY == trust.refuse(AGENT, failure)

    def test_a_success_between_two_failures_makes_them_no_refusal(
        self, trust: Trust, failure: Failure
    ) -> None:
        trust.refuse(AGENT, failure)
        trust.accept(AGENT)
        assert trust.refuse(AGENT, failure) is None

    def test_one_is_enough_in_a_trial(self, trust: Trust, clock: Clock, failure: Failure) -> None:
        trust.refuse(AGENT, "refused")
        clock.now = FIRST_DELAY
        trust.opens_next(AGENT)
        assert 2 * FIRST_DELAY == trust.refuse(AGENT, failure)


def test_what_passes_is_counted_by_host(trust: Trust) -> None:
    for peer in (AGENT, AGENT._replace(program=()), ELSEWHERE):
        trust.refuse(peer, "refused")
        for _ in range(2):
            trust.opens_next(peer)
    assert {"api.openai.com": 4, "pypi.org": 2} == trust.passed


def test_the_tables_are_bounded(trust: Trust) -> None:
    peers = [AGENT._replace(host=f"host-{number}") for number in range(1_100)]
    for peer in peers:
        trust.refuse(peer, "refused")
        trust.opens_next(peer)
    assert trust.opens_next(peers[99])  # forgotten
    assert not trust.opens_next(peers[100])
    assert {"other hosts": 100} == {k: n for k, n in trust.passed.items() if n > 2}
    assert 1_101 == trust.passed.total()


waits = st.lists(st.integers(0, int(LONGEST_DELAY)), max_size=60)


@given(waits)
def test_a_program_that_never_trusts_fails_ever_more_rarely(pauses: list[int]) -> None:
    clock = Clock()
    trust = Trust(clock)
    trust.refuse(AGENT, "refused")
    failures = 0
    for pause in pauses:
        clock.now += pause
        if trust.opens_next(AGENT):
            trust.refuse(AGENT, "refused")
            failures += 1
    delays = [min(FIRST_DELAY * 2**number, LONGEST_DELAY) for number in range(failures)]
    assert sum(delays) <= clock.now


@given(waits)
def test_no_refusal_outlasts_an_hour(pauses: list[int]) -> None:
    clock = Clock()
    trust = Trust(clock)
    trust.refuse(AGENT, "refused")
    for pause in pauses:
        clock.now += pause
        if trust.opens_next(AGENT):
            trust.refuse(AGENT, "refused")
    clock.now += LONGEST_DELAY
    assert trust.opens_next(AGENT)
