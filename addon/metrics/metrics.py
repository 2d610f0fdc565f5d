"""One record per request: a JSON line, a log line, and the totals of a run.

All of it happens in one thread of its own, after the request has left.
"""

import contextlib
import logging
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor

from mitmproxy import http

from addon.metrics.exchange import Exchange
from addon.metrics.log_line import render_hold, render_line
from addon.metrics.loop_log import LoopLog
from addon.metrics.price_warnings import PriceWarnings
from addon.metrics.record_file import RecordFile
from addon.metrics.redaction_trace import RedactionTrace
from addon.metrics.totals import Totals
from masking.accounting.ledger import Entry, Ledger, Sent
from masking.accounting.prompt import read_prompt
from masking.accounting.sizes import measure
from masking.config_tables import MetricsSettings
from masking.measures.price_settings import PriceSettings
from masking.measures.pricing import find_pricing
from masking.measures.tokens import TokenCounter
from masking.measures.vocabulary import load_o200k_base
from masking.model import replacements_of
from masking.rewrite import Rewrite
from masking.wire.usage import read_usage

logger = logging.getLogger("observation_masking")

_MAX_PENDING_BYTES = 16_000_000
"""Bodies that wait to be measured; beyond this, tokens are not counted."""


class Metrics:
    """Takes exchanges from any thread, measures and records them in its own."""

    def __init__(self, settings: MetricsSettings) -> None:
        self.totals = Totals()
        self._file = RecordFile(settings)
        self._counter = TokenCounter()
        self._live, self._replayed = Ledger(), Ledger()
        self._price_warnings = PriceWarnings()
        self._trace = RedactionTrace()
        self._log = LoopLog()
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="metrics")
        self._pending_bytes = 0
        self._lock = threading.Lock()
        self._run(load_o200k_base)  # now: it stops everything for a moment
        self._run(
            lambda: find_pricing(PriceSettings(), "localhost", "none")
        )  # and so does the price list

    def configure(self, settings: MetricsSettings) -> None:
        """Write the next record where these settings say."""
        self._run(lambda: self._reopen(settings))

    def measure(self, exchange: Exchange, rewrite: Rewrite, original: bytes) -> None:
        """Measure a request; when too many wait, leave its tokens uncounted."""
        counter = self._counter if self._pending_bytes < _MAX_PENDING_BYTES else None
        self._add_pending(len(original))

        def job() -> None:
            self._add_pending(-len(original))
            if counter is not None:
                replacements = replacements_of(rewrite.decisions)
                document, plan = rewrite.document, rewrite.plan
                exchange.prompt = read_prompt(document, replacements, counter, plan)
            exchange.sizes = measure(rewrite, original, exchange.prompt, counter)
            if rewrite.redactions is not None:
                self._trace.log(rewrite.redactions)

        self._run(job)

    def find_hold(
        self, exchange: Exchange, document: Mapping[str, object]
    ) -> frozenset[int] | None:
        """Return what alone may be masked in a request, where the boundary is held."""
        messages = document.get("messages")
        if exchange.replay or not isinstance(messages, list):
            return None
        return self._live.find_hold(exchange.seed, messages)

    def finish(self, exchange: Exchange, response: http.Response | None) -> None:
        """Record an exchange that has come to its end."""

        def job() -> None:
            if response is not None:
                exchange.usage = read_usage(response.get_content(strict=False) or b"")
            exchange.entry = self._account(exchange)
            self._record(exchange)

        self._run(job)

    def note(self, record: dict[str, object]) -> None:
        """Write a record of another kind."""
        self._run(lambda: self._file.write(record))

    def close(self) -> None:
        """Wait for all that is pending, and close the file."""
        self._thread.shutdown(wait=True)
        self._log.flush()
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

    def _account(self, exchange: Exchange) -> Entry | None:
        if exchange.prompt is None or exchange.pricing is None or not exchange.answered:
            return None
        sent = Sent(
            seed=exchange.seed,
            prompt=exchange.prompt,
            masked=exchange.masked,
            usage=exchange.usage,
            when=exchange.time,
            is_masked=exchange.is_masked,
        )
        ledger = self._replayed if exchange.replay else self._live
        return ledger.enter(sent, exchange.pricing)

    def _record(self, exchange: Exchange) -> None:
        self.totals.add(exchange)
        record = exchange.as_record()
        self._file.write(record)
        self._log.log(logging.INFO, render_line(exchange))
        self._warn(exchange, record)

    def _warn(self, exchange: Exchange, record: dict[str, object]) -> None:
        for warning in self._price_warnings.find(exchange, record):
            self._log.log(logging.WARNING, warning)
        if exchange.entry is not None and exchange.entry.tripped:
            hold = render_hold(exchange.host, exchange.entry.conversation, exchange.usage)
            self._log.log(logging.WARNING, hold)


def _guarded(job: Callable[[], object]) -> None:
    try:
        job()
    except Exception as error:  # noqa: BLE001 - a record that fails must not fail the next one
        logger.warning(f"something was not recorded: {type(error).__name__}")
