import copy
from typing import NamedTuple

import pytest

from masking import ChatMessage, MaskPolicy, mask_old_tool_results
from masking.tokens import estimate_tokens
from masking.window import lay_out
from tests.support.builders import (
    IMAGE,
    MASK_ALL,
    OLD,
    TEMPLATE,
    assistant,
    call,
    parts,
    policy,
    read,
    result,
    turn,
    unanswered,
)
from tests.support.kinds import make_text
from tests.support.marks import as_one_test
from tests.support.priced import decide, evaluate, measure_candidates

NO_SHORTER = "x" * len("<a|shell|15>")
"""As long as its placeholder."""

SAYS: ChatMessage = {"role": "assistant", "content": "So."}

JUST_LONGER = "1,2,3,4,5,6,7"


class Case(NamedTuple):
    """A conversation, a policy, and what becomes of each tool result: its reason and content."""

    case: str
    messages: list[ChatMessage]
    reasons: list[str]
    policy: MaskPolicy = MASK_ALL
    contents: list[object] | None = None
    """Of the tool results afterwards; None where nothing is masked."""


def masked(call_id: str = "a", tool: str = "shell", chars: int = len(OLD)) -> str:
    return f"<{call_id}|{tool}|{chars}>"


LATEST = policy(keep_latest_turns=3)

REASONS = [
    Case("masked", [*turn(), *unanswered()], ["masked"], contents=[masked()]),
    Case("off", [*turn(), *unanswered()], ["off"], policy(enabled=False)),
    Case("a window of nought is off", [*turn(), *unanswered()], ["off"], policy(window_turns=0)),
    Case("a negative window is off", [*turn(), *unanswered()], ["off"], policy(window_turns=-3)),
    Case("no id", [{"role": "tool", "content": OLD}, *unanswered()], ["bad_id"]),
    *(
        Case(f"bad id {call_id!r}", [assistant(call(call_id)), result(call_id), *unanswered()],
             ["bad_id"])
        for call_id in (None, "", 7, True, ["a"])
    ),
    Case("orphan", [*unanswered(2), result("nowhere")], ["orphan"]),
    Case("in the window", turn(), ["in_window"]),
    Case("last of its tool", [*turn(), *unanswered()], ["last_k"], policy(keep_last_k_per_tool=1)),
    Case("latest of its target", [*turn(path="a.py"), *unanswered()], ["latest"], LATEST),
    Case("latest of its target until that is old too", [*turn(path="a.py"), *unanswered(3)],
         ["masked"], LATEST, [masked()]),
    Case("older of a target read again", [*turn(path="a.py"), *turn("b", path="a.py"),
         *unanswered()], ["masked", "latest"], LATEST, [masked(), OLD]),
    Case("another tool's target", [*turn(path="a.py"), *turn("b", tool="write", path="a.py"),
         *unanswered()], ["latest", "latest"], LATEST),
    Case("another argument tells no target", [*turn(path="a.py"), *unanswered()], ["masked"],
         policy(LATEST, target_arguments=("file",)), [masked()]),
    Case("neither does an empty one", [*turn(path=""), *unanswered()], ["masked"], LATEST,
         [masked()]),
    Case("last of its tool and latest of its target", [*turn(path="a.py"), *unanswered()],
         ["last_k"], policy(LATEST, keep_last_k_per_tool=1)),
    Case("error", [*turn(content="timeout" + OLD), *unanswered()], ["error"],
         policy(keep_errors=True)),
    Case("JSON error", [*turn(content='{"error": 1}'), *unanswered()], ["error"],
         policy(keep_errors=True)),
    Case("marked as an error", [assistant(call()), {**result(), "is_error": True}, *unanswered()],
         ["error"], policy(keep_errors=True)),
    Case("errors are not kept", [*turn(content="timeout"), *unanswered()], ["masked"],
         contents=[masked(chars=7)]),
    Case("a mark of an error is not kept either",
         [assistant(call()), {**result(), "is_error": True}, *unanswered()], ["masked"],
         contents=[masked()]),
    *(
        Case(f"content {content!r}", [*turn(content=content), *unanswered()], ["not_string"])
        for content in (None, 12, 1.5, True, {"text": OLD}, [], [OLD], parts(OLD))
    ),
    Case("no content", [assistant(call()), {"role": "tool", "tool_call_id": "a"}, *unanswered()],
         ["not_string"]),
    Case("already masked", [*turn(content=masked(chars=5186)), *unanswered()], ["already_masked"]),
    Case("another result's placeholder", [*turn(content=masked("b", chars=1)), *unanswered()],
         ["masked"], contents=[masked(chars=len("<b|shell|1>"))]),
    Case("as long as its placeholder", [*turn(content=NO_SHORTER), *unanswered()], ["not_shorter"],
         policy(skip_if_not_shorter=True)),
    Case("one character longer", [*turn(content=JUST_LONGER), *unanswered()], ["masked"],
         policy(skip_if_not_shorter=True), [masked(chars=len(JUST_LONGER))]),
    Case("longer, but of fewer tokens", [*turn(content="x" * 13), *unanswered()], ["not_shorter"],
         policy(skip_if_not_shorter=True)),
    Case("shorter, but of more tokens", [*turn(content="1,2,3,4"), *unanswered()], ["not_shorter"],
         policy(skip_if_not_shorter=True)),
    Case("of fewer tokens, masked regardless", [*turn(content="x" * 13), *unanswered()],
         ["masked"], contents=[masked(chars=13)]),
    Case("not shorter, masked regardless", [*turn(content="x"), *unanswered()], ["masked"],
         contents=[masked(chars=1)]),
    Case("empty, masked regardless", [*turn(content=""), *unanswered()], ["masked"],
         contents=[masked(chars=0)]),
    Case("unknown tool", [*turn(tool=None), *unanswered()], ["masked"],
         contents=[masked(tool="inconnu")]),
    Case("length in code points", [*turn(content="😀é\ud800" * 9), *unanswered()], ["masked"],
         contents=[masked(chars=27)]),
]  # fmt: skip

