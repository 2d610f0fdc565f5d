"""The ledger: which conversation a request continues, what it saved, when its boundary freezes."""

import dataclasses
import re
import sys
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from itertools import accumulate

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from msgspec import to_builtins

from masking.accounting.bill import NO_BILL
from masking.accounting.ledger import (
    Breaker,
    Entry,
    LatestRequests,
    Ledger,
    Sent,
    hash_prefixes,
)
from masking.accounting.prompt import Prompt, read_prompt
from masking.model import ChatMessage, Decision, Replacement
from masking.prices import CacheRules, Pricing
from masking.tokens import TokenCounter
from masking.wire.usage import Usage
from tests.support.builders import OLD, assistant, call, read, result, turn, unchanged
from tests.support.marks import as_one_test

NOON = datetime(2026, 6, 1, 12, tzinfo=UTC)
COUNTER = TokenCounter()
EXACT = CacheRules(minimum=1, block=1)
PRICING = Pricing(0.1, 1.0, cache=EXACT)
PRICED = dataclasses.replace(PRICING, dollars_per_million=2.5)


MASKED = (0, 1)


def talk(turns: int, name: str = "go") -> list[ChatMessage]:
    """Return a conversation's messages as they are at its request after so many tool turns."""
    messages: list[ChatMessage] = [{"role": "user", "content": name}]
    for number in range(turns):
        messages += turn(f"call_{number}", OLD + str(number))
    return messages


def _hide(messages: list[ChatMessage], place: int) -> Replacement:
    return Replacement(("content",), str(messages[place]), "...")


def ask(
    messages: list[ChatMessage],
    masked: Iterable[int] = (),
    *,
    cached: int | None = None,
    cache_scope: bytes = b"someone",
    when: datetime = NOON,
    is_masked: bool = True,
    left_unmasked: bool = False,
) -> Sent:
    """Return a request; `masked` are the places among its tool results."""
    places = [place for place, message in enumerate(messages) if message["role"] == "tool"]
    conversation = read(messages)
    decisions = tuple(
        Decision(conversation.results[number], "masked", (_hide(messages, places[number]),))
        for number in masked
    )
    sent = unchanged(conversation, decisions)
    return Sent(
        cache_scope=cache_scope,
        prompt=read_prompt(sent, COUNTER),
        masked=frozenset(masked),
        usage=Usage(cached=cached) if cached is not None else None,
        when=when,
        is_masked=is_masked,
        left_unmasked=left_unmasked,
    )


COMPACTED: list[ChatMessage] = [{"role": "user", "content": "go; so far: ..."}, *turn("call_9")]


@as_one_test
@pytest.mark.parametrize(
    ("requests", "expected"),
    [
        pytest.param([ask(talk(0)), ask(talk(1)), ask(talk(2))], [1, 1, 1], id="one that goes on"),
        pytest.param([ask(talk(1)), ask(talk(5))], [1, 1], id="one with requests in between"),
        pytest.param([ask(talk(1)), ask(talk(1)), ask(talk(2))], [1, 1, 1], id="a retry"),
        pytest.param([ask(talk(2)), ask(talk(1))], [1, 2], id="one that goes back"),
        pytest.param([ask(talk(3)), ask(COMPACTED)], [1, 2], id="a compacted history"),
        pytest.param(
            [ask(talk(1)), ask(talk(1, "stop")), ask(talk(2)), ask(talk(2, "stop"))],
            [1, 2, 1, 2],
            id="two by turns",
        ),
        pytest.param(
            [ask(talk(1)), ask(talk(2), cache_scope=b"another"), ask(talk(3))],
            [1, 2, 1],
            id="two credentials",
        ),
        pytest.param(
            [ask(talk(1)), ask(talk(2)), ask([*talk(1), {"role": "user", "content": "no"}])],
            [1, 1, 2],
            id="one that branches off earlier",
        ),
        pytest.param(
            [ask(talk(1)), ask([*talk(1), {"role": "user", "content": "title?"}]), ask(talk(2))],
            [1, 1, 2],
            id="a side question, which is its latest request",
        ),
        pytest.param([ask([]), ask([]), ask(talk(0))], [1, 2, 3], id="no messages at all"),
        pytest.param(
            [ask([{"role": "user", "content": "go", "cache_control": {}}]), ask(talk(1))],
            [1, 1],
            id="a cache marker that moved on",
        ),
    ],
)
def test_a_request_continues_the_latest_conversation_that_it_begins_with(
    requests: list[Sent], expected: list[int]
) -> None:
    ledger = Ledger()
    assert expected == [ledger.enter(sent, PRICING).conversation for sent in requests]


