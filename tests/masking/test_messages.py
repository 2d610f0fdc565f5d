"""Anthropic Messages: what is read of a message, a request and a path."""

from typing import Any

import pytest

from masking.conversation import Request
from masking.model import Call, Element
from masking.tokens import estimate_tokens
from masking.wire.format import HeadSize, Marks
from masking.wire.messages import MESSAGES, split_reminders
from masking.wire.parts import find_claude_binding, find_messages_binding
from tests.support.marks import as_one_test

MARK = {"type": "ephemeral"}
HOUR = {"type": "ephemeral", "ttl": "1h"}
REMINDER = "<system-reminder>Go on.</system-reminder>"
IMAGE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aaaa"}}


def text(value: str, **others: object) -> dict[str, Any]:
    return {"type": "text", "text": value, **others}


def result(content: object, **others: object) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": "a", "content": content, **others}


def said(*blocks: object) -> dict[str, Any]:
    return {"role": "user", "content": [*blocks]}


@as_one_test
@pytest.mark.parametrize(
    ("content", "kind", "texts", "slots", "tails"),
    [
        pytest.param("out", "string", ("out",), ((),), (), id="a string"),
        pytest.param("", "string", ("",), ((),), (), id="an empty string"),
        pytest.param(
            f"out\n\n{REMINDER}", "string", ("out",), ((),), (f"\n\n{REMINDER}",), id="a reminder"
        ),
        pytest.param([text("a")], "text_parts", ("a",), ((0, "text"),), (), id="a list"),
        pytest.param(
            [IMAGE, text("a"), text(f"b {REMINDER}")],
            "text_parts",
            ("a", "b"),
            ((1, "text"), (2, "text")),
            ("", f" {REMINDER}"),
            id="an image, and a reminder after the second text",
        ),
        pytest.param([IMAGE], "other", (), (), (), id="an image alone"),
        pytest.param(
            [text("a"), {"type": "tool_reference", "tool_name": "x"}],
            "other",
            (),
            (),
            (),
            id="a reference to a tool",
        ),
        pytest.param([{"type": "search_result"}], "other", (), (), (), id="a search result"),
        pytest.param([None, 7, [], {"type": "text"}], "other", (), (), (), id="odd parts"),
        pytest.param(None, "other", (), (), (), id="null"),
        pytest.param({"text": "a"}, "other", (), (), (), id="an object"),
    ],
)
def test_what_a_result_is(
    content: object,
    kind: str,
    texts: tuple[str, ...],
    slots: tuple[tuple[object, ...], ...],
    tails: tuple[str, ...],
) -> None:
    found = MESSAGES.read_element(said(text("before"), result(content))).results[0]
    where = tuple(("content", 1, "content", *slot) for slot in slots)
    assert (found.call_id, found.kind, found.texts, found.slots, found.tails) == (
        ("a", kind, texts, where, tails)
    )


@as_one_test
@pytest.mark.parametrize(
    ("others", "call_id", "is_error"),
    [
        pytest.param({}, "a", False, id="no error"),
        pytest.param({"is_error": True}, "a", True, id="an error"),
        pytest.param({"is_error": "true"}, "a", False, id="a text that says so"),
        pytest.param({"tool_use_id": ""}, None, False, id="an empty id"),
        pytest.param({"tool_use_id": 7}, None, False, id="a number as id"),
    ],
)
def test_ids_and_errors(others: dict[str, object], call_id: str | None, is_error: bool) -> None:
    found = MESSAGES.read_element(said(result("out", **others))).results[0]
    assert (found.call_id, found.is_error) == (call_id, is_error)


def test_an_answer_has_texts_calls_and_bound_thinking() -> None:
    blocks = [
        {"type": "thinking", "thinking": "Hm.", "signature": "s"},
        text("I look."),
        {"type": "tool_use", "id": "a", "name": "shell", "input": {"command": "ls"}},
        {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}},
        {"type": "web_search_tool_result", "tool_use_id": "s", "content": []},
        result("never in an answer"),
        {"type": "new", "text": 7},
        None,
    ]
    found = MESSAGES.read_element({"role": "assistant", "content": blocks})
    assert found == Element(
        "assistant", ("I look.",), (Call("a", "shell", {"command": "ls"}),), (), is_bound=True
    )


