"""What a wire format is, and what all formats read JSON with.

A format indexes a request and converts nothing: it says where things are. What it does not
recognize it does not yield.
"""

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, NamedTuple

import orjson

from masking.model import Element, ElementSize, Path, make
from masking.tokens import estimate_tokens


class HeadSize(NamedTuple):
    """The size of what stands before the list, in estimated tokens, and up to its last cache mark.

    `marked` is 0 if there is no mark. Both follow the order in which the provider renders a prompt.
    """

    total: int
    marked: int = 0


class Marks(NamedTuple):
    """The marks by which a request asks its provider for a cache.

    in_head, in_list: whether one stands before the list, and whether one stands in it.
    lifetimes: how long the prompt is to be kept, as spelled, in the order of the prompt.
    """

    in_head: bool = False
    in_list: bool = False
    lifetimes: tuple[str, ...] = ()

    @property
    def are_there(self) -> bool:
        """Whether there is any mark."""
        return self.in_head or self.in_list

    @property
    def last_lifetime(self) -> str | None:
        """The lifetime that the last mark asks for; None if nothing asks for any."""
        return self.lifetimes[-1] if self.lifetimes else None


class Notes(NamedTuple):
    """What an element tells of its whole request, besides what is said in it.

    is_marked: whether it has a cache mark.
    lifetimes: how long its marks ask the prompt to be kept, as spelled, in their order.
    is_bound: whether it shows that the model binds its reasoning.
    obstacle: why the request must pass unchanged; None if it need not.
    """

    is_marked: bool = False
    lifetimes: tuple[str, ...] = ()
    is_bound: bool = False
    obstacle: str | None = None


NO_NOTES = Notes()


class Charge(NamedTuple):
    """What of an element is tokens of a prompt: a text, or tokens that no text shows.

    Both sizes of an element are sums of these. The rule estimates the texts, as that is fast, and
    the bill counts them.

    tokens: of what is no text, such as an image or the frame of a message.
    result: whose content this is, as the place of a tool result among those of its element.
    name: of a tool, right before the text. The bill counts it by itself.
    """

    text: str = ""
    tokens: int = 0
    result: int | None = None
    name: str = ""


MESSAGE_FRAME = Charge("", 4)
"""What a message costs besides its texts: role, separators."""

CALL_TOKENS = 8
CALL_FRAME = Charge("", CALL_TOKENS)
"""What a call, or its result, costs besides its texts: id, separators."""

Purpose = Literal["answer", "count", "compact"]
"""What a request asks for: an answer, the tokens that it would have, or its history in short."""


OnHistoryEdit = Literal["refuses", "may_refuse", "drops"]
"""What a provider does with signed or encrypted reasoning once a text before it has changed.

It refuses the request, or does so on some accounts alone, or drops the reasoning without a word.
"""


RoleOrder = Literal["any", "user first", "alternating"]
"""What a provider asks of the order in which user and assistant speak.

That the user opens the list, or also that the two alternate; results are on the user's side.
"""

Document = Mapping[str, object]
"""A decoded request, or the object in it that holds the list."""


def follow(value: object, path: Iterable[str | int]) -> object:
    """Return what a path leads to in a decoded document; None if it leads nowhere."""
    for key in path:
        if not isinstance(value, dict) or key not in value:
            return None
        value = value[key]
    return value


