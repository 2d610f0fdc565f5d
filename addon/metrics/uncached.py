"""Hosts that seem to sell no cached tokens: many requests in a row that should have had some."""

from collections import Counter
from collections.abc import Iterable

from addon.metrics.advice import Advice
from addon.metrics.record import RequestRecord
from addon.metrics.record_file import RecordFile
from addon.metrics.record_reader import read_records
from masking.config import MetricsSettings

MANY = 20
"""This many requests in a row are no accident."""

_LARGE = 2_000
"""The tokens that should have been cached; most providers require half as many at least."""


def count_uncached(count: int, record: RequestRecord) -> int:
    """Return how many requests in a row had nothing from the cache, with this one.

    `count` is for the requests before it. A provider that does not report cached tokens says
    nothing about its cache.
    """
    if record.cached_tokens is None or record.predicted_cached_tokens is None or record.replay:
        return count
    if record.cached_tokens:
        return 0
    is_priced = record.price_read_ratio is not None and record.price_read_ratio < 1
    return count + (is_priced and record.predicted_cached_tokens >= _LARGE)


def find_uncached(records: Iterable[RequestRecord]) -> list[str]:
    """Return the hosts that seem to sell no cached tokens, by records from the oldest on."""
    counts: Counter[str] = Counter()
    for record in records:
        counts[record.host] = count_uncached(counts[record.host], record)
    return [host for host, count in counts.items() if count >= MANY]


def read_uncached(settings: MetricsSettings) -> list[str]:
    """Return these hosts by the configured record file; none if it cannot be read."""
    try:
        return find_uncached(read_records(RecordFile(settings).path))
    except (OSError, ValueError, RuntimeError):  # no permission, no such name, the home of no user
        return []


def render_uncached(host: str, advice: Advice) -> str:
    """Return what to say about such a host, and after a colon what to do."""
    return (
        f"{host} has reported no cached tokens on {MANY} requests in a row that should have had "
        "them. If it sells none, masking saves more once the configuration says so: "
        f"{advice.add('hosts.uncached', host)}"
    )
