"""What the records say of requests that passed, and of sessions that must not change sides."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace

from addon.commands.diagnosis.finding import Finding, note
from addon.metrics.held import HELD
from addon.metrics.record import RequestRecord
from addon.metrics.tally import Tally
from addon.metrics.tally_line import explain_passed, list_outgrown
from addon.replay.numbers import pluralize
from masking.config import RequestFacts, Rule


def check_passed(records: Sequence[RequestRecord]) -> Iterator[Finding]:
    """Yield why requests passed untouched, the commonest reason first."""
    tally = _count(records)
    for reason, count in tally.passed_through.most_common():
        why = explain_passed(tally, reason)
        # For a client that nobody has tried, one run is a safer try than a setting.
        is_try = reason == HELD["unknown"] and why.setting is not None
        yield note(
            f"{count} of {len(records)} requests passed untouched: {why.because}",
            "obsmask run --client-changes -- COMMAND" if is_try else why.setting,
        )


def check_bound(records: Sequence[RequestRecord]) -> Iterator[Finding]:
    """Yield the models whose sessions must not go on without the proxy."""
    bound = Counter(
        (each.host, each.model) for each in records if each.binding == "refuses" and each.masked
    )
    for host, model in bound:
        yield note(
            f"{host} refuses a session with {model} whose earlier results were masked once they "
            "are sent whole: end such a session before you go on without the proxy"
        )


def check_rules(
    rules: Sequence[tuple[Rule, object]], records: Sequence[RequestRecord]
) -> Iterator[Finding]:
    """Yield the rules that fit no request in the records, which do not tell its headers."""
    facts = {(each.host, each.model, each.path, each.client) for each in records}
    for place, (rule, _) in enumerate(rules):
        known = replace(rule, headers=())
        if facts and not any(known.fits(RequestFacts(*each)) for each in facts):
            yield note(
                f"rules[{place}] fits none of the last {pluralize(len(records), 'request')}: see "
                "the hosts, models, paths and clients that they name",
                "obsmask status --by host",
            )


def check_windows(records: Sequence[RequestRecord]) -> Iterator[Finding]:
    """Yield how many conversations no longer fit their model without masking."""
    if told := [*list_outgrown(_count(records))]:
        yield note("; ".join(told))


def _count(records: Sequence[RequestRecord]) -> Tally:
    tally = Tally()
    for record in records:
        tally.add(record)
    return tally
