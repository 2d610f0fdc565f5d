"""The configuration as options of a command: what is given overrides the file."""

import argparse
import dataclasses
from pathlib import Path
from typing import Any, get_type_hints

from addon.config_file import ConfigFile, find_config
from masking.analysis.replay import Course
from masking.config import read_cache_pricing
from masking.model import ConfigError
from masking.policy import MaskPolicy
from masking.price_settings import CachePricing

_GIVEN_BY_PRICES = ("cache_read_ratio", "cache_write_ratio", "price_steps")


def add_policy_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of a replay, and one for each field of a policy."""
    parser.add_argument("--config", default="", metavar="FILE", help="default: as the addon's")
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
        type=float,
        metavar="SECONDS",
        help="how long a simulated cache keeps an unused prompt; default: for ever",
    )
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


def read_courses(options: argparse.Namespace) -> list[Course]:
    """Return what the configuration and the options say, once for each of the prices.

    Raises ConfigError where they say what cannot be.
    """
    settings = ConfigFile(find_config(options.config, beside=Path(__file__))).settings
    given = {name: getattr(options, name) for name in _names()}
    changed: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    try:
        policy = dataclasses.replace(settings.schema1, **changed)
    except ConfigError as error:
        raise ConfigError(error.problem, f"--{error.path.replace('_', '-')}") from None
    pricings: list[CachePricing] = options.prices or [settings.cache_pricing]
    return [
        Course(
            policy=policy,
            pricing=dataclasses.replace(settings.pricing, cache_pricing=pricing),
            model=options.model,
            ttl=options.cache_ttl,
            others=settings.strategies,
        )
        for pricing in pricings
    ]


def _names() -> list[str]:
    return [f.name for f in dataclasses.fields(MaskPolicy) if f.name not in _GIVEN_BY_PRICES]


def _read_names(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(",") if name.strip())


def _read_prices(text: str) -> CachePricing:
    try:
        return read_cache_pricing([float(part) for part in text.split(",")], "--prices")
    except ValueError:
        raise argparse.ArgumentTypeError(f"expected READ,WRITE, as 0.1,1: {text}") from None
