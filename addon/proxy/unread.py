"""Traffic that the proxy neither reads nor masks: it streams by, and the user hears of it.

Most of it is nobody's request to a model: downloads, uploads, pages. Where it may be one, the log
says so, once, because no record does.
"""

import logging
import re
from collections import Counter
from collections.abc import Sequence
from typing import Protocol

from mitmproxy import http, tcp

from addon.engine import Engine
from addon.once import Once
from addon.proxy.health import is_for_proxy
from addon.proxy.routes import OwnPorts
from addon.request import (
    Request,
    find_wire_format,
    is_bulk_download,
    is_bulk_upload,
    is_event_stream,
    is_opened,
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


class Unread:
    """The hooks for what no other addon reads.

    own_ports: contains flows that it has answered itself. Those are not counted.
    readers: addons that contain the flows whose answers they read. They settle in
        `responseheaders` how such an answer streams, so they have to come before this.

    `unserved` counts the requests in a format that is not masked, by format and host.
    """

    def __init__(
        self,
        engine: Engine,
        own_ports: OwnPorts,
        readers: "Sequence[Reader]",
    ) -> None:
        self.unserved: Counter[tuple[str, str]] = Counter()
        self._engine, self._own_ports, self._readers = engine, own_ports, readers
        self._once = Once()

    def requestheaders(self, flow: http.HTTPFlow) -> None:
        """Stream uploads that are not requests to a model."""
        # mitmproxy cannot stream the request of a flow that has its answer already, as from
        # `OwnPorts`.
        is_answered = flow.response is not None
        is_for_model = find_wire_format(flow.request) is not None
        if not is_answered and not is_for_model and is_bulk_upload(flow.request):
            flow.request.stream = True

    def request(self, flow: http.HTTPFlow) -> None:
        """Count a request to a model in a format that is not masked."""
        host, name = flow.request.pretty_host, find_unserved_format(flow.request)
        is_own = flow in self._own_ports or is_for_proxy(flow.request)
        if name is None or is_own or not self._is_masking(host):
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
        """Stream event streams and downloads that nobody reads."""
        response = flow.response
        if response is None or response.stream or any(flow in each for each in self._readers):
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
        return settings.any_enabled and is_opened(host, settings.hosts)


class Reader(Protocol):
    """An addon that contains the flows whose answers it reads."""

    def __contains__(self, flow: http.HTTPFlow, /) -> bool: ...


def find_unserved_format(request: Request) -> str | None:
    """Return the format of a request to a model that is not masked; None for any other request."""
    if request.method != "POST":
        return None
    path = path_of(request)
    return next((name for name, ending in _FORMATS.items() if ending.search(path)), None)
