"""Long tool results, and the core with a memory that is kept in a file, as the addon keeps it."""

from collections.abc import Mapping

from addon.memory import decode_branches, decode_shortened, encode_branches, encode_shortened
from masking.arrival import ArrivalPolicy
from masking.conversation import Conversation
from masking.memory import BoundaryMemory, Memories, Remembered
from masking.proof import Prover
from masking.rewrite import Rewrite, Step, Strategies
from masking.window import FREE, BoundaryPrices, MaskPolicy

OFF = MaskPolicy(enabled=True, window_turns=0)
"""The window masks nothing, and results may be shortened."""

SHORTENS = ArrivalPolicy(enabled=True, max_chars=1_000, head_chars=300, tail_chars=200)


def write_lines(name: str, count: int = 40) -> str:
    """Return so many lines of 50 characters, each of its own, without a sign of an error."""
    return "".join(f"{name} {n}: nothing went wrong in here".ljust(49) + "\n" for n in range(count))


def shorten_lines(text: str) -> str:
    """Return what `SHORTENS` leaves of such lines: of each 50, six in front and four behind."""
    marker = f"\n[... {len(text) - 500} of {len(text)} characters left out ...]\n"
    return f"{text[:300]}{marker}{text[-200:]}"


class Remembering:
    """A process that remembers conversations, and can be started again with what it wrote down."""

    def __init__(self) -> None:
        self._file: dict[bytes, tuple[str, str | None]] = {}
        self.restart()

    def restart(self) -> None:
        self.memory = BoundaryMemory(self._write)
        self.memory.load(self._read().items())

    def _write(self, opening: bytes, known: Remembered) -> None:
        self._file[opening] = encode_branches(known.branches), encode_shortened(known)

    def _read(self) -> Mapping[bytes, Remembered]:
        return {
            opening: Remembered(decode_branches(branches), *decode_shortened(shortened))
            for opening, (branches, shortened) in self._file.items()
        }

    def send(
        self,
        client: Conversation,
        strategies: Strategies,
        prices: BoundaryPrices = FREE,
        now: float = 0.0,
    ) -> Rewrite:
        """Return what becomes of a request, and remember it; the masker does the same."""
        memories = Memories(self.memory)
        step = Step(client, strategies, prices, memories, now=now, lifetime=300.0, prover=Prover())
        rewrite = step.rewrite()
        step.remember(rewrite)
        return rewrite
