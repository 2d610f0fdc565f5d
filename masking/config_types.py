"""The types of the values in a configuration file, and how a mistake in one is told.

A value that no key of its type can take is a ConfigError with the path inside the value, as `[0]`.
"""

from collections.abc import Mapping
from ipaddress import ip_address
from pathlib import PurePath
from typing import Annotated, Literal

from pydantic import AfterValidator, PlainValidator

from masking.errors import ConfigError
from masking.host_names import check_host, normalize_host
from masking.measures.price_settings import MAX_PRICE, CachePricing
from masking.rules import ANY

_Switch = bool | Literal["auto"]
_Mode = Literal["on", "observe"]
_WebsocketMode = Literal["auto", "pass", "http"]
_WEBSOCKET_MODES: tuple[_WebsocketMode, ...] = ("auto", "pass", "http")


def name_type(value: object) -> str:
    """Return what a value of TOML is, in the words of a mistake: `a whole number`."""
    return _TYPES.get(type(value), f"a {type(value).__name__}")  # a date, a time, a datetime


_TYPES: Mapping[type, str] = {
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    str: "a text",
    list: "a list",
    dict: "a table",
}


def read_prices(value: object) -> tuple[float, float]:
    """Read a pair of prices. Raises ConfigError, whose path is that of the item, as `[0]`."""
    if not isinstance(value, list) or len(value) != 2:
        raise ConfigError("expected [read, write]", "")
    read, write = (_read_price(item, f"[{place}]") for place, item in enumerate(value))
    return read, write


def _read_price(value: object, path: str) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise ConfigError(f"expected a number, got {name_type(value)}", path)
    if not 0 <= value < MAX_PRICE:
        raise ConfigError(f"must be from 0 up and below {MAX_PRICE:g}", path)
    return float(value)


def _read_cache_pricing(value: object) -> CachePricing:
    if value == "none" or value == "auto":
        return "none" if value == "none" else "auto"
    if not isinstance(value, list) or len(value) != 2:
        raise ConfigError('expected "none", "auto" or [read, write]', "")
    return read_prices(value)


def _read_switch(value: object) -> _Switch:
    if value == "auto":
        return "auto"
    if isinstance(value, bool):
        return value
    raise ConfigError('expected true, false or "auto"', "")


def _read_websocket_mode(value: object) -> _WebsocketMode:
    for mode in _WEBSOCKET_MODES:
        if value == mode:
            return mode
    raise ConfigError('expected "auto", "pass" or "http"', "")


def _read_mode(value: object) -> _Mode:
    if value == "on" or value == "observe":
        return "on" if value == "on" else "observe"
    raise ConfigError('expected "on" or "observe"', "")


def _read_host(pattern: str) -> str:
    check_host(pattern, "")
    return normalize_host(pattern)


def _read_folder(name: str) -> str:
    """Refuse a relative folder: proxy and command seldom work in the same one."""
    if name and not name.startswith("~") and not PurePath(name).is_absolute():
        raise ConfigError("must be a full path, or begin with ~", "")
    return name


def _read_own_address(host: str) -> str:
    try:
        return host if host == "localhost" else str(ip_address(host))
    except ValueError:
        raise ConfigError("expected an IP address of this machine, as 127.0.0.1", "") from None


def _read_headers(value: object) -> Mapping[str, str]:
    """Read the headers of a rule: a name, which must be there, or names with their globs."""
    headers = {value: ANY} if isinstance(value, str) else value
    if not isinstance(headers, dict):
        raise ConfigError("expected a header's name, or a table of names and patterns", "")
    for name, glob in headers.items():
        if not isinstance(glob, str):
            raise ConfigError(f"expected a text in quotes, got {name_type(glob)}", name)
    found = {name.lower(): glob for name, glob in headers.items()}
    if len(found) < len(headers):
        raise ConfigError("a header is named twice; case does not count", "")
    return found


Switch = Annotated[_Switch, PlainValidator(_read_switch)]
Mode = Annotated[_Mode, PlainValidator(_read_mode)]
WebsocketMode = Annotated[_WebsocketMode, PlainValidator(_read_websocket_mode)]
Prices = Annotated[tuple[float, float], PlainValidator(read_prices)]
CachePrices = Annotated[CachePricing, PlainValidator(_read_cache_pricing)]
Hosts = tuple[Annotated[str, AfterValidator(_read_host)], ...]
Folder = Annotated[str, AfterValidator(_read_folder)]
OwnAddress = Annotated[str, AfterValidator(_read_own_address)]
Headers = Annotated[Mapping[str, str], PlainValidator(_read_headers)]
