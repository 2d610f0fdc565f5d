"""Which settings to use, of a handful that are tried on recorded sessions.

Each is a change of the present settings, as `obsmask config set` would make it. To choose, every
call that asked again for what was masked counts as one more request, at the average cost of one
when everything is sent. Of the settings whose saving is then within a hundredth of the bill of the
best, the present ones are kept; else those that change least are taken, and of these the best. So
whatever is advised is worth more than that hundredth.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from msgspec.structs import replace

from addon.records.words import find_left
from addon.replay.replay import ReplaySettings
from masking.accounting import Money
from masking.window import MaskPolicy

# What is tried

LEAST_WINDOW = 5
"""The shortest window that is recommended. A recording made without masking shows which calls refer
to what would have been masked. It does not show what an agent would have missed without asking for
it again, and that matters more the shorter the window is."""

_WINDOWS = (LEAST_WINDOW, 8, 12, 20)

_KEEP_RULES: Sequence[Mapping[str, object]] = (
    {},
    {"keep_latest_turns": 0, "min_chars": 0},
    {"keep_latest_turns": 24},
    {"min_chars": 2_000},
)
"""Whether errors are kept is not tried: no call shows what an agent learns from them. Keeping the
last of each tool costs as much as keeping the latest of each target, and loses more."""

ARRIVAL = "arrival.enabled"
WINDOW = "schema1.window_turns"

Changes = Mapping[str, object]
"""Settings by their names in a configuration, where they are not the present ones."""


class Choice(NamedTuple):
    """Settings that can be tried; without changes the present ones."""

    changes: Changes
    settings: ReplaySettings


def list_choices(read: Callable[[Changes], ReplaySettings]) -> list[Choice]:
    """Return what to try, without duplicates, the present settings first.

    `read` returns the settings after changes of the present ones.
    """
    present = read({})
    policy, arrival = present.policy, present.strategies.arrival
    found: list[Changes] = [{}]
    for window in (policy.window_turns, *_WINDOWS):
        for rule in _KEEP_RULES:
            wanted = {"enabled": True, "window_turns": window, **rule}
            changes = {
                f"schema1.{name}": value
                for name, value in wanted.items()
                if value != getattr(policy, name)
            }
            if changes not in found:
                found.append(changes)
    found.append({ARRIVAL: not arrival.enabled})
    return [Choice(changes, read(changes)) for changes in found]


def switch_off(policy: MaskPolicy) -> Changes:
    """Return the changes with which everything is sent."""
    return {"schema1.enabled": False} if policy.enabled else {}


# What is chosen

_AS_GOOD = 0.01
"""Savings that differ by less, as a part of the bill of sending everything, are taken as equal."""

_MARGIN = 0.02
"""How far a loss may exceed the promise: the boundary's rule works with estimated tokens, and does
not know a cache's minimum and blocks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What settings yield on all sessions together.

    calls: all of them; of these, `rereads` repeat or name what was masked, and `quotes` quote it.
    worst: the highest bill of any conversation at any of its requests, relative to that of sending
        everything.
    window_turns: the setting; 0 if nothing is masked.
    """

    changes: Changes
    money: Money
    calls: int = 0
    rereads: int = 0
    quotes: int = 0
    worst: float = 1.0
    window_turns: int = 0

    @property
    def left(self) -> float:
        """The part of the bill that is saved if each call that asked again cost one more request.

        What may as well be nothing is taken for nothing.
        """
        money = self.money
        if money.saved > 0 and not money.is_certain:
            money = replace(money, after=money.before)
        return find_left(money) if money.before else 0.0

    @property
    def switches_arrival(self) -> bool:
        """Whether arrival is switched, which is tried and never recommended.

        Its signs say too little: the agents had seen the results whole.
        """
        return ARRIVAL in self.changes

    def keeps(self, promise: float) -> bool:
        """Whether no conversation's bill ever exceeded what a promise allows."""
        return self.worst <= 1 + promise + _MARGIN

    @property
    def is_window_long_enough(self) -> bool:
        """Whether the window is long enough for recordings to show what it costs an agent."""
        return not 0 < self.window_turns < LEAST_WINDOW


def recommend(outcomes: Iterable[Outcome], promise: float, least_window: int = 0) -> Outcome:
    """Return what to use; settings that send everything, which keep any promise, are among them.

    promise: the `max_loss` that no conversation may exceed.
    least_window: what is set by name overrides the window that an agent has of its own, so no
        shorter one than that is recommended.
    """
    open_to_choice = [
        each
        for each in outcomes
        if not each.switches_arrival and each.keeps(promise) and each.is_window_long_enough
        if WINDOW not in each.changes or each.window_turns >= least_window
    ]
    enough = max(each.left for each in open_to_choice) - _AS_GOOD
    return min(
        (each for each in open_to_choice if each.left >= enough),
        key=lambda each: (len(each.changes), -each.left),
    )
