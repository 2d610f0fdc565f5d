"""What shortening at arrival saves: in the prompt, on the bill, and what agents do for it."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from masking.accounting import (
    count_quotes,
    count_repeats,
    find_repeated,
    measure,
)
from masking.accounting.cost import (
    Counts,
    Estimate,
    PromptTokens,
    Rate,
    price_left_out,
    price_request,
)
from masking.accounting.ledger import Entry, Ledger, Sent
from masking.accounting.prompt import Prompt, read_prompt
from masking.arrival import arrive
from masking.prices import CacheRules, Pricing
from masking.rewrite import Rewrite, Strategies, read_request
from masking.tokens import TokenCounter
from masking.window import MaskPolicy
from masking.wire.usage import Usage
from tests.support.arrivals import OFF, SHORTENS, Remembering, write_lines
from tests.support.builders import MASK_ALL, examples, policy, unchanged
from tests.support.marks import as_one_test
from tests.support.wire_conversations import (
    IN_EVERY_FORMAT,
    IN_TWO_FORMATS,
    WRITERS,
    Ask,
    Give,
    Model,
    Step,
    Told,
    Tools,
    User,
    Writer,
    turn,
)

COUNTER = TokenCounter()
NOON = datetime(2026, 6, 1, 12, tzinfo=UTC)
EXACT = CacheRules(minimum=1, block=1)
PRICING = Pricing(0.1, 1.25, cache=EXACT, dollars_per_million=2.0)
ON = Strategies(arrival=SHORTENS, schema1=OFF)
SLIDING = policy(MASK_ALL, window_turns=2, placeholder_template="<{original_chars}>")
PRICED = policy(SLIDING, cache_read_ratio=0.1, cache_write_ratio=1.25)
WINDOWS = pytest.mark.parametrize(
    "window",
    [
        pytest.param(OFF, id="no window"),
        pytest.param(SLIDING, id="one that slides"),
        pytest.param(PRICED, id="one that moves when that pays"),
    ],
)


def grow(writer: Writer, count: int = 12) -> Iterator[Told]:
    """Yield the requests of a conversation; of each three results one is not long."""
    said: list[Step] = [User("Fix the build.")]
    for number in range(count):
        yield writer.tell(*said)
        text = write_lines(f"{number}", 10 + 30 * (number % 3))
        call = Ask(f"c{number}", "shell", {"n": number})
        said += Model((call,)), Tools((Give(f"c{number}", text),))
        if number == 5:
            calls = Model((Ask("x", "shell", {"x": 1}), Ask("y", "shell", {"y": 1})))
            results = Tools((Give("x", write_lines("x")), Give("y", write_lines("y"))))
            said += calls, results


def play(writer: Writer, window: MaskPolicy) -> Iterator[tuple[Told, Rewrite]]:
    proxy = Remembering()
    prices = PRICED.prices if window is PRICED else SLIDING.prices
    for told in grow(writer):
        yield told, proxy.send(told.read(), replace(ON, schema1=window), prices)


# The prompt.


@IN_TWO_FORMATS
@WINDOWS
def test_before_it_is_the_clients_own_prompt(writer: Writer, window: MaskPolicy) -> None:
    shortened = 0
    for told, rewrite in play(writer, window):
        own, prompt = read_prompt(unchanged(told.read()), COUNTER), read_prompt(rewrite, COUNTER)
        assert own.before == prompt.before
        gone = (
            own.tokens_before - read_prompt(unchanged(rewrite.conversation), COUNTER).tokens_before
        )
        assert gone == sum(prompt.left_out.values())
        assert all(0 < at < len(own.before) and gone > 0 for at, gone in prompt.left_out.items())
        assert sum(prompt.parts.values()) == prompt.tokens_after
        shortened += len(prompt.left_out)
    assert shortened


@IN_TWO_FORMATS
def test_after_it_is_that_of_the_body_that_leaves(writer: Writer) -> None:
    for _, rewrite in play(writer, OFF):
        prompt = read_prompt(rewrite, COUNTER)
        sent = read_request(rewrite.body, writer.wire, writer.path)
        assert read_prompt(unchanged(sent), COUNTER).before == prompt.after
        assert prompt.tokens_before - prompt.tokens_after == sum(prompt.left_out.values())


@IN_TWO_FORMATS
def test_what_is_masked_as_well_is_smaller_by_its_whole_text(writer: Writer) -> None:
    """As if it had never been shortened: its placeholder is the same."""
    for told, rewrite in play(writer, SLIDING):
        if not rewrite.masked:
            continue
        prompt = read_prompt(rewrite, COUNTER)
        elements = {rewrite.conversation.results[n].element + 1 for n in rewrite.masked}
        whole = read_prompt(Remembering().send(told.read(), ON), COUNTER)
        assert prompt.before == whole.before
        for at in elements:
            assert prompt.after[at].tokens <= whole.after[at].tokens


def test_of_what_was_only_shortened_a_marker_differs() -> None:
    told = WRITERS[0].tell(User(), *turn("a", write_lines("a")), Model((Ask("b", "shell"),)))
    rewrite = Remembering().send(told.read(), Strategies(schema1=OFF))
    assert 0 == read_prompt(rewrite, COUNTER).left
    first = WRITERS[0].tell(User(), *turn("a", write_lines("a")))
    prompt = read_prompt(Remembering().send(first.read(), ON), COUNTER)
    (gone,) = prompt.left_out.values()
    assert (16, gone**2, len(prompt.before)) == (prompt.left, prompt.squares, prompt.altered)


@WINDOWS
def test_sizes_tell_both(window: MaskPolicy) -> None:
    for _, rewrite in play(WRITERS[0], window):
        prompt = read_prompt(rewrite, COUNTER)
        sizes = measure(rewrite, prompt)
        count = len(rewrite.arrived.shortened)
        assert (count or None) == sizes.shortened
        results = rewrite.arrived.client.results
        whole = sum(len(result.text) for result in results)
        assert whole == sizes.tool_chars_before
        assert (sum(prompt.left_out.values()) or None) == sizes.left_out_tokens
        sent = read_request(rewrite.body, WRITERS[0].wire)
        assert sum(len(result.text) for result in sent.results) == sizes.tool_chars_after
        assert None is measure(rewrite).left_out_tokens


def test_why_long_ones_stay_is_counted() -> None:
    told = WRITERS[0].tell(
        User(),
        *turn("a", write_lines("a")),
        *turn("b", f"Traceback (most recent call last):\n{write_lines('b')}"),
        *turn("c", write_lines("c"), "Task"),
    )
    rewrite = Remembering().send(told.read(), ON)
    assert {"sent_whole": 1, "error": 1, "kept_tool": 1} == measure(rewrite).long_kept
    nothing = Remembering().send(WRITERS[0].tell(User()).read(), ON)
    assert None is measure(nothing).long_kept


# The bill.


def bill(window: MaskPolicy, usage: Usage | None = None) -> Iterator[tuple[Prompt, Entry]]:
    ledger = Ledger()
    for _, rewrite in play(WRITERS[0], window):
        prompt = read_prompt(rewrite, COUNTER)
        sent = Sent(
            cache_scope=b"someone",
            prompt=prompt,
            masked=rewrite.masked,
            usage=usage,
            when=NOON,
            is_masked=True,
            left_unmasked=False,
        )
        yield prompt, ledger.enter(sent, PRICING)


def test_without_a_window_it_is_all_that_is_saved() -> None:
    saved = 0.0
    for prompt, entry in bill(OFF):
        tokens, dollars = entry.bill.tokens, entry.bill.dollars
        assert (entry.left_out is None) == (not prompt.left_out)
        if entry.left_out is not None:
            assert tokens.saved == pytest.approx(tokens.at_arrival)
            assert dollars.saved == pytest.approx(dollars.at_arrival)
            assert entry.left_out == pytest.approx(sum(prompt.left_out.values()))
            saved += tokens.at_arrival
        assert tokens.saved >= 0
    assert saved > 0


@WINDOWS
@pytest.mark.parametrize(
    "usage",
    [
        None,
        Usage(prompt=900, cached=0),
        Usage(prompt=2_000, cached=1_500, written=300),
        Usage(prompt=4, cached=4),
    ],
)
def test_with_one_it_is_a_part_of_what_the_whole_would_have_cost(
    window: MaskPolicy, usage: Usage | None
) -> None:
    for _, entry in bill(window, usage):
        tokens, dollars = entry.bill.tokens, entry.bill.dollars
        saved, width = tokens.at_arrival, tokens.arrival_margin.width
        assert 0 <= saved <= entry.cost.before.cost * 1.000001
        assert 0 <= dollars.at_arrival == pytest.approx(saved * 2e-6)
        assert 0 <= width <= saved * 1.000001
        assert dollars.arrival_margin.width == pytest.approx(width * 2e-6)


def test_the_promise_holds() -> None:
    """At no request has the bill exceeded the whole one by more than `max_loss`."""
    before = after = 0.0
    for _, entry in bill(PRICED):
        before, after = before + entry.cost.before.cost, after + entry.cost.after.cost
        assert after <= before * (1 + PRICED.max_loss)
    assert after < before


@examples(0.5)
@given(
    st.dictionaries(st.integers(1, 9), st.integers(1, 5_000)),
    st.integers(0, 10),
    st.floats(0, 1),
    st.floats(0.2, 3),
    st.sampled_from([PRICING, Pricing(1.0, 1.0), Pricing(0.1, 1.0, cache=EXACT)]),
)
def test_a_price_is_never_below_nothing(
    left_out: dict[int, int], pieces: int, hit_rate: float, rate: float, pricing: Pricing
) -> None:
    gone = sum(left_out.values())
    whole = PromptTokens(gone + 100, min(gone, 50), pieces)
    counts = Counts(
        is_masked=True,
        ours=(100, gone + 100),
        pieces=10,
        sent=100.0 * rate,
        is_counted=True,
        difference=Estimate(gone * rate),
        whole=rate,
        rate=Rate(rate),
    )
    cost = price_request(whole, PromptTokens(100, 50, pieces), counts, Usage(), pricing, hit_rate)
    saved, margin = price_left_out(left_out, whole, counts, cost, pricing)
    assert 0 <= margin.width <= saved <= gone * rate * max(1.0, pricing.write) * 1.01


# What agents do for it.


@as_one_test
@IN_EVERY_FORMAT
def test_it_is_found_by_the_call(writer: Writer) -> None:
    told = writer.tell(User(), *turn("a", write_lines("a")), Model((Ask("b"),)))
    arrived = arrive(told.read(), SHORTENS)
    places = frozenset(each.place for each in arrived.shortened)
    assert 1 == count_repeats(find_repeated(arrived.conversation), places)


HIDDEN = write_lines("a").splitlines()[20].strip()
HEAD = write_lines("a").splitlines()[0].strip()


def writes(*contents: object) -> Model:
    return Model(tuple(Ask(f"w{n}", "write", {"content": each}) for n, each in enumerate(contents)))


@as_one_test
@IN_EVERY_FORMAT
@pytest.mark.parametrize(
    ("last", "expected"),
    [
        pytest.param([writes(f"x\n    {HIDDEN}  \ny")], 1, id="a line that was left out"),
        pytest.param([writes([{"new": [HIDDEN]}])], 1, id="deep in its arguments"),
        pytest.param([writes(HIDDEN, "else", f"{HIDDEN}\n")], 2, id="in two of three calls"),
        pytest.param([writes(f"{HIDDEN} and more")], 0, id="a part of a line"),
        pytest.param([writes(HEAD)], 0, id="a line of the head"),
        pytest.param([writes("short")], 0, id="a short line"),
        pytest.param([writes(7, None)], 0, id="no text"),
        pytest.param([Model(text=HIDDEN)], 0, id="no call"),
        pytest.param([Model(text=HIDDEN), User(), writes(HIDDEN)], 0, id="the agent said so"),
        pytest.param([User(f"Why {HIDDEN}?"), writes(HIDDEN)], 0, id="the user said so"),
        pytest.param(
            [*turn("b", f"grep: {HIDDEN}"), writes(HIDDEN)], 0, id="another result has it"
        ),
        pytest.param([writes(HIDDEN), User(), writes(HIDDEN)], 0, id="it wrote that before"),
    ],
)
def test_a_call_quotes_what_was_left_out(
    writer: Writer, last: Sequence[Step], expected: int
) -> None:
    told = writer.tell(User(), *turn("a", write_lines("a")), *last)
    assert expected == count_quotes(arrive(told.read(), SHORTENS))


def test_what_stands_before_the_list_is_shown() -> None:
    told = WRITERS[1].tell(User(), *turn("a", write_lines("a")), writes(HIDDEN))
    system = [{"type": "text", "text": f"Never write {HIDDEN}."}]
    tools = [{"name": "write", "description": HIDDEN}]
    for head in ({"system": system}, {"tools": tools}):
        body = json.dumps({**told.document, **head}).encode()
        assert 0 == count_quotes(arrive(read_request(body, told.wire), SHORTENS))


def test_a_result_that_is_new_cannot_be_quoted_yet() -> None:
    told = WRITERS[0].tell(User(), writes(HIDDEN), Tools((Give("w0", write_lines("a")),)))
    arrived = arrive(told.read(), SHORTENS)
    assert 1 == len(arrived.shortened)
    assert 0 == count_quotes(arrived)
    whole = arrive(told.read(), replace(SHORTENS, enabled=False))
    assert 0 == count_quotes(whole)
