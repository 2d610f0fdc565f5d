"""The checks, by topic."""

import re
import shlex
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from addon.commands.diagnosis.authorities import (
    check_authority,
    check_bundles,
    check_foreign,
)
from addon.commands.diagnosis.bypasses import check_bypasses, check_hosts
from addon.commands.diagnosis.configuration import (
    check_configuration,
    check_local,
)
from addon.commands.diagnosis.finding import Finding, broken, note, ok
from addon.commands.diagnosis.gnutls import check_gnutls
from addon.commands.diagnosis.prices import check_list, check_prices, check_uncached
from addon.commands.diagnosis.program import Interpreter
from addon.commands.diagnosis.proxies import check_none, check_reached, check_variables, reach
from addon.commands.diagnosis.recall import check_recall
from addon.commands.diagnosis.storage import check_folder, check_record_file, check_room
from addon.commands.diagnosis.surroundings import Surroundings
from addon.commands.diagnosis.traffic import (
    check_bound,
    check_passed,
    check_rules,
    check_windows,
)
from addon.commands.diagnosis.trial import try_interpreter
from addon.commands.diagnosis.trust import check_attempts, check_unasked
from addon.commands.diagnosis.versions import check_installations, check_versions
from addon.config import CONFIG_NAME
from addon.network import DEFAULT_ADDRESS
from addon.places import config_folder, data_folder, shipped, state_folder
from addon.proxy.authorities import own_authority
from addon.proxy.environment import PROXY_VARIABLES, REPLACED
from addon.proxy.launch import running_proxy

_RENEW = 'eval "$(obsmask env)"'

_ADDRESS = "https://obsmask.test/health"
"""What the addon answers itself; through a lazy proxy under TLS, too."""


def _examine_configuration(it: Surroundings) -> Iterator[Finding]:
    yield from check_configuration(it.configuration)
    yield from check_rules(it.settings.by_rule, it.records)
    yield from check_local(it.configuration.path)


def _examine_proxy(it: Surroundings) -> Iterator[Finding]:
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


def _examine_certificates(it: Surroundings) -> Iterator[Finding]:
    mend = None if it.is_foreign else _RENEW
    if it.running and it.is_foreign:
        yield from check_foreign(it.running[0], it.authority)
    else:
        yield from check_authority(it.authority, datetime.now(UTC))
    yield from check_bundles(it.environment, it.served, mend)
    if it.running:
        yield from check_gnutls(it.environment, mend)


def _examine_command(it: Surroundings) -> Iterator[Finding]:
    if not it.command:
        return
    if it.program is None:
        yield broken(f"{it.command[0]}: no such command on the search path")
        return
    if it.plan:
        say = note if it.plan.hindrance else ok
        yield say(it.plan.line)
    if it.client:
        yield from it.client.remarks(it.environment, it.settings)
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
    mend = _RENEW if it.running else None  # `run` sets what there is to set
    yield from check_attempts(it.program, interpreter, it.client, attempts, mend)


@contextmanager
def _lazy_proxy(folder: Path, it: Surroundings) -> Iterator[str]:
    """Run a proxy with the user's authority and configuration, which asks no server in advance."""
    config = it.configuration.path if it.configuration.settings else shipped(CONFIG_NAME)
    settings = ["connection_strategy=lazy", f"mask_config={config}"]
    settings += [f"mask_set={each}" for each in it.changes]
    options = [part for each in settings for part in ("--set", each)]
    confdir = own_authority().parent
    with running_proxy(folder, *options, env=dict(it.environment), confdir=confdir) as proxy:
        yield proxy.url


def _examine_bypasses(it: Surroundings) -> Iterator[Finding]:
    hosts = {each.host for each in it.records}
    found = [
        *check_bypasses(it.agent_environment, hosts),
        *check_hosts(it.environment, hosts, it.settings.hosts),
    ]
    yield from found or [ok("No variable and no setting leads requests past the proxy")]
    yield from check_passed(it.records)
    yield from check_bound(it.records)
    yield from check_windows(it.records)


def _examine_prices(it: Surroundings) -> Iterator[Finding]:
    yield from check_list(it.settings, datetime.now(UTC).date())
    yield from check_prices(it.settings, it.records, it.configuration.advice)
    yield from check_uncached(it.settings, it.records, it.configuration.advice)


def _examine_storage(it: Surroundings) -> Iterator[Finding]:
    if it.running and it.is_foreign:
        yield ok(f"The proxy keeps records where it runs: {it.running[1].records}")
    else:
        yield from check_record_file(it.record_file)
        yield from check_room(it.record_file)
        yield from check_recall(it.settings.recall)
    for folder, is_private in (
        (state_folder(), True),
        (data_folder(), False),
        (config_folder(), False),
    ):
        yield from check_folder(folder, is_private=is_private)


def _examine_versions(it: Surroundings) -> Iterator[Finding]:
    yield from check_versions()
    yield from check_installations(it.environment)


CHECKS: Mapping[str, Callable[[Surroundings], Iterator[Finding]]] = {
    "Configuration": _examine_configuration,
    "Proxy": _examine_proxy,
    "Certificates": _examine_certificates,
    "Command": _examine_command,
    "Bypasses": _examine_bypasses,
    "Prices": _examine_prices,
    "What is stored": _examine_storage,
    "Versions": _examine_versions,
}


def _fill_in(finding: Finding, command: Sequence[str]) -> Finding:
    """Return a finding whose line has the command that is asked about."""
    if finding.mend is None or not command:
        return finding
    called = command[1:] if finding.mend.startswith("sudo ") else command
    return finding._replace(mend=_COMMAND.sub(lambda _: shlex.join(called), finding.mend))


_COMMAND = re.compile(r"\bCOMMAND$")


def examine(it: Surroundings) -> Iterator[tuple[str, Finding]]:
    """Yield what the checks find, by topic. A check that fails is a finding itself."""
    for topic, check in CHECKS.items():
        try:
            yield from ((topic, _fill_in(finding, it.command)) for finding in check(it))
        except (OSError, ValueError, RuntimeError) as error:
            yield topic, broken(f"This could not be examined: {' '.join(str(error).split())}")
