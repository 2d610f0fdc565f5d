"""What the contract says of a request that was rewritten; it asks nothing of the code under test.

Every byte outside the replaced values is the client's, and what is replaced, by what, and why, is
what a slow reading of the contract expects (`tests.fuzz.expected`).
"""

import json
from collections.abc import Iterable, Sequence
from typing import Any

from masking.rewrite import Rewrite
from masking.strategies.order import Strategies
from tests.fuzz.expected import expect, leave_whole
from tests.fuzz.json_nodes import Difference, find_changes
from tests.fuzz.judged import Fate
from tests.fuzz.results import Read, read
from tests.fuzz.spoken import Given, Unclear, Where


def find_fault(
    name: str, body: bytes, rewrite: Rewrite, strategies: Strategies, *, remembers: bool = False
) -> str | None:
    """Return what is wrong with the bytes that are sent; None if nothing is.

    What a process that `remembers` its conversations has masked under other settings stays masked.
    """
    if rewrite.body == body and rewrite.body is not body:
        return "an equal body is another object"
    if strategies.reduction.reduces and not is_bound(rewrite, strategies):  # it may remove messages
        return None
    try:
        found = read(name, decode(body))
        changed = (
            [] if rewrite.body is body else [*find_changes(body.decode(), rewrite.body.decode())]
        )
        if not changed and rewrite.body is not body:
            return "changed outside of the document"
        allowed = {at for each in found.given for at in _find_places(each)}
        if wrong := [at for at in changed if at not in allowed]:
            return f"changed no content of a result: {wrong[0]}"
        return None if remembers else _compare(name, found, body, rewrite, strategies)
    except Difference as difference:
        return f"changed: {difference}"
    except (RecursionError, Unclear):
        return None


def is_bound(rewrite: Rewrite, strategies: Strategies) -> bool:
    """Whether reasoning is bound to what a request says, and may not be given up."""
    is_kept = strategies.schema1.bound_reasoning == "keep"
    return rewrite.binding == "refuses" or (rewrite.binding is not None and is_kept)


def decode(body: bytes) -> Any:  # noqa: ANN401 - JSON
    """Decode a request; what is no number to JSON, such as NaN, is equal to itself.

    An integer of more than 64 bits is read as a float, as in most languages.
    """
    text = body.decode().removeprefix("\ufeff")
    return json.loads(text, parse_constant=_NoNumber, parse_int=_read_integer)


def _read_integer(spelled: str) -> float:
    return int(spelled) if len(spelled) < _LONG_INTEGER else float(spelled)


_LONG_INTEGER = 19


class _NoNumber(float):
    """NaN, or infinity: equal to itself, so that documents can be compared."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _NoNumber) and repr(self) == repr(other)

    def __hash__(self) -> int:
        return hash(repr(self))


def _find_places(given: Given) -> Iterable[Where]:
    """Yield where a placeholder may be put."""
    for at, _, _ in given.texts if given.kind != "other" else ():
        yield at
        if given.wrap:
            yield (*at, given.wrap)
    yield from (at for at, _ in given.images)


def _compare(
    name: str, found: Read, body: bytes, rewrite: Rewrite, strategies: Strategies
) -> str | None:
    """Say in what a request differs from what the contract wants of it."""
    if is_bound(rewrite, strategies):
        return None if rewrite.body is body else "changed what reasoning is bound to"
    wanted: Iterable[list[Fate]]
    if rewrite.left_whole and b"ummar" not in body:
        return "left whole, and nobody asks for a summary"
    if rewrite.left_whole:
        wanted = [leave_whole(name, found, strategies)]
    else:
        wanted = expect(name, found, strategies)
    reasons = [each.reason for each in rewrite.decisions]
    sent, nearest = decode(rewrite.body), ""
    for fates in wanted:
        said = [fate.reason for fate in fates]
        if said != reasons:
            nearest = nearest or _tell(found, said, reasons)
        elif _replace(decode(body), fates) == sent:
            return None
        else:
            nearest = "put another text in place of a result's"
    return nearest


def _tell(found: Read, wanted: Sequence[str], reasons: Sequence[str]) -> str:
    if len(wanted) != len(reasons):
        return f"{len(reasons)} results, but {len(wanted)} are expected"
    differ = [at for at, one in enumerate(wanted) if one != reasons[at]]
    places = [f"{found.given[at].at}: {reasons[at]}, not {wanted[at]}" for at in differ[:3]]
    return f"decided otherwise: {'; '.join(places)}"


def _replace(document: Any, fates: Sequence[Fate]) -> Any:  # noqa: ANN401 - JSON
    """Return a request with what is put in place of its results."""
    for fate in fates:
        for at, value in (*fate.texts.items(), *fate.images.items()):
            holder = document
            for key in at[:-1]:
                holder = holder[key]
            holder[at[-1]] = value
    return document
