"""How a report came about: when, from which recordings, under which settings and prices."""

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from typing import NamedTuple

from addon.replay.pauses import Pause
from addon.replay.replay import ReplaySettings
from addon.replay.totals import BilledPrice, Totals
from masking.window import MaskPolicy

_SETTINGS = [field.name for field in fields(MaskPolicy)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """When a report was made, by which version, of which `sources`: files and folders."""

    created: datetime
    version: str
    sources: tuple[str, ...]
    settings: ReplaySettings
    pause: Pause | None = None

    @property
    def date(self) -> str:
        """When it was made: `1 June 2026, 12:00 UTC`."""
        return f"{self.created.day} {self.created:%B %Y, %H:%M %Z}"

    def list_settings(self) -> list[tuple[str, str]]:
        """Return the settings of the replay, by the names that files and options give them."""
        policy, settings = self.settings.policy, self.settings
        known: dict[str, object] = {name: getattr(policy, name) for name in _SETTINGS}
        known["cache_pricing"] = settings.price_settings.cache_pricing
        known["redaction.enabled"] = settings.redaction.redacts
        known["reduction.enabled"] = settings.reduction.reduces
        known["memory.enabled"] = settings.remembers
        known["--model"] = settings.model
        known["--cache-ttl"] = settings.ttl
        known["--pause"] = self.pause
        return [(name, _spell(value)) for name, value in known.items() if value is not None]


def _spell(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


class PriceRow(NamedTuple):
    """What was billed for a model: prices of cached and written tokens, and where they are from."""

    model: str
    read: str
    write: str
    source: str
    requests: int


def list_prices(totals: Totals) -> Sequence[PriceRow]:
    """Return the prices of all requests, the commonest first."""
    counts: Counter[tuple[str, float, float, str]] = Counter()
    for price, requests in totals.prices:
        shown = (price.model or "unknown", price.read, price.write, _describe_source(price))
        counts[shown] += requests
    return [
        PriceRow(model, f"{read:.3g}", f"{write:.3g}", source, requests)
        for (model, read, write, source), requests in counts.most_common()
    ]


def _describe_source(price: BilledPrice) -> str:
    names = {"config": "given", "price list": "price list", "assumed": "assumed"}
    entry = f", {price.entry}" if price.entry and price.source != "config" else ""
    return names[price.source] + entry
