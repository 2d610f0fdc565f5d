"""Where the boundary of what is masked stands, given the price of a broken prompt cache.

A provider sells a prompt's cached prefix at a discount. Masking another result breaks that prefix
from there on, which is paid once. Leaving it costs rent, at every request. So the boundary stays
where it is until moving pays, and then moves to the edge of the window.

It is derived anew from the messages of every request, because all earlier requests are in them.
There is no state: a restart, a retry and a second replica render the same bytes. Where the moves
that were really made are remembered, they replace those that the rule would have made, and only the
last request is decided.
"""

from collections.abc import Sequence
from typing import NamedTuple

from masking.history import History
from masking.model import Maskable, Request
from masking.strategies.boundary_fold import Boundary, BoundaryFold, Made
from masking.strategies.policy import MaskPolicy


def find_boundary(
    requests: Sequence[Request],
    results: Sequence[Maskable],
    policy: MaskPolicy,
    marked: float = 0.0,
    history: History | None = None,
) -> Boundary:
    """Return the boundary at the last of a conversation's requests.

    `requests` are all requests, oldest first; `results` are those of the last, in order; `marked`
    is the size of what stands before the messages, up to the last cache mark in it.

    The boundary never goes back while a conversation grows by appending. Where a cached token
    costs as much as a written one, it is the window's edge. At no request has the bill exceeded
    `1 + policy.estimated_loss` times that of sending everything, in the unit of the sizes. Linear
    in the conversation; with its `history`, in what is new in it.
    """
    last = requests[-1]
    if policy.slides:
        return Boundary(policy.find_edge(last.turns), last.results)
    fold = _go_on(requests[:-1], results, policy, marked, None, history)
    fold.begin(last)
    fold.decide(last)
    return fold.boundary


def find_boundaries(
    requests: Sequence[Request],
    results: Sequence[Maskable],
    policy: MaskPolicy,
    marked: float = 0.0,
) -> list[Boundary]:
    """Return the boundary at each of a conversation's requests, in one pass.

    Each is what `find_boundary` returns for the requests up to it; later ones do not matter.
    """
    if policy.slides:
        return [Boundary(policy.find_edge(turns), count) for _, turns, count in requests]
    fold = BoundaryFold(policy, marked)
    boundaries = []
    for request in requests:
        fold.begin(request)
        fold.decide(request)
        fold.send(request, results)
        boundaries.append(fold.boundary)
    return boundaries


def find_next_move(
    requests: Sequence[Request],
    results: Sequence[Maskable],
    policy: MaskPolicy,
    made: Made,
    marked: float = 0.0,
    history: History | None = None,
) -> Boundary | None:
    """Return where the boundary moves to at the last request; None if it stays.

    Earlier requests are taken as they were sent. A prefix that the provider has forgotten must be
    written anew in any case; then the boundary moves as far as the promise allows should that
    guess be wrong. A move made at the last request itself stands, so that a second try sends the
    same bytes.
    """
    last, number = requests[-1], len(requests) - 1
    if made.held or number in made.masked:
        return None
    if policy.slides:
        return Boundary(policy.find_edge(last.turns), last.results)
    fold = _go_on(requests[:-1], results, policy, marked, made, history)
    fold.begin(last)
    if number == made.met:
        fold.forget_rent()
    fold.decide(last, expired=made.expired)
    return fold.boundary if fold.boundary.results else None


def allows_whole(
    requests: Sequence[Request],
    results: Sequence[Maskable],
    policy: MaskPolicy,
    made: Made | None = None,
    marked: float = 0.0,
) -> bool:
    """Whether the promise of `max_loss` holds if the last request is sent with nothing masked.

    Without what was `made`, earlier requests are taken to have been sent as the rule has it.
    """
    if policy.slides:
        return True
    fold = _go_on(requests[:-1], results, policy, marked, made, None)
    fold.begin(requests[-1])
    if made is not None:
        fold.take_move(made.masked.get(len(requests) - 1, ()), results)
    return fold.covers_whole(requests[-1])


def _go_on(
    requests: Sequence[Request],
    results: Sequence[Maskable],
    policy: MaskPolicy,
    marked: float,
    made: Made | None,
    history: History | None,
) -> BoundaryFold:
    """Return the fold over requests that were sent; the caller's own.

    They were sent with the moves that were `made`, or with those of the rule. What is remembered
    holds if it was worked out from the first of these requests, results and moves.
    """
    under = policy, marked, made is None
    fold, known = BoundaryFold(policy, marked), 0
    sent = None if history is None else history.recall(_Sent)
    if (
        sent is not None
        and sent.under == under
        and sent.requests == requests[: len(sent.requests)]
        and sent.fold.continues(results, made)
    ):
        fold, known = sent.fold.copy(), len(sent.requests)
    for number in range(known, len(requests)):
        request = requests[number]
        fold.begin(request)
        if made is None:
            fold.decide(request)
        else:
            if number == made.met:
                fold.forget_rent()
            if number in made.masked:
                fold.take_move(made.masked[number], results)
        fold.send(request, results)
    if history is not None:
        history.keep(_Sent(under, requests, fold))
        fold = fold.copy()
    return fold


class _Sent(NamedTuple):
    """The fold over the requests that were sent so far, and what it was worked out under."""

    under: tuple[MaskPolicy, float, bool]
    requests: Sequence[Request]
    fold: BoundaryFold
