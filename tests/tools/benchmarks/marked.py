"""The boundary where a cache is read at marks or request ends, beside the cheapest schedule.

`python -m tests.tools.benchmarks.marked [--check] FILES`: conversations of Anthropic Messages from
files, with marks as agents set them and 10,000 tokens of system prompt and tool schemas before
them, and recorded sessions as they were sent, billed as Anthropic does; and the same blocks billed
as OpenAI does from gpt-5.6 on. The bills are those of `tests.tools.provider.vendor_caches`, in
o200k tokens; the rule decides by estimated tokens, with the shipped configuration. It prints the
rule's bill relative to sending everything and to the cheapest schedule under the same cache rules,
found by dynamic programming, without the promise and with as much of it as the rule may spend, and
the worst request of any conversation relative to sending everything. With `--check` it exits with 1
if the rule is more than 5% above the cheapest schedule that keeps the promise (8% for recorded
sessions, and where a cached token costs less than a tenth), or breaks the promise by more than a
percentage point.
"""

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple

from addon.commands.workers import open_processes
from addon.replay.files import RecordedConversation
from addon.replay.replay import Session
from masking.conversation import Conversation
from masking.model import Decision
from masking.prices import PriceSettings, Pricing
from masking.rewrite import read_request
from masking.tokens import TokenCounter
from masking.window import BoundaryPrices, MaskPolicy, lay_out, price_boundary, price_request
from masking.window.boundary import Boundary, window_edge
from masking.window.decide import evaluate, measure_candidates
from masking.wire.messages import MESSAGES
from tests.support.block_schedules import (
    NEVER,
    BlockConversation,
    Maskable,
    Request,
    find_cheapest,
    move_at,
    send_all,
)
from tests.support.first_masked import find_first_masked
from tests.support.kinds import make_text, make_tools
from tests.support.marking import (
    MARKERS,
    Marker,
    mark_as_claude_code,
    mark_for_an_hour,
    mark_nothing,
)
from tests.support.read_sessions import read_sessions
from tests.tools.benchmarks.assumed import read_shipped
from tests.tools.provider.vendor_caches import (
    FIVE_MINUTES,
    HOUR,
    AnthropicCache,
    OpenAICache,
    Prices,
    bill_all,
    find_worst,
)

MARGIN = 0.01
HIGHEST = 1.05
HIGHEST_OF_OTHERS = 1.08
"""For models whose cached tokens cost less than a tenth, where the promise forbids most moves, and
for the few recorded sessions, which may end before a last move has paid."""

IMAGE_TOKENS = 1_600
"""About what a screenshot costs."""
FRAME_TOKENS = 4
"""What a block costs besides its texts."""
HOSTS = {"claude": "api.anthropic.com", "gpt": "api.openai.com"}


class Case(NamedTuple):
    """How the conversations are sent, and to whom."""

    client: str
    marker: Marker
    model: str


CASES = (
    *(Case(client, marker, "claude-opus-5") for client, marker in MARKERS.items()),
    Case("claude-code, an hour", mark_for_an_hour, "claude-opus-5"),
    Case("claude-code", mark_as_claude_code, "claude-opus-4-6"),
    Case("claude-code", mark_as_claude_code, "claude-opus-5-5"),
    Case("claude-code", mark_as_claude_code, "claude-fable-5-1"),
    Case("request ends", mark_nothing, "gpt-5.6"),
    Case("request ends", mark_nothing, "gpt-6.1-sol"),
)


