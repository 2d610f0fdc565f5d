"""The contract of the window in plain lines: which tool results are masked, by what, and why not.

Read this first. It follows section 1 of the contract, and is as slow as it likes: it reads the
whole request anew, and remembers nothing. Everything fast is held equal to it
(`tests/spec/test_20_reference.py`). From the code under test it takes a policy, as a value. The
caller says how many tokens a text has.

When the boundary moves is in `tests/spec/boundary.py`, how each wire format spells an element in
`tests/spec/readers.py`, what a placeholder and what an error look like in `tests/spec/texts.py`.
Images, models that bind their reasoning, summaries and what is remembered of a conversation are the
fuzzer's (`tests/tools/fuzz`).
"""

import json
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any

from masking.window.policy import MaskPolicy
from tests.spec.boundary import Bill, Edge, Prices, Sizes
from tests.spec.readers import BY_ORDER, IN_RUNS, Given, Spoken, Where, find_list, hear
from tests.spec.texts import Estimate, Words, fails

# Which call a result answers, in which tool turn


@dataclass(slots=True)
class Read:
    """A request: what its elements say, and its results.

    places: for each result, that of its element.
    starts: where each answer of the model begins: a request was sent before it.
    turns, counts: how many tool turns and results there are before each element, and in all.
    """

    at: Where
    spoken: list[Spoken] = field(default_factory=list)
    given: list[Given] = field(default_factory=list)
    places: list[int] = field(default_factory=list)
    starts: list[int] = field(default_factory=list)
    turns: list[int] = field(default_factory=lambda: [0])
    counts: list[int] = field(default_factory=lambda: [0])

    def is_unread(self, result: int) -> bool:
        """Whether a result stands behind the last message of the model."""
        answers = [at for at, each in enumerate(self.spoken) if each.speaker == "model"]
        return self.places[result] > max(answers, default=-1)


@dataclass(slots=True, eq=False)
class _Call:
    call_id: str
    turn: int
    tool: str | None
    arguments: object
    is_open: bool = True
    results: list[Given] = field(default_factory=list)

    def answer(self, given: Given) -> None:
        self.is_open = False
        given.turn, given.tool, given.arguments = self.turn, self.tool, self.arguments


def read(name: str, document: Any) -> Read:  # noqa: ANN401 - JSON
    """Read a decoded request in the wire format of this name."""
    path, elements = find_list(name, document)
    found = Read(path)
    declared: dict[str, list[_Call]] = {}
    bound: dict[str, list[Given]] = {}
    """By id, its calls in the last turn that declared it, and the results that belong to them."""
    last: list[_Call] = []
    waiting: list[Given] = []
    in_answer = in_turn = False
    for place, element in enumerate(elements):
        spoken = hear(name, element, (*path, place))
        turns = found.turns[-1]
        is_model = spoken.speaker == "model"
        if is_model and not (in_answer and name in IN_RUNS):
            found.starts.append(place)
            in_turn = False
        in_answer = is_model
        # A tool turn is an answer with at least one call that a result can name.
        calls = [call for call in spoken.calls if call.call_id is not None]
        if calls and not in_turn:
            turns, last, in_turn = turns + 1, [], True
        for call in calls:
            call_id = call.call_id or ""
            last.append(_Call(call_id, turns - 1, call.tool, call.arguments))
            if not call_id:
                continue
            if call_id not in declared or declared[call_id][0].turn != turns - 1:
                # The id is used again: its earlier turn gets no further results. Those that came
                # before their call belong to the first later turn that declares it: this one.
                declared[call_id] = []
                bound[call_id] = [each for each in waiting if each.call_id == call_id]
                waiting = [each for each in waiting if each.call_id != call_id]
                for each in bound[call_id]:
                    each.early = True
            declared[call_id].append(last[-1])
            for each in bound[call_id][len(declared[call_id]) - 1 :]:
                last[-1].answer(each)
        for given in spoken.given:
            named, given.tool = given.tool, None
            known = declared.get(given.call_id or "")
            by_order = [call for call in last if call.is_open and name in BY_ORDER]
            answered = None
            if known:
                # The nth result of an id answers the nth call, and further ones the last.
                bound[given.call_id or ""].append(given)
                answered = known[min(len(bound[given.call_id or ""]), len(known)) - 1]
                by_id = [call for call in by_order if call.call_id == given.call_id]
                answered = by_id[0] if by_id else answered
            elif given.call_id is not None:
                # Where ids are left out, a result answers the next call of its tool.
                fits = [call for call in by_order if not (given.call_id and call.call_id)]
                fits = [call for call in fits if named is None or call.tool == named]
                answered = fits[0] if fits else None
            if answered:
                answered.answer(given)
            elif given.call_id:
                waiting.append(given)
            found.given.append(given)
            found.places.append(place)
        found.spoken.append(spoken)
        found.turns.append(turns)
        found.counts.append(len(found.given))
    return found


