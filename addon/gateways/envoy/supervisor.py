"""Starts the processes that serve Envoy, and keeps their log, their totals and their page.

Each process listens on a port of its own, so that Envoy can send a conversation to the process that
knows it. They share nothing else. One that dies is started again, on its port.
"""

import asyncio
import logging
import secrets
import signal
import socket
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from typing import TYPE_CHECKING, NamedTuple

import orjson

from addon.config import (
    Change,
    ConfigFile,
    ConfigWatch,
    FoundConfig,
    render_change,
    render_recall,
    render_start,
    without_memory,
)
from addon.network import Address, bracket
from addon.records.file import RecordFile
from addon.records.record import RequestRecord
from addon.records.tally import Totals
from addon.records.words import render_totals
from addon.threads import LoopLog

if TYPE_CHECKING:
    from addon.page.server import PageServer

logger = logging.getLogger("observation_masking")

READY = b"ready\n"
"""The first line that a process prints: it serves. After that, each line is a record in JSON."""

_WORKER = ("-m", "addon.gateways.envoy.worker")

_AGAIN_SECONDS = 1.0
"""How long one that has died is waited for before it is started again."""

_LONGEST_LINE = 16_000_000

_KILL_SECONDS = 30.0
"""How much longer than the drain a process may take to its end."""


class Service(NamedTuple):
    """What to serve: where, by how many processes, and how they end.

    port: that of the first process; the others listen on the ports after it. 0 for any free ones.
    drain_seconds: how long an exchange may take to its end, once the service is ending.
    """

    host: str
    port: int
    workers: int
    drain_seconds: float
    config: FoundConfig
    overrides: list[str]
    tag: str | None


class WorkerOptions(NamedTuple):
    """What a process is to serve, and how.

    config, awaited: the file of settings, and the one that takes its place once it exists.
    run, tag: as in `Run`.
    drain_seconds: as in `Service`.
    page: where the page of the service is; None if it has none.
    """

    address: str
    config: str
    awaited: str | None
    overrides: list[str]
    run: str
    tag: str | None
    drain_seconds: float
    page: str | None = None


async def supervise(service: Service) -> None:
    """Serve until told to end (SIGTERM, SIGINT).

    Raises ConfigError, OSError if an address is taken, and RuntimeError if no process starts.
    """
    config = service.config.open(service.overrides, without_memory)
    with _hold_ports(service) as ports:
        await _Supervisor(service, config, ports).run()


