"""The configuration file: where it is, and what it says now."""

import logging
import os
from dataclasses import replace
from pathlib import Path

from addon.proxy.shipped import shipped
from addon.proxy.stored_prices import find_stored
from masking.config import ROOT, Settings, parse_settings
from masking.errors import ConfigError
from masking.strategies.redaction import SWITCH, apply_switch

logger = logging.getLogger("observation_masking")

ENVIRONMENT = "OBSMASK_CONFIG"
NAME = "config.toml"


class ConfigFile:
    """A file of settings, read again when its bytes have changed; the environment overrides it.

    The price list that is stored at the start holds until the end. Raises ConfigError, with the
    file's name, if the file cannot be read or used at the start. A later mistake leaves the
    settings as they were and is logged once.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._data = _read_bytes(path)
        self._problem: str | None = None
        self._price_list, passed_over = find_stored()
        self.settings, warning = self._override(_parse(path, self._data))
        for problem in (passed_over, warning):
            if problem:
                logger.warning(problem)

    def refresh(self) -> bool:
        """Read a change of the file; return whether settings changed or a mistake is mended."""
        try:
            data = _read_bytes(self.path)
            if data == self._data and self._problem is None:
                return False
            self._data = data
            settings, _ = self._override(_parse(self.path, data))
        except ConfigError as error:
            self._warn_once(str(error))
            return False
        changed = settings != self.settings or self._problem is not None
        self.settings, self._problem = settings, None
        return changed

    def _override(self, settings: Settings) -> tuple[Settings, str | None]:
        """Return the settings with the environment and the stored prices, and a warning."""
        redaction, warning = apply_switch(settings.redaction, os.environ.get(SWITCH))
        return replace(settings, redaction=redaction, price_list=self._price_list), warning

    def _warn_once(self, problem: str) -> None:
        if problem != self._problem:
            logger.warning(f"configuration unchanged: {problem}")
        self._problem = problem


def find_config(option: str) -> Path:
    """Return the file to use: the option's, the environment's, the working directory's, ours.

    A `config.toml` in the working directory without a table of ours is ignored, and the log says
    so.
    """
    explicit = option or os.environ.get(ENVIRONMENT)
    if explicit:
        return _expand(explicit)
    local = Path.cwd() / NAME
    if not local.is_file():
        return shipped(NAME)
    if _parse_or_none(local, _read_bytes(local)) is None:
        logger.info(f"{local} has no [{ROOT}] table: ignored")
        return shipped(NAME)
    return local


def _expand(name: str) -> Path:
    try:
        return Path(name).expanduser()
    except RuntimeError as error:  # no such user
        raise ConfigError(str(error), name) from None


def _parse(path: Path, data: bytes) -> Settings:
    settings = _parse_or_none(path, data)
    if settings is None:
        raise ConfigError(f"no [{ROOT}] table", str(path))
    return settings


def _parse_or_none(path: Path, data: bytes) -> Settings | None:
    try:
        return parse_settings(data)
    except ConfigError as error:
        raise ConfigError(f"{path}: {error.problem}", error.path) from None


def _read_bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise ConfigError(f"cannot read the configuration {path}: {reason}") from None