def ends_within_answer(name: str, document: Any) -> bool:  # noqa: ANN401 - JSON
    """Whether a request ends with an answer of the model's that another element would go on."""
    spoken = read(name, document).spoken
    return name in IN_RUNS and bool(spoken) and spoken[-1].speaker == "model"


# What becomes of each result


@dataclass(slots=True)
class Fate:
    """Why a result stays or goes, and what is put at which paths."""

    reason: str
    texts: dict[Where, object] = field(default_factory=dict)
    images: dict[Where, object] = field(default_factory=dict)


class Reference:
    """The contract under a policy and prices."""

    def __init__(self, policy: MaskPolicy, prices: Prices, estimate: Estimate) -> None:
        self.policy = policy
        self.prices = prices
        self._estimate = estimate
        self.words = Words(
            policy.placeholder_template, policy.placeholder_arguments_chars, estimate
        )

    def decide(self, found: Read, sizes: Sizes | None = None) -> list[Fate]:
        """Return the fate of each result; a window that slides needs no sizes."""
        if not self.policy.enabled or self.policy.window_turns <= 0:
            return [Fate("off") for _ in found.given]
        fates = self.judge(found.given)
        return self.draw(found, fates, self.find_edge(found, fates, sizes))

    def find_edge(self, found: Read, fates: Sequence[Fate], sizes: Sizes | None = None) -> Edge:
        """Return where masking ends: at the window's edge, unless moving there has a price."""
        if self.prices.slides or sizes is None:
            return Edge(self.open_window(found.turns[-1]), len(found.given))
        return Bill(self, found, fates, sizes).go()

    def open_window(self, turns: int) -> int:
        """Return the first turn that is in the window after so many turns."""
        return max(0, turns - self.policy.window_turns)

    # By where a result stands

    def draw(self, found: Read, fates: Sequence[Fate], edge: Edge) -> list[Fate]:
        """Return the fates, with the reasons of what stays wherever it stands.

        What would keep a result is said in the contract's order.
        """
        kept = self.find_protected(found.given[: edge.results], edge.turn)
        drawn = []
        for place, (given, fate) in enumerate(zip(found.given, fates, strict=True)):
            reason = kept.get(place)
            if reason in ("last_images", "latest"):
                reason = self.find_named(given) or reason
            if given.call_id is None:
                reason = "bad_id"
            elif given.turn is None:
                reason = "orphan"
            elif given.turn >= self.open_window(found.turns[-1]) or found.is_unread(place):
                reason = "in_window"
            elif given.turn >= edge.turn or place >= edge.results:
                reason = "held"
            drawn.append(fate if reason is None else Fate(reason))
        return drawn

    def find_protected(self, given: Sequence[Given], edge: int) -> dict[int, str]:
        """Return what is kept because of the other results, the last first.

        Where moving has a price, a call that came after its result was not known when the boundary
        moved, and what was decided then must stand.
        """
        policy = self.policy
        kept: dict[int, str] = {}
        tools: Counter[str] = Counter()
        targets = set()
        images = policy.keep_last_images if policy.mask_images else 0
        for place in reversed(range(len(given))):
            each = given[place]
            is_known = self.prices.slides or not each.early
            target = self.find_target(each) if is_known and each.turn is not None else None
            if target and each.turn is not None:
                oldest = edge + policy.window_turns - policy.keep_latest_turns
                if policy.keep_latest_turns > 0 and target not in targets and each.turn >= oldest:
                    kept[place] = "latest"
                targets.add(target)
            if images > 0 and each.images:
                images -= len(each.images)
                kept[place] = "last_images"
            if is_known and each.tool is not None:
                tools[each.tool] += 1
                if tools[each.tool] <= (policy.keep_last_k_per_tool or 0):
                    kept[place] = "last_k"
        return kept

    def find_target(self, given: Given) -> tuple[str | None, str] | None:
        """Return what a call is about: its tool and its path-like argument."""
        found = read_arguments(given)
        values = (found.get(name) for name in self.policy.target_arguments)
        path = next((value for value in values if isinstance(value, str) and value), None)
        return None if path is None else (given.tool, path)

    # By what a result is, as if it were old enough

    def judge(self, given: Sequence[Given]) -> list[Fate]:
        """Return the fate of each result that is old enough, by what it is and its call."""
        fates = [*map(self.judge_one, given)]
        if self.policy.keep_rereads:
            keys = [*map(_find_key, given)]
            again = [n for n in range(len(given)) if self._is_asked_again(n, given, keys, fates)]
            for place in again:
                fates[place] = Fate("reread")
        return fates

    def judge_one(self, given: Given) -> Fate:
        """Return the fate of a result by itself."""
        if named := self.find_named(given):
            return Fate(named)
        if self.policy.keep_errors and self.is_error(given):
            return Fate("error")
        return self.mask_texts(given) if self.is_text(given) else Fate("not_string")

    def is_text(self, given: Given) -> bool:
        """Whether texts of a result may be replaced: a string, or, if the policy says so, parts."""
        return given.kind == "text" or (given.kind == "list" and self.policy.mask_text_parts)

    def is_error(self, given: Given) -> bool:
        """Whether a result says that it failed, or what may be replaced looks like it."""
        return given.fails or (self.is_text(given) and self.looks_like_error(given))

    def looks_like_error(self, given: Given) -> bool:
        """Whether its texts, joined, look like an error."""
        return fails(given.said, self.policy.error_words_max_chars)

    def find_named(self, given: Given) -> str | None:
        """Return why a policy keeps a result by the names in it."""
        policy, tool = self.policy, given.tool
        if tool is not None and _matches(tool, policy.keep_tools):
            return "kept_tool"
        if policy.mask_tools and (tool is None or not _matches(tool, policy.mask_tools)):
            return "unlisted_tool"
        values = read_arguments(given).values() if policy.keep_arguments else ()
        is_kept = any(isinstance(v, str) and _matches(v, policy.keep_arguments) for v in values)
        return "kept_argument" if is_kept else None

    def mask_texts(self, given: Given) -> Fate:
        """Put a placeholder in the place of each text, unless it is one, or would not be shorter.

        Where moving has a price, what costs more has no place in the promise; in a list no part
        grows, whatever the policy says.
        """
        policy = self.policy
        must_shrink = policy.skip_if_not_shorter or not self.prices.slides or given.kind == "list"
        words = self.find_words(given)
        left = [each for each in given.texts if not words.wrote(given, each[1], each[2])]
        chars = sum(len(text) for _, text, _ in left)
        fate, reason = Fate("masked"), "already_masked"
        for at, text, tail in left:
            placeholder = words.write(given, text)
            if chars < policy.min_chars:
                reason = "too_short"
            elif must_shrink and not self._is_shorter(placeholder, text):
                reason = "not_shorter"
            else:
                fate.texts[at] = put(given, placeholder, tail)
        if not fate.texts:
            fate.reason = reason
        return fate

    def find_words(self, given: Given) -> Words:
        """Return the words that a result is masked in."""
        return self.words

    def _is_shorter(self, placeholder: str, text: str) -> bool:
        """Whether a placeholder is shorter, in characters and in tokens, whatever the prices."""
        tokens = map(self._estimate, (placeholder, text))
        return len(placeholder) < len(text) and next(tokens) < next(tokens)

    def _is_asked_again(
        self,
        place: int,
        given: Sequence[Given],
        keys: Sequence[tuple[str, str]],
        fates: Sequence[Fate],
    ) -> bool:
        """Whether the latest equal call before had a result that was out of the window by then."""
        one = given[place]
        if one.turn is None:
            return False
        same = [
            (each.turn, at)
            for at, each in enumerate(given[:place])
            if each.turn is not None and each.turn < one.turn and keys[at] == keys[place]
        ]
        if not same:
            return False
        turn, latest = max(same)
        is_gone = fates[latest].reason in ("masked", "already_masked")
        return turn < one.turn - self.policy.window_turns and is_gone

    def measure(self, given: Given, fate: Fate, size: int) -> int:
        """Return what masking a result takes off each request, in tokens; never less than 0."""
        if not fate.texts:
            return 0
        tails = {at: (text, tail) for at, text, tail in given.texts}
        before = after = 0
        for at, value in fate.texts.items():
            text, tail = tails[at]
            before += self._estimate(text + tail)
            after += self._estimate(str(value[given.wrap] if isinstance(value, dict) else value))
        # In a list, what stays saves nothing.
        return max(0, (size if given.kind == "text" else before) - after)


def put(given: Given, placeholder: str, tail: str) -> object:
    """Return what takes the place of a text; what follows it in the same string stays."""
    return {given.wrap: placeholder} if given.wrap else placeholder + tail


def read_arguments(given: Given) -> dict[str, object]:
    """Return a call's arguments by name; none if they are no JSON object."""
    found = given.arguments
    if isinstance(found, str):
        try:
            found = json.loads(found)
        except ValueError:
            return {}
    return found if isinstance(found, dict) else {}


def _matches(text: str, globs: Sequence[str]) -> bool:
    return any(fnmatchcase(text, glob) for glob in globs)


def _find_key(given: Given) -> tuple[str, str]:
    found = given.arguments
    if isinstance(found, str):
        if len(found) > 1_000:  # such arguments must be spelled alike
            return str(given.tool), found
        with suppress(ValueError):  # any other text is as it is
            found = json.loads(found)
    return str(given.tool), json.dumps(found, sort_keys=True)
