"""The nouns that everything else uses: where a tool result is, and what was decided about it.

What a request has by the hundred is a NamedTuple, which is made three times as fast as a frozen
dataclass.
"""

import re
from collections.abc import Callable, Iterable
from typing import Literal, NamedTuple, TypedDict, cast

from masking.reasons import Reason

ChatMessage = dict[str, object]
"""A Chat Completions message, with whatever keys a client gives it."""


class ToolCallFunction(TypedDict):
    """The function of a Chat Completions tool call; `arguments` are JSON text."""

    name: str
    arguments: str


class ToolCall(TypedDict):
    """A tool call in a Chat Completions message of the assistant."""

    id: str
    type: str
    function: ToolCallFunction


make = tuple.__new__
"""Makes a NamedTuple of a tuple of all its fields, in a third of the time that its own name takes.

For what a request has by the hundred and more: its elements, calls and results.
"""

Path = tuple[str | int, ...]
"""Where a value is in a JSON document: object keys and array indices, from the root."""

ContentKind = Literal["string", "text_parts", "other"]
"""What a result's content is: a string, a list with at least one text part, or anything else."""

Target = tuple[str | None, str]
"""What a call is about: its tool, if that is known, and its path-like argument."""


_IMAGE = re.compile(r"\[image(?:: [\w.+-]{1,16}(?: [0-9]+x[0-9]+)?)? masked\]", re.ASCII)


def describe_image(kind: str | None, size: tuple[int, int] | None) -> str:
    """Return the text that stands for an image, such as `[image: png 1280x800 masked]`.

    The size is in pixels; without a kind it is not told.
    """
    if kind is None:
        return "[image masked]"
    return (
        f"[image: {kind} masked]" if size is None else f"[image: {kind} {size[0]}x{size[1]} masked]"
    )


def describes_image(text: str) -> bool:
    """Whether a text is one that `describe_image` returns."""
    return text.startswith("[image") and _IMAGE.fullmatch(text) is not None


class Image(NamedTuple):
    """An image in a tool result, and what can take its place.

    slot: the path of its part within the element.
    part: that part, as decoded.
    tokens: what it costs, estimated.
    placeholder: the text that says what it was.
    text_part: a part with that text, as the format spells it.
    """

    slot: Path
    part: object
    tokens: int
    placeholder: str
    text_part: object


class ToolResult(NamedTuple):
    """One tool result of a request, bound to its call.

    at: the path of the element that holds it.
    slots: the paths of its `texts` from there.
    call_id: None if the result names no call.
    tool: None if the name is unknown.
    turn: the turn that declares the call, counted from 0, the oldest; None if no turn does.
    texts: those in its content, in order, whatever else the content holds.
    target: None if the call has none or nobody asks.
    wrap, tails, images: as in `elements.Result`.
    arguments: those of the call, as in `elements.Call`; None if no turn declares it.
    """

    at: Path
    slots: tuple[Path, ...]
    call_id: str | None
    tool: str | None
    turn: int | None
    kind: ContentKind
    texts: tuple[str, ...]
    is_error: bool
    target: Target | None = None
    wrap: str | None = None
    tails: tuple[str, ...] = ()
    images: tuple[Image, ...] = ()
    arguments: object = None

    @property
    def element(self) -> int:
        """The position of its element in the request's list, counted from 0."""
        return cast(int, self.at[-1])

    @property
    def text(self) -> str:
        """All of its texts, joined."""
        return self.texts[0] if len(self.texts) == 1 else "".join(self.texts)

    def replace(self, place: int, placeholder: str) -> "Replacement":
        """Return the replacement of the text at `place`; not for contents of the kind `other`."""
        path, text = (*self.at, *self.slots[place]), self.texts[place]
        tail = self.tails[place] if self.tails else ""
        return make(Replacement, (path, text + tail, placeholder + tail, self.wrap, None))

    def replace_image(self, image: Image) -> "Replacement":
        """Return the replacement of one of its images."""
        return Replacement((*self.at, *image.slot), "", image.placeholder, image=image)


class Request(NamedTuple):
    """A request of a conversation: its unmasked size, its tool turns, and its tool results."""

    size: float
    turns: int
    results: int


