"""Patterns of host names in the configuration: `*` matches anything."""

import re
from fnmatch import fnmatchcase

from masking.errors import ConfigError

_HOST_PATTERN = re.compile(r"[^\s/:?\[\]]+|[0-9a-f:.*]*:[0-9a-f:.*]*:[0-9a-f:.*]*", re.IGNORECASE)
"""A name or an address, with or without `*`. More than one colon makes it an IPv6 address."""


def check_host(pattern: str, path: str) -> None:
    """Raise ConfigError for what cannot be a host: an empty name, a URL, a port."""
    if not _HOST_PATTERN.fullmatch(pattern):
        raise ConfigError("expected a host name without scheme, port or path", path)


def normalize_host(name: str) -> str:
    """Return a host's name, or a pattern, in the form in which names are compared."""
    return name.lower().rstrip(".")


def is_named(host: str, patterns: tuple[str, ...]) -> bool:
    """Whether a host's name matches one of these patterns, which are normalized."""
    return any(fnmatchcase(normalize_host(host), pattern) for pattern in patterns)
