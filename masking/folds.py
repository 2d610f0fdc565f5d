"""What is worked out from a list that grows at its end: gone on with from where it was left.

The one rule: what was worked out is taken up only where the list begins with the very values that
it was worked out from. So whatever is remembered, and of whichever conversation, the outcome is
that of starting anew.
"""

from collections.abc import Callable, Hashable, Sequence
from operator import eq, is_
from typing import Any, Protocol, Self, TypeVar

T = TypeVar("T")
R = TypeVar("R")
Contra = TypeVar("Contra", contravariant=True)

MARKED_ELEMENTS = 4
"""How many of the last elements a client spells anew at the next request, to move a cache mark."""

Progress = dict[Hashable, tuple[object, Sequence[Any], Any]]
"""By what was worked out: under what it was, the values that it was worked out from, the outcome.

There is one outcome for each, however often settings change. Threads may share one: what is in it
is replaced, never changed.
"""


class Fold(Protocol[Contra]):
    """The outcome for the values so far, which takes the next one."""

    def take(self, value: Contra, /) -> None: ...

    def copy(self) -> Self: ...


F = TypeVar("F", bound=Fold[Any])


def fold(
    start: Callable[[], F],
    values: Sequence[Any],
    progress: Progress | None = None,
    key: Hashable = None,
    left_out: int = 0,
    under: object = None,
) -> F:
    """Return the fold over all values. It is the caller's own.

    With `progress` it goes on from the outcome at `key`, if that was worked out `under` the same
    and the values begin with those of it, and leaves there its own without the last `left_out`
    values, which may change. They must be the very objects: values that are equal may be spelled
    otherwise, as 1, 1.0 and true are in a call's arguments.
    """
    if progress is None:
        return _take_all(start(), values)
    was, known, found = progress.get(key, (None, (), None))
    count = len(known)
    if found is None or was != under or count > len(values) or not all(map(is_, known, values)):
        found, count = start(), 0
    outcome: F = found.copy()
    settled = max(count, len(values) - left_out)
    _take_all(outcome, values[count:settled])
    progress[key] = (under, values[:settled], outcome)
    return _take_all(outcome.copy(), values[settled:])


def map_each(
    function: Callable[[T], R],
    values: Sequence[T],
    progress: Progress | None = None,
    key: Hashable = None,
    under: object = None,
    is_same: Callable[[T, T], bool] = eq,
) -> list[R]:
    """Return the outcome for each value; with `progress`, those that are known are not sought anew.

    A value is known if the same one stood at its place, and the outcomes at `key` were found
    `under` the same. `is_same` says so of two objects.
    """
    if progress is None:
        return [*map(function, values)]
    then, known, outcomes = progress.get(key, (None, (), ()))
    if then != under:
        known, outcomes = (), ()
    found = [
        outcome if was is value or is_same(was, value) else function(value)
        for was, outcome, value in zip(known, outcomes, values, strict=False)
    ]
    found += map(function, values[len(found) :])
    progress[key] = (under, values, found)
    return [*found]


def duplicate(value: T) -> T:
    """Return another object with the same attributes: `copy.copy` in an eighth of the time."""
    other = object.__new__(type(value))
    other.__dict__.update(value.__dict__)
    return other


def _take_all(outcome: F, values: Sequence[Any]) -> F:
    take = outcome.take
    for value in values:
        take(value)
    return outcome
