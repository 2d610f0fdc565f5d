"""Plays conversations into a process that remembers what it has read, and into one that does not.

Whatever is sent, both must decide the same and send the same bytes, or fail in the same words; and
what is sent must be what the contract wants (`tests.tools.fuzz.oracle`).
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from random import Random
from typing import NamedTuple

from masking.reduction import ReductionOptions
from masking.request_cache import RequestCache
from masking.rewrite import Rewrite, Strategies
from tests.spec.readers import Unclear
from tests.spec.reference import ends_within_answer, read
from tests.support.priced import at_prices, prices_of
from tests.support.wire_conversations import User
from tests.tools.fuzz.billing import cut, find_worst
from tests.tools.fuzz.mutations import mutate
from tests.tools.fuzz.oracle import Remembered, decode, find_fault, is_bound
from tests.tools.fuzz.process import Process, Sent, compare
from tests.tools.fuzz.recorded import begin as begin_recorded
from tests.tools.fuzz.reduced import find_reduction_fault
from tests.tools.fuzz.settings import choose_prices, choose_strategies
from tests.tools.fuzz.talks import REAL, Talk

_SMALL_LEAST = 1_024

REQUESTS = 24
"""How many bodies a play has."""


class Processes(NamedTuple):
    """What a play is sent to.

    max_bytes: what one process remembers of what it has read.
    remembers: whether both remember what they have masked.
    bills: the number of the request whose conversation is taken to have been sent from its
        beginning on, so that the promise must hold.
    """

    max_bytes: int
    remembers: bool
    bills: int | None


def play(seed: int, number: int) -> Iterator[tuple[Sent, Rewrite | str, str | None]]:
    """Yield the requests of a play, with their outcome, and what is wrong with it."""
    yield from check(*prepare(seed, number))


def prepare(seed: int, number: int) -> tuple[Iterator[Sent], Processes]:
    """Return the requests of a play, and what they are sent to."""
    random = Random(f"{seed}.{number}")
    max_bytes = random.choice((64 << 20, 64 << 20, 100_000, 9_000))
    remembers = random.random() < 0.3
    is_billed = random.random() < 0.3
    bills = random.randrange(8, REQUESTS) if is_billed else None
    return _send(random), Processes(max_bytes, remembers, bills)


def check(
    requests: Iterable[Sent], processes: Processes
) -> Iterator[tuple[Sent, Rewrite | str, str | None]]:
    """Yield requests, with their outcome, and what is wrong with it."""
    max_bytes, remembers, bills = processes
    warm, cold = (
        Process(t, remembers=remembers) for t in (RequestCache(max_bytes), RequestCache(0))
    )
    earlier: list[tuple[Sent, Rewrite]] = []
    remembered = Remembered() if remembers else None
    for count, sent in enumerate(requests, 1):
        outcome = cold.mask(sent)
        wrong = compare(outcome, warm.mask(sent))
        if wrong is None and isinstance(outcome, Rewrite):
            name, told = sent.writer.wire.name, sent.strategies
            wrong = find_fault(name, sent.body, outcome, told, remembered)
            if wrong is None and not remembers:
                wrong = (
                    _mask_again(sent, outcome)
                    or _find_return(sent, outcome, earlier)
                    or _reduce(sent, outcome)
                )
                earlier.append((sent, outcome))
                if count == bills and sent.elements:
                    wrong = wrong or _bill(sent)
        yield sent, outcome, wrong


def _mask_again(sent: Sent, outcome: Rewrite) -> str | None:
    """Say if what was sent would be masked anew; a window that slides leaves it alone.

    A known limit: where redaction takes the words that make a result look like an error, nothing
    keeps the image beside them any longer.
    """
    chosen, policy = sent.strategies, sent.strategies.schema1
    if outcome.body is sent.body or chosen.reduction.reduces or not prices_of(policy).slides:
        return None
    if chosen.redaction.enabled and policy.mask_images and policy.keep_errors:
        return None
    if policy.keep_rereads:  # of a list that is masked in part nobody can tell that it was
        return None
    again = Process(RequestCache(0), remembers=False).mask(sent._replace(body=outcome.body))
    is_left = isinstance(again, Rewrite) and again.body is outcome.body
    return None if is_left else f"masked a second time: {again if isinstance(again, str) else ''}"


def _find_return(
    sent: Sent, outcome: Rewrite, earlier: Sequence[tuple[Sent, Rewrite]]
) -> str | None:
    """Say if a conversation that went on has what it had masked before.

    A known limit: a request may end within an answer, where a run of elements is one. If the model
    goes on with it, the next request shows one answer, and no request in its middle.
    """
    if outcome.left_unmasked:
        return None
    for before, then in earlier:
        goes_on = before.elements and before.elements == sent.elements[: len(before.elements)]
        is_same = (before.around, before.strategies) == (sent.around, sent.strategies)
        is_kept = then.masked <= outcome.masked
        if goes_on and is_same and not is_kept and not _ends_within_answer(before):
            return f"no longer masked: {sorted(then.masked - outcome.masked)}"
    return None


def _ends_within_answer(sent: Sent) -> bool:
    try:
        return ends_within_answer(sent.writer.wire.name, decode(sent.body))
    except (RecursionError, Unclear):
        return True


def _reduce(sent: Sent, outcome: Rewrite) -> str | None:
    """Say what is wrong with a reduction, beside the same request without one."""
    options = sent.strategies.reduction
    if not options.reduces or is_bound(outcome, sent.strategies):
        return None
    unreduced = replace(sent.strategies, reduction=ReductionOptions())
    before = Process(RequestCache(0), remembers=False).mask(sent._replace(strategies=unreduced))
    if not isinstance(before, Rewrite):
        return f"fails without reduction: {before}"
    name = sent.writer.wire.name
    if wrong := find_fault(name, sent.body, before, unreduced):
        return wrong
    settled = [d.reason in ("masked", "redacted", "already_masked") for d in before.decisions]
    try:
        return find_reduction_fault(name, before.body, outcome.body, settled, options)
    except (RecursionError, Unclear):
        return None


def _bill(sent: Sent) -> str | None:
    """Say if the promise of `max_loss` is broken at a request of a conversation.

    It is billed under prices at which much can be lost, whatever it was sent under. Nothing is
    promised where a placeholder may be longer than what it replaces.

    Known limits: after a request for a summary that was left whole, the promise ends, if the agent
    goes on with the whole history all the same; and where a cache holds any prefix of a thousand
    tokens, a prompt that masking makes shorter than that is paid in full, and may exceed it.
    """
    priced = choose_prices(at_prices(sent.strategies.schema1), Random(sent.body))
    if not priced.skip_if_not_shorter and priced.prices.slides:
        return None
    if priced.reads_at == "any prefix" and priced.shortest_prefix <= _SMALL_LEAST:
        priced = replace(priced, shortest_prefix=0)
    chosen = Strategies(schema1=priced)
    wire, (head, comma, tail) = sent.writer.wire, sent.around
    try:
        found = read(wire.name, decode(sent.body))
    except Unclear:
        return None
    whole, paid = [], []
    masked: frozenset[int] = frozenset()
    for end in (*found.starts, len(sent.elements)):
        body = head + comma.join(sent.elements[:end]) + tail
        outcome = Process(RequestCache(0), remembers=False).mask(
            sent._replace(body=body, strategies=chosen)
        )
        if not isinstance(outcome, Rewrite):
            return None
        whole.append(cut(decode(body), wire, found.at))
        paid.append(cut(decode(outcome.body), wire, found.at))
        if outcome.left_unmasked:
            break
        if not masked <= outcome.masked:
            return f"masked no longer at request {len(whole)}, in a conversation that grows"
        masked = outcome.masked
    over, bill, number = find_worst(whole, paid, priced)
    if over <= 1e-6 * bill:
        return None
    return f"max_loss is exceeded at request {number}: {over:.1f} tokens too many, of {bill:.0f}"


def _send(random: Random) -> Iterator[Sent]:
    odd = random.random() < 0.4
    if random.random() < 0.1:
        talks = [begin_recorded(random, odd=odd)]
    else:
        talks = [Talk(random.choice([*REAL.values()]), random, odd=odd)]
        talks[0].begin()
        talks[0].say(User("Mend it."))
    writer = talks[0].writer
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
