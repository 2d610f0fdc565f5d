"""Connections that mitmproxy takes for raw TCP, because they do not begin like HTTP.

That can be HTTP all the same: a request line that comes in two pieces, follows a line break, or is
longer than 30 kB. Nothing on such a connection is masked, and nobody else would say so.
"""

import logging

from cachetools import LRUCache
from mitmproxy import tcp

from addon.request import one_line

logger = logging.getLogger("observation_masking")

_MAX_HOSTS = 1_000


class RawTcp:
    """Names each host once, of those that were met last."""

    def __init__(self) -> None:
        self._told: LRUCache[str, bool] = LRUCache(_MAX_HOSTS)

    def note(self, host: str) -> None:
        """Say of a host that a connection to it passes as it is, unless that was said."""
        if host not in self._told:
            self._told[host] = True
            logger.info(
                f"{host}: a connection does not begin like HTTP, so that mitmproxy passes it on as "
                "raw TCP: nothing on it is masked or recorded"
            )


def find_host(flow: tcp.TCPFlow) -> str:
    """Return the host of a connection, by its name where that is known."""
    address = flow.server_conn.address
    return one_line(flow.client_conn.sni or (address[0] if address else "?"))
