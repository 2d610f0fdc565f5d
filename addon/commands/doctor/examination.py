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

from addon.agents import Agent
from addon.commands.claude_code import Plan, find_places, plan
from addon.commands.doctor.certificates import (
    Bundle,
    check_authority,
    check_bundles,
    check_foreign,
    fetch_authority,
    find_useless,
    read_bundle,
)
from addon.commands.doctor.client import (
    Interpreter,
    Program,
    check_attempts,
    check_client,
    check_unasked,
    find_client,
    find_program,
    try_interpreter,
)
from addon.commands.doctor.configuration import (
    Configuration,
    check_configuration,
    check_local,
    read_configuration,
)
from addon.commands.doctor.proxies import (
    RENEW,
    Reached,
    check_bypasses,
    check_hosts,
    check_none,
    check_reached,
    check_transparent,
    check_variables,
    find_addresses,
    reach,
)
from addon.commands.doctor.records import (
    check_bound,
    check_list,
    check_passed,
    check_prices,
    check_rules,
    check_uncached,
    check_windows,
)
from addon.commands.doctor.report import (
    Finding,
    Found,
    broken,
    note,
    ok,
    print_report,
    render_json,
)
from addon.commands.doctor.storage import (
    check_accounts,
    check_folder,
    check_recall,
    check_record_file,
    check_room,
)
from addon.commands.group import describe_error
from addon.commands.options import config_options
from addon.commands.terminal import open_console
from addon.config import CONFIG_NAME
from addon.network import DEFAULT_ADDRESS, Address
from addon.places import config_folder, data_folder, shipped, state_folder
from addon.proxy.authorities import authority_path, own_authority, user_bundle
from addon.proxy.environment import PROXY_VARIABLES, REPLACED, client_environment
from addon.proxy.health import Health
from addon.proxy.server import running_proxy
from addon.records.file import RecordFile, read_records
from addon.records.record import RequestRecord
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

    Exits with 1 if something is broken. With COMMAND, also checks whether what runs it trusts the
    proxy, in the environment that `obsmask run -- COMMAND` would give it. COMMAND is not started.
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
        return read_configuration(self.option, self.changes)

    @cached_property
    def settings(self) -> Settings:
        return self.configuration.settings or Settings()

    @cached_property
    def reached(self) -> list[tuple[Reached, list[str]]]:
        """What is where the variables lead, with their names."""
        addresses = find_addresses(self.environment)
        return [(reach(address), names) for address, names in addresses.items()]

    @cached_property
    def running(self) -> tuple[Address, Health] | None:
        """The proxy of ours to which the variables lead; None if they lead to none."""
        ours = ((each.address, each.health) for each, _ in self.reached if each.health)
        return next(ours, None)

    @cached_property
    def agent_environment(self) -> Mapping[str, str]:
        """The environment that an agent gets: as it is, if that leads to us, or from `run`.

        Variables that name no authorities are left out: another check reports them.
        """
        if self.running:
            return self.environment
        useless = set(find_useless(self.environment))
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
        return read_bundle(authority_path())

    @cached_property
    def served(self) -> bytes | None:
        """The authority of that proxy, or else the expected one; None without a proxy."""
        if self.running is None:
            return None
        own = next(iter(self.authority.certificates), None)
        return fetch_authority(self.running[0]) or own

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
    def program(self) -> Program | None:
        return find_program(self.command, self.environment)

    @cached_property
    def client(self) -> Agent | None:
        return find_client(self.program.name) if self.program else None


# The checks, by topic

_ADDRESS = "https://obsmask.test/health"
"""The addon answers this itself; through a lazy proxy under TLS, too."""


def _examine_configuration(it: Setup) -> Iterator[Finding]:
    yield from check_configuration(it.configuration)
    yield from check_rules(it.settings.by_rule, it.records)
    yield from check_local(it.configuration.path)