class _Supervisor:
    def __init__(self, service: Service, config: ConfigFile, ports: Sequence[int]) -> None:
        self._service, self._config, self._ports = service, config, ports
        self._run, self._log, self._totals = secrets.token_hex(4), LoopLog(), Totals()
        self._ending = asyncio.Event()
        self._page: PageServer | None = None

    async def run(self) -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._ending.set)
        self._log.start()
        settings = self._config.settings
        logger.info(render_start(self._config))
        if recall := render_recall(settings, self._config.advice):
            logger.info(recall)
        for line in render_unserved(settings.mcp.cuts):
            logger.warning(line)
        watch = ConfigWatch(self._config, self._note_change)
        self._open_page()
        try:
            await self._serve()
        finally:
            watch.close()
            if self._page:
                self._page.close()
            self._log.flush()
            logger.info(render_totals(self._totals))

    async def _serve(self) -> None:
        """Start all processes, and keep them going until the end."""
        started = await asyncio.gather(*map(self._start, self._ports))
        ports = ", ".join(map(str, self._ports))
        logger.info(f"ext_proc: {bracket(self._service.host)}:{ports}")
        kept = zip(self._ports, started, strict=True)
        await asyncio.gather(*(self._keep_going(port, process) for port, process in kept))

    async def _start(self, port: int) -> asyncio.subprocess.Process:
        """Start a process; return once it serves. Raises RuntimeError if it does not."""
        address = f"{bracket(self._service.host)}:{port}"
        config = self._config  # one that is started again gets the file that holds by then
        options = WorkerOptions(
            address,
            str(config.path),
            str(config.awaited) if config.awaited else None,
            self._service.overrides,
            self._run,
            self._service.tag,
            self._service.drain_seconds,
            self._page.url if self._page else None,
        )
        told = orjson.dumps(options._asdict()).decode()
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, *_WORKER, told),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            limit=_LONGEST_LINE,
        )
        assert process.stdout is not None  # noqa: S101 - as asked for
        if await process.stdout.readline() != READY:
            await process.wait()
            raise RuntimeError(f"a process does not serve {address}; it says why above")
        return process

    async def _keep_going(self, port: int, process: asyncio.subprocess.Process) -> None:
        """Read what a process prints; start another if it dies."""
        while True:
            await self._attend(process)
            if self._ending.is_set():
                return
            logger.warning(
                f"the process at port {port} ended by itself (exit code {process.returncode}): "
                "another is started"
            )
            started = await self._start_again(port)
            if started is None:
                return
            process = started

    async def _start_again(self, port: int) -> asyncio.subprocess.Process | None:
        """Start a process, however often that fails; None if it is time to end."""
        while True:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._ending.wait(), _AGAIN_SECONDS)
                return None
            try:
                return await self._start(port)
            except (OSError, RuntimeError) as error:
                logger.warning(str(error))

    async def _attend(self, process: asyncio.subprocess.Process) -> None:
        """Take in a process's records until it has ended; tell it to end when it is time."""
        reading = asyncio.ensure_future(self._read_records(process))
        ending = asyncio.ensure_future(self._ending.wait())
        await asyncio.wait({reading, ending}, return_when=asyncio.FIRST_COMPLETED)
        if ending.done():
            with suppress(ProcessLookupError):
                process.terminate()
            await asyncio.wait({reading}, timeout=self._service.drain_seconds + _KILL_SECONDS)
            if not reading.done():
                process.kill()
        ending.cancel()
        await reading
        await process.wait()

    async def _read_records(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdout is not None  # noqa: S101 - as asked for
        async for line in process.stdout:
            with suppress(ValueError):  # torn, as by a kill
                record = RequestRecord.model_validate_json(line)
                self._totals.add(record)
                if self._page:
                    self._page.add(record)

    def _open_page(self) -> None:
        """Serve the page, if it is wanted."""
        config, log = self._config, self._log.log
        if config.settings.page.enabled:
            from addon.page.server import serve_page

            self._page = serve_page(
                config, self._describe, log, lambda: RecordFile(config.settings.metrics).path
            )

    def _describe(self) -> Mapping[str, object]:
        """Return how the service is, for its page; any thread may ask."""
        return {
            "name": self._run,
            "tag": self._service.tag,
            "state": render_start(self._config),
        }

    def _note_change(self, change: Change) -> None:
        level = logging.WARNING if change.problem else logging.INFO
        self._log.log(level, render_change(self._config, change))


def render_unserved(cuts_mcp: bool) -> list[str]:
    """Return the lines that name what is configured and not done behind Envoy."""
    return ["answers of MCP servers are not cut behind Envoy"] if cuts_mcp else []


@contextmanager
def _hold_ports(service: Service) -> Iterator[list[int]]:
    """Keep the ports for the processes; yield them.

    Another service of the same user may share them. Raises OSError, which names the address that
    cannot be had.
    """
    family = socket.AF_INET6 if ":" in service.host else socket.AF_INET
    with ExitStack() as stack:
        ports = []
        for number in range(service.workers):
            port = service.port and service.port + number
            held = stack.enter_context(socket.socket(family))
            try:
                held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
                held.bind((service.host, port))
            except (OSError, OverflowError) as error:  # also: no such port
                problem = getattr(error, "strerror", None) or str(error)
                raise OSError(f"{Address(service.host, port)}: {problem}") from None
            ports.append(held.getsockname()[1])
        yield ports
