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
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from addon.commands.work import read_sessions
from addon.commands.workers import open_processes
from addon.replay.replay import ReplaySettings, Session
from addon.replay.reread import NEVER, Rereads
from addon.replay.session_index import Segment, SessionIndex, index_session
from addon.replay.tune.fast_replay import BilledSession, FastReplay, FirstMasked
from masking.accounting.prompt import mask_pieces
from masking.model import Decision, Replacement, ToolResult
from masking.prices import PriceSettings, Pricing
from masking.rewrite import Strategies
from masking.tokens import TokenCounter
from masking.window import MaskPolicy
from tests.tools.benchmarks.assumed import TRUE_PRICES, read_shipped

LAST, POLLING = 5, 10
LATEST = 24
WINDOWS = (*range(1, 13), 14, 16, 20, 24, 28, 32, 40, 48, 64)
MASKED = ", errors masked"


def mask_as_peer(segment: Segment, counter: TokenCounter) -> FirstMasked:
    """Return what SWE-agent's rule masks of a segment."""
    counts = [count_omitted(request.results) for request in segment.requests]
    first = [bisect_right(counts, place) for place in range(len(segment.conversation.results))]
    decisions = [
        Decision(result, "masked", tuple(_replace(result)))
        for result in segment.conversation.results
    ]
    return FirstMasked(
        [
            request if request < len(counts) and decision.replacements else NEVER
            for request, decision in zip(first, decisions, strict=True)
        ],
        mask_pieces(segment.conversation, decisions, counter),
    )


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


@dataclass(frozen=True, slots=True)
class Sum:
    """What a rule yields: its bill, that of sending everything, and the calls it affects."""

    paid: float = 0.0
    whole: float = 0.0
    rereads: Rereads = field(default_factory=Rereads)

    def __add__(self, other: "Sum") -> "Sum":
        """Put two lots of sessions together."""
        return Sum(self.paid + other.paid, self.whole + other.whole, self.rereads + other.rereads)

    @property
    def bill(self) -> float:
        """The bill as a part of that of sending everything."""
        return self.paid / self.whole if self.whole else 1.0


def find_rules(policy: MaskPolicy) -> dict[str, MaskPolicy]:
    """Return our rules by their names: shipped, with the latest kept, and by the window."""
    return {
        "ours, as shipped": policy,
        f"ours, latest kept {LATEST} turns": replace(policy, keep_latest_turns=LATEST),
        **{
            f"window {turns}{note}": replace(policy, window_turns=turns, keep_errors=not note)
            for turns in WINDOWS
            for note in ("", MASKED)
        },
    }


def measure(session: Session) -> list[dict[str, Sum]]:
    """Return what each rule yields on a session, for each price; the peer's is `peer`."""
    counter, policy = TokenCounter(), read_shipped().policy
    index = index_session(session, ReplaySettings(strategies=Strategies(schema1=policy)), counter)
    return [_measure(index, price, policy, counter) for price in TRUE_PRICES]


def _measure(
    index: SessionIndex, price: Pricing, policy: MaskPolicy, counter: TokenCounter
) -> dict[str, Sum]:
    fast_replay = FastReplay(set_price(index, price), counter)
    whole = sum(request.cost for request in fast_replay.plain)

    def sum_up(billed: BilledSession) -> Sum:
        return Sum(sum(request.cost for request in billed.requests), whole, billed.rereads)

    price_settings = PriceSettings(price.ratios)
    found = {
        "peer": sum_up(fast_replay.replay_masks(lambda _, segment: mask_as_peer(segment, counter)))
    }
    for name, ours in find_rules(policy).items():
        found[name] = sum_up(
            fast_replay.replay(
                ReplaySettings(strategies=Strategies(schema1=ours), price_settings=price_settings)
            )
        )
    return found


def set_price(index: SessionIndex, price: Pricing) -> SessionIndex:
    """Return a session as if all of it had been billed at these ratios."""
    segments = (
        replace(each, pricing=replace(price, cache=each.pricing.cache)) for each in index.segments
    )
    return replace(index, segments=tuple(segments))


def find_window(found: dict[str, Sum], note: str = "") -> str | None:
    """Return the rule with the smallest window that has no more quotes than the peer."""
    most = found["peer"].rereads.quoted
    names = (f"window {turns}{note}" for turns in WINDOWS)
    return next((name for name in names if found[name].rereads.quoted <= most), None)


def render(price: Pricing, found: dict[str, Sum]) -> Iterator[str]:
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
    sums: list[dict[str, Sum]] = [{} for _ in TRUE_PRICES]
    with open_processes() as executor:
        for measured in executor.map(measure, sessions):
            for total, found in zip(sums, measured, strict=True):
                for name, one in found.items():
                    total[name] = total.get(name, Sum()) + one
    print("| read, write | rule | bill | quotes | re-reads |")
    print("|---|---|--:|--:|--:|")
    for price, total in zip(TRUE_PRICES, sums, strict=True):
        print("\n".join(render(price, total)))
    like = find_dearer(sums, MASKED)
    print(f"With no more quotes, errors masked as the peer does, ours is cheaper {_say(like)}.")
    print(f"With no more quotes, errors kept, ours is cheaper {_say(find_dearer(sums))}.")
    return 1 if like else 0


def find_dearer(sums: Sequence[dict[str, Sum]], note: str = "") -> list[str]:
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
