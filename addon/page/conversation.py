"""One conversation of the board as parts of a page: its savings, prompts, results and moves."""

from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import NamedTuple

from addon.counts import pluralize
from addon.look.parts import (
    Cell,
    Column,
    Part,
    Series,
    amount,
    cell,
    chart,
    charts,
    legend,
    masking_map,
    more,
    moves_of,
    render_compact,
    render_on_axis,
    table,
    text,
    title,
)
from addon.page.board import Conversation, ShownRequest
from addon.records.words import DOLLARS, INPUT_TOKENS, Currency
from masking.accounting import NO_MONEY, PARTS, Money, Move, divide_savings


def name_conversation(conversation: Conversation) -> str:
    """Return who speaks with what, where: `codex, gpt-5.5, api.openai.com, garden`."""
    return ", ".join(filter(None, (*conversation.names, conversation.folder)))


def list_parts(conversation: Conversation) -> Iterator[Part]:
    """Yield what is known of a conversation's requests, as far as they are kept."""
    requests = [*conversation.requests]
    yield from _list_limits(conversation, requests)
    if not requests:
        return
    currency = find_unit(conversation)
    steps = [money.saved for money in list_money(conversation)]
    saved = accumulate_savings(conversation)
    moves = find_moves(conversation)
    yield from _chart(requests, saved, [move.request for move in moves], currency)
    yield from masking_map([request.row or () for request in requests])
    yield from moves_of(moves, len(requests), currency)
    yield _list_requests(requests, steps, currency)


def _list_limits(conversation: Conversation, requests: Sequence[ShownRequest]) -> Iterator[Part]:
    """Yield of what the rest tells."""
    observed = sum(request.observed for request in requests)
    if conversation.tally.is_observed_only:
        yield text(
            "These requests left as the agent wrote them: what follows is what masking would have "
            "done, and would have saved.",
            "warning",
        )
    elif observed:
        yield text(
            f"Of these, {pluralize(observed, 'request')} left as the agent wrote them: what "
            "follows is what masking would have done to them, without its savings.",
            "warning",
        )
    if conversation.forgotten:
        yield text(
            f"What follows is about the last {pluralize(len(requests), 'request')}; "
            f"{pluralize(conversation.forgotten, 'earlier one')} are in the sums alone.",
            "note",
        )


# What each request saved


def find_unit(conversation: Conversation) -> Currency:
    """Return the unit of a conversation's money: US dollars if any price is known."""
    in_dollars = conversation.tally.shown.masked_bill.is_in_dollars
    return DOLLARS if in_dollars else INPUT_TOKENS


def accumulate_savings(conversation: Conversation) -> list[float]:
    """Return what was saved up to each request that is kept, in the conversation's unit."""
    money = conversation.tally.shown.masked_bill.shown
    steps = [each.saved for each in list_money(conversation)]
    before = money.saved - sum(steps)  # what those saved that are not kept any more
    return [round(before + total, 6) for total in accumulate(steps)]


def list_money(conversation: Conversation) -> list[Money]:
    """Return what each request that is kept cost, in the conversation's unit."""
    is_observed = conversation.tally.is_observed_only
    unit = find_unit(conversation)
    # What masking would have saved is no part of what was saved where some requests were masked.
    return [
        _choose_money(request, unit) if is_observed or not request.observed else NO_MONEY
        for request in conversation.requests
    ]


def _choose_money(request: ShownRequest, unit: Currency) -> Money:
    return request.in_dollars if unit.is_dollars else request.in_tokens


# The moves of the boundary


def find_moves(conversation: Conversation) -> list[Move]:
    """Return the moves of the requests that are kept, in order."""
    requests, unit = [*conversation.requests], find_unit(conversation)
    moves = [_read_move(at, requests, unit) for at, each in enumerate(requests) if each.moved]
    # What was taken out before the first request that is kept has its part, too.
    is_first_kept = bool(requests) and not requests[0].moved
    removed_before = float(_spared_by_moves(requests[0])) if is_first_kept else 0.0
    return divide_savings(moves, list_money(conversation), removed_before)


def _read_move(at: int, requests: Sequence[ShownRequest], unit: Currency) -> Move:
    """Return a move as it stands at its own request."""
    request = requests[at]
    last = requests[at - 1] if at else None
    masked, spared = (last.masked, _spared_by_moves(last)) if last else (0, 0)
    price = request.move_price or 0.0
    if unit.is_dollars:
        price *= request.in_dollars.after / (request.in_tokens.after or 1.0)
    return Move(at, request.masked - masked, _spared_by_moves(request) - spared, price)


def _spared_by_moves(request: ShownRequest) -> int:
    """Return the tokens that masking took out, without those that were left out at arrival."""
    return 0 if request.spared is None else request.spared - request.left_out


# What the prompts are composed of


class _Share(NamedTuple):
    """A part of all prompts: its tokens in each request."""

    name: str
    mark: str
    tokens: Sequence[int]


def _find_shares(requests: Sequence[ShownRequest]) -> list[_Share]:
    """Return the parts that any request has, and what was taken out as the last one."""
    shares = [
        _Share(name, f"part-{part}", [each.parts[at] if each.parts else 0 for each in requests])
        for at, (part, name) in enumerate(PARTS.items())
    ]
    spared = [max(0, each.spared or 0) for each in requests]
    shares.append(_Share("taken out by masking", _OUT, spared))
    return [share for share in shares if any(share.tokens)]


