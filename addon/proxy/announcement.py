"""What a proxy in the foreground says to the person in front of it, once it is there."""

import logging

from mitmproxy import ctx
from mitmproxy.proxy.mode_specs import RegularMode, UpstreamMode

from addon.proxy.environment import DEFAULT_URL

logger = logging.getLogger("observation_masking")


class Announcement:
    """Says how clients are led through the proxy."""

    def running(self) -> None:
        for server in ctx.master.addons.get("proxyserver").servers:
            if isinstance(server.mode, RegularMode | UpstreamMode) and server.listen_addrs:
                logger.info(f"in the client's terminal: {render_call(server.listen_addrs[0])}")


def render_call(address: tuple[object, ...]) -> str:
    """Return the command that sets a client's environment for a proxy that listens there."""
    host, port = address[:2]
    url = f"http://{f'[{host}]' if ':' in str(host) else host}:{port}"
    option = "" if url == DEFAULT_URL else f" --proxy {url}"
    return f'eval "$(obsmask env{option})"'
