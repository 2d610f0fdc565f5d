"""A request as its provider's cache sees it: its tokens before masking and after, piece by piece.

The first piece of a prompt is its head, which is tool schemas and system texts; each element of the
list is another. An element is counted once for as long as it is remembered.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import blake2b
from itertools import compress, count, groupby
from operator import is_not
from typing import Literal, NamedTuple

import orjson

from masking.accounting.prefix_cache import Piece
from masking.arrival import Arrived
from masking.conversation import (
    Conversation,
    CountedElement,
    CountedHead,
    CountedPlaceholders,
    ParsedElement,
)
from masking.history import UNSTABLE_TAIL, Copyable, Fold
from masking.model import MASKS, REASONS, Decision, Element, Reason, Speaker
from masking.reduction import InvariantStatus, ReductionStage
from masking.rewrite import Rewrite
from masking.tokens import TokenCounter, count_tools
from masking.wire.format import WireFormat
from masking.wire.parts import count_blocks, is_marked

Part = Literal["system", "tools", "user", "assistant", "results", "placeholders", "unknown"]

PARTS: Mapping[Part, str] = {
    "system": "system prompt",
    "tools": "tool schemas",
    "user": "user",
    "assistant": "assistant, with its calls",
    "results": "tool results",
    "placeholders": "placeholders",
    "unknown": "unknown elements",
}
"""The parts that make up a prompt, by who wrote them, in the order in which people read them."""

TokensByPart = dict[Part, int]
"""Tokens of each part; a part may be missing."""


_MARKER_TOKENS = 16
"""About what stands between the head and the tail of a shortened text."""


class Comparison(NamedTuple):
    """A prompt before and after masking, in estimated tokens.

    altered: how many pieces there are up to the last one that differs.
    left, squares: of the pieces that differ, the tokens after masking, and the squares of what each
        of them lost, summed up. Of one that was only shortened, a marker is left: its head and its
        tail stand in both prompts.
    """

    tokens_before: int
    tokens_after: int
    altered: int = 0
    left: int = 0
    squares: int = 0


@dataclass(frozen=True, kw_only=True)
class Prompt:
    """The pieces of a request before and after masking, in estimated tokens; the head first.

    results_before, results_after: the tokens of all tool results that were decided on.
    parts: the tokens of each part after masking; a part without any is missing.
    left_out: the tokens that were left out at arrival, by the place of their piece.
    """

    before: tuple[Piece, ...]
    after: tuple[Piece, ...]
    results_before: int = 0
    results_after: int = 0
    parts: Mapping[str, int] = field(default_factory=dict)
    left_out: Mapping[int, int] = field(default_factory=dict)

    @cached_property
    def compared(self) -> Comparison:
        """The two prompts, compared piece by piece."""
        before, after = self.before, self.after
        # A piece that is left as it was is the very same object.
        changed = [*compress(count(), map(is_not, before, after))]
        altered = changed[-1] + 1 if changed else 0
        if len(before) != len(after):
            altered = max(len(before), len(after))
        return Comparison(
            tokens_before=sum([piece.tokens for piece in before]),
            tokens_after=sum([piece.tokens for piece in after]),
            altered=altered,
            left=sum([self._left(at) for at in changed]),
            squares=sum([(before[at].tokens - after[at].tokens) ** 2 for at in changed]),
        )

    def _left(self, at: int) -> int:
        tokens = self.after[at].tokens
        was_only_shortened = self.before[at].tokens - tokens == self.left_out.get(at)
        return min(tokens, _MARKER_TOKENS) if was_only_shortened else tokens

    @property
    def tokens_before(self) -> int:
        """Estimated tokens of the whole prompt as the client wrote it."""
        return self.compared.tokens_before

    @property
    def tokens_after(self) -> int:
        """The same, masked."""
        return self.compared.tokens_after

    @property
    def altered(self) -> int:
        """How many pieces there are up to the last one that is masked."""
        return self.compared.altered


def read_prompt(rewrite: Rewrite, counter: TokenCounter) -> Prompt:
    """Return the prompt of a request before masking and after. A wrong type has no tokens.

    What is remembered of the request before is not counted again.
    """
    conversation, decisions, edits = rewrite.conversation, rewrite.decisions, rewrite.edits
    head = _count_head(conversation, counter)
    counted = _count_elements(conversation, counter)
    masked = _mask_elements(conversation, counted, decisions, counter)
    parts: TokensByPart = {"system": head.texts, "tools": head.tools}
    _add_parts(parts, counted.parts)
    _add_parts(parts, masked.parts)

    first = _make_head_piece(conversation, head)
    before = after = (first, *counted.pieces)
    if masked.pieces:
        after = (first, *_replace(counted.pieces, masked.pieces))

    # Before all that, the client's own elements stood where results were shortened at arrival.
    left_out: dict[int, int] = {}
    if rewrite.arrived is not None and rewrite.arrived.shortened:
        whole = [*before]
        for element, gone, digest in _count_left_out(rewrite.arrived, counter):
            number = element + 1
            left_out[number] = gone
            own = whole[number]
            whole[number] = own._replace(digest=digest, tokens=own.tokens + gone)
        before = tuple(whole)

    # A reduction drops elements, and inserts a summary in their place.
    if edits.moves:
        known = conversation.parsed
        for at in edits.dropped:
            content = sum(found.results) if (found := known[at].counted) else 0
            split = _split_element(known[at].element, counted.pieces[at].tokens, content)
            _add_parts(parts, split, -1)
        pieces = []
        for place in edits.order(len(counted.pieces)):
            if place is None:
                wire, item = conversation.wire, edits.inserted
                summary = count_element(wire, ParsedElement(item, wire.read_element(item)), counter)
                pieces.append(Piece(summary.digest, summary.tokens, summary.blocks))
                _add_parts(parts, {"user": summary.tokens})
            else:
                pieces.append(after[place + 1])
        after = (first, *pieces)

    # The results that were decided on: all of the request's, in order, or none.
    results = counted.results[: len(decisions)]
    dropped = [
        tokens for each, tokens in zip(decisions, results, strict=True) if each.reason == "dropped"
    ]
    return Prompt(
        before=before,
        after=after,
        results_before=sum(results) + sum(left_out.values()),
        results_after=sum(results) + masked.change - sum(dropped),
        parts={part: tokens for part in PARTS if (tokens := parts.get(part))},
        left_out=left_out,
    )


def align_pieces(pieces: Sequence[Piece], others: Sequence[Piece]) -> tuple[Piece, ...]:
    """Return pieces, with the very object of another prompt where both have the same piece.

    Two prompts that were read from two bodies can then be compared as if masking had made one of
    the other.
    """
    same = [
        other if other.digest == piece.digest else piece
        for piece, other in zip(pieces, others, strict=False)
    ]
    return (*same, *pieces[len(same) :])


def _count_left_out(arrived: Arrived, counter: TokenCounter) -> Iterator[tuple[int, int, bytes]]:
    """Yield each element with shortened results, how much was left out of it, and its own digest.

    In the order of the request.
    """
    results, wire = arrived.conversation.results, arrived.client.wire
    for at in dict.fromkeys(results[each.place].element for each in arrived.shortened):
        own, short = arrived.client.parsed[at], arrived.conversation.parsed[at]
        whole = own.counted or count_element(wire, own, counter)
        left = short.counted or count_element(wire, short, counter)
        yield at, whole.tokens - left.tokens, whole.digest


def read_pieces(conversation: Conversation, counter: TokenCounter) -> tuple[Piece, ...]:
    """Return the pieces of a request as its client wrote it; the first is its head."""
    first = _make_head_piece(conversation, _count_head(conversation, counter))
    return (first, *_count_elements(conversation, counter).pieces)


def _replace(pieces: Sequence[Piece], masked: Mapping[int, Piece]) -> list[Piece]:
    replaced = [*pieces]
    for at, piece in masked.items():
        replaced[at] = piece
    return replaced


# The head: all that stands before the list.


def _count_head(conversation: Conversation, counter: TokenCounter) -> CountedHead:
    """Count a head, and keep the outcome with it."""
    if conversation.head.counted is None:
        wire, body = conversation.wire, conversation.body
        conversation.head.counted = CountedHead(
            digest_head(conversation),
            tools=count_tools(counter, wire.find_tools(body)),
            texts=sum(map(counter.count, wire.find_head_texts(body))),
        )
    return conversation.head.counted


def digest_head(conversation: Conversation) -> bytes:
    """Return the digest of what stands before a request's list."""
    wire, body = conversation.wire, conversation.body
    return digest_of([wire.find_tools(body), *wire.find_head_texts(body)])