_OUT = "part-out"


def _chart(
    requests: Sequence[ShownRequest],
    saved: Sequence[float],
    moves: Sequence[int],
    currency: Currency,
) -> Iterator[Part]:
    """Yield what was saved so far, and what the prompts are composed of, as charts and a table."""
    shares = _find_shares(requests)
    marks = [(share.mark, share.name) for share in shares]
    so_far = "saved so far"
    used = [*_list_used(requests)]
    limits = [(f"line {series.mark}", f"{series.name}, used") for series in used]
    yield legend([("line chosen", so_far), ("ink", "the boundary moves"), *marks, *limits])
    amounts = [currency.render_bare(each) for each in saved]
    drawn = [
        chart(
            "Saved so far",
            "What the prompts would have cost, less what they cost.",
            [Series(so_far, "chosen", saved, amounts)],
            unit=currency.name,
            render=render_on_axis(currency),
            moves=moves,
        )
    ]
    if shares:
        # Bars are drawn over each other: first all of a prompt, then all but its last part.
        series, heights = [], [0] * len(requests)
        for share in shares:
            heights = [*map(sum, zip(heights, share.tokens, strict=True))]
            texts = [f"{tokens:,}" if tokens else "" for tokens in share.tokens]
            series.append(Series(share.name, share.mark, heights, texts, "bars"))
        drawn.append(
            chart(
                "What each prompt is composed of",
                "In tokens, estimated with the vocabulary o200k_base.",
                series[::-1],
                unit="Tokens",
                render=render_compact,
                moves=moves,
            )
        )
    if used:
        drawn.append(
            chart(
                "Used of the plan's quota",
                "As the provider told it last; a fall is a reset.",
                used,
                unit="Percent",
                render=lambda percent: f"{percent:.3g}%",
            )
        )
    yield charts(*drawn)
    sent = [share for share in shares if share.mark != _OUT]
    if sent:
        yield title("What the prompts are composed of")
        yield _tabulate(sent, len(requests))


_QUOTA_MARKS = ("sliding", "reduced", "last_k", "already_masked")


def _list_used(requests: Sequence[ShownRequest]) -> Iterator[Series]:
    """Yield how much was used of each window of a plan's quota, request by request.

    What an answer does not tell is as the one before told it.
    """
    names = dict.fromkeys(name for request in requests for name, _ in request.quota)
    for name, mark in zip(names, _QUOTA_MARKS, strict=False):
        told = [dict(request.quota).get(name) for request in requests]
        used = [next(percent for percent in told if percent is not None)]
        for percent in told[1:]:
            used.append(used[-1] if percent is None else percent)
        yield Series(name, mark, used, [f"{each:.0f}%" for each in used])


def _tabulate(shares: Sequence[_Share], count: int) -> Part:
    sums = [(share.tokens[-1], sum(share.tokens)) for share in shares]
    latest, every = (sum(column) for column in zip(*sums, strict=True))

    def tell(tokens: int, whole: int) -> str:
        return f"{tokens:,} ({tokens / whole:.0%})" if whole else f"{tokens:,}"

    return table(
        "What the prompts are composed of",
        [
            Column("Part"),
            Column("Tokens in the last request"),
            Column(f"Tokens in {pluralize(count, 'request')}"),
        ],
        [
            (cell(share.name, mark=share.mark), tell(last, latest), tell(all_, every))
            for share, (last, all_) in zip(shares, sums, strict=True)
        ],
        ("Together", f"{latest:,}", f"{every:,}"),
    )


# Every request


def _list_requests(
    requests: Sequence[ShownRequest], saved: Sequence[float], currency: Currency
) -> Part:
    def count(tokens: int | None) -> str:
        return "" if tokens is None else f"{tokens:,}"

    rows: list[Sequence[Cell]] = [
        (
            f"{at:,}",
            cell("", time=each.time),
            _describe_outcome(each),
            count(each.sent),
            count(each.spared),
            count(each.prompt),
            count(each.cached),
            amount(step, currency),
        )
        for at, (each, step) in enumerate(zip(requests, saved, strict=True), 1)
    ]
    columns = (
        Column("Request"),
        Column("At", "wide"),
        Column("What became of it", "text"),
        Column("Tokens sent", "roomy"),
        Column("Not sent", "wide"),
        Column("Prompt, as reported", "wide"),
        Column("Cached, as reported", "wide"),
        Column("Saved"),
    )
    return more("Every request, as a table", table("Every request", columns, rows))


def _describe_outcome(request: ShownRequest) -> str:
    if request.clearing == "refused":
        return f"refused to clear, and sent without asking: {request.resent}"
    if request.resent:
        return f"refused masked, and sent whole: {request.resent}"
    if request.failed:
        return f"failed: {request.failed}"
    short = f", {request.shortened:,} shortened" if request.shortened else ""
    some = f"{request.masked:,} of {pluralize(request.results, 'result')}"
    if request.observed:
        return f"observed: {some} would be masked{short}"
    if request.why:
        return f"untouched: {request.why}"
    done = "cleared by the provider" if request.clearing == "asked" else "masked"
    return f"{some} {done}{short}"
