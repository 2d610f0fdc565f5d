"""The configuration as options of a command: what is given overrides the file."""

import argparse
import dataclasses
from typing import Any, get_type_hints

from addon.proxy.config_file import ConfigFile, find_config
from masking.config import Settings
from masking.config_tables import read_prices
from masking.errors import ConfigError
from masking.measures.price_settings import CachePricing
from masking.replay.pauses import Pause
from masking.replay.replay import ReplaySettings
from masking.strategies.policy import MaskPolicy

_LONGEST_PAUSE = 1e8
_GIVEN_BY_PRICES = ("cache_read_ratio", "cache_write_ratio", "price_steps", "shortest_prefix")


def add_replay_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of a replay, and those of its policy."""
    parser.add_argument("--model", help="price the requests as this model's")
    parser.add_argument(
        "--prices",
        type=_read_prices,
        action="append",
        default=[],
        metavar="READ,WRITE",
        help="price of a cached and of a written token, relative to a plain one; may be repeated",
    )
    parser.add_argument(
        "--cache-ttl",
        type=_read_seconds,
        metavar="SECONDS",
        help="how long a simulated cache keeps an unused prompt; default: for ever",
    )
    parser.add_argument(
        "--pause",
        type=_read_pause,
        metavar="EVERY,SECONDS",
        help="add a pause of SECONDS after every EVERY requests; shows with --cache-ttl",
    )
    add_policy_options(parser)
    parser.set_defaults(memory=None)


def add_memory_option(parser: argparse.ArgumentParser) -> None:
    """Add the one of what remembers the boundary."""
    parser.add_argument(
        "--memory",
        action=argparse.BooleanOptionalAction,
        default=None,
        help="remember the boundary that was sent; default: as configured, on like mitmdump",
    )


def add_policy_options(parser: argparse.ArgumentParser) -> None:
    """Add one for the configuration, and one for each field of a policy."""
    parser.add_argument("--config", default="", metavar="FILE", help="default: as the addon's")
    kinds = get_type_hints(MaskPolicy)
    for name in _names():
        flag = f"--{name.replace('_', '-')}"
        if kinds[name] is bool:
            parser.add_argument(flag, action=argparse.BooleanOptionalAction, default=None)
        elif kinds[name] == tuple[str, ...]:
            parser.add_argument(flag, type=_read_names, metavar="NAME,NAME")
        else:
            kind = kinds[name] if kinds[name] in (float, str) else int
            parser.add_argument(flag, type=kind, metavar=kind.__name__.upper())


def read_replay_settings(options: argparse.Namespace) -> list[ReplaySettings]:
    """Return what the configuration and the options say, once for each of the prices.

    Raises ConfigError where they say what cannot be.
    """
    settings = _read_settings(options)
    policy = _read_policy(options, settings)
    remembers = bool(settings.memory.enabled) if options.memory is None else options.memory
    pricings: list[CachePricing] = options.prices or [settings.cache_pricing]
    return [
        ReplaySettings(
            policy=policy,
            price_settings=dataclasses.replace(settings.price_settings, cache_pricing=pricing),
            model=options.model,
            ttl=options.cache_ttl,
            remembers=remembers,
            others=settings.strategies,
        )
        for pricing in pricings
    ]


def read_policy(options: argparse.Namespace) -> MaskPolicy:
    """Return the policy of the configuration and the options. Raises ConfigError as above."""
    return _read_policy(options, _read_settings(options))


def _read_settings(options: argparse.Namespace) -> Settings:
    return ConfigFile(find_config(options.config)).settings


def _read_policy(options: argparse.Namespace, settings: Settings) -> MaskPolicy:
    given = {name: getattr(options, name) for name in _names()}
    changed: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    try:
        return dataclasses.replace(settings.schema1, **changed)
    except ConfigError as error:
        raise ConfigError(error.problem, f"--{error.path.replace('_', '-')}") from None


def _names() -> list[str]:
    return [f.name for f in dataclasses.fields(MaskPolicy) if f.name not in _GIVEN_BY_PRICES]


def _read_pause(text: str) -> Pause:
    try:
        every, seconds = int(text.split(",")[0]), float(text.split(",")[1])
    except (ValueError, IndexError):
        raise argparse.ArgumentTypeError(f"expected EVERY,SECONDS, as 10,600: {text}") from None
    if every < 1 or not 0 <= seconds < _LONGEST_PAUSE:
        raise argparse.ArgumentTypeError(f"expected EVERY from 1 up and SECONDS from 0 up: {text}")
    return Pause(every, seconds)


def _read_seconds(text: str) -> float:
    seconds = float(text)
    if not seconds >= 0:
        raise argparse.ArgumentTypeError(f"expected SECONDS from 0 up: {text}")
    return seconds


def _read_names(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(",") if name.strip())


def _read_prices(text: str) -> CachePricing:
    try:
        return read_prices([float(part) for part in text.split(",")])
    except ValueError:
        raise argparse.ArgumentTypeError(f"expected READ,WRITE, as 0.1,1: {text}") from None
