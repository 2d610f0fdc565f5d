"""The board in the words and numbers of the page, as JSON: sums, rows, one conversation."""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from itertools import accumulate
from typing import NamedTuple

from addon.page.board import Conversation, Described, ShownRequest, View
from addon.records.harm import judge
from addon.records.harm_words import NOTE, describe_measures, render_left_out, render_verdict
from addon.records.holdout import Holdout
from addon.records.tally import Tally
from addon.records.words import (
    explain_unmasked,
    find_currency,
    list_clearings,
    list_rereads,
    render_net,
    render_resent,
    render_tally,
)
from masking.accounting import Move, divide_savings

_SPARK = 60
"""The points of a sparkline: of the latest requests."""

_UNFIT = "without masking it would no longer fit its model, which takes {:,} tokens"


def describe_view(view: View) -> Described:
    """Return the sums of the run, and a row for each of the view's conversations."""
    return {
        "version": view.version,
        "is_whole": view.is_whole,
        "total": {**describe_sums(view.total), "conversations": len(view.total.conversations)},
        "harm": _describe_harm(view.holdout),
        "conversations": [describe_row(each) for each in view.conversations],
    }


def _describe_harm(holdout: Holdout) -> Described | None:
    verdict = judge(holdout, datetime.now(UTC))
    if verdict is None:
        return None
    notes = [NOTE if verdict.can_compare else "", render_left_out(verdict.left_out)]
    return {
        "kind": verdict.kind,
        "verdict": _as_sentence(render_verdict(verdict)),
        "measures": [*map(list, describe_measures(verdict))] if verdict.can_compare else [],
        "note": " ".join(_as_sentence(note) for note in notes if note),
    }


def _as_sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}."


def describe_row(conversation: Conversation) -> Described:
    """Return a conversation in short."""
    sums = describe_sums(conversation.tally)
    return {
        "key": conversation.key,
        "number": conversation.number,
        "names": conversation.names,
        "folder": conversation.folder,
        "began": conversation.began,
        "label": conversation.label,
        "unfit": conversation.unfit and _UNFIT.format(conversation.unfit),
        "changed": conversation.changed,
        "time": conversation.requests[-1].time if conversation.requests else None,
        "saved": _accumulate(conversation)[-_SPARK:],
        **sums,
        "notes": [*_list_signs(conversation), *sums["notes"]],
    }


_UNUSUAL = 5
"""Agents repeat calls now and then without masking, too: about one in a hundred is of a result that
would have been masked (docs/measured/savings.md). So in 20 requests so many are hardly chance."""


def _list_signs(conversation: Conversation) -> Iterator[str]:
    """Yield what hints that the window is too small for a conversation; nothing depends on it."""
    asked = sum(conversation.rereads)
    if asked >= _UNUSUAL:
        yield (
            f"in its last {len(conversation.rereads)} requests, it asked {asked} times for what "
            "was masked: a larger window (schema1.window_turns) may be cheaper"
        )


def describe_sums(tally: Tally) -> Described:
    """Return the sums of some requests: numbers to sort by, and sentences to read.

    If all of them were observed only, the numbers are what masking would have done.
    """
    line, notes, waits = render_tally(tally), [*_list_notes(tally)], tally.waits
    is_observed, tally = is_observed_only(tally), _shown_sums(tally)
    currency, money = find_currency(tally.masked_bill), tally.masked_bill.shown
    paid = money.before if is_observed else money.after
    return {
        "is_observed": is_observed,
        "requests": tally.count,
        "failed": tally.failed,
        "smaller": 1 - tally.tokens_after / tally.tokens_before if tally.tokens_before else None,
        "cached": tally.cached_tokens / tally.prompt_tokens if tally.prompt_tokens else None,
        "wait": waits.percentile(50),
        "masked": tally.changed,
        "cost": currency.render(paid) if money.requests else "",
        "net": render_net(money, currency),
        "is_loss": money.is_certain and money.saved < 0,
        "line": line,
        "notes": notes,
        "why": explain_unmasked(tally) if tally.count and not tally.changed else None,
    }


