"""Which `Host` the page answers: its own names, so that no stranger's name leads a browser here."""

from addon.network import LOOPBACK_NAMES, bracket, is_loopback, read_ip

_NAMES = tuple(map(bracket, LOOPBACK_NAMES))
"""Names that always lead to this machine. `obsmask.test` is none: without the proxy, whoever
answers a browser's DNS queries could serve a page by that name, and then lead the name here."""


def is_our_host(header: str, host: str, port: int) -> bool:
    """Whether a `Host` header is a name of the page that is served at `host` and `port`.

    On loopback it must name the port, too. Elsewhere every address will do, as an address cannot
    be turned to another one, whatever port it was reached by.
    """
    name, given = _split(header.lower())
    if is_loopback(host):
        return name in _NAMES and given == str(port)
    return name in _NAMES or read_ip(name) is not None


def _split(header: str) -> tuple[str, str]:
    """Return name and port; the port is empty if there is none."""
    name, colon, port = header.rpartition(":")
    return (name, port) if colon and not port.endswith("]") else (header, "")
