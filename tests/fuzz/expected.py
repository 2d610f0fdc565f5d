"""What the contract wants of a request: each result's reason, and what is put where.

Sections 1 to 3, read slowly: from the whole request, with nothing remembered.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from masking.redaction import RedactionPolicy
from masking.rewrite import Strategies
from masking.window import MaskPolicy
from tests.fuzz.judged import Fate, find_named, judge, read_arguments, redact
from tests.fuzz.results import Read
from tests.fuzz.spoken import Given, Spoken
from tests.support.priced import prices_of


class Edge(NamedTuple):
    """Where masking ends: before a turn, among the first results."""

    turn: int
    results: int


def expect(name: str, found: Read, strategies: Strategies) -> Iterator[list[Fate]]:
    """Yield what may become of the results, in order: one outcome for each possible boundary.

    A window that slides has one: its own edge. Where moving has a price, the boundary stands where
    the window's edge was at some request of the conversation so far, or nowhere.
    """
    redacted = _redact(name, found, strategies.redaction)
    for masked in _mask(found, strategies.schema1):
        if redacted is None:
            yield masked
        else:
            yield [*map(_settle, masked, redacted)]


def leave_whole(name: str, found: Read, strategies: Strategies) -> list[Fate]:
    """Return what becomes of the results of a request for a summary: the window leaves it."""
    redacted = _redact(name, found, strategies.redaction)
    whole = [Fate("summary") for _ in found.given]
    return whole if redacted is None else [*map(_settle, whole, redacted)]


def _settle(masked: Fate, redacted: Fate) -> Fate:
    """A result is redaction's where that has put a placeholder; its images are the window's."""
    if redacted.reason not in ("redacted", "already_masked") and masked.reason != "off":
        return masked
    if not masked.images:
        return redacted
    reason = redacted.reason if redacted.texts else masked.reason
    return Fate(reason, redacted.texts, masked.images)


def _mask(found: Read, policy: MaskPolicy) -> Iterator[list[Fate]]:
    if not policy.enabled or policy.window_turns <= 0:
        yield [Fate("off") for _ in found.given]
        return
    fates = judge(found.given, policy)
    for edge in _find_edges(found, policy):
        yield _draw(found, policy, fates, edge)


def _find_edges(found: Read, policy: MaskPolicy) -> list[Edge]:
    """Return where the boundary may stand, the latest first.

    Where moving has a price, what a request has that is new has no part in its decision: it is made
    of the results of the request before.
    """
    last = max(0, found.turns[-1] - policy.window_turns)
    if prices_of(policy).slides:
        return [Edge(last, len(found.given))]
    ends = [*found.starts, len(found.spoken)]
    turns = [max(0, found.turns[end] - policy.window_turns) for end in ends]
    counts = [0, *(found.counts[end] for end in ends)]
    edges = [Edge(turn, count) for turn, count in zip(turns, counts, strict=False)]
    return [*dict.fromkeys([*reversed(edges), Edge(0, 0)])]


def _draw(found: Read, policy: MaskPolicy, fates: Sequence[Fate], edge: Edge) -> list[Fate]:
    window = max(0, found.turns[-1] - policy.window_turns)
    slides = prices_of(policy).slides
    kept = _find_protected(found.given[: edge.results], policy, edge, slides=slides)
    last = max((n for n, each in enumerate(found.spoken) if each.speaker == "model"), default=-1)
    drawn = []
    for place, (given, fate) in enumerate(zip(found.given, fates, strict=True)):
        reason = kept.get(place)
        if reason in ("last_images", "latest"):
            reason = find_named(given, policy) or reason
        if given.call_id is None:
            reason = "bad_id"
        elif given.turn is None:
            reason = "orphan"
        elif given.turn >= window or found.places[place] > last:
            reason = "in_window"
        elif given.turn >= edge.turn or place >= edge.results:
            reason = "held"
        drawn.append(fate if reason is None else Fate(reason))
    return drawn


def _find_protected(
    given: Sequence[Given], policy: MaskPolicy, edge: Edge, *, slides: bool
) -> dict[int, str]:
    """Return what is kept because of the other results. A call that came later was not known."""
    kept: dict[int, str] = {}
    tools: Counter[str] = Counter()
    targets = set()
    images = policy.keep_last_images if policy.mask_images else 0
    for place in reversed(range(len(given))):
        each = given[place]
        is_known = slides or not each.early
        tool = each.tool if is_known else None
        if (target := _find_target(each, policy) if is_known else None) and each.turn is not None:
            oldest = edge.turn + policy.window_turns - policy.keep_latest_turns
            if policy.keep_latest_turns > 0 and target not in targets and each.turn >= oldest:
                kept[place] = "latest"
            targets.add(target)
        if images > 0 and each.images:
            images -= len(each.images)
            kept[place] = "last_images"
        if tool is not None:
            tools[tool] += 1
            if tools[tool] <= (policy.keep_last_k_per_tool or 0):
                kept[place] = "last_k"
    return kept


def _find_target(given: Given, policy: MaskPolicy) -> tuple[str | None, str] | None:
    found = read_arguments(given)
    values = (found.get(name) for name in policy.target_arguments)
    path = next((value for value in values if isinstance(value, str) and value), None)
    return None if path is None else (given.tool, path)


def _redact(name: str, found: Read, policy: RedactionPolicy) -> list[Fate] | None:
    """Return the fate of each result by section 3; None if redaction is off."""
    if not policy.enabled or not policy.tool_names:
        return None
    triggers = _find_triggers(name, found.spoken)
    return [
        _redact_one(given, policy, answered=any(at > place for at in triggers))
        for given, place in zip(found.given, found.places, strict=True)
    ]


def _redact_one(given: Given, policy: RedactionPolicy, *, answered: bool) -> Fate:
    if given.call_id is None:
        return Fate("bad_id")
    if given.turn is None:
        return Fate("orphan")
    if given.tool not in policy.tool_names:
        return Fate("other_tool")
    return redact(given, policy) if answered else Fate("in_use")


def _find_triggers(name: str, spoken: Sequence[Spoken]) -> list[int]:
    """Return where the model answers without calls, and where a message is malformed."""
    triggers, run = [], []
    for place, each in enumerate([*spoken, Spoken("user")]):
        if each.speaker == "model" and name in ("responses", "gemini"):
            run.append(each)
            continue
        if run and not any(one.calls for one in run):
            triggers.append(place - len(run))
        run.clear()
        is_answer = each.speaker == "model" and not each.calls
        if is_answer or (each.speaker == "nobody" and not (each.given and not each.texts)):
            triggers.append(place)
    return triggers
