"""What Prometheus scrapes, counted since the start by its own library.

The names are those of OpenTelemetry's conventions for generative AI where they have one.
"""

import threading
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from addon.records.record import REPLACED, RequestRecord
from addon.records.tally import as_sent, read_bill, read_saved_at_arrival
from addon.request import one_line

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

Labels = tuple[str, ...]

_NAMED = ("host", "model", "client", "label")

_MAX_COMBINATIONS = 1_000
"""Of these; a later one has `other` for each of them. A start of the proxy begins anew."""

_TOKEN_USAGE = (
    *("gen_ai_operation_name", "gen_ai_token_type", "gen_ai_request_model"),
    "server_address",
)
_TOKEN_BOUNDS = tuple(float(4**n) for n in range(14))
"""The bounds that the conventions recommend for `gen_ai.client.token.usage`."""

_SECOND_BOUNDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)
_WAIT_BOUNDS = (0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 20.0, 40.0, 80.0)

_OWN = "observation_masking"

_TOKENS = "gen_ai_client_token_usage"
_HOOK = f"{_OWN}_hook_seconds"
_FIRST_CHUNK = f"{_OWN}_first_chunk_seconds"


_COUNTERS: dict[str, tuple[str, Labels]] = {
    "requests": (
        "Requests by what became of them: masked (or shortened), unchanged, observed, passed, "
        "failed.",
        (*_NAMED, "outcome"),
    ),
    "tool_results": (
        "Tool results in all requests that they were sent in, by what became of them.",
        ("reason",),
    ),
    "prompt_tokens": (
        "Estimated tokens of prompts: sent, and not sent as masking took them out.",
        (*_NAMED, "state"),
    ),
    "cached_tokens": ("Prompt tokens that providers read from a cache.", _NAMED),
    "cost_dollars": (
        "What prompts cost in US dollars: sent, and unmasked as is estimated.",
        (*_NAMED, "state"),
    ),
    "cost_input_tokens": (
        "What prompts cost in plain input tokens: sent, and unmasked as is estimated.",
        (*_NAMED, "state"),
    ),
    "prompt_part_tokens": (
        "Estimated tokens of prompts that were sent, by the part of the prompt.",
        ("part",),
    ),
    "boundary_moves": ("Requests at which more was masked than before.", _NAMED),
    "rereads": ("Tool calls that repeated one whose result was masked.", _NAMED),
    "shortened_results": (
        "Tool results that were sent shortened, in all requests that they were sent in.",
        _NAMED,
    ),
    "left_out_tokens": (
        "Estimated tokens that were left out of shortened tool results; not sent, either.",
        _NAMED,
    ),
    "arrival_saved_dollars": (
        "What shortening tool results when they arrived saved in US dollars, as is estimated.",
        _NAMED,
    ),
    "arrival_saved_input_tokens": (
        "What shortening tool results when they arrived saved in plain input tokens.",
        _NAMED,
    ),
    "arrival_rereads": ("Tool calls that repeated one whose result was shortened.", _NAMED),
    "arrival_quotes": ("Tool calls that quoted what was left out at arrival.", _NAMED),
    "requests_fitting_only_masked": (
        "Requests that fitted their model's window only because they were masked.",
        _NAMED,
    ),
    "requests_resent": (
        "Requests sent once more as the agent wrote them, after a 400: accepted, refused.",
        (*_NAMED, "answer"),
    ),
}
"""What each counts, and by which labels; the names are without what they all begin with."""

_QUOTA = ("account", "window")

_GAUGES: dict[str, tuple[str, Labels]] = {
    "quota_used_ratio": (
        "The part of a window of a plan's quota that was used, as an answer told it last.",
        _QUOTA,
    ),
    "quota_resets_timestamp_seconds": ("When that window begins anew.", _QUOTA),
}

_HISTOGRAMS: dict[str, tuple[str, Labels, Sequence[float]]] = {
    _TOKENS: (
        "Tokens of a request and of its answer, as the provider counted them.",
        _TOKEN_USAGE,
        _TOKEN_BOUNDS,
    ),
    _HOOK: ("How long a request waited for the addon.", (), _SECOND_BOUNDS),
    _FIRST_CHUNK: (
        "From the arrival of a request to the first piece of a streamed answer.",
        ("host",),
        _WAIT_BOUNDS,
    ),
}


_MAX_VALUES = 50
_OTHER = "other"


class LabelValues:
    """Lets the first values of a label through, whatever names requests bring; then `other`."""

    def __init__(self, max_values: int = _MAX_VALUES) -> None:
        self._max_values = max_values
        self._known: set[str] = set()

    def take(self, value: str | None) -> str:
        """Return the value to use; an empty one for None."""
        if not value:
            return ""
        shown = one_line(value)
        if shown not in self._known:
            if len(self._known) >= self._max_values:
                return _OTHER
            self._known.add(shown)
        return shown


class _Metrics(NamedTuple):
    """The library's metrics, by the names above."""

    registry: "CollectorRegistry"
    counters: "Mapping[str, Counter]"
    gauges: "Mapping[str, Gauge]"
    histograms: "Mapping[str, Histogram]"