READS = policy(keep_tools=("read_*", "todo"))
ONLY_SHELL = policy(mask_tools=("sh?ll",))
PLANS = policy(keep_arguments=("*/PLAN.md", "notes"))

NAMED = [
    Case("of a kept tool", [*turn(tool="todo"), *unanswered()], ["kept_tool"], READS),
    Case("of a kept kind of tools", [*turn(tool="read_file"), *unanswered()], ["kept_tool"], READS),
    Case("of a tool whose name only begins so", [*turn(tool="todo2"), *unanswered()], ["masked"],
         READS, [masked(tool="todo2")]),
    Case("case counts", [*turn(tool="Todo"), *unanswered()], ["masked"], READS,
         [masked(tool="Todo")]),
    Case("an unknown tool is not kept", [*turn(tool=None), *unanswered()], ["masked"],
         policy(keep_tools=("*",)), [masked(tool="inconnu")]),
    Case("of the only tool that is masked", [*turn(), *unanswered()], ["masked"], ONLY_SHELL,
         [masked()]),
    Case("of another tool than that", [*turn(tool="read"), *unanswered()], ["unlisted_tool"],
         ONLY_SHELL),
    Case("an unknown tool is not listed", [*turn(tool=None), *unanswered()], ["unlisted_tool"],
         policy(mask_tools=("*",))),
    Case("of a tool that both lists name", [*turn(), *unanswered()], ["kept_tool"],
         policy(ONLY_SHELL, keep_tools=("shell",))),
    Case("a kept argument", [*turn(path="docs/PLAN.md"), *unanswered()], ["kept_argument"], PLANS),
    Case("a kept argument of an unknown tool", [*turn(tool=None, path="notes"), *unanswered()],
         ["kept_argument"], PLANS),
    Case("an argument that only begins so", [*turn(path="docs/PLAN.md.bak"), *unanswered()],
         ["masked"], PLANS, [masked()]),
    Case("a later call with another argument", [*turn(path="notes"), *turn("b", path="x"),
         *unanswered()], ["kept_argument", "masked"], PLANS, [OLD, masked("b")]),
    Case("parallel calls, one of them kept",
         [assistant(call("a", path="notes"), call("b", path="x")), result("a"), result("b"),
          *unanswered()], ["kept_argument", "masked"], PLANS, [OLD, masked("b")]),
    Case("a result before its call", [result("a"), assistant(call("a", tool="todo")),
         *unanswered()], ["kept_tool"], READS),
    Case("kept in a list of texts", [*turn(tool="todo", content=parts(OLD)), *unanswered()],
         ["kept_tool"], policy(READS, mask_text_parts=True)),
    Case("an image of a kept tool", [*turn(tool="todo", content=[IMAGE]), *unanswered()],
         ["kept_tool"], policy(READS, mask_images=True, keep_last_images=0)),
]  # fmt: skip

