"""Which configuration is used, why, and how it differs from the shipped one."""

import logging
import os
import shlex
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
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
from addon.config_commands import Advice, render_toml
from masking.config import REDACTION_VARIABLE, ConfigValue, Settings, find_shadowed, list_values
from masking.errors import ConfigError

_LONG = 3
"""A list with more items than this is shown as their number."""

_REASONS: dict[Place, str] = {
    "option": "--config names it",
    "environment": f"${CONFIG_VARIABLE} names it",
    "working directory": "it is in the working directory",
    "user": "it is your own",
    "shipped": "it is the default one, because you have none of your own",
}


_SOURCES = {"environment": ", by the environment", "override": ", by --set"}


class Configuration(NamedTuple):
    """The file that is used and why; its settings are None if there is a mistake in it.

    changes: the values that differ from the shipped ones. warnings: those of reading it.
    """

    path: Path
    place: Place
    settings: Settings | None = None
    mistake: str = ""
    changes: tuple[ConfigValue, ...] = ()
    warnings: tuple[str, ...] = ()

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
    with _listen() as warnings:
        try:
            file = ConfigFile(path, changes)
        except ConfigError as error:
            return Configuration(path, place, mistake=str(error))
    values = list_values(file.data, changes, os.environ.get(REDACTION_VARIABLE))
    changed = tuple(value for value in values if value.value != value.shipped)
    return Configuration(path, place, file.settings, "", changed, tuple(warnings))


def check_configuration(configuration: Configuration) -> Iterator[Finding]:
    """Yield which file is used, what it sets, and what is wrong with it."""
    path, place, settings, mistake, changes, warnings = configuration
    if settings is None:
        yield broken(mistake, f"obsmask config check {shlex.quote(str(path))}")
        return
    yield ok(f"{path} is used: {_REASONS[place]}")
    if changes:
        yield ok(f"It sets {', '.join(map(_render, changes))}")
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
    yield from map(note, warnings)


def check_local(used: Path) -> Iterator[Finding]:
    """Yield who reads a configuration of ours in the working directory, if `used` is another."""
    if local := describe_local(used):
        yield note(local, f"obsmask run --config {CONFIG_NAME} -- COMMAND")


def _render(change: ConfigValue) -> str:
    source = _SOURCES.get(change.source, "")
    return f"{change.name} = {_shorten(change.value)} (default: {_shorten(change.shipped)}{source})"


def _shorten(value: object) -> str:
    if isinstance(value, list) and len(value) > _LONG:
        return f"a list of {len(value)}"
    return render_toml(value)


class _Collector(logging.Handler):
    """Collects what is logged."""

    def __init__(self, lines: list[str]) -> None:
        super().__init__(logging.WARNING)
        self._lines = lines

    def emit(self, record: logging.LogRecord) -> None:
        self._lines.append(record.getMessage())


@contextmanager
def _listen() -> Iterator[list[str]]:
    """Collect the warnings of a block."""
    lines: list[str] = []
    logger, collector = logging.getLogger("observation_masking"), _Collector(lines)
    logger.addHandler(collector)
    try:
        yield lines
    finally:
        logger.removeHandler(collector)
