"""Incremental work over a list that only grows at its end, such as an agent's conversation.

What was worked out before is taken up only if the list begins with the very values that it was
worked out from. So the outcome never depends on what is remembered: it is that of starting over.
"""

from collections import defaultdict, deque
from collections.abc import Callable, Sequence
from itertools import chain, repeat
from operator import eq, is_
from typing import Any, Generic, Self, TypeVar, TypeVarTuple

T = TypeVar("T")
R = TypeVar("R")
Value = TypeVar("Value", contravariant=True)
Args = TypeVarTuple("Args")

UNSTABLE_TAIL = 4
"""How many of the last elements a client may write anew at its next request, to move a cache
breakpoint."""


class Copyable:
    """State with a copy that goes its own way.

    Attributes that are lists, dicts, sets, deques or `Copyable` are copied, one level deep. All
    others are shared, and so must not change.
    """

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        _CHANGEABLE.add(cls)

    def copy(self) -> Self:
        """Return an independent copy."""
        other = object.__new__(type(self))
        attributes: dict[str, Any] = other.__dict__
        attributes.update(self.__dict__)
        for name, value in attributes.items():
            if type(value) in _CHANGEABLE:
                attributes[name] = value.copy()
        return other


_CHANGEABLE: set[type] = {list, dict, defaultdict, set, deque}


class Fold(Copyable, Generic[Value]):
    """The outcome for the values so far."""

    def take(self, value: Value, /) -> None:
        """Add the next value."""


F = TypeVar("F", bound=Fold[Any])


class History:
    """What was worked out from a conversation, for its next request to continue.

    There is one outcome for each class of fold, each function and each kind of value, however often
    settings change. Threads may share a history: what is in it is replaced, never changed.
    """

    __slots__ = ("_kept",)

    def __init__(self) -> None:
        self._kept: dict[object, Any] = {}

    def __len__(self) -> int:
        return len(self._kept)

    def fork(self) -> "History":
        """Return a history that begins with all that is in this one."""
        other = History()
        other._kept = {**self._kept}
        return other

    def fold(
        self,
        make: Callable[[*Args], F],
        values: Sequence[Any],
        *args: *Args,
        unstable_tail: int = 0,
    ) -> F:
        """Return the fold over all values, begun by `make(*args)`. It is the caller's own.

        It continues the fold that is kept for `make`, if that has equal `args` and was made of the
        first of these values. They must be the very objects: values that are equal may be spelled
        differently, as 1, 1.0 and true are in a call's arguments. The last `unstable_tail` values
        are likely to be others at the next request, so the fold is kept without them.
        """
        was, known, kept = self._kept.get(make, _NOTHING)
        count = len(known)
        continues = was == args and count <= len(values) and all(map(is_, known, values))
        if not continues:
            kept, count = None, 0
        settled = max(count, len(values) - unstable_tail)
        if kept is None or settled > count:
            kept = _take_all(make(*args) if kept is None else kept.copy(), values[count:settled])
            self._kept[make] = args, values[:settled], kept
        own: F = kept.copy()
        return _take_all(own, values[settled:])

    def map_each(
        self,
        function: Callable[[T, *Args], R],
        values: Sequence[T],
        *args: *Args,
        is_same: Callable[[T, T], bool] = eq,
    ) -> list[R]:
        """Return `function(value, *args)` for each value; the list is the caller's own.

        An outcome that is kept for `function` is taken up if it was found with equal `args`, and
        for a value that `is_same` as the one that now stands at its position.
        """
        was, known, outcomes = self._kept.get(function, _NOTHING)
        if was != args:
            known = outcomes = ()
        found = [
            outcome
            if before is value or (before is not _NOTHING and is_same(before, value))
            else function(value, *args)
            for value, before, outcome in zip(
                values, chain(known, repeat(_NOTHING)), chain(outcomes, repeat(None)), strict=False
            )
        ]
        self._kept[function] = args, values, found
        return [*found]

    def part(self, name: str) -> "History":
        """Return the history of this name within this one; a new one if there is none yet.

        It is for another form of the same list, or for other settings beside these: what is worked
        out for the one would otherwise push out what is kept for the other.
        """
        found: History | None = self._kept.get(name)
        if found is None:
            found = self._kept[name] = History()
        return found

    def recall(self, kind: type[T]) -> T | None:
        """Return the value of a class that was kept last; None if there is none."""
        found: T | None = self._kept.get(kind)
        return found

    def keep(self, value: object) -> None:
        """Keep a value in place of the last one of its class."""
        self._kept[type(value)] = value


_NOTHING: tuple[None, tuple[()], Any] = None, (), ()


def _take_all(fold: F, values: Sequence[Any]) -> F:
    take = fold.take
    for value in values:
        take(value)
    return fold
