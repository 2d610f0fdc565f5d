"""Masks the calls of a LiteLLM process, and records them; LiteLLM itself is imported elsewhere.

Whatever goes wrong in here, a call goes on as it came.
"""

import functools
import logging
import secrets
import time
from collections import OrderedDict
from collections.abc import Collection, Mapping
from dataclasses import replace
from datetime import datetime
from typing import NamedTuple

from addon.gateways.litellm_call import Call, CallCarrier
from addon.gateways.litellm_usage import spell_usage
from addon.gateways.stateless import without_memory
from addon.metrics.metrics import Measuring, Metrics
from addon.metrics.record_file import default_path
from addon.metrics.stages import Interruption, Rewritten, Run
from addon.shared.config_file import Change, ConfigFile
from addon.shared.config_watch import ConfigWatch
from addon.shared.masker import Masker, Outcome
from addon.shared.pool import Pool
from addon.shared.received import read_received
from addon.shared.requests import is_opened
from addon.shared.state_lines import render_change
from masking.config import Settings
from masking.errors import ConfigError

logger = logging.getLogger("observation_masking")

_MAX_OPEN = 10_000
"""The most calls whose end is waited for. Of the one that was begun first, it never comes then."""

_TAKEN = 200


class _Open(NamedTuple):
    """A call on its way; `started` is local time, as LiteLLM tells it."""

    type: str
    started: datetime
    rewritten: Rewritten
    measuring: Measuring | None = None


class LiteLLMGateway:
    """The masker and the metrics of a process; its threads start with the first call.

    `own` are the names of the arguments that are LiteLLM's own. Calls are told apart by LiteLLM's
    id: a retry has the same one, and so has the call in another format that LiteLLM makes of one.
    """

    def __init__(self, config: ConfigFile, own: Collection[str]) -> None:
        self._config, self._own = config, frozenset(own)
        self._run = Run(secrets.token_hex(4))
        self._pool = Pool()
        self._masker = Masker(lambda: default_path().parent, self._pool)
        self._metrics = Metrics(self._masker.enter)
        self._read, self._settings = config.settings, without_memory(config.settings)
        self._watch: ConfigWatch | None = None
        self._open: OrderedDict[str, _Open] = OrderedDict()

    async def mask(self, call: Call) -> Mapping[str, object] | None:
        """Return the arguments to be put in place of a call's own; None if it goes on as it came.

        Never raises an Exception.
        """
        try:
            return await self._mask(call)
        except Exception as error:  # noqa: BLE001 - the call goes on, whatever happened
            logger.warning(f"a call of LiteLLM was not masked: {type(error).__name__}")
            return None

    def succeed(self, call_id: str, ended: datetime, usage: object, first: datetime | None) -> None:
        """Record a call that was answered, with its usage as LiteLLM reports it.

        `first` is when the first piece of a stream came; None if it was no stream.
        """
        if (found := self._take(call_id, ended)) is None:
            return
        seconds = None if first is None else max(0.0, (first - found.started).total_seconds())
        self._finish(found, status=_TAKEN, usage=usage, first_chunk_seconds=seconds)

    def fail(
        self, call_id: str, ended: datetime, status: int | None, call_type: str | None = None
    ) -> None:
        """Record a call that the provider refused, or did not answer to the end.

        With a type, it is one try of a call of that type.
        """
        open_type = self._open[call_id].type if call_id in self._open else None
        if call_type in (None, open_type) and (found := self._take(call_id, ended)):
            self._finish(found, status=status, error=None if status else "provider failed")

    def drop(self, call_id: str) -> None:
        """Leave out a call that LiteLLM answered by itself, from its own cache."""
        self._open.pop(call_id, None)

    def close(self) -> None:
        """Record what is still open, and wait for all records, though not for ever."""
        while self._open:
            self._finish(self._open.popitem()[1], error="proxy ended")
        if self._watch:
            self._watch.close()
        self._pool.close()
        self._masker.close()
        self._metrics.close()

    async def _mask(self, call: Call) -> Mapping[str, object] | None:
        if call.format is None or self._is_made_of_another(call):
            return None
        settings = self._read_settings()
        if not is_opened(call.deployment.host, settings.hosts):
            return None
        clock, started = time.perf_counter_ns(), datetime.now()
        received = read_received(call.read_request(), settings, call.format, self._run)
        carrier = CallCarrier(call.read_document(self._own))
        outcome = await self._masker.mask(carrier, received)
        rewrite, changed = outcome.rewrite, None
        if rewrite is not None and carrier.is_replaced:
            changed = carrier.edit(rewrite.edits, rewrite.conversation)
        hook_us = (time.perf_counter_ns() - clock) // 1000
        rewritten = replace(outcome.rewritten, hook_us=hook_us)
        self._add(call.id, _Open(call.type, started, rewritten, self._measure(outcome)))
        return changed

    def _measure(self, outcome: Outcome) -> Measuring | None:
        if outcome.rewrite is None:
            return None
        observed = outcome.rewritten.observed
        return self._metrics.measure(outcome.rewrite, outcome.original, observed=observed)

    def _is_made_of_another(self, call: Call) -> bool:
        """Whether LiteLLM makes a call of one in another format, which is masked already.

        A call with the id and the type of an open one is a second try: the first has failed.
        """
        earlier = self._open.get(call.id)
        if earlier is None:
            return False
        if earlier.type != call.type:
            return True
        del self._open[call.id]
        self._finish(earlier, error="provider failed")
        return False

    def _add(self, call_id: str, call: _Open) -> None:
        self._open[call_id] = call
        if len(self._open) > _MAX_OPEN:
            self._finish(self._open.popitem(last=False)[1])

    def _take(self, call_id: str, ended: datetime) -> _Open | None:
        """Return an open call that has ended; LiteLLM may tell late of one that was tried again."""
        found = self._open.get(call_id)
        if found is None or ended < found.started:
            return None
        return self._open.pop(call_id)

    def _finish(
        self,
        call: _Open,
        *,
        status: int | None = None,
        error: Interruption | None = None,
        usage: object = None,
        first_chunk_seconds: float | None = None,
    ) -> None:
        self._metrics.finish(
            call.rewritten,
            call.measuring,
            status=status,
            error=error,
            first_chunk_seconds=first_chunk_seconds,
            read_body=functools.partial(spell_usage, usage),
        )

    def _read_settings(self) -> Settings:
        """Return the settings that hold now; from the first call on, as the file changes."""
        if self._watch is None:
            self._watch = ConfigWatch(self._config, self._note_change)
            self._metrics.configure(self._config.settings.metrics, self._config.advice)
        if self._config.settings is not self._read:
            self._read = self._config.settings
            try:
                self._settings = without_memory(self._read)
            except ConfigError as error:
                logger.warning(f"the settings of before hold: {error}")
        return self._settings

    def _note_change(self, change: Change) -> None:
        self._metrics.configure(self._config.settings.metrics, self._config.advice)
        level = logging.WARNING if change.problem else logging.INFO
        logger.log(level, render_change(self._config, change))
