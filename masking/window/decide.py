"""Decides every tool result of a request: old ones become placeholders, unless a rule says no."""

import json
from bisect import bisect_left, insort
from collections import defaultdict
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import pairwise
from types import MappingProxyType
from typing import Literal, NamedTuple

import orjson

from masking.conversation import Conversation
from masking.history import History
from masking.model import Decision, KeepReason, Replacement, ToolResult, make, parse_arguments
from masking.patterns import matches
from masking.tokens import estimate_tokens
from masking.window.boundary import (
    FREE,
    Boundary,
    BoundaryPosition,
    BoundaryPrices,
    Candidate,
    Layout,
    PinnedResults,
    SentMoves,
    lay_out,
    window_edge,
)
from masking.window.placeholder import Rendering, Template, is_placeholder
from masking.window.policy import MaskPolicy
from masking.window.signs import looks_like_error

_SEPARATE_SLIDES = 64
"""How many turns of a sliding window a user may go back before other settings un-mask a result."""

Templates = Mapping[str | None, Template]
"""The placeholders of some tools, by the tools' names, in place of the policy's."""

NO_TEMPLATES: Templates = MappingProxyType({})

_AFTER_NAMES = ("last_images", "latest")
"""The reasons that depend on other results and come after a policy's names."""


# What is remembered of a conversation; see `masking.memory`.


class Anchor(NamedTuple):
    """A place in a conversation: the number of messages of the assistant, and their digest.

    What follows the last of them decides nothing. So a request that was cancelled and is sent with
    another end stands at the same place.

    read: the digest of the tool results before the last of them, by which runs of one task that
        have the same answers are told apart; None where it was not written down.
    """

    answers: int
    digest: bytes
    read: bytes | None = None


class ResultId(NamedTuple):
    """What tells a tool result from every other one of the conversations with its answers.

    place: its position among the request's results, counted from 0.
    turn, digest: the tool turn that it belongs to, which each that is masked has, and the digest of
        its id, text and images.
    """

    place: int
    turn: int | None
    digest: bytes


class Move(NamedTuple):
    """A move of the boundary: the request that made it, what it masked, and how.

    results: those that it masked first.
    """

    anchor: Anchor
    boundary: BoundaryPosition
    results: tuple[ResultId, ...]
    rendering: Rendering


@dataclass(frozen=True, slots=True, kw_only=True)
class Past:
    """A conversation as it was sent: where it was first met, its moves, and its last request.

    sent: when that request left, in seconds of any clock that does not go back.
    cleared: whether its moves say what the provider was asked to clear; nothing is masked then.
    drops_reasoning: whether it was asked to drop reasoning that no longer fits; each later request
        asks, too.
    """

    met: Anchor
    moves: tuple[Move, ...] = ()
    last: Anchor
    sent: float
    cleared: bool = False
    drops_reasoning: bool = False

    @property
    def position(self) -> BoundaryPosition:
        """Where the boundary stands since the last move."""
        return self.moves[-1].boundary if self.moves else BoundaryPosition(0, 0)

    def add(
        self,
        context: "ConversationContext",
        position: BoundaryPosition,
        fresh: Sequence[int],
        rendering: Rendering,
        *,
        slides: bool,
    ) -> "Past":
        """Return the past of the next request, after a move that took out `fresh` results."""
        moves = self.moves
        if fresh:
            ids = tuple(map(context.identify, fresh))
            moves = _add_move(moves, Move(context.anchor, position, ids, rendering), slides=slides)
        return replace(self, moves=moves, last=context.anchor, sent=context.now)


PrefixState = Literal["first met", "warm", "cold"]
"""Whether a provider's cache most likely holds a conversation, by what is remembered of it."""