REREADS = policy(keep_rereads=True)
AGAIN = [*unanswered(), *turn("b", path="a.py"), *unanswered(2)]
"""The same call again, two turns later, and two turns more."""

ASKED_AGAIN = [
    Case("asked for again", [*turn(path="a.py"), *AGAIN], ["masked", "reread"], REREADS,
         [masked(), OLD]),
    Case("asked for again where that is not kept", [*turn(path="a.py"), *AGAIN],
         ["masked", "masked"], contents=[masked(), masked("b")]),
    Case("asked for again while the window had it", [*turn(path="a.py"), *AGAIN],
         ["masked", "masked"], policy(REREADS, window_turns=2), [masked(), masked("b")]),
    Case("other arguments", [*turn(path="b.py"), *AGAIN], ["masked", "masked"], REREADS,
         [masked(), masked("b")]),
    Case("another tool", [*turn(path="a.py", tool="read"), *AGAIN], ["masked", "masked"], REREADS,
         [masked(tool="read"), masked("b")]),
    Case("once more in the window of the second", [*turn(path="a.py"), *AGAIN[:-1],
         *turn("c", path="a.py"), *unanswered(2)], ["masked", "reread", "reread"], REREADS,
         [masked(), OLD, OLD]),
    Case("the latest earlier one counts", [*turn(path="a.py"), *AGAIN[:-2],
         *turn("c", path="a.py"), *unanswered(2)], ["masked", "reread", "masked"], REREADS,
         [masked(), OLD, masked("c")]),
    Case("two at once", [*turn(path="a.py"), *unanswered(),
         assistant(call("b", path="a.py"), call("c", path="a.py")), result("b"), result("c"),
         *unanswered(2)], ["masked", "reread", "reread"], REREADS, [masked(), OLD, OLD]),
    Case("the earlier one was an error, which stays", [*turn(path="a.py", content="timeout"),
         *AGAIN], ["error", "masked"], policy(REREADS, keep_errors=True),
         ["timeout", masked("b")]),
    Case("the later one is an error", [*turn(path="a.py"), *unanswered(),
         *turn("b", "timeout", path="a.py"), *unanswered(2)], ["masked", "reread"],
         policy(REREADS, keep_errors=True), [masked(), "timeout"]),
    Case("the earlier one came as a placeholder", [*turn(path="a.py", content=masked()), *AGAIN],
         ["already_masked", "reread"], REREADS),
    Case("of a tool that is kept", [*turn(path="a.py"), *AGAIN], ["kept_tool", "kept_tool"],
         policy(REREADS, keep_tools=("shell",))),
    Case("the latest of its target, too", [*turn(path="a.py"), *AGAIN], ["masked", "latest"],
         policy(REREADS, keep_latest_turns=9), [masked(), OLD]),
    Case("a result that stands before its call", [result("a"), assistant(call("b", path="a.py")),
         result("b"), *unanswered(2), assistant(call("a", path="a.py")), *unanswered(2)],
         ["masked", "masked"], REREADS, [masked(), masked("b")]),
    Case("a result without a call", [result("x"), *turn(path="a.py"), *AGAIN],
         ["orphan", "masked", "reread"], REREADS, [OLD, masked(), OLD]),
]  # fmt: skip

ARGUMENTS = [
    ('{"file": "a/PLAN.md"}', "kept_argument"),
    ('{"x": 1, "anything": "notes"}', "kept_argument"),
    ('{"x": "line\\n/PLAN.md"}', "kept_argument"),
    ({"file": "a/PLAN.md"}, "kept_argument"),
    ('{"a/PLAN.md": "x"}', "masked"),
    ('{"files": ["a/PLAN.md"]}', "masked"),
    ('{"x": {"file": "a/PLAN.md"}}', "masked"),
    ('{"x": 7, "y": null, "z": true}', "masked"),
    ('"a/PLAN.md"', "masked"),
    ('["a/PLAN.md"]', "masked"),
    ("a/PLAN.md", "masked"),
    ('{"file": "a/PLAN.md"', "masked"),
    ('{"file": "\ud800/PLAN.md"}', "masked"),
    ("", "masked"),
    (None, "masked"),
]

