"""`obsmask doctor`: checks the setup and suggests fixes."""

import os
import platform
import re
import shlex
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cached_property
from importlib.metadata import version
from pathlib import Path

import click

from addon.accounts import Learned
from addon.agents import Agent
from addon.commands.claude_code import Plan, find_places, plan
from addon.commands.doctor import certificates, client, configuration, proxies, records, storage
from addon.commands.doctor.certificates import Bundle
from addon.commands.doctor.client import Program
from addon.commands.doctor.configuration import Configuration
from addon.commands.doctor.forecast import foresee
from addon.commands.doctor.proxies import Probe
from addon.commands.doctor.report import Finding, Found, broken, note, ok, print_report, render_json
from addon.commands.options import config_options
from addon.commands.other_tools import find_other_tools
from addon.commands.terminal import open_console
from addon.config import CONFIG_NAME
from addon.network import DEFAULT_ADDRESS, Address
from addon.places import config_folder, data_folder, describe_error, shipped, state_folder
from addon.proxy.authorities import authority_path, own_authority, user_bundle
from addon.proxy.environment import PROXY_VARIABLES, REPLACED, client_environment, render_call
from addon.proxy.health import Health
from addon.proxy.server import running_proxy
from addon.records.file import RecordFile, read_records
from addon.records.record import RequestRecord
from addon.store import StoreError
from masking.config import Settings


@click.command("doctor", context_settings={"allow_interspersed_args": False})
@click.argument("command", nargs=-1, type=click.UNPROCESSED, metavar="[-- COMMAND...]")
@config_options
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option(
    "--transparent",
    is_flag=True,
    help="Only try whether this machine can run --transparent.",
)
def command(
    command: tuple[str, ...],
    config: str,
    changes: tuple[str, ...],
    as_json: bool,
    transparent: bool,
) -> int:
    """Check the setup and suggest fixes.

    Exits with 1 if something is broken. With COMMAND, also says whether its old tool results will
    be masked, and checks whether what runs it trusts the proxy, in the environment that `obsmask
    run -- COMMAND` would give it. COMMAND is not started.
    """
    checks = {"Transparent": _examine_transparent} if transparent else CHECKS
    found = examine(Setup(config, command, dict(os.environ), changes), checks)
    listed = list(found if as_json else print_report(open_console(), found))
    if as_json:
        print(render_json(listed))
    return 1 if any(finding.level == "broken" for _, finding in listed) else 0


# What is examined

_RECENT = timedelta(days=7)


