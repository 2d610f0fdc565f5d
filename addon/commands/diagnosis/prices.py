"""Which prices hold for the hosts and models of the records, and how old the list is."""

from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import date

from addon.commands.diagnosis.finding import Finding, note, ok
from addon.metrics.advice import Advice
from addon.metrics.record import RequestRecord
from addon.metrics.uncached import find_uncached, render_uncached
from masking.config import Settings
from masking.prices import find_pricing, open_list

_OLD_DAYS = 90
_MOST_NAMED = 12


def check_list(settings: Settings, today: date) -> Iterator[Finding]:
    """Yield the date of the price list, and its age. Raises ConfigError, OSError as `open_list`."""
    made = open_list(settings.price_list).date
    age = (today - date.fromisoformat(made)).days
    says = f"The price list is of {made}"
    if age > _OLD_DAYS:
        yield note(f"{says}, {age} days old", "obsmask prices --update FILE")
    else:
        yield ok(says)


def check_prices(
    settings: Settings, records: Sequence[RequestRecord], advice: Advice
) -> Iterator[Finding]:
    """Yield where the prices of each host and model come from, the most asked ones first.

    Those that are assumed come with the command that sets others, except that a host which seems to
    sell no cached tokens has a finding of its own.
    """
    without_cache = {*find_uncached(records)}
    asked = Counter((each.host, each.model) for each in records if each.model)
    for (host, model), _ in asked.most_common(_MOST_NAMED):
        pricing = find_pricing(settings.price_settings, host, model)
        ratios = f"a cached token at {pricing.read:g}, a written one at {pricing.write:g}"
        if pricing.source == "assumed":
            source = "" if pricing.entry is None else f", as for {pricing.entry}"
            says = f"{model} at {host}: no price is known, assumed {ratios}{source}"
            own = {"host": host, "model": model, "read": pricing.read, "write": pricing.write}
            if host in without_cache:
                yield note(says)
            else:
                wrong = "If that is wrong, set your own, with other numbers"
                yield note(f"{says}. {wrong}", advice.add("prices", own))
        else:
            source = "your own price" if pricing.source == "config" else f"as {pricing.entry}"
            yield ok(f"{model} at {host}: {source}, {ratios}")
    if len(asked) > _MOST_NAMED:
        yield ok(
            f"{len(asked) - _MOST_NAMED} more models were asked for: obsmask prices HOST MODEL "
            "shows each"
        )


def check_uncached(
    settings: Settings, records: Sequence[RequestRecord], advice: Advice
) -> Iterator[Finding]:
    """Yield the hosts that seem to sell no cached tokens, unless the user has set their prices."""
    for host in find_uncached(records):
        if find_pricing(settings.price_settings, host, None).source == "config":
            continue
        says, _, mend = render_uncached(host, advice).rpartition(": ")
        yield note(says, mend)
