"""A conversation of a log as requests that can be replayed, and how far that can be believed.

A log holds neither the system prompt nor the tool schemas, and often no reasoning. What the
provider counted of each request tells how many tokens these took.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from hashlib import blake2b
from itertools import combinations, pairwise
from statistics import median
from typing import Literal, NamedTuple

from addon.replay.logs.log import LoggedConversation, LoggedRequest
from addon.replay.replay import RecordedRequest
from masking.accounting import read_pieces
from masking.conversation import (
    Conversation,
    CountedHead,
    HeadFacts,
    ParsedElement,
    Request,
    index_request,
)
from masking.history import History
from masking.model import Edits
from masking.request_cache import RequestCache
from masking.tokens import TokenCounter
from masking.wire import Added, HeadSize, Marks, Usage, find_claude_binding

Account = Literal["old", "new"]
"""Whether an account takes changed texts before reasoning that newer accounts refuse."""

CostOnly = Literal["differs", "shortened", "unnamed"]
"""Why nothing is said of what masking would have saved in a session.

unnamed: the log names no model of which it is known whether it binds its reasoning, and that kept
    results from being masked.
differs: what the log holds and what the provider counted differ too much.
shortened: the provider counted less at a request, and at those after it, than the one before and
    what the log grew by since.
"""

MOST_DIFFERENCE = 0.1
"""The part of a session's tokens by which the rebuilt requests may differ from the reported."""

_LEAST_SCALE, _MOST_SCALE = 0.6, 2.0
"""How many tokens a model's tokenizer may make of one of o200k; Claude's newest make 1.5."""

_MOST_POINTS = 64
"""So many requests, spread over a session, are enough for a line: a pair of each two is tried."""

_LEAST_APART = 0.05
"""Two requests whose sizes differ by less, as a part of the largest, say nothing of the scale."""

_LONG_PAUSE = 2 * 3600.0
"""Seconds, after which a session that goes on was resumed: what the log does not hold may be more
then, or less, as after a compaction."""

_STAYS_OUT = 3
"""For so many requests a prompt has to be shorter to count as shortened."""

_LEAST_GROWTH = 50
"""Of fewer tokens, the provider's count says more about the message than about the text."""

_FORGETS = "responses"
"""The format whose provider does not bill reasoning from before the user spoke last
(platform.openai.com/docs/guides/reasoning)."""

_LEAST_POINTS = 4
"""A model with fewer requests is taken to have the tokenizer of the others."""


class TokenFit(NamedTuple):
    """How a provider counts a model's prompts.

    hidden: the tokens that no log holds. scale: what it counts for each token of ours.
    """

    hidden: float = 0.0
    scale: float = 1.0

    def predict(self, tokens: int) -> float:
        """Return what the provider counts for a request of so many tokens by our count."""
        return self.hidden + self.scale * tokens

    def begin_at(self, points: Sequence[tuple[int, int]]) -> "TokenFit":
        """Return the same scale with what is hidden in these requests; there is one at least."""
        hidden = median(theirs - self.scale * ours for ours, theirs in points)
        if hidden >= 0:
            return TokenFit(hidden, self.scale)
        return TokenFit(0.0, _bound(median(theirs / max(1, ours) for ours, theirs in points)))


class _Step(NamedTuple):
    """A request: it has the first `keep` elements of the one before, and then the `new` ones.

    tokens: of all its elements, by our count, but for reasoning that is no longer billed.
    stretch: the number of the stretch that it is in, in which nothing of what the log does not
        hold changes.
    """

    keep: int
    new: tuple[ParsedElement, ...]
    tokens: int
    stretch: int
    request: LoggedRequest

    @property
    def prompt(self) -> int | None:
        """The tokens that the provider reported; None if it did not."""
        return (self.request.usage and self.request.usage.prompt) or None

    @property
    def says(self) -> bool:
        """Whether the user says something in it that is new."""
        elements = (known.element for known in self.new)
        return any(each.speaker == "user" and not each.results for each in elements)


