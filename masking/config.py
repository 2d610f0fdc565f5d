"""TOML to settings; every error names the key.

Only the tables under `[observation_masking]` are ours, and all of them are.
"""

import dataclasses
import difflib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar, cast, get_type_hints

import tomli

from masking.errors import ConfigError
from masking.host_names import check_host, normalize_host
from masking.measures.price_settings import MAX_PRICE, CachePricing, OwnPrice, PriceSettings
from masking.strategies.mcp_requests import McpSettings
from masking.strategies.order import Strategies
from masking.strategies.policy import MaskPolicy
from masking.strategies.redaction import RedactionPolicy
from masking.strategies.reduction import ReductionOptions

ROOT = "observation_masking"


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
class RecordingSettings:
    """What a recording of mitmproxy's own (`mitmdump -w`) holds beside what was sent.

    keep_original: the client's own body of each request that was changed, to replay it by.
    """

    keep_original: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class HostSettings:
    """Host name patterns (`*` matches anything), in lower case.

    only: where not empty, every other host is left alone.
    never: left alone in any case; their TLS is not opened either.
    uncached: they sell no cached tokens, so that the window slides there.

    Raises ConfigError for what can be no host: an empty name, a URL, a port.
    """

    only: tuple[str, ...] = ()
    never: tuple[str, ...] = ()
    uncached: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name in ("only", "never", "uncached"):
            for place, pattern in enumerate(getattr(self, name)):
                check_host(pattern, f"{name}[{place}]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """All of our tables, and the price list that holds, where it is not the shipped one."""

    schema1: MaskPolicy = field(default_factory=MaskPolicy)
    cache_pricing: CachePricing = "auto"
    assumed_prices: tuple[float, float] = PriceSettings().assumed
    prices: tuple[OwnPrice, ...] = ()
    price_list: str = ""
    redaction: RedactionPolicy = field(default_factory=RedactionPolicy)
    reduction: ReductionOptions = field(default_factory=ReductionOptions)
    mcp: McpSettings = field(default_factory=McpSettings)
    memory: MemorySettings = field(default_factory=MemorySettings)
    metrics: MetricsSettings = field(default_factory=MetricsSettings)
    recording: RecordingSettings = field(default_factory=RecordingSettings)
    hosts: HostSettings = field(default_factory=HostSettings)

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
    return _read_pair(value, 'expected "none", "auto" or [read, write]', path)


def _read_pair(value: object, expected: str, path: str) -> tuple[float, float]:
    if not isinstance(value, list) or len(value) != 2:
        raise ConfigError(expected, path)
    read, write = (_read_price(item, f"{path}[{place}]") for place, item in enumerate(value))
    return read, write


def _read_settings(tables: Mapping[str, object]) -> Settings:
    _refuse_unknown(tables, ("schema1", "prices", *_TABLES), ROOT)
    schema1 = dict(_as_table(tables.get("schema1", {}), f"{ROOT}.schema1"))
    pricing = schema1.pop("cache_pricing", "auto")
    cache_pricing = read_cache_pricing(pricing, f"{ROOT}.schema1.cache_pricing")
    assumed = schema1.pop("assumed_prices", [*PriceSettings().assumed])
    return Settings(
        schema1=_price(_read(MaskPolicy, schema1, f"{ROOT}.schema1"), cache_pricing),
        cache_pricing=cache_pricing,
        assumed_prices=_read_pair(
            assumed, "expected [read, write]", f"{ROOT}.schema1.assumed_prices"
        ),
        prices=_read_own_prices(tables.get("prices", []), f"{ROOT}.prices"),
        **{
            name: _read(kind, tables.get(name, {}), f"{ROOT}.{name}")
            for name, kind in _TABLES.items()
        },
    )


def _read_own_prices(value: object, path: str) -> tuple[OwnPrice, ...]:
    if not isinstance(value, list):
        raise ConfigError(f"expected a list of tables, [[{path}]]", path)
    return tuple(_read(OwnPrice, item, f"{path}[{place}]") for place, item in enumerate(value))


_TABLES: Mapping[str, type[Any]] = {
    "redaction": RedactionPolicy,
    "reduction": ReductionOptions,
    "mcp": McpSettings,
    "memory": MemorySettings,
    "metrics": MetricsSettings,
    "recording": RecordingSettings,
    "hosts": HostSettings,
}
"""By the name of a table and of a field of `Settings`; `schema1`, `prices` are read apart."""

_Table = TypeVar("_Table")
_Kind = TypeVar("_Kind")


_DERIVED = frozenset({"cache_read_ratio", "cache_write_ratio", "price_steps", "shortest_prefix"})
"""Fields of a policy that are no keys of the file: the prices of a host and a model give them."""

_PRICE_KEYS = ("cache_pricing", "assumed_prices")
"""Keys of the table `schema1` that are no fields of its policy."""


def _read(kind: type[_Table], table: object, path: str) -> _Table:
    values = _as_table(table, path)
    fields = dataclasses.fields(cast(Any, kind))
    names: list[str] = [field.name for field in fields if field.name not in _DERIVED]
    _refuse_unknown(values, [*names, *_PRICE_KEYS] if kind is MaskPolicy else names, path)
    required = (f.name for f in fields if f.default is f.default_factory is dataclasses.MISSING)
    if missing := next((name for name in required if name not in values), None):
        raise ConfigError("missing", f"{path}.{missing}")
    types = get_type_hints(kind)
    checked: dict[str, Any] = {
        name: _checked(value, types[name], f"{path}.{name}") for name, value in values.items()
    }
    if kind is HostSettings:
        checked = {name: tuple(map(normalize_host, hosts)) for name, hosts in checked.items()}
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
    return _expect(_OPTIONAL.get(expected) or cast(type, expected), value, path)


_OPTIONAL: Mapping[object, type] = {int | None: int, float | None: float}


def _expect(kind: type[_Kind], value: object, path: str) -> _Kind:
    if kind is float and type(value) is int:
        value = float(value) if abs(value) < MAX_PRICE else value
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


def _price(policy: MaskPolicy, pricing: CachePricing) -> MaskPolicy:
    if isinstance(pricing, str):
        return policy
    read, write = pricing
    return dataclasses.replace(policy, cache_read_ratio=read, cache_write_ratio=write)


def _read_price(value: object, path: str) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise ConfigError(f"expected number, got {type(value).__name__}", path)
    if not 0 <= value < MAX_PRICE:
        raise ConfigError(f"must be from 0 up and below {MAX_PRICE:g}", path)
    return float(value)
