"""Serves the page on an address of its own, in a thread of its own.

Until somebody looks, that is a socket and a thread that waits: what serves is loaded at the first
connection, so that a start costs nothing, and a proxy whose page nobody opens hardly more.
"""

import asyncio
import logging
import os
import selectors
import socket
import threading
from collections.abc import Callable
from pathlib import Path

from addon.config import ConfigFile
from addon.config_commands import Advice
from addon.network import Address, is_loopback
from addon.page.board import Board, Described
from addon.page.history import History
from addon.page.prometheus import Counters
from addon.places import state_folder
from addon.records.record import RequestRecord
from masking.config import PageSettings

logger = logging.getLogger("observation_masking")

_SECONDS_TO_END = 2.0
"""How long the end of the proxy waits for the page to notify its readers."""

Log = Callable[[int, str], None]


def serve_page(
    config: ConfigFile, describe_run: Callable[[], Described], log: Log, records: Callable[[], Path]
) -> "PageServer | None":
    """Serve the page of a proxy, and say where; None if its address cannot be had."""
    settings, history = config.settings.page, History(state_folder, records)
    try:
        page = PageServer(settings, describe_run, log, history)
    except OSError as error:
        logger.warning(render_no_page(settings, error, config.advice))
        return None
    logger.info(f"page: {page.url}")
    return page


def render_no_page(settings: PageSettings, error: OSError, advice: Advice) -> str:
    """Return the line that says why there is no page, and what to set."""
    problem = os.strerror(error.errno) if error.errno else str(error)  # its own names the address
    return (
        f"no page at {settings.host}:{settings.port}: {problem}; "
        f"for any free port: {advice.change({'page.port': 0})}"
    )


class PageServer:
    """A page that is served from now on. Raises OSError if its address cannot be had.

    describe_run: returns how the proxy is; called in the thread of the page. None where there is
        no proxy, and the page is of the history alone.
    log: takes lines from any thread.
    history: the sessions before; None if none are to be shown.
    """

    def __init__(
        self,
        settings: PageSettings,
        describe_run: Callable[[], Described] | None,
        log: Log,
        history: History | None = None,
    ) -> None:
        family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
        self._socket = socket.create_server((settings.host, settings.port), family=family)
        self._host, self.port = settings.host, int(self._socket.getsockname()[1])
        self._board, self._describe_run, self._log = Board(), describe_run, log
        self._history = history
        is_scraped = settings.metrics
        if is_scraped == "auto":
            is_scraped = is_loopback(settings.host)
        self._counters = Counters() if is_scraped else None
        self._waker, self._wakened = socket.socketpair()
        self._thread = threading.Thread(target=self._guard, name=THREAD, daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        """The address of the page."""
        return f"{Address(self._host, self.port).url}/"

    def add(self, record: RequestRecord) -> None:
        """Take in a request that has ended."""
        self._board.add(record)
        if self._counters is not None:
            self._counters.add(record)

    def close(self) -> None:
        """Tell those who look that the proxy has stopped, and end."""
        self._wakened.close()
        self._thread.join(_SECONDS_TO_END)

    def _guard(self) -> None:
        try:
            with self._socket, self._waker:
                self._run()
        except Exception as error:  # noqa: BLE001 - a page that fails must not stop the proxy
            self._log(logging.WARNING, f"the page is not served any more: {type(error).__name__}")

    def _run(self) -> None:
        with selectors.DefaultSelector() as selector:
            for each in (self._socket, self._waker):
                selector.register(each, selectors.EVENT_READ)
            is_ending = self._waker in [key.fileobj for key, _ in selector.select()]
        if not is_ending:
            from addon.page.web import Served, serve  # loads the server, and templates

            served = Served(
                self._board,
                self._counters,
                self._describe_run,
                self._history,
                self._host,
                self.port,
            )
            asyncio.run(serve(served, self._socket, self._waker))


THREAD = "page"
"""The name of the thread, by which the server's own log lines are known."""
