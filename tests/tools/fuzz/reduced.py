"""What the contract's section 4 says of a request that reduction has changed, read slowly.

Before is the request as the other strategies leave it. Where roles must alternate, or the user
speaks first, more is kept than the contract asks for; so there only what must stay is checked.
"""

import json
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any

from masking.reduction import ReductionOptions
from tests.spec.readers import Given, Spoken
from tests.spec.reference import Read, read
from tests.tools.fuzz.json_nodes import find_members

_ANY_ORDER = ("chat", "ollama")
"""Where anybody may speak after anybody, so that the contract alone says what is kept."""

_LABEL = "Summary of earlier history (messages left out: "


def find_reduction_fault(
    name: str, before: bytes, after: bytes, settled: Sequence[bool], options: ReductionOptions
) -> str | None:
    """Return what is wrong with a reduction; `settled` are the results that are placeholders."""
    found, left = _Request(name, before), _Request(name, after)
    if found.around != left.around:
        return "reduction changed what stands around the list"
    budget = options.max_input_chars
    if len(found.items) <= 2 or found.size <= budget:
        return None if after == before else "reduced a request within its budget"
    kept = _find_kept(name, found.read, options.preserve_recent_raw_turns)
    masked = _mask(found, kept, settled, options) if options.observation_masking else {}
    size = found.size - sum(len(old) - len(new) for old, new in masked.values())
    if size <= budget:
        is_right = left.document == _put(json.loads(before), masked, found)
        return None if is_right else "the first stage would do, and another outcome was sent"
    if after == before:
        may_drop = any(found.read.spoken[at].speaker != "system" for at in kept)
        is_wrong = may_drop and len(kept) < len(found.items) and name in _ANY_ORDER
        return "dropped nothing, and is over its budget" if is_wrong else None
    return _judge_dropped(name, found, left, kept, options)


class _Request:
    """A request: the bytes of its elements, what is around them, what they say, and its size."""

    def __init__(self, name: str, body: bytes) -> None:
        self.document = json.loads(body)
        self.read = read(name, self.document)
        text = body.decode()
        at = text.index("{")
        for key in self.read.at:
            at = next(m.start for m in reversed(find_members(text, at)) if m.key == key)
        members = find_members(text, at)
        self.items = [text[each.start : each.end] for each in members]
        self.around = (text[: at + 1].rstrip(), text[members[-1].end :].lstrip() if members else "")
        own = sum(len(text) for spoken in self.read.spoken for text in spoken.texts)
        texts = [text + tail for given in self.read.given for _, text, tail in given.texts]
        self.size = own + sum(map(len, texts))


def _find_kept(name: str, found: Read, recent: int) -> set[int]:
    """Return the elements that are kept: the system's, the last ones, and their pairs."""
    others = [at for at, each in enumerate(found.spoken) if each.speaker != "system"]
    last = max((at for at, each in enumerate(found.spoken) if each.speaker == "model"), default=-1)
    unread = {at for at in found.places if at > last}
    gone = {*(others[:-recent] if recent > 0 else others)} - unread
    kept = {*range(len(found.spoken))} - gone
    pairs = [*_find_pairs(name, found)]
    before = -1
    while before < len(kept):
        before = len(kept)
        for pair in pairs:
            if pair & kept:
                kept |= pair
    return kept


def _find_pairs(name: str, found: Read) -> Iterator[set[int]]:
    """Yield each answer with calls together with the results bound to it."""
    answers: dict[int, set[int]] = {}
    for answer in _find_answers(name, found.spoken):
        if any(call.call_id is not None for at in answer for call in found.spoken[at].calls):
            answers[found.turns[max(answer) + 1] - 1] = answer
    for given, place in zip(found.given, found.places, strict=True):
        if given.turn is not None:
            yield {place, *answers[given.turn]}


def _find_answers(name: str, spoken: Sequence[Spoken]) -> Iterator[set[int]]:
    """Yield the elements of each answer of the model: in some formats a run of them is one."""
    runs = groupby(range(len(spoken)), lambda at: spoken[at].speaker == "model")
    for run in (set(places) for is_answer, places in runs if is_answer):
        yield from [run] if name in ("responses", "gemini") else ({at} for at in run)


