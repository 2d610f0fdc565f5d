"""The promise holds by what Anthropic and OpenAI bill, at every request of every conversation."""

from collections.abc import Sequence
from itertools import accumulate

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from addon.commands.sessions import read_sessions
from masking import model
from masking.replay.first_masked import find_first_behind
from masking.strategies.boundary import find_boundaries
from masking.strategies.policy import MaskPolicy
from tests.benchmarks.assumed import read_shipped
from tests.benchmarks.marked import CASES, MARGIN, Case, compare_case
from tests.block_schedules import (
    NEVER,
    BlockConversation,
    Maskable,
    Request,
    find_cheapest,
    move_at,
    send_all,
)
from tests.places import MESSAGES_CONVERSATIONS
from tests.vendor_caches import (
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


@st.composite
def talks(draw: st.DrawFn) -> BlockConversation:
    """Generate a conversation: a head, then turns of calls and their results, by their sizes."""
    head = draw(st.sampled_from((0, 400, 2_000, 5_000, 20_000)))
    sizes = st.sampled_from((0, 50, 300, 2_000, 9_000, 60_000))
    turns = draw(st.lists(st.lists(sizes, min_size=1, max_size=12), max_size=24))
    window = draw(st.integers(1, 9))
    tokens, requests, results = [head, draw(st.integers(1, 3_000))], [], []
    is_openai = draw(st.booleans())
    marks_two = draw(st.booleans())
    for turn, found in enumerate(turns):
        marks = {0, len(tokens) - 1} | ({len(tokens) - 2} if marks_two else set())
        requests.append(Request(len(tokens), [(at, FIVE_MINUTES) for at in sorted(marks)]))
        tokens += [40] * len(found)
        for size in found:
            results.append(Maskable(len(tokens), max(0, size - 10), turn + 1 + window))
            tokens.append(size)
    last = sorted({0, len(tokens) - 1})
    requests.append(Request(len(tokens), [(at, FIVE_MINUTES) for at in last]))
    ends = frozenset(each.blocks - 1 for each in requests) if is_openai else frozenset()
    return BlockConversation(tokens, requests, [r for r in results if r.saving], ends)


def follow_the_rule(talk: BlockConversation, prices: Prices, max_loss: float) -> list[int]:
    """Return the request at which the boundary's rule masks each result first."""
    offsets = [0, *accumulate(talk.tokens)]
    window = talk.results[0].ripe - _find_turn(talk, talk.results[0]) - 1 if talk.results else 1
    policy = MaskPolicy(
        True, window,
        cache_read_ratio=prices.read, cache_write_ratio=prices.write, max_loss=max_loss,
        shortest_prefix=prices.least, reads_at="request ends" if talk.ends else "marks",
    )  # fmt: skip
    maskable = [
        model.Maskable(_find_turn(talk, result), offsets[result.block], result.saving, None)
        for result in talk.results
    ]
    requests = [
        model.Request(
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


@settings(max_examples=300)
@given(talks(), st.sampled_from([CLAUDE, FABLE, OPUS]), st.sampled_from([0.0, 0.05, 0.1, 0.3]))
def test_no_bill_ever_exceeds_what_is_promised(
    talk: BlockConversation, prices: Prices, max_loss: float
) -> None:
    whole = bill(talk, prices, [NEVER] * len(talk.results))
    paid = bill(talk, prices, follow_the_rule(talk, prices, max_loss))
    assert find_worst(paid, whole) <= 1 + max_loss + 1e-9


@pytest.mark.skipif(not MESSAGES_CONVERSATIONS.exists(), reason="no conversations at hand")
@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.client} {case.model}")
def test_real_conversations_keep_the_promise(case: Case) -> None:
    policy = read_shipped().schema1
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
