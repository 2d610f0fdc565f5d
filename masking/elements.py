"""One element of a request's list, read without its neighbours: who speaks, calls, results.

A text is kept with its path in the element; nothing is copied or converted.
"""

from typing import Literal, NamedTuple

from masking.model import ContentKind, Image, Path

Speaker = Literal["system", "user", "assistant", "tool", "unknown"]
"""Who speaks in an element; `unknown` if it is no object, or names no known speaker."""


class Call(NamedTuple):
    """A tool call. The arguments are as in the request: a JSON text, or a decoded object."""

    call_id: str | None
    tool: str | None
    arguments: object


class Result(NamedTuple):
    """A tool result, as far as its element alone tells.

    call_id: None if the result names no call; "" if its format has no ids.
    slots: the paths of its `texts` within the element. If a slot holds an object, its text is that
        object's JSON, and `wrap` is the key under which a placeholder is put in its place.
    tails: what follows each text in the same string, and stays; empty if nothing follows any.
    tool: the name of the tool, where the result gives it.
    images: the images in it that a text can replace.
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


class Element(NamedTuple):
    """One element of a request's list; `texts` are the speaker's own, not those of results.

    is_bound: whether it holds reasoning that a provider may bind to all that precedes it.
    """

    speaker: Speaker
    texts: tuple[str, ...] = ()
    calls: tuple[Call, ...] = ()
    results: tuple[Result, ...] = ()
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