class ConversationContext(NamedTuple):
    """What is known of a request besides its messages: its conversation, and the past of that.

    identify: returns what tells the tool result at a place from every other one.
    anchor: the request's place in its conversation.
    now: when the request leaves, in seconds.
    state: whether the provider has most likely forgotten the prefix.
    past: None if the conversation is seen for the first time. Of what it masked it has this
        request's own results, and those of which a file says no more than the place.
    goes_on: whether the request has all answers that the last one of its past had.
    drops_reasoning: whether its provider was asked to drop reasoning, in whichever conversation
        with its opening: a user who has gone back may come from any of them.
    """

    identify: Callable[[int], ResultId]
    anchor: Anchor
    now: float
    state: PrefixState
    past: Past | None = None
    goes_on: bool = False
    drops_reasoning: bool = False


class Limits(NamedTuple):
    """What a request forbids, whatever age and price of its results say.

    only: the places of the results that may be masked, at a boundary that does not move; None if
        any may.
    keeps_reasoning: reasoning of the model is bound to all that precedes it, and is to be kept.
    drops_reasoning: it is dropped where what precedes it changes.
    asks_summary: an agent asks for a summary of its history, and gets it of the whole, if possible.
    """

    only: Container[int] | None = None
    keeps_reasoning: bool = False
    drops_reasoning: bool = False
    asks_summary: bool = False


NO_LIMITS = Limits()


class Clearing(NamedTuple):
    """What a provider is asked to clear: the results of all tool uses but the last `keep`.

    excluded: the tools whose results stay.
    tokens: how many that takes out of the prompt, by our estimate; more than none.
    """

    keep: int
    excluded: tuple[str, ...]
    tokens: int


class WindowDecisions(NamedTuple):
    """A decision for each tool result of a request, and the past that its next request will have.

    Without a past, what is remembered stays as it is.

    left_unmasked: whether nothing is masked, because an agent asks for a summary.
    clearing: what the provider is asked to clear; None if nothing is.
    """

    decisions: tuple[Decision, ...]
    past: Past | None = None
    left_unmasked: bool = False
    clearing: Clearing | None = None


