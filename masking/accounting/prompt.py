"""A request as its provider's cache sees it: its tokens before masking and after, piece by piece.

The first piece of a prompt is its head, which is tool schemas and system texts; each element of the
list is another. An element is counted once for as long as it is remembered.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from itertools import groupby

import orjson

from masking.conversation import (
    Conversation,
    CountedElement,
    CountedHead,
    MaskedElement,
    ParsedElement,
    Part,
    Piece,
)
from masking.model import MASKS, Decision, Reason
from masking.reduction import ReductionStage
from masking.rewrite import Rewrite
from masking.tokens import TokenCounter
from masking.wire.format import WireFormat, render_tools
from masking.wire.parts import count_blocks

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

_MARKER_TOKENS = 16
"""About what stands between the head and the tail of a shortened text."""


@dataclass(kw_only=True)
class Prompt:
    """The pieces of a request before and after masking; the head first. Tokens are counted by us.

    parts: the tokens of each part after masking; a part without any is missing.
    left_out: the tokens that were left out at arrival, by the place of their piece.
    altered: how many pieces there are up to the last one that differs.
    left, squares: of the pieces that differ, the tokens after masking, and the squares of what each
        of them lost, summed up. Of one that was only shortened, a marker is left: its head and its
        tail stand in both prompts.
    """

    before: tuple[Piece, ...]
    after: tuple[Piece, ...]
    parts: Mapping[str, int] = field(default_factory=dict)
    left_out: Mapping[int, int] = field(default_factory=dict)
    tokens_before: int = field(init=False)
    tokens_after: int = field(init=False)
    altered: int = field(default=0, init=False)
    left: int = field(default=0, init=False)
    squares: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        """Compare the two prompts, piece by piece."""
        self.tokens_before = sum([piece.tokens for piece in self.before])
        self.tokens_after = sum([piece.tokens for piece in self.after])
        for at, (one, other) in enumerate(zip(self.before, self.after, strict=False)):
            if one.digest != other.digest:
                self.altered, lost = at + 1, one.tokens - other.tokens
                self.squares += lost**2
                was_only_shortened = lost == self.left_out.get(at)
                left = other.tokens
                self.left += min(left, _MARKER_TOKENS) if was_only_shortened else left
        if len(self.before) != len(self.after):
            self.altered = max(len(self.before), len(self.after))


def read_prompt(rewrite: Rewrite, counter: TokenCounter) -> Prompt:
    """Return the prompt of a request before masking and after. A wrong type has no tokens."""
    conversation, decisions, edits = rewrite.conversation, rewrite.decisions, rewrite.edits
    head, elements = _count_head(conversation, counter), _count_elements(conversation, counter)
    sent = _mask_elements(conversation, elements, decisions, counter)
    for place in rewrite.dropped:
        sent[place] = _drop_reasoning(sent[place])
    first = _make_head_piece(conversation, head)
    before = (first, *_make_pieces(conversation, elements))
    after = (first, *_make_pieces(conversation, sent))

    # Before all that, the client's own elements stood where results were shortened at arrival.
    left_out: dict[int, int] = {}
    arrived, whole = rewrite.arrived, [*before]
    all_results = arrived.conversation.results
    for place in dict.fromkeys([all_results[each.place].element for each in arrived.shortened]):
        own = count_element(arrived.client.parsed[place], conversation.wire, counter)
        short = count_element(arrived.conversation.parsed[place], conversation.wire, counter)
        number, gone = place + 1, own.piece.tokens - short.piece.tokens
        piece, left_out[number] = before[number], gone
        whole[number] = piece._replace(digest=own.piece.digest, tokens=piece.tokens + gone)
    before = tuple(whole)

    # A reduction drops elements, and inserts a summary in their place.
    if edits.moves:
        kept, pieces = [], [first]
        for at in edits.order(len(sent)):
            if at is None:
                wire, item = conversation.wire, edits.inserted
                summary = count_element(ParsedElement(item, wire.read_element(item)), wire, counter)
                kept.append(summary)
                pieces.append(summary.piece)
            else:
                kept.append(sent[at])
                pieces.append(after[at + 1])
        sent, after = kept, tuple(pieces)

    # What is sent, by part. A piece may render a result shorter than it was counted, so its results
    # never have more tokens than it has.
    parts: defaultdict[Part, int] = defaultdict(int, {"system": head.texts, "tools": head.tools})
    for piece, part, results, placeholders, _ in sent:
        if not results:
            parts[part] += piece.tokens
            continue
        of_results = min(sum(results), piece.tokens)
        placeholders = min(placeholders, of_results)
        parts[part] += piece.tokens - of_results
        parts["results"] += of_results - placeholders
        parts["placeholders"] += placeholders

    return Prompt(
        before=before,
        after=after,
        parts={part: tokens for part in PARTS if (tokens := parts.get(part))},
        left_out=left_out,
    )


def read_pieces(conversation: Conversation, counter: TokenCounter) -> tuple[Piece, ...]:
    """Return the pieces of a request as its client wrote it; the first is its head."""
    first = _make_head_piece(conversation, _count_head(conversation, counter))
    return (first, *_make_pieces(conversation, _count_elements(conversation, counter)))


# The head: all that stands before the list.


def _count_head(conversation: Conversation, counter: TokenCounter) -> CountedHead:
    """Count a head, and keep the outcome with it."""
    head = conversation.head
    if head.counted is None:
        wire, body = conversation.wire, conversation.body
        tools, texts = wire.find_tools(body), [*wire.find_head_texts(body)]
        head.counted = CountedHead(
            digest_of([tools, *texts]),
            tools=counter.count(render_tools(tools)) if isinstance(tools, list) else 0,
            texts=sum(map(counter.count, texts)),
        )
    return head.counted


def _make_head_piece(conversation: Conversation, head: CountedHead) -> Piece:
    # If the list has a mark and no elements, the mark can only end the head.
    marks = conversation.marks
    marked = marks.in_head or (marks.in_list and not conversation.items)
    return Piece(head.digest, head.tools + head.texts, is_marked=marked)


# The elements, as the client wrote them.


def count_element(known: ParsedElement, wire: WireFormat, counter: TokenCounter) -> CountedElement:
    """Count an element, and keep the outcome with it. A wrong type has no tokens."""
    if known.counted is not None:
        return known.counted
    item = known.item
    texts, others = wire.count_parts(item)
    element = known.element
    notes = wire.read_notes(item) if known.notes is None else known.notes
    is_of_tool = bool(element.results) and not element.texts
    known.counted = counted = CountedElement(
        piece=Piece(
            digest=_digest_once(known, wire),
            tokens=others + sum(map(counter.count, texts)),
            blocks=count_blocks(item),
            is_marked=notes.is_marked,
            begins_answer=element.speaker == "assistant",
        ),
        # What only carries results is theirs, too.
        part="results" if is_of_tool or element.speaker == "tool" else element.speaker,
        results=tuple(
            [
                sum([image.tokens for image in result.images])
                + sum(map(counter.count, result.texts))
                for result in element.results
            ]
        ),
        reasoning=sum(
            [each.tokens + counter.count(each.text) for each in wire.read_reasoning(item)]
            if element.is_bound
            else ()
        ),
    )
    return counted


def digest_elements(conversation: Conversation) -> list[bytes]:
    """Return the digest of each element of a request. Nothing is counted for that."""
    return [_digest_once(known, conversation.wire) for known in conversation.parsed]


def _digest_once(known: ParsedElement, wire: WireFormat) -> bytes:
    if known.digest is None:
        known.digest = digest_of(wire.unmark(known.item))
    return known.digest


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


def _count_elements(conversation: Conversation, counter: TokenCounter) -> list[CountedElement]:
    wire = conversation.wire
    return [known.counted or count_element(known, wire, counter) for known in conversation.parsed]


def _make_pieces(conversation: Conversation, counted: Sequence[CountedElement]) -> list[Piece]:
    """Return the piece of each element, as the client wrote it, in its place in this request."""
    pieces = [element.piece for element in counted]
    if conversation.wire.answers_in_runs:
        # Each element of a run speaks, and the request before ended at its first.
        for at in range(len(pieces) - 1, 0, -1):
            if pieces[at].begins_answer and pieces[at - 1].begins_answer:
                pieces[at] = pieces[at]._replace(begins_answer=False)
    if pieces and conversation.marks.in_list and not any(piece.is_marked for piece in pieces):
        # The request asks for marks that stand on no element: then the list's end is marked.
        pieces[-1] = pieces[-1]._replace(is_marked=True)
    return pieces


# The elements, masked.


def _mask_elements(
    conversation: Conversation,
    elements: Sequence[CountedElement],
    decisions: Sequence[Decision],
    counter: TokenCounter,
) -> list[CountedElement]:
    """Return the elements as they are sent; those without a placeholder are the very same.

    decisions: those on all tool results, in order, or none.
    """
    sent, decisions, start = [*elements], tuple(decisions), 0
    for at, element in enumerate(elements if decisions else ()):
        if count := len(element.results):
            own, known = decisions[start : start + count], conversation.parsed[at]
            start += count
            if known.masked is not None and known.masked.decisions == own:
                sent[at] = known.masked.counted
            elif any(each.replacements or each.reason == "already_masked" for each in own):
                sent[at] = _mask_element(known, element, own, counter)
    return sent


def _mask_element(
    known: ParsedElement,
    element: CountedElement,
    decisions: tuple[Decision, ...],
    counter: TokenCounter,
) -> CountedElement:
    """Count an element with its placeholders, be they ours or such as the client sent.

    decisions: those on its results. The outcome is kept with the element.
    """
    results, placeholders, edits, change = [], 0, [], 0
    for decision, tokens in zip(decisions, element.results, strict=True):
        result, replacements = decision.result, decision.replacements
        if replacements:
            added = sum([counter.count(each.placeholder) for each in replacements])
            replaced = tokens  # if it is one text
            if result.images or result.texts != (replacements[0].text,):
                replaced = sum([each.count_replaced(counter.count) for each in replacements])
            edits += [[[*each.slot], each.placeholder] for each in replacements]
            change += added - replaced
            results.append(max(added, tokens - replaced + added))  # more than its texts may go
            placeholders += added
        else:
            results.append(tokens)
            placeholders += tokens if decision.reason == "already_masked" else 0
    piece = element.piece
    if edits:
        digest = blake2b(piece.digest + digest_of(edits), digest_size=16).digest()
        piece = piece._replace(digest=digest, tokens=piece.tokens + change)
    counted = element._replace(piece=piece, results=tuple(results), placeholders=placeholders)
    known.masked = MaskedElement(decisions, counted)
    return counted


def _drop_reasoning(element: CountedElement) -> CountedElement:
    """Return an element without its reasoning, as where the provider drops that."""
    piece = element.piece
    digest = blake2b(piece.digest + b"dropped", digest_size=16).digest()
    piece = piece._replace(digest=digest, tokens=piece.tokens - element.reasoning)
    return element._replace(piece=piece, reasoning=0)


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
    left_out_tokens: int | None = None
    masked_images: int = 0
    redacted: int = 0
    reduced: int = 0
    dropped: int = 0
    kept: Mapping[str, int]
    result_reasons: Runs
    tool_chars_before: int
    tool_chars_after: int
    request_tokens_before: int | None = None
    request_tokens_after: int | None = None
    composition: Mapping[str, int] | None = None
    redaction_scenarios: tuple[int, ...] | None = None
    reduction_stage: ReductionStage | None = None
    dropped_messages: int | None = None


def measure(rewrite: Rewrite, prompt: Prompt | None = None) -> Sizes:
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
    long_results = rewrite.arrived.long_results
    outcomes: Counter[str] = Counter(each.outcome for each in long_results)
    cuts = [each for long in long_results for each in long.replacements]
    left_out = sum([len(each.text) - len(each.placeholder) for each in cuts])
    return Sizes(
        messages=len(rewrite.conversation.items),
        tool_turns=rewrite.conversation.turns,
        tool_results=len(decisions),
        masked=sum(reasons.pop(reason, 0) for reason in MASKS),
        shortened=outcomes.pop("shortened", None),
        long_kept=dict(outcomes) or None,
        left_out_tokens=sum(prompt.left_out.values()) or None if prompt else None,
        masked_images=len(replaced) - len(texts),
        redacted=reasons.pop("redacted", 0),
        reduced=reasons.pop("reduced", 0),
        dropped=reasons.pop("dropped", 0),
        kept=dict(reasons),
        result_reasons=run_lengths(row),
        tool_chars_before=chars + left_out,
        tool_chars_after=chars + change,
        request_tokens_before=prompt.tokens_before if prompt else None,
        request_tokens_after=prompt.tokens_after if prompt else None,
        composition=prompt.parts if prompt else None,
        redaction_scenarios=redactions.scenarios if redactions else None,
        reduction_stage=plan.stage if plan else None,
        dropped_messages=len(plan.dropped) if plan else None,
    )


def run_lengths(reasons: Iterable[Reason]) -> Runs:
    """Return the reasons of results in order, each with how many results in a row have it."""
    return tuple((sum(1 for _ in run), reason) for reason, run in groupby(reasons))
