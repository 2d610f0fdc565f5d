"""Patterns of names in the configuration: globs, and patterns of host names.

In a glob `*` matches anything, `?` one character, `[abc]` one of these, and case counts. The
regular expression that `fnmatch` makes of it, and keeps, never backtracks into an earlier `*`, so
the time grows no faster than the length of the text times that of the glob.

In the pattern of a host name `*` matches anything. A name that is not ASCII is compared in the form
in which browsers look it up (`xn--...`, UTS 46).
"""

import re
from collections.abc import Sequence
from fnmatch import fnmatchcase

import idna

from masking.errors import ConfigError


def check_globs(globs: Sequence[str], path: str) -> None:
    """Raise ConfigError for a blank glob, which can only be a mistake."""
    for place, glob in enumerate(globs):
        if not glob.strip():
            raise ConfigError("expected a name or a pattern, got a blank", f"{path}[{place}]")


def matches(text: str, globs: Sequence[str]) -> bool:
    """Whether a text as a whole matches one of these globs."""
    return any(fnmatchcase(text, glob) for glob in globs)


_HOST_PATTERN = re.compile(r"[^\s/:?\[\]]+|[0-9a-f:.*]*:[0-9a-f:.*]*:[0-9a-f:.*]*", re.IGNORECASE)
"""A name or an address, with or without `*`. More than one colon makes it an IPv6 address."""

_MAX_CHARS = 253
"""The longest name that a host can have (RFC 1035, 2.3.4)."""


def check_host(pattern: str, path: str) -> None:
    """Raise ConfigError for what cannot be a host name: an empty text, a URL, a port."""
    if not _HOST_PATTERN.fullmatch(pattern):
        raise ConfigError("expected a host name without scheme, port or path", path)
    labels = pattern.split(".")
    if any("*" in label and not label.isascii() for label in labels):
        raise ConfigError("* cannot stand beside other letters than ASCII; write xn--...", path)
    try:
        _encode(pattern)
    except idna.IDNAError:
        raise ConfigError("no host can have such a name", path) from None


def normalize_host(name: str) -> str:
    """Return a host name, or a pattern, in the form in which names are compared.

    What cannot be a host name is only put in lower case.
    """
    if name.isascii() or len(name) > _MAX_CHARS:
        return name.lower().rstrip(".")
    try:
        return _encode(name)
    except idna.IDNAError:
        return name.lower().rstrip(".")


def is_named(host: str, patterns: tuple[str, ...]) -> bool:
    """Whether a host name matches one of these normalized patterns."""
    return matches(normalize_host(host), patterns)


def _encode(name: str) -> str:
    labels = idna.uts46_remap(name, std3_rules=False, transitional=False).rstrip(".").split(".")
    return ".".join(each if each.isascii() else idna.alabel(each).decode() for each in labels)