@as_one_test
@pytest.mark.parametrize(
    ("message", "speaker", "texts"),
    [
        ({"role": "user", "content": "Go."}, "user", ("Go.",)),
        ({"role": "system", "content": [text("Be brief.")]}, "system", ("Be brief.",)),
        ({"role": "tool", "content": "out"}, "unknown", ("out",)),
        ({"role": ["user"], "content": None}, "unknown", ()),
        ({"role": "user"}, "user", ()),
        ("text", "unknown", ()),
        (None, "unknown", ()),
    ],
)
def test_who_speaks(message: object, speaker: str, texts: tuple[str, ...]) -> None:
    found = MESSAGES.read_element(message)
    assert (found.speaker, found.texts, found.calls, found.results) == (speaker, texts, (), ())


@as_one_test
@pytest.mark.parametrize(
    ("whole", "head"),
    [
        ("out", "out"),
        (f"out{REMINDER}", "out"),
        (f"out\n{REMINDER}\n{REMINDER}\n", "out"),
        (f"{REMINDER} out", f"{REMINDER} out"),
        (f"{REMINDER} out {REMINDER}", f"{REMINDER} out"),
        (REMINDER, ""),
        ("out </system-reminder>", "out </system-reminder>"),
        ("out\n", "out\n"),
        ("", ""),
    ],
)
def test_a_trailing_run_of_reminders_is_split_off(whole: str, head: str) -> None:
    assert split_reminders(whole) == (head, whole[len(head) :])


@as_one_test
@pytest.mark.parametrize(
    ("document", "obstacle"),
    [
        pytest.param({}, None, id="nothing"),
        pytest.param(
            {"thread": {"type": "create"}}, "the provider holds the history (thread)", id="thread"
        ),
        pytest.param(
            {"compaction": {"type": "auto"}},
            "the provider trims the history (compaction)",
            id="compaction",
        ),
        *(
            pytest.param(
                {"context_management": {"edits": [{"type": kind}]}},
                f"the provider trims the history ({kind})",
                id=kind,
            )
            for kind in ("clear_tool_uses_20250919", "compact_20260112")
        ),
        pytest.param(
            {"context_management": {"edits": [{"type": "clear_thinking_20251015"}, None]}},
            None,
            id="only thinking is cleared",
        ),
        pytest.param({"context_management": {"edits": 7}}, None, id="no list of edits"),
        *(
            pytest.param(
                {"system": [text(f"x-anthropic-billing-header: cc_version=2; cch={digits};")]},
                obstacle,
                id=f"cch {digits}",
            )
            for digits, obstacle in (("0f3a9", "signed (cch)"), ("00000", None))
        ),
        pytest.param({"system": "quotes cch=0f3a9"}, None, id="another text that has cch"),
    ],
)
def test_what_must_go_out_whole(document: dict[str, object], obstacle: str | None) -> None:
    assert MESSAGES.find_obstacle(document) == obstacle


@as_one_test
@pytest.mark.parametrize(
    ("model", "expected"),
    [
        *(
            (name, None)
            for name in (
                "claude-2", "claude-v1", "claude-instant-1.2", "claude-3-5-sonnet-latest",
                "claude-3.7-sonnet", "claude-4-opus", "claude-opus-4-1-20250805",
                "claude-sonnet-4-5", "claude-haiku-4.5", "anthropic/claude-opus-4.8-fast",
                "claude-opus-5", "claude-sonnet-5-20260301", "claude-opus-5-fast",
                "claude-fable-5@20260301", "global.anthropic.claude-fable-5-v1:0",
                "us.anthropic.claude-3-5-sonnet-20241022-v2:0", "gpt-5.6", "kimi-k3", None,
            )
        ),
        *(
            (name, "may_refuse")
            for name in (
                "claude-opus-5-5", "claude-sonnet-5.5", "claude-haiku-5-5-20260901",
                "claude-fable-5-1", "anthropic/claude-opus-5.5-fast",
            )
        ),
        *(
            (name, "refuses")
            for name in (
                "global.anthropic.claude-fable-5-2", "claude-mythos-5-2", "claude-mythos-5-1",
                "claude-opus-5-6", "claude-fable-5-10", "claude-opus-6",
                "claude-next", "anthropic.something", "opus",
            )
        ),
    ],
)  # fmt: skip
def test_which_claude_models_bind_their_thinking(model: str | None, expected: str | None) -> None:
    assert find_claude_binding(model) == expected


