"""What the contract says of a request that was rewritten; it asks nothing of the code under test.

Every byte outside the replaced values is the client's, and what is replaced, by what, and why, is
what a slow reading of the contract expects (`tests.tools.fuzz.expected`). Where conversations are
remembered, the very results that were masked before may be masked besides, in the same words.
"""

import json
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

from masking.rewrite import Rewrite, Strategies
from masking.window import MaskPolicy
from tests.spec.readers import Given, Unclear, Where
from tests.spec.reference import Fate, Read, read
from tests.tools.fuzz.expected import expect, find_windows, find_words_again, leave_whole
from tests.tools.fuzz.json_nodes import Difference, find_changes


class Remembered:
    """The windows that masked each result, by its id, its turn, its place and what it has."""

    def __init__(self) -> None:
        self.is_blind = False
        """Whether a request could not be read, so that nobody knows what of it is remembered."""
        self._masked: defaultdict[tuple[object, ...], set[MaskPolicy]] = defaultdict(set)

    def check(
        self,
        found: Read,
        document: object,
        sent: object,
        wanted: Sequence[Sequence[Fate]],
        strategies: Strategies,
    ) -> str | None:
        """Say if a result is masked that neither is to be masked now nor was before.

        What was masked before has the words of that window, or redaction's, if these are now its
        tool's. They may be short enough for more texts of the very same result. It may also answer
        another call than before, where two have one id and the client has changed what precedes
        them: then it names that one.
        """
        for place, given in enumerate(found.given):
            fates = [fates[place] for fates in wanted]
            masked = self._masked[_identify(place, given, document)]
            known = [*find_words_again(given, masked, strategies.redaction)]
            for at in _find_replaceable(given):
                value = _follow(sent, at)
                if value == _follow(document, at):
                    continue
                if any(value in (f.texts.get(at), f.images.get(at)) for f in fates):
                    if not strategies.redaction.redacts:  # it may be redaction's; see `suppose`
                        masked.add(strategies.schema1)
                elif not self.is_blind and (at, value) not in known:
                    return f"{given.at}: masked because of what another result was"
        return None

    def suppose(self, found: Read, document: object, strategies: Strategies) -> None:
        """Take all that the window may mask of a request for masked, where that cannot be seen."""
        for fates in find_windows(found, strategies):
            for place, (given, fate) in enumerate(zip(found.given, fates, strict=True)):
                if fate.texts or fate.images:
                    self._masked[_identify(place, given, document)].add(strategies.schema1)


def _identify(place: int, given: Given, document: object) -> tuple[object, ...]:
    shown = [json.dumps(_follow(document, where)) for where, _ in given.images]
    return place, given.turn, given.call_id or "", given.said, *shown


def _find_replaceable(given: Given) -> list[Where]:
    """Return where a placeholder may be put."""
    return [at for at, _, _ in given.texts] + [at for at, _ in given.images]


def _follow(document: Any, at: Where) -> object:  # noqa: ANN401 - JSON
    for key in at:
        document = document[key]
    return document


def find_fault(
    name: str,
    body: bytes,
    rewrite: Rewrite,
    strategies: Strategies,
    remembered: Remembered | None = None,
) -> str | None:
    """Return what is wrong with the bytes that are sent; None if nothing is.

    With a memory, what was `remembered` before this request; it is added to.
    """
    if rewrite.body == body and rewrite.body is not body:
        return "an equal body is another object"
    try:
        found = read(name, decode(body))
        if is_bound(rewrite, strategies):  # what the others change would stand before reasoning
            strategies = Strategies(schema1=strategies.schema1)
        if remembered is not None and (
            strategies.redaction.redacts or strategies.reduction.reduces
        ):
            # Either hides what the window has masked.
            remembered.suppose(found, decode(body), strategies)
        if strategies.reduction.reduces:  # it may remove messages
            return None
        changed = (
            [] if rewrite.body is body else [*find_changes(body.decode(), rewrite.body.decode())]
        )
        if not changed and rewrite.body is not body:
            return "changed outside of the document"
        allowed = {at for each in found.given for at in _find_places(each)}
        if wrong := [at for at in changed if at not in allowed]:
            return f"changed no content of a result: {wrong[0]}"
        if remembered is None:
            return _compare(name, found, body, rewrite, strategies)
        wanted = [*expect(name, found, strategies)]
        sent = decode(rewrite.body)
        return remembered.check(found, decode(body), sent, wanted, strategies)
    except Difference as difference:
        return f"changed: {difference}"
    except (RecursionError, Unclear):
        if remembered is not None:
            remembered.is_blind = True
        return None


def is_bound(rewrite: Rewrite, strategies: Strategies) -> bool:
    """Whether reasoning is bound to what a request says, and may not be given up."""
    binding = rewrite.conversation.binding
    if binding == "drops":
        return strategies.schema1.bound_reasoning == "keep"
    return binding is not None  # nobody knows that an account takes what was changed


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
    if rewrite.left_unmasked and b"ummar" not in body:
        return "left whole, and nobody asks for a summary"
    if rewrite.left_unmasked:
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
