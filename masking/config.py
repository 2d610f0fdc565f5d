"""TOML to settings; every error names the key.

Only the tables under `[observation_masking]` are ours, and all of them are. A key that a file
leaves out has the shipped value (see `masking.config_tables`).
"""

import difflib
import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, get_args

import tomli
from pydantic import ValidationError
from pydantic_core import ErrorDetails, to_json

from masking.config_tables import (
    HostSettings,
    MemorySettings,
    MetricsSettings,
    Mode,
    PageSettings,
    RecordingSettings,
    Tables,
    WebsocketSettings,
)
from masking.errors import ConfigError, OverrideError
from masking.measures.price_settings import CachePricing, OwnPrice, PriceSettings
from masking.overrides import apply_overrides
from masking.strategies.mcp_requests import McpSettings
from masking.strategies.order import Strategies
from masking.strategies.policy import MaskPolicy
from masking.strategies.redaction import RedactionPolicy
from masking.strategies.reduction import ReductionOptions

ROOT = "observation_masking"

_SHIPPED = Tables()
_SCHEMA1, _REDACTION = _SHIPPED.schema1.to_policy(), _SHIPPED.redaction.to_policy()


@dataclass(frozen=True, kw_only=True)
class Settings:
    """All of our tables, and the path of the price list, unless it is the shipped one.

    What is left out has the shipped value.
    """

    mode: Mode = _SHIPPED.mode
    holdout_percent: float = _SHIPPED.holdout_percent
    holdout_salt: str = _SHIPPED.holdout_salt
    schema1: MaskPolicy = _SCHEMA1
    cache_pricing: CachePricing = _SHIPPED.schema1.cache_pricing
    assumed_prices: tuple[float, float] = _SHIPPED.schema1.assumed_prices
    prices: tuple[OwnPrice, ...] = _SHIPPED.prices
    price_list: str = ""
    redaction: RedactionPolicy = _REDACTION
    reduction: ReductionOptions = _SHIPPED.reduction
    mcp: McpSettings = _SHIPPED.mcp
    memory: MemorySettings = _SHIPPED.memory
    metrics: MetricsSettings = _SHIPPED.metrics
    page: PageSettings = _SHIPPED.page
    recording: RecordingSettings = _SHIPPED.recording
    websocket: WebsocketSettings = _SHIPPED.websocket
    hosts: HostSettings = _SHIPPED.hosts

    @property
    def changes(self) -> bool:
        """Whether a request can be changed at all: a strategy is on, and not only observed."""
        return self.strategies.change and self.mode == "on"

    @property
    def observes(self) -> bool:
        """Whether any conversation is observed only."""
        return self.mode == "observe" or self.holdout_percent > 0

    @property
    def strategies(self) -> Strategies:
        """What may be done to a request."""
        return Strategies(redaction=self.redaction, schema1=self.schema1, reduction=self.reduction)

    @property
    def price_settings(self) -> PriceSettings:
        """How requests are priced."""
        return PriceSettings(
            self.cache_pricing,
            own=self.prices,
            uncached=self.hosts.uncached,
            assumed=self.assumed_prices,
            price_list=self.price_list,
        )

    @cached_property
    def digest(self) -> str:
        """12 hex digits, the same for equal settings, whatever the file of records and the page."""
        told = to_json(replace(self, metrics=_SHIPPED.metrics, page=_SHIPPED.page))
        return hashlib.blake2b(told, digest_size=6).hexdigest()


def parse_settings(data: bytes, overrides: Sequence[str] = ()) -> Settings | None:
    """Read the settings of a TOML file; None if it has no table of ours.

    Overrides are `TABLE.KEY=VALUE`, as `schema1.window_turns=4`. Raises ConfigError with the key's
    full path for an unknown key, a wrong type or a bad value, and for a file that is not TOML;
    OverrideError if the file is right and an override is not.
    """
    tables = parse_tables(data, overrides)
    if tables is None:
        return None
    return Settings(
        mode=tables.mode,
        holdout_percent=tables.holdout_percent,
        holdout_salt=tables.holdout_salt,
        schema1=tables.schema1.to_policy(),
        cache_pricing=tables.schema1.cache_pricing,
        assumed_prices=tables.schema1.assumed_prices,
        prices=tables.prices,
        redaction=tables.redaction.to_policy(),
        reduction=tables.reduction,
        mcp=tables.mcp,
        memory=tables.memory,
        metrics=tables.metrics,
        page=tables.page,
        recording=tables.recording,
        websocket=tables.websocket,
        hosts=tables.hosts,
    )


