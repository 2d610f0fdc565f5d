"""The nouns that everything else uses: where a tool result is, and what was decided about it.

What a request has by the hundred is a NamedTuple, which is made three times as fast as a frozen
dataclass.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, Literal, NamedTuple, TypedDict, get_args

import orjson

make = tuple.__new__
"""Makes a NamedTuple of a tuple of all its fields, for what a request has by the hundred.

It takes 175 to 260 ns where the tuple's own name takes 370 to 480, and 500 where `_replace` takes
1,700. So a request of 1 MB that is met for the first time is read in a tenth less of the time.
"""

ChatMessage = dict[str, Any]
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


Path = tuple[str | int, ...]
"""Where a value is within another in JSON: object keys and array indices."""

ContentKind = Literal["string", "text_parts", "other"]
"""What a result's content is: a string, a list with at least one text part, or anything else."""

Target = tuple[str | None, str]
"""What a call is about: its tool, if that is known, and its path-like argument."""


IMAGE_PLACEHOLDER = re.compile(r"\[image(?:: [\w.+-]{1,16}(?: [0-9]+x[0-9]+)?)? masked\]", re.ASCII)
"""What `describe_image` returns."""


def describe_image(kind: str | None, size: tuple[int, int] | None) -> str:
    """Return the text that stands for an image, such as `[image: png 1280x800 masked]`.

    The size is in pixels; without a kind it is not told.
    """
    if kind is None:
        return "[image masked]"
    shape = "" if size is None else f" {size[0]}x{size[1]}"
    return f"[image: {kind}{shape} masked]"


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


Speaker = Literal["system", "user", "assistant", "tool", "unknown"]
"""Who speaks in an element; `unknown` if it is no object, or names no known speaker."""


class Call(NamedTuple):
    """A tool call. The arguments are as in the request: a JSON text, or a decoded object."""

    call_id: str | None
    tool: str | None
    arguments: object


def parse_arguments(arguments: object) -> Mapping[str, object]:
    """Return a call's arguments by name; none if they are no JSON object."""
    if isinstance(arguments, str):
        try:
            arguments = orjson.loads(arguments)
        except orjson.JSONDecodeError:
            return {}
    return arguments if isinstance(arguments, dict) else {}


class ToolResult(NamedTuple):
    """One tool result of a request.

    A wire format reads one element at a time, so it knows no more than the first nine fields. The
    others say where the result is and which call it answers, once it is bound (see `conversation`).

    call_id: None if the result names no call; "" if its format has no ids.
    kind: what its content is.
    texts: those in its content, in order, whatever else the content holds.
    slots: the paths of its `texts` within the element. If a slot holds an object, its text is that
        object's JSON, and `wrap` is the key under which a placeholder is put in its place.
    tails: what follows each text in the same string, and stays; empty if nothing follows any.
    tool: the name of its tool; None if it is unknown. Until it is bound, the name that the result
        itself gives.
    images: the images in it that a text can replace.
    element: the position of its element in the request's list, counted from 0.
    turn: the turn that declares the call, counted from 0, the oldest; None if no turn does.
    target: None unless the policy asks for targets, and if the call has none.
    arguments: those of the call, as in `Call`; None if no turn declares it.
    client_texts: the texts as the client wrote them, where they were shortened at arrival; empty
        elsewhere.
    """

    call_id: str | None
    kind: ContentKind
    texts: tuple[str, ...]
    slots: tuple[Path, ...]
    is_error: bool = False
    wrap: str | None = None
    tails: tuple[str, ...] = ()
    tool: str | None = None
    images: tuple[Image, ...] = ()
    element: int = 0
    turn: int | None = None
    target: Target | None = None
    arguments: object = None
    client_texts: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """All of its texts, joined."""
        return self.texts[0] if len(self.texts) == 1 else "".join(self.texts)

    def client_text(self, number: int) -> str:
        """Return one of its texts as the client wrote it, also where it was shortened."""
        return (self.client_texts or self.texts)[number]

    def replace(self, number: int, placeholder: str) -> "Replacement":
        """Return the replacement of one of its texts; not for contents of the kind `other`."""
        slot, text = self.slots[number], self.texts[number]
        tail = self.tails[number] if self.tails else ""
        return make(Replacement, (slot, text + tail, placeholder + tail, self.wrap, None))

    def texts_replaced(self, replacements: "Iterable[Replacement]") -> Iterator[str]:
        """Yield its texts that these replace, as the client wrote them, without their tails."""
        replaced = {each.slot for each in replacements if each.image is None}
        for slot, text in zip(self.slots, self.client_texts or self.texts, strict=True):
            if slot in replaced:
                yield text

    def replace_image(self, image: Image) -> "Replacement":
        """Return the replacement of one of its images."""
        return Replacement(image.slot, "", image.placeholder, image=image)


class Element(NamedTuple):
    """One element of a request's list; `texts` are the speaker's own, not those of results.

    is_bound: whether it holds reasoning that a provider may bind to all that precedes it.
    """

    speaker: Speaker
    texts: tuple[str, ...] = ()
    calls: tuple[Call, ...] = ()
    results: tuple[ToolResult, ...] = ()
    is_bound: bool = False

    @property
    def all_texts(self) -> tuple[str, ...]:
        """The speaker's own texts, then those of the results."""
        return (*self.texts, *(text for result in self.results for text in result.texts))

    @property
    def is_turn(self) -> bool:
        """Whether it holds a call that a result can answer."""
        for call in self.calls:  # noqa: SIM110 - asked of every answer, and twice as fast
            if call.call_id is not None:
                return True
        return False


