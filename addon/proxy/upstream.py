"""The proxy that the environment names already, a company's for one: it comes behind ours.

This reads the variables; `UpstreamRoutes` in `addon/proxy/routes.py` sends the requests there.
Commands use it, too, so it does not load mitmproxy.
"""

import ipaddress
import re
import socket
from base64 import b64encode
from collections.abc import Collection, Mapping
from typing import NamedTuple
from urllib.parse import SplitResult, unquote, urlsplit

from addon.network import Address, bracket, is_this_machine, read_ip
from addon.proxy.environment import restore

_PORTS = {"http": 80, "https": 443}
_SEPARATORS = re.compile(r"[\s,]+")
_CONNECT_SECONDS = 5.0
_MAPPED_BITS = 96
"""The bits of an address of IPv6 before one of IPv4 (RFC 4291, 2.5.5.2)."""


class _Network(NamedTuple):
    """An entry of `NO_PROXY` that names addresses: one, or a range of them."""

    network: ipaddress.IPv4Network | ipaddress.IPv6Network
    port: int | None


class _Name(NamedTuple):
    """An entry of `NO_PROXY` that names a host and those below it; `*` is every host."""

    name: str
    port: int | None


class NoProxy:
    """What `NO_PROXY` says: hosts that are reached without the proxy.

    So is this machine itself, by whichever of its names (`addon.network.is_this_machine`).

    As curl and Go read it: a name stands for those below it, too, whether it begins with a dot or
    with `*.` or not; an address, or a range such as `10.0.0.0/8`, for addresses alone, as no name
    is looked up; a port at the end restricts either; `*` stands for every host. However an entry
    and a host are spelled, both are compared in one spelling.
    """

    def __init__(self, text: str = "") -> None:
        self._entries = [_read_entry(part) for part in _SEPARATORS.split(text.lower()) if part]

    @property
    def covers_all(self) -> bool:
        """Whether every host is to be reached without the proxy."""
        return _Name("*", None) in self._entries

    def covers(self, host: str, port: int) -> bool:
        """Whether a host, which may be an address, is to be reached without the proxy."""
        if is_this_machine(host):
            return True
        name, address = _spell(host.lower().strip("[]")), read_ip(host)
        for entry in self._entries:
            if entry.port not in (None, port):
                continue
            if isinstance(entry, _Network):
                if address is not None and address in entry.network:
                    return True
            elif entry.name in ("*", name) or name.endswith(f".{entry.name}"):
                return True
        return False


def _read_entry(text: str) -> _Network | _Name:
    if network := _read_network(text):  # with colons, but without a port
        return _Network(network, None)
    name, _, digits = text.rpartition(":")
    if not digits.isdecimal():
        name, digits = text, ""
    port = int(digits or 0) or None
    if network := _read_network(name):
        return _Network(network, port)
    return _Name(_spell(name.removeprefix("*.").lstrip(".")), port)


def _read_network(text: str) -> ipaddress.IPv4Network | ipaddress.IPv6Network | None:
    """Return an address or a range; one of IPv4 that is written as one of IPv6, as what it is."""
    address, slash, length = text.partition("/")
    if address.startswith("[") and address.endswith("]"):
        address = address[1:-1]
    try:
        network = ipaddress.ip_network(f"{address.rstrip('.')}{slash}{length}", strict=False)
    except ValueError:
        return None
    first = network.network_address
    mapped = first.ipv4_mapped if isinstance(first, ipaddress.IPv6Address) else None
    if mapped is None or network.prefixlen < _MAPPED_BITS:
        return network
    return ipaddress.ip_network((mapped, network.prefixlen - _MAPPED_BITS))


def _spell(name: str) -> str:
    """Return a name without the dot of the root, and as names of other scripts are looked up."""
    name = name.rstrip(".")
    try:
        return name if name.isascii() else name.encode("idna").decode()
    except UnicodeError:  # it can be no name, so it equals none
        return name


class Upstream(NamedTuple):
    """The proxy behind ours.

    variable: the one that names it.
    authorization: the value of `Proxy-Authorization`; None if the variable names no user.
    schemes: those of `http` and `https` for which the environment names a proxy; for the other,
        there is none.
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

    def __str__(self) -> str:
        """Return the line of the log that says which proxy comes behind ours."""
        line = f"requests go on to the proxy {self.url}, which {self.variable} names"
        return f"{line} ({self.other} names another, not used)" if self.other else line

    @property
    def url(self) -> str:
        """Its address, without the user's name and password."""
        return f"{self.scheme}://{bracket(self.host)}:{self.port}"

    def serves(self, scheme: str, host: str, port: int) -> bool:
        """Whether requests to a host go to it; else they go there directly."""
        return scheme in self.schemes and not self.no_proxy.covers(host, port)

    def is_among(self, own: Collection[Address]) -> bool:
        """Whether it listens on this machine, on the port of one of these addresses."""
        return is_this_machine(self.host) and self.port in {address.port for address in own}


def find_upstream(environment: Mapping[str, str], own: Collection[Address] = ()) -> Upstream | None:
    """Return the proxy to go on to, as the variables say; None without one.

    A terminal with our variables may start the very proxy that they name, which listens at `own`:
    then the values before ours hold. Raises ValueError, with the variable's name, if the proxy
    cannot be used, or is to be on this machine and is not there.
    """
    upstream = read_upstream(environment)
    if upstream is not None and upstream.is_among(own):
        upstream = read_upstream(restore(environment))
        if upstream is not None and upstream.is_among(own):
            return None
    if upstream is not None and is_this_machine(upstream.host):
        try:
            socket.create_connection((upstream.host, upstream.port), _CONNECT_SECONDS).close()
        except OSError:
            raise ValueError(
                f"{upstream.variable} names {upstream.url}, where nothing listens. If that was a "
                'proxy of ours, eval "$(obsmask env --unset)" takes its variables back'
            ) from None
    return upstream


def read_upstream(environment: Mapping[str, str]) -> Upstream | None:
    """Return the proxy that the variables name, in lower case or else in upper case, if they do.

    Where they name two, that for https holds. One by which no host is reached is none. Raises
    ValueError, with the variable's name and without its value, which may hold a password, if it
    names none that can be used.
    """
    everywhere = _read_variable(environment, "all_proxy")
    found = {
        scheme: _read_variable(environment, f"{scheme}_proxy") or everywhere for scheme in _PORTS
    }
    chosen = found["https"] or found["http"]
    no_proxy = NoProxy((_read_variable(environment, "no_proxy") or ("", ""))[1])
    if chosen is None or no_proxy.covers_all:
        return None
    variable, value = chosen
    parts = _split(variable, value)
    authorization = None
    if parts.username is not None:
        credentials = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
        authorization = f"Basic {b64encode(credentials.encode()).decode()}"
    plain_variable, plain_value = found["http"] or chosen
    return Upstream(
        variable=variable,
        scheme=parts.scheme,
        host=parts.hostname or "",
        port=parts.port or _PORTS[parts.scheme],
        authorization=authorization,
        schemes=frozenset(scheme for scheme, each in found.items() if each),
        no_proxy=no_proxy,
        other=plain_variable if plain_value != value else None,
    )


def _read_variable(environment: Mapping[str, str], variable: str) -> tuple[str, str] | None:
    """Return a variable's name, as it is spelled there, and its value; None if it is not set."""
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
