"""How often the price of a broken cache allows an agent's request for a summary to go out whole.

`python -m tests.tools.benchmarks.summaries FILES` (.flow, JSON, JSON lines, gzipped or not, or
folders) asks at the half, at three quarters and at the end of every session in which anything is
masked there. Settings are as shipped; whether the request fits the model's window is not asked.
"""

import sys
from collections.abc import Iterator
from pathlib import Path

from addon.replay.replay import Session
from masking.config import Settings
from masking.conversation import Conversation
from masking.rewrite import read_request
from masking.window import MaskPolicy, lay_out
from tests.support.priced import allows_whole, at_prices, decide, evaluate, measure_candidates
from tests.support.read_sessions import read_sessions

SHIPPED = Settings().policy
CASES = {
    f"{read} and {write}, read {where}": at_prices(
        SHIPPED,
        cache_read_ratio=read,
        cache_write_ratio=write,
        reads_at="marks" if where == "at marks" else "any prefix",
    )
    for read, write, where in (
        (0.5, 1.0, "anywhere"),
        (0.25, 1.0, "anywhere"),
        (0.1, 1.0, "anywhere"),
        (0.1, 1.25, "anywhere"),
        (0.1, 1.25, "at marks"),
    )
}
"""The shipped policy by the price of a cached and of a written token, and where a cache is read."""

PARTS = (0.5, 0.75, 1.0)


def may_be_whole(conversation: Conversation, policy: MaskPolicy) -> bool | None:
    """Whether the promise allows the request to go out whole; None if nothing is masked in it."""
    if all(decision.reason != "masked" for decision in decide(conversation, policy)):
        return None
    layout = lay_out(conversation)
    maskable = measure_candidates(evaluate(conversation, policy), layout)
    return allows_whole(layout.requests, maskable, policy, marked=layout.marked)


def choose_requests(session: Session) -> Iterator[Conversation]:
    """Yield the session's requests that are asked about."""
    requests = [each for each in session.requests() if each.passed_over is None]
    for part in PARTS if requests else ():
        chosen = requests[max(0, int(len(requests) * part) - 1)]
        yield read_request(chosen.body, chosen.wire, chosen.path)


def main(paths: list[Path]) -> None:
    """Print for each price how many of the requests could go out whole."""
    conversations = [each for session in read_sessions(paths) for each in choose_requests(session)]
    for name, policy in CASES.items():
        found = [may_be_whole(conversation, policy) for conversation in conversations]
        asked = [each for each in found if each is not None]
        share = f" ({sum(asked) / len(asked):.0%})" if asked else ""
        print(f"{name}: {sum(asked)} of {len(asked)}{share}")


if __name__ == "__main__":
    main([Path(argument) for argument in sys.argv[1:]])
