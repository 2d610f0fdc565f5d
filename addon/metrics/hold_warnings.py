"""What the log says where the boundary of a conversation comes to be held: once for each."""

from addon.metrics.record import RequestRecord


class HoldWarnings:
    """Remembers which conversations of this run are held."""

    def __init__(self) -> None:
        self._held: set[tuple[bool, int | None]] = set()

    def find(self, record: RequestRecord) -> list[str]:
        """Return what to say of a request that has come to its end."""
        conversation = (record.replay, record.conversation)  # numbered apart
        if not record.boundary_held or conversation in self._held:
            return []
        self._held.add(conversation)
        return [render_hold(record)]


def render_hold(record: RequestRecord) -> str:
    """Return the line that tells a person that the boundary of a conversation stands still.

    A provider that caches nothing at all is better served by a window that slides, which saves
    more than half of the tokens where a boundary that stands still saves a fifth.
    """
    held = (
        f"{record.host} no longer caches what conversation {record.conversation} sends since its "
        "boundary moved: the boundary is held where it is"
    )
    if record.cached_tokens or record.prompt_tokens is None:
        return held
    return (
        f"{held}. It reports no cached tokens at all: if it caches nothing, this line under "
        f'[observation_masking.hosts] lets the window slide there: uncached = ["{record.host}"]'
    )
