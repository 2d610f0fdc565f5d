"""The line that tells a person what became of a request."""

from collections.abc import Iterator

from addon.metrics.account import render_cost, render_pricing, render_savings
from addon.metrics.exchange import Exchange
from masking.accounting.sizes import Sizes
from masking.wire.usage import Usage


def render_line(exchange: Exchange) -> str:
    """Return the line that tells a person what became of a request."""
    words = (
        "replay" if exchange.replay else None,
        exchange.host,
        exchange.model or "?",
        exchange.status,
        exchange.error,
    )
    return f"{' '.join(str(word) for word in words if word)}: {_render_outcome(exchange)}"


def _render_outcome(exchange: Exchange) -> str:
    sizes = exchange.sizes
    if exchange.passed_through is not None:
        return f"passed through untouched, {exchange.passed_through}"
    if sizes is None:
        return "not measured"
    account = _render_account(exchange)
    if exchange.masking == "off":
        return ", ".join((f"masking off, {sizes.tool_results} tool results", *account))
    time = f"{(exchange.hook_us or 0) / 1000:.1f} ms"
    return ", ".join((*_render_sizes(sizes), *account, time))


def _render_sizes(sizes: Sizes) -> Iterator[str]:
    yield f"masked {sizes.masked} of {sizes.tool_results} tool results"
    if sizes.redacted:
        yield f"redacted {sizes.redacted}"
    if sizes.reduction_stage is not None:
        yield f"reduced by {sizes.reduction_stage}"
    if sizes.dropped_messages:
        yield f"dropped {sizes.dropped_messages} of {sizes.messages} messages"
    before, after = sizes.request_tokens_before, sizes.request_tokens_after
    if before is not None and after is not None:
        yield render_change(before, after)


def _render_account(exchange: Exchange) -> tuple[str, ...]:
    entry, pricing = exchange.entry, exchange.pricing
    if entry is None or pricing is None:
        return ()
    cost = f"{render_cost(entry)}, {render_pricing(pricing)}"
    if not entry.total.tokens:
        return (cost,)
    net = f"net {render_savings(entry.savings)} in conversation {entry.conversation}"
    return cost, net, f"{render_savings(entry.total)} in all"


def render_hold(host: str, conversation: int, usage: Usage | None) -> str:
    """Return the line that tells a person that the boundary of a conversation stands still.

    A provider that caches nothing at all is better served by a window that slides, which saves
    more than half of the tokens where a boundary that stands still saves a fifth.
    """
    held = (
        f"{host} no longer caches what conversation {conversation} sends since its boundary moved: "
        "the boundary is held where it is"
    )
    if usage is None or usage.cached:
        return held
    return (
        f"{held}. It reports no cached tokens at all: if it caches nothing, this line under "
        f'[observation_masking.hosts] lets the window slide there: uncached = ["{host}"]'
    )


def render_change(before: int, after: int) -> str:
    """Return two token counts and their difference: `12,000 -> 3,000 tokens (-75%)`."""
    if before == after:
        return f"{before:,} tokens"
    return f"{before:,} -> {after:,} tokens ({_render_share(after / before - 1)})"


def _render_share(share: float) -> str:
    return f"{share:+.0%}" if abs(share) >= 0.005 else "less than 1%"