@as_one_test
@pytest.mark.parametrize(
    ("requests", "expected"),
    [
        pytest.param([ask(talk(9), [0])], None, id="the first that is known"),
        pytest.param([ask(talk(2), [0]), ask(talk(3), [0, 1])], {0}, id="the next one"),
        pytest.param([ask(talk(2)), ask(talk(3), [0])], set(), id="nothing was masked before"),
        pytest.param([ask(talk(2), [0]), ask(talk(5), [0, 1])], {0}, id="more than one later"),
        pytest.param([ask(talk(2), [0]), ask(talk(2), [0])], None, id="sent once more"),
        pytest.param(
            [ask(talk(2), [0]), ask([*talk(2), {"role": "user", "content": "and?"}], [0])],
            None,
            id="without an answer to the one before",
        ),
    ],
)
def test_what_the_request_before_masked_is_known_where_its_answer_is_new(
    requests: list[Sent], expected: set[int] | None
) -> None:
    ledger = Ledger()
    assert expected == [ledger.enter(sent, PRICING).masked_before for sent in requests][-1]


def test_the_longest_of_several_beginnings_is_continued() -> None:
    ledger = Ledger()
    numbers = [ledger.enter(ask(messages), PRICING).conversation for messages in (talk(2), talk(1))]
    assert [1, 2] == numbers
    assert 1 == ledger.enter(ask(talk(3)), PRICING).conversation
    assert 2 == ledger.enter(ask([*talk(1), assistant(call("x"))]), PRICING).conversation


@pytest.mark.parametrize(
    ("others", "expected"),
    [
        pytest.param(2, 1, id="as many as are remembered"),
        pytest.param(3, 5, id="one more than that"),
    ],
)
def test_the_longest_unused_conversation_is_forgotten(others: int, expected: int) -> None:
    ledger = Ledger(max_conversations=3)
    ledger.enter(ask(talk(1)), PRICING)
    for number in range(others):
        ledger.enter(ask(talk(1, str(number))), PRICING)
    assert expected == ledger.enter(ask(talk(2)), PRICING).conversation


def test_a_conversation_that_is_used_is_not_forgotten() -> None:
    ledger = Ledger(max_conversations=2)
    for number in range(5):
        assert 1 == ledger.enter(ask(talk(number)), PRICING).conversation
        ledger.enter(ask(talk(1, str(number))), PRICING)


@as_one_test
@pytest.mark.parametrize(
    ("masks", "expected"),
    [
        pytest.param([(), (), ()], [False, False, False], id="nothing masked"),
        pytest.param([(), (0,), (0,)], [False, True, False], id="one more masked, once"),
        pytest.param([(0,), (0, 1), (0, 1, 2)], [False, True, True], id="one more each time"),
        pytest.param([(0, 1), (0,), (0,)], [False, False, False], id="less masked"),
        pytest.param([(0,), (1,), (1,)], [False, True, False], id="another masked"),
    ],
)
def test_the_boundary_has_moved_where_something_more_is_masked(
    masks: list[tuple[int, ...]], expected: list[bool]
) -> None:
    ledger = Ledger()
    entries = [ledger.enter(ask(talk(3 + n), masks[n]), PRICING) for n in range(len(masks))]
    assert expected == [entry.move is not None for entry in entries]


