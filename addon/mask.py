"""`mitmdump -s addon/mask.py`: masks old tool results in what passes by.

Whatever goes wrong in here, the client's own bytes go out.
"""

import asyncio
import logging
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple
from weakref import WeakKeyDictionary

from mitmproxy import ctx, exceptions, http
from mitmproxy.addonmanager import Loader

from addon.metrics.exchange import Blame, Exchange, printable
from addon.metrics.metrics import Metrics
from addon.metrics.record_file import default_path
from addon.proxy.config_file import ConfigFile, find_config
from addon.proxy.marks import mark
from addon.proxy.mcp_responses import Mcp
from addon.proxy.memory_file import MemoryFile
from addon.proxy.original_body import is_recording, keep_original
from addon.proxy.requests import (
    digest_account,
    is_bulk,
    is_chat_request,
    is_event_stream,
    is_signed,
    path_of,
)
from addon.proxy.response_copy import Tap
from addon.proxy.startup import find_option_mistake, render_start
from addon.proxy.tls_passthrough import Passthrough, is_ours
from masking.config import Settings
from masking.config_tables import MemorySettings
from masking.errors import ConfigError, WireError
from masking.measures.pricing import find_pricing
from masking.memory.boundary_memory import BoundaryMemory, Occasion
from masking.memory.lifetime import find_lifetime
from masking.rewrite import change_request, read_request
from masking.strategies.order import Strategies
from masking.strategies.policy import apply_pricing
from masking.wire.cache_marks import has_cache_mark

logger = logging.getLogger("observation_masking")


class _Open(NamedTuple):
    exchange: Exchange
    tap: Tap


class ObservationMasking:
    """The hooks: each one guards, hands over to a function, and lets the traffic go."""

    def __init__(self) -> None:
        self._config: ConfigFile | None = None
        self._metrics: Metrics | None = None
        self._open: WeakKeyDictionary[http.HTTPFlow, _Open] = WeakKeyDictionary()
        self._is_running = False
        self._passthrough = Passthrough(lambda: self._read_settings().hosts)
        self._mcp = Mcp(self._note)
        self._memory_file = MemoryFile(lambda: default_path().parent)
        self._memory: BoundaryMemory | None = None
        self.addons = [self._passthrough]

    def load(self, loader: Loader) -> None:
        loader.add_option("mask_config", str, "", "The configuration file of observation-masking.")

    def configure(self, updated: set[str]) -> None:
        """Validate the options; a mistake stops the start, or undoes a change later on."""
        try:
            if mistake := find_option_mistake(ctx.options):
                raise ConfigError(*mistake)
            if self._config is None or "mask_config" in updated:
                self._use(ConfigFile(find_config(ctx.options.mask_config)))
        except ConfigError as error:
            if self._is_running:
                raise exceptions.OptionsError(str(error)) from None  # type: ignore[no-untyped-call]
            logger.error(str(error))  # at the start this ends mitmproxy, without a traceback

    def running(self) -> None:
        self._is_running = True
        if self._config is not None:
            logger.info(render_start(self._config))

    def requestheaders(self, flow: http.HTTPFlow) -> None:
        """Let uploads that are none of ours through as they come."""
        if not is_chat_request(flow.request) and is_bulk(flow.request):
            flow.request.stream = True

    async def request(self, flow: http.HTTPFlow) -> None:
        started = time.perf_counter_ns()
        if self._metrics is None or not is_chat_request(flow.request):
            return
        settings = self._read_settings()
        if not is_ours(flow.request.pretty_host, settings.hosts):
            return
        exchange = _open_exchange(flow, settings)
        self._open[flow] = _Open(exchange, Tap())
        memory = None if exchange.replay else await self._open_memory(settings.memory)
        await asyncio.to_thread(_mask, flow, exchange, settings, self._metrics, memory)
        exchange.hook_us = (time.perf_counter_ns() - started) // 1000

    def responseheaders(self, flow: http.HTTPFlow) -> None:
        """Let streams and downloads through as they come; remember our own streams."""
        if flow.response is None or flow.response.stream:
            return
        found = self._open.get(flow)
        if found is None:
            if not self._takes_charge(flow):
                flow.response.stream = is_event_stream(flow.response) or is_bulk(flow.response)
        elif found.exchange.stream or is_event_stream(flow.response):
            flow.response.stream = found.tap

    async def response(self, flow: http.HTTPFlow) -> None:
        await self._mcp.response(flow)
        self._finish(flow)

    def error(self, flow: http.HTTPFlow) -> None:
        self._mcp.error(flow)
        self._finish(flow)

    def done(self) -> None:
        if self._metrics is not None:
            for flow in tuple(self._open):
                self._open[flow].exchange.error = "proxy ended"
                self._finish(flow)
            self._mcp.done()
            self._memory_file.close()
            self._metrics.close()
            logger.info(f"{self._metrics.totals}{self._passthrough.render_total()}")
            if self._mcp.totals.responses:
                logger.info(str(self._mcp.totals))

    def _takes_charge(self, flow: http.HTTPFlow) -> bool:
        """Whether a response that is no chat's is an MCP server's, and is to be masked."""
        settings = self._read_settings()
        is_here = is_ours(flow.request.pretty_host, settings.hosts)
        return is_here and self._mcp.responseheaders(flow, settings.mcp)

    def _note(self, record: dict[str, object]) -> None:
        if self._metrics is not None:
            self._metrics.note(record)

    def _use(self, config: ConfigFile) -> None:
        self._config = config
        if self._metrics is None:
            self._metrics = Metrics(config.settings.metrics)
        else:
            self._metrics.configure(config.settings.metrics)

    async def _open_memory(self, settings: MemorySettings) -> BoundaryMemory | None:
        """Return what is remembered, read from the file when it is first wanted."""
        if settings.enabled and self._memory is None:
            memory = BoundaryMemory(self._memory_file.write)
            memory.load(await asyncio.to_thread(self._memory_file.read))
            self._memory = self._memory or memory
        return self._memory if settings.enabled else None

    def _read_settings(self) -> Settings:
        """Return what the file says now."""
        if self._config is None:
            return Settings()
        if self._config.refresh() and self._metrics is not None:
            self._metrics.configure(self._config.settings.metrics)
            logger.info(render_start(self._config))
        return self._config.settings

    def _finish(self, flow: http.HTTPFlow) -> None:
        found = self._open.pop(flow, None)
        if found is None or self._metrics is None:
            return
        exchange, tap = found
        if flow.response is not None:
            exchange.status = flow.response.status_code
            if flow.response.raw_content is None:  # streamed: what a recording keeps
                flow.response.data.content = tap.body
        if flow.error is not None:
            exchange.error = _blame(flow, flow.error.msg)
        self._metrics.finish(exchange, flow.response)


