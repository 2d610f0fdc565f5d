"""Spells counters as Prometheus reads them, by its own library."""

from collections.abc import Iterator

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString

from addon.dashboard.counters import CounterOf, Counters, HistogramOf


def expose(counters: Counters, accept: str) -> tuple[bytes, str]:
    """Return all metrics in the format that a scraper accepts, and the format's content type."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Collector(counters))
    encode, kind = choose_encoder(accept)
    with counters.lock:
        return encode(registry), kind


class _Collector(Collector):
    def __init__(self, counters: Counters) -> None:
        self._counters = counters

    def collect(self) -> Iterator[Metric]:
        for metric in self._counters.list_metrics():
            yield _spell(metric)

    def describe(self) -> Iterator[Metric]:
        return iter(())


def _spell(metric: CounterOf | HistogramOf) -> Metric:
    if isinstance(metric, CounterOf):
        counter = CounterMetricFamily(metric.name, metric.meaning, labels=metric.labels)
        for labels, total in metric.sums.items():
            counter.add_metric(labels, total)
        return counter
    histogram = HistogramMetricFamily(metric.name, metric.meaning, labels=metric.labels)
    for labels, counts in metric.counts.items():
        histogram.add_metric(labels, _accumulate(metric, counts), metric.sums[labels])
    return histogram


def _accumulate(metric: HistogramOf, counts: list[int]) -> list[tuple[str, float]]:
    """Return for each bound how many values are not above it."""
    bounds = (*map(floatToGoString, metric.bounds), "+Inf")
    totals, total = [], 0
    for bound, count in zip(bounds, counts, strict=True):
        total += count
        totals.append((bound, float(total)))
    return totals
