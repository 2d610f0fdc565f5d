"""Where the environment leads requests: to a proxy, and which one, or past it."""

import http.client
import shlex
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

from addon.commands.doctor.report import Finding, broken, note, ok
from addon.counts import pluralize
from addon.network import DEFAULT_ADDRESS, Address, find_free_port, is_this_machine
from addon.proxy.authorities import own_authority, user_bundle
from addon.proxy.base_urls import BASE_URLS, read_behind, read_host
from addon.proxy.environment import DIRECT_VARIABLES, render_call
from addon.proxy.health import Health, check_health
from addon.proxy.transparent import NetworkOptions, TransparentNetwork, find_missing
from addon.proxy.upstream import NoProxy, read_upstream
from addon.records.words import list_unmaskable
from addon.request import is_intercepted
from addon.vendors import VENDORS
from addon.version import VERSION
from masking.config import HostSettings
from masking.patterns import is_named

VARIABLES = ("HTTPS_PROXY", "HTTP_PROXY", "ALL_PROXY")
"""Each also exists in lower case, which many clients prefer."""

_SECONDS = 5.0
_RUN = "obsmask run -- COMMAND"


class Probe(NamedTuple):
    """An address: with the `health` of a proxy of ours, or the `problem` if there is no proxy."""

    address: Address
    health: Health | None = None
    problem: str | None = None


def find_addresses(environment: Mapping[str, str]) -> dict[Address, list[str]]:
    """Return where the variables lead, with their names; those without an address are left out."""
    found: dict[Address, list[str]] = {}
    for name, value in _read_set(environment):
        try:
            if named := read_upstream({name: value}):
                found.setdefault(Address(named.host, named.port), []).append(name)
        except ValueError:
            continue
    return found


def probe(address: Address) -> Probe:
    """Ask whatever listens at an address for its health."""
    try:
        return Probe(address, check_health(address, _SECONDS))
    except (OSError, ValueError, http.client.InvalidURL) as error:  # the latter: no name of a host
        problem = getattr(error, "strerror", None) or str(error) or type(error).__name__
        return Probe(address, problem=problem)


def check_variables(environment: Mapping[str, str]) -> Iterator[Finding]:
    """Yield what is wrong with the variables themselves; their values may hold a password."""
    for name, value in _read_set(environment):
        try:
            read_upstream({name: value})
        except ValueError as error:
            yield broken(str(error), f"unset {name}")
    for name in VARIABLES:
        upper, lower = environment.get(name), environment.get(name.lower())
        if upper and lower and upper != lower:
            yield broken(
                f"{name} and {name.lower()} differ: which one is used depends on the client",
                f'export {name.lower()}="${name}"',
            )
    names = {name.upper() for name, _ in _read_set(environment)}
    addresses = find_addresses(environment)
    if names and "HTTPS_PROXY" not in names:
        yield note(
            f"Only {' and '.join(sorted(names))} is set: most clients use HTTPS_PROXY for models",
            render_call(next(iter(addresses), DEFAULT_ADDRESS)),
        )


def check_probe(
    found: Probe, names: list[str], config: Path | None, *, is_by_env: bool = False
) -> Iterator[Finding]:
    """Yield what is wrong at an address to which these variables lead.

    config: the configuration that it should have; None if its files are not ours.
    is_by_env: whether `obsmask env` has set them, which can put back what was there.
    """
    place = f"{', '.join(names)} {'leads' if len(names) == 1 else 'lead'} to {found.address.url}"
    if found.problem and is_by_env:
        yield broken(
            f"{place}, where no proxy answers: {found.problem}. Start it, or put back what was "
            'there before: eval "$(obsmask env --unset)"',
            f"obsmask proxy --port {found.address.port}",
        )
    elif found.problem:
        yield broken(
            f"{place}, where no proxy answers: {found.problem}", f"unset {' '.join(names)}"
        )
    elif found.health is None:
        yield note(
            f"{place}, a proxy, but not this one: it masks nothing. obsmask run forwards its "
            "requests to it",
            _RUN,
        )
    else:
        yield from _check_health(found.health, found.address, place, config)
        if not is_this_machine(found.address.host):
            yield note(f"{found.address.host} is not loopback: other machines may use that proxy")


def check_none(default: Probe) -> Iterator[Finding]:
    """Yield what to do where no variable leads to a proxy."""
    if default.health is None:
        yield note("No variable leads a client to a proxy", _RUN)
    else:
        yield note(
            f"A proxy masks at {default.address.url}, but no variable leads a client there",
            render_call(default.address),
        )


