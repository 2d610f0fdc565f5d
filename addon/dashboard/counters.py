"""What Prometheus scrapes, counted since the start: plain numbers by their labels.

Nothing of Prometheus is needed to count; `exposition` spells it when somebody asks. The names are
those of OpenTelemetry's conventions for generative AI where they have one.
"""

import threading
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from addon.dashboard.board import MOST_WAITING
from addon.dashboard.label_values import OTHER, LabelValues
from addon.metrics.observed import as_sent
from addon.metrics.record import RequestRecord

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


@dataclass(frozen=True, slots=True)
class CounterOf:
    """A sum that only grows; `name` is without its `_total`."""

    name: str
    meaning: str
    labels: Labels
    sums: dict[Labels, float] = field(default_factory=dict)

    def add(self, amount: float, *labels: str) -> None:
        """Count an amount; what is not above 0 is none."""
        if amount > 0:
            self.sums[labels] = self.sums.get(labels, 0.0) + amount


@dataclass(frozen=True, slots=True)
class HistogramOf:
    """How often values fell into each bucket, the last of which has no bound, and their sum."""

    name: str
    meaning: str
    labels: Labels
    bounds: Sequence[float]
    counts: dict[Labels, list[int]] = field(default_factory=dict)
    sums: dict[Labels, float] = field(default_factory=dict)

    def observe(self, value: float | None, *labels: str) -> None:
        """Take in a value, if there is one."""
        if value is None or value < 0:
            return
        counts = self.counts.setdefault(labels, [0] * (len(self.bounds) + 1))
        counts[bisect_left(self.bounds, value)] += 1
        self.sums[labels] = self.sums.get(labels, 0.0) + value


_COUNTERS: dict[str, tuple[str, Labels]] = {
    "requests": (
        "Requests by what became of them: masked, unchanged, observed, passed, failed.",
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


class Counters:
    """Counts each record. It is fed in one thread and read in another, which holds `lock`."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self._counters = {
            name: CounterOf(f"{_OWN}_{name}", *described) for name, described in _COUNTERS.items()
        }
        self._histograms = {
            name: HistogramOf(name, *described) for name, described in _HISTOGRAMS.items()
        }
        self._values = tuple(LabelValues() for _ in _NAMED)
        self._combinations: set[Labels] = set()
        self._waiting: list[RequestRecord] = []

    def list_metrics(self) -> Iterator[CounterOf | HistogramOf]:
        """Yield every metric, under `lock`."""
        self._take_waiting()
        yield from self._counters.values()
        yield from self._histograms.values()

    def add(self, record: RequestRecord) -> None:
        """Count a request that has come to its end, as it was sent; not those of a recording."""
        if record.replay:
            return
        with self.lock:
            self._waiting.append(record)
            if len(self._waiting) >= MOST_WAITING:
                self._take_waiting()

    def _take_waiting(self) -> None:
        for each in self._waiting:
            outcome, record = find_outcome(each), as_sent(each)
            named = self._name(record)
            self._count("requests", 1, *named, outcome)
            self._count("requests_resent", record.resent is not None, *named, record.resent or "")
            self._add_results(record)
            self._add_amounts(record, named)
            self._observe_all(record, *named)
        self._waiting.clear()

    def _name(self, record: RequestRecord) -> Labels:
        """Return the values of `_NAMED`: few of each, and few combinations."""
        given = (record.host, record.model, record.client, record.label)
        named = tuple(values.take(value) for values, value in zip(self._values, given, strict=True))
        if named not in self._combinations and len(self._combinations) >= _MAX_COMBINATIONS:
            return (OTHER,) * len(named)
        self._combinations.add(named)
        return named

    def _add_results(self, record: RequestRecord) -> None:
        changed = {name: getattr(record, name) or 0 for name in _CHANGED}
        for reason, results in {**changed, **(record.kept or {})}.items():
            self._count("tool_results", results, reason)

    def _add_amounts(self, record: RequestRecord, named: Labels) -> None:
        if record.purpose != "count":
            self._add_prompt(record, named)
        self._count("boundary_moves", bool(record.boundary_moved), *named)
        self._count("rereads", record.rereads or 0, *named)
        self._count(
            "requests_fitting_only_masked",
            record.masking == "on" and record.fits_unmasked is False,
            *named,
        )
        for name, unmasked, sent in (
            ("cost_dollars", record.cost_dollars_before, record.cost_dollars_after),
            ("cost_input_tokens", record.cost_tokens_before, record.cost_tokens_after),
        ):
            self._count(name, unmasked or 0.0, *named, "unmasked")
            self._count(name, sent or 0.0, *named, "sent")

    def _add_prompt(self, record: RequestRecord, named: Labels) -> None:
        before, after = record.request_tokens_before or 0, record.request_tokens_after or 0
        self._count("prompt_tokens", after, *named, "sent")
        self._count("prompt_tokens", before - after, *named, "not_sent")
        self._count("cached_tokens", record.cached_tokens or 0, *named)
        for part, tokens in (record.composition or {}).items():
            self._count("prompt_part_tokens", tokens, part)

    def _observe_all(self, record: RequestRecord, host: str, model: str, *_: str) -> None:
        if record.purpose != "count":
            self._observe(_TOKENS, record.prompt_tokens, "chat", "input", model, host)
            self._observe(_TOKENS, record.completion_tokens, "chat", "output", model, host)
        self._observe(_HOOK, None if record.hook_us is None else record.hook_us / 1e6)
        self._observe(_FIRST_CHUNK, record.first_chunk_seconds, host)

    def _count(self, name: str, amount: float, *labels: str) -> None:
        self._counters[name].add(amount, *labels)

    def _observe(self, name: str, value: float | None, *labels: str) -> None:
        self._histograms[name].observe(value, *labels)


_CHANGED = ("masked", "redacted", "reduced", "dropped")


def find_outcome(record: RequestRecord) -> str:
    """Return in a word what became of a request."""
    if record.failed:
        return "failed"
    if record.passed_through is not None:
        return "passed"
    if record.masking == "observed":
        return "observed"
    return "masked" if any(getattr(record, name) for name in _CHANGED) else "unchanged"
