"""Sequence-aware redaction: a named tool's result is replaced once the assistant has answered.

It is redacted when some later message is the assistant's and calls no tool. Until then the model
may still be working with it. Source: stream-redaction-design.md.

A scenario is a row of the design's decision matrix, by what follows a result. 1: an answer, and no
calls before it. 2: calls, and no answer. 3: neither; the conversation ends. 4: like 2, with calls
after a message of the user. 5: calls, then an answer. An answer is a message of the assistant
without calls, or a malformed message. A system message counts as the user's.
"""

from collections import Counter
from collections.abc import Collection, Container, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from masking.conversation import Conversation, find_answers
from masking.errors import ConfigError
from masking.model import Decision, Element, KeepReason, Scenario, Speaker, ToolResult
from masking.setting import check_settings, describes_settings, names, setting
from masking.window import DEFAULT_TEMPLATE
from masking.window.decide import Templates
from masking.window.placeholder import (
    DEFAULT_ARGUMENTS_CHARS,
    SHIPPED_TEMPLATE,
    Template,
    is_placeholder,
    parse_template,
)

_SCENARIOS: tuple[Scenario, ...] = (1, 2, 3, 4, 5)
_REDACTED: Collection[Scenario] = (1, 5)


def _check_template(template: str, path: str) -> None:
    if parse_template(template).names_recall:
        raise ConfigError("{recall}: what is redacted is not kept", path)


@dataclass(frozen=True)
class RedactionSettings:
    """What a user sets about redaction."""

    enabled: bool = setting(
        False,
        "Replace the results of some tools once the assistant has responded without calling a "
        "tool. Runs before the window. `STREAM_REDACTION_ENABLED` in the environment overrides it.",
    )
    tool_names: tuple[str, ...] = setting(
        (),
        "The tools, by their exact names.",
        check=names,
    )
    placeholder_template: str = setting(
        DEFAULT_TEMPLATE,
        "Text of the placeholder, also where the window masks these tools. Fields as in "
        "`schema1`, without `{recall}`.",
        shipped=SHIPPED_TEMPLATE,
        check=_check_template,
    )

    def __post_init__(self) -> None:
        check_settings(self)


@describes_settings
@dataclass(frozen=True)
class RedactionPolicy(RedactionSettings):
    """Settings for redaction: which tools, and the placeholder.

    placeholder_arguments_chars: as `MaskPolicy` has it.

    What the window masks of these tools has these words, too, so that a text which is masked and
    later redacted is not changed twice. Raises ConfigError (a ValueError) for what cannot be meant.
    """

    placeholder_arguments_chars: int = DEFAULT_ARGUMENTS_CHARS

    @cached_property
    def redacts(self) -> bool:
        """Whether this policy can redact anything at all."""
        return self.enabled and bool(self.tool_names)

    @cached_property
    def templates(self) -> Templates:
        """The template of the placeholders, parsed, for each tool whose results are redacted."""
        template = parse_template(self.placeholder_template, self.placeholder_arguments_chars)
        return dict.fromkeys(self.tool_names if self.enabled else (), template)


@dataclass(frozen=True, slots=True, kw_only=True)
class Redactions:
    """What becomes of a request's tool results, in order.

    `malformed` are the positions of messages after a named tool's result that are no object or
    have no known role. Each counts as an answer.
    """

    decisions: tuple[Decision, ...]
    malformed: tuple[int, ...] = ()

    @property
    def scenarios(self) -> tuple[int, ...]:
        """How many results are in each scenario, scenario 1 first."""
        counts = Counter(decision.scenario for decision in self.decisions)
        return tuple(counts[scenario] for scenario in _SCENARIOS)


def should_redact(tool_name: str, policy: RedactionPolicy) -> bool:
    """Whether the results of a tool are redacted once the assistant has answered."""
    return policy.enabled and tool_name in policy.tool_names


