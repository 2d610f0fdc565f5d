"""What shortening at arrival saves, and how often what it leaves out was quoted later.

`python -m tests.tools.benchmarks.arrival FILES` (conversations in JSON or JSON lines, gzipped or
not, or folders of these) shortens each by some policies of arrival, bills it at two prices of a
prompt cache, and prints a row for each policy:

- alone, +window: bills relative to sending everything, of all conversations together, without the
  window and with the shipped one. The cache is simulated, and forgets nothing. Conversations of
  Anthropic Messages without a system prompt get one, and tools, of 10,000 tokens. What a model
  writes is in no bill.
- shortened: how many results; each counts once.
- left out: the part of the characters of all results that they lose.
- quoted: the part of them of which a later call quotes what was left out: a whole line of at least
  16 characters that the request shows nowhere else when the call is made, neither in what was kept
  nor in a result that is whole.
- calls quote: the part of all calls that do.
- repeat: the part of all calls that repeat a call, with the same tool and the same arguments, whose
  latest result was shortened.

Quotes and repeats are counted as recorded, by models that saw everything. A quote is what a model
could not have written without reading the result again; nothing shows what it understood without
one, nor what it would have asked for.

Conversations with fewer than 10 results are left out, and those whose calls are those of an earlier
one: the same may be there in two formats.
"""

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import NamedTuple, cast

import orjson

from addon.replay.files import RecordedConversation
from addon.replay.reread import ShownTexts, find_quoted_lines, find_shown_lines
from masking.arrival import FILE_ARGUMENTS, ArrivalPolicy, decide_arrivals, reads_file, shorten
from masking.conversation import Conversation
from masking.model import Call, ChatMessage, ToolResult, parse_arguments
from masking.prices import Pricing
from masking.rewrite import read_request
from masking.tokens import TokenCounter
from masking.window import CallKey, call_key
from tests.support.read_sessions import read_sessions
from tests.tools.benchmarks.assumed import read_shipped
from tests.tools.benchmarks.billing import bill_requests, follow, sum_up
from tests.tools.benchmarks.marked import make_head

LEAST_RESULTS = 10
PRICES = (Pricing(0.1, 1.25), Pricing(0.02, 1.0))

# The policies

SHELLS = ("[Bb]ash", "*shell*", "exec_command", "*_bash", "run_command", "*terminal*")


class Variant(NamedTuple):
    """A policy of arrival; None for none. What `stays` of its results is whole all the same.

    `stays` is an experiment: no setting asks for it.
    """

    name: str
    policy: ArrivalPolicy | None = None
    stays: Callable[[ToolResult], bool] = lambda _: False


def make_policy(max_chars: int = 8_000, left: float = 0.75, head: float = 0.5) -> ArrivalPolicy:
    """Return the shipped policy for another length.

    It leaves this part of `max_chars`, and so much of that in the head.
    """
    return ArrivalPolicy(
        enabled=True,
        max_chars=max_chars,
        head_chars=round(max_chars * left * head),
        tail_chars=round(max_chars * left * (1 - head)),
    )


SHIPPED = make_policy()
EVERYTHING = replace(SHIPPED, file_arguments=(), keep_tools=())

VARIANTS = (
    Variant("nothing"),
    Variant("shipped: no file reads, no reports", SHIPPED),
    Variant("... of 16,000", make_policy(16_000)),
    Variant("... of 4,000", make_policy(4_000)),
    Variant("... 98% left", make_policy(left=0.98)),
    Variant("... 50% left", make_policy(left=0.5)),
    Variant("... 25% of it in the head", make_policy(head=0.25)),
    Variant("... 75% of it in the head", make_policy(head=0.75)),
    Variant("... with sub-agents' reports", replace(SHIPPED, keep_tools=())),
    Variant("shell output alone", replace(SHIPPED, only_tools=SHELLS)),
    Variant("file reads alone", EVERYTHING, lambda result: not reads_file(result, FILE_ARGUMENTS)),
    Variant("everything", EVERYTHING),
    Variant("everything, of 4,000", replace(make_policy(4_000), file_arguments=(), keep_tools=())),
)

# The conversations


class Bills(NamedTuple):
    """What a conversation costs at each of the prices, without the window and with it."""

    alone: tuple[float, ...]
    windowed: tuple[float, ...]


