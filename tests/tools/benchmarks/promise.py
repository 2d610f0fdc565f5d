"""Whether `max_loss` holds in real tokens: `python -m tests.tools.benchmarks.promise [FILES]`.

The boundary works with estimated tokens. Here every request is billed in o200k tokens, at five
prices: for the conversations of FILES, and for generated ones. For each kind of text that tools
return there are conversations in which the results are of that kind, the other texts are, or every
fourth result is; then some with tool schemas of 100 kB, and one with images. It prints the worst
request of each relative to sending everything, and exits with 1 if one exceeds `1 + max_loss` of
the shipped configuration by more than a percentage point.
"""

import random
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import cycle
from pathlib import Path

from addon.commands.workers import open_processes
from addon.replay.files import RecordedConversation
from addon.replay.replay import Session
from masking.model import ChatMessage
from masking.tokens import TokenCounter
from masking.window import MaskPolicy
from tests.support.kinds import KINDS, make_text, make_tools
from tests.support.read_sessions import read_sessions
from tests.tools.benchmarks.assumed import (
    TRUE_PRICES,
    bill_session,
    read_shipped,
)
from tests.tools.benchmarks.boundary import find_worst_part

PRICES = TRUE_PRICES[1:]
MARGIN = 0.01
TURNS = 40
PLAIN = "Python"
IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}


def _converse(
    *,
    results: Sequence[str],
    rest: str = "English prose",
    schema_chars: int = 0,
    images: bool = False,
) -> RecordedConversation:
    random_ = random.Random(f"{results} {rest} {schema_chars} {images}")
    messages: list[ChatMessage] = [
        {"role": "system", "content": make_text(rest, 4_000)},
        {"role": "user", "content": make_text(rest, 800, 1)},
    ]
    for turn, kind in zip(range(TURNS), cycle(results), strict=False):
        function = {"name": "shell", "arguments": make_text(rest, 200, turn)}
        call = {"id": f"c{turn}", "type": "function", "function": function}
        text = make_text(kind, min(60_000, int(random_.lognormvariate(7.6, 1.1))), turn)
        parts = [{"type": "text", "text": text}, IMAGE]
        content = parts if images and turn % 3 == 0 else text
        messages += [
            {"role": "assistant", "content": make_text(rest, 150, turn), "tool_calls": [call]},
            {"role": "tool", "tool_call_id": f"c{turn}", "content": content},
        ]
    messages.append({"role": "assistant", "content": "Done."})
    tools = tuple(make_tools(schema_chars)) if schema_chars else None
    return RecordedConversation(
        name="generated", place="generated", messages=tuple(messages), tools=tools
    )


def _name_all() -> Iterator[tuple[str, Callable[[], RecordedConversation]]]:
    for kind in KINDS:
        yield f"results: {kind}", partial(_converse, results=[kind])
        yield f"the rest: {kind}", partial(_converse, results=[PLAIN], rest=kind)
        yield f"now and then: {kind}", partial(_converse, results=[PLAIN, PLAIN, PLAIN, kind])
    yield "all kinds in turn", partial(_converse, results=[*KINDS])
    schemas = partial(_converse, schema_chars=100_000)
    yield "tool schemas of 100 kB", partial(schemas, results=[PLAIN])
    yield "tool schemas, padded tables", partial(schemas, results=["padded table"])
    yield "images in results", partial(_converse, results=[PLAIN], images=True)


GENERATED = dict(_name_all())
"""What makes each conversation, by a name that says what is special about it."""


def find_worst(session: Session, policy: MaskPolicy) -> list[float]:
    """Return for each price the highest bill at any request, relative to sending everything."""
    counter = TokenCounter()
    bills = (bill_session(session, policy, true, true.ratios, counter) for true in PRICES)
    return [
        max((find_worst_part(each.costs, each.whole) for each in paid), default=1.0)
        for paid in bills
    ]


def main() -> int:
    policy = read_shipped().policy
    named = [(session.name, session) for session in read_sessions([Path(a) for a in sys.argv[1:]])]
    cases: list[tuple[str, Session]] = [
        *named,
        *((name, make()) for name, make in GENERATED.items()),
    ]
    sessions = [session for _, session in cases]
    with open_processes() as executor:
        found = list(executor.map(partial(find_worst, policy=policy), sessions))
    limit = 1 + policy.max_loss + MARGIN
    rows = sorted(zip(found, cases, strict=True), key=lambda row: -max(row[0]))
    print(f"The worst request of {len(cases)} sessions against sending everything, o200k tokens")
    print(f"| session | {' | '.join(f'{p.read:g}, {p.write:g}' for p in PRICES)} |")
    print(f"|---|{'--:|' * len(PRICES)}")
    for worst, (name, _) in rows[:12]:
        print(f"| {name[:40]} | {' | '.join(f'{value:.3f}' for value in worst)} |")
    highest = max(max(worst) for worst in found)
    print(f"The worst of all is {highest:.3f}; the limit is {limit:.2f}")
    return int(highest > limit)


if __name__ == "__main__":
    sys.exit(main())
