"""Answers the first 400 of a conversation by sending the request as the client wrote it, once.

Whatever goes wrong with that, the client gets the 400.
"""

import asyncio
import logging
from collections import defaultdict
from dataclasses import replace
from http import HTTPStatus

from mitmproxy import ctx, http
from mitmproxy.connection import Client

from addon.metrics.metrics import Measuring, Metrics
from addon.metrics.stages import Resent, Rewritten
from addon.proxy.carriers import HttpCarrier
from addon.proxy.marks import mark_resent
from addon.proxy.original_body import drop_original
from addon.proxy.second_try import SecondTry, set_wire_body
from addon.shared.masker import Masker, WholeRequest

logger = logging.getLogger("observation_masking")

_NO_VERDICT = (HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_MANY_REQUESTS)
"""Statuses below 500 that say nothing of what was asked."""

_Try = asyncio.Task[http.Response | None]


class Resending:
    """Sends requests again, and records them as they were taken."""

    def __init__(self, masker: Masker, metrics: Metrics) -> None:
        self._masker, self._metrics = masker, metrics
        self._tries: defaultdict[str, set[_Try]] = defaultdict(set)

    async def resend(
        self, flow: http.HTTPFlow, whole: WholeRequest, rewritten: Rewritten
    ) -> tuple[Rewritten, Measuring | None] | None:
        """Send a request again; on return the flow has the answer to that, if one came.

        Returns the request as it is to be recorded, and its measuring if that changes. None if the
        conversation was tried meanwhile.
        """
        refusals = self._masker.refusals
        # A request beside the one that was tried first was masked before that was known.
        if not refusals.begin(whole.conversation) and not refusals.goes_whole(whole.conversation):
            return None
        status, response = await self._send(flow, whole)
        refusals.settle(whole.conversation, _find_verdict(status))
        if response is not None:
            flow.response = response
        if not _is_success(status):
            return replace(rewritten, resent="refused"), None
        # The recording of it, and its record, are of the request that was taken.
        set_wire_body(flow.request, whole.body)
        drop_original(flow)
        taken, rewrite, original, _ = await self._masker.mask(HttpCarrier(flow), rewritten.received)
        mark_resent(flow)
        taken = replace(taken, resent="accepted", hook_us=rewritten.hook_us)
        return taken, self._metrics.measure(rewrite, original) if rewrite else None

    def leave(self, client: Client) -> None:
        """Give up what is sent again for a client that has left."""
        for task in tuple(self._tries.get(client.id, ())):
            task.cancel()

    def done(self) -> None:
        """Give up all that is sent again."""
        for tasks in tuple(self._tries.values()):
            for task in tuple(tasks):
                task.cancel()

    async def _send(
        self, flow: http.HTTPFlow, whole: WholeRequest
    ) -> tuple[int | None, http.Response | None]:
        """Return the status of the answer, if it began, and the answer, if it came to its end."""
        tried = SecondTry(flow, whole.body, ctx.options)
        task, client = asyncio.create_task(tried.send()), flow.client_conn.id
        self._tries[client].add(task)
        try:
            await asyncio.wait({task})
        finally:
            task.cancel()
            self._tries[client].discard(task)
            if not self._tries[client]:
                del self._tries[client]
        if task.cancelled():
            return tried.status, None
        if error := task.exception():
            logger.warning(f"a request could not be sent again ({type(error).__name__})")
            return tried.status, None
        return tried.status, task.result()


def is_refused(flow: http.HTTPFlow, whole: WholeRequest | None) -> bool:
    """Whether a provider refused a request that may be sent again.

    Not if it was changed since it was masked: what others take out of it must not come back.
    """
    return (
        whole is not None
        and flow.response is not None
        and flow.response.status_code == HTTPStatus.BAD_REQUEST
        and flow.is_replay is None
        and flow.request.raw_content is whole.masked
    )


def _is_success(status: int | None) -> bool:
    return status is not None and HTTPStatus.OK <= status < HTTPStatus.MULTIPLE_CHOICES


def _find_verdict(status: int | None) -> Resent | None:
    """Return what a status says of a request; None if it says nothing, as where one has to wait."""
    if _is_success(status):
        return "accepted"
    if status is not None and (status >= HTTPStatus.INTERNAL_SERVER_ERROR or status in _NO_VERDICT):
        return None
    return "refused"
