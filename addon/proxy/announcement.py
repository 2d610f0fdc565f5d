"""What a proxy in the foreground says to the person in front of it, once it is there."""

import logging

from mitmproxy import ctx
from mitmproxy.proxy.mode_specs import RegularMode, UpstreamMode

from addon.network import DEFAULT_URL, LOOPBACK_HOST, Address, is_unspecified

logger = logging.getLogger("observation_masking")


class Announcement:
    """Says how clients are led through the proxy."""

    def running(self) -> None:
        for server in ctx.master.addons.get("proxyserver").servers:
            if isinstance(server.mode, RegularMode | UpstreamMode) and server.listen_addrs:
                logger.info(f"in the client's terminal: {render_call(server.listen_addrs[0])}")


def render_call(listening: tuple[object, ...]) -> str:
    """Return the command that sets a client's environment for a proxy that listens there."""
    host, port = str(listening[0]), int(str(listening[1]))
    url = Address(LOOPBACK_HOST if is_unspecified(host) else host, port).url
    option = "" if url == DEFAULT_URL else f" --proxy {url}"
    return f'eval "$(obsmask env{option})"'
