"""What must hold after a soak: every request has one record, and everything adds up."""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from addon.records.record import RequestRecord
from tests.tools.soak.client import Clients
from tests.tools.soak.samples import Sample

MOST_MEGABYTES = 400
"""What a proxy may be. It remembers 64 MB of requests and 16 to 64 MB of what waits, and the
vocabulary and Python itself come to 130."""

_TOTAL = re.compile(r"(?m)^\[[^\]]*\] ([\d,]+) requests?: ")


class Outcome(NamedTuple):
    """A soak that has come to its end: its samples, the files of its records, the proxies' logs."""

    clients: Clients
    samples: Sequence[Sample]
    files: Sequence[Path]
    logs: Sequence[str]


def find_faults(outcome: Outcome) -> Iterator[str]:
    """Yield what does not hold, a sentence each."""
    clients, provider = outcome.clients, outcome.clients.provider
    for name, number in provider.faults.items():
        yield f"{number} {name}"
    yield from _compare("requests that arrived", clients.sent, provider.taken)
    yield from _find_faulty_records(outcome)
    told = [int(total.replace(",", "")) for log in outcome.logs for total in _TOTAL.findall(log)]
    yield from _compare("requests in the totals of both proxies", clients.sent, sum(told))
    yield from _compare(
        "tracebacks in the logs", 0, sum("Traceback" in log for log in outcome.logs)
    )
    if len(outcome.files) < 2:
        yield "the file of records was never rotated"
    largest = max((size for sample in outcome.samples for size in sample.megabytes), default=0.0)
    if largest > MOST_MEGABYTES:
        yield f"a proxy grew to {largest:.0f} MB"


def _find_faulty_records(outcome: Outcome) -> Iterator[str]:
    clients, provider = outcome.clients, outcome.clients.provider
    lines = [line for file in outcome.files for line in file.read_bytes().splitlines(True)]
    try:
        records = [RequestRecord.model_validate_json(line) for line in lines]
    except ValueError:
        yield "a record cannot be read"
        return
    yield from _compare("lines without an end", 0, sum(line[-1:] != b"\n" for line in lines))
    yield from _compare("records", clients.sent, len(records))
    yield from _compare("runs", 2, len({record.run for record in records}))
    answers = Counter("left" if r.error == "client left" else r.status for r in records)
    yield from _compare("answers, by status", dict(clients.answers), dict(answers))
    whole = [record for record in records if record.status == 200 and record.error is None]
    prompts = sum(record.prompt_tokens or 0 for record in whole)
    yield from _compare("tokens of all prompts", provider.prompt_tokens, prompts)
    sizes = sum(record.bytes_after or 0 for record in records)
    yield from _compare("bytes that were sent", provider.taken_bytes, sizes)
    untouched = Counter(r.passed_through for r in records if r.passed_through is not None)
    yield from _compare("requests that passed untouched, by why", {}, dict(untouched))
    if not any(record.masked for record in records):
        yield "nothing was masked"


def _compare(what: str, expected: object, actual: object) -> Iterator[str]:
    if expected != actual:
        yield f"{what}: {actual} instead of {expected}"
