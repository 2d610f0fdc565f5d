"""By which software a record was made: its version, its settings, its prices."""

import functools
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from typing import NamedTuple

from masking.config import Settings
from masking.errors import ConfigError
from masking.prices import open_list

RECORD_SCHEMA = 2
"""The version of a record's fields. Records without it are of version 1, which lacks the fields of
this module, `price_entry` and `net_unpriced`."""


_MOST_DESCRIBED = 16
"""More settings than these are hardly in force at a time: those of the file, and of its rules."""


class _Described(NamedTuple):
    settings: Settings
    fields: Mapping[str, object]


_described: dict[int, _Described] = {}


def describe_software(settings: Settings) -> Mapping[str, object]:
    """Return the fields of a record that say by which software it was made."""
    # By identity: a digest of all settings, or only their hash, takes longer than the record.
    found = _described.get(id(settings))
    if found is None or found.settings is not settings:
        if len(_described) >= _MOST_DESCRIBED:
            _described.clear()
        found = _described[id(settings)] = _Described(settings, _describe(settings))
    return found.fields


def _describe(settings: Settings) -> Mapping[str, object]:
    return {
        "record_schema": RECORD_SCHEMA,
        "software_version": find_version(),
        "config_digest": settings.digest,
        "price_list_date": _find_date(settings.price_list),
    }


@functools.cache
def find_version() -> str:
    """Return the version of this software."""
    try:
        return version("observation-masking")
    except PackageNotFoundError:  # the same modules without the proxy
        return version("observation-masking-core")


def _find_date(price_list: str) -> str | None:
    try:
        return open_list(price_list).date
    except (OSError, ConfigError):  # removed since the start
        return None
