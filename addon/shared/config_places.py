"""Where the configuration is: the first of several places that has one."""

import logging
import os
from pathlib import Path
from typing import Literal, NamedTuple

import platformdirs

from addon.metrics.advice import Advice
from addon.shared.regular_file import read_regular
from addon.shared.shipped import shipped
from masking.config import read_document
from masking.errors import ConfigError
from masking.overrides import ROOT
from masking.printable import printable

logger = logging.getLogger("observation_masking")

ENVIRONMENT = "OBSMASK_CONFIG"
NAME = "config.toml"

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


def advise(file: Path) -> Advice:
    """Return how to change a file: it is named unless it holds where none is named."""
    try:
        own = user_config()
    except (OSError, RuntimeError):
        own = None
    return Advice(None if file in (own, shipped(NAME)) else file)


def find_local() -> Path | None:
    """Return the configuration in the working directory; None if none there is ours.

    Raises ConfigError if it cannot be read, or is no TOML.
    """
    try:
        path = Path.cwd() / NAME
        if not path.is_file():
            return None
    except OSError:  # the folder is gone, or not ours to read
        return None
    if not _is_ours(path):
        logger.info(printable(f"{path} has no [{ROOT}] table: ignored"))
        return None
    return path


def _is_ours(path: Path) -> bool:
    data, _ = read_regular(path)
    try:
        return ROOT in read_document(data)
    except ConfigError as error:
        raise ConfigError(f"{path}: {error.problem}", error.path) from None


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
