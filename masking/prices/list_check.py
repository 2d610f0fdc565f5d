"""What a price list from outside must look like; the first mistake is an error with its place.

A list has regular expressions, and `re` holds the interpreter while it matches one, so `(a+)+$`
alone could stop the proxy for good. An engine without backtracking (RE2) has no look-ahead, which
genai-prices uses. So no group may be repeated, and only a few parts of a pattern may match in more
than one way. A name that is looked up has 256 characters at most. That holds a pattern which was
written in good faith below a tenth of a second; a user who installs a list trusts its maker for
the rest.
"""

import re
import warnings
from datetime import date
from typing import Annotated, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    PrivateAttr,
    ValidationError,
    model_validator,
)

from masking.errors import ConfigError

MAX_PRICE = 1e6

MAX_TEXT = 200
"""The most characters of a name, an id or a pattern."""

_MAX_DEPTH = 8
"""How many clauses may stand in each other."""

_MAX_REPEATS = 2
_MAX_CHOICES = 12
"""How many parts of a pattern may come any number of times, and how many are optional or groups.
Of the shipped patterns none has more than one, and six."""


def check_list(document: object) -> None:
    """Check a list in our own form. Raises ConfigError with the place of the first mistake."""
    try:
        _List.model_validate(document)
    except ValidationError as error:
        mistake = error.errors(include_url=False)[0]
    else:
        return
    path = "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in mistake["loc"])
    path = path.removeprefix(".") or "list"
    inner = mistake.get("ctx", {}).get("error")
    if isinstance(inner, ConfigError):
        raise ConfigError(inner.problem, path + inner.path)
    found = mistake["input"]
    got = "nothing" if found is None or mistake["type"] == "missing" else type(found).__name__
    raise ConfigError(f"expected {_EXPECTED[mistake['type']]}, got {got}", path)


_EXPECTED = {
    "recursion_depth_exceeded": "JSON that is less deep",
    "missing": "a value",
    "string_type": "str",
    "model_type": "dict",
    "list_type": "list",
    "tuple_type": "[tokens, price]",
    "too_long": "[tokens, price]",
    **dict.fromkeys(("int_type", "int_from_float", "greater_than"), "a whole number above 0"),
    **dict.fromkeys(
        ("float_type", "greater_than_equal", "less_than"),
        f"a number from 0 up and below {MAX_PRICE:g}",
    ),
}
"""What was expected, by pydantic's name for the mistake."""


def _check_date(text: str) -> str:
    try:
        is_date = date.fromisoformat(text).isoformat() == text
    except ValueError:
        is_date = False
    if not is_date:
        raise ConfigError("expected a date, as 2026-01-31")
    return text


def _check_name(text: str) -> str:
    """Check what may be printed: control characters would steer a terminal."""
    if not text.isprintable() or len(text) > MAX_TEXT:
        raise ConfigError(f"expected at most {MAX_TEXT} characters that can be printed")
    return text


def _check_steps(steps: list[tuple[int, float]]) -> list[tuple[int, float]]:
    above = 0
    for number, (tokens, _) in enumerate(steps):
        if tokens <= above:
            raise ConfigError("expected more tokens than at the step before", f"[{number}]")
        above = tokens
    return steps


_CHARACTER = re.compile(r"\\\D|\[(?:\\.|[^\]\\])+\]")
_SYNTAX = re.compile(
    r"(?:[^][(){}?*+|^$\\](?:[*+?]|\{\d+(?:,\d*)?\})?|\((?:\?[:!=])?|\)\??|[|^$])*"
)
"""Characters, each of which may come several times; brackets, bars, and ends of the text. A group
may be optional, and comes no more than once."""


def _check_pattern(pattern: str) -> str:
    if len(pattern) > MAX_TEXT:
        raise ConfigError(f"expected a pattern of at most {MAX_TEXT} characters")
    try:
        with warnings.catch_warnings(action="error"):
            re.compile(pattern)
    except (re.error, RecursionError, OverflowError, Warning):
        raise ConfigError("not a regular expression") from None
    # Escaped characters and classes are as any other character.
    plain = _CHARACTER.sub(lambda found: "x" * len(found[0]), pattern)
    if rest := pattern[len(_SYNTAX.findall(plain)[0]) :]:
        simple = "characters and classes, repeated or not, and groups that come at most once"
        raise ConfigError(f"expected a pattern of {simple}, not {rest[:8]!a} in it")
    repeats = len(re.findall(r"[*+]|,\d*\}", plain))
    choices = len(re.findall(r"\((?!\?)|\?", plain))
    if repeats > _MAX_REPEATS or choices > _MAX_CHOICES:
        raise ConfigError("a pattern that may take too long to match")
    return pattern


_Name = Annotated[str, AfterValidator(_check_name)]
_Pattern = Annotated[str, AfterValidator(_check_pattern)]
_Dollars = Annotated[float, Field(ge=0, lt=MAX_PRICE)]
_Step = Annotated[tuple[int, _Dollars], Field(strict=False)]
_Steps = Annotated[list[_Step], AfterValidator(_check_steps)]


class _Part(BaseModel):
    """A part of a list. What it need not have is left out, and never null."""

    model_config = ConfigDict(strict=True, defer_build=True)


class _Clause(_Part):
    """What names match, by one key."""

    model_config = ConfigDict(extra="allow")

    equals: str = ""
    starts_with: str = ""
    ends_with: str = ""
    contains: str = ""
    regex: _Pattern = ""
    any_of: list["_Clause"] = Field([], alias="or")
    all_of: list["_Clause"] = Field([], alias="and")
    _depth: int = PrivateAttr(0)

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.model_extra or len(self.model_fields_set) != 1:
            names = (field.alias or name for name, field in _Clause.model_fields.items())
            raise ConfigError(f"expected one of {', '.join(names)}")
        inner = (clause._depth + 1 for clause in (*self.any_of, *self.all_of))
        self._depth = max(inner, default=0)
        if self._depth > _MAX_DEPTH:
            raise ConfigError(f"expected at most {_MAX_DEPTH} clauses in each other")
        return self


class _Model(_Part):
    id: _Name
    match: _Clause
    input: _Dollars = 0
    cache_read: _Dollars = 0
    cache_write: _Dollars = 0
    output: _Dollars = 0
    window: Annotated[int, Field(gt=0)] = 1
    steps: _Steps = []
    output_steps: _Steps = []


class _Provider(_Part):
    id: _Name
    name: _Name
    api_pattern: _Pattern
    model_match: _Clause = Field(default_factory=_Clause.model_construct)
    fallback_model_providers: list[_Name] = []
    models: list[_Model]


class _List(_Part):
    date: Annotated[str, AfterValidator(_check_date)]
    source: _Name
    providers: list[_Provider]
