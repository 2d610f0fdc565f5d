"""What the records of the last days say, and how old the price list is."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import date

from addon.commands.doctor.report import Finding, note, ok
from addon.config_commands import Advice
from addon.counts import pluralize, pluralize_part
from addon.records.record import RequestRecord
from addon.records.tally import Tally
from addon.records.words import explain_passed, list_outgrown
from addon.skip_reasons import HELD
from masking.config import RequestFacts, Rule, Settings
from masking.prices import open_list


def check_passed(records: Sequence[RequestRecord], advice: Advice) -> Iterator[Finding]:
    """Yield why requests passed untouched, the commonest reason first."""
    tally = _count(records)
    for reason, count in tally.passed_through.most_common():
        why = explain_passed(tally, reason)
        says = f"{pluralize_part(count, len(records), 'request')} passed untouched: "
        if reason == HELD["unknown"] and why.change:
            # For a client that nobody has tried, one run is a safer try than a setting.
            risk = f"{says}{why.because}. If it is refused its WebSocket, {why.price}"
            yield note(risk, "obsmask run --force-http -- COMMAND")
        elif why.price:
            # What costs more than money is no fix to copy, only a sentence to read.
            says += why.explain(advice, shortens=tally.arrival.is_any)
            yield note(says, None if tally.arrival.is_any else "obsmask run --shorten -- COMMAND")
        else:
            change = advice.set(dict(why.change)) if why.change else None
            yield note(says + why.because, why.command or change)


def check_bound(records: Sequence[RequestRecord]) -> Iterator[Finding]:
    """Yield the models whose sessions must not go on without the proxy."""
    bound = Counter(
        (each.host, each.model)
        for each in records
        if each.bound in ("refuses", "may_refuse", "account") and each.masked
    )
    for host, model in bound:
        yield note(
            f"{host} refuses to continue a session with {model} without the proxy, once results of "
            "it were masked: end such a session first"
        )


def check_rules(
    rules: Sequence[tuple[Rule, object]], records: Sequence[RequestRecord]
) -> Iterator[Finding]:
    """Yield the rules that match no recorded request, whatever its headers: records have none."""
    facts = {(each.host, each.model, each.path, each.client) for each in records}
    for place, (rule, _) in enumerate(rules):
        known = replace(rule, headers=())
        if facts and not any(known.fits(RequestFacts(*each)) for each in facts):
            yield note(
                f"rules[{place}] matches none of the last {pluralize(len(records), 'request')}: "
                "check the hosts, models, paths and clients that it names",
                "obsmask status --by host",
            )


def check_windows(records: Sequence[RequestRecord]) -> Iterator[Finding]:
    """Yield how many conversations no longer fit their model without masking."""
    if outgrown := [*list_outgrown(_count(records))]:
        yield note("; ".join(outgrown))


def _count(records: Sequence[RequestRecord]) -> Tally:
    tally = Tally()
    for record in records:
        tally.add(record)
    return tally


# Prices

_OLD_DAYS = 90


def check_list(settings: Settings, today: date) -> Iterator[Finding]:
    """Yield the date of the price list, and its age. Raises ConfigError, OSError as `open_list`."""
    made = open_list(settings.price_list).date
    age = (today - date.fromisoformat(made)).days
    says = f"The price list is of {made}"
    if age > _OLD_DAYS:
        yield note(f"{says}, {age} days old", "obsmask prices --update FILE")
    else:
        yield ok(says)
