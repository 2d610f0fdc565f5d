"""The configuration file, and what it says now."""

import logging
import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from addon.metrics.advice import Advice
from addon.shared.config_places import advise
from addon.shared.regular_file import FileState, find_state, read_regular
from addon.shared.stored_prices import find_stored
from masking.config import (
    REDACTION_VARIABLE,
    ROOT,
    ConfigValue,
    PageSettings,
    Settings,
    apply_redaction_variable,
    change_everywhere,
    find_changed,
    list_keys,
    list_values,
    parse_settings,
    read_override,
)
from masking.errors import ConfigError, OverrideError

logger = logging.getLogger("observation_masking")

AT_THE_NEXT_START = frozenset(f"page.{key}" for key in list_keys(PageSettings))
"""Settings, as `table.key`, that a running proxy cannot take up, such as where it listens."""


Adapt = Callable[[Settings], Settings]
"""Makes of settings what an engine can do; raises ConfigError for what it cannot."""


class Change(NamedTuple):
    """An edit of the file: the settings that it changed, or the mistake that kept them."""

    changed: tuple[str, ...] = ()
    problem: str | None = None


class ConfigFile:
    """A file of settings, and those that hold.

    Overrides (`schema1.window_turns=4`) come before the file, the environment before both. The
    price list that is stored at the start holds until the end. `adapt` makes of the settings what
    the engine can do. Raises ConfigError, with the file's name, if the file cannot be read or used,
    and OverrideError for an override.
    """

    def __init__(
        self, path: Path, overrides: Sequence[str] = (), adapt: Adapt | None = None
    ) -> None:
        self.path = path
        self._adapt = adapt or _keep
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
    def advice(self) -> Advice:
        """How to change this file."""
        return advise(self.path)

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
        return list_values(data, self._overrides, os.environ.get(REDACTION_VARIABLE))

    def _parse(self, data: bytes) -> Settings:
        settings = _parse_or_none(self.path, data, self._overrides, self._adapt)
        if settings is None:
            raise ConfigError(f"no [{ROOT}] table", str(self.path))
        return settings

    def _override(self, settings: Settings) -> tuple[Settings, str | None]:
        """Return the settings with the environment and the stored prices, and a warning."""
        switch = os.environ.get(REDACTION_VARIABLE)

        def change(one: Settings) -> Settings:
            enabled = apply_redaction_variable(one.strategies.redaction, switch)[0].enabled
            redaction = replace(one.redaction, enabled=enabled)
            return replace(one, redaction=redaction, price_list=self._price_list)

        _, warning = apply_redaction_variable(settings.strategies.redaction, switch)
        return change_everywhere(settings, change), warning


def _keep(settings: Settings) -> Settings:
    return settings


def _parse_or_none(
    path: Path, data: bytes, overrides: Sequence[str], adapt: Adapt
) -> Settings | None:
    try:
        settings = parse_settings(data, overrides)
        return None if settings is None else adapt(settings)
    except OverrideError:
        raise
    except ConfigError as error:
        raise ConfigError(f"{path}: {error.problem}", error.path) from None
