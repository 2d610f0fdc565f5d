"""The verdict on harm in words: a sentence, a table, and JSON."""

from collections.abc import Iterator, Mapping
from math import exp, expm1

from addon.counts import pluralize
from addon.records.harm import CONFIDENCE, Effect, Verdict
from addon.records.holdout import Excluded
from addon.records.words import render_dollars


def render_verdict(verdict: Verdict) -> str:
    """Return the verdict in a sentence, to follow `Harm:`."""
    requests, longest, rise = verdict.requests, verdict.longest, verdict.detectable_rise
    held_out = pluralize(verdict.held_out, "held-out conversation")
    if verdict.kind == "harm":
        harms = []
        if requests and requests.direction > 0:
            more, low, high = (f"{100 * expm1(each):,.0f}%" for each in _range(requests))
            harms.append(f"took {more} more requests ({low} to {high})")
        if longest and longest.direction > 0:
            masked, others = longest.masked, longest.held_out
            until = f"went on for {_name_longest(verdict)}"
            harms.append(f"{until} in {masked:.0%} of cases, against {max(0, others):.0%}")
        return f"masked conversations {' and '.join(harms)}"
    needed = f"it takes about {verdict.needed:,} to see"
    if rise is None:
        return f"cannot tell yet: {held_out} compared so far; {needed} requests rise by half"
    shown = f"by {rise:.0%}" if rise < 1 else f"{1 + rise:,.1f}-fold"
    if verdict.kind == "none seen":
        both = f"{verdict.masked:,} masked and {held_out}"
        return f"none seen in {both}; would have seen requests rise {shown}"
    return (
        f"cannot tell yet: {held_out} would only show requests rising {shown}; {needed} them rise "
        "by half"
    )


def _name_longest(verdict: Verdict) -> str:
    limit = verdict.limit
    return "as long as the longest" if limit is None else f"{limit:,} requests or more"


def _range(effect: Effect) -> tuple[float, float, float]:
    margin = effect.margin or 0.0
    return effect.difference, effect.difference - margin, effect.difference + margin


def describe_measures(verdict: Verdict) -> Iterator[tuple[str, str, str, str]]:
    """Yield each measure in words: its name, masked, held out, and how they differ."""
    if (requests := verdict.requests) is not None:
        shown = [f"{100 * expm1(each):+,.0f}%" for each in _range(requests)]
        masked, held_out = (f"{exp(each):,.1f}" for each in (requests.masked, requests.held_out))
        yield "requests", masked, held_out, _render_range(requests, shown)
    if (longest := verdict.longest) is not None:
        shown = [f"{100 * each:+.1f}" for each in _range(longest)]
        masked, held_out = (f"{max(0, each):.1%}" for each in (longest.masked, longest.held_out))
        yield _name_longest(verdict), masked, held_out, _render_range(longest, shown, " points")
    for figure in verdict.figures:
        render = render_dollars if figure.name == "cost in dollars" else "{:,.2f}".format
        yield figure.name, render(figure.masked), render(figure.held_out), ""


def _render_range(effect: Effect, shown: list[str], unit: str = "") -> str:
    """Return `+18% (+5% to +34%), more than chance`."""
    if effect.margin is None:
        return "too few to tell"
    certain = ", more than chance" if effect.direction else ""
    return f"{shown[0]}{unit} ({shown[1]} to {shown[2]}){certain}"


NOTE = (
    "means (geometric for requests) from where masking began or would have; "
    f"{CONFIDENCE:.0%} sure for both ranges at every look; whether tasks succeed isn't seen"
)

_WHY_LEFT_OUT: Mapping[str, str] = {
    "unmasked": "with nothing to mask",
    "young": "in which masking began within the last hour",
    "switched": "that switched sides",
    "unmatched": "whose configuration, client and model only one group has",
}


def render_left_out(left_out: Excluded) -> str:
    """Return how many conversations are not compared, and why; empty if none."""
    counts = [
        f"{count:,} {_WHY_LEFT_OUT[name]}" for name, count in left_out._asdict().items() if count
    ]
    return f"not compared: {', '.join(counts)}" if counts else ""


def list_harm(verdict: Verdict) -> Iterator[str]:
    """Yield the verdict, what it rests on, and what is not compared, line by line."""
    yield render_verdict(verdict)
    if verdict.can_compare:
        for name, masked, held_out, difference in describe_measures(verdict):
            yield f"{name}: {masked} masked, {held_out} held out{difference and f': {difference}'}"
        yield NOTE
    if left_out := render_left_out(verdict.left_out):
        yield left_out


def dump_harm(verdict: Verdict) -> Mapping[str, object]:
    """Return every figure, for JSON. An unknown one is null."""
    return {
        "verdict": verdict.kind.replace(" ", "_"),
        "sentence": render_verdict(verdict),
        "confidence": CONFIDENCE,
        "masked_conversations": verdict.masked,
        "held_out_conversations": verdict.held_out,
        "held_out_conversations_needed_to_see_half_more_requests": verdict.needed,
        "detectable_rise_in_requests": verdict.detectable_rise,
        "conversations_left_out": verdict.left_out._asdict(),
        "logarithm_of_requests": verdict.requests and _dump_effect(verdict.requests),
        "longest": verdict.longest
        and {"from_requests": verdict.limit, **_dump_effect(verdict.longest)},
        "figures": {
            each.name.replace("-", "").replace(" ", "_"): {
                "masked": each.masked,
                "held_out": each.held_out,
            }
            for each in verdict.figures
        },
    }


def _dump_effect(effect: Effect) -> Mapping[str, object]:
    return {
        "masked": effect.masked,
        "held_out": effect.held_out,
        "difference": effect.difference,
        "margin": effect.margin,
        "is_more_than_chance": None if effect.margin is None else effect.direction != 0,
    }
