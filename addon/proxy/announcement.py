"""What a proxy in the foreground says to the person in front of it, once it is there."""

import logging

from mitmproxy import ctx
from mitmproxy.proxy.mode_specs import RegularMode, UpstreamMode

from addon.proxy.environment import DEFAULT_URL
from addon.proxy.health_check import Address

logger = logging.getLogger("observation_masking")

_THIS_MACHINE = "127.0.0.1"
_EVERYWHERE = ("0.0.0.0", "::")  # noqa: S104 - it is the user who asks for it


class Announcement:
    """Says how clients are led through the proxy."""

    def running(self) -> None:
        for server in ctx.master.addons.get("proxyserver").servers:
            if isinstance(server.mode, RegularMode | UpstreamMode) and server.listen_addrs:
                logger.info(f"in the client's terminal: {render_call(server.listen_addrs[0])}")


def render_call(listening: tuple[object, ...]) -> str:
    """Return the command that sets a client's environment for a proxy that listens there."""
    host, port = str(listening[0]), int(str(listening[1]))
    url = Address(_THIS_MACHINE if host in _EVERYWHERE else host, port).url
    option = "" if url == DEFAULT_URL else f" --proxy {url}"
    return f'eval "$(obsmask env{option})"'
