"""The service that Envoy calls: a stream for each exchange, from the first part to the last."""

import logging
from collections.abc import AsyncIterator
from typing import Any

from addon.gateways.envoy.exchange import Exchange, Tools
from addon.gateways.envoy.messages import GO_ON, Part, read_part
from addon.metrics.metrics import Metrics, Sink
from addon.metrics.record_file import default_path
from addon.metrics.stages import Run
from addon.shared.config_file import Change, ConfigFile
from addon.shared.config_watch import ConfigWatch
from addon.shared.masker import Masker
from addon.shared.pool import Pool, share_interpreter

logger = logging.getLogger("observation_masking")

HOST_KEY = "obsmask-host"
"""What Envoy's configuration can give a route to name the provider's host (gRPC metadata)."""


class Processor:
    """The exchanges of a process. To be made and used in the event loop.

    `sink` gets each record. Changes of the configuration are taken up in silence: whoever started
    this process reads the file, too.
    """

    def __init__(self, config: ConfigFile, run: Run, sink: Sink) -> None:
        self._config, self._pool = config, Pool()
        masker = Masker(lambda: default_path().parent, self._pool)
        metrics = Metrics(masker.enter)
        metrics.sinks.append(sink)
        self._tools = Tools(masker, metrics, run)
        self._watch: ConfigWatch | None = None
        self._is_stopping = False

    def start(self) -> None:
        """Take up the configuration, and its changes from now on."""
        share_interpreter()
        self._tools.metrics.start()
        self._tools.metrics.configure(self._config.settings.metrics, self._config.advice)
        self._watch = ConfigWatch(self._config, self._note_change)

    async def process(self, messages: AsyncIterator[Any], host: str | None) -> AsyncIterator[bytes]:
        """Yield what is to be said to Envoy's messages of one exchange."""
        exchange = Exchange(self._tools, self._config.settings, host)
        try:
            async for message in messages:
                part = read_part(message)
                if part is None:
                    break  # Envoy never sends such a message; whoever does gets no answer
                async for response in _guard(exchange, part):
                    yield response
                if exchange.is_over:
                    break  # Envoy goes on without us, and holds no stream open for it
        finally:
            exchange.end(stopping=self._is_stopping)

    def stop(self) -> None:
        """Take what breaks off from now on for our own end."""
        self._is_stopping = True

    def close(self) -> None:
        """End, once what is to be recorded is recorded."""
        if self._watch:
            self._watch.close()
        self._pool.close()
        self._tools.masker.close()
        self._tools.metrics.close()

    def _note_change(self, _: Change) -> None:
        self._tools.metrics.configure(self._config.settings.metrics, self._config.advice)


async def _guard(exchange: Exchange, part: Part) -> AsyncIterator[bytes]:
    """Yield what an exchange says to a part; if it fails, that it goes on as it came."""
    try:
        async for response in exchange.receive(part):
            yield response
    except Exception as error:  # noqa: BLE001 - the traffic goes on, whatever happened
        logger.warning(f"a part of an exchange was not looked at: {type(error).__name__}")
        yield GO_ON[part.kind]