UNKNOWN = Element("unknown")


class ElementSize(NamedTuple):
    """The size of an element in estimated tokens.

    `results` has two sizes for each result: of what stands before it in the element, and of its
    content.
    """

    total: int
    results: tuple[tuple[int, int], ...] = ()


class Replacement(NamedTuple):
    """A text, its path within its element, and the placeholder that takes its place.

    If `wrap` is given, the text is the JSON of an object, and the placeholder is put into an object
    with this one key. If `image` is given, it is the image that is replaced; the text is empty.
    """

    slot: Path
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


Replacements = Mapping[int, tuple[Replacement, ...]]
"""What is replaced in a list, by the position of its element; in the order of each element."""

NO_REPLACEMENTS: Replacements = MappingProxyType({})


class Edits(NamedTuple):
    """The edits to make to a list: texts to replace, elements to drop and to insert.

    `inserted` is a new element, None if there is none, and `inserted_at` its position, which is the
    same before and after the drop, because everything before it is kept.
    """

    replacements: Replacements = NO_REPLACEMENTS
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


Strategy = Literal["schema1", "redaction", "reduction"]

ChangeReason = Literal["masked", "cleared", "redacted", "reduced", "dropped"]

KeepReason = Literal[
    "off",
    "bad_id",
    "orphan",
    "in_window",
    "held",
    "last_k",
    "kept_tool",
    "unlisted_tool",
    "kept_argument",
    "last_images",
    "latest",
    "reread",
    "bound",
    "summary",
    "refused",
    "error",
    "not_string",
    "already_masked",
    "too_short",
    "not_shorter",
    "other_tool",
    "in_use",
]

Reason = ChangeReason | KeepReason


class ReasonInfo(NamedTuple):
    """What a reason means: whose it is, and what it says of a result."""

    strategy: Strategy
    sentence: str


REASONS: Mapping[Reason, ReasonInfo] = {
    "masked": ReasonInfo("schema1", "old enough, and replaced by a placeholder"),
    "cleared": ReasonInfo("schema1", "old enough, and cleared by the provider at our request"),
    "redacted": ReasonInfo(
        "redaction", "replaced by a placeholder, as the assistant has replied since"
    ),
    "reduced": ReasonInfo("reduction", "replaced to bring the history within its budget"),
    "dropped": ReasonInfo("reduction", "dropped with its message for the same budget"),
    "off": ReasonInfo("schema1", "kept, because masking is off"),
    "bad_id": ReasonInfo("schema1", "names no call"),
    "orphan": ReasonInfo("schema1", "its call is not in the request"),
    "in_window": ReasonInfo("schema1", "in one of the last tool turns"),
    "held": ReasonInfo("schema1", "old enough, but masking it doesn't pay yet"),
    "last_k": ReasonInfo("schema1", "among the last results of its tool"),
    "kept_tool": ReasonInfo("schema1", "of a tool that keep_tools names"),
    "unlisted_tool": ReasonInfo("schema1", "of a tool that mask_tools does not name"),
    "kept_argument": ReasonInfo("schema1", "its call has an argument that keep_arguments names"),
    "last_images": ReasonInfo("schema1", "holds one of the last images"),
    "latest": ReasonInfo("schema1", "the latest result for its target, such as a file"),
    "reread": ReasonInfo("schema1", "its call repeats one whose result had left the window"),
    "bound": ReasonInfo("schema1", "later reasoning is bound to it as it was sent"),
    "summary": ReasonInfo("schema1", "in an agent's request for a summary, left whole"),
    "refused": ReasonInfo("schema1", "in a conversation with a rejected masked request"),
    "error": ReasonInfo("schema1", "looks like an error"),
    "not_string": ReasonInfo("schema1", "not text"),
    "already_masked": ReasonInfo("schema1", "already a placeholder"),
    "too_short": ReasonInfo("schema1", "shorter than min_chars"),
    "not_shorter": ReasonInfo("schema1", "would not get shorter"),
    "other_tool": ReasonInfo("redaction", "of a tool that is not redacted"),
    "in_use": ReasonInfo("redaction", "the assistant has not replied since"),
}
"""Every reason, in the order in which people read them. All that explains a reason quotes it."""

CHANGES: tuple[ChangeReason, ...] = get_args(ChangeReason)
"""The reasons by which a result is changed; all others keep it."""

MASKS: tuple[ChangeReason, ...] = ("masked", "cleared")
"""Those of the window."""


Scenario = Literal[1, 2, 3, 4, 5]
"""A row of the redaction's decision matrix, by what follows a result (see `redaction.py`)."""


class Decision(NamedTuple):
    """What happens to a tool result, and why; `replacements` is empty unless it is masked.

    scenario: None unless redaction has looked at what follows the result, as its tool is named.
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


def replacements_of(decisions: Iterable[Decision]) -> Replacements:
    """Return all replacements of a request, given its decisions in order."""
    return by_element((decision.result, decision.replacements) for decision in decisions)


def by_element(found: Iterable[tuple[ToolResult, tuple[Replacement, ...]]]) -> Replacements:
    """Return the replacements of each result as those of its element."""
    replaced: dict[int, list[Replacement]] = {}
    for result, replacements in found:
        if replacements:
            replaced.setdefault(result.element, []).extend(replacements)
    return {at: tuple(each) for at, each in replaced.items()}


def places_masked(decisions: Iterable[Decision]) -> frozenset[int]:
    """Return the places of the tool results that are masked or cleared, counted from 0."""
    return frozenset(n for n, each in enumerate(decisions) if each.reason in MASKS)