def _make_head_piece(conversation: Conversation, head: CountedHead) -> Piece:
    # If the list has a mark and no elements, the mark can only end the head.
    marks = conversation.marks
    marked = marks.in_head or (marks.in_list and not conversation.items)
    return Piece(head.digest, head.tools + head.texts, is_marked=marked)


# The elements, as the client wrote them.


def count_element(wire: WireFormat, known: ParsedElement, counter: TokenCounter) -> CountedElement:
    """Count an element, and keep the outcome with it. A wrong type has no tokens."""
    item = known.item
    texts, others = wire.count_parts(item)
    tokens = {text: counter.count(text) for text in texts}

    def count_text(text: str) -> int:
        found = tokens.get(text)  # as nearly all texts of results are
        return counter.count(text) if found is None else found

    known.counted = counted = CountedElement(
        digest=digest_element(wire, item),
        tokens=others + sum([tokens[text] for text in texts]),
        blocks=count_blocks(item),
        is_marked=is_marked(item),
        results=tuple(
            [
                sum([image.tokens for image in result.images]) + sum(map(count_text, result.texts))
                for result in known.element.results
            ]
        ),
    )
    return counted


def digest_elements(conversation: Conversation) -> list[bytes]:
    """Return the digest of each element of a request. Nothing is counted for that."""
    wire = conversation.wire
    return [
        known.counted.digest if known.counted else digest_element(wire, known.item)
        for known in conversation.parsed
    ]