class _Size(NamedTuple):
    """The tokens of the elements up to one, and those of the reasoning among them.

    forgotten: those of the reasoning before the user spoke last.
    """

    tokens: int = 0
    thought: int = 0
    forgotten: int = 0

    def add(self, known: ParsedElement) -> "_Size":
        """Return the size with the next element."""
        tokens = known.counted.piece.tokens if known.counted else 0
        element = known.element
        says = element.speaker == "user" and not element.results
        thinks = element.is_bound and not element.texts and not element.calls
        return _Size(
            self.tokens + tokens,
            self.thought + (tokens if thinks else 0),
            self.thought if says else self.forgotten,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class RebuiltRequest(RecordedRequest):
    """A request that was rebuilt from a log. It has no body: nobody has written one."""

    conversation: Conversation

    def read(self, cache: RequestCache) -> Conversation:
        """Return the request, read."""
        return self.conversation


class LogSession:
    """A conversation of a log; a `Session`.

    It is decoded once, however often it is replayed: an element that requests have in common is
    read and counted once. Memory holds the conversation and a few numbers for each request.

    account: whose requests they are; None if it is not known, which is as "new". It may be set
        between two replays.
    """

    def __init__(
        self,
        conversation: LoggedConversation,
        counter: TokenCounter,
        account: Account | None = None,
    ) -> None:
        self.conversation = conversation
        self.account = account
        self._counter = counter

    @property
    def name(self) -> str:
        """The name under which it is shown."""
        return self.conversation.name

    # What the log holds

    @cached_property
    def _steps(self) -> Sequence[_Step]:
        wire, steps = self.conversation.wire, list[_Step]()
        parsed: dict[int, ParsedElement] = {}
        """By the identity of what was decoded, which it keeps alive."""
        items: list[object] = []
        sizes = [_Size()]
        forgets = wire.name == _FORGETS
        stretch, sent = 0, None
        for request in self.conversation.requests():
            keep = 0
            for was, item in zip(items, request.items, strict=False):
                if was is not item:
                    break
                keep += 1
            new = []
            for item in request.items[keep:]:
                known = parsed.get(id(item))
                if known is None:
                    known = parsed[id(item)] = ParsedElement(item, wire.read_element(item))
                new.append(known)
            if new:  # they are counted, and the outcome is kept with each
                read_pieces(self._index(None, new, HeadFacts(), History(), Marks()), self._counter)
            is_shorter = len(request.items) < len(items)
            is_resumed = sent is not None and (request.when - sent).total_seconds() > _LONG_PAUSE
            stretch, sent = stretch + (is_shorter or is_resumed), request.when
            items[keep:] = request.items[keep:]
            del sizes[keep + 1 :]
            for each in new:
                sizes.append(sizes[-1].add(each))
            tokens = sizes[-1].tokens - (sizes[-1].forgotten if forgets else 0)
            steps.append(_Step(keep, tuple(new), tokens, stretch, replace(request, items=())))
        return steps

    @cached_property
    def fits(self) -> Mapping[tuple[int, str | None], TokenFit]:
        """How the provider counts, by stretch and model; empty if it reported nothing."""
        models: defaultdict[str | None, list[tuple[int, int]]] = defaultdict(list)
        stretches: defaultdict[tuple[int, str | None], list[tuple[int, int]]] = defaultdict(list)
        for step in self._steps:
            if step.prompt is not None:
                point, model = (step.tokens, step.prompt), step.request.model
                models[model].append(point)
                stretches[step.stretch, model].append(point)
        every = [point for own in models.values() for point in own]
        lines = {
            model: fit(own if len(own) >= _LEAST_POINTS else every) for model, own in models.items()
        }
        return {
            (stretch, model): lines[model].begin_at(own)
            for (stretch, model), own in stretches.items()
        }

    def _find_fit(self, step: _Step) -> TokenFit:
        return self.fits.get((step.stretch, step.request.model), TokenFit())

    @cached_property
    def difference(self) -> float | None:
        """By how much what was rebuilt differs from what was reported, as a part of that.

        None if nothing was reported.
        """
        reported = off = 0.0
        for step in self._steps:
            if step.prompt is not None:
                reported += step.prompt
                off += abs(self._find_fit(step).predict(step.tokens) - step.prompt)
        return off / reported if reported else None

    @cached_property
    def cost_only(self) -> CostOnly | None:
        """Why this session counts for its cost alone; None if for what masking saves, too."""
        grew = [
            (number, before, step)
            for number, (before, step) in enumerate(pairwise(self._steps), 1)
            if before.prompt is not None and step.prompt is not None
            # Where the user speaks, a provider may forget what was thought before.
            and step.tokens >= before.tokens and not step.says
            and (before.stretch, before.request.model) == (step.stretch, step.request.model)
        ]  # fmt: skip
        # The line through all requests is flatter for what was taken out of them. Most requests
        # only grew, so the median of their growths is not.
        growths = [
            ((step.prompt or 0) - (before.prompt or 0)) / (step.tokens - before.tokens)
            for _, before, step in grew
            if step.tokens - before.tokens >= _LEAST_GROWTH
        ]
        scale = max(0.0, median(growths)) if growths else 0.0
        for number, before, _ in grew:
            # One request may be off the line; what was taken out of a prompt stays out of it.
            if all(
                (each.prompt or 0)
                < (1 - MOST_DIFFERENCE)
                * ((before.prompt or 0) + scale * (each.tokens - before.tokens))
                for each in self._steps[number : number + _STAYS_OUT]
            ):
                return "shortened"
        difference = self.difference
        return "differs" if difference is not None and difference > MOST_DIFFERENCE else None

    @property
    def depends_on_account(self) -> bool:
        """Whether what may be masked depends on the account."""
        return any(depends_on_account(step.request.model) for step in self._steps)

    # As requests

    def requests(self) -> Iterator[RecordedRequest]:
        """Yield its requests in order, with what the provider reported of each."""
        about = self.conversation
        usages = [step.request.usage for step in self._steps]
        marks = _find_marks([usage for usage in usages if usage is not None])
        heads: dict[tuple[int, str | None], HeadFacts] = {}
        history = History()
        elements: list[ParsedElement] = []
        for step in self._steps:
            model, usage = step.request.model, step.request.usage
            elements[step.keep :] = step.new
            place = step.stretch, model
            if place not in heads:
                heads[place] = self._make_head(model, self._find_fit(step), marks)
            yield RebuiltRequest(
                body=b"",
                when=step.request.when,
                host=about.host,
                usage=usage,
                wire=about.wire,
                path=about.path,
                client=about.agent,
                conversation=self._index(step.request, elements, heads[place], history, marks),
            )

    def _make_head(self, model: str | None, fit: TokenFit, marks: Marks) -> HeadFacts:
        """Return facts about what the log does not hold, as if it stood before the list."""
        hidden, scale = fit
        tokens = round(hidden / scale)
        head = HeadFacts()
        head.size = HeadSize(tokens, tokens if marks.in_head else 0)
        digest = blake2b(f"{self.conversation.name} {model}".encode(), digest_size=16).digest()
        head.counted = CountedHead(digest, tokens, 0)
        return head

    def _index(
        self,
        logged: LoggedRequest | None,
        elements: Sequence[ParsedElement],
        head: HeadFacts,
        history: History,
        marks: Marks,
    ) -> Conversation:
        wire, path = self.conversation.wire, self.conversation.wire.list_paths[0]
        items = [element.item for element in elements]
        document: dict[str, object] = {str(path[-1]): items}
        for key in reversed(path[:-1]):
            document = {str(key): document}
        listed = path, items, [*elements]
        request = _Rebuilt(document, wire, self.conversation.path, b"", head, history, listed)
        request.marks, request.account = marks, self.account
        request.tier = logged.tier if logged else None
        request.name_model(logged.model if logged else None)
        return index_request(request)


def depends_on_account(model: str | None) -> bool:
    """Whether a model refuses changed texts before its reasoning on some accounts alone."""
    return find_claude_binding(model) == "may_refuse"


class _Rebuilt(Request):
    """A request without a body: what is replaced in it is decided and billed, and not written.

    account: whose it is, as in `LogSession`.
    """

    account: Account | None = None

    def name_model(self, model: str | None) -> None:
        super().name_model(model)
        if depends_on_account(model):
            self.binding = None if self.account == "old" else "refuses"

    def edit(self, edits: Edits) -> bytes:
        return self.body

    def add(self, body: bytes, added: Added) -> bytes:
        return body


def _find_marks(usages: Sequence[Usage]) -> Marks:
    """Return the cache marks that a client sets whose provider reported this.

    Agents mark what stands before the list and its last element, all for the same time. A session
    of which nothing is known is taken to be cached.
    """
    if usages and not any(usage.cached or usage.written for usage in usages):
        return Marks()
    is_long = any(usage.written_long for usage in usages)
    return Marks(in_head=True, in_list=True, lifetimes=("1h",) if is_long else ())


# How a provider counts. Its tokens are a straight line over ours: what the log does not hold is
# where the line begins, the tokenizer is its slope. Some requests are far off the line (a picture,
# a result that was cleared), so both are medians rather than least squares: up to a quarter of the
# requests may be anywhere (P. K. Sen 1968, "Estimates of the regression coefficient based on
# Kendall's tau").


def fit(points: Sequence[tuple[int, int]]) -> TokenFit:
    """Return the line through some requests, each our tokens of it and the provider's."""
    step = max(1, len(points) // _MOST_POINTS)
    least = _LEAST_APART * max(ours for ours, _ in points)
    slopes = [
        ((theirs - other) / (ours - fewer), abs(ours - fewer))
        for (fewer, other), (ours, theirs) in combinations(points[::step], 2)
        if abs(ours - fewer) > least
    ]
    scale = _bound(_weighted_median(slopes)) if slopes else 1.0
    return TokenFit(scale=scale).begin_at(points)


def _bound(scale: float) -> float:
    return min(_MOST_SCALE, max(_LEAST_SCALE, scale))


def _weighted_median(values: Sequence[tuple[float, float]]) -> float:
    """Return the value at which half of the weights are reached."""
    half, reached = sum(weight for _, weight in values) / 2, 0.0
    for value, weight in sorted(values):
        reached += weight
        if reached >= half:
            return value
    raise ValueError("no values")
