"""`mitmdump --listen-host 127.0.0.1 -s addon/mask.py`: masks old tool results in what passes by.

Whatever goes wrong in here, the client's own bytes go out.
"""

import addon.proxy.process_memory  # noqa: F401 - it has to be the first

# isort: split

import asyncio
import contextlib
import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from mitmproxy import ctx, exceptions, http, tcp
from mitmproxy.addonmanager import Loader
from mitmproxy.connection import Client

from addon.config import (
    ConfigFile,
    find_config,
    render_no_page,
    render_recall,
    render_start,
)
from addon.engine import Engine
from addon.metrics.software import describe_software
from addon.proxy.cancelled_tasks import leave_out_cancelled
from addon.proxy.flows import Flows, ReadRequest
from addon.proxy.health import answer, is_for_proxy
from addon.proxy.log_lines import leave_out_unread
from addon.proxy.mcp_responses import Mcp
from addon.proxy.own_ports import OwnPorts
from addon.proxy.raw_tcp import RawTcp, find_host
from addon.proxy.standard_output import print_any_character, print_lines_at_once
from addon.proxy.startup import find_option_mistake, render_recording
from addon.proxy.tls_passthrough import Passthrough
from addon.proxy.unserved import Unserved, find_unserved_format
from addon.proxy.websocket import Websockets, send_messages_whole
from addon.recall import kept_folder
from addon.request import (
    find_wire_format,
    is_bulk_download,
    is_bulk_upload,
    is_event_stream,
    is_opened,
    one_line,
)
from addon.threads import share_interpreter
from masking.errors import ConfigError

if TYPE_CHECKING:
    from addon.dashboard.page_server import PageServer

logger = logging.getLogger("observation_masking")

_SETTLE_SECONDS = 5.0
"""How long the question how the proxy is waits for records; who asks waits twice as long."""