def describe_conversation(conversation: Conversation) -> Described:
    """Return a conversation with its requests and the moves of its boundary."""
    unit = _find_unit(conversation)
    requests = [*conversation.requests]
    # What was left out at arrival, no move has saved.
    saved = [
        saved - (_save_at_arrival(request, unit) if saved else 0.0)
        for saved, request in zip(_list_savings(conversation), requests, strict=True)
    ]
    moves = find_moves(requests, saved, unit)
    return {
        **describe_row(conversation),
        "forgotten": conversation.forgotten,
        "unit": unit,
        "saved": _accumulate(conversation),
        "moves": [move._asdict() for move in moves],
        "columns": ShownRequest._fields,
        "all": [list(request) for request in conversation.requests],
    }


def _list_notes(tally: Tally) -> Iterator[str]:
    if tally.resent:
        yield render_resent(tally)
    yield from list_clearings(tally)
    yield from list_rereads(tally)


def is_observed_only(tally: Tally) -> bool:
    """Whether all requests left as the agents wrote them, so that nothing was masked."""
    return tally.count > 0 and tally.requests["observed"] == tally.count


def _find_unit(conversation: Conversation) -> str:
    """Return the unit of a conversation's money: US dollars if any price is known."""
    return "usd" if _shown_sums(conversation.tally).masked_bill.is_in_dollars else "input_tokens"


def _shown_sums(tally: Tally) -> Tally:
    """Return the sums to show: as if masked, where all was observed only."""
    return tally.observed if tally.observed and is_observed_only(tally) else tally


def _accumulate(conversation: Conversation) -> list[float]:
    """Return what was saved up to each request that is kept, in the conversation's unit."""
    money = _shown_sums(conversation.tally).masked_bill.shown
    steps = _list_savings(conversation)
    before = money.saved - sum(steps)  # what those saved that are not kept any more
    return [round(before + total, 6) for total in accumulate(steps)]


def _list_savings(conversation: Conversation) -> list[float]:
    """Return what each request that is kept saved."""
    is_observed = is_observed_only(conversation.tally)
    unit = _find_unit(conversation)
    # What masking would have saved is no part of what was saved where some requests were masked.
    return [
        _save(request, unit) if is_observed or not request.observed else 0.0
        for request in conversation.requests
    ]


def _save_at_arrival(request: ShownRequest, unit: str) -> float:
    return request.arrival_dollars if unit == "usd" else request.arrival_tokens


def _save(request: ShownRequest, unit: str) -> float:
    if unit == "usd":
        return (request.dollars_before or 0.0) - (request.dollars_after or 0.0)
    return (request.tokens_before or 0.0) - (request.tokens_after or 0.0)


# The moves of the boundary


class ShownMove(NamedTuple):
    """A move, at a `request` counted from 0.

    results: how many results it masked.
    removed: the tokens that it took out.
    price: what it cost, as what follows the newly masked results was written to the cache anew.
    saved: what it has saved up to the last request, its price not deducted.
    repaid_at: the request by which it had saved its price; None if it has not.
    """

    request: int
    results: int
    removed: int
    price: float
    saved: float
    repaid_at: int | None


def find_moves(
    requests: Sequence[ShownRequest], saved: Sequence[float], unit: str
) -> list[ShownMove]:
    """Return the moves in order; `saved` is what each request saved, in `unit`."""
    moves = [_read_move(at, requests, unit) for at, each in enumerate(requests) if each.moved]
    # What was taken out before the first request that is kept has its part, too.
    is_first_kept = bool(requests) and not requests[0].moved
    before = float(_spared_by_moves(requests[0])) if is_first_kept else 0.0
    earned = divide_savings(
        [Move(move.request, move.removed, move.price) for move in moves], saved, before
    )
    return [move._replace(**each._asdict()) for move, each in zip(moves, earned, strict=True)]


def _read_move(at: int, requests: Sequence[ShownRequest], unit: str) -> ShownMove:
    """Return a move as it stands at its own request."""
    request = requests[at]
    last = requests[at - 1] if at else None
    masked, spared = (last.masked, _spared_by_moves(last)) if last else (0, 0)
    price = request.move_price or 0.0
    if unit == "usd":
        price *= (request.dollars_after or 0.0) / (request.tokens_after or 1.0)
    removed = _spared_by_moves(request) - spared
    return ShownMove(at, request.masked - masked, removed, price, 0.0, None)


def _spared_by_moves(request: ShownRequest) -> int:
    """Return the tokens that masking took out, without those that were left out at arrival."""
    return 0 if request.spared is None else request.spared - request.left_out
