"""How a policy declares a setting: once, in the line of its field.

The line gives the name, the type, the default of the Python API, the default of the configuration
file where that is another one, the sentence that describes it, and what its value must be. The
tables of `masking.config` and the lists of `docs/` are made from it.
"""

import dataclasses
import inspect
import math
import textwrap
from collections.abc import Callable, Sequence
from typing import Any, TypeVar, cast

from masking.errors import ConfigError
from masking.patterns import check_globs

_Value = TypeVar("_Value")
_Class = TypeVar("_Class", bound=type[Any])

Check = Callable[[Any, str], object]
"""Takes a value and its path. Raises ConfigError, with the path, for one that cannot be meant."""


def setting(
    default: _Value,
    sentence: str,
    *,
    shipped: _Value | None = None,
    check: Check | None = None,
) -> _Value:
    """Declare a field of a dataclass as a setting.

    default: its value in Python. shipped: its value in the configuration file; None for the same.
    """
    about = {
        "description": sentence,  # pydantic takes this one
        "shipped": default if shipped is None else shipped,
        "check": check,
    }
    return dataclasses.field(default=default, metadata=about)


def check_settings(policy: object) -> None:
    """Raise ConfigError, with the name of the setting, for a value that cannot be meant."""
    for field in dataclasses.fields(cast(Any, policy)):
        if check := field.metadata.get("check"):
            check(getattr(policy, field.name), field.name)


def describes_settings(policy: _Class) -> _Class:
    """Add each setting's sentence to the docstring of a policy, as `help` shows it."""
    said = [
        textwrap.fill(f"{field.name}: {field.metadata['description']}", subsequent_indent=" " * 4)
        for field in dataclasses.fields(policy)
        if field.metadata
    ]
    policy.__doc__ = "\n\n".join((inspect.cleandoc(policy.__doc__ or ""), "\n".join(said)))
    return policy


# Checks


def from_zero(value: float, path: str) -> None:
    """Refuse what is negative, infinite, or no number (NaN)."""
    if not 0 <= value < math.inf:
        raise ConfigError("must be a number from 0 up", path)


def names(value: Sequence[str], path: str) -> None:
    """Refuse a text in place of a list, because its letters would be taken for names."""
    if isinstance(value, str):
        raise ConfigError("expected a list of names, got a text", path)


def globs(value: Sequence[str], path: str) -> None:
    """Refuse a text in place of a list, and a blank in one."""
    names(value, path)
    check_globs(value, path)