_ALL_KEPT = policy(
    keep_errors=True, keep_last_k_per_tool=1, skip_if_not_shorter=True, error_words_max_chars=10**6
)
_ERROR_PLACEHOLDER = masked(tool="timeout")

ORDER = [
    Case("off before bad id", [result(None)], ["off"], policy(enabled=False)),
    Case("bad id before content", [result(None, None), *unanswered()], ["bad_id"], _ALL_KEPT),
    Case("orphan before error", [result("b", "timeout"), *unanswered()], ["orphan"], _ALL_KEPT),
    Case("in window before last K", turn(content="timeout"), ["in_window"], _ALL_KEPT),
    Case("last K before a kept tool", [*turn(), *unanswered()], ["last_k"],
         policy(_ALL_KEPT, keep_tools=("*",))),
    Case("a kept tool before a kept argument", [*turn(path="a"), *unanswered()], ["kept_tool"],
         policy(keep_tools=("*",), keep_arguments=("*",))),
    Case("an unlisted tool before a kept argument", [*turn(path="a"), *unanswered()],
         ["unlisted_tool"], policy(mask_tools=("x",), keep_arguments=("*",))),
    Case("a kept tool before the latest of its target", [*turn(path="a"), *unanswered()],
         ["kept_tool"], policy(LATEST, keep_tools=("*",))),
    Case("a kept argument before the last images", [*turn(path="a", content=[IMAGE]),
         *unanswered()], ["kept_argument"], policy(mask_images=True, keep_arguments=("*",))),
    Case("a kept argument before error", [*turn(path="a", content="timeout"), *unanswered()],
         ["kept_argument"], policy(keep_errors=True, keep_arguments=("*",))),
    Case("a kept tool before what is no string", [*turn(content=7), *unanswered()], ["kept_tool"],
         policy(keep_tools=("*",))),
    Case("last K before error", [*turn(content="timeout"), *unanswered()], ["last_k"], _ALL_KEPT),
    Case("error before already masked",
         [*turn(content=_ERROR_PLACEHOLDER, tool="timeout"), *unanswered()], ["error"],
         policy(_ALL_KEPT, keep_last_k_per_tool=0)),
    Case("error before not shorter", [*turn(content="Error"), *unanswered()], ["error"],
         policy(_ALL_KEPT, keep_last_k_per_tool=0)),
    Case("not a string before an error in it",
         [*turn(content=[*parts("timeout"), IMAGE]), *unanswered()], ["not_string"],
         policy(_ALL_KEPT, keep_last_k_per_tool=0)),
    Case("already masked before not shorter", [*turn(content=masked()), *unanswered()],
         ["already_masked"], policy(_ALL_KEPT, keep_last_k_per_tool=0)),
]  # fmt: skip

