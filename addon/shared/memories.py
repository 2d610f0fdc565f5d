"""What a run remembers of conversations: of those that it masks, and of those that it observes.

What is only observed goes on as if it had been sent, so that its figures are those of masking. But
nothing of it was sent: once it is masked, such a conversation is one that is first met.
"""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from addon.shared.memory_file import NAME, OBSERVED, MemoryFile
from masking.conversation import Conversation
from masking.memory.boundary_memory import BoundaryMemory, Occasion, Past


class Memories(NamedTuple):
    """The memory of what was sent, and that of what was observed, if anything is."""

    sent: BoundaryMemory
    observed: BoundaryMemory | None = None

    def meet(
        self, conversation: Conversation, now: float, lifetime: float, *, observed: bool
    ) -> Occasion:
        """Return what is known of the conversation that a request continues.

        A conversation that was masked until now is observed from there, and no longer known as one
        that was masked.
        """
        was_sent = self.sent.meet(conversation, now, lifetime)
        if not observed or self.observed is None:
            return was_sent
        self.sent.forget(conversation)
        was_observed = self.observed.meet(conversation, now, lifetime)
        return max(was_observed, was_sent, key=_find_time)

    def keep(self, occasion: Occasion, past: Past | None, *, observed: bool) -> None:
        """Remember a request in its conversation."""
        memory = self.observed if observed else self.sent
        if memory is not None:
            memory.keep(occasion, past)

    def forget(self, conversation: Conversation) -> None:
        """Forget the conversation that a request continues, because no window is on."""
        for memory in (self.sent, self.observed):
            if memory is not None:
                memory.forget(conversation)


class MemoryFiles:
    """The files of both memories, in `folder`; each is read when it is first needed."""

    def __init__(self, folder: Callable[[], Path]) -> None:
        self._folder = folder
        self._files: dict[str, MemoryFile] = {}
        self._memories: dict[str, BoundaryMemory] = {}

    async def open(self, *, observes: bool) -> Memories:
        """Return the memories; without that of what is observed unless anything is."""
        sent = await self._open(NAME)
        return Memories(sent, await self._open(OBSERVED) if observes else None)

    def close(self) -> None:
        """Write what is remembered."""
        for file in self._files.values():
            file.close()

    async def _open(self, name: str) -> BoundaryMemory:
        if name not in self._memories:
            file = self._files.setdefault(name, MemoryFile(self._folder, name))
            memory = BoundaryMemory(file.write)
            remembered = await asyncio.wrap_future(file.begin_reading())
            memory.load(remembered)
            self._memories.setdefault(name, memory)
        return self._memories[name]


def _find_time(occasion: Occasion) -> float:
    """Return when a conversation was last met, in seconds; before all times if it never was."""
    return float("-inf") if occasion.past is None else occasion.past.sent
