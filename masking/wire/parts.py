"""What more than one format has in its parts: cache marks, images, and reasoning that is bound.

Reasoning is bound to everything before it by the newest models. Claude's are: once a text before a
thinking block has changed, a request with that block is refused
(platform.claude.com/docs/en/build-with-claude/preserved-thinking). OpenAI's from GPT-5.6 on are not
given such reasoning, without a word
(developers.openai.com/api/docs/guides/keep-prefix-unchanged). It holds for every later model, so a
version that is not known counts as a new one.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import NamedTuple

from masking.model import Image, Path, ToolResult, describe_image, make
from masking.tokens import UNKNOWN_TOKENS, estimate_tokens, read_header
from masking.wire.format import Charge, Marks, Notes, OnHistoryEdit, as_list, is_text_part

CACHE_MARK = "cache_control"
"""Anthropic's mark, a key of what it ends a cached prefix with."""

CACHE_POINT = "cachePoint"
"""Converse's mark, the key of a block of its own behind what it marks."""

_USUAL_LIFETIME = "5m"
"""How long a marked prompt is kept if the mark does not say."""


def find_lifetimes(marked: Iterable[Mapping[str, object]], key: str = CACHE_MARK) -> Iterator[str]:
    """Yield the lifetime that each mark on one of these objects asks for, as spelled."""
    for item in marked:
        if isinstance(mark := item.get(key), dict):
            lifetime = mark.get("ttl")
            yield lifetime if isinstance(lifetime, str) else _USUAL_LIFETIME


def join_marks(
    head: Iterable[Mapping[str, object]],
    notes: Iterable[Notes],
    body: Mapping[str, object],
    key: str = CACHE_MARK,
    asked: Sequence[str] = (),
) -> Marks:
    """Return the marks of a request: before the list, in it, and on the body for the list's end.

    asked: the lifetimes that are asked for without a mark.
    """
    in_head = (*find_lifetimes(head, key),)
    in_list = (*chain.from_iterable([e.lifetimes for e in notes]), *find_lifetimes((body,), key))
    return Marks(bool(in_head), bool(in_list), (*asked, *in_head, *in_list))


def find_marked(items: Sequence[object], key: str = CACHE_MARK) -> Sequence[object]:
    """Return these items up to the last one with a mark; none without any."""
    for count in range(len(items), 0, -1):
        item = items[count - 1]
        if isinstance(item, dict) and isinstance(item.get(key), dict):
            return items[:count]
    return ()


def without_mark(value: object, key: str = CACHE_MARK) -> object:
    """Return a value without its mark; the very value if it has none."""
    if not isinstance(value, dict) or key not in value:
        return value
    return {name: item for name, item in value.items() if name != key}


def unmark_content(value: object) -> object:
    """Return an object with its content as `unmark_parts` writes it, if that is a list."""
    if not isinstance(value, dict) or not isinstance(value.get("content"), list):
        return value
    return {**value, "content": unmark_parts(value["content"])}


def unmark_parts(
    parts: Sequence[object], key: str = CACHE_MARK, text_types: Sequence[str] = ("text",)
) -> object:
    """Return a content without marks; a content of one text part becomes a string.

    Agents move the mark to the end of every request, and for that write a string as a list of one
    part. The mark is not part of the prompt.
    """
    unmarked = [without_mark(part, key) for part in parts]
    match unmarked:
        case [{"type": kind, "text": str(text), **others}] if kind in text_types and not others:
            return text
    return unmarked


def count_blocks(element: object) -> int:
    """Return the blocks of an element as a cache counts them: parts of its content, and calls."""
    if not isinstance(element, dict):
        return 1
    content, calls = element.get("content"), element.get("tool_calls")
    own = len(content) if isinstance(content, list) else bool(content)
    return max(1, own + (len(calls) if isinstance(calls, list) else 0))


UNKNOWN_PART_TOKENS = UNKNOWN_TOKENS
"""A guess at a part that has no text and is no image, such as a PDF, or audio.

A provider bills it, and a request does not tell for how much. The bill takes the same guess as the
rule: without it, what masking saves would look like a larger part of the prompt than it is.
"""

