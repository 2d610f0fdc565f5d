"""Chapter 4: what stays although it is old enough, and the order of the reasons."""

import json
from collections.abc import Sequence
from dataclasses import replace

import pytest

from masking import ChatMessage, MaskPolicy, mask_old_tool_results, rewrite_request
from tests.spec.talk import (
    IN_FORMATS_WITH_LISTS,
    OUTPUT,
    SHORT,
    mask,
    reasons,
)
from tests.support.builders import IMAGE, assistant, call, parts, result
from tests.support.builders import turn as chat_turn
from tests.support.marks import as_one_test
from tests.support.wire_conversations import (
    IN_EVERY_FORMAT,
    Ask,
    Give,
    Model,
    Step,
    Tools,
    User,
    Writer,
    turn,
    turns,
)


def decide(messages: Sequence[object], policy: MaskPolicy) -> list[str]:
    """Return the reasons of a Chat Completions request."""
    return reasons(rewrite_request(json.dumps({"messages": messages}).encode(), policy))


LATER = assistant(call("later"))
EVERYTHING = replace(
    SHORT,
    keep_last_k_per_tool=1,
    keep_tools=("shell",),
    mask_tools=("read",),
    keep_arguments=("*.md",),
    min_chars=10_000,
    skip_if_not_shorter=True,
)
"""By these settings there are many reasons at once to keep a result of `shell`."""

NO_LAST_K = replace(EVERYTHING, keep_last_k_per_tool=0)
NO_TOOLS = replace(NO_LAST_K, keep_tools=())
NO_LISTS = replace(NO_TOOLS, mask_tools=())
NO_NAMES = replace(NO_LISTS, keep_arguments=())
FAILED = '{"error": "timeout"}'


@as_one_test
@pytest.mark.parametrize(
    ("expected", "messages", "policy"),
    [
        ("off", chat_turn("a", FAILED), replace(EVERYTHING, enabled=False)),
        ("bad_id", [assistant(call("a")), result("", FAILED), LATER], EVERYTHING),
        ("orphan", [assistant(call("a")), result("x", FAILED), LATER], EVERYTHING),
        ("in_window", chat_turn("a", FAILED, path="x.md"), EVERYTHING),
        ("last_k", [*chat_turn("a", FAILED, path="x.md"), LATER], EVERYTHING),
        ("kept_tool", [*chat_turn("a", FAILED, path="x.md"), LATER], NO_LAST_K),
        ("unlisted_tool", [*chat_turn("a", FAILED, path="x.md"), LATER], NO_TOOLS),
        ("kept_argument", [*chat_turn("a", FAILED, path="x.md"), LATER], NO_LISTS),
        ("error", [*chat_turn("a", FAILED, path="x.md"), LATER], NO_NAMES),
        ("not_string", [*chat_turn("a", {"text": OUTPUT}), LATER], NO_NAMES),
        ("already_masked", [*chat_turn("a", "<a shell 7>"), LATER], NO_NAMES),
        ("too_short", [*chat_turn("a", "ok"), LATER], NO_NAMES),
        ("not_shorter", [*chat_turn("a", "ok"), LATER], replace(NO_NAMES, min_chars=0)),
        ("masked", [*chat_turn("a", OUTPUT), LATER], replace(NO_NAMES, min_chars=0)),
    ],
)
def test_the_first_reason_that_applies_is_given_in_this_order(
    expected: str, messages: list[ChatMessage], policy: MaskPolicy
) -> None:
    """`held` comes after `in_window`: chapter 9; `bound` is the whole request's: chapter 11."""
    assert [expected] == decide(messages, policy)


# The last K of a tool


@as_one_test
@IN_EVERY_FORMAT
@pytest.mark.parametrize(
    ("last_k", "expected"),
    [
        pytest.param(None, ["masked"] * 4, id="absent"),
        pytest.param(0, ["masked"] * 4, id="0 is off"),
        pytest.param(-1, ["masked"] * 4, id="less than 0 is off"),
        pytest.param(1, ["masked", "last_k", "masked", "masked"], id="one of each tool"),
        pytest.param(2, ["last_k", "last_k", "masked", "last_k"], id="two of each tool"),
    ],
)
def test_the_last_k_of_each_tool_stay_and_those_in_the_window_count(
    writer: Writer, last_k: int | None, expected: list[str]
) -> None:
    """The tools are, the oldest first: read, read, shell, shell; and a last shell in the window."""
    tools = ["read", "read", "shell", "shell", "shell"]
    said = [step for n, tool in enumerate(tools) for step in told_turn(f"call_{n}", tool)]
    policy = replace(SHORT, keep_last_k_per_tool=last_k)
    assert [*expected, "in_window"] == reasons(mask(writer.tell(User(), *said), policy))