AS_SENT = tuple(
    Case("as recorded", mark_nothing, model)
    for model in (
        *("claude-opus-5", "claude-opus-5-5", "claude-fable-5-1"),
        *("gpt-5.6", "gpt-6.1-sol"),
    )
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """Bills: of everything sent, of the rule, of the cheapest schedule, and that with the promise.

    worst: the highest bill of the rule at any request, relative to sending everything.
    """

    everything: float = 0.0
    rule: float = 0.0
    cheapest: float = 0.0
    cheapest_kept: float = 0.0
    worst: float = 1.0

    def __add__(self, other: "Outcome") -> "Outcome":
        return Outcome(
            everything=self.everything + other.everything,
            rule=self.rule + other.rule,
            cheapest=self.cheapest + other.cheapest,
            cheapest_kept=self.cheapest_kept + other.cheapest_kept,
            worst=max(self.worst, other.worst),
        )


def compare(session: Session, policy: MaskPolicy) -> list[Outcome]:
    """Return what each case comes to for a conversation."""
    return [compare_case(session, policy, case) for case in find_cases(session)]


def find_cases(session: Session) -> tuple[Case, ...]:
    """Return how a conversation is sent."""
    return CASES if isinstance(session, RecordedConversation) else AS_SENT


def compare_case(session: Session, policy: MaskPolicy, case: Case) -> Outcome:
    """Return what a conversation costs under the rule and under the cheapest schedules."""
    bodies = [*read_bodies(session)]
    marked = [case.marker(add_head(body)) for body in bodies]
    request = read_request(json.dumps({**marked[-1], "model": case.model}).encode(), MESSAGES)
    host = HOSTS[case.model.partition("-")[0]]
    pricing = price_request(PriceSettings(), host, case.model, request.request)
    boundary = price_boundary(pricing, marks=request.marks)
    rendering = policy.rendering if boundary.slides else policy.shrinking_rendering
    decisions = evaluate(request.results, policy, rendering, request.history)
    since = find_since(request, decisions, policy, boundary)
    is_openai = pricing.cache.reads_at == "request ends"
    talk, places = read_blocks(request, decisions, marked, policy, is_openai=is_openai)
    prices = find_prices(pricing)
    cache = partial(OpenAICache if is_openai else AnthropicCache, prices)

    def bill(first: Sequence[int]) -> list[float]:
        return [*bill_all(cache(), send_all(talk, first))]

    whole = bill([NEVER] * len(talk.results))
    paid = bill([since[place] for place in places])
    return Outcome(
        everything=sum(whole),
        rule=sum(paid),
        cheapest=sum(bill(move_at(talk, find_cheapest(talk, prices, whole)))),
        cheapest_kept=sum(
            bill(move_at(talk, find_cheapest(talk, prices, whole, policy.estimated_loss)))
        ),
        worst=find_worst(paid, whole),
    )


def find_prices(pricing: Pricing) -> Prices:
    """Return the prices of a model in the vendor's terms."""
    short, long = pricing.written_prices
    return Prices(pricing.read, short, long, pricing.cache.minimum, pricing.steps)


def read_bodies(session: Session) -> Iterator[dict[str, Any]]:
    """Yield the requests of a conversation: of a file without writing them, or as recorded.

    A recorded request without tools is the client's own, such as for a title.
    """
    if isinstance(session, RecordedConversation):
        for at, message in enumerate(session.messages):
            if at and message["role"] == "assistant":
                yield {"messages": [*session.messages[:at]]}
    else:
        bodies = (json.loads(recorded.body) for recorded in session.requests())
        yield from (body for body in bodies if body.get("tools"))


@cache
def make_head() -> Mapping[str, object]:
    """Return a system prompt and tool schemas of about 10,000 tokens."""
    return {"system": make_text("English prose", 26_000), "tools": make_tools(16_000)}


def add_head(body: dict[str, Any]) -> dict[str, Any]:
    """Return a request with what stands before an agent's messages."""
    return {**make_head(), **body}


def find_since(
    request: Conversation,
    decisions: Sequence[Decision],
    policy: MaskPolicy,
    prices: BoundaryPrices,
) -> list[int]:
    """Return for each result the request at which the rule masks it first."""
    layout = lay_out(request)
    candidates = measure_candidates(decisions, layout, request.history)
    boundary = Boundary(candidates, policy, prices, layout.marked)
    first = find_first_masked(boundary, layout.requests)
    return [first.get(place, NEVER) for place in range(len(decisions))]


def read_blocks(
    request: Conversation,
    decisions: Sequence[Decision],
    marked: Sequence[Mapping[str, Any]],
    policy: MaskPolicy,
    *,
    is_openai: bool,
) -> tuple[BlockConversation, list[int]]:
    """Return a conversation's blocks, and the places of the results that can be masked."""
    counter = TokenCounter()
    blocks = [*list_blocks(marked[-1])]
    tokens = [count_block(block, counter) for block in blocks]
    head = len(blocks) - sum(len(as_list(m["content"])) for m in marked[-1]["messages"])
    starts = [head]
    for message in marked[-1]["messages"]:
        starts.append(starts[-1] + len(as_list(message["content"])))
    requests = []
    for body in marked:
        found = [block.get("cache_control") for block in list_blocks(body)]
        if "cache_control" in body:
            found[-1] = body["cache_control"]
        marks = [(at, find_lifetime(mark)) for at, mark in enumerate(found) if mark]
        requests.append(Request(len(found), marks))
    turns = [each.turns for each in lay_out(request).requests]
    places, results = [], []
    for place, decision in enumerate(decisions):
        turn = decision.result.turn
        if decision.reason == "masked" and turn is not None:
            saving = sum(
                counter.count(r.text) - counter.count(r.placeholder) for r in decision.replacements
            )
            at = starts[decision.result.element] + int(decision.replacements[0].slot[1])
            ripe = next((n for n, t in enumerate(turns) if turn < window_edge(policy, t)), NEVER)
            places.append(place)
            results.append(Maskable(at, saving, ripe))
    ends = frozenset(each.blocks - 1 for each in requests) if is_openai else frozenset()
    return BlockConversation(tokens, requests, results, ends), places


def list_blocks(body: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Yield the blocks of a request in the order in which they are rendered."""
    yield from body.get("tools", ())
    yield from as_list(body.get("system"))
    for message in body["messages"]:
        yield from as_list(message["content"])


def as_list(content: object) -> list[dict[str, Any]]:
    """Return a content as blocks."""
    if isinstance(content, list):
        return content
    return [] if content is None else [{"type": "text", "text": content}]


def count_block(block: Mapping[str, Any], counter: TokenCounter) -> int:
    """Return the tokens of a block: those of its strings, and of images."""
    if block.get("type") == "image":
        return IMAGE_TOKENS
    inner = block.get("content")
    parts = as_list(inner) if block.get("type") == "tool_result" else []
    rest = {key: value for key, value in block.items() if not (parts and key == "content")}
    own = counter.count("\n".join(find_strings(rest)))
    return FRAME_TOKENS + own + sum(count_block(part, counter) for part in parts)


def find_strings(value: object) -> Iterator[str]:
    """Yield the strings in a JSON value that are part of the prompt."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, item in value.items():
            if key not in _UNSEEN:
                yield from find_strings(item)
    elif isinstance(value, list):
        for item in value:
            yield from find_strings(item)


_UNSEEN = ("cache_control", "type", "id", "tool_use_id", "signature")


def find_lifetime(mark: Mapping[str, object]) -> float:
    """Return the seconds that a mark asks for."""
    return HOUR if mark.get("ttl") == "1h" else FIVE_MINUTES


def find_highest(case: Case) -> float:
    """Return how far above the cheapest schedule that keeps the promise the rule may be."""
    return HIGHEST if case in CASES and case.model not in CHEAP else HIGHEST_OF_OTHERS


CHEAP = ("claude-opus-5-5", "claude-fable-5-1", "gpt-6.1-sol")


def main() -> int:
    paths = [Path(argument) for argument in sys.argv[1:] if not argument.startswith("--")]
    policy = read_shipped().policy
    sessions = [*read_sessions(paths)]
    with open_processes() as executor:
        found = list(executor.map(partial(compare, policy=policy), sessions))
    print(f"{len(sessions)} conversations, {policy.window_turns} turns, o200k tokens")
    print("| marks | model | of everything | of the cheapest | with the promise | worst request |")
    print("|---|---|--:|--:|--:|--:|")
    sums: dict[Case, Outcome] = {}
    for session, outcomes in zip(sessions, found, strict=True):
        for case, outcome in zip(find_cases(session), outcomes, strict=True):
            sums[case] = sums.get(case, Outcome()) + outcome
    for case, o in sums.items():
        cells = (
            f"{o.rule / o.everything:.3f}",
            f"{o.rule / o.cheapest:.4f}",
            f"{o.rule / o.cheapest_kept:.4f}",
            f"{o.worst:.3f}",
        )
        print(f"| {case.client} | {case.model} | {' | '.join(cells)} |")
    limit = 1 + policy.max_loss + MARGIN
    is_wrong = any(
        o.rule > find_highest(case) * o.cheapest_kept or o.worst > limit for case, o in sums.items()
    )
    return int(is_wrong and "--check" in sys.argv)


if __name__ == "__main__":
    sys.exit(main())
