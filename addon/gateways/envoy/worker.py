"""A process that serves Envoy: `python -m addon.gateways.envoy.worker OPTIONS`.

It prints a line once it serves, and then each record as a line of JSON. It ends when it is told to
(SIGTERM), or when its standard input does: whoever started it is gone.
"""

import asyncio
import logging
import os
import signal
import sys
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import grpc
import orjson
from grpc_health.v1 import health, health_pb2, health_pb2_grpc

from addon.config import ConfigFile, without_memory
from addon.gateways.envoy.messages import METHOD, SERVICE, read_message
from addon.gateways.envoy.stream import HOST_KEY, Processor
from addon.gateways.envoy.supervisor import READY, WorkerOptions
from addon.records.file import render_record
from addon.records.record import RequestRecord
from addon.stages import Run

MAX_MESSAGE_BYTES = 256 * 1024 * 1024
"""The longest body that is taken, and somewhat more."""

NOTICE_SECONDS = 3.0
"""From the first sign that it ends to the end of taking new exchanges: Envoy, which asks how we are
every two seconds, is to send them elsewhere by then."""

_OPTIONS = (
    ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES),
    ("grpc.max_send_message_length", MAX_MESSAGE_BYTES),
    ("grpc.so_reuseport", 1),
)


async def serve(options: WorkerOptions, say: Callable[[bytes], object]) -> None:
    """Serve until told to end. Raises ConfigError, and RuntimeError if the address is taken."""
    awaited = Path(options.awaited) if options.awaited else None
    config = ConfigFile(Path(options.config), options.overrides, without_memory, awaited)
    run = Run(options.run, options.tag)
    processor = Processor(config, run, lambda record: say(_as_line(record)))
    server = grpc.aio.server(options=_OPTIONS)
    state = _add_services(server, processor)
    server.add_insecure_port(options.address)
    stopping = _watch_for_end()
    processor.start(options.page)
    await server.start()
    say(READY)
    await stopping.wait()
    for name in ("", SERVICE):
        await state.set(name, health_pb2.HealthCheckResponse.NOT_SERVING)
    await asyncio.sleep(min(NOTICE_SECONDS, options.drain_seconds))
    ending = asyncio.ensure_future(server.stop(options.drain_seconds))
    await asyncio.wait({ending}, timeout=options.drain_seconds)
    processor.stop()
    await ending
    await asyncio.to_thread(processor.close)


def _add_services(server: Any, processor: Processor) -> Any:  # noqa: ANN401 - without types
    """Add what Envoy calls to a server; return what tells it how we are."""

    async def process(messages: AsyncIterator[Any], context: Any) -> AsyncIterator[bytes]:  # noqa: ANN401
        host = dict(context.invocation_metadata() or ()).get(HOST_KEY)
        async for response in processor.process(messages, host):
            yield response

    handler = grpc.stream_stream_rpc_method_handler(process, read_message, None)
    server.add_generic_rpc_handlers(
        (grpc.method_handlers_generic_handler(SERVICE, {METHOD: handler}),)
    )
    state = health.aio.HealthServicer()
    health_pb2_grpc.add_HealthServicer_to_server(state, server)
    for name in ("", SERVICE):
        state._server_status[name] = health_pb2.HealthCheckResponse.SERVING
    return state


def _watch_for_end() -> asyncio.Event:
    """Return what is set once this process is told to end."""
    loop, stopping = asyncio.get_running_loop(), asyncio.Event()
    loop.add_signal_handler(signal.SIGTERM, stopping.set)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for whoever started us

    def wait() -> None:
        with suppress(OSError):
            while os.read(sys.stdin.fileno(), 4096):
                pass
        with suppress(RuntimeError):  # it has ended already
            loop.call_soon_threadsafe(stopping.set)

    threading.Thread(target=wait, name="input", daemon=True).start()
    return stopping


def _as_line(record: RequestRecord) -> bytes:
    return render_record(record.dump())


def _say(line: bytes) -> None:
    sys.stdout.buffer.write(line)
    sys.stdout.buffer.flush()


def main() -> None:
    """Serve as the one argument says, which is JSON; one line says what is in the way."""
    logging.basicConfig(format="[%(asctime)s] %(message)s", datefmt="%H:%M:%S")
    logging.getLogger("observation_masking").setLevel(logging.INFO)
    try:
        asyncio.run(serve(WorkerOptions(**orjson.loads(sys.argv[1])), _say))
    except (OSError, ValueError, RuntimeError) as error:
        sys.exit(f"obsmask: {error}")


if __name__ == "__main__":
    main()
