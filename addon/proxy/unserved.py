"""Requests to models in formats that are not masked: each is named once, and all are counted."""

import logging
import re
from collections import Counter

from addon.request import Request, one_line, path_of

logger = logging.getLogger("observation_masking")

_FORMATS = {
    "Interactions": re.compile(r"/v1(?:alpha|beta)?/interactions$"),
}
"""By the name of a format, the end of its path."""

_MAX_NAMED = 1_000
"""Hosts and formats that are counted apart; all further ones count as one."""

_MAX_SHOWN = 10
"""Hosts and formats that the totals of a run name."""

_OTHERS = ("other formats", "other hosts")


def find_unserved_format(request: Request) -> str | None:
    """Return the format of a request to a model that is not masked; None for any other request."""
    if request.method != "POST":
        return None
    path = path_of(request)
    return next((name for name, ending in _FORMATS.items() if ending.search(path)), None)


class Unserved:
    """Counts such requests by format and host; `counts` is the total of a run."""

    def __init__(self) -> None:
        self.counts: Counter[tuple[str, str]] = Counter()

    def note(self, name: str, host: str) -> None:
        """Count a request of a format to a host; the first of them is named."""
        place = (name, one_line(host))
        if place not in self.counts:
            if len(self.counts) >= _MAX_NAMED:
                place = _OTHERS
            else:
                logger.warning(
                    f"{place[1]}: {name} requests are not masked: they pass through untouched, and "
                    "leave no record"
                )
        self.counts[place] += 1

    def render_total(self) -> str:
        """Return what the totals of a run say about it; nothing if there is nothing to say."""
        if not self.counts:
            return ""
        counts = self.counts.most_common()
        named = [f"{n} {name} to {host}" for (name, host), n in counts[:_MAX_SHOWN]]
        if rest := counts[_MAX_SHOWN:]:
            named.append(f"{sum(n for _, n in rest)} more")
        return f"; not masked for their format: {', '.join(named)}"
