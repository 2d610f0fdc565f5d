"""Plays conversations into a process that remembers what it has read, and into one that does not.

Whatever is sent, both must decide the same and send the same bytes, or fail in the same words; and
what is sent must be what the contract allows (`tests.fuzz.oracle`).
"""

import traceback
from collections.abc import Iterator, Sequence
from random import Random
from typing import NamedTuple

from masking.conversation import read_decoded
from masking.errors import WireError
from masking.known_table import KnownTable
from masking.memory.boundary_memory import BoundaryMemory
from masking.memory.identity import digest_opening
from masking.rewrite import Rewrite, change_request, decode_known
from masking.strategies.order import Strategies
from tests.fuzz.mutations import mutate
from tests.fuzz.oracle import find_fault
from tests.fuzz.settings import choose_strategies
from tests.fuzz.talks import REAL, Talk
from tests.wire_conversations import User, Writer

REQUESTS = 24
"""How many bodies a play has."""


class Sent(NamedTuple):
    """A request of a play; without `elements` if its bytes were damaged on their way."""

    writer: Writer
    body: bytes
    strategies: Strategies
    now: float
    around: tuple[bytes, ...] = ()
    elements: tuple[bytes, ...] = ()


class Finding(NamedTuple):
    """What is wrong with the last request of a play so far: a sentence, and that request."""

    says: str
    play: int
    requests: int
    writer: str
    body: bytes
    strategies: str


class Process:
    """One that masks requests, and remembers of them what its settings let it."""

    def __init__(self, table: KnownTable | None, *, remembers: bool) -> None:
        self._table = table
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
        decoded = decode_known(sent.body, writer.wire, self._table)
        conversation = read_decoded(decoded, writer.wire, writer.path)
        if memory is None:
            return change_request(sent.body, conversation, sent.strategies)
        occasion = memory.meet(conversation, sent.now, 300.0)
        rewrite = change_request(sent.body, conversation, sent.strategies, None, occasion)
        memory.keep(occasion, rewrite.past)
        return rewrite


_RAISED = "raised:"


def compare(cold: Rewrite | str, warm: Rewrite | str) -> str | None:
    """Return in what the outcomes of a request differ; None if they are the same.

    Representations are compared, as 1, 1.0 and true are equal in Python.
    """
    for outcome in (cold, warm):
        if isinstance(outcome, str) and outcome.startswith(_RAISED):
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
    yield "binding", (rewrite.binding, request.binding, rewrite.left_whole)
    yield "results", (request.turns, _show(request.results))
    yield "document", _show(request.document)
    yield "opening", digest_opening(request)
    yield "marks", (request.marks, request.model)
    yield "stream", wire.streams(request.outline, request.path)


def _show(value: object) -> str:
    try:
        return repr(value)
    except RecursionError:
        return "too deep to be shown"


def play(seed: int, number: int) -> Iterator[tuple[Sent, Rewrite | str, str | None]]:
    """Yield the requests of a play, with their outcome, and what is wrong with it."""
    random = Random(f"{seed}.{number}")
    table = KnownTable(random.choice((64 << 20, 64 << 20, 100_000, 9_000)))
    remembers = random.random() < 0.3
    warm, cold = Process(table, remembers=remembers), Process(None, remembers=remembers)
    earlier: list[tuple[Sent, Rewrite]] = []
    for sent in _send(random):
        outcome = cold.mask(sent)
        wrong = compare(outcome, warm.mask(sent))
        if wrong is None and isinstance(outcome, Rewrite):
            name, told = sent.writer.wire.name, sent.strategies
            wrong = find_fault(name, sent.body, outcome, told, remembers=remembers)
            if wrong is None and not remembers:
                wrong = _mask_again(sent, outcome) or _find_return(sent, outcome, earlier)
                earlier.append((sent, outcome))
        yield sent, outcome, wrong


def _mask_again(sent: Sent, outcome: Rewrite) -> str | None:
    """Say if what was sent would be masked anew; a window that slides leaves it alone."""
    chosen, policy = sent.strategies, sent.strategies.schema1
    if outcome.body is sent.body or chosen.reduction.reduces or not policy.slides:
        return None
    if policy.keep_rereads:  # of a list that is masked in part nobody can tell that it was
        return None
    again = Process(None, remembers=False).mask(sent._replace(body=outcome.body))
    is_left = isinstance(again, Rewrite) and again.body is outcome.body
    return None if is_left else f"masked a second time: {again if isinstance(again, str) else ''}"


def _find_return(
    sent: Sent, outcome: Rewrite, earlier: Sequence[tuple[Sent, Rewrite]]
) -> str | None:
    """Say if a conversation that went on has what it had masked before."""
    if outcome.left_whole:
        return None
    for before, then in earlier:
        goes_on = before.elements and before.elements == sent.elements[: len(before.elements)]
        is_same = (before.around, before.strategies) == (sent.around, sent.strategies)
        if goes_on and is_same and not then.masked <= outcome.masked:
            return f"no longer masked: {sorted(then.masked - outcome.masked)}"
    return None


def find(seed: int, numbers: Sequence[int]) -> Iterator[Finding]:
    """Yield what is wrong with these plays; a play ends at its first finding."""
    for number in numbers:
        for count, (sent, _, wrong) in enumerate(play(seed, number), 1):
            if wrong is not None:
                told = (sent.writer.name, sent.body, str(sent.strategies))
                yield Finding(wrong, number, count, *told)
                break


def _send(random: Random) -> Iterator[Sent]:
    writer = random.choice([*REAL.values()])
    odd = random.random() < 0.4
    talks = [Talk(writer, random, odd=odd)]
    talks[0].begin()
    talks[0].say(User("Mend it."))
    strategies = choose_strategies(random)
    now = 0.0
    for _ in range(REQUESTS):
        now += random.choice((1.0, 30.0, 900.0))
        talk = random.choice(talks)
        _move(talk, random)
        if random.random() < 0.06:
            talks.append(_copy(talk))
        if random.random() < 0.15:
            strategies = choose_strategies(random)
        if random.random() < 0.15:
            yield Sent(writer, mutate(talk.body, random), strategies, now)
            continue
        around = (talk.head, talk.comma, talk.tail)
        yield Sent(writer, talk.body, strategies, now, around, (*talk.items,))


def _move(talk: Talk, random: Random) -> None:
    """Let a conversation go on, or something happen to it."""
    chance = random.random()
    if chance < 0.06 and talk.items:
        talk.edit()
    elif chance < 0.12:
        talk.branch()
    elif chance < 0.15:
        talk.begin()
    elif chance < 0.18:
        talk.respell()
    elif chance < 0.28:
        talk.mark_last()
    elif chance < 0.31:
        talk.end_anew()
    elif chance < 0.34:
        return
    for _ in range(random.choice((1, 1, 1, 2, 4))):
        talk.go_on()


def _copy(talk: Talk) -> Talk:
    other = Talk(talk.writer, talk.random, talk.odd, talk.head, talk.tail, talk.comma)
    other.items = [*talk.items]
    return other