def _open_exchange(flow: http.HTTPFlow, settings: Settings) -> Exchange:
    return Exchange(
        host=printable(flow.request.pretty_host),
        path=printable(path_of(flow.request)),
        masking="on" if settings.strategies.change else "off",
        replay=not flow.live or flow.is_replay is not None,
        is_masked=bool(flow.live) or flow.is_replay == "request",
        price_settings=settings.price_settings,
    )


def _blame(flow: http.HTTPFlow, message: str) -> Blame:
    """Return who ended it; mitmproxy's own message may quote what was sent."""
    left = not flow.client_conn.connected or "by client" in message
    return "client left" if left else "provider failed"


def _mask(
    flow: http.HTTPFlow,
    exchange: Exchange,
    settings: Settings,
    metrics: Metrics,
    memory: BoundaryMemory | None,
) -> None:
    exchange.bytes_before = exchange.bytes_after = len(flow.request.raw_content or b"")
    try:
        original = _read_body(flow.request)
        document = read_request(original)
        exchange.model = _find_model(document)
        exchange.stream = document.get("stream") is True
        exchange.seed = digest_account(flow.request, exchange.host, str(exchange.model))
        strategies = _price(exchange, original, settings)
        only = metrics.find_hold(exchange, document)
        occasion = _find_occasion(exchange, document, strategies, memory)
        outcome = change_request(original, document, strategies, only, occasion)
        if memory is not None and occasion is not None:
            memory.keep(occasion, outcome.past)
        exchange.masked = outcome.masked
        mark(flow, outcome.decisions)
        metrics.measure(exchange, outcome, original)
        if outcome.body is not original:
            if settings.recording.keep_original and is_recording(ctx.options):
                keep_original(flow, original)
            flow.request.content = outcome.body
            exchange.bytes_after = len(flow.request.raw_content or b"")
    except WireError as error:
        exchange.passed_through = error.problem if error.path == "body" else str(error)
    except Exception as error:  # noqa: BLE001 - the client's bytes go out, whatever happened
        exchange.passed_through = f"internal error ({type(error).__name__})"


def _find_occasion(
    exchange: Exchange,
    document: Mapping[str, object],
    strategies: Strategies,
    memory: BoundaryMemory | None,
) -> Occasion | None:
    """Return what is remembered of a request's conversation; what goes out whole is forgotten."""
    if memory is None or exchange.pricing is None:
        return None
    if not strategies.schema1.masks:
        memory.forget(document)
        return None
    lifetime = find_lifetime(document, exchange.pricing.cache.lifetime)
    occasion = memory.meet(document, exchange.time.timestamp(), lifetime)
    exchange.prefix = occasion.state
    return occasion


def _read_body(request: http.Request) -> bytes:
    if is_signed(request):
        raise WireError("signed")
    try:
        original = request.content
    except ValueError:
        raise WireError("unknown or broken content encoding") from None
    if original is None:
        raise WireError("streamed past the addon")
    return original


def _find_model(document: Mapping[str, object]) -> str | None:
    model = document.get("model")
    return printable(model) if isinstance(model, str) else None


def _price(exchange: Exchange, original: bytes, settings: Settings) -> Strategies:
    """Return the strategies under the prices of the request's host and model, and note them."""
    prices, is_marked = exchange.price_settings, has_cache_mark(original)
    exchange.pricing = find_pricing(prices, exchange.host, exchange.model, is_marked=is_marked)
    policy = apply_pricing(settings.schema1, exchange.pricing, slides=prices.slides)
    exchange.cache_read_ratio = policy.cache_read_ratio
    exchange.cache_write_ratio = policy.cache_write_ratio
    return replace(settings.strategies, schema1=policy)


addons = [ObservationMasking()]
