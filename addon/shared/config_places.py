"""Where the configuration is: the first of several places that has one."""

import logging
import os
from pathlib import Path
from typing import Literal, NamedTuple

import platformdirs

from addon.metrics.advice import Advice
from addon.shared.regular_file import read_regular
from addon.shared.shipped import shipped
from masking.config import ROOT, read_document
from masking.errors import ConfigError, printable

logger = logging.getLogger("observation_masking")

ENVIRONMENT = "OBSMASK_CONFIG"
NAME = "config.toml"

Place = Literal["option", "environment", "working directory", "user", "shipped"]


class FoundConfig(NamedTuple):
    """A file, and what named it."""

    path: Path
    place: Place


def find_config(option: str, *, script: Path | None = None) -> Path:
    """Return the path that `locate_config` finds."""
    return locate_config(option, script=script).path


def locate_config(option: str, *, script: Path | None = None) -> FoundConfig:
    """Return the file to use: the option's, the environment's, the user's own, the shipped one.

    `script` is the `addon/mask.py` that mitmdump loaded. Where the working directory is the folder
    that it is in, a `config.toml` there comes before the user's own. Any other folder may be a
    stranger's project, which must not steer the proxy: its file is not even opened. The log names
    the file that is passed over.
    """
    if option:
        return FoundConfig(_expand(option), "option")
    if named := os.environ.get(ENVIRONMENT):
        return FoundConfig(_expand_variable(named), "environment")
    if script and (found := _find_beside(script)):
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


def describe_local(used: Path) -> str | None:
    """Say who reads a configuration of ours in the working directory, which no command does.

    None if there is none, or if it is the one in use, because it was named.
    """
    path = _find_in_working_directory()
    try:
        if path is None or path.resolve() == used.resolve() or not _has_our_table(path):
            return None
    except ConfigError:  # it may be anybody's
        return None
    if (path.parent / "addon" / "mask.py").is_file():
        return f"{NAME} in this folder is read by mitmdump alone, with the addon/mask.py here"
    return f"{NAME} in this folder is not read, as it may be a stranger's project"


def _find_beside(script: Path) -> Path | None:
    """Return the configuration in the working directory if `script` is in that folder.

    Where the script really is counts: a project may hold a link to it.
    """
    path = _find_in_working_directory()
    if path is None:
        return None
    if path.parent != script.resolve().parents[1]:
        logger.info(
            printable(
                f"{path} is passed over: mitmdump loaded {script.resolve()}, which is not in "
                f"that folder (if the file is yours: --set mask_config={NAME})"
            )
        )
        return None
    if not _has_our_table(path):
        logger.info(printable(f"{path} has no [{ROOT}] table: ignored"))
        return None
    return path


def _find_in_working_directory() -> Path | None:
    try:
        path = Path.cwd() / NAME
        return path if path.is_file() else None
    except OSError:  # the folder is gone, or not ours to read
        return None


def _has_our_table(path: Path) -> bool:
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
