"""Cuts long strings in the answers of MCP servers; if anything goes wrong, their bytes go on."""

import functools
import logging
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from weakref import WeakKeyDictionary

from mitmproxy import http

from addon.content import estimate_bytes
from addon.proxy.flows import is_replayed
from addon.proxy.mcp_answer import Answer, AnswerStream, mask_whole
from addon.proxy.mcp_recognition import find_delivery, find_methods, find_obstacle
from addon.request import one_line, path_of
from addon.threads import Pool
from masking.mcp import McpSettings, Methods

logger = logging.getLogger("observation_masking")

_SMALL_BYTES = 50_000
"""A request up to here is read at once: handing it over would take as long."""

_MOST_IN_LOOP = 100_000
"""Values of an event. mitmproxy takes no piece of a stream that is still being worked on, so events
are cut in the event loop, where so many take a fifth of a second at most."""


@dataclass(slots=True)
class McpTotals:
    """The totals of MCP responses: how many were seen, what was cut, what failed and why.

    In those that were only `observed` nothing was cut; their strings are counted all the same.
    Characters are the code points of the strings that were cut, before and after.
    """

    responses: int = 0
    cut_responses: int = 0
    observed: int = 0
    strings: int = 0
    chars_before: int = 0
    chars_after: int = 0
    failures: Counter[str] = field(default_factory=Counter)

    def add(self, answer: Answer) -> None:
        """Count a response that has come to its end."""
        self.responses += 1
        self.cut_responses += answer.strings > 0
        self.observed += answer.observed
        self.strings += answer.strings
        self.chars_before += answer.chars_before
        self.chars_after += answer.chars_after
        self.failures += answer.failures

    def __str__(self) -> str:
        observed = f", {self.observed} of them only observed" if self.observed else ""
        failures = (f"{count} {reason}" for reason, count in sorted(self.failures.items()))
        return (
            f"{self.responses} MCP responses{observed}: {self.cut_responses} with {self.strings}"
            f" strings cut ({self.chars_before:,} -> {self.chars_after:,} characters)"
            f"; untouched for a reason: {', '.join(failures) or 'none'}"
        )


Fields = dict[str, object]
"""The fields of an `McpRecord`, except for those about the software."""


class Mcp:
    """The hooks for responses. Each that has come to its end is counted and given to `record`."""

    def __init__(
        self, record: Callable[[Fields], object] = lambda _: None, pool: Pool | None = None
    ) -> None:
        self.totals = McpTotals()
        self._record = record
        self._pool = pool or Pool()
        self._open: WeakKeyDictionary[http.HTTPFlow, Answer | AnswerStream] = WeakKeyDictionary()

    async def responseheaders(
        self, flow: http.HTTPFlow, settings: McpSettings, *, observed: bool = False
    ) -> bool:
        """Return whether a response is handled here, and settle how it streams.

        If it is `observed`, it is only counted what would be cut.
        """
        try:
            return settings.cuts and await self._take(flow, settings, observed=observed)
        except Exception as error:  # noqa: BLE001 - the server's bytes go on, whatever happened
            self._refuse(flow, f"internal error ({type(error).__name__})")
            return False

    async def response(self, flow: http.HTTPFlow) -> None:
        """Mask what was collected, and note what was streamed."""
        found = self._open.get(flow)
        if isinstance(found, Answer) and flow.response is not None:
            work = functools.partial(mask_whole, flow.response, found)
            await self._pool.run(estimate_bytes(flow.response), work)
        self._finish(flow)

    def error(self, flow: http.HTTPFlow) -> None:
        self._finish(flow)

    def done(self) -> None:
        """Count the responses that have not come to their end."""
        for flow in tuple(self._open):
            self._finish(flow)

    async def _take(self, flow: http.HTTPFlow, settings: McpSettings, *, observed: bool) -> bool:
        delivery = find_delivery(flow.response) if flow.response else None
        if flow.response is None or delivery is None:
            return False
        methods = await self._find_methods(flow.request, settings.endpoints)
        if methods is None:
            return False
        if obstacle := find_obstacle(flow.response, delivery):
            self._refuse(flow, obstacle)
            return False
        if delivery == "stream":
            answer = Answer(settings, methods, observed=observed, most_values=_MOST_IN_LOOP)
            self._open[flow] = flow.response.stream = AnswerStream(answer)
        else:
            self._open[flow] = Answer(settings, methods, observed=observed)
        return True

    async def _find_methods(
        self, request: http.Request, endpoints: tuple[str, ...]
    ) -> Methods | None:
        """Return what a client asks for; any POST may have to be decoded for that."""
        size = estimate_bytes(request)
        if size <= _SMALL_BYTES:
            return find_methods(request, endpoints)
        return await self._pool.run(size, functools.partial(find_methods, request, endpoints))

    def _refuse(self, flow: http.HTTPFlow, reason: str) -> None:
        self.totals.responses += 1
        self.totals.failures[reason] += 1
        self._record(_describe(flow, reason))
        _log(flow, f"passed through untouched, {reason}")

    def _finish(self, flow: http.HTTPFlow) -> None:
        found = self._open.pop(flow, None)
        if isinstance(found, AnswerStream):
            found.note_failures()
            if flow.response is not None and flow.response.raw_content is None:
                flow.response.data.content = found.body  # what a recording keeps
            found = found.answer
        if found is not None:
            self.totals.add(found)
            self._record(_describe(flow, ", ".join(sorted(found.failures)) or None, found))
            _tell(flow, found)


def _describe(flow: http.HTTPFlow, reason: str | None, answer: Answer | None = None) -> Fields:
    """Return a response's record: never content, nor a query."""
    return {
        "time": datetime.now(UTC).isoformat(timespec="milliseconds"),
        "host": one_line(flow.request.pretty_host),
        "path": one_line(path_of(flow.request)),
        "status": flow.response.status_code if flow.response else None,
        "passed_through": reason,
        "replay": is_replayed(flow),
        "observed": bool(answer and answer.observed),
        "cut_strings": answer.strings if answer else 0,
        "cut_chars_before": answer.chars_before if answer else 0,
        "cut_chars_after": answer.chars_after if answer else 0,
    }


def _tell(flow: http.HTTPFlow, answer: Answer) -> None:
    for reason in answer.failures:
        _log(flow, f"passed through untouched, {reason}")
    if answer.strings:
        change = f"{answer.chars_before:,} -> {answer.chars_after:,} characters"
        if answer.observed:
            _log(flow, f"observed: would have cut {answer.strings} strings, {change}")
            return
        flow.comment = f"cut {answer.strings} strings of an MCP response: {change}"
        _log(flow, f"cut {answer.strings} strings, {change}")


def _log(flow: http.HTTPFlow, outcome: str) -> None:
    logger.info(f"{one_line(flow.request.pretty_host)}: MCP response, {outcome}")
