"""Traffic that the proxy neither reads nor masks: it streams by, and the user hears of it.

Most of it is nobody's request to a model: downloads, uploads, pages. Where it may be one, the log
says so, once, because no record does.
"""

import logging
import re
from collections import Counter

from mitmproxy import http, tcp

from addon.engine import Engine
from addon.once import Once
from addon.request import (
    Request,
    is_bulk_download,
    is_bulk_upload,
    is_event_stream,
    is_intercepted,
    one_line,
    path_of,
)

logger = logging.getLogger("observation_masking")

_FORMATS = {
    "Interactions": re.compile(r"/v1(?:alpha|beta)?/interactions$"),
}
"""Formats of requests to models that are not masked; each with the end of its path."""

_MAX_NAMED = 1_000
"""Hosts and formats that are counted apart; all further ones count as one."""

_MAX_SHOWN = 10
"""Hosts and formats that the totals of a run name."""

_OTHERS = ("other formats", "other hosts")


class UnsupportedTraffic:
    """Lets pass what nobody reads, and counts what is said to a model in a strange format.

    `unserved` counts the requests in a format that is not masked, by format and host.
    """

    def __init__(self, engine: Engine) -> None:
        self.unserved: Counter[tuple[str, str]] = Counter()
        self._engine, self._once = engine, Once()

    def requestheaders(self, flow: http.HTTPFlow) -> None:
        """Stream an upload, unless its flow has an answer already: mitmproxy cannot do that."""
        if flow.response is None and is_bulk_upload(flow.request):
            flow.request.stream = True

    def request(self, flow: http.HTTPFlow) -> None:
        """Count a request to a model in a format that is not masked."""
        host, name = flow.request.pretty_host, find_unserved_format(flow.request)
        if name is None or not self._is_masking(host):
            return
        host = one_line(host)
        if (name, host) in self.unserved:
            self.unserved[name, host] += 1
        elif len(self.unserved) >= _MAX_NAMED:
            self.unserved[_OTHERS] += 1
        else:
            self.unserved[name, host] = 1
            logger.warning(
                f"{host}: {name} requests are not masked: they pass through untouched, and "
                "leave no record"
            )

    def responseheaders(self, flow: http.HTTPFlow) -> None:
        """Stream event streams and downloads."""
        response = flow.response
        if response is None or response.stream:
            return
        response.stream = is_event_stream(response) or is_bulk_download(response)

    def tcp_start(self, flow: tcp.TCPFlow) -> None:
        """Say once of a host that mitmproxy takes a connection to it for raw TCP.

        It does so with what does not begin like HTTP. That can be HTTP all the same: a request line
        that comes in two pieces, follows a line break, or is longer than 30 kB.
        """
        address = flow.server_conn.address
        host = one_line(flow.client_conn.sni or (address[0] if address else "?"))
        if self._is_masking(host) and self._once.is_first(host):
            logger.info(
                f"{host}: a connection does not begin like HTTP, so that mitmproxy passes it on as "
                "raw TCP: nothing on it is masked or recorded"
            )

    def render_total(self) -> str:
        """Return the part of a run's totals about unserved formats; "" if there were none."""
        if not self.unserved:
            return ""
        counts = self.unserved.most_common()
        named = [f"{n} {name} to {host}" for (name, host), n in counts[:_MAX_SHOWN]]
        if rest := counts[_MAX_SHOWN:]:
            named.append(f"{sum(n for _, n in rest)} more")
        return f"; not masked for their format: {', '.join(named)}"

    def _is_masking(self, host: str) -> bool:
        """Whether the configuration has requests to a host masked."""
        settings = self._engine.settings
        return settings.any_enabled and is_intercepted(host, settings.hosts)


def find_unserved_format(request: Request) -> str | None:
    """Return the format of a request to a model that is not masked; None for any other request."""
    if request.method != "POST":
        return None
    path = path_of(request)
    return next((name for name, ending in _FORMATS.items() if ending.search(path)), None)