def _make_metrics() -> _Metrics:
    from prometheus_client import (
        CollectorRegistry,
        Counter,
        Gauge,
        Histogram,
        disable_created_metrics,
    )

    # Else each has a series more, of when it began.
    disable_created_metrics()  # type: ignore[no-untyped-call]
    registry = CollectorRegistry()
    return _Metrics(
        registry,
        {
            name: Counter(f"{_OWN}_{name}", meaning, labels, registry=registry)
            for name, (meaning, labels) in _COUNTERS.items()
        },
        {
            name: Gauge(f"{_OWN}_{name}", meaning, labels, registry=registry)
            for name, (meaning, labels) in _GAUGES.items()
        },
        {
            name: Histogram(name, meaning, labels, registry=registry, buckets=bounds)
            for name, (meaning, labels, bounds) in _HISTOGRAMS.items()
        },
    )


class Counters:
    """Counts each record. It is fed in one thread and read in another, which holds `lock`."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self._metrics: _Metrics | None = None
        self._quota_values = tuple(LabelValues() for _ in _QUOTA)
        self._values = tuple(LabelValues() for _ in _NAMED)
        self._combinations: set[Labels] = set()
        self._series: dict[tuple[str, Labels], Counter] = {}

    @property
    def metrics(self) -> _Metrics:
        """The metrics, under `lock`. The library is loaded at the first use, not at the start."""
        if self._metrics is None:
            self._metrics = _make_metrics()
        return self._metrics

    def add(self, record: RequestRecord) -> None:
        """Count a request that has ended, as it was sent; not those of a recording."""
        if record.replay:
            return
        with self.lock:
            self._add(find_outcome(record), as_sent(record))

    def _add(self, outcome: str, record: RequestRecord) -> None:
        _, counters, gauges, histograms = self.metrics
        named = self._name(record)
        host, model, *_ = named

        def count(name: str, amount: float, *labels: str) -> None:
            if amount > 0:
                # The library takes longer to find a series than to count in it.
                series = self._series.get((name, labels))
                if series is None:
                    series = self._series[name, labels] = counters[name].labels(*labels)
                series.inc(amount)

        def observe(name: str, value: float | None, *labels: str) -> None:
            if value is not None and value >= 0:
                histogram = histograms[name]
                (histogram.labels(*labels) if labels else histogram).observe(value)

        count("requests", 1, *named, outcome)
        count("requests_resent", record.resent is not None, *named, record.resent or "")
        changed = {name: getattr(record, name) or 0 for name in REPLACED}
        for reason, results in {**changed, **(record.kept or {})}.items():
            count("tool_results", results, reason)
        count("boundary_moves", record.boundary_moved, *named)
        count("rereads", record.rereads, *named)
        count("shortened_results", record.shortened, *named)
        count("arrival_rereads", record.arrival_rereads, *named)
        count("arrival_quotes", record.arrival_quotes, *named)
        fits_only_masked = record.masking == "on" and record.fits_unmasked is False
        count("requests_fitting_only_masked", fits_only_masked, *named)

        if record.purpose != "count":  # which sends no tokens to a model
            before, after = record.request_tokens_before or 0, record.request_tokens_after or 0
            count("prompt_tokens", after, *named, "sent")
            count("prompt_tokens", before - after, *named, "not_sent")
            count("left_out_tokens", record.left_out_tokens, *named)
            count("cached_tokens", record.cached_tokens or 0, *named)
            for part, size in (record.composition or {}).items():
                count("prompt_part_tokens", size, part)
            observe(_TOKENS, record.prompt_tokens, "chat", "input", model, host)
            observe(_TOKENS, record.completion_tokens, "chat", "output", model, host)

        bill, at_arrival = read_bill(record), read_saved_at_arrival(record)
        for unit, money, left_out in (
            ("dollars", bill.dollars, at_arrival.dollars),
            ("input_tokens", bill.tokens, at_arrival.tokens),
        ):
            count(f"cost_{unit}", money.before, *named, "unmasked")
            count(f"cost_{unit}", money.after, *named, "sent")
            count(f"arrival_saved_{unit}", left_out.saved, *named)

        observe(_HOOK, None if record.hook_us is None else record.hook_us / 1e6)
        observe(_FIRST_CHUNK, record.first_chunk_seconds, host)

        for window in record.quota or ():
            told = record.quota_account, window.name
            labels = tuple(v.take(each) for v, each in zip(self._quota_values, told, strict=True))
            gauges["quota_used_ratio"].labels(*labels).set(window.used)
            if window.resets is not None:
                gauges["quota_resets_timestamp_seconds"].labels(*labels).set(window.resets)

    def _name(self, record: RequestRecord) -> Labels:
        """Return the values of `_NAMED`: few of each, and few combinations."""
        given = (record.host, record.model, record.client, record.label)
        named = tuple(values.take(value) for values, value in zip(self._values, given, strict=True))
        if named not in self._combinations and len(self._combinations) >= _MAX_COMBINATIONS:
            return (_OTHER,) * len(named)
        self._combinations.add(named)
        return named


def find_outcome(record: RequestRecord) -> str:
    """Return in a word what became of a request."""
    if record.failed:
        return "failed"
    if record.passed_through is not None:
        return "passed"
    if record.masking == "observed":
        return "observed"
    return "masked" if record.replaced or record.shortened else "unchanged"


def expose(counters: Counters, accept: str) -> tuple[bytes, str]:
    """Return all metrics in the format that a scraper accepts, and the format's content type."""
    from prometheus_client.exposition import choose_encoder

    encode, kind = choose_encoder(accept)
    with counters.lock:
        return encode(counters.metrics.registry), kind