def _mask(
    found: _Request, kept: set[int], settled: Sequence[bool], options: ReductionOptions
) -> dict[tuple[int, int], tuple[str, str]]:
    """Return what the first stage replaces, by the number of a result and of a text in it."""
    masked = {}
    for number, (given, place) in enumerate(zip(found.read.given, found.read.places, strict=True)):
        if place in kept or settled[number] or given.kind == "other" or _parts_a_block(given):
            continue
        for at, (_, text, _) in enumerate(given.texts):
            new = _mask_text(text, options.max_observation_chars)
            if new != text:
                masked[number, at] = (text, new)
    return masked


def _parts_a_block(given: Given) -> bool:
    return len(_find_blocks(given.said)) > sum(len(_find_blocks(t)) for _, t, _ in given.texts)


_BLOCK = re.compile(
    "BEGIN_DISPATCH_RESULT(?:(?!BEGIN_DISPATCH_RESULT|END_DISPATCH_RESULT).)*END_DISPATCH_RESULT",
    re.DOTALL,
)


def _find_blocks(text: str) -> list[str]:
    return _BLOCK.findall(text)


def _mask_text(text: str, most: int) -> str:
    blocks = _find_blocks(text)
    outside = len(text) - sum(map(len, blocks))
    kind = "dispatch output" if blocks else "observation"
    new = "\n".join((_clip(f"[{kind} masked — {outside} chars]", max(1, most)), *blocks))
    if len(new) >= len(text):
        return text
    if text.startswith(f"[{kind} masked — ") and blocks:  # perhaps its own outcome
        first = text.split("\n")[0]
        if re.fullmatch(re.escape(f"[{kind} masked — ") + r"[0-9]+ chars\]", first):
            return text if text == "\n".join((first, *blocks)) else new
    return new


def _clip(text: str, most: int) -> str:
    if len(text) <= most:
        return text
    return text[: most - 3] + "..." if most >= 3 else text[:most]


def _put(document: Any, masked: Any, found: _Request) -> Any:  # noqa: ANN401 - JSON
    for (number, at), (_, new) in masked.items():
        given = found.read.given[number]
        path, _, tail = given.texts[at]
        holder = document
        for key in path[:-1]:
            holder = holder[key]
        holder[path[-1]] = {given.wrap: new} if given.wrap else new + tail
    return document


def _judge_dropped(
    name: str, found: _Request, left: _Request, kept: set[int], options: ReductionOptions
) -> str | None:
    """Say what is wrong with a request that has lost elements."""
    places = [*_match(found.items, left.items)]
    new = [at for at, place in enumerate(places) if place is None]
    there = {place for place in places if place is not None}
    if len(new) > 1:
        return "more than one element is new"
    if Counter(found.items[at] for at in kept) - Counter(left.items):
        return "an element is gone that is to be kept"
    is_clear = len({*found.items}) == len(found.items)
    torn = (pair for pair in _find_pairs(name, found.read) if pair & there and pair - there)
    if is_clear and (pair := next(torn, None)):
        return f"a call is parted from its results: {sorted(pair)}"
    if new and (wrong := _judge_summary(found, left, new[0], options)):
        return wrong
    stays = [item for at, item in enumerate(left.items) if at not in new]
    if name in _ANY_ORDER and stays != [found.items[at] for at in sorted(kept)]:
        return "an element stays that is not to be kept"
    has_room = left.size + options.summary_max_chars <= options.max_input_chars
    if not new and name in _ANY_ORDER and has_room and options.summary_max_chars > 0:
        return "a summary would do, and none is sent"
    if new and left.size > options.max_input_chars:
        return "a summary is sent, and is over the budget"
    return None


def _match(items: Sequence[str], left: Sequence[str]) -> list[int | None]:
    """Return where each element that is left stood; None if it is new."""
    places: list[int | None] = []
    end = len(items)
    for item in reversed(left):
        at = next((at for at in reversed(range(end)) if items[at] == item), None)
        end = end if at is None else at
        places.append(at)
    return places[::-1]


def _judge_summary(
    found: _Request, left: _Request, place: int, options: ReductionOptions
) -> str | None:
    said: Spoken = left.read.spoken[place]
    speakers = [each.speaker for each in found.read.spoken]
    leading = next((at for at, each in enumerate(speakers) if each != "system"), len(speakers))
    if said.speaker != "user" or len(said.texts) != 1 or said.given or said.calls:
        return "what is new is not one text of the user's"
    if place != leading:
        return "the summary does not stand behind the system's first messages"
    if len(said.texts[0]) > options.summary_max_chars:
        return "the summary is too long"
    gone = len(found.items) - len(left.items) + 1
    if not f"{_LABEL}{gone})".startswith(said.texts[0][: len(f"{_LABEL}{gone})")]):
        return "the summary is not labelled"
    return None