@dataclass(frozen=True, kw_only=True)
class Recorded:
    """A conversation of a file.

    conversation: the request that has all of its messages.
    lines: of each element, by its calls, the lines in their arguments.
    bills: what it costs with no result shortened.
    """

    session: RecordedConversation
    conversation: Conversation
    lines: Sequence[Sequence[frozenset[str]]]
    bills: Bills

    @cached_property
    def shown(self) -> Sequence[frozenset[str]]:
        """Return, for each element, which of the lines of any call it shows, but in results."""
        wanted = frozenset(line for calls in self.lines for call in calls for line in call)
        found = []
        for element, item in zip(self.conversation.elements, self.conversation.items, strict=True):
            texts = element.texts if element.results else list_strings(item)
            found.append(wanted.intersection(find_shown_lines(texts)))
        return found


def read_recorded(paths: Iterable[Path], counter: TokenCounter) -> Iterator[Recorded]:
    """Yield the conversations of files that have enough results, each once."""
    seen = set[tuple[CallKey, ...]]()
    for session in read_sessions(paths):
        if not isinstance(session, RecordedConversation):
            raise ValueError(f"{session.name}: expected a conversation of a file")
        session = add_head(session)
        conversation = read_whole(session)
        calls = [call for element in conversation.elements for call in element.calls]
        # Decoded first: formats spell arguments in different ways.
        keys = tuple(call_key(call.tool, parse_arguments(call.arguments)) for call in calls)
        if len(conversation.results) < LEAST_RESULTS or keys in seen:
            continue
        seen.add(keys)
        yield Recorded(
            session=session,
            conversation=conversation,
            lines=[[*map(read_lines, element.calls)] for element in conversation.elements],
            bills=bill(session, counter),
        )


def read_lines(call: Call) -> frozenset[str]:
    """Return the lines in the arguments of a call."""
    arguments = parse_arguments(call.arguments) or call.arguments
    return frozenset(find_quoted_lines(list_strings(arguments)))


def list_strings(value: object) -> Iterator[str]:
    """Yield the strings in a JSON value, without its keys."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for each in value.values() if isinstance(value, dict) else value:
            yield from list_strings(each)


def add_head(session: RecordedConversation) -> RecordedConversation:
    """Return a conversation with what stands before an agent's messages, if Messages lack it."""
    if "system" not in session.form.head or session.head.get("system") or session.tools:
        return session
    head = dict(make_head())
    tools = cast(Sequence[object], head.pop("tools"))
    return replace(session, head={**session.head, **head}, tools=tuple(tools))


def read_whole(session: RecordedConversation) -> Conversation:
    """Return the request that has all messages of a conversation."""
    document = {session.form.key: session.messages, **session.head, "tools": session.tools}
    filled = {name: value for name, value in document.items() if value is not None}
    path = session.form.path.format(model=session.model)
    return read_request(orjson.dumps(filled), session.form.wire, path)


def bill(session: RecordedConversation, counter: TokenCounter) -> Bills:
    """Return what a conversation costs as it is."""
    rule = follow(read_shipped().policy)
    sums = [sum_up(bill_requests(session, rule, price, counter)) for price in PRICES]
    return Bills(tuple(each.whole for each in sums), tuple(each.paid for each in sums))


