"""TOML to settings; every error names the key.

Only the tables under `[observation_masking]` are ours, and all of them are.
"""

import dataclasses
import difflib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar, cast, get_type_hints

import tomli

from masking.mcp import McpSettings
from masking.model import ConfigError
from masking.policy import MaskPolicy
from masking.redaction import RedactionPolicy
from masking.reduction import ReductionOptions
from masking.strategies import Strategies

ROOT = "observation_masking"

_HOST_PATTERN = re.compile(r"[^\s/:?\[\]]+|[0-9a-f:.*]*:[0-9a-f:.*]*:[0-9a-f:.*]*")
"""A name or an address, with or without `*`; with more than one colon it is one of IPv6."""

CachePricing = Literal["none", "auto"] | tuple[float, float]
"""Prices of a cached and of a written token, relative to a plain input token, or their source."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricsSettings:
    """Where the records go. An empty path is `requests.jsonl` in the user's state directory.

    At `max_megabytes` the file becomes `<path>.1`, in place of an earlier one.
    """

    path: str = ""
    max_megabytes: int = 50

    def __post_init__(self) -> None:
        if self.max_megabytes < 1:
            raise ConfigError("must be at least 1", "max_megabytes")


Switch = bool | Literal["auto"]


@dataclass(frozen=True, slots=True, kw_only=True)
class MemorySettings:
    """Whether the boundary that was sent is remembered by conversation.

    "auto": where one process serves a conversation, as mitmdump does.
    """

    enabled: Switch = "auto"


@dataclass(frozen=True, slots=True, kw_only=True)
class HostSettings:
    """Host name patterns (`*` matches anything), in lower case.

    only: where not empty, every other host is left alone.
    never: left alone in any case; their TLS is not opened either.

    Raises ConfigError for what can be no host: an empty name, a URL, a port.
    """

    only: tuple[str, ...] = ()
    never: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name, patterns in (("only", self.only), ("never", self.never)):
            for place, pattern in enumerate(patterns):
                if not _HOST_PATTERN.fullmatch(pattern):
                    raise ConfigError(
                        "expected a host name without scheme, port or path", f"{name}[{place}]"
                    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """All of our tables."""

    schema1: MaskPolicy = field(default_factory=MaskPolicy)
    cache_pricing: CachePricing = "auto"
    redaction: RedactionPolicy = field(default_factory=RedactionPolicy)
    reduction: ReductionOptions = field(default_factory=ReductionOptions)
    mcp: McpSettings = field(default_factory=McpSettings)
    memory: MemorySettings = field(default_factory=MemorySettings)
    metrics: MetricsSettings = field(default_factory=MetricsSettings)
    hosts: HostSettings = field(default_factory=HostSettings)

    @property
    def strategies(self) -> Strategies:
        """What may be done to a request."""
        return Strategies(redaction=self.redaction, schema1=self.schema1, reduction=self.reduction)


def parse_settings(data: bytes) -> Settings | None:
    """Read a TOML file's settings; None where it has no table of ours.

    Raises ConfigError with the key's full path for an unknown key, a wrong type or a bad value,
    and for a file that is no TOML.
    """
    try:
        document = tomli.loads(data.decode())
    except UnicodeDecodeError:
        raise ConfigError("not UTF-8", "file") from None
    except (ValueError, RecursionError) as error:  # too many digits, too deep, no TOML at all
        raise ConfigError(f"not TOML: {error}", "file") from None
    if ROOT not in document:
        return None
    return _read_settings(_as_table(document[ROOT], ROOT))


def read_cache_pricing(value: object, path: str) -> CachePricing:
    """Read the value of `cache_pricing`. Raises ConfigError with this path."""
    if value == "none" or value == "auto":
        return "none" if value == "none" else "auto"
    if not isinstance(value, list) or len(value) != 2:
        raise ConfigError('expected "none", "auto" or [read, write]', path)
    read, write = (_read_price(item, f"{path}[{place}]") for place, item in enumerate(value))
    return read, write


def _read_settings(tables: Mapping[str, object]) -> Settings:
    _refuse_unknown(tables, ("schema1", *_TABLES), ROOT)
    schema1 = dict(_as_table(tables.get("schema1", {}), f"{ROOT}.schema1"))
    pricing = schema1.pop("cache_pricing", "auto")
    cache_pricing = read_cache_pricing(pricing, f"{ROOT}.schema1.cache_pricing")
    return Settings(
        schema1=_price(_read(MaskPolicy, schema1, f"{ROOT}.schema1"), cache_pricing),
        cache_pricing=cache_pricing,
        **{
            name: _read(kind, tables.get(name, {}), f"{ROOT}.{name}")
            for name, kind in _TABLES.items()
        },
    )


_TABLES: Mapping[str, type[Any]] = {
    "redaction": RedactionPolicy,
    "reduction": ReductionOptions,
    "mcp": McpSettings,
    "memory": MemorySettings,
    "metrics": MetricsSettings,
    "hosts": HostSettings,
}
"""By the name of a table and of a field of `Settings`; `schema1` is read by itself."""

_MAX_PRICE = 1e6

_Table = TypeVar("_Table")
_Kind = TypeVar("_Kind")


_DERIVED = frozenset({"cache_read_ratio", "cache_write_ratio", "price_steps"})
"""Fields of a policy that are no keys of the file: the prices of a host and a model give them."""


def _read(kind: type[_Table], table: object, path: str) -> _Table:
    values = _as_table(table, path)
    fields = dataclasses.fields(cast(Any, kind))
    names: list[str] = [field.name for field in fields if field.name not in _DERIVED]
    _refuse_unknown(values, [*names, "cache_pricing"] if kind is MaskPolicy else names, path)
    types = get_type_hints(kind)
    checked: dict[str, Any] = {
        name: _checked(value, types[name], f"{path}.{name}") for name, value in values.items()
    }
    if kind is HostSettings:
        checked = {name: tuple(map(_normalize_host, hosts)) for name, hosts in checked.items()}
    try:
        return kind(**checked)
    except ConfigError as error:
        raise ConfigError(error.problem, f"{path}.{error.path}") from None


def _as_table(value: object, path: str) -> Mapping[str, object]:
    if not isinstance(value, dict):
        raise ConfigError(f"expected table, got {type(value).__name__}", path)
    return value


def _refuse_unknown(table: Mapping[str, object], known: Iterable[str], path: str) -> None:
    names = tuple(known)
    for key in table:
        if key not in names:
            close = difflib.get_close_matches(key, names, n=1)
            hint = f" (did you mean '{close[0]}'?)" if close else f" (known: {', '.join(names)})"
            raise ConfigError(f"unknown key{hint}", f"{path}.{key}")


def _checked(value: object, expected: object, path: str) -> object:
    if expected == tuple[str, ...]:
        return _read_strings(value, path)
    if expected == Switch:
        return _read_switch(value, path)
    return _expect(int if expected == int | None else cast(type, expected), value, path)


def _expect(kind: type[_Kind], value: object, path: str) -> _Kind:
    if kind is float and type(value) is int:
        value = float(value) if abs(value) < _MAX_PRICE else value
    if type(value) is not kind:  # a boolean is no int
        raise ConfigError(f"expected {kind.__name__}, got {type(value).__name__}", path)
    return value


def _read_switch(value: object, path: str) -> Switch:
    if value == "auto":
        return "auto"
    if isinstance(value, bool):
        return value
    raise ConfigError('expected true, false or "auto"', path)


def _read_strings(value: object, path: str) -> tuple[str, ...]:
    items = _expect(list, value, path)
    return tuple(_expect(str, item, f"{path}[{i}]") for i, item in enumerate(items))


def _normalize_host(name: str) -> str:
    return name.lower().rstrip(".")


def _price(policy: MaskPolicy, pricing: CachePricing) -> MaskPolicy:
    if isinstance(pricing, str):
        return policy
    read, write = pricing
    return dataclasses.replace(policy, cache_read_ratio=read, cache_write_ratio=write)


def _read_price(value: object, path: str) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise ConfigError(f"expected number, got {type(value).__name__}", path)
    if not 0 <= value < _MAX_PRICE:
        raise ConfigError(f"must be from 0 up and below {_MAX_PRICE:g}", path)
    return float(value)
