"""SWE-agent's rule beside ours: the bill, and what agents lose by masking.

`python -m tests.tools.benchmarks.peers_rule FILES` (.flow, JSON, JSON lines, gzipped or not, or
folders) replays every session under `LastNObservations` with n = 5 and polling = 10, and under our
rule: as shipped, with the latest result of each target kept for 24 turns, and with the smallest
window that has no more quotes than the peer, with errors kept and with errors masked. Bills are
relative to sending everything, quotes and re-reads to all calls. The peer masks errors, so the last
row compares like with like: the command exits with 1 if it costs more than the peer at any price,
or if no window has as few quotes. It also says so of the row before, which keeps errors.

Source of the rule: github.com/SWE-agent/SWE-agent, sweagent/agent/history_processors.py. Its first
observation is the task, which in Chat conversations is a message of the user's.
"""

import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from addon.commands.workers import open_processes
from addon.replay.references import SessionReferences
from addon.replay.replay import Session
from masking.conversation import Conversation
from masking.model import Decision, Replacement, ToolResult, places_masked
from masking.prices import Pricing
from masking.rewrite import Rewrite
from masking.tokens import TokenCounter
from masking.window import MaskPolicy
from tests.support.builders import unchanged
from tests.support.read_sessions import read_sessions
from tests.tools.benchmarks.assumed import TRUE_PRICES, read_shipped
from tests.tools.benchmarks.billing import NOTHING, Sums, bill_requests, follow, sum_up

LAST, POLLING = 5, 10
LATEST = 24
WINDOWS = (*range(1, 13), 14, 16, 20, 24, 28, 32, 40, 48, 64)
MASKED = ", errors masked"


def mask_as_peer(client: Conversation, _: Pricing) -> Rewrite:
    """Return what SWE-agent's rule masks of a request."""
    count = count_omitted(len(client.results))
    decisions = tuple(
        Decision(result, "masked", replacements)
        if place < count and (replacements := tuple(_replace(result)))
        else Decision(result, "in_window")
        for place, result in enumerate(client.results)
    )
    return replace(unchanged(client, decisions), masked=places_masked(decisions))


def count_omitted(results: int) -> int:
    """Return how many of so many tool results the rule masks; the task counts as one."""
    observations = results + 1
    return max(0, max(0, observations // POLLING * POLLING - LAST) - 1)


def _replace(result: ToolResult) -> Iterator[Replacement]:
    """Yield the one line that takes the place of all of its texts."""
    lines = sum(len(text.splitlines()) for text in result.texts)
    for place in range(len(result.slots)):
        line = "" if place else f"Old environment output: ({lines} lines omitted)"
        yield result.replace(place, line)


def find_rules(policy: MaskPolicy, windows: Sequence[int]) -> dict[str, MaskPolicy]:
    """Return our rules by their names: shipped, with the latest kept, and by the window."""
    return {
        "ours, as shipped": policy,
        f"ours, latest kept {LATEST} turns": replace(policy, keep_latest_turns=LATEST),
        **{
            f"window {turns}{note}": replace(policy, window_turns=turns, keep_errors=not note)
            for turns in windows
            for note in ("", MASKED)
        },
    }


def measure(session: Session, windows: Sequence[int] = WINDOWS) -> list[dict[str, Sums]]:
    """Return what each rule yields on a session, for each price; the peer's is `peer`."""
    counter, references = TokenCounter(), SessionReferences(session)
    ours = find_rules(read_shipped().policy, windows)
    rules = {"peer": mask_as_peer, **{name: follow(policy) for name, policy in ours.items()}}
    return [
        {
            name: sum_up(bill_requests(session, rule, price, counter, references))
            for name, rule in rules.items()
        }
        for price in TRUE_PRICES
    ]


def find_window(found: dict[str, Sums], note: str = "") -> str | None:
    """Return the rule with the smallest window that has no more quotes than the peer."""
    most = found["peer"].rereads.quoted
    names = (f"window {turns}{note}" for turns in WINDOWS)
    return next((name for name in names if found[name].rereads.quoted <= most), None)


def render(price: Pricing, found: dict[str, Sums]) -> Iterator[str]:
    """Yield a row for each rule at a price."""
    shown = {"SWE-agent, last 5 in steps of 10": found["peer"]}
    shown |= {name: one for name, one in found.items() if name.startswith("ours")}
    windows = [find_window(found, note) for note in ("", MASKED)]
    shown |= {f"ours, {name}": found[name] for name in windows if name is not None}
    for name, one in shown.items():
        calls = max(1, one.rereads.calls)
        quotes, rereads = one.rereads.quoted / calls, one.rereads.either / calls
        cells = (f"{price.read:g}, {price.write:g}", name, f"{one.bill:.3f}")
        yield f"| {' | '.join((*cells, f'{quotes:.1%}', f'{rereads:.1%}'))} |"


def run(sessions: Sequence[Session]) -> int:
    """Print the table; return 1 if ours, with errors masked, is not cheaper at every price."""
    sums: list[dict[str, Sums]] = [{} for _ in TRUE_PRICES]
    with open_processes() as executor:
        for measured in executor.map(measure, sessions):
            for total, found in zip(sums, measured, strict=True):
                for name, one in found.items():
                    total[name] = total.get(name, NOTHING).join(one)
    print("| read, write | rule | bill | quotes | re-reads |")
    print("|---|---|--:|--:|--:|")
    for price, total in zip(TRUE_PRICES, sums, strict=True):
        print("\n".join(render(price, total)))
    like = find_dearer(sums, MASKED)
    print(f"With no more quotes, errors masked as the peer does, ours is cheaper {_say(like)}.")
    print(f"With no more quotes, errors kept, ours is cheaper {_say(find_dearer(sums))}.")
    return 1 if like else 0


def find_dearer(sums: Sequence[dict[str, Sums]], note: str = "") -> list[str]:
    """Return the prices at which ours, with no more quotes, is not cheaper."""
    dearer = []
    for price, found in zip(TRUE_PRICES, sums, strict=True):
        window = find_window(found, note)
        if window is None or found[window].paid > found["peer"].paid:
            dearer.append(f"{price.read:g}, {price.write:g}")
    return dearer


def _say(dearer: Sequence[str]) -> str:
    return f"but for {'; '.join(dearer)}" if dearer else "at every price"


if __name__ == "__main__":
    sys.exit(run([*read_sessions(map(Path, sys.argv[1:]))]))
