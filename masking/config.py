"""TOML to settings; every error names the key.

Only the tables under `[observation_masking]` are ours, and all of them are. A key that a file
leaves out has the shipped value (see `masking.config_tables`).
"""

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import tomli
from pydantic import ValidationError
from pydantic_core import to_json

from masking.config_mistakes import explain
from masking.config_tables import (
    HostSettings,
    MemorySettings,
    MetricsSettings,
    PageSettings,
    RecallSettings,
    RecordingSettings,
    Tables,
    WebsocketSettings,
)
from masking.config_types import Mode
from masking.errors import ConfigError, OverrideError
from masking.mcp import McpSettings
from masking.measures.price_settings import CachePricing, OwnPrice, OwnWindow, PriceSettings
from masking.overrides import ROOT, apply_overrides
from masking.redaction import RedactionPolicy
from masking.reduction import ReductionOptions
from masking.rules import RequestFacts, Rule, find_first
from masking.strategies.order import Strategies
from masking.strategies.policy import MaskPolicy

_SHIPPED = Tables()
_SCHEMA1, _REDACTION = _SHIPPED.schema1.to_policy(), _SHIPPED.redaction.to_policy()


@dataclass(frozen=True, kw_only=True)
class Settings:
    """All of our tables, and the path of the price list, unless it is the shipped one.

    What is left out has the shipped value. `rules` have the settings of the requests that they are
    for, and those have the rule's `label`, and no rules.
    """

    mode: Mode = _SHIPPED.mode
    holdout_percent: float = _SHIPPED.holdout_percent
    holdout_salt: str = _SHIPPED.holdout_salt
    schema1: MaskPolicy = _SCHEMA1
    cache_pricing: CachePricing = _SHIPPED.schema1.cache_pricing
    assumed_prices: tuple[float, float] = _SHIPPED.schema1.assumed_prices
    resend_on_400: bool = _SHIPPED.schema1.resend_on_400
    prices: tuple[OwnPrice, ...] = _SHIPPED.prices
    price_list: str = ""
    windows: tuple[OwnWindow, ...] = _SHIPPED.windows
    redaction: RedactionPolicy = _REDACTION
    reduction: ReductionOptions = _SHIPPED.reduction
    mcp: McpSettings = _SHIPPED.mcp
    memory: MemorySettings = _SHIPPED.memory
    recall: RecallSettings = _SHIPPED.recall
    metrics: MetricsSettings = _SHIPPED.metrics
    page: PageSettings = _SHIPPED.page
    recording: RecordingSettings = _SHIPPED.recording
    websocket: WebsocketSettings = _SHIPPED.websocket
    hosts: HostSettings = _SHIPPED.hosts
    label: str = ""
    rules: tuple[tuple[Rule, "Settings"], ...] = ()

    @property
    def every(self) -> tuple["Settings", ...]:
        """These settings, and those of the rules."""
        return (self, *(own for _, own in self.rules))

    @property
    def decide_some(self) -> bool:
        """Whether a strategy is on for any request, if only to be observed."""
        return any(one.strategies.change for one in self.every)

    @property
    def change_some(self) -> bool:
        """Whether any request can be changed."""
        return any(one.changes for one in self.every)

    @property
    def ruled_headers(self) -> frozenset[str]:
        """The names of the headers that rules ask for."""
        return frozenset(name for rule, _ in self.rules for name, _ in rule.headers)

    @property
    def changes(self) -> bool:
        """Whether a request can be changed at all: a strategy is on, and not only observed."""
        return self.strategies.change and self.mode == "on"

    @property
    def observes(self) -> bool:
        """Whether any conversation is observed only, here or by a rule."""
        return any(one.mode == "observe" or one.holdout_percent > 0 for one in self.every)

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
            windows=self.windows,
        )

    @cached_property
    def digest(self) -> str:
        """12 hex digits, the same for equal settings, whatever is kept where, and the page.

        Of the settings of one request: neither rules for others nor its label tell it apart.
        """
        unasked = replace(
            self,
            recall=_SHIPPED.recall,
            metrics=_SHIPPED.metrics,
            page=_SHIPPED.page,
            label="",
            rules=(),
        )
        told = to_json(unasked)
        return hashlib.blake2b(told, digest_size=6).hexdigest()


def find_settings(settings: Settings, facts: RequestFacts) -> Settings:
    """Return the settings that hold for a request: those of the first rule that fits, if any."""
    return find_first(settings.rules, facts, settings)


def change_everywhere(settings: Settings, change: Callable[[Settings], Settings]) -> Settings:
    """Return settings after a change, which their rules' settings have, too."""
    rules = tuple((rule, change(own)) for rule, own in settings.rules)
    return replace(change(settings), rules=rules)


