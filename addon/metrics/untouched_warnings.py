"""What the log says, once for each host and model, where nothing is masked for a reason to know."""

from cachetools import LRUCache

from addon.metrics.advice import Advice
from addon.metrics.record import RequestRecord
from masking.wire import OnHistoryEdit

_MAX_PLACES = 1_000

_SIGNED = (
    "claude-code signs what it sends to {host}, so it passes untouched. It signs nothing if it is "
    "started by obsmask run -- claude, or with this proxy's port as its base URL: "
    "ANTHROPIC_BASE_URL=http://127.0.0.1:PORT/to/https/{host}"
)

_BOUND: dict[OnHistoryEdit, str] = {
    "refuses": (
        "{host}: {model} binds its reasoning to all that precedes it, and a request would be "
        "refused if an older tool result were masked: none is masked that reasoning follows"
    ),
    "drops": (
        "{host}: {model} loses its reasoning, without a word, if an older tool result is masked: "
        "none is masked that reasoning follows. If the saving is worth that, have them masked: "
        "{drop}"
    ),
}


class UntouchedWarnings:
    """Remembers what was said, for the hosts and models that were used last."""

    def __init__(self, max_places: int = _MAX_PLACES) -> None:
        self._told: LRUCache[tuple[str, str | None, str], bool] = LRUCache(max_places)

    def find(self, record: RequestRecord, advice: Advice) -> list[str]:
        """Return what to say about a request that has come to its end."""
        line = _find_line(record)
        if line is None or (record.host, record.model, line) in self._told:
            return []
        self._told[record.host, record.model, line] = True
        drop = advice.set({"schema1.bound_reasoning": "drop"})
        return [line.format(host=record.host, model=record.model or "the model", drop=drop)]


def _find_line(record: RequestRecord) -> str | None:
    if record.passed_through == "signed (cch)":
        return _SIGNED
    if record.binding is None or not (record.kept or {}).get("bound"):
        return None
    return _BOUND[record.binding]
