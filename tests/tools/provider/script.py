"""What a scripted model answers: replies as data, and a script that gives them in order.

A script is any function from a received request to a `Reply`. `ScriptedReplies` is the usual one,
in every wire format. It keeps no state: it finds its place by what the request already holds, so
retries, side requests and several conversations at once do not confuse it.
"""

import json
from collections.abc import Callable, Iterable
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
    old_account: whether it comes from an account that the vendor spares what is new.
    least_cleared: the tokens below which the vendor clears nothing, though it is asked to.
    refuses_clearing: whether the vendor refuses a request that asks it to clear.
    refuses_dropping: whether it refuses one that has it drop thinking.
    """

    request: JsonDict
    path: str = ""
    query: str = ""
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes = b""
    dialect: str = ""
    said: tuple[Said, ...] = ()
    offers_tools: bool = False
    old_account: bool = False
    least_cleared: int = 0
    refuses_clearing: bool = False
    refuses_dropping: bool = False

    def header(self, name: str) -> str:
        """Return what the headers of that name say, joined by commas; "" if there is none."""
        return ",".join(value for each, value in self.headers if each.lower() == name)


SIDE_ANSWER = "A short answer to a side question."
AFTER_THE_END = "The script is over."


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A tool call; `arguments` is the text that a model would write, whether JSON or not."""

    id: str
    tool: str
    arguments: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """An answer of the provider.

    thinking: what the model thinks first, where the format shows that, with a signature where the
        vendor signs it.
    status: any other than 200 gives an error body as the vendor writes it.
    pause: seconds between two pieces of a stream, or before a body that is not streamed.
    dies_after: the connection is closed after so many events of a stream; without a stream before
        the answer (0), or in the middle of its body.
    gzip: the answer is compressed.
    """

    content: str | None = None
    calls: tuple[Call, ...] = ()
    thinking: str | None = None
    status: int = 200
    pause: float = 0.0
    dies_after: int | None = None
    gzip: bool = False


Script = Callable[[Received], Reply]


@dataclass(frozen=True, slots=True)
class ScriptedReplies:
    """Gives replies one after the other, in each conversation at its own place.

    The place of a request is how many of the script's replies its messages hold, in order.
    A request that offers no tools (a title, a summary) gets `SIDE_ANSWER`; one past the end gets
    `AFTER_THE_END`.
    """

    replies: tuple[Reply, ...]

    def __call__(self, received: Received) -> Reply:
        if not received.offers_tools:
            return Reply(content=SIDE_ANSWER)
        place = self.place(received.said)
        return self.replies[place] if place < len(self.replies) else Reply(content=AFTER_THE_END)

    def place(self, said: Iterable[Said]) -> int:
        """Return how many of the replies the model has already given."""
        place = 0
        for each in said:
            if place < len(self.replies) and _is_said(self.replies[place], each):
                place += 1
        return place


def call(call_id: str, tool_name: str, /, **arguments: object) -> Call:
    """Return a tool call with its arguments as JSON."""
    return Call(id=call_id, tool=tool_name, arguments=json.dumps(arguments, ensure_ascii=False))


def _is_said(reply: Reply, said: Said) -> bool:
    """Compare tool names, or else texts: agents may change ids and arguments, but no names."""
    if said.tools or reply.calls:
        return said.tools == tuple(each.tool for each in reply.calls)
    return said.text == (reply.content or "")