def _check_health(
    health: Health, address: Address, place: str, config: Path | None
) -> Iterator[Finding]:
    state = health.state.removeprefix("observation-masking ")
    says, config_file = f"{place}, which is observation-masking {state}", shlex.quote(health.config)
    yield ok(says) if health.is_masking else note(says, f"obsmask config --config {config_file}")
    if health.software_version != VERSION:
        yield note(
            f"That proxy is version {health.software_version}, this command is version {VERSION}: "
            "restart the proxy"
        )
    if config is not None and Path(health.config) != config:
        yield note(
            f"That proxy uses another configuration than {config}",
            f"obsmask doctor --config {config_file}",
        )
    if health.lost_records:
        yield broken(
            f"That proxy could not write {pluralize(health.lost_records, 'record')}",
            f"df -h {shlex.quote(health.records or '.')}",
        )
    for says in list_unmaskable(health.unopened, 0):
        yield note(f"At that proxy, {says}", render_call(address))
    for says in list_unmaskable({}, health.unserved):
        yield note(f"At that proxy, {says}")


def _read_set(environment: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    for name in VARIABLES:
        for variable in (name, name.lower()):
            if value := environment.get(variable):
                yield variable, value


# What leads past it: `NO_PROXY`, and servers on this machine

_PORT = 443

KNOWN_HOSTS = tuple(vendor.host for vendor in VENDORS if vendor.is_usual)
"""Where clients look for a model, if no base URL says otherwise."""


def find_base_urls(environment: Mapping[str, str]) -> dict[str, tuple[str, str | None]]:
    """Return the base URLs of the environment by variable; those that are none are left out.

    Each comes with the host that is asked by way of the proxy's own port; None if it is not.
    """
    found = {}
    for name in BASE_URLS:
        value = environment.get(name, "")
        url = value if "://" in value or not value else f"http://{value}"
        if host := read_host(url):
            behind = None
            with suppress(ValueError):
                behind = read_behind(urlsplit(url).path) if is_this_machine(host) else None
            found[name] = url, behind and behind.host
    return found


def check_bypasses(environment: Mapping[str, str], hosts: Collection[str]) -> Iterator[Finding]:
    """Yield what leads clients in this environment past the proxy; `hosts` have been asked.

    This machine is meant to be reached without it: what leads there by way of the proxy are base
    URLs.
    """
    urls = {name: url for name, (url, host) in find_base_urls(environment).items() if host is None}
    for name, url in urls.items():
        if is_this_machine(read_host(url)):
            parts = urlsplit(url)
            address = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"
            yield note(
                f"{name} names a server on this machine, {address}: clients go there without the "
                "proxy, unless one in reverse mode listens there",
                f"obsmask run --reverse {shlex.quote(address)} -- COMMAND",
            )
    asked = {*hosts, *map(read_host, urls.values()), *KNOWN_HOSTS}
    others = {host for host in asked if not is_this_machine(host)}
    for variable in DIRECT_VARIABLES:
        yield from _check_no_proxy(environment, variable, others)


def check_hosts(
    environment: Mapping[str, str], hosts: Collection[str], settings: HostSettings
) -> Iterator[Finding]:
    """Yield the hosts of models that the configuration leaves alone; `hosts` have been asked."""
    named = {host or read_host(url) for url, host in find_base_urls(environment).values()}
    closed = sorted(host for host in {*hosts, *named} if not is_intercepted(host, settings))
    for host in closed:
        key = "never names" if is_named(host, settings.never) else "only leaves out"
        yield note(
            f"hosts.{key} {host}: requests to it are not masked",
            "obsmask config | grep hosts",
        )


def _check_no_proxy(
    environment: Mapping[str, str], variable: str, hosts: Collection[str]
) -> Iterator[Finding]:
    value = environment.get(variable, "")
    passing = sorted(host for host in hosts if NoProxy(value).covers(host, _PORT))
    if not passing:
        return
    entries = value.replace(",", " ").split()
    rest = [each for each in entries if not any(NoProxy(each).covers(h, _PORT) for h in passing)]
    yield broken(
        f"{variable} leads requests to {', '.join(passing)} past the proxy",
        f"export {variable}={shlex.quote(','.join(rest))}",
    )


def check_transparent(log: Path) -> Iterator[Finding]:
    """Yield whether this machine can `run --transparent`, which is tried; `log` gets what is said.

    Without a command there is nothing to trust, so the bundle may be any.
    """
    if missing := find_missing():
        yield broken(f"--transparent {missing.says}", missing.fix)
        return
    bundle = user_bundle({})
    with TransparentNetwork(
        NetworkOptions(find_free_port()), bundle, own_authority(), log, log.parent
    ) as network:
        kinds = "IPv4 and IPv6" if len(network.modes) > 1 else "IPv4 alone, as the machine has"
        yield ok(f"obsmask run --transparent -- COMMAND works here: {kinds}")
