"""What the log says, once for each host and model, where a refused request was sent again."""

from collections.abc import Mapping

from cachetools import LRUCache

from addon.metrics.record import RequestRecord
from addon.stages import Resent

_MAX_PLACES = 1_000

_LINES: Mapping[Resent, str] = {
    "accepted": (
        "{host} refused a masked request to {model} (400), and took it as the agent wrote it: its "
        "conversation goes out whole until the proxy ends, or until resend_on_400 is switched off"
    ),
    "refused": (
        "{host} refused a masked request to {model} (400), and did not take it as the agent wrote "
        "it either: masking goes on"
    ),
}


class ResendWarnings:
    """Remembers what was said, for the hosts and models that were used last."""

    def __init__(self, max_places: int = _MAX_PLACES) -> None:
        self._told: LRUCache[tuple[str, str | None, Resent], bool] = LRUCache(max_places)

    def find(self, record: RequestRecord) -> list[str]:
        """Return what to say about a request that has come to its end."""
        if record.resent is None or (record.host, record.model, record.resent) in self._told:
            return []
        self._told[record.host, record.model, record.resent] = True
        return [_LINES[record.resent].format(host=record.host, model=record.model or "a model")]
