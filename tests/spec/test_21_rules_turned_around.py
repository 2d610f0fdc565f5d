"""Chapter 21: if the reference had a rule wrong, comparing it with the code would show that.

Each row turns one rule around, of the contract's sections 1 and 2, by a patch of the reference's
source.
"""

# ruff: noqa: E501 - a row quotes the source that it patches

import sys
from pathlib import Path
from random import Random
from types import ModuleType
from typing import Any, NamedTuple

import pytest

from tests.spec import boundary, reference, texts
from tests.spec.compared import FORMATS, compare
from tests.support.marks import as_one_test


class Variation(NamedTuple):
    rule: str
    old: str
    new: str


VARIATIONS = (
    # When masking is on, and what a tool turn is
    Variation("off if not enabled", "not self.policy.enabled or ", ""),
    Variation("off with a window of no turns", "self.policy.window_turns <= 0", "False"),
    Variation("a turn has a call with an id", "if calls and not in_turn:", "if not in_turn:"),
    Variation(
        "a turn without results counts",
        "        found.turns.append(turns)\n",
        "        found.turns.append(found.turns[-1] + (spoken.speaker == 'tool'))\n",
    ),
    Variation("parallel calls are one turn", "if calls and not in_turn:", "for _ in calls:"),
    Variation(
        "an empty id is none",
        "calls = [call for call in spoken.calls if call.call_id is not None]",
        "calls = [c for c in spoken.calls if c.call_id or not c.tool]",
    ),
    # Which call a result belongs to
    Variation(
        "the nearest earlier turn that declared its id",
        "declared[call_id][0].turn != turns - 1:",
        "False:",
    ),
    Variation(
        "a result before its call: the first later turn",
        "[each for each in waiting if each.call_id == call_id]",
        "[]",
    ),
    Variation(
        "the first later turn, not a further one",
        "waiting = [each for each in waiting if each.call_id != call_id]",
        "pass",
    ),
    Variation(
        "the nth result of an id answers the nth call",
        'known[min(len(bound[given.call_id or ""]), len(known)) - 1]',
        "known[-1]",
    ),
    Variation(
        "further results answer the last call",
        'known[min(len(bound[given.call_id or ""]), len(known)) - 1]',
        'known[(len(bound[given.call_id or ""]) - 1) % len(known)]',
    ),
    # Reasons by where a result stands, in their order
    Variation("behind the last answer nothing is masked", " or found.is_unread(place)", ""),
    Variation(
        "the last turns are in the window",
        "max(0, turns - self.policy.window_turns)",
        "max(0, turns - self.policy.window_turns + 1)",
    ),
    Variation("no call is an orphan", 'reason = "orphan"', 'reason = "bad_id"'),
    Variation(
        "held before in_window",
        'elif given.turn >= self.open_window(found.turns[-1]) or found.is_unread(place):\n                reason = "in_window"\n            elif given.turn >= edge.turn or place >= edge.results:\n                reason = "held"',
        'elif given.turn >= edge.turn or place >= edge.results:\n                reason = "held"',
    ),
    Variation("held", "given.turn >= edge.turn or place >= edge.results", "False"),
    Variation(
        "held comes before what is protected",
        "elif given.turn >= edge.turn or place",
        "elif reason is None and given.turn >= edge.turn or place",
    ),
    Variation(
        "the last of a tool come before errors",
        "drawn.append(fate if reason is None else",
        'drawn.append(fate if reason is None or fate.reason == "error" else',
    ),
    Variation(
        "names come before errors",
        'if named := self.find_named(given):\n            return Fate(named)\n        if self.policy.keep_errors and self.is_error(given):\n            return Fate("error")',
        'if self.policy.keep_errors and self.is_error(given):\n            return Fate("error")\n        if named := self.find_named(given):\n            return Fate(named)',
    ),
    Variation(
        "an error comes before what is no text",
        "if self.policy.keep_errors and self.is_error(given):",
        "if self.policy.keep_errors and self.is_text(given) and self.is_error(given):",
    ),
    # keep_last_k_per_tool, the later settings
    Variation("the last K of a tool are counted", "tools[each.tool] <=", "tools[each.tool] <"),
    Variation("the last K count from the end", "reversed(range(len(given)))", "range(len(given))"),
    Variation(
        "those in the window count",
        "self.find_protected(found.given[: edge.results], edge.turn)",
        "self.find_protected([g for g in found.given[: edge.results] if g.turn is None or g.turn < edge.turn], edge.turn)",
    ),
    Variation(
        "the last K are those of one tool",
        "tools[each.tool] += 1\n                if tools[each.tool]",
        "tools[''] += 1\n                if tools['']",
    ),
    Variation(
        "a result of an unknown tool does not count",
        "is_known and each.tool is not None",
        "is_known and (each.tool or not each.turn)",
    ),
    Variation("keep_tools", "tool is not None and _matches(tool, policy.keep_tools)", "False"),
    Variation("mask_tools", "if policy.mask_tools and", "if False and"),
    Variation("keep_arguments", 'return "kept_argument" if is_kept else None', "return None"),
    Variation("the latest of a target", "each.turn >= oldest", "False"),
    Variation("older ones of a target follow the window", "target not in targets and ", ""),
    Variation("a later re-read", "if self.policy.keep_rereads:", "if False:"),
    Variation(
        "a re-read counts once its result has left the window",
        "turn < one.turn - self.policy.window_turns and is_gone",
        "is_gone",
    ),
    # Contents
    Variation("a string is masked", 'given.kind == "text" or (', 'given.kind == "nothing" or ('),
    Variation("a list only if mask_text_parts", "and self.policy.mask_text_parts)", ")"),
    Variation("already a placeholder", "if not words.wrote(given, each[1], each[2])", "if True"),
    Variation("min_chars", "if chars < policy.min_chars:", "if chars <= policy.min_chars:"),
    Variation(
        "min_chars of all texts together",
        "if chars < policy.min_chars:",
        "if len(text) < policy.min_chars:",
    ),
    Variation("skip_if_not_shorter", "policy.skip_if_not_shorter or not", "not"),
    Variation(
        "whatever costs more stays where moving has a price", "or not self.prices.slides or", "or"
    ),
    Variation("in a list no part grows", ' or given.kind == "list"\n', "\n"),
    Variation("shorter in characters", "len(placeholder) < len(text) and next", "next"),
    Variation("shorter in tokens", " and next(tokens) < next(tokens)", ""),
    Variation(
        "each part has its own length",
        "words.write(given, text)",
        "words.write(given, given.said)",
    ),
    Variation("keep_errors", "if self.policy.keep_errors and", "if"),
    Variation("a result that says that it failed", "given.fails or (", "("),
    # Templates
    Variation(
        "the id",
        'values = self._find_values(given)\n        values["{original_chars}"]',
        'values = self._find_values(given)\n        values["{tool_call_id}"] = "?"\n        values["{original_chars}"]',
    ),
    Variation("a clipped id", '(given.call_id or "")[:64]', '(given.call_id or "")'),
    Variation("an unknown tool", '"inconnu"', '"unknown"'),
    Variation("the length", "str(len(text))", "str(len(text.encode()) + 1)"),
    Variation("the tokens", "str(self._estimate(text))", "str(len(text) // 4)"),
    Variation("the arguments", 'line[: most - 3] + "..." if most >= 3', "line[:most] if most >= 3"),
    Variation("white space in arguments", '" ".join(text[: 4 * most].split())', "text[: 4 * most]"),
    Variation("the recall id", "digest_size=8", "digest_size=9"),
    Variation("any number may stand in a placeholder", "0|[1-9][0-9]{0,19}", "0"),
    # Errors
    Variation("words in short texts alone", "if len(text) <= words_max_chars:", "if True:"),
    Variation("words up to that length", "if len(text) <= words_max_chars:", "if False:"),
    Variation("error at the start of a line", 'line.startswith("error") for', "False for"),
    Variation(
        "a key that is denied",
        'lowered = _KEY_WITHOUT_A_VALUE.sub("", seen).lower()',
        "lowered = seen.lower()",
    ),
    Variation("anchored signs", "if any(sign.match(line)", "if any(False"),
    Variation(
        "anchored signs at the start of a line",
        'sign.match(line) for line in seen.split("\\n")',
        "sign.search(seen) for line in ('',)",
    ),
    Variation("an exit code in JSON", "isinstance(code, float) and code != 0", "False"),
    Variation("an error in JSON", 'bool(found.get("error"))', "False"),
    Variation("a status in JSON", 'str(found.get("status")).lower() == "error"', "False"),
    Variation("success: false", 'found.get("success") is False', "False"),
    Variation("a list of at most eight", "_LONGEST_LIST = 8", "_LONGEST_LIST = 9"),
    # Section 2
    Variation(
        "the promise", "return is_due and self._keeps_promise(flat, saving)", "return is_due"
    ),
    Variation(
        "rent forces a move",
        "_RENT_FORCES, _RENT_ALLOWS = 1.5,",
        "_RENT_FORCES, _RENT_ALLOWS = 3.0,",
    ),
    Variation("rent allows a plan", "= 1.5, 0.5", "= 1.5, 1.0"),
    Variation(
        "the plan", "return now + cheapest[0] <= min([rent(0, requests), *waits])", "return True"
    ),
    Variation("a plan looks at some turns", "_PLANNED_TURNS = 16", "_PLANNED_TURNS = 1"),
    Variation(
        "what is new has no part",
        "self._given[: self._known]",
        "self._given[: self._requests[self._number].results]",
    ),
    Variation("price steps", "return max((step.factor for", "return 1.0 or max((step.factor for"),
    Variation("the shortest prefix", "sent - saving < prices.shortest_prefix", "False"),
    Variation("a small least prompt", "_SMALL_LEAST = 1_024", "_SMALL_LEAST = 8"),
    Variation("what is new may lift over a step", "_MOST_NEW = 150_000", "_MOST_NEW = -1"),
    Variation("a cache knows the ends of some requests", "_LATEST_ENDS = 80", "_LATEST_ENDS = 1"),
    Variation("part of the promise is left to errors", "_CERTAIN = 0.95", "_CERTAIN = 1.0"),
)

