"""What the contract wants of a request: each result's reason, and what is put where.

The window is that of `tests/spec/reference.py`, with images. Redaction, and a request for a summary
that goes out whole, are read here, slowly, too.
"""

from collections.abc import Iterable, Iterator, Sequence

from masking.redaction import RedactionPolicy
from masking.rewrite import Strategies
from masking.tokens import estimate_tokens
from masking.window import MaskPolicy
from tests.spec.boundary import Edge, Prices, Sizes, Step
from tests.spec.readers import Given, Spoken, Where
from tests.spec.reference import Fate, Read, Reference, put
from tests.spec.texts import Words
from tests.support.priced import prices_of


class ReferenceWithImages(Reference):
    """The contract, and what it says of images, and of tools whose results are redacted."""

    redaction = RedactionPolicy()

    def find_words(self, given: Given) -> Words:
        """Return the words of a result; those of redaction, where that will replace it."""
        if self.redaction.enabled and given.tool in self.redaction.tool_names:
            return _words_of(self.redaction)
        return super().find_words(given)

    def judge_one(self, given: Given) -> Fate:
        """Return the fate of a result by itself; its images are masked beside its texts."""
        fate = super().judge_one(given)
        if not self._masks_images(given) or fate.reason not in _LEAVES_IMAGES:
            return fate
        return Fate("masked", fate.texts, dict(given.images))

    def is_error(self, given: Given) -> bool:
        """Whether a result looks like an error; a text beside an image that is masked may."""
        return super().is_error(given) or (
            self._masks_images(given) and self.looks_like_error(given)
        )

    def _masks_images(self, given: Given) -> bool:
        return self.policy.mask_images and bool(given.images)


_LEAVES_IMAGES = ("masked", "already_masked", "too_short", "not_shorter", "not_string")


def refer(policy: MaskPolicy) -> ReferenceWithImages:
    """Return the contract under a policy, at its prices."""
    prices = prices_of(policy)
    steps = tuple(Step(step.above, step.factor) for step in prices.steps)
    told = Prices(prices.read, prices.write, steps, prices.shortest_prefix, prices.reads_at)
    return ReferenceWithImages(policy, told, estimate_tokens)


def expect(
    name: str, found: Read, strategies: Strategies, sizes: Sizes | None = None
) -> Iterator[list[Fate]]:
    """Yield what may become of the results, in order: one outcome for each possible boundary.

    Without sizes nobody knows where it stands: where the window's edge was at some request of the
    conversation so far, or nowhere.
    """
    redacted = _redact(name, found, strategies.redaction)
    for masked in find_windows(found, strategies, sizes):
        if redacted is None:
            yield masked
        else:
            yield [*map(_settle, masked, redacted)]


def leave_whole(name: str, found: Read, strategies: Strategies) -> list[Fate]:
    """Return what becomes of the results of a request for a summary: the window leaves it."""
    redacted = _redact(name, found, strategies.redaction)
    whole = [Fate("summary") for _ in found.given]
    return whole if redacted is None else [*map(_settle, whole, redacted)]


def _settle(masked: Fate, redacted: Fate) -> Fate:
    """A result is redaction's where that has put a placeholder; its images are the window's."""
    if redacted.reason not in ("redacted", "already_masked") and masked.reason != "off":
        return masked
    if not masked.images:
        return redacted
    reason = redacted.reason if redacted.texts else masked.reason
    return Fate(reason, redacted.texts, masked.images)


def find_windows(
    found: Read, strategies: Strategies, sizes: Sizes | None = None
) -> Iterator[list[Fate]]:
    """Yield what the window may make of the results, as if nothing were redacted, as `expect` does.

    What redaction will replace has its words.
    """
    policy = strategies.schema1
    contract = refer(policy)
    contract.redaction = strategies.redaction
    if sizes is not None or contract.prices.slides or not policy.masks:
        yield contract.decide(found, sizes)
        return
    fates = contract.judge(found.given)
    for edge in _find_edges(found, contract):
        yield contract.draw(found, fates, edge)


def _find_edges(found: Read, contract: Reference) -> list[Edge]:
    """Return where the boundary may stand, the latest first.

    What a request has that is new has no part in its decision: it is made of the results of the
    request before.
    """
    ends = [*found.starts, len(found.spoken)]
    turns = [contract.open_window(found.turns[end]) for end in ends]
    counts = [0, *(found.counts[end] for end in ends)]
    edges = [Edge(turn, count) for turn, count in zip(turns, counts, strict=False)]
    return [*dict.fromkeys([*reversed(edges), Edge(0, 0)])]


def _redact(name: str, found: Read, policy: RedactionPolicy) -> list[Fate] | None:
    """Return the fate of each result by section 3; None if redaction is off."""
    if not policy.enabled or not policy.tool_names:
        return None
    triggers = _find_triggers(name, found.spoken)
    return [
        _redact_one(given, policy, answered=any(at > place for at in triggers))
        for given, place in zip(found.given, found.places, strict=True)
    ]


def _redact_one(given: Given, policy: RedactionPolicy, *, answered: bool) -> Fate:
    if given.call_id is None:
        return Fate("bad_id")
    if given.turn is None:
        return Fate("orphan")
    if given.tool not in policy.tool_names:
        return Fate("other_tool")
    return _replace(given, policy) if answered else Fate("in_use")


def _replace(given: Given, policy: RedactionPolicy) -> Fate:
    """Return the fate of a result that is to be redacted: its texts go, whatever their length."""
    if given.kind == "other":
        return Fate("not_string")
    words = _words_of(policy)
    left = [each for each in given.texts if not words.wrote(given, each[1], each[2])]
    texts = {at: put(given, words.write(given, text), tail) for at, text, tail in left}
    return Fate("redacted" if texts else "already_masked", texts)


def find_words_again(
    given: Given, windows: Iterable[MaskPolicy], redaction: RedactionPolicy
) -> Iterator[tuple[Where, object]]:
    """Yield what may be put where in a result that these windows have masked before."""
    for window in windows:
        contract = refer(window)
        every = [contract.find_words(given)]
        if redaction.enabled and given.tool in redaction.tool_names:
            every.append(_words_of(redaction))
        for at, text, tail in given.texts:
            yield from ((at, put(given, words.write(given, text), tail)) for words in every)
        if window.mask_images:
            yield from given.images


def _words_of(policy: RedactionPolicy) -> Words:
    return Words(policy.placeholder_template, policy.placeholder_arguments_chars, estimate_tokens)


def _find_triggers(name: str, spoken: Sequence[Spoken]) -> list[int]:
    """Return where the model answers without calls, and where a message is malformed."""
    triggers, run = [], []
    for place, each in enumerate([*spoken, Spoken("user")]):
        if each.speaker == "model" and name in ("responses", "gemini"):
            run.append(each)
            continue
        if run and not any(one.calls for one in run):
            triggers.append(place - len(run))
        run.clear()
        is_answer = each.speaker == "model" and not each.calls
        if is_answer or (each.speaker == "nobody" and not (each.given and not each.texts)):
            triggers.append(place)
    return triggers