def digest_element(wire: WireFormat, item: object) -> bytes:
    """Return the digest of an element, the same whatever cache marks it carries."""
    return digest_of(wire.unmark(item))


def digest_of(value: object) -> bytes:
    """Return a digest of a decoded JSON value."""
    try:
        rendered = orjson.dumps(value)
    except (TypeError, RecursionError):  # lone surrogates, numbers beyond 64 bits, too deep
        try:
            rendered = repr(value).encode("utf-8", "backslashreplace")
        except (ValueError, RecursionError):  # numbers of thousands of digits, too deep
            rendered = b""
    return blake2b(rendered, digest_size=16).digest()


class _CountedElements(Fold[ParsedElement]):
    """The elements of a request so far, counted.

    pieces: a piece for each.
    results: the tokens of each tool result.
    parts: the tokens of all elements, by part.
    """

    def __init__(self, wire: WireFormat, counter: TokenCounter, in_list: bool) -> None:
        self.pieces: list[Piece] = []
        self.results: list[int] = []
        self.parts: TokensByPart = {}
        self.has_mark = False
        self._wire, self._counter = wire, counter
        self._in_list = in_list
        self._in_answer = False

    def take(self, known: ParsedElement) -> None:
        """Count the next element."""
        counted = known.counted or count_element(self._wire, known, self._counter)
        element, tokens = known.element, counted.tokens
        # A request ended before each answer: before each of its elements, or before the first.
        speaks = element.speaker == "assistant"
        begins = speaks and not (self._in_answer and self._wire.answers_in_runs)
        self._in_answer = speaks
        marked = self._in_list and counted.is_marked
        self.has_mark |= marked
        self.pieces.append(Piece(counted.digest, tokens, counted.blocks, marked, begins))
        self.results += counted.results
        _add_parts(self.parts, _split_element(element, tokens, sum(counted.results)))


def _count_elements(conversation: Conversation, counter: TokenCounter) -> _CountedElements:
    """Count the elements of a request that are not remembered; the caller owns the outcome."""
    marks = conversation.marks
    found = conversation.history.fold(
        _CountedElements,
        conversation.parsed,
        conversation.wire,
        counter,
        marks.in_list,
        unstable_tail=UNSTABLE_TAIL,
    )
    if marks.in_list and not found.has_mark and found.pieces:
        # The request asks for marks that stand on no element: then the list's end is marked.
        found.pieces[-1] = found.pieces[-1]._replace(is_marked=True)
    return found


# The elements, masked.


class _MaskedElements(Copyable):
    """The elements of which results are placeholders, and what that changes.

    pieces: the masked piece of each element that changes, by the element's position.
    change: what is added to the tokens of the prompt and of its results, less than 0 as a rule.
    parts: what is added to each part.
    """

    def __init__(self) -> None:
        self.pieces: dict[int, Piece] = {}
        self.change = 0
        self.parts: TokensByPart = {}
        self._results: dict[int, tuple[int, int]] = {}
        """By element: the tokens of its results, and of the placeholders among them."""

    def add(
        self,
        decision: Decision,
        tokens: int,
        whole: Piece,
        known: ParsedElement,
        counter: TokenCounter,
    ) -> None:
        """Add the next result that is a placeholder, be it ours or one that the client sent.

        tokens: those of the result as the client wrote it.
        whole: the piece of its element, unmasked.
        """
        at = decision.result.element
        piece = was = self.pieces.get(at, whole)  # masked, if another of its results is
        placeholder, change = tokens, 0
        if decision.replacements:
            found = _count_placeholders(known, decision, was.digest, counter, tokens)
            change = found.placeholders - found.replaced
            placeholder = min(tokens + change, found.placeholders)
            piece = self.pieces[at] = was._replace(digest=found.digest, tokens=was.tokens + change)
        element = known.element
        whole_results = sum(known.counted.results) if known.counted else 0
        results, placeholders = self._results.get(at, (whole_results, 0))
        _add_parts(self.parts, _split_element(element, was.tokens, results, placeholders), -1)
        results, placeholders = results + change, placeholders + placeholder
        _add_parts(self.parts, _split_element(element, piece.tokens, results, placeholders))
        self._results[at] = results, placeholders
        self.change += change