@dataclass(frozen=True)
class Setup:
    """What is examined: each part is read once, when a check asks for it.

    option: the configuration that is named; empty for the one that is used otherwise.
    command: that of an agent; empty if none is given.
    changes: overrides of the configuration, as `TABLE.KEY=VALUE`.
    """

    option: str
    command: tuple[str, ...]
    environment: Mapping[str, str]
    changes: tuple[str, ...] = ()

    @cached_property
    def configuration(self) -> Configuration:
        return configuration.read_configuration(self.option, self.changes)

    @cached_property
    def settings(self) -> Settings:
        return self.configuration.settings or Settings()

    @cached_property
    def probes(self) -> list[tuple[Probe, list[str]]]:
        """What is where the variables lead, with their names."""
        addresses = proxies.find_addresses(self.environment)
        return [(proxies.probe(address), names) for address, names in addresses.items()]

    @cached_property
    def running(self) -> tuple[Address, Health] | None:
        """The proxy of ours to which the variables lead; None if they lead to none."""
        ours = ((each.address, each.health) for each, _ in self.probes if each.health)
        return next(ours, None)

    @cached_property
    def agent_environment(self) -> Mapping[str, str]:
        """The environment that an agent gets: as it is, if that leads to us, or from `run`.

        Variables that name no authorities are left out: another check reports them.
        """
        if self.running:
            return self.environment
        useless = set(certificates.find_useless(self.environment))
        before = {name: value for name, value in self.environment.items() if name not in useless}
        changes = self.plan.variables if self.plan else {}
        url = DEFAULT_ADDRESS.url  # `run` chooses a free port
        return {**before, **client_environment(url, user_bundle(before), before, changes)}

    @cached_property
    def plan(self) -> Plan | None:
        """What `obsmask run` does to claude-code, if the command starts it, or a shell."""
        address, health = self.running or (DEFAULT_ADDRESS, None)
        places = find_places(self.environment)
        return plan(self.command, self.environment, places, address, health)

    @cached_property
    def authority(self) -> Bundle:
        return certificates.read_bundle(authority_path())

    @cached_property
    def served(self) -> bytes | None:
        """The authority of that proxy, or else the expected one; None without a proxy."""
        if self.running is None:
            return None
        own = next(iter(self.authority.certificates), None)
        return certificates.fetch_authority(self.running[0]) or own

    @property
    def is_foreign(self) -> bool:
        """Whether that proxy has another authority than a proxy of this user's would have."""
        return self.served is not None and self.served not in self.authority.certificates

    @cached_property
    def record_file(self) -> Path:
        """The proxy's record file, unless another user or another machine has it."""
        health = self.running[1] if self.running and not self.is_foreign else None
        named = health.records if health else None
        return Path(named) if named else RecordFile(self.settings.metrics).path

    @cached_property
    def records(self) -> list[RequestRecord]:
        """Recent records; none if they cannot be read, which another check reports."""
        try:
            return list(read_records(self.record_file, datetime.now(UTC) - _RECENT))
        except (OSError, ValueError, RuntimeError):
            return []

    @cached_property
    def accounts(self) -> list[Learned]:
        """What was learned of the user's accounts. Raises StoreError."""
        return storage.read_accounts()

    @cached_property
    def model(self) -> tuple[str, str]:
        """The model that the command will ask, and where that is said; empty if unknown."""
        if self.plan:
            return self.plan.model
        known = self.client and self.client.model
        if not known:
            return "", ""
        home = Path(self.environment.get("HOME") or Path.home())
        if named := known.find(self.command, home, self.environment):
            return named, "as named"
        return known.default, "its default"

    @cached_property
    def program(self) -> Program | None:
        return client.find_program(self.command, self.environment)

    @cached_property
    def client(self) -> Agent | None:
        return client.find_client(self.program.name) if self.program else None


# The checks, by topic

_ADDRESS = "https://obsmask.test/health"
"""The addon answers this itself; through a lazy proxy under TLS, too."""


def _examine_configuration(it: Setup) -> Iterator[Finding]:
    yield from configuration.check_configuration(it.configuration)
    yield from records.check_rules(it.settings.by_rule, it.records)
    yield from configuration.check_local(it.configuration.path)


def _examine_proxy(it: Setup) -> Iterator[Finding]:
    yield from proxies.check_variables(it.environment)
    for found, names in it.probes:
        is_by_env = REPLACED in it.environment
        config = None if it.is_foreign else it.configuration.path
        yield from proxies.check_probe(found, names, config, is_by_env=is_by_env)
    if it.probes:
        return
    if it.command:
        yield ok("No variable leads to a proxy: obsmask run starts one, and sets them")
    else:
        yield from proxies.check_none(proxies.probe(DEFAULT_ADDRESS))


def _examine_certificates(it: Setup) -> Iterator[Finding]:
    fix = None if it.is_foreign else render_call(it.running[0] if it.running else DEFAULT_ADDRESS)
    if it.running and it.is_foreign:
        url = it.running[0].url
        yield note(
            f"The proxy at {url} has another authority than {it.authority.path}: it runs for "
            "another user or on another machine, or with another confdir. Clients need its "
            "certificate",
            f"curl -x {url} http://mitm.it/cert/pem > proxy-ca.pem",
        )
    else:
        yield from certificates.check_authority(it.authority, datetime.now(UTC))
    yield from certificates.check_bundles(it.environment, it.served, fix)


def _examine_command(it: Setup) -> Iterator[Finding]:
    if not it.command:
        return
    if it.program is None:
        yield broken(f"{it.command[0]}: no such command on the search path")
        return
    if it.plan:
        say = note if it.plan.hindrance else ok
        yield say(it.plan.line)
    others = it.plan.others if it.plan else find_other_tools(it.environment)
    yield from map(note, others)
    if it.client:
        yield from client.check_client(it.program.name, it.client, it.environment, it.settings)
        if it.client.client or it.client.logs.homes:  # an agent, and none that hides its results
            yield from foresee(it.client, *it.model, it.settings, it.accounts)
    ran = it.program.interpreter
    if ran is None or (it.client and it.client.is_native):
        yield from client.check_untried(it.program, it.client)
    elif it.is_foreign:
        yield note(f"Whether {it.program.name} trusts the proxy was not tried: its key is not here")
    else:
        called = f"{ran}" if ran == it.program.path else f"{ran}, which runs {it.program.name},"
        fix = render_call(it.running[0]) if it.running else None  # `run` sets what there is to set
        with tempfile.TemporaryDirectory() as folder, _lazy_proxy(Path(folder), it) as url:
            environment = {**it.agent_environment, **dict.fromkeys(PROXY_VARIABLES, url)}
            yield from client.try_interpreter(ran, called, _ADDRESS, environment, fix)