def parse_settings(data: bytes, overrides: Sequence[str] = ()) -> Settings | None:
    """Read the settings of a TOML file; None if it has no table of ours.

    Overrides are `TABLE.KEY=VALUE`, as `schema1.window_turns=4`; they come before rules, too.
    Raises ConfigError with the key's full path for an unknown key, a wrong type or a bad value, and
    for a file that is not TOML; OverrideError if the file is right and an override is not.
    """
    parsed = _parse(data, overrides)
    if parsed is None:
        return None
    tables, by_rule = parsed
    rules = (table.to_rule() for table in tables.rules)
    ruled = tuple((rule, _make(own, rule.label)) for rule, own in zip(rules, by_rule, strict=True))
    return replace(_make(tables), rules=ruled)


def parse_tables(data: bytes, overrides: Sequence[str] = ()) -> Tables | None:
    """Read our tables from a TOML file. None, and what is raised, as with `parse_settings`."""
    parsed = _parse(data, overrides)
    return None if parsed is None else parsed.tables


_Table = Mapping[str, Any]
"""A table as TOML has it."""


class _Parsed(NamedTuple):
    """Our tables, and as they are for the requests of each rule."""

    tables: Tables
    by_rule: tuple[Tables, ...]


def _parse(data: bytes, overrides: Sequence[str]) -> _Parsed | None:
    document = read_document(data)
    if ROOT not in document:
        return None
    parsed = _read_rules(document[ROOT], ())
    return _override(document[ROOT], overrides) if overrides else parsed


def _make(tables: Tables, label: str = "") -> Settings:
    return Settings(
        mode=tables.mode,
        holdout_percent=tables.holdout_percent,
        holdout_salt=tables.holdout_salt,
        schema1=tables.schema1.to_policy(),
        cache_pricing=tables.schema1.cache_pricing,
        assumed_prices=tables.schema1.assumed_prices,
        resend_on_400=tables.schema1.resend_on_400,
        prices=tables.prices,
        windows=tables.windows,
        redaction=replace(
            tables.redaction.to_policy(),
            placeholder_arguments_chars=tables.schema1.placeholder_arguments_chars,
        ),
        reduction=tables.reduction,
        mcp=tables.mcp,
        memory=tables.memory,
        recall=tables.recall,
        metrics=tables.metrics,
        page=tables.page,
        recording=tables.recording,
        websocket=tables.websocket,
        hosts=tables.hosts,
        label=label,
    )


def read_document(data: bytes) -> Mapping[str, Any]:
    """Decode a TOML file, with a byte order mark or without. Raises ConfigError if it is none."""
    try:
        return tomli.loads(data.decode("utf-8-sig"))
    except UnicodeDecodeError:
        raise ConfigError("not UTF-8") from None
    except (ValueError, RecursionError) as error:  # too many digits, too deep, no TOML at all
        raise ConfigError(f"not TOML: {error}") from None


def _override(table: _Table, overrides: Sequence[str]) -> _Parsed:
    try:
        return _read_rules(table, overrides)
    except OverrideError:
        raise
    except ConfigError as error:  # the file alone is right
        raise OverrideError(error.problem, error.path.removeprefix(f"{ROOT}.")) from None


def _read_rules(table: _Table, overrides: Sequence[str]) -> _Parsed:
    """Read our table, and once more for each rule, with the rule's keys in place of the file's.

    The table is right by then, so a mistake that is found in it is the rule's.
    """
    whole = _apply(table, overrides)
    tables = _read_tables(whole, ROOT)
    by_rule = []
    for place, rule in enumerate(tables.rules):
        merged = {name: value for name, value in table.items() if name != "rules"}
        for name in rule.changes:
            value = whole["rules"][place][name]
            inside = {**merged.get(name, {}), **value} if isinstance(value, Mapping) else value
            merged[name] = inside
        by_rule.append(_read_tables(_apply(merged, overrides), f"{ROOT}.rules[{place}]"))
    return _Parsed(tables, tuple(by_rule))


def _apply(table: _Table, overrides: Sequence[str]) -> _Table:
    return apply_overrides(table, overrides) if overrides else table


def _read_tables(table: _Table, path: str) -> Tables:
    # As JSON: that has TOML's lists and tables for our tuples and dataclasses, while a boolean is
    # still no number. JSON has no dates; they become what no key takes.
    try:
        return Tables.model_validate_json(json.dumps(table, default=lambda _: {"": 0}))
    except ValidationError as error:
        raise explain(error.errors(include_url=False)[0], table, path) from None
