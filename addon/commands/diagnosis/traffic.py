"""What the records say of requests that passed, and of sessions that must not change sides."""

from collections import Counter
from collections.abc import Iterator, Sequence

from addon.commands.diagnosis.finding import Finding, note
from addon.metrics.record import RequestRecord
from addon.metrics.tally_line import PASSED


def check_passed(records: Sequence[RequestRecord]) -> Iterator[Finding]:
    """Yield why requests passed untouched, the commonest reason first."""
    passed = Counter(each.passed_through for each in records if each.passed_through)
    for reason, count in passed.most_common():
        known = PASSED.get(reason)
        yield note(
            f"{count} of {len(records)} requests passed untouched: "
            f"{reason if known is None else known.because}",
            None if known is None else "obsmask run --client-changes -- COMMAND",
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