ENCRYPTED_CHARS_PER_TOKEN = 6
"""Of reasoning that is encrypted, in base64: it takes four characters for three, and a token of
English has some four and a half."""

_TEXTS = ("text", "refusal", "stdout", "stderr")
"""The keys of OpenAI's parts that hold a text."""

_DATA_URL = re.compile(r"data:(image/[\w.+-]*)[^,]{0,64}?;base64,", re.IGNORECASE)
_MEDIA_TYPE = re.compile(r"image/([\w.+-]{1,16})", re.IGNORECASE | re.ASCII)


class Picture(NamedTuple):
    """What a part tells of its image.

    chars: the length of its data, or of its address.
    tokens: what it costs; a guess if its size is not known.
    kind: such as `png`; None if it is not known.
    size: its width and height in pixels; None if the header cannot be read.
    """

    chars: int
    tokens: int = UNKNOWN_TOKENS
    kind: str | None = None
    size: tuple[int, int] | None = None


_Formula = Callable[[int, int], int]
"""The tokens of an image by its width and its height, as its vendor counts them."""


def read_picture(data: object, media_type: object, formula: _Formula) -> Picture:
    """Read an image in base64, with its media type; if it is no text, nothing is known of it."""
    if not isinstance(data, str):
        return Picture(0)
    if header := read_header(data):
        kind, width, height = header
        return Picture(len(data), formula(width, height), kind, (width, height))
    found = _MEDIA_TYPE.fullmatch(media_type) if isinstance(media_type, str) else None
    return Picture(len(data), kind=found[1].lower() if found else None)


def read_address(url: object, formula: _Formula) -> Picture:
    """Read an image that is given by its address, which may hold it, or by an id."""
    if not isinstance(url, str):
        return Picture(0)
    found = _DATA_URL.match(url)
    if found is None:
        return Picture(len(url))
    return read_picture(url[found.end() :], found[1], formula)


class ImageParts(NamedTuple):
    """How a format spells an image among the parts of a result.

    read: returns what a part tells of its image; None if it is none.
    keys: those that such a part may have; with any other one it stays, such as a cache mark.
    text_part: what a part with a text has beside the text.
    """

    read: Callable[[Mapping[str, object]], Picture | None]
    keys: frozenset[str]
    text_part: Mapping[str, object]

    def find(self, part: object, slot: Path) -> Image | None:
        """Return the image in a part, with what can take its place.

        None if there is none, or if the text would be longer, in characters or in tokens.
        """
        if not isinstance(part, dict) or not part.keys() <= self.keys:
            return None
        picture = self.read(part)
        if picture is None:
            return None
        text = describe_image(picture.kind, picture.size)
        if picture.chars < len(text) or picture.tokens <= estimate_tokens(text):
            return None
        return Image(slot, part, picture.tokens, text, {**self.text_part, "text": text})


def read_content(
    call_id: str | None,
    at: Path,
    content: object,
    images: ImageParts,
    *,
    is_error: bool,
    is_text: Callable[[object], bool] = is_text_part,
) -> ToolResult:
    """Read a result whose content at a path is a text, or parts, whose texts and images may go."""
    if isinstance(content, str):
        return ToolResult(call_id, "string", (content,), (at,), is_error)
    parts = as_list(content)
    places = [place for place, part in enumerate(parts) if is_text(part)]
    found = [images.find(part, (*at, place)) for place, part in enumerate(parts)]
    return ToolResult(
        call_id,
        "text_parts" if places else "other",
        tuple([parts[place]["text"] for place in places]),
        tuple([(*at, place, "text") for place in places]),
        is_error,
        images=tuple([image for image in found if image]),
    )