def test_what_a_request_saves_counts_the_prefix_sent_before() -> None:
    ledger = Ledger()
    first, second = ask(talk(4)), ask(talk(5), (0, 1))
    ledger.enter(first, PRICING)
    cost = ledger.enter(second, PRICING).cost
    assert first.prompt.tokens_before == cost.before.cached
    # What was sent before ends at the first masked result: tools, the user's message, a call.
    assert cost.after.cached == sum(piece.tokens for piece in second.prompt.after[:3])
    assert cost.predicted == cost.after.cached


def test_a_restart_in_the_middle_of_a_conversation_saves_nothing_by_itself() -> None:
    """Its first request is cached but for its end, and so the prompt before masking would be."""
    lasting, restarted = Ledger(), Ledger()
    for turns in (6, 7):
        lasting.enter(ask(talk(turns), MASKED), PRICING)
    cached = ask(talk(7), MASKED).prompt.tokens_after
    request = ask(talk(8), MASKED, cached=cached)
    expected = lasting.enter(request, PRICING).cost
    cost = restarted.enter(request, PRICING).cost
    assert (expected.predicted, 0) == (cached, cost.predicted)
    assert (expected.before, expected.after) == (cost.before, cost.after)


def test_the_cache_of_another_account_holds_nothing() -> None:
    ledger = Ledger()
    ledger.enter(ask(talk(4)), PRICING)
    assert 0 == ledger.enter(ask(talk(5), cache_scope=b"another"), PRICING).cost.predicted


@pytest.mark.parametrize(("seconds", "is_warm"), [(300, True), (301, False)])
def test_a_cache_expires_by_the_requests_own_times(seconds: float, is_warm: bool) -> None:
    pricing = dataclasses.replace(PRICING, cache=CacheRules(minimum=1, block=1, ttl=300))
    ledger = Ledger()
    ledger.enter(ask(talk(4)), pricing)
    later = ledger.enter(ask(talk(5), when=NOON + timedelta(seconds=seconds)), pricing)
    assert is_warm == bool(later.cost.predicted)


