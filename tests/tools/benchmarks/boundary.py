"""What the boundary's rule costs on recorded conversations, beside the optimum.

`python -m tests.tools.benchmarks.boundary conversations/chat.jsonl.gz`: gzipped JSON lines with
`messages` in the Chat form. Sizes are o200k tokens of the content and of the calls' arguments, 4
more a message and 8 a call; string results only; 30 tokens a placeholder; a window of 8 turns; no
tool schemas; errors masked like anything else.
"""

import gzip
import json
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Any

from masking.messages_api import read_messages
from masking.prices import Pricing
from masking.tokens import TokenCounter
from masking.window.boundary import Candidate, RequestSize
from masking.window.policy import CERTAIN
from tests.support.priced import PricedPolicy
from tests.support.schedules import (
    Conversation,
    costs_of,
    find_edges,
    masks_of_edges,
    masks_of_rule,
    optimum,
)

WINDOW = 8
PLACEHOLDER_TOKENS = 30
PRICES = (Pricing(0.5, 1), Pricing(0.25, 1), Pricing(0.1, 1), Pricing(0.1, 1.25), Pricing(0.02, 1))


def read_conversations(path: Path) -> Iterator[Conversation]:
    """Yield the conversations of a file, measured in tokens."""
    counter = TokenCounter()
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        for line in lines:
            yield _measure(json.loads(line)["messages"], counter)


def _measure(messages: list[dict[str, Any]], counter: TokenCounter) -> Conversation:
    found = {result.element: result for result in read_messages(messages).results}
    size, turns = 0, 0
    requests: list[RequestSize] = []
    results: list[Candidate] = []
    for place, message in enumerate(messages):
        if message.get("role") == "assistant":
            requests.append(RequestSize(size, turns, len(results)))
            turns += any(call.get("id") for call in message.get("tool_calls") or ())
        tokens = _count(message.get("content"), counter)
        if place in found:
            saving = tokens - PLACEHOLDER_TOKENS if found[place].kind == "string" else 0
            results.append(Candidate(found[place].turn, size, max(0, saving), None))
        size += 4 + tokens + sum(_count_call(c, counter) for c in message.get("tool_calls") or ())
    return Conversation(requests, results)


def _count(content: object, counter: TokenCounter) -> int:
    if content is None:
        return 0
    text = content if isinstance(content, str) else json.dumps(content, ensure_ascii=False)
    return counter.count(text)


def _count_call(call: dict[str, Any], counter: TokenCounter) -> int:
    return 8 + _count((call.get("function") or {}).get("arguments"), counter)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """Bills of all conversations together, and the worst there was against sending everything."""

    everything: float
    optimum: float
    sliding: float
    rule: float
    worst: float


def find_worst_part(costs: Iterable[float], whole: Iterable[float]) -> float:
    """Return a conversation's highest bill at any request, relative to that of sending everything.

    `costs` are the costs of its requests in order, `whole` those with everything sent.
    """
    sums = zip(accumulate(costs), accumulate(whole), strict=True)
    return max((paid / full for paid, full in sums if full), default=1.0)


def compare(conversations: list[Conversation], prices: Pricing, max_loss: float = 0.1) -> Outcome:
    """Return what the rule costs; `worst` is over all requests of all conversations."""
    policy = PricedPolicy(
        enabled=True,
        window_turns=WINDOW,
        cache_read_ratio=prices.read,
        cache_write_ratio=prices.write,
        max_loss=max_loss / CERTAIN,  # sizes are exact here
    )
    everything, sliding, rule, worst = 0.0, 0.0, 0.0, 1.0
    for talk in conversations:
        edges = find_edges(talk, WINDOW)
        whole = costs_of(talk, masks_of_edges(talk, [0] * len(edges)), prices)
        costs = costs_of(talk, masks_of_rule(talk, policy), prices)
        everything += sum(whole)
        sliding += sum(costs_of(talk, masks_of_edges(talk, edges), prices))
        rule += sum(costs)
        worst = max(worst, find_worst_part(costs, whole))
    return Outcome(
        everything=everything,
        optimum=sum(optimum(talk, WINDOW, prices) for talk in conversations),
        sliding=sliding,
        rule=rule,
        worst=worst,
    )


def main() -> None:
    conversations = list(read_conversations(Path(sys.argv[1])))
    print(f"{len(conversations)} conversations; bills divided by the optimum's")
    print("| read, write | everything | sliding | rule | rule, worst request vs everything |")
    print("|---|--:|--:|--:|--:|")
    for prices in PRICES:
        o = compare(conversations, prices)
        cells = (
            f"{prices.read}, {prices.write}",
            f"{o.everything / o.optimum:.3f}",
            f"{o.sliding / o.optimum:.3f}",
            f"{o.rule / o.optimum:.4f}",
            f"{o.worst:.3f}",
        )
        print(f"| {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