def decide(
    conversation: Conversation,
    policy: MaskPolicy,
    prices: BoundaryPrices = FREE,
    context: ConversationContext | None = None,
    limits: Limits = NO_LIMITS,
    templates: Templates = NO_TEMPLATES,
) -> WindowDecisions:
    """Decide every tool result of a request, in order.

    With a `context`, the past of the conversation decides what stays masked: that is masked again,
    in the same words, whatever the settings say now, and no other result is masked because of what
    is remembered. Without one, the request alone does.

    If reasoning is to be kept, nothing before reasoning in the request is masked anew, and what was
    masked when the reasoning was made stays masked; without a past nobody knows what that was, and
    nothing is masked.
    """
    results = conversation.results
    if not policy.masks:
        return WindowDecisions(tuple(Decision(result, "off") for result in results))
    past, bound_until = None, -1
    if context is not None:
        past = _recall_past(conversation, context, limits)
    if limits.keeps_reasoning:  # without a past, all of it may be bound
        bound_until = len(conversation.elements) if past is None else conversation.last_bound
    edge = window_edge(policy, conversation.turns)
    rendering = policy.rendering if prices.slides else policy.shrinking_rendering
    again: Mapping[int, Decision] = {}

    # 1. What each result is, as if it were old enough, and where the boundary stands then.
    if prices.slides and past is None and not limits.asks_summary:
        # Nothing has a price, so nothing needs a size, and nobody asks what is in the window.
        old = (n for n, each in enumerate(results, 1) if each.turn is not None and each.turn < edge)
        before = results[: max(old, default=0)]
        evaluated = evaluate(before, policy, rendering, conversation.history, templates)
        candidates: Sequence[Candidate] = ()
        has_moved, position = True, BoundaryPosition(edge, len(results))
    else:
        layout = lay_out(conversation)
        evaluated = evaluate(results, policy, rendering, conversation.history, templates)
        sent = None  # without a past, the moves are those that the rule would have made
        if past is not None and context is not None:
            again, masked = _mask_again(results, past, layout, evaluated, rendering, templates)
            for place, decision in again.items():
                evaluated[place] = decision
            sent = find_sent_moves(past, masked, context, limits)
        candidates = measure_candidates(evaluated, layout, conversation.history)
        reasoning = layout.reasoning if limits.drops_reasoning else ()
        history = conversation.history
        boundary = Boundary.at_last(layout, candidates, policy, prices, sent, history, reasoning)
        # For a summary it is sent whole, unless reasoning is bound to a result that was masked.
        if (
            limits.asks_summary
            and (past is not None or not limits.keeps_reasoning)
            and all(results[place].element >= bound_until for place in again)
            and boundary.allows_whole()
        ):
            return leave_whole(conversation)
        has_moved, position = boundary.decide(), boundary.position

    # 2. What that makes of each result.
    def apply(position: BoundaryPosition, allowed: Container[int] | None) -> list[Decision]:
        """Decide by where a result stands, and by what it is only if that leaves it open."""
        pinned: Mapping[int, KeepReason] = {}
        if policy.pins:
            known = candidates if not prices.slides else map(_describe, results)
            pinned = _compute_pinned(known, position, policy)
        decisions = []
        placed = find_behind(conversation, edge, position)
        for place, (result, reason) in enumerate(zip(results, placed, strict=True)):
            if place in again:
                decisions.append(again[place])
                continue
            if reason is None:
                reason = pinned.get(place)
                if reason in _AFTER_NAMES:  # what is named stays so, and that reason comes first
                    reason = _named(result, policy) or reason
            if reason is None:
                decision = evaluated[place]
                if decision.reason != "masked" or allowed is None or place in allowed:
                    decisions.append(decision)
                    continue
                reason = "held"
            decisions.append(Decision(result, reason))
        return decisions

    if past is None or context is None:
        decisions = apply(position, () if limits.keeps_reasoning else limits.only)
    else:
        # 3. With a past, nothing new is masked where the boundary has not moved, though other
        # settings would have masked it before; and nothing new before reasoning.
        decisions, fresh = [], []
        if has_moved:
            decisions = apply(position, None)
            fresh = [n for n, d in enumerate(decisions) if d.reason == "masked" and n not in again]
            has_moved = not fresh or decisions[fresh[0]].result.element >= bound_until
        if not has_moved:
            decisions, fresh = apply(past.position, ()), []
        past = past.add(context, position, fresh, rendering, slides=prices.slides)
    if limits.keeps_reasoning:  # what is held before reasoning is held because that is bound to it
        decisions = [
            Decision(each.result, "bound")
            if each.reason == "held" and each.result.element < bound_until
            else each
            for each in decisions
        ]
    return WindowDecisions(tuple(decisions), past)


def find_dropped_reasoning(conversation: Conversation, past: Past) -> frozenset[int]:
    """Return the elements whose reasoning no longer fits, as a text before it was masked later."""
    results, elements, answers = conversation.results, conversation.elements, conversation.answers
    dropped = set[int]()
    for move in past.moves:
        masked = [results[place].element for place, _, _ in move.results if place < len(results)]
        made = move.anchor.answers
        end = answers[made].start if made < len(answers) else len(elements)
        dropped.update(range(min(masked, default=end), end))
    return frozenset(at for at in dropped if elements[at].is_bound)


def was_passed_by(conversation: Conversation, context: ConversationContext) -> bool:
    """Whether reasoning was made at requests that did not come through here, and so were whole."""
    past = context.past
    if past is None:
        return conversation.last_bound >= 0
    return context.goes_on and conversation.is_bound_from(past.last.answers + 1)


def leave_whole(conversation: Conversation) -> WindowDecisions:
    """Return a request of which nothing is masked, because an agent asks for a summary."""
    whole = tuple(Decision(result, "summary") for result in conversation.results)
    return WindowDecisions(whole, left_unmasked=True)


def find_behind(
    conversation: Conversation, edge: int, position: BoundaryPosition
) -> Iterator[KeepReason | None]:
    """Yield why each tool result stays by where it stands; None for those before the boundary.

    The first reason that applies is given, in the contract's order.
    """
    last_answer = conversation.last_answer
    for place, result in enumerate(conversation.results):
        turn = result.turn
        if result.call_id is None:
            yield "bad_id"
        elif turn is None:
            yield "orphan"
        elif turn >= edge or result.element > last_answer:  # or the model has not read it
            yield "in_window"
        elif turn >= position.turn or place >= position.results:
            yield "held"
        else:
            yield None


