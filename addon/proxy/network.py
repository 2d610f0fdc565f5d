"""The network that a proxy starts into: which other proxy it goes on to, if any."""

import socket
from collections.abc import Collection, Mapping

from addon.network import Address, is_this_machine
from addon.proxy.environment import restore
from addon.proxy.upstream import Upstream, read_upstream

_PATIENCE = 5.0


def find_upstream(environment: Mapping[str, str], own: Collection[Address] = ()) -> Upstream | None:
    """Return the proxy to go on to, as the variables say; None without one.

    A terminal with our variables may start the very proxy that they name, which listens at `own`:
    then those hold that were there before. Raises ValueError, with the variable's name, if the
    proxy cannot be used, or is to be on this machine and is not there.
    """
    upstream = read_upstream(environment)
    if upstream is not None and _is_among(upstream, own):
        upstream = read_upstream(restore(environment))
        if upstream is not None and _is_among(upstream, own):
            return None
    if upstream is not None and is_this_machine(upstream.host) and not _listens(upstream):
        raise ValueError(
            f"{upstream.variable} names {upstream.url}, where nothing listens. If that was a proxy "
            'of ours, eval "$(obsmask env --unset)" takes its variables back'
        )
    return upstream


def describe(upstream: Upstream) -> str:
    """Return the line that says which proxy comes behind ours."""
    line = f"requests go on to the proxy {upstream.url}, which {upstream.variable} names"
    return f"{line} ({upstream.other} names another, not used)" if upstream.other else line


def _is_among(upstream: Upstream, own: Collection[Address]) -> bool:
    return is_this_machine(upstream.host) and upstream.port in {address.port for address in own}


def _listens(upstream: Upstream) -> bool:
    try:
        socket.create_connection((upstream.host, upstream.port), _PATIENCE).close()
    except OSError:
        return False
    return True
