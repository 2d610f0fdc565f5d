"""The proxy that the environment names already, a company's for one: it comes behind ours.

This reads the variables; `upstream_routes` follows them.
"""

import ipaddress
import re
from base64 import b64encode
from collections.abc import Mapping
from typing import NamedTuple
from urllib.parse import SplitResult, unquote, urlsplit

from addon.network import bracket, is_this_machine, read_ip

_PORTS = {"http": 80, "https": 443}
_BETWEEN = re.compile(r"[\s,]+")
_Address = ipaddress.IPv4Address | ipaddress.IPv6Address
_Network = ipaddress.IPv4Network | ipaddress.IPv6Network


class _Entry(NamedTuple):
    """One of the hosts that `NO_PROXY` names: addresses, or a name and those below it."""

    network: _Network | None
    name: str
    port: int | None

    def covers(self, host: str, address: _Address | None, port: int) -> bool:
        """Whether it stands for a host, which may be an address."""
        if self.port not in (None, port):
            return False
        if self.network is not None:
            return address is not None and address in self.network
        return self.name in ("*", host) or host.endswith(f".{self.name}")


class NoProxy:
    """What `NO_PROXY` says: hosts that are reached without the proxy. So is this machine itself,
    by whichever of its names (`addon.network.is_this_machine`).

    As curl and Go read it: a name stands for those below it, too, whether it begins with a dot or
    with `*.` or not; an address, or a range such as `10.0.0.0/8`, for addresses alone, as no name
    is looked up; a port at the end restricts either; `*` stands for every host.
    """

    def __init__(self, text: str = "") -> None:
        self._entries = [_read_entry(part) for part in _BETWEEN.split(text.lower()) if part]

    def covers(self, host: str, port: int) -> bool:
        """Whether a host is to be reached without the proxy."""
        if is_this_machine(host):
            return True
        name, address = host.lower().strip("[]").rstrip("."), read_ip(host)
        return any(entry.covers(name, address, port) for entry in self._entries)


class Upstream(NamedTuple):
    """The proxy behind ours.

    variable: the one that names it.
    schemes: those of `http` and `https` for which the environment names a proxy; for the other,
        there is none.
    authorization: what `Proxy-Authorization` has to say; None if it names no user.
    other: the variable that names another proxy, which is not used.
    """

    variable: str
    scheme: str
    host: str
    port: int
    authorization: str | None
    schemes: frozenset[str]
    no_proxy: NoProxy
    other: str | None = None

    @property
    def url(self) -> str:
        """Its address, without the user's name and password."""
        return f"{self.scheme}://{bracket(self.host)}:{self.port}"

    def serves(self, scheme: str, host: str, port: int) -> bool:
        """Whether requests to a host go to it; else they go there directly."""
        return scheme in self.schemes and not self.no_proxy.covers(host, port)


def read_upstream(environment: Mapping[str, str]) -> Upstream | None:
    """Return the proxy that the variables name, in lower case or else in upper case, if they do.

    Where they name two, that for https holds. Raises ValueError, with the variable's name and
    without its value, which may hold a password, if it names none that can be used.
    """
    everywhere = _find(environment, "all_proxy")
    found = {scheme: _find(environment, f"{scheme}_proxy") or everywhere for scheme in _PORTS}
    chosen = found["https"] or found["http"]
    if chosen is None:
        return None
    variable, value = chosen
    parts = _split(variable, value)
    plain, _ = named = found["http"] or chosen
    return Upstream(
        variable=variable,
        scheme=parts.scheme,
        host=parts.hostname or "",
        port=parts.port or _PORTS[parts.scheme],
        authorization=_read_authorization(parts),
        schemes=frozenset(scheme for scheme, each in found.items() if each),
        no_proxy=NoProxy((_find(environment, "no_proxy") or ("", ""))[1]),
        other=plain if named[1] != value else None,
    )


def _find(environment: Mapping[str, str], variable: str) -> tuple[str, str] | None:
    for name in (variable, variable.upper()):
        if value := environment.get(name, "").strip():
            return name, value
    return None


def _split(variable: str, value: str) -> SplitResult:
    try:
        parts = urlsplit(value if "://" in value else f"http://{value}")
        is_complete = bool(parts.hostname) and parts.port != 0
    except ValueError:  # the port is no number, or too large
        is_complete = False
        parts = urlsplit("")
    if parts.scheme.startswith("socks"):
        raise ValueError(
            f"{variable} names a SOCKS proxy, which cannot come behind this one: name an HTTP "
            f"proxy in it, or take {variable} out of the environment to go without"
        )
    if not is_complete or parts.scheme not in _PORTS:
        raise ValueError(f"{variable} names no proxy: expected an address as http://HOST:PORT")
    return parts


def _read_authorization(parts: SplitResult) -> str | None:
    if parts.username is None:
        return None
    credentials = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
    return f"Basic {b64encode(credentials.encode()).decode()}"


def _read_entry(text: str) -> _Entry:
    if network := _read_network(text):
        return _Entry(network, "", None)
    name, _, port = text.rpartition(":")
    if not port.isdecimal():
        name, port = text, ""
    return _Entry(_read_network(name), name.removeprefix("*.").lstrip("."), int(port or 0) or None)


def _read_network(text: str) -> _Network | None:
    try:
        return ipaddress.ip_network(text.strip("[]"), strict=False)
    except ValueError:
        return None