def told_turn(call_id: str, tool: str) -> tuple[Step, Step]:
    return Model((Ask(call_id, tool),)), Tools((Give(call_id, OUTPUT, tool),))


def test_results_of_tools_without_a_name_do_not_take_part() -> None:
    messages = [*chat_turn("a", OUTPUT, tool=None), LATER]
    assert ["masked"] == decide(messages, replace(SHORT, keep_last_k_per_tool=1))


# What a user names


@as_one_test
@IN_EVERY_FORMAT
def test_tools_and_arguments_can_be_protected(writer: Writer) -> None:
    plan = Model((Ask("a", "read", {"path": "docs/PLAN.md"}),))
    told = writer.tell(plan, Tools((Give("a", OUTPUT, "read"),)), *turn("b"), *turn("c"))
    for expected, policy in {
        "kept_tool": replace(SHORT, keep_tools=("re*",)),
        "unlisted_tool": replace(SHORT, mask_tools=("sh*",)),
        "kept_argument": replace(SHORT, keep_arguments=("*/PLAN.md",)),
    }.items():
        assert [expected, "masked", "in_window"] == reasons(mask(told, policy))


@as_one_test
@IN_EVERY_FORMAT
def test_the_latest_result_of_a_target_can_stay(writer: Writer) -> None:
    said = [
        step
        for n, path in enumerate(("a.py", "b.py", "a.py"))
        for step in (
            Model((Ask(f"call_{n}", "read", {"path": path}),)),
            Tools((Give(f"call_{n}", OUTPUT, "read"),)),
        )
    ]
    told = writer.tell(User(), *said, *turns(1))
    found = reasons(mask(told, replace(SHORT, keep_latest_turns=9)))
    assert ["masked", "latest", "latest", "in_window"] == found


@as_one_test
@IN_EVERY_FORMAT
def test_a_result_that_was_read_again_after_it_was_masked_can_stay(writer: Writer) -> None:
    reads = [turn(f"call_{n}", OUTPUT, tool) for n, tool in enumerate(("shell", "x", "shell"))]
    told = writer.tell(User(), *(step for each in reads for step in each), *turns(1))
    found = reasons(mask(told, replace(SHORT, keep_rereads=True)))
    assert ["masked", "masked", "reread", "in_window"] == found


# Lists of parts


@IN_FORMATS_WITH_LISTS
def test_each_text_part_of_a_list_gets_a_placeholder_with_its_own_length(writer: Writer) -> None:
    said = (Model((Ask("a"),)), Tools((Give("a", (OUTPUT, OUTPUT[:300])),)), *turns(1))
    told = writer.tell(User(), *said)
    body = mask(told, replace(SHORT, mask_text_parts=True)).body
    assert (1, 1) == (body.count(b" shell 600>"), body.count(b" shell 300>"))


LIST = [*parts(OUTPUT, "ok"), IMAGE, *parts(OUTPUT[:300])]


def mask_list(content: object, policy: MaskPolicy) -> object:
    return mask_old_tool_results([*chat_turn("a", content), LATER], policy)[1]["content"]


def test_by_default_the_library_leaves_any_list_alone() -> None:
    assert LIST is mask_list(LIST, SHORT)


def test_no_part_is_added_removed_or_emptied_and_no_text_gets_longer() -> None:
    expected = [*parts("<a shell 600>", "ok"), IMAGE, *parts("<a shell 300>")]
    policy = replace(SHORT, mask_text_parts=True)
    assert [*parts("<a shell 600>", "ok")] == mask_list(parts(OUTPUT, "ok"), policy)
    assert expected == mask_list(LIST, replace(policy, mask_images=False))


def test_errors_in_a_list_are_judged_on_its_texts_joined() -> None:
    failed = parts("Trace", "back (most recent call last)")
    assert failed is mask_list(failed, replace(SHORT, mask_text_parts=True))


# Length


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("ok", "ok", id="shorter than its placeholder"),
        pytest.param("x" * 12, "x" * 12, id="as long in characters"),
        pytest.param("word " * 3, "word " * 3, id="no longer in tokens"),
        pytest.param(OUTPUT, "<a shell 600>", id="longer"),
    ],
)
def test_a_text_can_stay_unless_its_placeholder_is_shorter(text: str, expected: str) -> None:
    """In characters and in estimated tokens; by default the library masks regardless."""
    policy = replace(SHORT, skip_if_not_shorter=True)
    assert expected == mask_list(text, policy)
    assert f"<a shell {len(text)}>" == mask_list(text, SHORT)
