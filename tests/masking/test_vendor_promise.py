"""The promise holds by what Anthropic and OpenAI bill, at every request of every conversation."""

from collections.abc import Sequence
from itertools import accumulate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from masking.prices import PriceStep
from masking.window.boundary import Candidate, RequestSize
from tests.support.block_schedules import (
    NEVER,
    BlockConversation,
    Maskable,
    Request,
    find_cheapest,
    move_at,
    send,
    send_all,
)
from tests.support.builders import examples
from tests.support.first_behind import find_first_behind
from tests.support.marks import as_one_test
from tests.support.places import MESSAGES_CONVERSATIONS
from tests.support.priced import PricedPolicy, find_boundaries
from tests.support.read_sessions import read_sessions
from tests.tools.benchmarks.assumed import read_shipped
from tests.tools.benchmarks.marked import CASES, MARGIN, Case, compare_case
from tests.tools.provider.vendor_caches import (
    FIVE_MINUTES,
    HOUR,
    AnthropicCache,
    Bill,
    Block,
    OpenAICache,
    Prices,
    bill_all,
    find_worst,
)

CLAUDE = Prices(0.1, 1.25, 2.0, 1_024)
FABLE = Prices(0.025, 1.25, 2.0, 512)
OPUS = Prices(0.1, 1.25, 2.0, 4_096)
STEPPED = Prices(0.05, 1.25, 1.25, 1_024, [(30_000, 2.0), (90_000, 3.0)])
GPT = Prices(0.1, 1.25, 1.25, 1_024)


def spell(names: str) -> list[Block]:
    """Return blocks of 1,024 tokens; a capital has a mark, a digit one for an hour."""
    return [
        Block(
            name.lower(),
            1_024,
            HOUR if name.isdigit() else FIVE_MINUTES if name.isupper() else 0.0,
            ends=name == ".",
        )
        for name in names
    ]


@as_one_test
@pytest.mark.parametrize(
    ("before", "request_", "seconds", "expected"),
    [
        pytest.param("", "abc", 0, (0, 0, 0, 3), id="no mark: all is plain"),
        pytest.param("", "aBc", 0, (0, 2, 0, 1), id="up to the mark it is written"),
        pytest.param("aBc", "abcD", 0, (2, 2, 0, 0), id="a mark finds an earlier one"),
        pytest.param("aBc", "aBcd", 300, (2, 0, 0, 2), id="within five minutes"),
        pytest.param("aBc", "aBcd", 301, (0, 2, 0, 2), id="after five minutes"),
        pytest.param("ab1", "ab1d", 3_600, (3, 0, 0, 1), id="within an hour"),
        pytest.param("", "a1bC", 0, (0, 2, 2, 0), id="an hour's first, then five minutes'"),
        pytest.param("aB", f"ab{'c' * 18}C", 0, (2, 19, 0, 0), id="nineteen blocks back"),
        pytest.param("aB", f"ab{'c' * 19}C", 0, (0, 22, 0, 0), id="twenty blocks back"),
        pytest.param("abC", "axbC", 0, (0, 4, 0, 0), id="a change breaks what follows"),
        pytest.param("AbC", "AxcD", 0, (1, 3, 0, 0), id="a mark before the change is read"),
    ],
)
def test_anthropic_bills_as_documented(
    before: str, request_: str, seconds: float, expected: tuple[int, ...]
) -> None:
    cache = AnthropicCache(CLAUDE)
    cache.send(spell(before), 0.0)
    bill = cache.send(spell(request_), seconds)
    tokens = (bill.read, bill.written, bill.written_for_an_hour, bill.plain)
    assert tuple(each * 1_024 for each in expected) == tokens


def test_a_prompt_below_the_least_is_plain() -> None:
    short = [Block("a", 1_023, FIVE_MINUTES)]
    cache = AnthropicCache(CLAUDE)
    assert [Bill(0, 0, 0, 1_023, 1_023)] * 2 == [cache.send(short, 0.0) for _ in range(2)]


@as_one_test
@pytest.mark.parametrize(
    ("before", "request_", "expected"),
    [
        pytest.param("ab.", "ab.cd", (3, 2), id="the end of the request before"),
        pytest.param("ab.", "ax.cd", (0, 5), id="a change before it"),
        pytest.param("ab.cd", "ab.xy", (0, 5), id="no request ended there"),
        pytest.param("ab.", f"ab.{'.' * 79}", (3, 79), id="one of the latest 80"),
        pytest.param("ab.", f"ab.{'.' * 80}", (0, 83), id="before the latest 80"),
    ],
)
def test_openai_bills_as_documented(before: str, request_: str, expected: tuple[int, int]) -> None:
    cache = OpenAICache(GPT)
    cache.send(spell(before), 0.0)
    bill = cache.send(spell(request_), 0.0)
    assert tuple(each * 1_024 for each in expected) == (bill.read, bill.written)