def objects(value: object) -> list[dict[str, Any]]:
    """Return the objects in a list; none if it is no list."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def as_list(value: object) -> list[Any]:
    """Return a list; an empty one for anything else."""
    return value if isinstance(value, list) else []


def non_empty(value: object) -> str | None:
    """Return a text that is not empty; None for anything else."""
    return value if isinstance(value, str) and value else None


def is_text_part(part: object, types: Sequence[str] = ("text",)) -> bool:
    """Whether a part of a content is a text, by the types of those."""
    if not isinstance(part, dict) or part.get("type") not in types:
        return False
    return isinstance(part.get("text"), str)


def read_texts(content: object, types: Sequence[str] = ("text",)) -> tuple[str, ...]:
    """Return the texts of a content: itself, or those of its parts."""
    if isinstance(content, str):
        return (content,)
    return tuple([part["text"] for part in as_list(content) if is_text_part(part, types)])


def render_json(value: object) -> str:
    """Return compact JSON, to be measured or counted; "" for what cannot be rendered."""
    try:
        return orjson.dumps(value).decode()
    except (TypeError, RecursionError):  # lone surrogates, long numbers, too deep
        return ""


def render_tools(tools: object) -> str:
    """Return a request's tool schemas as compact JSON; "" for what cannot be rendered at all."""
    if text := render_json(tools):
        return text
    try:
        return json.dumps(tools, ensure_ascii=False, separators=(",", ":"), default=str)
    except (ValueError, RecursionError):  # too little is on the safe side of the promise
        return ""


def measure_tools(tools: object) -> int:
    """Return the estimated tokens of a request's tool schemas."""
    return 0 if tools is None else estimate_tokens(render_tools(tools))


_TIERS = frozenset(("priority", "flex"))
"""The tiers of service that have prices of their own; of the others none is known to."""


def find_tier(document: Document) -> str | None:
    """Return the tier of service that a request asks for: `fast`, `priority` or `flex`, or None.

    `speed` is Anthropic's, `service_tier` OpenAI's (platform.openai.com/docs/guides/flex-processing
    and `priority-processing`), `serviceTier` Bedrock's. What an answer says of it may only mean
    that nothing else was said, and comes too late.
    """
    if document.get("speed") == "fast":
        return "fast"
    asked = document.get("service_tier", document.get("serviceTier"))
    tier = asked.get("type") if isinstance(asked, dict) else asked
    return tier if isinstance(tier, str) and tier in _TIERS else None


class ServerHistory(NamedTuple):
    """A history that the provider holds: a request has only what is new in it.

    answer: the id of the answer that the request continues; None where it begins anew.
    name: that of the conversation, where it has one.
    """

    answer: str | None = None
    name: str | None = None


class Added(NamedTuple):
    """A value that is added to a request: to the list at a path, or at the path itself."""

    path: Path
    value: object
    in_list: bool = False


class ProviderEdit(NamedTuple):
    """How a request of a format asks its provider to edit the history itself.

    is_possible: whether a request can ask for that, by its document, its path and its model.
    write: returns what is added to it. To clear it takes how many of the last tool uses and which
        tools keep their results, to drop the document.
    beta: what the header `anthropic-beta` must name.
    """

    is_possible: Callable[[Document, str, str | None], bool]
    write: Callable[..., Added]
    beta: str