@as_one_test
@pytest.mark.parametrize(
    ("document", "model", "expected"),
    [
        ({}, "claude-opus-5-5", "may_refuse"),
        ({}, "claude-opus-5", None),
        ({}, "our-coder", "refuses"),
        ({}, None, None),
        ({}, "kimi-k3", None),
        ({"thinking": {"type": "adaptive"}}, "claude-opus-5-5", "may_refuse"),
        (
            {"thinking": {"block_binding": {"prefix_mismatch_behavior": "drop_block"}}},
            "claude-opus-5-5",
            None,
        ),
        (
            {"thinking": {"block_binding": {"prefix_mismatch_behavior": "error"}}},
            "claude-opus-5-5",
            "refuses",
        ),
    ],
)
def test_a_request_may_allow_thinking_to_be_dropped(
    document: dict[str, object], model: str | None, expected: str | None
) -> None:
    assert MESSAGES.on_history_edit(document, model, ()) == expected


def test_an_alias_may_be_claude() -> None:
    assert find_messages_binding("house-model") == "refuses"


@as_one_test
@pytest.mark.parametrize(
    ("document", "path", "model"),
    [
        ({"model": "m"}, "/v1/messages", "m"),
        ({}, "/v1/messages", None),
        ({"model": 7}, "/v1/messages", None),
        ({}, "/v1/projects/p/publishers/anthropic/models/claude-x@1:rawPredict", "claude-x@1"),
        ({"model": "m"}, "/anthropic/models/claude-x:rawPredict", "m"),
        ({}, "/model/us.anthropic.claude-x-v1%3A0/invoke", "us.anthropic.claude-x-v1:0"),
        ({}, "/model/us.anthropic.claude-x-v1:0/invoke", "us.anthropic.claude-x-v1:0"),
    ],
)
def test_the_model_stands_in_the_body_or_in_the_path(
    document: dict[str, object], path: str, model: str | None
) -> None:
    assert MESSAGES.find_model(document, path) == model


@as_one_test
@pytest.mark.parametrize(
    ("document", "path", "expected"),
    [
        ({"stream": True}, "/v1/messages", True),
        ({"stream": 1}, "/v1/messages", False),
        ({}, "/anthropic/models/m:streamRawPredict", True),
        ({}, "/model/m/invoke-with-response-stream", True),
        ({}, "/model/m/invoke", False),
    ],
)
def test_what_streams(document: dict[str, object], path: str, expected: bool) -> None:
    assert MESSAGES.streams(document, path) is expected


def test_head_texts_are_those_of_the_system_prompt() -> None:
    system = [text("x-anthropic-billing-header: cc_version=2;"), text("Be brief."), IMAGE]
    assert MESSAGES.find_head_texts({"system": system}) == ("Be brief.",)
    assert MESSAGES.find_head_texts({"system": "Be brief."}) == ("Be brief.",)
    assert MESSAGES.find_head_texts({"system": None}) == ()


@as_one_test
@pytest.mark.parametrize(
    ("document", "marks"),
    [
        pytest.param({}, Marks(), id="none"),
        pytest.param({"tools": [{"cache_control": MARK}]}, Marks(True, False, ("5m",)), id="tool"),
        pytest.param(
            {"system": [text("a", cache_control=HOUR)]}, Marks(True, False, ("1h",)), id="system"
        ),
        pytest.param(
            {"system": [text("a", cache_control=HOUR)],
             "messages": [said(text("b", cache_control=MARK))]},
            Marks(True, True, ("1h", "5m")), id="system and a block",
        ),
        pytest.param(
            {"messages": [said(result("out", cache_control=HOUR))]},
            Marks(False, True, ("1h",)), id="a result",
        ),
        pytest.param(
            {"messages": [said(result([text("out", cache_control=MARK)]))]},
            Marks(False, True, ("5m",)), id="a part of a result",
        ),
        pytest.param({"cache_control": MARK}, Marks(False, True, ("5m",)), id="the whole"),
        pytest.param({"system": [text("a", cache_control=None)]}, Marks(), id="null"),
    ],
)  # fmt: skip
def test_where_the_marks_are(document: dict[str, object], marks: Marks) -> None:
    assert Request(document, MESSAGES).marks == marks