def _mask_elements(
    conversation: Conversation,
    counted: _CountedElements,
    decisions: Sequence[Decision],
    counter: TokenCounter,
) -> _MaskedElements:
    """Return the elements that the decisions mask. Read-only: the next request continues it."""
    # Between two moves of the boundary the same results are placeholders, and at a move more of
    # them. So where the results of the request before are the first of these, it is extended.
    numbers = [
        n
        for n, each in enumerate(decisions)
        if each.replacements or each.reason == "already_masked"
    ]
    chosen = [decisions[n] for n in numbers]
    wholes = [counted.pieces[decision.result.element] for decision in chosen]
    masked, done = _MaskedElements(), 0
    last = conversation.history.recall(_LastMasked)
    if last is not None:
        size = len(last.chosen)
        if last.chosen == chosen[:size] and last.wholes == wholes[:size]:
            masked, done = last.masked, size
    if done < len(chosen):
        masked = masked.copy()
        for n, decision, whole in zip(numbers[done:], chosen[done:], wholes[done:], strict=True):
            known = conversation.parsed[decision.result.element]
            masked.add(decision, counted.results[n], whole, known, counter)
    conversation.history.keep(_LastMasked(chosen, wholes, masked))
    return masked


class _LastMasked(NamedTuple):
    """The placeholders of a conversation's last request, and the elements with them.

    chosen: the decisions on results that are placeholders.
    wholes: the unmasked pieces of their elements.
    """

    chosen: Sequence[Decision]
    wholes: Sequence[Piece]
    masked: _MaskedElements


def _count_placeholders(
    known: ParsedElement, decision: Decision, digest: bytes, counter: TokenCounter, tokens: int
) -> CountedPlaceholders:
    """Count the replacements of a result, of which there is one at least.

    `digest` is that of its element before them, `tokens` those of the whole result. What was
    counted last is kept with the element.
    """
    result, replacements = decision.result, decision.replacements
    start = len(result.path)
    edits = tuple([(r.path[start:], r.text, r.placeholder) for r in replacements])
    slot = edits[0][0]
    placeholders = known.placeholders or {}
    found = placeholders.get(slot)
    if found is not None and found.digest_before == digest and found.edits == edits:
        return found
    if not result.images and result.texts == (replacements[0].text,):
        replaced = tokens  # its one text
    else:
        replaced = sum([r.count_replaced(counter.count) for r in replacements])
    mark = digest_of([[list(path), placeholder] for path, _, placeholder in edits])
    found = CountedPlaceholders(
        edits=edits,
        digest_before=digest,
        digest=blake2b(digest + mark, digest_size=16).digest(),
        replaced=replaced,
        placeholders=sum([counter.count(r.placeholder) for r in replacements]),
    )
    known.placeholders = {**placeholders, slot: found}
    return found


# Tokens by part.

_PARTS_OF_SPEAKERS: Mapping[Speaker, Part] = {
    "system": "system",
    "user": "user",
    "assistant": "assistant",
    "tool": "results",
    "unknown": "unknown",
}


def _split_element(
    element: Element, tokens: int, results: int, placeholders: int = 0
) -> TokensByPart:
    """Return the tokens of an element by part.

    `results` are those of its tool results, `placeholders` those of them that stand for others.
    """
    # A piece may render a result shorter than it was counted, so there are never more than that.
    results = min(results, tokens)
    placeholders = min(placeholders, results) if results else 0
    split: TokensByPart = {"results": results - placeholders, "placeholders": placeholders}
    # What only carries results is theirs, too.
    carries = element.results and not element.texts
    part: Part = "results" if carries else _PARTS_OF_SPEAKERS[element.speaker]
    split[part] = split.get(part, 0) + tokens - results
    return split


def _add_parts(parts: TokensByPart, other: TokensByPart, sign: int = 1) -> None:
    for part, tokens in other.items():
        parts[part] = parts.get(part, 0) + sign * tokens


