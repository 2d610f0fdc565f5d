"""A request as the scripted provider got it, and what its conversation already holds."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

JsonDict = dict[str, Any]

Spell = Callable[[str], str]
"""Applied to a text before it is counted: what differs from run to run must not change a usage."""


class Said(NamedTuple):
    """An answer of the model's as a request repeats it: its text, and the tools that it called."""

    text: str = ""
    tools: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Received:
    """A request as it arrived: `body` is still compressed, `request` is decoded from it.

    dialect: the name of its row in `dialects.DIALECTS`.
    said: what the model said so far, in order.
    offers_tools: whether the model may call any; a request for a title or a summary has none.
    """

    request: JsonDict
    path: str = ""
    query: str = ""
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes = b""
    dialect: str = ""
    said: tuple[Said, ...] = ()
    offers_tools: bool = False

    def header(self, name: str) -> str:
        """Return what the headers of that name say, joined by commas; "" if there is none."""
        return ",".join(value for each, value in self.headers if each.lower() == name)