def test_the_share_that_the_cache_held_is_that_of_the_conversation() -> None:
    ledger = Ledger()
    size = ask(talk(4)).prompt.tokens_before
    unpredictable = dataclasses.replace(PRICING, cache=CacheRules(minimum=10**9, block=1))
    shares = [
        ledger.enter(sent, pricing).cost.hit_rate
        for sent, pricing in [
            (ask(talk(4)), PRICING),
            (ask(talk(5), cached=size // 4), PRICING),
            (ask(talk(6), cached=0), unpredictable),
            (ask(talk(6, "stop"), cached=0), PRICING),
        ]
    ]
    assert [1, size // 4 / size, size // 4 / size, 1] == shares


@pytest.mark.parametrize(
    ("pricing", "priced", "unpriced"),
    [
        pytest.param([PRICED, PRICED], [1, 2], [0, 0], id="every price known"),
        pytest.param([PRICED, PRICING, PRICED], [1, 1, 2], [0, 1, 1], id="one price not known"),
        pytest.param([PRICING], [None], [1], id="no price known"),
    ],
)
def test_dollars_are_those_of_the_priced_requests_and_the_others_are_counted(
    pricing: list[Pricing], priced: list[int | None], unpriced: list[int]
) -> None:
    ledger = Ledger()
    entries = [ledger.enter(ask(talk(n + 1), (0,)), each) for n, each in enumerate(pricing)]
    known = [
        2.5e-6 * (entry.cost.before.cost - entry.cost.after.cost)
        for entry, each in zip(entries, pricing, strict=True)
        if each is PRICED
    ]
    expected = [None if count is None else pytest.approx(sum(known[:count])) for count in priced]
    so_far = [*accumulate(entry.bill for entry in entries)]
    assert expected == [bill.dollars.saved if bill.is_in_dollars else None for bill in so_far]
    assert unpriced == [bill.unpriced.requests for bill in so_far]
    assert so_far == [entry.so_far for entry in entries]


def test_an_entry_does_not_change_later() -> None:
    ledger = Ledger()
    entry = ledger.enter(ask(talk(3), (0,)), PRICED)
    before = to_builtins(entry.so_far)
    ledger.enter(ask(talk(4), (0,)), PRICED)
    assert before == to_builtins(entry.so_far)


@st.composite
def courses(draw: st.DrawFn) -> list[Sent]:
    """Requests of several conversations, masked and answered in any way."""
    requests = []
    for _ in range(draw(st.integers(1, 8))):
        turns = draw(st.integers(0, 4))
        masked = draw(st.sets(st.integers(0, turns - 1))) if turns else set()
        sent = ask(
            talk(turns, draw(st.sampled_from(["go", "stop"]))),
            sorted(masked),
            cached=draw(st.none() | st.integers(0, 2_000)),
            cache_scope=draw(st.sampled_from([b"someone", b"another"])),
            is_masked=draw(st.booleans()),
        )
        requests.append(sent)
    return requests


@given(courses(), st.sampled_from([PRICING, PRICED, Pricing(1.0, 1.0, source="assumed")]))
def test_the_nets_add_up(requests: list[Sent], pricing: Pricing) -> None:
    ledger = Ledger()
    entries = [ledger.enter(sent, pricing) for sent in requests]
    by_conversation = {entry.conversation: entry.so_far for entry in entries}
    whole = sum((entry.bill for entry in entries), start=NO_BILL)
    saved = sum(entry.cost.before.cost - entry.cost.after.cost for entry in entries)
    assert whole.tokens.saved == pytest.approx(saved)
    parts = sum(by_conversation.values(), start=NO_BILL)
    for one, other in ((whole.tokens, parts.tokens), (whole.dollars, parts.dollars)):
        assert one.requests == other.requests
        assert one.saved == pytest.approx(other.saved)
        assert one.error == pytest.approx(other.error)
    assert (len(requests) if pricing is PRICED else 0) == whole.dollars.requests
    assert sorted(by_conversation) == list(range(1, len(by_conversation) + 1))


@given(courses())
def test_a_second_account_of_the_same_requests_is_the_same(requests: list[Sent]) -> None:
    one, other = Ledger(), Ledger()
    for sent in requests:
        assert one.enter(sent, PRICING) == other.enter(sent, PRICING)


@given(courses(), st.integers(1, 3))
@example([ask(talk(1), is_masked=False), ask(talk(3), cached=84, is_masked=False)], 1)
def test_where_nothing_was_ever_masked_nothing_is_saved(
    requests: list[Sent], max_conversations: int
) -> None:
    ledger = Ledger(max_conversations)
    for sent in requests:
        plain = dataclasses.replace(
            sent,
            prompt=Prompt(before=sent.prompt.before, after=sent.prompt.before),
            masked=frozenset(),
        )
        money = ledger.enter(plain, PRICED).bill.tokens
        assert (0.0, 0.0) == (money.saved, money.error)


# The boundary that is held.


def trip(ledger: Ledger, name: str = "go", *, is_masked: bool = True) -> Iterator[Entry]:
    """Enter the requests, after 3 to 8 tool turns, of a conversation that trips at the last."""
    warm = 10**6  # more than any prompt has: all of it is cached
    for turns, masked, cached in [
        (3, (), warm),
        (4, (), warm),
        (5, (), warm),
        (6, MASKED, 0),
        (7, MASKED, 0),
        (8, MASKED, 0),
        (9, MASKED, 0),
    ]:
        sent = ask(talk(turns, name), masked, cached=cached, is_masked=is_masked)
        yield ledger.enter(sent, PRICING)


def test_a_cache_that_holds_nothing_after_a_move_trips() -> None:
    entries = [*trip(Ledger())]
    assert [False] * 6 + [True] == [entry.is_frozen for entry in entries]
    assert 3 == [entry.move is not None for entry in entries].index(True)


def test_a_held_conversation_says_so() -> None:
    ledger = Ledger()
    [*_, tripped] = trip(ledger)
    later = ledger.enter(ask(talk(10), MASKED, cached=0), PRICING)
    assert (tripped.conversation, True) == (later.conversation, later.is_frozen)


def test_a_recording_never_trips() -> None:
    ledger = Ledger()
    assert not any(entry.is_frozen for entry in trip(ledger, is_masked=False))
    assert ledger.frozen_results(b"someone", read(talk(10))) is None


QUESTION: ChatMessage = {"role": "user", "content": "well?"}


@as_one_test
@pytest.mark.parametrize(
    ("messages", "cache_scope", "expected"),
    [
        pytest.param(talk(10), b"someone", MASKED, id="the next request"),
        pytest.param(talk(9), b"someone", MASKED, id="the same request again"),
        pytest.param([*talk(9), QUESTION], b"someone", MASKED, id="the same, and a question"),
        pytest.param(
            [*talk(9), assistant(), QUESTION], b"someone", MASKED, id="an answer, and a question"
        ),
        pytest.param(
            [*talk(9), *turn("x"), result("y"), result("z")],
            b"someone",
            MASKED,
            id="several results",
        ),
        pytest.param([*talk(9), None, "x"], b"someone", MASKED, id="what is no message"),
        pytest.param(talk(11), b"someone", None, id="a request in between that is not known"),
        pytest.param(talk(8), b"someone", None, id="an earlier request"),
        pytest.param(talk(10, "stop"), b"someone", None, id="another conversation"),
        pytest.param(talk(10), b"another", None, id="another credential"),
        pytest.param(talk(2, "fine"), b"someone", None, id="a conversation that is not held"),
        pytest.param([], b"someone", None, id="no messages"),
    ],
)
def test_the_next_request_of_a_held_conversation_masks_what_the_last_one_did(
    messages: list[ChatMessage], cache_scope: bytes, expected: tuple[int, ...] | None
) -> None:
    ledger = Ledger()
    ledger.enter(ask(talk(1, "fine")), PRICING)
    assert 7 == len([*trip(ledger)])
    assert (expected and frozenset(expected)) == ledger.frozen_results(cache_scope, read(messages))


def test_before_it_trips_nothing_is_held() -> None:
    ledger = Ledger()
    for number, entry in enumerate(trip(ledger)):
        held = ledger.frozen_results(b"someone", read(talk(number + 4)))
        assert entry.is_frozen == (held is not None)


def test_what_was_masked_since_stays_masked() -> None:
    ledger = Ledger()
    assert 7 == len([*trip(ledger)])
    ledger.enter(ask(talk(10), (0, 1, 2), cached=0), PRICING)  # on its way when it tripped
    assert frozenset({0, 1, 2}) == ledger.frozen_results(b"someone", read(talk(11)))


def test_a_forgotten_conversation_is_held_no_longer() -> None:
    ledger = Ledger(max_conversations=1)
    assert 7 == len([*trip(ledger)])
    ledger.enter(ask(talk(0, "stop")), PRICING)
    assert ledger.frozen_results(b"someone", read(talk(10))) is None


@pytest.fixture
def hasty_threads() -> Iterator[None]:
    """Threads that take turns as often as they can."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(interval)


@pytest.mark.usefixtures("hasty_threads")
def test_a_request_that_is_looked_up_while_another_is_entered_never_unmasks() -> None:
    """Each request masks one more; what the last one that is known has masked is never taken back.

    A request that is looked up is two turns ahead of the one that may be half entered.
    """
    turns = range(10, 60)
    talks = {count: talk(count) for count in range(10, 62)}
    requests = [ask(talks[count], range(count - 7), cached=0) for count in turns]
    ledger = Ledger()
    assert 7 == len([*trip(ledger)])
    done = False

    def look() -> list[tuple[int, frozenset[int] | None]]:
        found = []
        while not done:
            found += [
                (count, ledger.frozen_results(b"someone", read(talks[count + 1])))
                for count in turns
            ]
        return found

    with ThreadPoolExecutor(4) as threads:
        looking = [threads.submit(look) for _ in range(4)]
        for sent in requests:
            ledger.enter(sent, PRICING)
        done = True
    found = [pair for each in looking for pair in each.result()]
    for count, held in found:
        # Of the request itself, of the one before it, or none.
        assert held is None or len(held) in (count - 7, count - 6), count
    assert frozenset(range(52)) == ledger.frozen_results(b"someone", read(talks[60]))


def test_a_request_that_is_left_whole_changes_nothing_of_its_conversation() -> None:
    ledger = Ledger()
    asks: list[ChatMessage] = [*talk(3), {"role": "user", "content": "Summarize it."}]
    entries = [
        ledger.enter(each, PRICING)
        for each in (ask(talk(3), MASKED), ask(asks, left_unmasked=True), ask(talk(4), MASKED))
    ]
    assert [1, 1, 1] == [entry.conversation for entry in entries]
    assert [False, False, False] == [entry.move is not None for entry in entries]
    assert entries[1].cost.before.prompt == entries[1].cost.after.prompt
    alone = Ledger().enter(ask(asks, left_unmasked=True), PRICING)
    assert (1, False) == (alone.conversation, alone.move is not None)


def spell(names: str) -> list[int]:
    return hash_prefixes(b"scope", [name.encode() for name in names])


@as_one_test
@pytest.mark.parametrize(
    ("requests", "asked", "expected"),
    [
        pytest.param([], "ab", None, id="nothing is known"),
        pytest.param(["ab"], "abc", (0, 2), id="it goes on"),
        pytest.param(["ab"], "ab", (0, 2), id="the same request again"),
        pytest.param(["ab"], "a", None, id="it goes back"),
        pytest.param(["ab"], "xb", None, id="another beginning"),
        pytest.param(["a", "ab"], "abc", (0, 2), id="the latest request of one conversation"),
        pytest.param(["a", "ab"], "ax", None, id="not an earlier request of it"),
        pytest.param(["ab", "a"], "abc", (0, 2), id="the longest of two conversations"),
        pytest.param(["ab", "a"], "ax", (1, 1), id="the other of two"),
        pytest.param(["", ""], "", None, id="without messages"),
        pytest.param(["a", "b", "c", "d"], "ax", None, id="one that was forgotten"),
        pytest.param(["a", "b", "ax", "c", "d"], "ax", (0, 2), id="one that went on is kept"),
    ],
)
def test_a_request_continues_the_conversation_with_most_of_its_messages(
    requests: list[str], asked: str, expected: tuple[int, int] | None
) -> None:
    latest: LatestRequests[int] = LatestRequests(3)
    opened = 0
    for names in requests:
        continued, messages = latest.find(spell(names))
        latest.replace(spell(names), messages, opened if continued is None else continued)
        opened += continued is None
    assert (expected or (None, 0)) == latest.find(spell(asked))


def test_without_a_bound_none_is_forgotten() -> None:
    latest: LatestRequests[int] = LatestRequests()
    names = [chr(ord("A") + number) for number in range(50)]
    for number, name in enumerate(names):
        latest.replace(spell(name), 0, number)
    assert [(number, 1) for number in range(50)] == [
        latest.find(spell(name + "x")) for name in names
    ]


digests = st.lists(st.sampled_from([b"a" * 16, b"b" * 16]), max_size=6)


@given(st.sampled_from([b"s", b"t"]), st.sampled_from([b"s", b"t"]), digests, digests)
def test_prefixes_are_equal_as_far_as_the_sequences_are(
    cache_scope: bytes, other_scope: bytes, one: list[bytes], other: list[bytes]
) -> None:
    found, others = hash_prefixes(cache_scope, one), hash_prefixes(other_scope, other)
    assert (len(one), len(other)) == (len(found), len(others))
    for end, (a, b) in enumerate(zip(found, others, strict=False), 1):
        assert (a == b) == (cache_scope == other_scope and one[:end] == other[:end])


REQUESTS = {
    "h": (1_000, 900, False),  # a prediction that holds
    "f": (1_000, 100, False),  # one that fails
    "m": (200, 200, True),  # a move of the boundary
    "M": (1_000, 0, True),  # a move, and nothing is cached of it
    "0": (0, 0, False),  # nothing predicted
    "c": (0, 500, False),  # nothing predicted, and something cached
    "?": (1_000, None, False),  # nothing reported
}
"""By a letter: what was predicted, what was reported, and whether the boundary moved."""


def watch(requests: str) -> list[int]:
    """Return at which requests the breaker trips."""
    breaker = Breaker()
    return [
        place
        for place, letter in enumerate(requests)
        for predicted, cached, moved in [REQUESTS[letter]]
        if breaker.watch(predicted, cached, moved=moved)
    ]


@as_one_test
@pytest.mark.parametrize(
    ("requests", "expected"),
    [
        pytest.param("hhmfff", [5], id="the third failure in a row after a move"),
        pytest.param("hhmff", [], id="only two"),
        pytest.param("hhmfffff", [5], id="it trips once"),
        pytest.param("hhmfffhhmfff", [5], id="and never again"),
        pytest.param("hhMfff", [5], id="what the move itself costs is no failure"),
        pytest.param("hh0m?fcf0f", [9], id="what says nothing is ignored"),
        pytest.param("fffhhmfff", [8], id="after earlier failures that passed"),
        pytest.param("mhhhhmfff", [8], id="after an earlier move that held"),
        pytest.param("fffff", [], id="no move"),
        pytest.param("hhhhfffff", [], id="no move, though it held before"),
        pytest.param("mfff", [], id="nothing before the move"),
        pytest.param("hmfff", [], id="one prediction before the move is too few"),
        pytest.param("hfhmfff", [], id="one failed among those before the move"),
        pytest.param("hhfmfff", [], id="the last one before the move failed"),
        pytest.param("fffmfffmfff", [], id="they never held"),
        pytest.param("hhmhfff", [], id="the first one after the move held"),
        pytest.param("hhmffhfff", [], id="a late one after the move held"),
        pytest.param("hhmffhhmfff", [10], id="a later move"),
        pytest.param("hhmfmff", [6], id="a move in between"),
        pytest.param("hhmfmfmf", [7], id="a move after each"),
        pytest.param("hhmfmhfff", [], id="one that held after a second move"),
        pytest.param("hhfmfmff", [], id="moves, and the one before the first had failed"),
        pytest.param("00m000", [], id="nothing predicted"),
        pytest.param("??m???", [], id="nothing reported"),
        pytest.param("ccmccc", [], id="cached without a prediction"),
        pytest.param("", [], id="no request"),
    ],
)
def test_it_trips_at_the_third_failure_after_a_move_where_predictions_had_held(
    requests: str, expected: list[int]
) -> None:
    assert expected == watch(requests)


@pytest.mark.parametrize(
    ("cached", "expected"),
    [
        pytest.param(0, True, id="nothing"),
        pytest.param(499, True, id="less than half"),
        pytest.param(500, False, id="half"),
        pytest.param(2_000, False, id="more than predicted"),
    ],
)
def test_a_prediction_fails_where_less_than_half_of_it_is_cached(
    cached: int, expected: bool
) -> None:
    breaker = Breaker()
    for predicted, reported, moved in [(1_000, 900, False)] * 2 + [(0, 0, True)]:
        breaker.watch(predicted, reported, moved=moved)
    assert expected == [breaker.watch(1_000, cached, moved=False) for _ in range(3)][-1]
    assert expected == breaker.tripped


TRIPS = re.compile(r"h[0c?]*h[0c?]*[mM][mM0c?]*f[mM0c?]*f[mM0c?]*f")
letters = st.sampled_from([*REQUESTS, *"hhhfff"])


@given(st.lists(letters, max_size=30).map("".join))
def test_it_trips_once_and_only_so(requests: str) -> None:
    found = TRIPS.search(requests)
    assert ([found.end() - 1] if found else []) == watch(requests)


@given(st.lists(st.sampled_from("mMfc0?"), max_size=30).map("".join))
def test_where_nothing_is_cached_as_predicted_it_never_trips(requests: str) -> None:
    assert [] == watch(requests)