@contextmanager
def _lazy_proxy(folder: Path, it: Setup) -> Iterator[str]:
    """Run a proxy with the user's authority and configuration, which asks no server in advance."""
    config = it.configuration.path if it.configuration.settings else shipped(CONFIG_NAME)
    settings = ["connection_strategy=lazy", f"mask_config={config}"]
    settings += [f"mask_set={each}" for each in it.changes]
    options = [part for each in settings for part in ("--set", each)]
    confdir = own_authority().parent
    with running_proxy(folder, *options, env=dict(it.environment), confdir=confdir) as proxy:
        yield proxy.url


def _examine_bypasses(it: Setup) -> Iterator[Finding]:
    hosts = {each.host for each in it.records}
    found = [
        *proxies.check_bypasses(it.agent_environment, hosts),
        *proxies.check_hosts(it.environment, hosts, it.settings.hosts),
    ]
    yield from found or [ok("No variable and no setting leads requests past the proxy")]
    yield from records.check_passed(it.records, it.configuration.advice)
    yield from records.check_bound(it.records)
    yield from records.check_windows(it.records)


def _examine_prices(it: Setup) -> Iterator[Finding]:
    yield from records.check_list(it.settings, datetime.now(UTC).date())


def _examine_storage(it: Setup) -> Iterator[Finding]:
    if it.running and it.is_foreign:
        yield ok(f"The proxy keeps records where it runs: {it.running[1].records}")
    else:
        yield from storage.check_record_file(it.record_file)
        yield from storage.check_room(it.record_file)
        yield from storage.check_accounts(it.accounts, it.configuration.advice)
    for folder, is_private in (
        (state_folder(), True),
        (data_folder(), False),
        (config_folder(), False),
    ):
        yield from storage.check_folder(folder, is_private=is_private)


_PINNED = "mitmproxy 11 pins cryptography, h11, h2 and tornado to versions with known weaknesses"


def _examine_versions(_: Setup) -> Iterator[Finding]:
    mitmproxy = version("mitmproxy")
    yield ok(
        f"observation-masking {version('observation-masking')}, mitmproxy {mitmproxy}, "
        f"Python {platform.python_version()} ({sys.prefix})"
    )
    if int(mitmproxy.partition(".")[0]) < 12:
        yield note(f"{_PINNED}: install this with Python 3.12 or newer")


Checks = Mapping[str, Callable[[Setup], Iterator[Finding]]]

CHECKS: Checks = {
    "Configuration": _examine_configuration,
    "Proxy": _examine_proxy,
    "Certificates": _examine_certificates,
    "Command": _examine_command,
    "Bypasses": _examine_bypasses,
    "Prices": _examine_prices,
    "What is stored": _examine_storage,
    "Versions": _examine_versions,
}


def _examine_transparent(_: Setup) -> Iterator[Finding]:
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "log"
        log.touch()
        yield from proxies.check_transparent(log)


def examine(it: Setup, checks: Checks = CHECKS) -> Iterator[Found]:
    """Run the checks, topic by topic; yield the findings. A check that fails is one itself."""
    for topic, check in checks.items():
        try:
            yield from ((topic, _fill_in(finding, it.command)) for finding in check(it))
        except (OSError, ValueError, RuntimeError, StoreError) as error:
            yield topic, broken(f"This check failed: {' '.join(describe_error(error).split())}")


def _fill_in(finding: Finding, command: Sequence[str]) -> Finding:
    """Return a finding with the user's command in its fix."""
    if finding.fix is None or not command:
        return finding
    called = command[1:] if finding.fix.startswith("sudo ") else command
    return finding._replace(fix=_COMMAND.sub(lambda _: shlex.join(called), finding.fix))


_COMMAND = re.compile(r"\bCOMMAND$")
