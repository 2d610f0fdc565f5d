"""What the log says, once, when the boundary of a conversation is held."""

from addon.metrics.advice import Advice
from addon.metrics.record import RequestRecord


class HoldWarnings:
    """Remembers which conversations of this run are held."""

    def __init__(self) -> None:
        self._held: set[tuple[bool, int | None]] = set()

    def find(self, record: RequestRecord, advice: Advice) -> list[str]:
        """Return what to say about a request that has come to its end."""
        conversation = (record.replay, record.conversation)  # numbered apart
        if not record.boundary_held or conversation in self._held:
            return []
        self._held.add(conversation)
        return [render_hold(record, advice)]


def render_hold(record: RequestRecord, advice: Advice) -> str:
    """Return the line that tells a user that the boundary of a conversation is held.

    If a provider caches nothing at all, a sliding window is better: it saves more than half of the
    tokens where a held boundary saves a fifth.
    """
    held = (
        f"{record.host} no longer caches what conversation {record.conversation} sends since its "
        "boundary moved: the boundary is held where it is"
    )
    if record.cached_tokens or record.prompt_tokens is None:
        return held
    return (
        f"{held}. It reports no cached tokens at all: if it caches nothing, let the window slide "
        f"there: {advice.add('hosts.uncached', record.host)}"
    )
