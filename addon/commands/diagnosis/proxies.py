"""Where the environment's proxy variables lead, and what listens there."""

import http.client
import shlex
from collections.abc import Iterator, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple

from addon.commands.diagnosis.finding import Finding, broken, note, ok
from addon.network import Address, is_this_machine
from addon.proxy.health_check import Health, check_health
from addon.proxy.upstream import read_upstream

VARIABLES = ("HTTPS_PROXY", "HTTP_PROXY", "ALL_PROXY")
"""Each is also spelled in lower case, and many clients prefer that."""

_SECONDS = 5.0
_RUN = "obsmask run -- COMMAND"
_RENEW = 'eval "$(obsmask env)"'


class Reached(NamedTuple):
    """What is at an address: `health` if it is one of ours, else `problem` if it is no proxy."""

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


def reach(address: Address) -> Reached:
    """Ask what listens at an address how it is."""
    try:
        return Reached(address, check_health(address, _SECONDS))
    except (OSError, ValueError, http.client.InvalidURL) as error:  # the latter: no name of a host
        problem = getattr(error, "strerror", None) or str(error) or type(error).__name__
        return Reached(address, problem=problem)


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
                f"{name} and {name.lower()} differ: which of them holds depends on the client",
                f'export {name.lower()}="${name}"',
            )
    names = {name.upper() for name, _ in _read_set(environment)}
    if names and "HTTPS_PROXY" not in names:
        yield note(
            f"{' and '.join(sorted(names))} alone is set: most clients take HTTPS_PROXY for models",
            _RENEW,
        )


def check_reached(
    reached: Reached, names: list[str], config: Path | None, *, is_by_env: bool = False
) -> Iterator[Finding]:
    """Yield what is at an address that these variables lead to.

    config: the configuration that it should have; None if its files are not ours.
    is_by_env: whether `obsmask env` has set them, which can put back what was there.
    """
    place = f"{', '.join(names)} {'leads' if len(names) == 1 else 'lead'} to {reached.address.url}"
    if reached.problem and is_by_env:
        yield broken(
            f"{place}, where no proxy answers: {reached.problem}. Start it, or put back what was "
            'there before: eval "$(obsmask env --unset)"',
            f"obsmask proxy --port {reached.address.port}",
        )
    elif reached.problem:
        yield broken(f"{place}, where no proxy answers: {reached.problem}", _unset(names))
    elif reached.health is None:
        yield note(
            f"{place}, a proxy, but not this one: nothing is masked there. obsmask run sends its "
            "requests on to it",
            _RUN,
        )
    else:
        yield from _check_health(reached.health, place, config)
        if not is_this_machine(reached.address.host):
            yield note(f"{reached.address.host} is not loopback: other machines may use that proxy")


def check_none(default: Reached) -> Iterator[Finding]:
    """Yield what to do where no variable leads to a proxy."""
    if default.health is None:
        yield note("No variable leads a client to a proxy", _RUN)
    else:
        yield note(
            f"A proxy masks at {default.address.url}, but no variable leads a client there", _RENEW
        )


def _check_health(health: Health, place: str, config: Path | None) -> Iterator[Finding]:
    state = health.state.removeprefix("observation-masking ")
    says, config_file = f"{place}, which is observation-masking {state}", shlex.quote(health.config)
    yield ok(says) if health.is_masking else note(says, f"obsmask config --config {config_file}")
    own = version("observation-masking")
    if health.software_version != own:
        yield note(
            f"That proxy is of version {health.software_version}, this command of {own}: "
            "restart the proxy"
        )
    if config is not None and Path(health.config) != config:
        yield note(
            f"That proxy uses another configuration than {config}",
            f"obsmask doctor --config {config_file}",
        )
    if health.lost_records:
        yield broken(
            f"{health.lost_records} records of that proxy could not be written",
            f"df -h {shlex.quote(health.records or '.')}",
        )
    for host, count in health.unopened.items():
        yield note(
            f"{count} connections to {host} passed that proxy unopened and unmasked: a program "
            "does not trust its certificate",
            _RENEW,
        )
    if health.unserved:
        yield note(f"{health.unserved} requests passed that proxy in a format that is not masked")


def _read_set(environment: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    for name in VARIABLES:
        for spelling in (name, name.lower()):
            if value := environment.get(spelling):
                yield spelling, value


def _unset(names: list[str]) -> str:
    return f"unset {' '.join(names)}"
