"""What becomes of each tool result as if it were old enough: the contract's section 1, slowly."""

import json
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

from masking.redaction import RedactionPolicy
from masking.window import MaskPolicy
from tests.fuzz.signs import Words, fails, is_shorter
from tests.fuzz.spoken import Given, Where
from tests.support.priced import prices_of


@dataclass(slots=True)
class Fate:
    """Why a result stays or goes, and what is put at which paths."""

    reason: str
    texts: dict[Where, object] = field(default_factory=dict)
    images: dict[Where, object] = field(default_factory=dict)


def judge(given: Sequence[Given], policy: MaskPolicy) -> list[Fate]:
    """Return the fate of each result that is old enough, by what it is and its call."""
    words = Words(policy.placeholder_template, policy.placeholder_arguments_chars)
    fates = [_judge(each, policy, words) for each in given]
    if policy.keep_rereads:
        keys = [*map(_find_key, given)]
        again = [n for n in range(len(given)) if _is_asked_again(n, given, keys, fates, policy)]
        for place in again:
            fates[place] = Fate("reread")
    return fates


def find_named(given: Given, policy: MaskPolicy) -> str | None:
    """Return why a policy keeps a result by the names in it."""
    tool = given.tool
    if tool is not None and _matches(tool, policy.keep_tools):
        return "kept_tool"
    if policy.mask_tools and (tool is None or not _matches(tool, policy.mask_tools)):
        return "unlisted_tool"
    values = read_arguments(given).values() if policy.keep_arguments else ()
    is_kept = any(isinstance(v, str) and _matches(v, policy.keep_arguments) for v in values)
    return "kept_argument" if is_kept else None


def read_arguments(given: Given) -> dict[str, object]:
    """Return a call's arguments by name; none if they are no JSON object."""
    found = given.arguments
    if isinstance(found, str):
        try:
            found = json.loads(found)
        except ValueError:
            return {}
    return found if isinstance(found, dict) else {}


def redact(given: Given, policy: RedactionPolicy) -> Fate:
    """Return the fate of a result that is to be redacted: its texts go, whatever their length."""
    if given.kind == "other":
        return Fate("not_string")
    words = Words(policy.placeholder_template, policy.placeholder_arguments_chars)
    left = [each for each in given.texts if not words.wrote(given, each[1], each[2])]
    texts = {at: _put(given, words.write(given, text), tail) for at, text, tail in left}
    return Fate("redacted" if texts else "already_masked", texts)


def _judge(given: Given, policy: MaskPolicy, words: Words) -> Fate:
    if named := find_named(given, policy):
        return Fate(named)
    is_text = given.kind == "text" or (given.kind == "list" and policy.mask_text_parts)
    images = dict(given.images) if policy.mask_images else {}
    if policy.keep_errors:
        is_read = is_text or images
        if given.fails or (is_read and fails(given.said, policy.error_words_max_chars)):
            return Fate("error")
    if not is_text and not images:
        return Fate("not_string")
    fate = _mask_texts(given, policy, words) if is_text else Fate("already_masked")
    if images:
        fate.reason, fate.images = "masked", images
    return fate


def _mask_texts(given: Given, policy: MaskPolicy, words: Words) -> Fate:
    costs = not prices_of(policy).slides
    must_shrink = policy.skip_if_not_shorter or costs or given.kind == "list"
    left = [each for each in given.texts if not words.wrote(given, each[1], each[2])]
    is_short = policy.min_chars > 0 and sum(len(text) for _, text, _ in left) < policy.min_chars
    fate, reason = Fate("masked"), "already_masked"
    for at, text, tail in left:
        placeholder = words.write(given, text)
        if is_short:
            reason = "too_short"
        elif must_shrink and not is_shorter(placeholder, text):
            reason = "not_shorter"
        else:
            fate.texts[at] = _put(given, placeholder, tail)
    if not fate.texts:
        fate.reason = reason
    return fate


def _put(given: Given, placeholder: str, tail: str) -> object:
    return {given.wrap: placeholder} if given.wrap else placeholder + tail


def _matches(text: str, globs: Sequence[str]) -> bool:
    return any(fnmatchcase(text, glob) for glob in globs)


def _is_asked_again(
    place: int,
    given: Sequence[Given],
    keys: Sequence[tuple[str, str]],
    fates: Sequence[Fate],
    policy: MaskPolicy,
) -> bool:
    """Whether the latest equal call before had a result that was out of the window by then."""
    one = given[place]
    if one.turn is None:
        return False
    same = [
        (each.turn, at)
        for at, each in enumerate(given[:place])
        if each.turn is not None and each.turn < one.turn and keys[at] == keys[place]
    ]
    if not same:
        return False
    turn, latest = max(same)
    is_gone = fates[latest].reason in ("masked", "already_masked")
    return turn < one.turn - policy.window_turns and is_gone


def _find_key(given: Given) -> tuple[str, str]:
    found = given.arguments
    if isinstance(found, str):
        if len(found) > 1_000:  # such arguments must be spelled alike
            return str(given.tool), found
        with suppress(ValueError):  # any other text is as it is
            found = json.loads(found)
    return str(given.tool), json.dumps(found, sort_keys=True)
