"""Which configuration is used, why, and whether it masks; `obsmask config` says what it sets."""

import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from addon.commands.doctor.report import Finding, broken, note, ok
from addon.config import (
    CONFIG_NAME,
    CONFIG_VARIABLE,
    ConfigFile,
    Place,
    describe_local,
    locate_config,
)
from addon.config_commands import Advice
from masking.config import Settings, find_shadowed
from masking.errors import ConfigError

_REASONS: dict[Place, str] = {
    "option": "--config names it",
    "environment": f"${CONFIG_VARIABLE} names it",
    "working directory": "it is in the working directory",
    "user": "it is your own",
    "shipped": "it is the default one, because you have none of your own",
}


class Configuration(NamedTuple):
    """The file that is used and why; its settings are None if there is a mistake in it."""

    path: Path
    place: Place
    settings: Settings | None = None
    mistake: str = ""

    @property
    def advice(self) -> Advice:
        """How to change the file; `obsmask config` finds it by itself unless an option names it."""
        return Advice(self.path if self.place == "option" else None)


def read_configuration(option: str, changes: Sequence[str] = ()) -> Configuration:
    """Read the configuration that this option names, or the one that is used without it.

    `changes` are overrides.
    """
    try:
        path, place = locate_config(option)
    except ConfigError as error:
        return Configuration(Path(option), "option", mistake=str(error))
    try:
        return Configuration(path, place, ConfigFile(path, changes).settings)
    except ConfigError as error:
        return Configuration(path, place, mistake=str(error))


def check_configuration(configuration: Configuration) -> Iterator[Finding]:
    """Yield which file is used and why, whether it masks, and what is wrong with it."""
    path, place, settings, mistake = configuration
    if settings is None:
        yield broken(mistake, f"obsmask config check {shlex.quote(str(path))}")
        return
    yield ok(f"{path} is used: {_REASONS[place]}")
    if not settings.any_enabled and settings.mode == "off":
        yield note("Masking is off", configuration.advice.set({"mode": "on"}))
    elif not settings.any_enabled:
        shipped = Settings().policy
        names = ("enabled",) if settings.policy.window_turns > 0 else ("enabled", "window_turns")
        on = {f"schema1.{name}": getattr(shipped, name) for name in names}
        yield note("Masking is off", configuration.advice.set(on))
    elif not settings.any_changes:
        yield note(
            "Dry run: no request is changed",
            configuration.advice.set({"mode": "on"}),
        )
    elif settings.holdout_percent:
        yield ok(f"{settings.holdout_percent:g}% of the conversations are observed only")
    for late, earlier in find_shadowed([rule for rule, _ in settings.by_rule]):
        yield note(f"rules[{late}] never applies: rules[{earlier}] matches all its requests first")


def check_local(used: Path) -> Iterator[Finding]:
    """Yield who reads a configuration of ours in the working directory, if `used` is another."""
    if local := describe_local(used):
        yield note(local, f"obsmask run --config {CONFIG_NAME} -- COMMAND")