def find_sent_moves(
    past: Past, masked: Mapping[int, Sequence[int]], context: ConversationContext, limits: Limits
) -> SentMoves:
    """Return the moves of a past, which took out these places at these requests."""
    return SentMoves(masked, past.met.answers, context.state == "cold", limits.only is not None)


def evaluate(
    results: Sequence[ToolResult],
    policy: MaskPolicy,
    rendering: Rendering,
    history: History,
    templates: Templates = NO_TEMPLATES,
) -> list[Decision]:
    """Decide tool results by what they are, as if each were old enough.

    They are all results of a request, or the first of them.
    """
    evaluated = history.map_each(_evaluate, results, policy, rendering, templates, is_same=is_same)
    if policy.keep_rereads:
        # None of them is kept by its name: the earlier call would be, too, as it is the same.
        for place in [*find_asked_again(evaluated, policy.window_turns)]:
            evaluated[place] = Decision(evaluated[place].result, "reread")
    return evaluated


def is_same(was: ToolResult, result: ToolResult) -> bool:
    """Whether what was decided holds; equal arguments may be spelled otherwise in what is shown."""
    return was.arguments is result.arguments and was == result


def _evaluate(
    result: ToolResult, policy: MaskPolicy, rendering: Rendering, templates: Templates
) -> Decision:
    if named := _named(result, policy):
        return Decision(result, named)
    is_maskable = _is_maskable(result, rendering)
    is_error = policy.keep_errors and (
        result.is_error
        or (is_maskable and looks_like_error(result.text, policy.error_words_max_chars))
    )
    if is_error:
        return Decision(result, "error")
    if not is_maskable:
        return Decision(result, "not_string")
    return _mask(result, rendering, templates.get(result.tool) or rendering.parsed)


def _masks_texts(result: ToolResult, rendering: Rendering) -> bool:
    return result.kind == "string" or (result.kind == "text_parts" and rendering.in_lists)


def _is_maskable(result: ToolResult, rendering: Rendering) -> bool:
    return _masks_texts(result, rendering) or (rendering.images and bool(result.images))


def _mask(result: ToolResult, rendering: Rendering, *templates: Template) -> Decision:
    """Mask a result that may be; each text by the first template whose words are short enough."""
    call_id, tool = result.call_id or "", result.tool
    must_shrink = rendering.must_shrink or result.kind == "text_parts"
    texts = result.texts if _masks_texts(result, rendering) else ()
    left = [
        (place, text)
        for place, text in enumerate(texts)
        if not is_placeholder(result, place, templates[0])
    ]
    # An image's placeholder makes a result no longer, so masking twice masks no more than once.
    is_short = rendering.min_chars > 0 and sum(len(text) for _, text in left) < rendering.min_chars
    replacements = []
    reason: KeepReason = "already_masked"
    for place, text in left:
        if is_short:
            reason = "too_short"
            continue
        whole = result.client_text(place)
        for template in templates:
            placeholder = template.render(call_id, tool, whole, result.arguments)
            # Shorter in characters, which is quickly found, and in estimated tokens.
            if not must_shrink or (
                len(placeholder) < len(text)
                and estimate_tokens(placeholder) < estimate_tokens(text)
            ):
                replacements.append(result.replace(place, placeholder))
                break
        else:
            reason = "not_shorter"
    if rendering.images and result.images:
        images = map(result.replace_image, result.images)
        return Decision(result, "masked", sort_by_position((*replacements, *images)))
    return Decision(result, "masked" if replacements else reason, tuple(replacements))


def sort_by_position(replacements: Iterable[Replacement]) -> tuple[Replacement, ...]:
    """Return the replacements of a result in the order of its parts."""
    in_order = sorted(replacements, key=lambda r: [at for at in r.slot if isinstance(at, int)])
    return tuple(in_order)