def make_talk(
    turns: Sequence[Sequence[int]],
    *,
    window: int,
    head: int = 5_000,
    first: int = 100,
    marks: int = 1,
    is_openai: bool = False,
) -> BlockConversation:
    """Return a conversation: a marked head, then turns of calls and their results, by their sizes.

    Each request has this many marks at its end.
    """
    tokens, results, lengths = [head, first], [], [2]
    for turn, found in enumerate(turns):
        tokens += [40] * len(found)
        for size in found:
            results.append(Maskable(len(tokens), max(0, size - 10), turn + 1 + window))
            tokens.append(size)
        lengths.append(len(tokens))
    requests = [
        Request(length, [(at, FIVE_MINUTES) for at in sorted({0, *range(length - marks, length)})])
        for length in lengths
    ]
    ends = frozenset(length - 1 for length in lengths) if is_openai else frozenset()
    return BlockConversation(tokens, requests, [r for r in results if r.saving], ends)


@st.composite
def talks(draw: st.DrawFn) -> BlockConversation:
    """Generate a conversation, the last turns of which may be many and alike."""
    sizes = st.sampled_from((0, 50, 300, 2_000, 9_000, 60_000))
    turns = draw(st.lists(st.lists(sizes, min_size=1, max_size=12), max_size=24))
    return make_talk(
        [*turns, *[[draw(sizes)]] * draw(st.sampled_from((0, 0, 20, 60)))],
        window=draw(st.integers(1, 9)),
        head=draw(st.sampled_from((0, 400, 2_000, 5_000, 20_000))),
        first=draw(st.integers(1, 3_000)),
        marks=draw(st.integers(1, 2)),
        is_openai=draw(st.booleans()),
    )


def follow_the_rule(talk: BlockConversation, prices: Prices, max_loss: float) -> list[int]:
    """Return the request at which the boundary's rule masks each result first."""
    offsets = [0, *accumulate(talk.tokens)]
    window = talk.results[0].ripe - _find_turn(talk, talk.results[0]) - 1 if talk.results else 1
    policy = PricedPolicy(
        True, window,
        cache_read_ratio=prices.read, cache_write_ratio=prices.write, max_loss=max_loss,
        price_steps=tuple(PriceStep(*step) for step in prices.steps),
        shortest_prefix=prices.least, reads_at="request ends" if talk.ends else "marks",
    )  # fmt: skip
    maskable = [
        Candidate(_find_turn(talk, result), offsets[result.block], result.saving, None)
        for result in talk.results
    ]
    requests = [
        RequestSize(
            offsets[request.blocks], number,
            sum(result.block < request.blocks for result in talk.results),
        )
        for number, request in enumerate(talk.requests)
    ]  # fmt: skip
    boundaries = find_boundaries(requests, maskable, policy, talk.tokens[0])
    turns = [request.turns for request in requests]
    return [min(e, NEVER) for e in find_first_behind(maskable, boundaries, turns, policy)]


def _find_turn(talk: BlockConversation, result: Maskable) -> int:
    """Return the turn of a result: the number of requests that came before it, but for one."""
    return sum(request.blocks <= result.block for request in talk.requests) - 1


def bill(talk: BlockConversation, prices: Prices, since: Sequence[int]) -> list[float]:
    cache = (OpenAICache if talk.ends else AnthropicCache)(prices)
    return [*bill_all(cache, send_all(talk, since))]


@examples(5)
@given(
    talks(), st.sampled_from([CLAUDE, FABLE, OPUS, STEPPED]), st.sampled_from([0.0, 0.05, 0.1, 0.3])
)
def test_no_bill_ever_exceeds_what_is_promised(
    talk: BlockConversation, prices: Prices, max_loss: float
) -> None:
    whole = bill(talk, prices, [NEVER] * len(talk.results))
    paid = bill(talk, prices, follow_the_rule(talk, prices, max_loss))
    assert find_worst(paid, whole) <= 1 + max_loss + 1e-9


@pytest.mark.thorough
@pytest.mark.skipif(not MESSAGES_CONVERSATIONS.exists(), reason="no conversations at hand")
@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.client} {case.model}")
def test_real_conversations_keep_the_promise(case: Case) -> None:
    policy = read_shipped().policy
    for session in list(read_sessions([MESSAGES_CONVERSATIONS]))[::4]:
        outcome = compare_case(session, policy, case)
        assert outcome.worst <= 1 + policy.max_loss + MARGIN, session.name
        assert outcome.cheapest <= outcome.cheapest_kept <= outcome.everything
        assert outcome.cheapest <= outcome.rule