# What a policy does to them


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What a policy does to a conversation; its sums are over many.

    whole, alone, windowed: bills by price, of the whole prompt and of the shortened one.
    results, chars: all of them; `shortened` and `left_out` are those that it shortens and leaves
        out, `quoted` the results of which a later call quotes what was left out.
    calls: all of them; `quotes` and `repeats` are those that quote and repeat.
    """

    whole: tuple[float, ...]
    alone: tuple[float, ...]
    windowed: tuple[float, ...]
    results: int
    shortened: int
    quoted: int
    chars: int
    left_out: int
    calls: int
    quotes: int
    repeats: int


class References(NamedTuple):
    """The results whose left out lines are quoted, and the calls that quote or repeat."""

    quoted: frozenset[int]
    quotes: int
    repeats: int


def measure(recorded: Recorded, variant: Variant, counter: TokenCounter) -> Outcome:
    """Return what a policy does to a conversation."""
    client = recorded.conversation
    arrived, bills = client, recorded.bills
    if variant.policy is not None:
        decided = [
            each
            for each in decide_arrivals(client, variant.policy)
            if not variant.stays(client.results[each.place])
        ]
        arrived = shorten(client, decided).conversation
    if arrived is not client:
        messages = cast(Iterable[ChatMessage], arrived.items)
        bills = bill(replace(recorded.session, messages=tuple(messages)), counter)
    references = find_references(recorded, arrived)
    return Outcome(
        whole=recorded.bills.alone,
        alone=bills.alone,
        windowed=bills.windowed,
        results=len(client.results),
        shortened=sum(bool(result.client_texts) for result in arrived.results),
        quoted=len(references.quoted),
        chars=count_chars(client),
        left_out=count_chars(client) - count_chars(arrived),
        calls=sum(len(element.calls) for element in client.elements),
        quotes=references.quotes,
        repeats=references.repeats,
    )


def count_chars(conversation: Conversation) -> int:
    """Return the characters of all results."""
    return sum(len(text) for result in conversation.results for text in result.texts)


def find_references(recorded: Recorded, arrived: Conversation) -> References:
    """Return which calls refer to what was left out, once their request was sent."""
    lines = ShownTexts(
        frozenset(line for calls in recorded.lines for call in calls for line in call)
    )
    head = {**recorded.session.head, "tools": [*(recorded.session.tools or ())]}
    lines.show(find_shown_lines(list_strings(head)))
    is_shortened: dict[CallKey, bool] = {}  # by call, whether its latest result is
    quoted, quotes, repeats, place = set[int](), 0, 0, 0
    for element, called, shown in zip(
        arrived.elements, recorded.lines, recorded.shown, strict=True
    ):
        for call, found in zip(element.calls, called, strict=True):
            places = lines.find_results(found)
            quoted.update(place for each in places for place in each)
            quotes += bool(places)
            repeats += is_shortened.get(call_key(call.tool, call.arguments), False)
        lines.show(shown)
        lines.show(line for found in called for line in found)
        for _ in element.results:
            result = arrived.results[place]
            lines.show(find_shown_lines(result.texts))
            lines.show_result(place, find_shown_lines(result.client_texts))
            if result.turn is not None:
                is_shortened[call_key(result.tool, result.arguments)] = bool(result.client_texts)
            place += 1
    return References(frozenset(quoted), quotes, repeats)


def add(outcomes: Sequence[Outcome]) -> Outcome:
    """Return the sums over conversations."""

    def sums(find: Callable[[Outcome], tuple[float, ...]]) -> tuple[float, ...]:
        return tuple(map(sum, zip(*map(find, outcomes), strict=True)))

    return Outcome(
        whole=sums(lambda each: each.whole),
        alone=sums(lambda each: each.alone),
        windowed=sums(lambda each: each.windowed),
        results=sum(each.results for each in outcomes),
        shortened=sum(each.shortened for each in outcomes),
        quoted=sum(each.quoted for each in outcomes),
        chars=sum(each.chars for each in outcomes),
        left_out=sum(each.left_out for each in outcomes),
        calls=sum(each.calls for each in outcomes),
        quotes=sum(each.quotes for each in outcomes),
        repeats=sum(each.repeats for each in outcomes),
    )


def render(variant: Variant, outcome: Outcome) -> str:
    """Return the row of a policy."""
    bills = (
        f"{paid[at] / outcome.whole[at]:.3f}"
        for at in range(len(PRICES))
        for paid in (outcome.alone, outcome.windowed)
    )
    cells = (
        variant.name,
        *bills,
        f"{outcome.shortened}",
        f"{outcome.left_out / max(1, outcome.chars):.1%}",
        f"{outcome.quoted / max(1, outcome.shortened):.0%}",
        f"{outcome.quotes / max(1, outcome.calls):.2%}",
        f"{outcome.repeats / max(1, outcome.calls):.2%}",
    )
    return f"| {' | '.join(cells)} |"


def main() -> None:
    counter = TokenCounter()
    conversations = [*read_recorded(map(Path, sys.argv[1:]), counter)]
    if not conversations:
        raise SystemExit(f"no conversation with {LEAST_RESULTS} results")
    rows = [
        (variant, add([measure(recorded, variant, counter) for recorded in conversations]))
        for variant in VARIANTS
    ]
    whole = rows[0][1]
    print(
        f"{len(conversations)} conversations with {LEAST_RESULTS} results or more, each once: "
        f"{whole.results:,} results of {whole.chars:,} characters, {whole.calls:,} calls.\n"
        "Longer than 8,000 characters is shortened, to 6,000, half of it in the head, where a row "
        "says nothing else."
    )
    bills = (f"{p.read:g}, {p.write:g} {kind}" for p in PRICES for kind in ("alone", "+window"))
    columns = ("shortened", "left out", "quoted", "calls quote", "repeat")
    print(f"| policy | {' | '.join((*bills, *columns))} |")
    print(f"|---|{'--:|' * (2 * len(PRICES) + len(columns))}")
    for variant, outcome in rows:
        print(render(variant, outcome))


if __name__ == "__main__":
    main()
