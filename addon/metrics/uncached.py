"""Hosts that seem to sell no cached tokens: many requests in a row that should have had some."""

import json
from collections import Counter
from collections.abc import Iterable, Mapping

from addon.metrics.record_file import RecordFile
from masking.config_tables import MetricsSettings

MANY = 20
"""This many requests in a row are no accident."""

_LARGE = 2_000
"""The tokens that should have been cached; most providers require half as many at least."""


def count_uncached(count: int, record: Mapping[str, object]) -> int:
    """Return how many requests in a row had nothing from the cache, with this one.

    `record` has the fields of a request's record; `count` is for the requests before it. A
    provider that does not report cached tokens says nothing about its cache.
    """
    cached, predicted = record.get("cached_tokens"), record.get("predicted_cached_tokens")
    read = record.get("price_read_ratio")
    if not isinstance(cached, int) or not isinstance(predicted, int) or record.get("replay"):
        return count
    if cached:
        return 0
    is_priced = isinstance(read, int | float) and read < 1
    return count + (is_priced and predicted >= _LARGE)


def find_uncached(lines: Iterable[str]) -> list[str]:
    """Return the hosts that seem to sell no cached tokens, by the lines of a record file."""
    counts: Counter[str] = Counter()
    for line in lines:
        try:
            record = json.loads(line)
        except ValueError:  # cut off, as by a full disk
            continue
        if isinstance(record, dict) and isinstance(host := record.get("host"), str):
            counts[host] = count_uncached(counts[host], record)
    return [host for host, count in counts.items() if count >= MANY]


def read_uncached(settings: MetricsSettings) -> list[str]:
    """Return these hosts by the configured record file; none if there is no such file."""
    try:
        with RecordFile(settings).path.open(encoding="utf-8", errors="replace") as lines:
            return find_uncached(lines)
    except (OSError, RuntimeError):  # no records, or the home of no user
        return []


def render_uncached(host: str) -> str:
    """Return what to say about such a host, with the line to set."""
    name = json.dumps(host, ensure_ascii=False)
    return (
        f"{host} has reported no cached tokens on {MANY} requests in a row that should have had "
        "them. If it sells none, masking saves more with this line in "
        f"[observation_masking.hosts]: uncached = [{name}]"
    )
