"""A row of the table of wire formats: where things are in a request, as data and functions."""

from collections.abc import Callable, Mapping, Sequence
from typing import Literal, NamedTuple

from masking.model import Element, ElementSize, Path


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


Purpose = Literal["answer", "count", "compact"]
"""What a request asks for: an answer, the tokens that it would have, or its history in short."""


Binding = Literal["refuses", "drops"]
"""What a provider does with bound reasoning once a text before it has changed.

It refuses the request, or it drops the reasoning without a word.
"""


RoleOrder = Literal["any", "user first", "alternating"]
"""What a provider asks of the order in which user and assistant speak.

That the user opens the list, or also that the two alternate; results are on the user's side.
"""


def chooses_no_tool(body: Mapping[str, object]) -> bool:
    """Whether `tool_choice` forbids calls, as a word or as an object's type."""
    choice = body.get("tool_choice")
    return (choice.get("type") if isinstance(choice, dict) else choice) == "none"


def never_compacts(_document: Mapping[str, object], _path: str) -> bool:
    """Say of any request that it does not ask for its history in short."""
    return False


class WireFormat(NamedTuple):
    """How a wire format is read: data, and functions of one element. All strategies use the same.

    A `document` is a decoded request, a `body` the object in it that holds the list, and a `path`
    that of the URL, without the query.

    name: as in records and messages.
    paths: for each kind of its requests, a pattern that the path's end matches, and the purpose.
    list_paths: where its list can be in a document; the first place that exists holds.
    read_element: reads one element, without its neighbours; never raises.
    measure_element: returns the size of one element, in estimated tokens.
    find_model: returns the model that a request names, by its document and its path.
    streams: whether the answer is streamed, by the document and the path.
    find_obstacle: returns why a request must go out whole, by its document; None if it need not.
    find_binding: returns what becomes of bound reasoning, by the document and the model; None if
        nothing does.
    find_tools: returns the tool schemas of a body.
    find_head_texts: returns the texts beside the list, such as those of a system prompt.
    measure_head: returns the size of the tool schemas and of these texts.
    find_marks: returns the cache marks of a document.
    unmark: returns an element as a prompt cache sees it: plainly spelled, without cache marks.
    count_parts: returns the texts of an element that are tokens, and its other tokens, as a number.
    user_message: returns an element in which the user says a text.
    stands_out: whether a function of a document must see an element, such as one with a cache mark,
        or an item that says that the provider holds the history; see all of them if in doubt.
    answers_in_runs: whether consecutive elements of the assistant are one answer.
    pairs_by_order: whether results without an id answer the calls of the last turn in their order.
    role_order: what the provider asks of the order of the elements.
    forbids_tools: whether a body says that no tool may be called.
    compacts: whether a request asks for its history in short, by its document and its path.
    """

    name: str
    paths: tuple[tuple[str, Purpose], ...]
    list_paths: tuple[Path, ...]
    read_element: Callable[[object], Element]
    measure_element: Callable[[object], ElementSize]
    find_model: Callable[[Mapping[str, object], str], str | None]
    streams: Callable[[Mapping[str, object], str], bool]
    find_obstacle: Callable[[Mapping[str, object]], str | None]
    find_binding: Callable[[Mapping[str, object], str | None], Binding | None]
    find_tools: Callable[[Mapping[str, object]], object]
    find_head_texts: Callable[[Mapping[str, object]], Sequence[str]]
    measure_head: Callable[[Mapping[str, object]], HeadSize]
    find_marks: Callable[[Mapping[str, object]], Marks]
    unmark: Callable[[object], object]
    count_parts: Callable[[object], tuple[Sequence[str], int]]
    user_message: Callable[[str], object]
    stands_out: Callable[[object], bool] = lambda _: True
    answers_in_runs: bool = False
    pairs_by_order: bool = False
    role_order: RoleOrder = "any"
    forbids_tools: Callable[[Mapping[str, object]], bool] = chooses_no_tool
    compacts: Callable[[Mapping[str, object], str], bool] = never_compacts
