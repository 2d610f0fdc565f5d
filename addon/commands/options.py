"""Options that several commands share: what is given overrides the configuration."""

import dataclasses
import errno
import functools
import os
import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime, time, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from addon.config import CONFIG_NAME, ConfigFile, locate_config
from addon.config_commands import dump_toml
from addon.places import shipped
from masking.config import Schema1Table, Settings, list_keys, read_prices
from masking.errors import ConfigError, OverrideError
from masking.prices import CachePricing, PriceSettings
from masking.roads import OPTIONAL_ROADS, Road

if TYPE_CHECKING:  # `obsmask run` has these options, too, and an agent waits for it
    from addon.replay.logs.log import LogChoice
    from addon.replay.replay import Pause, ReplaySettings

_Function = TypeVar("_Function", bound=Callable[..., Any])
_Value = TypeVar("_Value")


def _together(*options: Callable[[Any], Any]) -> Callable[[_Function], _Function]:
    """Return what adds options to a command, in this order in its help."""

    def add(command: _Function) -> _Function:
        return functools.reduce(lambda added, option: option(added), reversed(options), command)

    return add


paths_argument = click.argument(
    "paths", nargs=-1, metavar="[PATH...]", type=click.Path(path_type=Path)
)
"""Agents' logs, recordings and conversations: .flow, .json, .jsonl, .gz, or a folder of them. None
of them stands for the logs where agents keep them."""

observe_option = click.option(
    "--observe",
    is_flag=True,
    help="Dry run: change nothing; say what masking would save.",
)

OBSERVE = 'mode="observe"'
"""The override that this option is."""


def name_road(road: Road) -> str:
    """Return the name of a road's option as a parameter."""
    return road.option.removeprefix("--").replace("-", "_")


road_options = _together(
    *(
        click.option(road.option, name_road(road), is_flag=True, help=road.help)
        for road in OPTIONAL_ROADS
    )
)
"""An option for each road that a user may switch on."""


def list_road_overrides(given: Mapping[str, Any]) -> list[str]:
    """Return the roads that were asked for, as overrides of a `ConfigFile`."""
    return [
        f"{path}={dump_toml(value)}"
        for road in OPTIONAL_ROADS
        if given[name_road(road)]
        for path, value in road.settings.items()
    ]


# The configuration

config_option = click.option(
    "--config",
    default="",
    metavar="FILE",
    help="Use this file, not the one obsmask config shows.",
)

config_options = _together(
    config_option,
    click.option(
        "--set",
        "changes",
        multiple=True,
        metavar="KEY=VALUE",
        help="Override a setting, as mcp.enabled=true; repeatable.",
    ),
)
"""What every command that reads the configuration takes: a file, and changes of any key."""


def open_config(config: str, changes: Sequence[str]) -> ConfigFile:
    """Read the configuration that `config_options` ask for.

    An error in a file that is used without being named says how to do without that file. Raises
    ConfigError.
    """
    path, place = locate_config(config)
    try:
        return ConfigFile(path, changes)
    except OverrideError:
        raise
    except ConfigError as error:
        if place not in ("environment", "user"):
            raise
        without = f"--config {shlex.quote(str(shipped(CONFIG_NAME)))}"
        raise ConfigError(f"{error}; to use the default settings instead: {without}") from None


# The values of options

MOST_PORTS = 65_535

_LONGEST_PAUSE = 1e8


def as_value(read: Callable[[str], _Value]) -> Callable[[str], _Value]:
    """Return a reader of an option's value whose ValueError is shown as the option's mistake."""

    def convert(text: str) -> _Value:
        try:
            return read(text)
        except ValueError as error:
            raise click.BadParameter(str(error)) from None

    return convert


def whole_number(least: int, most: int | None = None) -> Callable[[str], int]:
    """Return a reader of an option's value that is a whole number, from this one up."""
    up = "up" if most is None else f"to {most}"

    def read(text: str) -> int:
        try:
            number = int(text)
        except ValueError:
            number = least - 1
        if number < least or (most is not None and number > most):
            raise click.BadParameter(f"expected a whole number from {least} {up}: {text}")
        return number

    return read


# The policy

_SCHEMA1 = list_keys(Schema1Table)

window_option = click.option(
    "--window-turns",
    type=whole_number(0),
    metavar="N",
    help=re.sub(r"\. .*", ".", _SCHEMA1["window_turns"].description or ""),  # the first sentence
)


