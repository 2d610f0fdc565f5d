"""Conversations for the soak: their requests, as the clients of each format grow them.

What is said is seeded by the conversation's number, so that it is the same in every run. An element
is spelled once, and a request is the bytes of those so far, as an agent's own is.
"""

import json
from collections.abc import Iterator
from random import Random
from typing import NamedTuple

from tests.support.made_up_format import MADE_UP
from tests.support.wire_conversations import WRITERS, Ask, Give, Model, Tools, User, Writer
from tests.tools.soak.answers import STREAMED

_LENGTHS = (0.2, 0.4, 0.6, 0.8, 1.0, 3.0)
"""How many requests a conversation has, as a multiple of the mean."""

_LIST = "The list stands here."
_WORDS = [
    f"{one}{other}" for one in ("ba", "ke", "li", "mo", "nu", "ré") for other in "bdfgklmnprst"
]
_TOOLS = ("shell", "read", "edit", "search")


class Kind(NamedTuple):
    """What a client speaks: a format, and whether it has its answers streamed."""

    writer: Writer
    streams: bool

    @property
    def path(self) -> str:
        path = self.writer.path.replace("streamG", "g")
        return path.replace(":g", ":streamG") if self.streams else path


KINDS = tuple(
    Kind(writer, streams)
    for writer in WRITERS
    if writer.wire is not MADE_UP
    for streams in (False, True)
    if not streams or writer.wire.name in STREAMED
)


class Talk(NamedTuple):
    """A conversation of a client; all have so many requests in the mean."""

    number: int
    mean: float

    @property
    def kind(self) -> Kind:
        return KINDS[self.number % len(KINDS)]

    def bodies(self) -> Iterator[bytes]:
        """Yield its requests, each a call and its result longer than the one before."""
        random, writer = Random(self.number), self.kind.writer
        head, _, tail = json.dumps(self._wrap()).partition(json.dumps(_LIST))
        said: list[bytes] = []

        def say(step: User | Model | Tools) -> None:
            said.extend(json.dumps(item).encode() for item in writer.spell(step))

        say(User(f"Task {self.number}: mend it."))
        for turn in range(max(1, round(self.mean * random.choice(_LENGTHS)))):
            yield head.encode() + b", ".join(said) + tail.encode()
            tool = random.choice(_TOOLS)
            asked = Ask(f"call_{self.number}_{turn}", tool, {"path": f"{random.choice(_WORDS)}.py"})
            say(Model((asked,), text="So I look." if random.random() < 0.3 else ""))
            say(Tools((Give(asked.call_id, _make_text(random), tool),)))

    def _wrap(self) -> dict[str, object]:
        document = self.kind.writer.wrap([_LIST])
        name = self.kind.writer.wire.name
        return document | ({} if name in ("gemini", "converse") else {"stream": self.kind.streams})


def _make_text(random: Random) -> str:
    """Return what a tool may say: some lines, sometimes many."""
    words = " ".join(random.choices(_WORDS, k=random.choice((20, 100, 200, 400))))
    return "\n".join(words[at : at + 80] for at in range(0, len(words), 80))