def _examine_proxy(it: Setup) -> Iterator[Finding]:
    yield from check_variables(it.environment)
    for reached, names in it.reached:
        is_by_env = REPLACED in it.environment
        config = None if it.is_foreign else it.configuration.path
        yield from check_reached(reached, names, config, is_by_env=is_by_env)
    if it.reached:
        return
    if it.command:
        yield ok("No variable leads to a proxy: obsmask run starts one, and sets them")
    else:
        yield from check_none(reach(DEFAULT_ADDRESS))


def _examine_certificates(it: Setup) -> Iterator[Finding]:
    fix = None if it.is_foreign else RENEW
    if it.running and it.is_foreign:
        yield from check_foreign(it.running[0], it.authority)
    else:
        yield from check_authority(it.authority, datetime.now(UTC))
    yield from check_bundles(it.environment, it.served, fix)


def _examine_command(it: Setup) -> Iterator[Finding]:
    if not it.command:
        return
    if it.program is None:
        yield broken(f"{it.command[0]}: no such command on the search path")
        return
    if it.plan:
        say = note if it.plan.hindrance else ok
        yield say(it.plan.line)
    if it.client:
        yield from check_client(it.program.name, it.client, it.environment, it.settings)
    interpreter = it.program.runs_on
    is_native = it.client is not None and it.client.is_native
    if not isinstance(interpreter, Interpreter) or is_native:
        yield from check_unasked(it.program, it.client)
        return
    if it.is_foreign:
        yield note(f"Whether {it.program.name} trusts the proxy was not tried: its key is not here")
        return
    with tempfile.TemporaryDirectory() as folder, _lazy_proxy(Path(folder), it) as url:
        environment = {**it.agent_environment, **dict.fromkeys(PROXY_VARIABLES, url)}
        attempts = try_interpreter(interpreter, _ADDRESS, environment)
    fix = RENEW if it.running else None  # `run` sets what there is to set
    yield from check_attempts(it.program, interpreter, it.client, attempts, fix)


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
        *check_bypasses(it.agent_environment, hosts),
        *check_hosts(it.environment, hosts, it.settings.hosts),
    ]
    yield from found or [ok("No variable and no setting leads requests past the proxy")]
    yield from check_passed(it.records, it.configuration.advice)
    yield from check_bound(it.records)
    yield from check_windows(it.records)


def _examine_prices(it: Setup) -> Iterator[Finding]:
    yield from check_list(it.settings, datetime.now(UTC).date())
    yield from check_prices(it.settings, it.records, it.configuration.advice)
    yield from check_uncached(it.settings, it.records, it.configuration.advice)


def _examine_storage(it: Setup) -> Iterator[Finding]:
    if it.running and it.is_foreign:
        yield ok(f"The proxy keeps records where it runs: {it.running[1].records}")
    else:
        yield from check_record_file(it.record_file)
        yield from check_room(it.record_file)
        yield from check_recall(it.settings.recall)
        yield from check_accounts(it.configuration.advice)
    for folder, is_private in (
        (state_folder(), True),
        (data_folder(), False),
        (config_folder(), False),
    ):
        yield from check_folder(folder, is_private=is_private)


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
        yield from check_transparent(log)


def examine(it: Setup, checks: Checks = CHECKS) -> Iterator[Found]:
    """Run the checks, topic by topic; yield the findings. A check that fails is one itself."""
    for topic, check in checks.items():
        try:
            yield from ((topic, _fill_in(finding, it.command)) for finding in check(it))
        except (OSError, ValueError, RuntimeError) as error:
            yield topic, broken(f"This check failed: {' '.join(describe_error(error).split())}")


def _fill_in(finding: Finding, command: Sequence[str]) -> Finding:
    """Return a finding with the user's command in its fix."""
    if finding.fix is None or not command:
        return finding
    called = command[1:] if finding.fix.startswith("sudo ") else command
    return finding._replace(fix=_COMMAND.sub(lambda _: shlex.join(called), finding.fix))


_COMMAND = re.compile(r"\bCOMMAND$")