@as_one_test
@pytest.mark.parametrize(
    ("marked", "plain"),
    [
        (said(text("a", cache_control=MARK)), {"role": "user", "content": "a"}),
        (said(result("a", cache_control=MARK), text("b")), said(result("a"), text("b"))),
        (said(result([text("a", cache_control=MARK)]), 7), said(result("a"), 7)),
        (said(IMAGE), said(IMAGE)),
        ({"role": "user", "content": "a"}, {"role": "user", "content": "a"}),
        (None, None),
    ],
)
def test_a_cache_sees_no_marks(marked: object, plain: object) -> None:
    assert MESSAGES.unmark(marked) == plain


def test_tools_have_no_marks() -> None:
    tools = [{"name": "a", "cache_control": MARK}, 7]
    assert MESSAGES.find_tools({"tools": tools}) == [{"name": "a"}, 7]
    assert MESSAGES.find_tools({"tools": None}) is None


LONG = "a line of output\n" * 40


@pytest.mark.parametrize(
    ("body", "total", "marked"),
    [
        pytest.param({}, 0, 0, id="nothing"),
        pytest.param({"system": LONG}, estimate_tokens(LONG), 0, id="a string"),
        pytest.param(
            {"system": [text(LONG), text(LONG, cache_control=MARK), text(LONG)]},
            3 * estimate_tokens(LONG), 2 * estimate_tokens(LONG), id="the second text",
        ),
    ],
)  # fmt: skip
def test_sizes_of_the_head(body: dict[str, object], total: int, marked: int) -> None:
    assert MESSAGES.measure_head(body) == HeadSize(total, marked)


def test_tools_come_first_whatever_the_order_of_keys() -> None:
    tool, other = {"name": LONG}, {"name": "b"}
    marked = {"system": LONG, "tools": [{**tool, "cache_control": MARK}, other]}
    last = {"system": LONG, "tools": [tool, {**other, "cache_control": MARK}]}
    size = MESSAGES.measure_head(marked)
    assert 0 < size.marked < MESSAGES.measure_head(last).marked < size.total


def test_sizes_of_results_stand_beside_what_comes_before_them() -> None:
    long = estimate_tokens(LONG)
    total, results = MESSAGES.measure_element(
        said(text(LONG), result(LONG), result([text(LONG), IMAGE]))
    )
    assert results == ((4 + long + 8, long), (4 + 2 * long + 16, long + 1_600))
    assert total == 4 + 3 * long + 16 + 1_600


@as_one_test
@pytest.mark.parametrize(
    "message",
    [
        None, 7, "text", {}, {"content": None}, {"role": "user", "content": 7},
        said(None, 7, [], {}, {"type": None}, {"type": ["text"]}, {"type": "text", "text": 7}),
        said(result(None), result([None, {}]), result({"a": 1}), {"type": "tool_result"}),
        {"role": "assistant", "content": [{"type": "tool_use", "id": None, "input": "\ud800"}]},
    ],
)  # fmt: skip
def test_what_is_odd_is_passed_by(message: object) -> None:
    read = MESSAGES.read_element(message)
    total, results = MESSAGES.measure_element(message)
    texts, others = MESSAGES.count_parts(message)
    assert len(results) == len(read.results)
    assert total >= 0
    assert others >= 0
    assert all(isinstance(each, str) for each in texts)
    assert MESSAGES.unmark(message) is not None or message is None


def test_what_counts_as_tokens() -> None:
    thinking = {"type": "thinking", "thinking": "Hm.", "signature": "long"}
    call = {"type": "tool_use", "id": "a", "name": "shell", "input": {"command": "ls"}}
    answer = {"role": "assistant", "content": [thinking, text("I look."), call]}
    assert MESSAGES.count_parts(answer) == (["Hm.", "I look.", "shell", '{"command":"ls"}'], 12)
    assert MESSAGES.count_parts({"role": "user", "content": "Go."}) == (["Go."], 4)
    listed = said(result("out"), result([text("a"), IMAGE]), text("b"))
    assert MESSAGES.count_parts(listed) == (["out", "a", "b"], 20 + 1_600)


def test_a_summary_is_a_message_of_the_user() -> None:
    assert MESSAGES.read_element(MESSAGES.user_message("So far.")) == Element("user", ("So far.",))
