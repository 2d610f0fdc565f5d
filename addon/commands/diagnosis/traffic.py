"""What the records say of requests that passed, and of sessions that must not change sides."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from addon.commands.diagnosis.finding import Finding, note
from addon.metrics.record import RequestRecord

_MENDS: Mapping[str, str] = {
    "signed (cch)": "obsmask run --client-changes -- claude",
    'the provider holds the history (websocket.mode = "pass")': (
        "obsmask run --client-changes -- codex"
    ),
}
"""What changes the reason for which a request passed, where that is in the user's hands."""


def check_passed(records: Sequence[RequestRecord]) -> Iterator[Finding]:
    """Yield why requests passed untouched, the commonest reason first."""
    passed = Counter(each.passed_through for each in records if each.passed_through)
    for reason, count in passed.most_common():
        yield note(
            f"{count} of {len(records)} requests passed untouched: {reason}", _MENDS.get(reason)
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
