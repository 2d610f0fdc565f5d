"""What is remembered of conversations and accounts, as tests write and read it."""

from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from addon.accounts import Accounts, Verdict
from addon.memory import Conversations, MemoryRows, open_memory, read_conversations
from addon.places import state_folder
from addon.store import StoreError
from masking.memory import Remembered


class Remembering:
    """A process that remembers, told what; `observed` says which of its memories is meant."""

    def __init__(self, folder: Callable[[], Path], *, observed: bool = False) -> None:
        self.store = open_memory(folder)
        self.memory = MemoryRows(self.store)
        self.rows = self.memory._rows
        self._observed = observed

    def write(self, opening: bytes, remembered: Remembered) -> None:
        """Remember this; it is written soon."""
        self.memory._put(self._observed, opening, remembered)

    def read(self) -> list[tuple[bytes, Remembered]]:
        """Return what is in the file, once what waits is written; nothing if it cannot be read."""
        if self.rows._waiting:
            self.rows._hurry.set()
        found: Conversations = {}

        def job() -> None:
            try:
                found.update(self.store.read(read_conversations))
            except StoreError as error:
                self.store.warn(error)

        self.rows._worker.submit(job).result()
        return [(key[1], known) for key, known in found.items() if key[0] is self._observed]

    def close(self) -> None:
        """Write what waits, and close the file."""
        self.memory.close()
        self.store.close()


def learn(host: str, model: str, verdict: Verdict) -> None:
    """Have learned this of the user's account."""
    with closing(open_memory(state_folder)) as store, closing(Accounts(store)) as accounts:
        accounts.learn(accounts.identify(host, model, b"key", None), verdict)
