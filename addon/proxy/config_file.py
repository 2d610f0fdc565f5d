"""The configuration file: where it is, and what it says now."""

import logging
import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal, NamedTuple

import platformdirs

from addon.proxy.regular_file import FileState, find_state, read_regular
from addon.proxy.shipped import shipped
from addon.proxy.stored_prices import find_stored
from masking.config import ROOT, Settings, parse_settings
from masking.config_values import ConfigValue, find_changed, list_values
from masking.errors import ConfigError, OverrideError
from masking.overrides import read_override
from masking.printable import printable
from masking.strategies.redaction import SWITCH, apply_switch

logger = logging.getLogger("observation_masking")

ENVIRONMENT = "OBSMASK_CONFIG"
NAME = "config.toml"


AT_THE_NEXT_START: frozenset[str] = frozenset()
"""Settings, as `table.key`, that a running proxy cannot take up, such as where it listens."""


class Change(NamedTuple):
    """An edit of the file: the settings that it changed, or the mistake that kept them."""

    changed: tuple[str, ...] = ()
    problem: str | None = None


class ConfigFile:
    """A file of settings, and those that hold.

    Overrides (`schema1.window_turns=4`) come before the file, the environment before both. The
    price list that is stored at the start holds until the end. Raises ConfigError, with the file's
    name, if the file cannot be read or used, and OverrideError for an override.
    """

    def __init__(self, path: Path, overrides: Sequence[str] = ()) -> None:
        self.path = path
        self._overrides = tuple(overrides)
        self._price_list, passed_over = find_stored()
        self.data, state = read_regular(path)
        self._taken: FileState | None = state
        self._seen: FileState | None = state
        self.settings, warning = self._override(self._parse(self.data))
        for problem in (passed_over, warning):
            if problem:
                logger.warning(problem)

    @property
    def overridden(self) -> tuple[str, ...]:
        """The settings that were given beside the file, as `table.key`."""
        return tuple(dict.fromkeys(".".join(read_override(o).keys) for o in self._overrides))

    def look(self) -> Change | None:
        """Look at the file once, and take up a change if two looks in a row agree on it.

        A file that is being written is not read by halves so. After a mistake the settings stay as
        they were. None if there is nothing new.
        """
        state, before = find_state(self.path), self._seen
        self._seen = state
        return self._take_up(state) if before == state != self._taken else None

    def _take_up(self, state: FileState | None) -> Change | None:
        try:
            data, read = read_regular(self.path)
            if read != state:  # changed between the look and the reading
                return None
            settings, _ = self._override(self._parse(data))
        except ConfigError as error:
            self._taken = state
            return Change(problem=str(error))
        changed = find_changed(self._list_values(self.data), self._list_values(data))
        self.data, self._taken, self.settings = data, state, settings
        return Change(changed)

    def _list_values(self, data: bytes) -> list[ConfigValue]:
        return list_values(data, self._overrides, os.environ.get(SWITCH))

    def _parse(self, data: bytes) -> Settings:
        settings = _parse_or_none(self.path, data, self._overrides)
        if settings is None:
            raise ConfigError(f"no [{ROOT}] table", str(self.path))
        return settings

    def _override(self, settings: Settings) -> tuple[Settings, str | None]:
        """Return the settings with the environment and the stored prices, and a warning."""
        redaction, warning = apply_switch(settings.redaction, os.environ.get(SWITCH))
        return replace(settings, redaction=redaction, price_list=self._price_list), warning


Place = Literal["option", "environment", "working directory", "user", "shipped"]


class FoundConfig(NamedTuple):
    """A file, and what named it."""

    path: Path
    place: Place


def find_config(option: str, *, local: bool = False) -> Path:
    """Return the path that `locate_config` finds."""
    return locate_config(option, local=local).path


def locate_config(option: str, *, local: bool = False) -> FoundConfig:
    """Return the file to use: the option's, the environment's, the user's own, the shipped one.

    With `local`, a `config.toml` in the working directory comes before the user's own; one without
    a table of ours is ignored, and the log says so. A program that starts in a stranger's project
    is not to take its settings from there.
    """
    if option:
        return FoundConfig(_expand(option), "option")
    if named := os.environ.get(ENVIRONMENT):
        return FoundConfig(_expand_variable(named), "environment")
    if local and (found := find_local()):
        return FoundConfig(found, "working directory")
    if own := _find_own():
        return FoundConfig(own, "user")
    return FoundConfig(shipped(NAME), "shipped")


def user_config() -> Path:
    """Return where the user's own configuration is, or would be.

    Raises RuntimeError if the user has no home.
    """
    return platformdirs.user_config_path("observation-masking", appauthor=False) / NAME


def find_local() -> Path | None:
    """Return the configuration in the working directory; None if none there is ours."""
    try:
        path = Path.cwd() / NAME
        if not path.is_file():
            return None
    except OSError:  # the folder is gone, or not ours to read
        return None
    if _parse_or_none(path, read_regular(path)[0]) is None:
        logger.info(printable(f"{path} has no [{ROOT}] table: ignored"))
        return None
    return path


def _find_own() -> Path | None:
    try:
        path = user_config()
        return path if path.exists() else None
    except (OSError, RuntimeError, ValueError) as error:  # not ours to read, or there is no home
        reason = getattr(error, "strerror", None) or error
        logger.warning(printable(f"your own configuration cannot be looked for: {reason}"))
        return None


def _expand_variable(name: str) -> Path:
    path = _expand(name)
    if not os.path.lexists(path):
        raise ConfigError(f"${ENVIRONMENT} names {path}: no such file")
    return path


def _expand(name: str) -> Path:
    try:
        return Path(name).expanduser().absolute()
    except (OSError, RuntimeError) as error:  # no such user, or the working directory is gone
        raise ConfigError(f"cannot find the configuration: {error}", name) from None


def _parse_or_none(path: Path, data: bytes, overrides: Sequence[str] = ()) -> Settings | None:
    try:
        return parse_settings(data, overrides)
    except OverrideError:
        raise
    except ConfigError as error:
        raise ConfigError(f"{path}: {error.problem}", error.path) from None
