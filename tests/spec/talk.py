"""What the chapters share: a short policy, long outputs, and a proxy with a memory."""

from collections.abc import Iterator, Sequence
from typing import Final

from masking import Decision, MaskPolicy, Rewrite
from masking.memory import BoundaryMemory, Memories, Remembered
from masking.proof import Prover
from masking.rewrite import Step as RequestStep
from masking.rewrite import Strategies, rewrite_request
from masking.window import FREE, BoundaryPrices
from masking.wire import FORMATS
from tests.support.wire_conversations import WRITERS, Step, Told, User, Writer, in_each, turn

OUTPUT: Final = "line of output\n" * 40
"""600 characters without a sign of an error."""

SHORT: Final = MaskPolicy(
    True, 1, placeholder_template="<{tool_call_id} {tool_name} {original_chars}>"
)
"""Keeps the last turn, and has a placeholder that a test can write out."""

CACHED: Final = BoundaryPrices(read=0.1, write=1.25)
"""What many providers charge for a cached and for a written token."""

CHAT: Final = WRITERS[0]

IN_FORMATS_WITH_IDS = in_each([writer for writer in WRITERS if writer.has_ids])
"""Without ids, results answer calls by their order."""

IN_FORMATS_WITH_A_PATH = in_each([writer for writer in WRITERS if writer.wire in FORMATS])
"""All but the made-up one, which no path leads to."""

IN_FORMATS_WITH_LISTS = in_each([writer for writer in WRITERS if writer.has_lists])


def mask(told: Told, policy: MaskPolicy | Strategies, prices: BoundaryPrices = FREE) -> Rewrite:
    """Mask a request as a proxy without a memory does."""
    return rewrite_request(told.body, policy, told.wire, told.writer.path, prices)


def reasons(decided: Rewrite | Sequence[Decision]) -> list[str]:
    """Return the reason of each result, the oldest first."""
    decisions = decided.decisions if isinstance(decided, Rewrite) else decided
    return [decision.reason for decision in decisions]


def requests(writer: Writer, count: int, output: str = OUTPUT) -> Iterator[Told]:
    """Yield the requests of a growing conversation: each has one turn more, the first has none."""
    said: list[Step] = [User("Fix the build.")]
    for number in range(count):
        yield writer.tell(*said)
        said += turn(f"call_{number}", f"{number}: {output}")


class Proxy:
    """A proxy that remembers conversations, and can be started again with what it wrote down."""

    def __init__(self) -> None:
        self._file: dict[bytes, Remembered] = {}
        self.restart()

    def restart(self) -> None:
        self._memory = BoundaryMemory(self._file.__setitem__)
        self._memory.load(self._file.items())
        self._prover = Prover()

    def send(
        self,
        told: Told,
        policy: MaskPolicy | Strategies = SHORT,
        prices: BoundaryPrices = FREE,
        now: float = 0.0,
    ) -> Rewrite:
        """Mask a request and remember it; after 300 seconds the provider's cache is cold."""
        conversation = told.read()
        if isinstance(policy, MaskPolicy):
            policy = Strategies(schema1=policy)
        step = RequestStep(
            conversation,
            policy,
            prices,
            Memories(self._memory),
            now=now,
            lifetime=300.0,
            prover=self._prover,
        )
        rewrite = step.rewrite()
        step.remember(rewrite)
        return rewrite