_RENAMED = {"--as-it-is": "--no-agent-setup", "--client-changes": "--force-http"}


class PolicyCommand(click.Command):
    """Says how that is given now which was another option up to version 0.2."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Read the command line. Raises UsageError."""
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            if now := _RENAMED.get(error.option_name):
                raise click.UsageError(f"{error.option_name} is now {now}", ctx) from None
            name = error.option_name.removeprefix("--").replace("-", "_")
            key = name.removeprefix("no_")
            if key not in _SCHEMA1:
                raise
            is_flag = _SCHEMA1[key].annotation is bool
            value = "VALUE" if not is_flag else "true" if name == key else "false"
            problem = f"{error.option_name} is now --set schema1.{key}={value}"
            raise click.UsageError(problem, ctx) from None


policy_options = _together(window_option, config_options)
"""`config_options`, and the one key of a policy that has an option of its own."""


def read_overrides(given: Mapping[str, Any], more: Sequence[str] = ()) -> list[str]:
    """Return what `policy_options` were given, and `more`, as overrides of a `ConfigFile`.

    `--set` comes after the option: it holds where both name the window.
    """
    turns = given["window_turns"]
    window = [] if turns is None else [f"schema1.window_turns={turns}"]
    return [*window, *given["changes"], *more]


def read_proxy_arguments(given: Mapping[str, Any], tag: str, more: Sequence[str] = ()) -> list[str]:
    """Return mitmdump's arguments for what `policy_options` were given, and `more` overrides.

    The proxy reads the configuration itself. It is read here as well, so that an error in it is
    reported before anything starts: raises ConfigError.
    """
    overrides = read_overrides(given, more)
    path = open_config(given["config"], overrides).path.absolute()  # it may work elsewhere
    settings = [("mask_config", path), ("mask_tag", tag), *(("mask_set", o) for o in overrides)]
    return [part for name, value in settings for part in ("--set", f"{name}={value}")]


# A replay


def read_replay_settings(
    given: Mapping[str, Any], more: Sequence[str] = ()
) -> "list[ReplaySettings]":
    """Return the settings of the configuration and the options, once for each of the prices.

    `more` are overrides that come last. Raises ConfigError if they are impossible.
    """
    from addon.replay.replay import ReplaySettings, Ruled

    settings = open_config(given["config"], read_overrides(given, more)).settings
    memory = given.get("memory")
    remembers = bool(settings.memory.enabled) if memory is None else memory
    pricings: list[CachePricing | None] = [*given["prices"]] or [None]
    return [
        ReplaySettings(
            strategies=settings.strategies,
            price_settings=_price(settings, pricing),
            model=given["model"],
            ttl=given["cache_ttl"],
            remembers=remembers,
            rules=tuple(
                (rule, Ruled(own.strategies, _price(own, pricing)))
                for rule, own in settings.choices
            ),
            taken=tuple(road.name for road in OPTIONAL_ROADS if road.is_taken(settings)),
        )
        for pricing in pricings
    ]


def _price(settings: Settings, pricing: CachePricing | None) -> PriceSettings:
    found = settings.price_settings
    return found if pricing is None else dataclasses.replace(found, cache_pricing=pricing)


# The logs that agents keep of their own

_DEFAULT_DAYS = 30
"""How far back the logs are read where nothing is named."""


def choose_logs(paths: Sequence[Path], since: datetime | None, project: str | None) -> "LogChoice":
    """Return which sessions of logs are meant; without paths and a time, those of 30 days."""
    from addon.replay.logs.log import LogChoice

    if not paths and since is None:
        since = read_since(f"{_DEFAULT_DAYS}d")
    return LogChoice(since, project)


def check_writable(file: Path) -> None:
    """Raise OSError if a file cannot be written, before any work is done for it."""
    folder = file.parent
    if not folder.exists():
        raise OSError(f"{file}: there is no folder {folder}")
    if not folder.is_dir():
        raise OSError(f"{file}: {os.strerror(errno.ENOTDIR)}")
    if file.exists() and not (file.is_file() or file.is_char_device()):
        raise OSError(f"{file}: not a regular file")  # a pipe would wait for a reader
    if not os.access(file if file.exists() else folder, os.W_OK):
        raise OSError(f"{file}: {os.strerror(errno.EACCES)}")