TURNS = [
    Case("a window of two", [*turn("a"), *turn("b"), *turn("c")],
         ["masked", "in_window", "in_window"], policy(window_turns=2),
         [masked("a"), OLD, OLD]),
    Case("a window of all turns", [*turn("a"), *turn("b")], ["in_window"] * 2,
         policy(window_turns=2)),
    Case("a window beyond all turns", [*turn("a"), *turn("b")], ["in_window"] * 2,
         policy(window_turns=99)),
    Case("an unanswered turn counts", [*turn("a"), *unanswered()], ["masked"], contents=[masked()]),
    Case("messages are no turns",
         [*turn("a"), {"role": "user"}, {"role": "system"}, {"role": "assistant"}], ["in_window"]),
    Case("an empty list of calls is no turn", [*turn("a"), assistant()], ["in_window"]),
    Case("calls without a usable id are no turn",
         [*turn("a"), assistant(call(None), call(""), call(7))], ["in_window"]),
    Case("calls that are no list are no turn",
         [*turn("a"), {"role": "assistant", "tool_calls": {"id": "b"}}], ["in_window"]),
    Case("parallel calls are one turn",
         [assistant(call("a"), call("b")), result("a"), result("b"), *turn("c")],
         ["masked", "masked", "in_window"], contents=[masked("a"), masked("b"), OLD]),
    Case("parallel calls stay together in the window",
         [*turn("z"), assistant(call("a"), call("b")), result("b"), result("a")],
         ["masked", "in_window", "in_window"], contents=[masked("z"), OLD, OLD]),
    Case("a late result belongs to its own turn",
         [assistant(call("a")), *turn("b"), result("a"), SAYS], ["in_window", "masked"],
         contents=[OLD, masked("a")]),
    Case("a late result that the model has not read", [assistant(call("a")), *turn("b"),
         result("a")], ["in_window", "in_window"]),
    Case("the nth result of an id that a turn declares twice, and one more",
         [assistant(call("a", "ls"), call("a", "cat")), *[result("a")] * 3, *turn("b")],
         ["masked", "masked", "masked", "in_window"],
         contents=[masked("a", "ls"), masked("a", "cat"), masked("a", "cat"), OLD]),
    Case("a re-used id: the earlier result is old, the later one is not",
         [*turn("a", tool="ls"), *turn("a", tool="cat")], ["masked", "in_window"],
         contents=[masked("a", "ls"), OLD]),
    Case("each turn numbered from call_0", [*turn("call_0"), *turn("call_0"), *turn("call_0")],
         ["masked", "masked", "in_window"], contents=[masked("call_0"), masked("call_0"), OLD]),
    Case("before its call: the first later turn",
         [result("a"), *turn("a", tool="ls"), *turn("a", tool="cat")],
         ["masked", "masked", "in_window"],
         contents=[masked("a", "ls"), masked("a", "ls"), OLD]),
    Case("before its call, which is in the window", [*unanswered(3), result("a"), *turn("a")],
         ["in_window", "in_window"]),
    Case("junk among the messages", [None, *turn("a"), 3, *unanswered()], ["masked"],  # type: ignore[list-item]
         contents=[masked()]),
]  # fmt: skip

_ABC = [*turn("a"), *turn("b"), *turn("c"), *unanswered()]

LAST_K = [
    *(
        Case(f"K = {k} is off", _ABC, ["masked"] * 3, policy(keep_last_k_per_tool=k),
             [masked("a"), masked("b"), masked("c")])
        for k in (None, 0, -1)
    ),
    Case("the last two", _ABC, ["masked", "last_k", "last_k"], policy(keep_last_k_per_tool=2),
         [masked("a"), OLD, OLD]),
    Case("more than there are", _ABC, ["last_k"] * 3, policy(keep_last_k_per_tool=9)),
    Case("those in the window count", [*turn("a"), *turn("b")], ["masked", "in_window"],
         policy(keep_last_k_per_tool=1), [masked("a"), OLD]),
    Case("per tool", [*turn("a", tool="ls"), *turn("b", tool="cat"), *turn("c", tool="cat"),
                      *unanswered()],
         ["last_k", "masked", "last_k"], policy(keep_last_k_per_tool=1),
         [OLD, masked("b", "cat"), OLD]),
    Case("unknown tools take no part", [*turn("a", tool=None), *turn("b", tool=""), *unanswered()],
         ["masked", "masked"], policy(keep_last_k_per_tool=5),
         [masked("a", "inconnu"), masked("b", "inconnu")]),
    Case("a tool that is called inconnu does",
         [*turn("a", tool="inconnu"), *turn("b", tool=None), *unanswered()],
         ["last_k", "masked"], policy(keep_last_k_per_tool=1),
         [OLD, masked("b", "inconnu")]),
    Case("orphans take no part", [*turn("a"), *unanswered(), result("nowhere")],
         ["last_k", "orphan"], policy(keep_last_k_per_tool=1)),
    Case("results count, not ids", [*turn("a"), result("a", OLD * 2), *unanswered()],
         ["masked", "last_k"], policy(keep_last_k_per_tool=1), [masked("a"), OLD * 2]),
    Case("results of any content count", [*turn("a"), *turn("b", content=None), *unanswered()],
         ["masked", "last_k"], policy(keep_last_k_per_tool=1), [masked("a"), None]),
]  # fmt: skip

_PARTS = policy(mask_text_parts=True)
_PARTS_AND_ERRORS = policy(mask_text_parts=True, keep_errors=True, error_words_max_chars=400)