def charge_content(
    content: object,
    result: int | None,
    read_image: Callable[[Mapping[str, object]], Picture | None],
) -> list[Charge]:
    """Return the charges of a content of OpenAI's: a text, or parts."""
    if isinstance(content, str):
        return [make(Charge, (content, 0, result, ""))]
    charges = []
    for part in as_list(content):
        known = part if isinstance(part, dict) else {}
        texts = [text for key in _TEXTS if isinstance(text := known.get(key), str)]
        if texts:
            charges += [Charge(text, 0, result) for text in texts]
        else:
            picture = read_image(known)
            tokens = picture.tokens if picture else UNKNOWN_PART_TOKENS
            charges.append(Charge("", tokens, result))
    if result is not None and not charges:  # a result without a content is one all the same
        charges.append(Charge("", 0, result))
    return charges


_CLAUDE = re.compile(r"claude|anthropic|\b(?:opus|sonnet|haiku|fable|mythos)\b", re.IGNORECASE)
_VERSION = re.compile(
    r"(?:opus|sonnet|haiku|fable|mythos)-(?P<major>\d{1,2})(?:[-.](?P<minor>\d{1,2}))?(?!\d)"
    r"|claude-(?P<older>v?[1-4](?!\d)|instant)",
    re.IGNORECASE,
)
_LAST_FREE = (5, 0)
_BY_ACCOUNT = re.compile(r"(?:(?:opus|sonnet|haiku)-5[-.]5|fable-5[-.]1)(?!\d)", re.IGNORECASE)
"""Refused for accounts made since 31 August 2026; an older account's request is taken as it is, if
it does not set `block_binding` (Anthropic's documentation, `build-with-claude/preserved-thinking`).
"""

_OPENAI = re.compile(
    r"(?:\b|chat)(?:gpt-(?P<major>\d{1,2})(?:\.(?P<minor>\d{1,2}))?|(?P<older>o[1-4]|codex-mini|gpt-oss|"
    r"computer-use))(?![\d.])",
    re.IGNORECASE,
)
_LAST_FREE_OPENAI = (5, 5)

_NEITHER = (
    "gemini|gemma|kimi|moonshot|glm|deepseek|qwen|minimax|grok|llama|mistral|devstral|nova|command"
    "|step|ernie|doubao|seed|mimo|longcat"
)
_OTHER_MAKERS = re.compile(rf"\b(?:gpt|o\d|codex|{_NEITHER})", re.IGNORECASE)
_NOT_OPENAI = re.compile(rf"\b(?:{_NEITHER})", re.IGNORECASE)


def find_claude_binding(model: str | None) -> OnHistoryEdit | None:
    """Return what a Claude model does with bound thinking; None for any other model."""
    if model is None or not _CLAUDE.search(model):
        return None
    found = _VERSION.search(model)
    if found is not None and not _is_newer(found, _LAST_FREE):
        return None
    return "may_refuse" if _BY_ACCOUNT.search(model) else "refuses"


def _is_newer(found: re.Match[str], last_free: tuple[int, int]) -> bool:
    """Whether a version that was found is after the last one that binds nothing."""
    return not found["older"] and (int(found["major"]), int(found["minor"] or 0)) > last_free


def find_messages_binding(model: str | None) -> OnHistoryEdit | None:
    """Return the same for a model at an API of Anthropic's format, where a name may be an alias.

    None if no model is named, as in a recorded file: nothing will be sent to one.
    """
    if model is None or _CLAUDE.search(model):
        return find_claude_binding(model)
    return None if _OTHER_MAKERS.search(model) else "refuses"


def is_binding_assumed(model: str | None) -> bool:
    """Whether a model that is said to bind its reasoning is so because its name tells nothing."""
    name = model or ""
    return not (_VERSION if _CLAUDE.search(name) else _OPENAI).search(name)


def find_responses_binding(model: str | None, *, is_encrypted: bool) -> OnHistoryEdit | None:
    """Return the same for a model at an API of OpenAI's format, where a name may be an alias.

    An unknown model can only bind reasoning that is encrypted.
    """
    name = model or ""
    if _CLAUDE.search(name):
        return find_claude_binding(name)
    if found := _OPENAI.search(name):
        return "drops" if _is_newer(found, _LAST_FREE_OPENAI) else None
    return "drops" if is_encrypted and not _NOT_OPENAI.search(name) else None
