"""Which `Host` the page answers: its own names, so that no stranger's name leads a browser here."""

from ipaddress import ip_address

_NAMES = ("localhost", "127.0.0.1", "[::1]")
"""Names that always lead to this machine. `obsmask.test` is none: without the proxy, whoever
answers a browser's DNS queries could serve a page by that name, and then lead the name here."""


def is_loopback(host: str) -> bool:
    """Whether an address can be reached from this machine alone."""
    return host == "localhost" or (_is_address(host) and ip_address(host).is_loopback)


def is_our_host(header: str, host: str, port: int) -> bool:
    """Whether a `Host` header is a name of the page that is served at `host` and `port`.

    On loopback it must name the port, too. Elsewhere every address will do, as an address cannot
    be turned to another one, whatever port it was reached by.
    """
    name, given = _split(header.lower())
    if is_loopback(host):
        return name in _NAMES and given == str(port)
    return name in _NAMES or _is_address(name.strip("[]"))


def _split(header: str) -> tuple[str, str]:
    """Return name and port; the port is empty if there is none."""
    name, colon, port = header.rpartition(":")
    return (name, port) if colon and not port.endswith("]") else (header, "")


def _is_address(text: str) -> bool:
    try:
        ip_address(text)
    except ValueError:
        return False
    return True