def parse_tables(data: bytes, overrides: Sequence[str] = ()) -> Tables | None:
    """Read our tables from a TOML file. None, and what is raised, as with `parse_settings`."""
    document = read_document(data)
    if ROOT not in document:
        return None
    tables = _read_tables(document)
    return _override(document, overrides) if overrides else tables


def read_document(data: bytes) -> Mapping[str, Any]:
    """Decode a TOML file, with a byte order mark or without. Raises ConfigError if it is none."""
    try:
        return tomli.loads(data.decode("utf-8-sig"))
    except UnicodeDecodeError:
        raise ConfigError("not UTF-8", "file") from None
    except (ValueError, RecursionError) as error:  # too many digits, too deep, no TOML at all
        raise ConfigError(f"not TOML: {error}", "file") from None


def _override(document: Mapping[str, Any], overrides: Sequence[str]) -> Tables:
    try:
        return _read_tables({ROOT: apply_overrides(document[ROOT], overrides)})
    except OverrideError:
        raise
    except ConfigError as error:  # the file alone is right
        raise OverrideError(error.problem, error.path.removeprefix(f"{ROOT}.")) from None


def _read_tables(document: Mapping[str, object]) -> Tables:
    # As JSON: that has TOML's lists and tables for our tuples and dataclasses, while a boolean is
    # still no number. JSON has no dates; they become what no key takes.
    try:
        return Tables.model_validate_json(json.dumps(document[ROOT], default=lambda _: {"": 0}))
    except ValidationError as error:
        raise _explain(error.errors(include_url=False)[0], document) from None


def _explain(mistake: ErrorDetails, document: Mapping[str, object]) -> ConfigError:
    """Return pydantic's finding as an error with the key's full path."""
    keys = mistake["loc"]
    path = ROOT + "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in keys)
    inner = mistake.get("ctx", {}).get("error")
    if isinstance(inner, ConfigError):  # a policy's own, or a reader's
        joint = "." if inner.path[:1] not in ("", "[") else ""
        return ConfigError(inner.problem, f"{path}{joint}{inner.path}")
    describe = _PROBLEMS.get(mistake["type"])
    if describe is not None:
        return ConfigError(describe(mistake), path)
    if keys == ("prices",):
        return ConfigError(f"expected a list of tables, [[{path}]]", path)
    expected, got = _EXPECTED.get(mistake["type"], "another value"), _name_type(document, keys)
    problem = _TOO_LARGE.get((expected, got), f"expected {expected}, got {got}")
    return ConfigError(problem, path)


_TOO_LARGE = {("float", "int"): "must be a number from 0 up"}
"""Before pydantic 2.12 a whole number that no float can hold is one of the wrong type."""

_EXPECTED = {
    "bool_type": "bool",
    "int_type": "int",
    "float_type": "float",
    "string_type": "str",
    "tuple_type": "list",
    "model_type": "table",
    "dataclass_type": "table",
}
"""What was expected, by pydantic's name for the mistake."""


def _describe_unknown(mistake: ErrorDetails) -> str:
    *outer, key = mistake["loc"]
    names = _known_keys(outer)
    close = difflib.get_close_matches(str(key), names, n=1) or ([] if outer else _find_inside(key))
    hint = f"did you mean '{close[0]}'?" if close else f"known: {', '.join(names)}"
    return f"unknown key ({hint})"


_PROBLEMS: Mapping[str, Callable[[ErrorDetails], str]] = {
    "extra_forbidden": _describe_unknown,
    "unexpected_keyword_argument": _describe_unknown,
    "finite_number": lambda _: "must be a finite number",
    "missing": lambda _: "missing",
    "greater_than_equal": lambda mistake: f"must be at least {mistake['ctx']['ge']:g}",
    "less_than_equal": lambda mistake: f"must be at most {mistake['ctx']['le']:g}",
    "json_invalid": lambda _: "too deep",
}


def _find_inside(key: str | int) -> list[str]:
    """Return the place of a key that stands in one of our tables, and in no other."""
    found = [f"{name}.{key}" for name in Tables.model_fields if key in _known_keys([name])]
    return found if len(found) == 1 else []


def _known_keys(path: Sequence[str | int]) -> list[str]:
    """Return the keys of the table at this path: `schema1`, or `prices` and a number.

    There are none at the path of a key.
    """
    table: Any = Tables
    for key in path:
        table = get_args(table)[0] if isinstance(key, int) else table.model_fields[key].annotation
    fields: Any = getattr(table, "model_fields", None) or getattr(table, "__dataclass_fields__", ())
    return list(fields)


def _name_type(document: Mapping[str, object], path: Sequence[str | int]) -> str:
    """Return Python's name for the type of the value at a path in our table."""
    found: Any = document[ROOT]
    for key in path:
        found = found[key]
    return type(found).__name__