@given(talks(), st.sampled_from([CLAUDE, FABLE]))
def test_no_schedule_is_cheaper_than_the_cheapest(talk: BlockConversation, prices: Prices) -> None:
    whole = bill(talk, prices, [NEVER] * len(talk.results))
    cheapest = sum(bill(talk, prices, move_at(talk, find_cheapest(talk, prices, whole))))
    for moves in ([], [len(talk.requests) - 1], range(len(talk.requests))):
        assert cheapest <= sum(bill(talk, prices, move_at(talk, moves))) * (1 + SLACK)


SLACK = 0.02
"""With a window shorter than a mark looks back, an earlier move's entries may be worth a little."""


USUAL, LONG, UNMARKED = (0.1, 1.25), (0.1, 2.0), (1.0, 1.0)
"""What requests are priced by that ask for five minutes, for an hour, and for no cache."""

KINDS = st.sampled_from([USUAL, LONG, UNMARKED])


def follow_each(
    talk: BlockConversation, kinds: Sequence[tuple[float, float]], max_loss: float
) -> list[list[int]]:
    """Return for each request what masks each result first by the prices of this request alone."""
    by_kind = {
        kind: follow_the_rule(talk, CLAUDE._replace(read=kind[0], write=kind[1]), max_loss)
        for kind in set(kinds)
    }
    return [by_kind[kind] for kind in kinds]


def send_each(talk: BlockConversation, kinds: Sequence[tuple[float, float]]) -> BlockConversation:
    """Return a conversation whose requests have the marks of their kinds."""
    lifetimes = {USUAL: FIVE_MINUTES, LONG: HOUR}
    requests = [
        Request(
            request.blocks,
            [(at, lifetimes[kind]) for at, _ in request.marks] if kind in lifetimes else [],
        )
        for request, kind in zip(talk.requests, kinds, strict=True)
    ]
    return talk._replace(requests=requests, ends=frozenset())


def bill_each(
    talk: BlockConversation, kinds: Sequence[tuple[float, float]]
) -> tuple[list[float], list[float], list[float]]:
    """Return what each request costs, what it does unmasked, and what it would cost anew.

    The last is 0 but for requests that are priced otherwise than the one before.
    """
    talk = send_each(talk, kinds)
    drawn = follow_each(talk, kinds, 0.1)
    masked = [[*send(talk, number, since)] for number, since in enumerate(drawn)]
    unmasked = send_all(talk, [NEVER] * len(talk.results))
    changes = [
        sum(block.tokens for block in blocks) * max(kind[1], before[1]) * (kind != before)
        for before, kind, blocks in zip(kinds, kinds[1:], masked[1:], strict=False)
    ]
    paid, whole = (bill_all(AnthropicCache(CLAUDE), sent) for sent in (masked, unmasked))
    return [*paid], [*whole], [0.0, *changes]


@pytest.mark.thorough
@given(talks(), st.lists(st.tuples(KINDS, st.integers(1, 30)), min_size=1, max_size=4))
def test_each_change_of_the_marks_costs_at_most_one_prompt(
    talk: BlockConversation, runs: list[tuple[tuple[float, float], int]]
) -> None:
    # Without a memory each request is drawn by its own prices, and the boundary may go back.
    kinds = [kind for kind, length in runs for _ in range(length)]
    kinds += [kinds[-1]] * len(talk.requests)
    paid, whole, changes = bill_each(talk, kinds[: len(talk.requests)])
    assert sum(paid) <= 1.1 * sum(whole) + sum(changes) + 1e-6


def test_a_request_without_marks_does_not_unmask_the_next_ones() -> None:
    talk = make_talk([[4_000]] * 30, window=3)
    usual = [USUAL] * len(talk.requests)
    once = [*usual[:20], UNMARKED, *usual[21:]]
    paid, _, _ = bill_each(talk, usual)
    paid_once, whole_once, changes = bill_each(talk, once)
    drawn = follow_each(talk, once, 0.1)
    masked = [
        sum(since <= number for since in drawn[number]) for number in range(len(talk.requests))
    ]
    assert masked[20] > masked[21] >= masked[19] > 0, "the boundary goes back"
    assert sum(paid) < sum(paid_once) <= sum(paid) + max(changes)
    assert sum(paid_once) < sum(whole_once)