def _read_pause(text: str) -> "Pause":
    from addon.replay.replay import Pause

    try:
        first, second = text.split(",")
        every, seconds = int(first), float(second)
    except ValueError:
        raise click.BadParameter(f"expected N,SECONDS, as 10,600: {text}") from None
    if every < 1 or not 0 <= seconds < _LONGEST_PAUSE:
        raise click.BadParameter(f"expected N from 1 up and SECONDS from 0 up: {text}")
    return Pause(every, seconds)


_SPAN = re.compile(r"(\d{1,9})\s*([hdwmy])")
_DAYS = {"d": 1, "w": 7, "m": 30, "y": 365}
_NAMED_DAYS = {"today": 0, "yesterday": 1}


def read_since(text: str) -> datetime:
    """Return the time that `today`, `12h`, `7d`, `4w`, `1m`, `1y` or a date means to a user.

    Days and more begin at midnight where the user is, so that `1d` is today; a month has 30 days.
    Raises click.BadParameter.
    """
    now = datetime.now().astimezone()
    try:
        since = _read_start(text.strip().lower(), now)
    except (ValueError, OverflowError, OSError):
        raise click.BadParameter(
            "expected hours, days, weeks, months, years, or a date, as 12h, 7d, 4w, 3m, 1y, or "
            f"{now:%Y-%m-%d}: {text}"
        ) from None
    if since > now:
        raise click.BadParameter(f"that is in the future: {text}")
    return since


def _read_start(text: str, now: datetime) -> datetime:
    if text in _NAMED_DAYS:
        return _midnight(now.date() - timedelta(days=_NAMED_DAYS[text]))
    span = _SPAN.fullmatch(text)
    if span is None:
        when = datetime.fromisoformat(text)
        return when if when.tzinfo else when.astimezone()
    count, unit = int(span[1]), span[2]
    if count == 0:
        raise ValueError
    if unit == "h":
        return now - timedelta(hours=count)
    return _midnight(now.date() - timedelta(days=count * _DAYS[unit] - 1))


def _midnight(day: date) -> datetime:
    """Return the midnight with which a day begins where the user is."""
    return datetime.combine(day, time()).astimezone()


def _read_seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not seconds >= 0:
        raise click.BadParameter(f"expected SECONDS from 0 up: {text}")
    return seconds


def _read_prices(text: str) -> CachePricing:
    try:
        read, write = read_prices([float(part) for part in text.split(",")])
    except ValueError:
        raise click.BadParameter(f"expected READ,WRITE, as 0.1,1: {text}") from None
    if read > min(write, 1.0):
        raise click.BadParameter(
            f"a cached token cannot cost more than a plain or a written one: {text}"
        )
    return read, write


replay_options = _together(
    click.option("--model", metavar="NAME", help="Take all requests to be for this model."),
    click.option(
        "--prices",
        type=_read_prices,
        multiple=True,
        metavar="READ,WRITE",
        help="Prices of a token read from the cache and of one written; uncached is 1. Repeatable.",
    ),
    click.option(
        "--cache-ttl",
        type=_read_seconds,
        metavar="SECONDS",
        help="Simulate a cache that forgets a prompt SECONDS after its last use. Default: never.",
    ),
    click.option(
        "--pause",
        type=_read_pause,
        metavar="N,SECONDS",
        help="Simulate a pause of SECONDS after every N requests (needs --cache-ttl).",
    ),
    policy_options,
)
"""The options of a replay, and those of its policy."""

log_options = _together(
    click.option(
        "--since",
        type=read_since,
        metavar="WHEN",
        help="In agents' logs, count only requests since today, yesterday, 12h, 7d (today and the "
        "six days before), 4w, or a date. Default: 30d without a PATH, else all.",
    ),
    click.option(
        "--project",
        metavar="NAME",
        help="In agents' logs, count only sessions in a folder with this name.",
    ),
    click.option(
        "--account",
        type=click.Choice(("old", "new")),
        help="Your Anthropic account: created before August 31, 2026 (old), or later. It decides "
        "what can be masked with the newest models. Default: what the proxy has found out.",
    ),
)
"""The options that say which sessions of agents' logs are meant."""

work_options = _together(
    click.option(
        "--processes",
        type=whole_number(1),
        metavar="N",
        help="Number of processes. Default: one per core.",
    ),
    click.option("--scheduler", metavar="tcp://…", help="Run on this Dask cluster."),
)
"""The options that say where sessions are worked on."""