# What a record says of a request.


Runs = tuple[tuple[int, Reason], ...]
"""Reasons in run lengths: 12 results that are masked, then 7 in the window."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """The sizes of a request before masking and after; tokens are None where none were counted.

    The fields are a record's, by the same names (see `addon.records.record`).
    """

    messages: int
    tool_turns: int
    tool_results: int
    masked: int
    shortened: int | None = None
    long_kept: Mapping[str, int] | None = None
    left_out_chars: int | None = None
    left_out_tokens: int | None = None
    masked_images: int = 0
    redacted: int = 0
    reduced: int = 0
    dropped: int = 0
    kept: Mapping[str, int]
    result_reasons: Runs
    tool_chars_before: int
    tool_chars_after: int
    json_chars_before: int
    json_chars_after: int
    tool_tokens_before: int | None = None
    tool_tokens_after: int | None = None
    request_tokens_before: int | None = None
    request_tokens_after: int | None = None
    composition: Mapping[str, int] | None = None
    redaction_scenarios: tuple[int, ...] | None = None
    reduction_stage: ReductionStage | None = None
    reduction_status: InvariantStatus | None = None
    dropped_messages: int | None = None


def measure(rewrite: Rewrite, original: bytes, prompt: Prompt | None = None) -> Sizes:
    """Measure a request before masking and after; without its prompt, all but its tokens."""
    decisions, plan, redactions = rewrite.decisions, rewrite.plan, rewrite.redactions
    row = [decision.reason for decision in decisions]
    reasons: Counter[str] = Counter(row)
    chars = sum([len(text) for each in decisions for text in each.result.texts])
    replaced = [replacement for each in decisions for replacement in each.replacements]
    texts = [replacement for replacement in replaced if replacement.image is None]
    change = sum([len(each.placeholder) - len(each.text) for each in texts])
    dropped = [each.result.texts for each in decisions if each.reason == "dropped"]
    change -= sum([len(text) for each in dropped for text in each])
    # What was left out at arrival stands in no text that was decided on since.
    arrived = rewrite.arrived
    long_results = arrived.long_results if arrived else ()
    outcomes: Counter[str] = Counter(each.outcome for each in long_results)
    cuts = [each for long in long_results for each in long.replacements]
    left_out = sum([len(each.text) - len(each.placeholder) for each in cuts])
    json_before = json_after = _count_chars(original)
    if rewrite.body is not original:
        json_after = _count_chars(rewrite.body)
    return Sizes(
        messages=len(rewrite.conversation.items),
        tool_turns=rewrite.conversation.turns,
        tool_results=len(decisions),
        masked=sum(reasons.pop(reason, 0) for reason in MASKS),
        shortened=outcomes.pop("shortened", None),
        long_kept=dict(outcomes) or None,
        left_out_chars=left_out or None,
        left_out_tokens=sum(prompt.left_out.values()) or None if prompt else None,
        masked_images=len(replaced) - len(texts),
        redacted=reasons.pop("redacted", 0),
        reduced=reasons.pop("reduced", 0),
        dropped=reasons.pop("dropped", 0),
        kept=dict(reasons),
        result_reasons=run_lengths(row),
        tool_chars_before=chars + left_out,
        tool_chars_after=chars + change,
        json_chars_before=json_before,
        json_chars_after=json_after,
        tool_tokens_before=prompt.results_before if prompt else None,
        tool_tokens_after=prompt.results_after if prompt else None,
        request_tokens_before=prompt.tokens_before if prompt else None,
        request_tokens_after=prompt.tokens_after if prompt else None,
        composition=prompt.parts if prompt else None,
        redaction_scenarios=redactions.scenarios if redactions else None,
        reduction_stage=plan.stage if plan else None,
        reduction_status=plan.invariant_status if plan and plan.stage is not None else None,
        dropped_messages=len(plan.dropped) if plan else None,
    )


def _count_chars(body: bytes) -> int:
    """Return the code points of a body in UTF-8; what is not UTF-8 counts as U+FFFD."""
    return len(body) if body.isascii() else len(body.decode("utf-8", "replace"))


def run_lengths(reasons: Iterable[Reason]) -> Runs:
    """Return the reasons of results in order, each with how many results in a row have it."""
    return tuple((sum(1 for _ in run), reason) for reason, run in groupby(reasons))


def label_reasons() -> Mapping[Reason, str]:
    """Return each reason in words: `in window: in one of the last tool turns`."""
    return {
        reason: f"{reason.replace('_', ' ')}: {info.sentence}" for reason, info in REASONS.items()
    }
