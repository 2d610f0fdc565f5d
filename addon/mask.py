"""`mitmdump --listen-host 127.0.0.1 -s addon/mask.py`: masks old tool results in what passes by.

Whatever goes wrong in here, the client's own bytes go out.
"""

import contextlib
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from mitmproxy import ctx, exceptions
from mitmproxy.addonmanager import Loader
from mitmproxy.options import Options

from addon.config import locate_config, render_recall, render_start
from addon.config_commands import Advice
from addon.engine import Engine
from addon.proxy.flows import Flows
from addon.proxy.health import HealthEndpoint
from addon.proxy.host import prepare_host
from addon.proxy.marks import is_recording
from addon.proxy.mcp import Mcp
from addon.proxy.router import Router
from addon.proxy.routes import BaseUrlRouter, find_listening
from addon.proxy.tls import Passthrough
from addon.proxy.unsupported import UnsupportedTraffic
from addon.proxy.websocket import Websockets
from addon.records.words import list_unmaskable, render_totals
from addon.request import one_line
from masking.config import Settings
from masking.errors import ConfigError, printable

if TYPE_CHECKING:
    from addon.page.server import PageServer

logger = logging.getLogger("observation_masking")


class ObservationMasking:
    """The options of mitmproxy, the start and the end. Its nested addons have the other hooks."""

    def __init__(self) -> None:
        self.engine = engine = Engine()
        own_ports = BaseUrlRouter()
        self._flows = Flows(engine)
        self._websockets = Websockets(engine)
        self._mcp = Mcp(engine)
        self._passthrough = Passthrough(engine)
        self._unsupported = UnsupportedTraffic(engine)
        self._health = HealthEndpoint(engine, self._passthrough, self._unsupported)
        router = Router(
            own_ports, self._health, self._websockets, self._mcp, self._flows, self._unsupported
        )
        # mitmproxy calls a hook in each of them, in this order. `BaseUrlRouter` comes first, as the
        # others go by the server that it finds.
        self.addons = [own_ports, self._passthrough, router]
        self._host = contextlib.ExitStack()
        self._page: PageServer | None = None
        self._is_running = False

    def load(self, loader: Loader) -> None:
        loader.add_option("mask_config", str, "", "The configuration file of observation-masking.")
        loader.add_option("mask_set", Sequence[str], [], "Settings, as schema1.window_turns=4.")
        loader.add_option("mask_tag", str, "", "A tag for the records of this run.")
        self._host = prepare_host(loader.master.addons)

    def configure(self, updated: set[str]) -> None:
        """Validate the options. A mistake stops the start, or undoes a later change."""
        engine = self.engine
        try:
            if mistake := _find_mistake(ctx.options):
                raise ConfigError(*mistake)
            engine.run = engine.run._replace(tag=one_line(ctx.options.mask_tag) or None)
            if engine.config is None or {"mask_config", "mask_set"} & updated:
                found = locate_config(ctx.options.mask_config, script=Path(__file__))
                config = found.open(ctx.options.mask_set)
                if engine.config is None:
                    engine.start()
                engine.use(config)
        except ConfigError as error:
            if self._is_running:
                raise exceptions.OptionsError(str(error)) from None
            logger.error(str(error))  # at the start this ends mitmproxy, without a traceback

    def running(self) -> None:
        self._is_running = True
        engine, config = self.engine, self.engine.config
        if config is None:
            return
        engine.log.start()
        engine.watch()
        logger.info(render_start(config))
        settings, advice = config.settings, config.advice
        for line in (
            render_recording(settings, ctx.options, advice),
            render_recall(settings, advice),
        ):
            if line:
                logger.info(line)
        if not ctx.options.server or self._page is not None:
            return
        if settings.page.enabled:
            from addon.page.server import serve_page

            log, records = engine.log.log, engine.recorder.find_path
            self._page = serve_page(config, self._health.describe_run, log, records)
            if self._page:
                engine.recorder.sinks.append(self._page.add)
                self._health.page_url = self._page.url
                self._health.proxy = next(find_listening(), None)
        engine.announce(self._health.page_url)

    def done(self) -> None:
        """Record what is still open, end the engine, and log the run's totals."""
        engine, recorder = self.engine, self.engine.recorder
        if engine.config is not None:
            # mitmproxy ends the nested addons after this one, which is too late for their records.
            for part in (self._flows, self._websockets, self._mcp):
                part.done()
            engine.close()
            if self._page:
                self._page.close()
            engine.log.flush()
            totals = (
                f"{render_totals(recorder.totals)}{self._unsupported.render_total()}",
                *list_unmaskable(self._passthrough.passed, 0),
            )
            logger.info(f"{'; '.join(totals)}{recorder.left_out}")
            if self._mcp.totals.responses:
                logger.info(str(self._mcp.totals))
        self._host.close()


def _find_mistake(options: Options) -> tuple[str, str] | None:
    """Return a problem and its option, if there is one that mitmproxy itself does not report."""
    if options.stream_large_bodies:
        return (
            "large requests, the ones worth masking, would be sent past the addon",
            "stream_large_bodies",
        )
    unknown = next((name for name in options.deferred if name.startswith("mask_")), None)
    return None if unknown is None else ("no such option", unknown)


def render_recording(settings: Settings, options: Options, advice: Advice) -> str | None:
    """Return the line that says that a recording will hold content; None where it holds none."""
    if not (is_recording(options) and settings.recording.keep_original):
        return None
    return printable(
        f"{options.save_stream_file} keeps the client's own body of each masked request, so that "
        "it can be replayed. To switch that off: "
        f"{advice.change({'recording.keep_original': False})}"
    )


addons = [ObservationMasking()]
