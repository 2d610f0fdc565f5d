"""What a run remembers of conversations: of those that it masks, and of those that it observes.

What is only observed goes on as if it had been sent, so that its figures are those of masking. But
nothing of it was sent: once it is masked, such a conversation is one that is first met.
"""

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import NamedTuple

from addon.shared.memory_file import NAME, OBSERVED, PATIENCE, MemoryFile
from masking.conversation import Conversation
from masking.memory import BoundaryMemory, ConversationContext, Past

_PATIENCE = 1.0
"""Seconds that requests wait for the first reading, if another process has locked the file.

A request that does not wait longer breaks one prefix at most. Before bound reasoning that is a
refusal, so there it waits for as long as the file is tried for.
"""


class Memories(NamedTuple):
    """The memory of what was sent, and that of what was observed, if anything is.

    is_being_read: whether what was sent before may still be added.
    """

    sent: BoundaryMemory
    observed: BoundaryMemory | None = None
    is_being_read: bool = False

    def meet(
        self, conversation: Conversation, now: float, lifetime: float, *, observed: bool
    ) -> ConversationContext:
        """Return what is known of the conversation that a request continues.

        A conversation that was masked until now is observed from there, and no longer known as one
        that was masked.
        """
        was_sent = self.sent.lookup(conversation, now, lifetime)
        if not observed or self.observed is None:
            return was_sent
        self.sent.forget(conversation)
        was_observed = self.observed.lookup(conversation, now, lifetime)
        return max(was_observed, was_sent, key=_find_time)

    def keep(self, context: ConversationContext, past: Past | None, *, observed: bool) -> None:
        """Remember a request in its conversation."""
        memory = self.observed if observed else self.sent
        if memory is not None:
            memory.store(context, past)

    def forget(self, conversation: Conversation) -> None:
        """Forget the conversation that a request continues, because no window is on."""
        for memory in (self.sent, self.observed):
            if memory is not None:
                memory.forget(conversation)


class _OpenMemory(NamedTuple):
    """A memory, its file, the first reading of that, and when it began."""

    memory: BoundaryMemory
    file: MemoryFile
    reading: Future[None]
    since: float


class MemoryFiles:
    """The files of both memories, in `folder`; each is read when it is first needed."""

    def __init__(self, folder: Callable[[], Path]) -> None:
        self._folder = folder
        self._open: dict[str, _OpenMemory] = {}

    async def open(self, *, observes: bool, patiently: bool = False) -> Memories:
        """Return the memories; without that of what is observed unless anything is.

        All requests wait for one reading of a file together: a second after it has begun they go on
        without; `patiently`, as long as it goes on.
        """
        names = (NAME, OBSERVED) if observes else (NAME,)
        opened = [self._open.get(name) or self._begin(name) for name in names]
        for _, _, reading, since in opened[:1] if patiently else opened:
            left = since + (PATIENCE if patiently else _PATIENCE) - time.monotonic()
            if not reading.done() and left > 0:
                await asyncio.wait([asyncio.wrap_future(reading)], timeout=left)
        sent, *observed = (memory for memory, *_ in opened)
        return Memories(sent, observed[0] if observed else None, not opened[0].reading.done())

    def close(self) -> None:
        """Write what is remembered."""
        for opened in self._open.values():
            opened.file.close()

    def _begin(self, name: str) -> _OpenMemory:
        memory = BoundaryMemory(lambda opening, branches: file.write(opening, branches))
        file = MemoryFile(self._folder, name, memory.load)
        self._open[name] = _OpenMemory(memory, file, file.begin_reading(), time.monotonic())
        return self._open[name]


def _find_time(context: ConversationContext) -> float:
    """Return when a conversation was last met, in seconds; before all times if it never was."""
    return float("-inf") if context.past is None else context.past.sent