class Layout(NamedTuple):
    """The sizes in a request, in any unit, the same throughout.

    requests: all requests of the conversation so far, oldest first, this one last.
    offsets: the size of everything before each tool result.
    turns: the number of tool turns before each tool result.
    sizes: the size of each tool result's content.
    marked: the size of what stands before the list, up to the last cache mark in it.
    """

    requests: tuple[Request, ...]
    offsets: tuple[int, ...]
    turns: tuple[int, ...]
    sizes: tuple[int, ...]
    marked: int = 0


class Maskable(NamedTuple):
    """A tool result as the boundary sees it; sizes are in any unit, the same throughout.

    offset: the unmasked size of everything before it.
    saving: what masking it saves on each request; 0 if it is never masked, less than 0 if its
        placeholder is longer.
    tool: None if it does not count among the last K of a tool.
    target: None if it has none.
    images: how many images it holds.
    """

    turn: int | None
    offset: float
    saving: float
    tool: str | None
    target: Target | None = None
    images: int = 0


class Replacement(NamedTuple):
    """A text, its path, and the placeholder that takes its place.

    If `wrap` is given, the text is the JSON of an object, and the placeholder is put into an object
    with this one key. If `image` is given, it is the image that is replaced; the text is empty.
    """

    path: Path
    text: str
    placeholder: str
    wrap: str | None = None
    image: Image | None = None

    @property
    def value(self) -> object:
        """The JSON value that is put there."""
        if self.image is not None:
            return self.image.text_part
        return self.placeholder if self.wrap is None else {self.wrap: self.placeholder}

    def saves(self, count: Callable[[str], int]) -> int:
        """Return the tokens that it takes off a prompt, given the count of a text."""
        return self.count_replaced(count) - count(self.placeholder)

    def count_replaced(self, count: Callable[[str], int]) -> int:
        """Return the tokens of what is replaced, given the count of a text."""
        return count(self.text) if self.image is None else self.image.tokens


class Edits(NamedTuple):
    """All that is to be done to a request: texts to replace, elements to drop and to insert.

    The replacements are in the order of the request. `inserted` is a new element, None if there is
    none, and `inserted_at` its position, which is the same before and after the drop, because
    everything before it is kept.
    """

    replacements: tuple[Replacement, ...] = ()
    dropped: frozenset[int] = frozenset()
    inserted: object = None
    inserted_at: int = 0

    @property
    def moves(self) -> bool:
        """Whether elements are dropped or inserted."""
        return bool(self.dropped) or self.inserted is not None

    def order(self, count: int) -> list[int | None]:
        """Return the positions that stay, of `count` elements; None is the inserted one."""
        kept: list[int | None] = [at for at in range(count) if at not in self.dropped]
        if self.inserted is not None:
            kept.insert(self.inserted_at, None)
        return kept


Scenario = Literal[1, 2, 3, 4, 5]
"""A row of the redaction's decision matrix, by what follows a result (see `redaction.py`)."""


class Decision(NamedTuple):
    """What becomes of a tool result, and why; it has replacements only if it gets a placeholder.

    scenario: None unless redaction has looked at what follows the result.
    is_new: whether the result is redacted for the first time; the request before ended before the
        assistant's last answer.
    """

    result: ToolResult
    reason: Reason
    replacements: tuple[Replacement, ...] = ()
    scenario: Scenario | None = None
    is_new: bool = False

    @property
    def chars_before(self) -> int:
        """Code points of the result's texts."""
        return sum(map(len, self.result.texts))

    @property
    def chars_after(self) -> int:
        """Code points that are left of them, with their placeholders."""
        if self.reason == "dropped":
            return 0
        texts = (r for r in self.replacements if r.image is None)
        return self.chars_before + sum(len(r.placeholder) - len(r.text) for r in texts)

    @property
    def images_masked(self) -> int:
        """How many images are replaced."""
        return sum(r.image is not None for r in self.replacements)


def replacements_of(decisions: Iterable[Decision]) -> tuple[Replacement, ...]:
    """Return all replacements of a request, in its order."""
    return tuple(r for decision in decisions for r in decision.replacements)


def places_masked(decisions: Iterable[Decision]) -> frozenset[int]:
    """Return the places of the tool results that are masked, counted from 0."""
    return frozenset(n for n, decision in enumerate(decisions) if decision.reason == "masked")