class ObservationMasking:
    """The hooks: each guards, calls a function, and lets the traffic pass."""

    def __init__(self) -> None:
        self.engine = Engine()
        self._is_running = False
        self._page: PageServer | None = None
        self._flows = Flows(self.engine)
        self._websockets = Websockets(self.engine)
        self._passthrough = Passthrough(lambda: self.engine.settings.hosts)
        self._unserved = Unserved()
        self._raw_tcp = RawTcp()
        self._mcp = Mcp(self._note_mcp, self.engine.pool)
        self.own_ports = OwnPorts()
        self.addons = [self._passthrough]

    def load(self, loader: Loader) -> None:
        loader.add_option("mask_config", str, "", "The configuration file of observation-masking.")
        loader.add_option("mask_set", Sequence[str], [], "Settings, as schema1.window_turns=4.")
        loader.add_option("mask_tag", str, "", "A tag for the records of this run.")
        share_interpreter()
        send_messages_whole()
        leave_out_cancelled()
        leave_out_unread(loader.master.addons)
        print_any_character()
        print_lines_at_once()

    def configure(self, updated: set[str]) -> None:
        """Validate the options. A mistake stops the start, or undoes a later change."""
        engine = self.engine
        try:
            if mistake := find_option_mistake(ctx.options):
                raise ConfigError(*mistake)
            engine.run = engine.run._replace(tag=one_line(ctx.options.mask_tag) or None)
            if engine.config is None or {"mask_config", "mask_set"} & updated:
                path = find_config(ctx.options.mask_config, script=Path(__file__))
                config = ConfigFile(path, ctx.options.mask_set)
                if engine.config is None:
                    engine.start()
                engine.use(config)
        except ConfigError as error:
            if self._is_running:
                raise exceptions.OptionsError(str(error)) from None
            logger.error(str(error))  # at the start this ends mitmproxy, without a traceback

    def running(self) -> None:
        self._is_running = True
        config = self.engine.config
        if config is not None:
            self.engine.log.start()
            self.engine.watch()
            logger.info(render_start(config))
            settings = config.settings
            advice = config.advice
            lines = (
                render_recording(settings, ctx.options, advice),
                render_recall(settings, advice),
            )
            for line in lines:
                if line:
                    logger.info(line)
            if ctx.options.server:
                self._open_page(config)

    def requestheaders(self, flow: http.HTTPFlow) -> None:
        """Stream uploads that are not requests to a model."""
        if flow in self.own_ports:
            return
        if is_bulk_upload(flow.request) and find_wire_format(flow.request) is None:
            flow.request.stream = True

    async def request(self, flow: http.HTTPFlow) -> None:
        config = self.engine.config
        if config is None or flow in self.own_ports:
            return
        if is_for_proxy(flow.request):
            flow.response = answer(flow.request, await self._describe(config))
            return
        request = ReadRequest(flow.request)
        if (name := find_unserved_format(request)) and self._is_masking(flow):
            self._unserved.note(name, request.pretty_host)
        self._websockets.request(flow)
        await self._flows.request(flow)

    async def websocket_message(self, flow: http.HTTPFlow) -> None:
        await self._websockets.websocket_message(flow)

    def tcp_start(self, flow: tcp.TCPFlow) -> None:
        host, settings = find_host(flow), self.engine.settings
        if settings.any_enabled and is_opened(host, settings.hosts):
            self._raw_tcp.note(host)

    def websocket_end(self, flow: http.HTTPFlow) -> None:
        self._websockets.websocket_end(flow)

    async def responseheaders(self, flow: http.HTTPFlow) -> None:
        """Stream event streams and downloads; keep a copy of those that are to be read."""
        if flow.response is None or flow.response.stream:
            return
        if flow in self._flows:
            self._flows.responseheaders(flow)
        elif not await self._masks_response(flow):
            flow.response.stream = is_event_stream(flow.response) or is_bulk_download(flow.response)

    async def response(self, flow: http.HTTPFlow) -> None:
        await self._mcp.response(flow)
        await self._flows.response(flow)

    def error(self, flow: http.HTTPFlow) -> None:
        self._mcp.error(flow)
        self._flows.error(flow)

    def client_disconnected(self, client: Client) -> None:
        self._flows.client_disconnected(client)

    def done(self) -> None:
        engine = self.engine
        if engine.config is None:
            return
        self._flows.done()
        self._websockets.done()
        self._mcp.done()
        engine.close()
        if self._page:
            self._page.close()
        engine.log.flush()
        others = f"{self._unserved.render_total()}{self._passthrough.render_total()}"
        logger.info(f"{engine.recorder.totals}{others}{engine.recorder.left_out}")
        if self._mcp.totals.responses:
            logger.info(str(self._mcp.totals))

    def _note_mcp(self, fields: Mapping[str, object]) -> None:
        self.engine.recorder.note(fields, self.engine.settings, self.engine.run)

    async def _describe(self, config: ConfigFile) -> Mapping[str, object]:
        """Return how the proxy is, once the records of all that came to its end are written."""
        settings, recorder = self.engine.settings, self.engine.recorder
        summary = await self._settle()
        return {
            **describe_software(settings),
            "run": self.engine.run.name,
            "state": render_start(config),
            "is_masking": settings.any_changes,
            "base_urls": True,
            "config": str(config.path),
            "records": recorder.path,
            "lost_records": recorder.lost,
            "summary": f"{summary or ''}{recorder.left_out}",
            "unopened": self._passthrough.passed,
            "unserved": self._unserved.counts.total(),
            "page": self._page.url if self._page else None,
            "recall_folder": kept_folder(settings.recall),
        }

    async def _settle(self) -> str | None:
        """Return the run's summary; None if its records do not get on, as on a hanging disk."""
        settled = asyncio.wrap_future(self.engine.recorder.settle())
        with contextlib.suppress(TimeoutError):
            return await asyncio.wait_for(settled, _SETTLE_SECONDS)
        return None

    def _open_page(self, config: ConfigFile) -> None:
        """Serve the page from now on, if it is wanted. What keeps it away is a warning."""
        if not config.settings.page.enabled or self._page is not None:
            return
        from addon.dashboard.page_server import PageServer  # a proxy without a page needs none

        try:
            self._page = PageServer(config.settings.page, self._describe_run, self.engine.log.log)
        except OSError as error:
            logger.warning(render_no_page(config.settings.page, error, config.advice))
            return
        self.engine.recorder.sinks.append(self._page.add)
        logger.info(f"page: {self._page.url}")

    def _describe_run(self) -> Mapping[str, object]:
        """Return how the proxy is, for its page; any thread may ask."""
        engine = self.engine
        return {
            "name": engine.run.name,
            "tag": engine.run.tag,
            "state": render_start(engine.config) if engine.config else "",
            "unopened": self._passthrough.passed,
            "unserved": self._unserved.counts.total(),
        }

    def _is_masking(self, flow: http.HTTPFlow) -> bool:
        """Whether the configuration has requests to a host masked."""
        settings = self.engine.settings
        return settings.any_enabled and is_opened(flow.request.pretty_host, settings.hosts)

    async def _masks_response(self, flow: http.HTTPFlow) -> bool:
        """Whether a response comes from an MCP server and is to be masked."""
        settings = self.engine.settings
        is_there = is_opened(flow.request.pretty_host, settings.hosts)
        return is_there and await self._mcp.responseheaders(
            flow, settings.mcp, observed=settings.mode == "observe"
        )


_MASKING = ObservationMasking()

addons = [_MASKING.own_ports, _MASKING]
"""The first finds the server that a request is for; all that follows goes by that."""
