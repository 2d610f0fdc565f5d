"""A process that masks requests, and how two of them are compared."""

import traceback
from collections.abc import Iterator
from typing import NamedTuple

from masking.errors import WireError
from masking.memory import BoundaryMemory, digest_opening
from masking.proof import Prover
from masking.request_cache import RequestCache
from masking.rewrite import Rewrite, Strategies
from tests.support.priced import rewrite_request
from tests.support.wire_conversations import Writer


class Sent(NamedTuple):
    """A request of a play; without `elements` if its bytes were damaged on their way."""

    writer: Writer
    body: bytes
    strategies: Strategies
    now: float
    around: tuple[bytes, ...] = ()
    elements: tuple[bytes, ...] = ()


class Process:
    """One that masks requests, and remembers of them what its settings let it."""

    def __init__(self, cache: RequestCache, *, remembers: bool) -> None:
        self._cache = cache
        self._prover = Prover()
        self._memory = BoundaryMemory() if remembers else None

    def mask(self, sent: Sent) -> Rewrite | str:
        """Return what becomes of a request, or why it goes out as it came."""
        try:
            return self._mask(sent)
        except WireError as error:
            return str(error)
        except Exception:  # noqa: BLE001 - any other is a finding
            return f"{_RAISED} {traceback.format_exc(limit=-3)}"

    def _mask(self, sent: Sent) -> Rewrite:
        writer, memory = sent.writer, self._memory
        conversation = self._cache.read(sent.body, writer.wire, writer.path)
        if memory is None:
            return rewrite_request(conversation, sent.strategies, prover=self._prover)
        known = memory.lookup(conversation, sent.now, 300.0)
        rewrite = rewrite_request(
            conversation, sent.strategies, only=None, context=known.context, prover=self._prover
        )
        memory.store(known, rewrite.past)
        return rewrite


_RAISED = "raised:"
_NOT_PROVEN = "not proven:"
"""What is rewritten rightly must be proven, or it would leave unmasked."""


def compare(cold: Rewrite | str, warm: Rewrite | str) -> str | None:
    """Return in what the outcomes of a request differ; None if they are the same.

    Representations are compared, as 1, 1.0 and true are equal in Python.
    """
    for outcome in (cold, warm):
        if isinstance(outcome, str) and outcome.startswith((_RAISED, _NOT_PROVEN)):
            return outcome
    if isinstance(cold, str) or isinstance(warm, str):
        told = [each if isinstance(each, str) else "rewritten" for each in (cold, warm)]
        return None if told[0] == told[1] else f"cold: {told[0]}; warm: {told[1]}"
    facts = zip(_find_facts(cold), _find_facts(warm), strict=True)
    differing = [name for (name, one), (_, other) in facts if one != other]
    return f"cold and warm differ in {', '.join(differing)}" if differing else None


def _find_facts(rewrite: Rewrite) -> Iterator[tuple[str, object]]:
    request, wire = rewrite.conversation, rewrite.conversation.wire
    yield "body", rewrite.body
    yield "decisions", _show(rewrite.decisions)
    yield "edits", _show(rewrite.edits)
    yield "masked", rewrite.masked
    yield "past", rewrite.past
    yield "binding", (request.binding, rewrite.left_unmasked)
    yield "results", (request.turns, _show(request.results))
    yield "document", _show(request.document)
    yield "opening", digest_opening(request)
    yield "marks", (request.marks, request.model)
    yield "stream", wire.streams(request.document, request.path)


def _show(value: object) -> str:
    try:
        return repr(value)
    except RecursionError:
        return "too deep to be shown"