TEXT_PARTS = [
    Case("one part", [*turn(content=parts(OLD)), *unanswered()], ["masked"], _PARTS,
         [parts(masked())]),
    Case("each part gives its own length", [*turn(content=parts(OLD, OLD * 2)), *unanswered()],
         ["masked"], _PARTS, [parts(masked(), masked(chars=2 * len(OLD)))]),
    Case("a part that would not get shorter stays",
         [*turn(content=parts(NO_SHORTER, OLD, "")), *unanswered()], ["masked"], _PARTS,
         [parts(NO_SHORTER, masked(), "")]),
    Case("no part would get shorter", [*turn(content=parts("x", "")), *unanswered()],
         ["not_shorter"], _PARTS),
    Case("a part that is masked stays", [*turn(content=parts(masked(chars=9), OLD)), *unanswered()],
         ["masked"], _PARTS, [parts(masked(chars=9), masked())]),
    Case("all parts are masked", [*turn(content=parts(masked(), masked())), *unanswered()],
         ["already_masked"], _PARTS),
    Case("other keys of a part stay",
         [*turn(content=[{"text": OLD, "cache_control": {"type": "ephemeral"}, "type": "text"}]),
          *unanswered()], ["masked"], _PARTS,
         [[{"text": masked(), "cache_control": {"type": "ephemeral"}, "type": "text"}]]),
    *(
        Case(f"left alone: {why}", [*turn(content=content), *unanswered()], ["not_string"], _PARTS)
        for why, content in (
            ("empty", []),
            ("an image", [IMAGE]),
            ("another type", [{"type": "refusal", "text": OLD}]),
            ("no type", [{"text": OLD}]),
            ("no text", [{"type": "text"}]),
            ("text of another type", [{"type": "text", "text": 3}]),
            ("a bare string", [OLD]),
            ("null", [None]),
        )
    ),
    Case("an error across two parts", [*turn(content=parts("OK\nTrace", "back" + OLD)),
                                       *unanswered()], ["error"], _PARTS_AND_ERRORS),
    Case("text beside an image", [*turn(content=[IMAGE, *parts(OLD)]), *unanswered()], ["masked"],
         _PARTS, [[IMAGE, *parts("<a|shell|330>")]]),
    Case("length judged on the concatenation",
         [*turn(content=parts("timeout" + OLD, OLD)), *unanswered()], ["masked"],
         _PARTS_AND_ERRORS, [parts(masked(chars=len(OLD) + 7), masked())]),
    Case("a line that begins in the second part is none",
         [*turn(content=parts(OLD * 2, "Error: 1")), *unanswered()], ["masked"],
         _PARTS_AND_ERRORS, [parts(masked(chars=2 * len(OLD)), "Error: 1")]),
    Case("in the window", turn(content=parts(OLD)), ["in_window"], _PARTS),
]  # fmt: skip

CASES = [*REASONS, *NAMED, *ASKED_AGAIN, *ORDER, *TURNS, *LAST_K, *TEXT_PARTS]
every_case = pytest.mark.parametrize("given", CASES, ids=lambda given: given.case)


@as_one_test
@every_case
def test_decisions_and_their_reasons(given: Case) -> None:
    decisions = decide(
        read(given.messages, given.policy.wanted_arguments),
        given.policy,
    )
    assert given.reasons == [decision.reason for decision in decisions]
    assert [reason == "masked" for reason in given.reasons] == [
        bool(decision.replacements) for decision in decisions
    ]


@as_one_test
@pytest.mark.parametrize(("arguments", "reason"), ARGUMENTS)
def test_which_arguments_keep_a_result(arguments: object, reason: str) -> None:
    asked = {"id": "a", "function": {"name": "shell", "arguments": arguments}}
    messages = [{"role": "assistant", "tool_calls": [asked]}, result("a"), *unanswered()]
    (decision,) = decide(read(messages), PLANS)
    assert reason == decision.reason


@as_one_test
@every_case
def test_masks_nothing_but_those_contents(given: Case) -> None:
    before = copy.deepcopy(given.messages)
    after = mask_old_tool_results(given.messages, given.policy)
    assert before == given.messages
    if given.contents is None:
        assert after is given.messages
        return
    contents = iter(given.contents)
    expected = [
        {**message, "content": next(contents)}
        if isinstance(message, dict) and message["role"] == "tool"
        else message
        for message in before
    ]
    assert expected == after
    assert after is not given.messages