def _named(result: ToolResult, policy: MaskPolicy) -> KeepReason | None:
    """Return why a result stays whatever its age; None if the policy does not name it.

    It is a function of the call alone, so it never changes while a conversation goes on.
    """
    if named := find_tool_reason(result.tool, policy.keep_tools, policy.mask_tools):
        return named
    if policy.keep_arguments:
        for value in parse_arguments(result.arguments).values():
            if isinstance(value, str) and matches(value, policy.keep_arguments):
                return "kept_argument"
    return None


def find_tool_reason(
    tool: str | None, kept: Sequence[str], listed: Sequence[str]
) -> Literal["kept_tool", "unlisted_tool"] | None:
    """Return why a tool's results stay; None if they need not. No glob names an unknown tool.

    They stay if it is `kept`, or if only some are `listed` and it is none of them.
    """
    if tool is not None and kept and matches(tool, kept):
        return "kept_tool"
    if listed and (tool is None or not matches(tool, listed)):
        return "unlisted_tool"
    return None


# What was asked for again


def find_asked_again(evaluated: Sequence[Decision], window_turns: int) -> Iterator[int]:
    """Yield the places of the tool results that were asked for again, in order.

    Their call repeats one whose result had left the window, and that `evaluated`, as if each were
    old enough, does not keep; of several such calls the latest counts. Nothing later has a say, so
    what is kept for this stays kept while a conversation goes on. That is why the window counts
    here, and not the boundary, which depends on prices, and on what is kept.
    """
    earlier: defaultdict[CallKey, list[tuple[int, int]]] = defaultdict(list)
    for place, (result, *_) in enumerate(evaluated):
        if result.turn is None:
            continue
        known = earlier[call_key(result.tool, result.arguments)]
        # A result may stand before its own call. So calls of later turns may be known already.
        before = bisect_left(known, (result.turn,))
        if before:
            turn, latest = known[before - 1]
            if turn < result.turn - window_turns and evaluated[latest].reason in _NOT_SEEN:
                yield place
        insort(known, (result.turn, place))


_NOT_SEEN = ("masked", "already_masked")
"""The reasons by which a result that has left the window can be a placeholder."""

CallKey = tuple[str, str]
"""The tool and the arguments of a call; the same for equal calls."""

_DECODED_UP_TO = 1_000
"""Up to this length arguments in JSON are equal if their values are. Longer ones, such as the text
of a file that is written, are equal if they are spelled alike: to decode them all at each request
would cost more than it could tell."""

_REMEMBERED = 2_048
"""How many arguments are remembered as they are spelled here: some four megabytes at most."""


def call_key(tool: str | None, arguments: object) -> CallKey:
    """Return what is the same for equal calls. The arguments are a JSON text or a decoded value."""
    if not isinstance(arguments, str):
        return str(tool), _render_sorted(arguments)
    if len(arguments) > _DECODED_UP_TO:
        return str(tool), arguments
    return str(tool), _render_again(arguments)


@lru_cache(_REMEMBERED)
def _render_again(arguments: str) -> str:
    """Return a JSON text as it is spelled here; any other text as it is."""
    try:
        value = json.loads(arguments)
    except (ValueError, RecursionError):
        value = arguments
    return _render_sorted(value)


def _render_sorted(value: object) -> str:
    """Return a value as JSON, the same for equal values; empty if it cannot be written."""
    try:
        return orjson.dumps(value, option=orjson.OPT_SORT_KEYS).decode()
    except (TypeError, RecursionError):  # lone surrogates, numbers beyond 64 bits, too deep
        pass
    try:
        return json.dumps(value, sort_keys=True, separators=(",", ":"))
    except (ValueError, RecursionError):
        return ""


# Where a result stands


def measure_candidates(
    evaluated: Sequence[Decision], layout: Layout, history: History
) -> list[Candidate]:
    """Return the tool results as the boundary sees them, in estimated tokens.

    `evaluated` is what `evaluate` returns for all of them.
    """
    seen = [*zip(evaluated, layout.offsets, layout.sizes, layout.turns, strict=True)]
    return history.map_each(_measure_candidate, seen)


