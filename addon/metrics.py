"""One record per request: a JSON line, a log line, and the totals of a run.

All of it happens in one thread of its own, after the request has left.
"""

import contextlib
import json
import logging
import threading
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from logging.handlers import RotatingFileHandler
from pathlib import Path

import platformdirs
from mitmproxy import http

from addon.exchange import Exchange, measure
from masking.analysis.tokens import TokenCounter
from masking.analysis.vocabulary import load_o200k_base
from masking.config import MetricsSettings
from masking.rewrite import Rewrite
from masking.usage import read_usage

logger = logging.getLogger("observation_masking")

_MAX_PENDING_BYTES = 64_000_000
"""Bodies that wait to be measured; beyond this, tokens are not counted."""


def default_path() -> Path:
    """Return where the records go when the configuration names no place."""
    return platformdirs.user_state_path("observation-masking", appauthor=False) / "requests.jsonl"


class RecordFile:
    """An append-only file of JSON lines that is rotated once and never grows beyond its size.

    A file that cannot be written is a warning, once, and records are then lost, not requests.
    """

    def __init__(self, settings: MetricsSettings) -> None:
        self._name = settings.path
        self._max_bytes = settings.max_megabytes * 1_000_000
        self._file: _LineFile | None = None
        self._warned = False

    @property
    def path(self) -> Path:
        """Where the records go. Raises RuntimeError for the home of no user."""
        return Path(self._name).expanduser() if self._name else default_path()

    def write(self, record: dict[str, object]) -> None:
        """Append one line, and flush it."""
        try:
            line = json.dumps(record, ensure_ascii=False)
            self._opened().emit(logging.makeLogRecord({"msg": line}))
        except (OSError, ValueError, RuntimeError) as error:  # no such user, no such name, ...
            if not self._warned:
                place = self._name or "the user's state directory"
                logger.warning(f"no records in {place}: {getattr(error, 'strerror', 0) or error}")
            self._warned = True

    def close(self) -> None:
        """Close the file; a later record would open it again."""
        if self._file is not None:
            self._file.close()
        self._file = None

    def _opened(self) -> "_LineFile":
        if self._file is None:
            path = self.path
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file = _LineFile(
                path,
                maxBytes=self._max_bytes,
                backupCount=1,
                encoding="utf-8",
                errors="replace",
            )
        return self._file


class _LineFile(RotatingFileHandler):
    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 - logging's own name
        raise  # what `emit` caught: to our caller, not to standard error


@dataclass(slots=True)
class Totals:
    """What a run came to; replayed requests are not in it."""

    requests: Counter[str] = field(default_factory=Counter)
    failures: Counter[str] = field(default_factory=Counter)
    passed_through: Counter[str] = field(default_factory=Counter)
    masked: int = 0
    tokens_before: int = 0
    tokens_after: int = 0

    def add(self, exchange: Exchange) -> None:
        """Count an exchange that has come to its end."""
        self.requests[exchange.masking] += 1
        self.failures[exchange.masking] += exchange.failed
        if exchange.passed_through is not None:
            self.passed_through[exchange.passed_through] += 1
        elif exchange.sizes is not None:
            self.masked += exchange.sizes.masked
            self.tokens_before += exchange.sizes.request_tokens_before or 0
            self.tokens_after += exchange.sizes.request_tokens_after or 0

    def __str__(self) -> str:
        rates = ", ".join(
            f"{self.requests[m]} with masking {m} ({self.failures[m]} failed)"
            for m in ("on", "off")
            if self.requests[m]
        )
        passed = ", ".join(f"{n} {why}" for why, n in self.passed_through.most_common())
        return (
            f"{self.requests.total()} requests: {rates or 'none'}; {self.masked} results masked, "
            f"{render_change(self.tokens_before, self.tokens_after)}"
            + (f"; passed through: {passed}" if passed else "")
        )


class Metrics:
    """Takes exchanges from any thread, measures and records them in its own."""

    def __init__(self, settings: MetricsSettings) -> None:
        self.totals = Totals()
        self._file = RecordFile(settings)
        self._counter = TokenCounter()
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="metrics")
        self._pending_bytes = 0
        self._lock = threading.Lock()
        self._run(load_o200k_base)  # now: it stops everything for a moment

    def configure(self, settings: MetricsSettings) -> None:
        """Write the next record where these settings say."""
        self._run(lambda: self._reopen(settings))

    def measure(self, exchange: Exchange, rewrite: Rewrite, original: bytes) -> None:
        """Measure a request; when too many wait, leave its tokens uncounted."""
        counter = self._counter if self._pending_bytes < _MAX_PENDING_BYTES else None
        self._add_pending(len(original))

        def job() -> None:
            self._add_pending(-len(original))
            exchange.sizes = measure(rewrite, original, counter)

        self._run(job)

    def finish(self, exchange: Exchange, response: http.Response | None) -> None:
        """Record an exchange that has come to its end."""

        def job() -> None:
            if response is not None:
                exchange.usage = read_usage(response.get_content(strict=False) or b"")
            self._record(exchange)

        self._run(job)

    def close(self) -> None:
        """Wait for all that is pending, and close the file."""
        self._thread.shutdown(wait=True)
        self._file.close()

    def _add_pending(self, size: int) -> None:
        with self._lock:
            self._pending_bytes += size

    def _run(self, job: Callable[[], object]) -> None:
        with contextlib.suppress(RuntimeError):  # closed: the proxy is ending
            self._thread.submit(_guarded, job)

    def _reopen(self, settings: MetricsSettings) -> None:
        self._file.close()
        self._file = RecordFile(settings)

    def _record(self, exchange: Exchange) -> None:
        if not exchange.replay:
            self.totals.add(exchange)
        self._file.write(exchange.as_record())
        logger.info(render_line(exchange))


def _guarded(job: Callable[[], object]) -> None:
    try:
        job()
    except Exception as error:  # noqa: BLE001 - a record that fails must not fail the next one
        logger.warning(f"something was not recorded: {type(error).__name__}")


def render_line(exchange: Exchange) -> str:
    """Return the line that tells a person what became of a request."""
    words = (
        "replay" if exchange.replay else None,
        exchange.host,
        exchange.model or "?",
        exchange.status,
        exchange.error,
    )
    return f"{' '.join(str(word) for word in words if word)}: {_render_outcome(exchange)}"


def _render_outcome(exchange: Exchange) -> str:
    sizes = exchange.sizes
    if exchange.passed_through is not None:
        return f"passed through untouched, {exchange.passed_through}"
    if sizes is None:
        return "not measured"
    if exchange.masking == "off":
        return f"masking off, {sizes.tool_results} tool results"
    before, after = sizes.request_tokens_before, sizes.request_tokens_after
    tokens = "" if before is None or after is None else f", {render_change(before, after)}"
    ms = (exchange.hook_us or 0) / 1000
    return f"masked {sizes.masked} of {sizes.tool_results} tool results{tokens}, {ms:.1f} ms"


def render_change(before: int, after: int) -> str:
    """Return two token counts and their difference: `12,000 -> 3,000 tokens (-75%)`."""
    if before == after:
        return f"{before:,} tokens"
    return f"{before:,} -> {after:,} tokens ({_render_share(after / before - 1)})"


def _render_share(share: float) -> str:
    return f"{share:+.0%}" if abs(share) >= 0.005 else "less than 1%"