@as_one_test
@every_case
def test_masking_twice_equals_once(given: Case) -> None:
    once = mask_old_tool_results(given.messages, given.policy)
    assert once is mask_old_tool_results(once, given.policy)


@as_one_test
@pytest.mark.parametrize("off", [policy(enabled=False), policy(window_turns=0)])
@pytest.mark.parametrize("messages", [[], [None], [*turn(), *unanswered()]])
def test_off_gives_back_the_very_same_list(messages: list[ChatMessage], off: MaskPolicy) -> None:
    assert messages is mask_old_tool_results(messages, off)


@pytest.mark.parametrize("messages", [[], [{"role": "user", "content": OLD}], turn()])
def test_nothing_to_do_gives_back_the_very_same_list(messages: list[ChatMessage]) -> None:
    assert messages is mask_old_tool_results(messages, MASK_ALL)


def test_one_message_object_in_two_places() -> None:
    repeated = result("a")
    messages = [assistant(call("a")), repeated, *turn("b"), repeated, SAYS]
    expected = [masked("a"), OLD, masked("a")]
    after = mask_old_tool_results(messages, MASK_ALL)
    assert expected == [m["content"] for m in after if m["role"] == "tool"]
    assert repeated["content"] == OLD


@pytest.mark.parametrize(("chars", "reason"), [(199, "error"), (200, "error"), (201, "masked")])
def test_words_make_an_error_up_to_the_policys_length(chars: int, reason: str) -> None:
    limited = policy(keep_errors=True, error_words_max_chars=200)
    messages = [*turn(content="timeout".ljust(chars, "x")), *unanswered()]
    (decision,) = decide(read(messages), limited)
    assert reason == decision.reason


def test_the_tech_specs_placeholder() -> None:
    messages = [*turn("call_123", "x" * 5186, "ls"), *unanswered()]
    after = mask_old_tool_results(
        messages, policy(placeholder_template=MaskPolicy().placeholder_template)
    )
    expected = "[Observation masquée: résultat d’outil ancien (tool_call_id=call_123, outil=ls, chars=5186)]"  # noqa: E501, RUF001
    assert expected == after[1]["content"]


def test_a_decision_gives_its_lengths() -> None:
    content = parts(OLD, "x")
    messages = [*turn(content=content), *turn("b", OLD)]
    old, new = decide(read(messages), _PARTS)
    assert (len(OLD) + 1, len(masked()) + 1) == (old.chars_before, old.chars_after)
    assert (len(OLD), len(OLD)) == (new.chars_before, new.chars_after)


def test_a_template_with_a_digit_beside_the_count_is_recognised() -> None:
    digits = policy(placeholder_template="{tool_call_id}{original_chars}0")
    once = mask_old_tool_results([*turn("12"), *unanswered()], digits)
    assert f"12{len(OLD)}0" == once[1]["content"]
    assert once is mask_old_tool_results(once, digits)


def test_what_a_placeholder_saves_is_in_estimated_tokens_and_never_less_than_nothing() -> None:
    texts = ("x", NO_SHORTER, make_text("Python", 9_000), make_text("padded table", 9_000))
    messages = [m for n, text in enumerate(texts) for m in turn(f"call_{n}", content=text)]
    judged = evaluate(read(messages), MASK_ALL)
    found = measure_candidates(judged, lay_out(read(messages)))
    saved = [
        estimate_tokens(text) - estimate_tokens(masked(f"call_{n}", chars=len(text)))
        for n, text in enumerate(texts)
    ]
    assert saved[0] < 0
    assert [max(0, tokens) for tokens in saved] == [result.saving for result in found]


@pytest.mark.parametrize("content", ["old", [{"type": "text", "text": "x" * 300}] * 4])
def test_no_id_and_no_name_makes_placeholders_grow_without_bound(content: object) -> None:
    long = "n" * 100_000
    results = [result(long, content) for _ in range(200)]
    messages = [assistant(call(long, long)), *results, *unanswered()]
    after = mask_old_tool_results(messages, policy(mask_text_parts=True))
    assert after != messages
    assert len(str(after)) <= len(str(messages)) + 200 * (2 * 64 + len(TEMPLATE))