def decide_redactions(conversation: Conversation, policy: RedactionPolicy) -> Redactions:
    """Decide every tool result of a request, in order.

    A string is replaced whatever its length, because the matrix has no lengths. In a list of text
    parts alone, each text is replaced by a placeholder with its own length; no part is added,
    removed or emptied. Other contents are left alone. Linear in the conversation.
    """
    results = conversation.results
    if not policy.redacts:
        return Redactions(decisions=tuple(Decision(result, "off") for result in results))
    templates = policy.templates
    reasons = [_reason_to_keep(result, templates) for result in results]
    named = (r.element for r, reason in zip(results, reasons, strict=True) if reason is None)
    first = next(named, len(conversation.elements))
    ahead, malformed = _look_ahead(conversation, first)
    decisions = tuple(
        _decide(result, ahead, templates[result.tool])
        if reason is None
        else Decision(result, reason)
        for result, reason in zip(results, reasons, strict=True)
    )
    return Redactions(decisions=decisions, malformed=malformed)


def _reason_to_keep(result: ToolResult, names: Container[str | None]) -> KeepReason | None:
    """Return the first reason that applies whatever follows the result."""
    if result.call_id is None:
        return "bad_id"
    if result.turn is None:
        return "orphan"
    return None if result.tool in names else "other_tool"


_Kind = Literal["answer", "malformed", "calls", "user", "nothing"]
"""What an element is to the results before it; `user` stands for all other speakers."""

_KINDS: Mapping[Speaker, _Kind] = {
    "system": "user",
    "user": "user",
    "tool": "nothing",
    "unknown": "malformed",
}
"""By speaker; an element of the assistant needs a closer look."""

_ANSWERED: Mapping[Scenario, Scenario] = dict.fromkeys(_SCENARIOS, 1)
_BEFORE: Mapping[_Kind, Mapping[Scenario, Scenario]] = {
    "answer": _ANSWERED,
    "malformed": _ANSWERED,
    "calls": {1: 5, 2: 2, 3: 2, 4: 4, 5: 5},
    "user": {1: 1, 2: 4, 3: 3, 4: 4, 5: 5},
}
"""The scenario of a result before a message of this kind, by that of a result right after it."""

_Ahead = Mapping[int, tuple[Scenario, bool]]
"""By the position of a result: what follows it, and whether its first answer is new."""


def _look_ahead(conversation: Conversation, first: int) -> tuple[_Ahead, tuple[int, ...]]:
    """Return what follows each result from the element `first` on, and the malformed positions."""
    elements = conversation.elements[first:]
    kinds = [*map(_classify, elements)]
    if conversation.wire.answers_in_runs:
        # A run of the assistant is one answer: it calls if one of its elements does.
        for answer in find_answers(elements, in_runs=True):
            calls = any(elements[at].calls for at in answer)
            kinds[answer.start : answer.stop] = ["nothing"] * len(answer)
            kinds[answer.start] = "calls" if calls else "answer"
    # Read backwards, what follows a result is known when it is met. Its answer is new if it is the
    # last thing that the assistant has said: then the request before this one did not have it.
    ahead: dict[int, tuple[Scenario, bool]] = {}
    malformed: list[int] = []
    scenario: Scenario = 3
    is_new = spoke = False
    for place in reversed(range(len(elements))):
        position, kind = first + place, kinds[place]
        if elements[place].results:
            ahead[position] = (scenario, is_new)
        if kind == "nothing":
            continue
        if kind == "malformed":
            malformed.append(position)
        if kind in ("answer", "malformed"):
            is_new = not spoke
        spoke = spoke or kind in ("answer", "calls")
        scenario = _BEFORE[kind][scenario]
    return ahead, tuple(reversed(malformed))


def _classify(element: Element) -> _Kind:
    if element.speaker == "assistant":
        return "calls" if element.calls else "answer"
    if element.results and not element.texts:
        return "nothing"
    return _KINDS[element.speaker]


def _decide(result: ToolResult, ahead: _Ahead, template: Template) -> Decision:
    """Decide a result of a named tool."""
    scenario, is_new = ahead[result.element]
    if scenario not in _REDACTED:
        return Decision(result, "in_use", scenario=scenario)
    if result.kind == "other":
        return Decision(result, "not_string", scenario=scenario)
    call_id, tool = result.call_id or "", result.tool
    replacements = tuple(
        result.replace(
            place, template.render(call_id, tool, result.client_text(place), result.arguments)
        )
        for place in range(len(result.texts))
        if not is_placeholder(result, place, template)
    )
    if not replacements:
        return Decision(result, "already_masked", scenario=scenario)
    return Decision(result, "redacted", replacements, scenario, is_new)