@dataclass(frozen=True)
class WireFormat(ABC):
    """How a wire format is read: what all strategies ask of it. What most do alike is said here.

    It has no state, and two of one class are equal, as one goes to other processes. A `document` is
    a decoded request, a `body` the object in it that holds the list, a `path` that of the URL,
    without the query, and an `element` one of the list, as decoded.
    """

    name: ClassVar[str]
    """As in records and messages."""

    paths: ClassVar[tuple[tuple[str, Purpose], ...]]
    """For each kind of its requests, a pattern that the path's end matches, and the purpose."""

    list_paths: ClassVar[tuple[Path, ...]]
    """Where its list can be in a document; the first place that exists holds."""

    answers_in_runs: ClassVar[bool] = False
    """Whether consecutive elements of the assistant are one answer."""

    pairs_by_order: ClassVar[bool] = False
    """Whether results without an id answer the calls of the last turn in their order."""

    role_order: ClassVar[RoleOrder] = "any"
    """What the provider asks of the order of the elements."""

    clearing: ClassVar[ProviderEdit | None] = None
    """How it clears old results; None if there is no such way."""

    dropping: ClassVar[ProviderEdit | None] = None
    """How it drops bound reasoning that no longer fits what precedes it; None if there is none."""

    # An element, without its neighbors.

    @abstractmethod
    def read_element(self, element: object) -> Element:
        """Read one element: who speaks, its texts, its calls, its results. Never raises."""

    @abstractmethod
    def read_charges(self, element: object) -> Sequence[Charge]:
        """Return all of an element that is tokens of a prompt, in the order of the prompt.

        Each result of the element has a charge, in the order of `Element.results`.
        """

    def read_reasoning(self, element: object) -> Sequence[Charge]:
        """Return the charges of an element's bound reasoning, where that can be dropped."""
        return ()

    def read_notes(self, element: object) -> Notes:
        """Return what an element tells of its whole request, such as its cache marks."""
        return NO_NOTES

    def unmark(self, element: object) -> object:
        """Return an element as a prompt cache sees it: plainly spelled, without cache marks."""
        return element

    def user_message(self, text: str) -> object:
        """Return an element in which the user says a text."""
        return {"role": "user", "content": text}

    # What stands beside the list.

    def measure_head(self, body: Document) -> HeadSize:
        """Return the size of the tool schemas and of the texts beside the list."""
        texts = sum(map(estimate_tokens, self.find_head_texts(body)))
        return HeadSize(measure_tools(body.get("tools")) + texts)

    def find_tools(self, body: Document) -> object:
        """Return the tool schemas, without cache marks."""
        return body.get("tools")

    def find_head_texts(self, body: Document) -> Sequence[str]:
        """Return the texts beside the list, such as those of a system prompt."""
        return ()

    def forbids_tools(self, body: Document) -> bool:
        """Whether a request says that no tool may be called."""
        choice = body.get("tool_choice")
        return (choice.get("type") if isinstance(choice, dict) else choice) == "none"

    # The whole request. `notes` are those of all its elements that have any, in their order.

    def find_model(self, document: Document, path: str) -> str | None:
        """Return the model that a request names."""
        model = document.get("model")
        return model if isinstance(model, str) else None

    def streams(self, document: Document, path: str) -> bool:
        """Whether a request asks for its answer as a stream."""
        return document.get("stream") is True

    def find_marks(self, document: Document, notes: Sequence[Notes]) -> Marks:
        """Return the cache marks of a request."""
        return Marks()

    def find_obstacle(self, document: Document) -> str | None:
        """Return why a request must pass unchanged, by what stands beside its list."""
        return None

    def on_history_edit(
        self, document: Document, model: str | None, notes: Sequence[Notes]
    ) -> OnHistoryEdit | None:
        """Return what the provider does with signed or encrypted reasoning, by the model.

        That is, once a text before it has changed. None if it accepts that.
        """
        return None

    def compacts(self, document: Document, path: str) -> bool:
        """Whether a request asks for its history in short."""
        return False

    def find_server_history(self, document: Document) -> ServerHistory | None:
        """Return what history the provider holds; None if there is another obstacle, or none."""
        return None

    def may_be_continued(self, document: Document) -> bool:
        """Whether a later request may name the answer in place of the history."""
        return False

    # The sizes of an element.

    def measure_element(self, element: object) -> ElementSize:
        """Return the size of an element in estimated tokens, for the rule."""
        total = 0
        results: list[tuple[int, int]] = []
        for text, size, result, name in self.read_charges(element):
            if spelled := name + text:
                size += estimate_tokens(spelled)
            if result is not None:
                if result == len(results):  # its first charge
                    results.append((total, size))
                else:
                    before, own = results[result]
                    results[result] = (before, own + size)
            total += size
        return make(ElementSize, (total, tuple(results)))

    def count_parts(self, element: object) -> tuple[list[str], int]:
        """Return the texts of an element that are tokens of the prompt, and its other tokens."""
        texts: list[str] = []
        tokens = 0
        for text, others, _, name in self.read_charges(element):
            if name:
                texts.append(name)
            if text:
                texts.append(text)
            tokens += others
        return texts, tokens


def measure_charges(charges: Iterable[Charge]) -> int:
    """Return the estimated tokens of all these charges."""
    return sum([tokens + estimate_tokens(name + text) for text, tokens, _, name in charges])
