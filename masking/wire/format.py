"""A row of the table of wire formats, its defaults, and what all formats read JSON with.

A format indexes a request and converts nothing: it says where things are, as data and functions of
one element. What it does not recognize it does not yield.
"""

import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

import orjson

from masking.model import Element, ElementSize, Path, make
from masking.tokens import estimate_tokens

MESSAGE_TOKENS = 4
"""What a message costs besides its texts: role, separators."""

CALL_TOKENS = 8
"""What a call, or its result, costs besides its texts: id, separators."""


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


def is_text_part(part: object, kinds: Collection[str] = ("text",)) -> bool:
    """Whether a part of a content is a text, by one of the names that a format has for that."""
    return (
        isinstance(part, dict) and part.get("type") in kinds and isinstance(part.get("text"), str)
    )


def render_json(value: object) -> str:
    """Return compact JSON, to be measured or counted; "" for what cannot be rendered."""
    try:
        return orjson.dumps(value).decode()
    except (TypeError, RecursionError):  # lone surrogates, long numbers, too deep
        return ""


def measure_tools(tools: object) -> int:
    """Return the estimated tokens of a request's tool schemas, as compact JSON."""
    if tools is None:
        return 0
    if text := render_json(tools):
        return estimate_tokens(text)
    try:
        text = json.dumps(tools, ensure_ascii=False, separators=(",", ":"), default=str)
    except RecursionError:  # too little is on the safe side of the promise
        return 0
    return estimate_tokens(text)


# The defaults of a row. They are functions with a name, as a row goes to other processes.


def model_in_body(document: Document, _path: str) -> str | None:
    """Return the model that a request names in its body."""
    model = document.get("model")
    return model if isinstance(model, str) else None


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


def asks_for_stream(document: Document, _path: str) -> bool:
    """Whether a request asks for its answer as a stream."""
    return document.get("stream") is True


def chooses_no_tool(body: Document) -> bool:
    """Whether `tool_choice` forbids calls, as a word or as an object's type."""
    choice = body.get("tool_choice")
    return (choice.get("type") if isinstance(choice, dict) else choice) == "none"


def tools_in_body(body: Document) -> object:
    """Return the `tools` of a body."""
    return body.get("tools")


def user_message(text: str) -> object:
    """Return a message in which the user says a text."""
    return {"role": "user", "content": text}


def unchanged(element: object) -> object:
    """Return the very element."""
    return element


def no_marks(_document: Document) -> Marks:
    """Return no cache marks."""
    return Marks()


def no_texts(_body: Document) -> Sequence[str]:
    """Return no texts."""
    return ()


def no_charges(_element: object) -> Sequence[Charge]:
    """Return no charges."""
    return ()


def always(*_: object) -> bool:
    """Return True, whatever is asked."""
    return True


def never(*_: object) -> bool:
    """Return False, whatever is asked."""
    return False


class HeldHistory(NamedTuple):
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


class ClearingFormat(NamedTuple):
    """How a request of a format asks its provider to clear old tool results itself.

    find_obstacle: returns why a request cannot ask for that, by its document and its path; None if
        it can.
    write: returns what is added to it, by how many tool uses keep their results and which tools
        keep all of theirs.
    beta: what the header `anthropic-beta` must name.
    """

    find_obstacle: Callable[[Document, str], str | None]
    write: Callable[[int, Sequence[str]], Added]
    beta: str


class DroppingFormat(NamedTuple):
    """How a request of a format lets its provider drop reasoning that no longer fits its prefix.

    find_obstacle: returns why a request cannot do so, by its document, its path and its model; None
        if it can.
    write: returns what is added to its document.
    beta: as in `ClearingFormat`.
    """

    find_obstacle: Callable[[Document, str, str | None], str | None]
    write: Callable[[Document], Added]
    beta: str


class WireFormat(NamedTuple):
    """How a wire format is read: data, and functions of one element. All strategies use the same.

    A `document` is a decoded request, a `body` the object in it that holds the list, and a `path`
    that of the URL, without the query. The defaults are what most formats do alike.

    name: as in records and messages.
    paths: for each kind of its requests, a pattern that the path's end matches, and the purpose.
    list_paths: where its list can be in a document; the first place that exists holds.
    read_element: reads one element, without its neighbors; never raises.
    read_charges: returns all of an element that is tokens of a prompt, in the order of the prompt.
        Each result of the element has a charge, in the order of `Element.results`.
    measure_head: returns the size of the tool schemas and of the texts beside the list.
    find_model: returns the model that a request names, by its document and its path.
    streams: whether the answer is streamed, by the document and the path.
    find_obstacle: returns why a request must pass unchanged, by its document; None if it need not.
        None itself if no request must.
    on_history_edit: returns what the provider does with signed or encrypted reasoning once a text
        before it has changed, by the document and the model; None if it accepts it. The field is
        None if every model of the format does.
    find_tools: returns the tool schemas of a body.
    find_head_texts: returns the texts beside the list, such as those of a system prompt.
    find_marks: returns the cache marks of a document.
    unmark: returns an element as a prompt cache sees it: plainly spelled, without cache marks.
    user_message: returns an element in which the user says a text.
    is_needed_in_envelope: whether a function of a document must see an element, such as one with a
        cache mark, or an item that says that the provider holds the history. Yes, if in doubt.
    answers_in_runs: whether consecutive elements of the assistant are one answer.
    pairs_by_order: whether results without an id answer the calls of the last turn in their order.
    role_order: what the provider asks of the order of the elements.
    forbids_tools: whether a body says that no tool may be called.
    compacts: whether a request asks for its history in short, by its document and its path; None
        if there is no such request.
    clearing: how a request asks its provider to clear old results; None if there is no such way.
    dropping: how it lets its provider drop bound reasoning; None if there is no such way.
    read_reasoning: returns the charges of an element's bound reasoning, where there is such a way.
    find_held: returns what history the provider holds, where that is the only reason why a request
        must pass unchanged, by its document; None if there is none, or another reason. None itself
        if the format has no such requests.
    may_be_continued: whether a later request may name the answer in place of the history, by the
        document.
    """

    name: str
    paths: tuple[tuple[str, Purpose], ...]
    list_paths: tuple[Path, ...]
    read_element: Callable[[object], Element]
    read_charges: Callable[[object], Sequence[Charge]]
    measure_head: Callable[[Document], HeadSize]
    find_model: Callable[[Document, str], str | None] = model_in_body
    streams: Callable[[Document, str], bool] = asks_for_stream
    find_obstacle: Callable[[Document], str | None] | None = None
    on_history_edit: Callable[[Document, str | None], OnHistoryEdit | None] | None = None
    find_tools: Callable[[Document], object] = tools_in_body
    find_head_texts: Callable[[Document], Sequence[str]] = no_texts
    find_marks: Callable[[Document], Marks] = no_marks
    unmark: Callable[[object], object] = unchanged
    user_message: Callable[[str], object] = user_message
    is_needed_in_envelope: Callable[[object], bool] = always
    answers_in_runs: bool = False
    pairs_by_order: bool = False
    role_order: RoleOrder = "any"
    forbids_tools: Callable[[Document], bool] = chooses_no_tool
    compacts: Callable[[Document, str], bool] | None = None
    clearing: ClearingFormat | None = None
    dropping: DroppingFormat | None = None
    read_reasoning: Callable[[object], Sequence[Charge]] = no_charges
    find_held: Callable[[Document], HeldHistory | None] | None = None
    may_be_continued: Callable[[Document], bool] = never

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