READ = (texts, boundary, reference)
"""Where the rules are, each after those that it reads."""

MOST = 3_000
"""So many conversations are compared; nearly every rule shows among the first hundred."""


@pytest.mark.thorough
@pytest.mark.parametrize("variation", VARIATIONS, ids=lambda variation: variation.rule)
def test_a_rule_that_is_turned_around_is_noticed(
    variation: Variation, monkeypatch: pytest.MonkeyPatch
) -> None:
    varied = vary(variation, monkeypatch)
    assert any(compare(FORMATS[n % len(FORMATS)], Random(f"rule.{n}"), varied) for n in range(MOST))


@as_one_test
@pytest.mark.parametrize("variation", VARIATIONS, ids=lambda variation: variation.rule)
def test_a_rule_can_be_turned_around(variation: Variation) -> None:
    assert 1 == sum(variation.old in read_source(module) for module in READ)


def vary(variation: Variation, monkeypatch: pytest.MonkeyPatch) -> Any:  # noqa: ANN401 - a module
    """Return the reference with a rule turned around, wherever it stands."""
    for module in READ:
        name = module.__name__
        source = read_source(module).replace(variation.old, variation.new)
        varied = ModuleType(name)
        monkeypatch.setitem(sys.modules, name, varied)  # for those that follow, which import it
        exec(compile(source, name, "exec"), varied.__dict__)
    return varied


def read_source(module: ModuleType) -> str:
    return Path(str(module.__file__)).read_text(encoding="utf-8")
