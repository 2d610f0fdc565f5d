"""What is examined: each part is looked at once, when a check asks for it."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cached_property
from pathlib import Path

from addon.commands.claude_code import Plan, find_places, plan
from addon.commands.diagnosis.authorities import Bundle, fetch_authority, find_useless, read_bundle
from addon.commands.diagnosis.clients import Client, find_client
from addon.commands.diagnosis.configuration import Configuration, read_configuration
from addon.commands.diagnosis.program import Program, find_program
from addon.commands.diagnosis.proxies import Reached, find_addresses, reach
from addon.metrics.record import RequestRecord
from addon.metrics.record_file import RecordFile
from addon.metrics.record_reader import read_records
from addon.network import DEFAULT_ADDRESS, Address
from addon.proxy.authorities import authority_path, user_bundle
from addon.proxy.environment import client_environment
from addon.proxy.health_check import Health
from masking.config import Settings

_RECENT = timedelta(days=7)


@dataclass(frozen=True)
class Surroundings:
    """What is examined, each part looked at once, when a check asks for it.

    option: the configuration that is named; empty for the one that holds without.
    command: that of an agent; empty if none is given.
    changes: what is changed beside the configuration, as `TABLE.KEY=VALUE`.
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

        Variables that name no authorities are left out: another check tells of them.
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
        """The authority of that proxy; as it should be, if it does not tell. None without one."""
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
        """That of the proxy, unless its files are another user's or on another machine."""
        health = self.running[1] if self.running and not self.is_foreign else None
        named = health.records if health else None
        return Path(named) if named else RecordFile(self.settings.metrics).path

    @cached_property
    def records(self) -> list[RequestRecord]:
        """What was recorded of late; nothing if that cannot be read, which another check says."""
        try:
            return list(read_records(self.record_file, datetime.now(UTC) - _RECENT))
        except (OSError, ValueError, RuntimeError):
            return []

    @cached_property
    def program(self) -> Program | None:
        return find_program(self.command, self.environment)

    @cached_property
    def client(self) -> Client | None:
        return find_client(self.program.name) if self.program else None