def _measure_candidate(seen: tuple[Decision, int, int, int]) -> Candidate:
    decision, offset, size, turns = seen
    replaced, result = decision.replacements, decision.result
    if not replaced or result.kind != "string" or result.images:  # what stays saves nothing
        saving = sum([r.saves(estimate_tokens) for r in replaced])
    else:
        saving = size - sum([estimate_tokens(r.placeholder) for r in replaced])
    turn, tool, target = result.turn, result.tool, result.target
    if turn is None or turn >= turns:
        # The call came after the result. Tool and target were unknown when the boundary last
        # moved, and what was decided then must stand.
        tool = target = None
    fields = turn, offset, max(0, saving), tool, target, len(result.images)
    return make(Candidate, fields)


def _describe(result: ToolResult) -> Candidate:
    return Candidate(result.turn, 0, 0, result.tool, result.target, len(result.images))


def _compute_pinned(
    known: Iterable[Candidate], position: BoundaryPosition, policy: MaskPolicy
) -> Mapping[int, KeepReason]:
    """Return what stays behind the boundary because of other results, as of when it last moved."""
    pinned = PinnedResults(policy)
    for place, result in zip(range(position.results), known, strict=False):
        pinned.add(place, result.tool, result.images)
        if result.turn is not None and result.target is not None:
            pinned.add_latest(place, result.turn, result.target)
    return pinned.reasons(position.turn)


# What was masked before


def begin_past(context: ConversationContext) -> Past:
    """Return the past of a conversation of which nothing is known."""
    anchor = context.anchor
    return Past(met=anchor._replace(read=None), last=anchor, sent=context.now)


def _recall_past(conversation: Conversation, context: ConversationContext, limits: Limits) -> Past:
    """Return what is known of the conversation; a new past if that is nothing.

    What its provider cleared is not masked, and comes back.
    """
    past, keeps = context.past, limits.keeps_reasoning
    if past is None or past.cleared or (keeps and was_passed_by(conversation, context)):
        return begin_past(context)
    return past


def _mask_again(
    results: Sequence[ToolResult],
    past: Past,
    layout: Layout,
    evaluated: Sequence[Decision],
    rendering: Rendering,
    templates: Templates,
) -> tuple[dict[int, Decision], dict[int, list[int]]]:
    """Return the decisions on what was masked, by place; what can no longer be masked is left out.

    Also return the places that were masked at each request, without those of later results.
    Today's evaluation is reused where the rendering is still the same.
    """
    again: dict[int, Decision] = {}
    masked: dict[int, list[int]] = {}
    for move in past.moves:
        known = layout.requests[move.anchor.answers].results
        is_alike = move.rendering == rendering
        places = masked.setdefault(move.anchor.answers, [])
        for place in [n for n, _, _ in move.results if n < known and n not in again]:
            result, decision = results[place], evaluated[place]
            # A template of its tool's own may be new.
            if not is_alike or decision.reason != "masked" or result.tool in templates:
                decision = _mask_in_words(result, move.rendering, templates)
            if decision.reason == "masked":
                again[place] = decision
                places.append(place)
    return again, masked


def _mask_in_words(result: ToolResult, rendering: Rendering, templates: Templates) -> Decision:
    """Mask a result in the same words as before, whatever the settings say now.

    But a tool with a template of its own has that, where it is shorter than a text. A content that
    has become one which is never masked stays as it is.
    """
    # A list in which no image was masked was a string then.
    rendering = rendering._replace(in_lists=rendering.in_lists or not rendering.images)
    if not _is_maskable(result, rendering):
        return Decision(result, "not_string")
    own, template = templates.get(result.tool), rendering.parsed
    return _mask(result, rendering, *((template,) if own is None else (own, template)))


def _add_move(moves: tuple[Move, ...], move: Move, *, slides: bool) -> tuple[Move, ...]:
    """Add a move. A sliding window moves at every turn, so its oldest moves are joined."""
    if slides and len(moves) >= _SEPARATE_SLIDES:
        for at, (one, other) in enumerate(pairwise(moves)):
            if one.rendering == other.rendering:
                joined = other._replace(results=(*one.results, *other.results))
                return (*moves[:at], joined, *moves[at + 2 :], move)
    return (*moves, move)
