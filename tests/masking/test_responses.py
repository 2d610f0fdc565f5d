"""OpenAI Responses: what is read of an item, a request and a model's name."""

import json
from typing import Any

import pytest

from masking.conversation import Request
from masking.errors import WireError
from masking.model import Call, Element, Path, ToolResult
from masking.reduction import ReductionOptions
from masking.rewrite import Strategies, read_request
from masking.tokens import estimate_tokens
from masking.window import lay_out
from masking.wire.format import HeadSize, Marks
from masking.wire.parts import find_responses_binding
from masking.wire.responses import RESPONSES
from tests.support.marks import as_one_test
from tests.support.priced import rewrite_request
from tests.tools.provider.responses import check
from tests.tools.provider.script import Received

IMAGE = {"type": "input_image", "image_url": "data:,", "detail": "high"}
FAILED = {"type": "exit", "exit_code": 2}
ENDED = {"type": "exit", "exit_code": 0}
LATE = {"type": "timeout"}
BREAKPOINT = {"prompt_cache_breakpoint": {"mode": "explicit"}}


def text(value: str, **others: object) -> dict[str, Any]:
    return {"type": "input_text", "text": value, **others}


def output(content: object, kind: str = "function_call_output", **others: object) -> dict[str, Any]:
    return {"type": kind, "call_id": "a", "output": content, **others}


def printed(stdout: object, stderr: object = "", outcome: object = ENDED) -> dict[str, object]:
    return {"stdout": stdout, "stderr": stderr, "outcome": outcome}


def shell(*pieces: object) -> dict[str, Any]:
    return output([*pieces], "shell_call_output")


def patch(content: object, **others: object) -> dict[str, Any]:
    return output(content, "apply_patch_call_output", **others)


# Results


@as_one_test
@pytest.mark.parametrize(
    ("item", "kind", "texts", "slots"),
    [
        pytest.param(output("out"), "string", ("out",), ((),), id="a string"),
        pytest.param(output(""), "string", ("",), ((),), id="an empty string"),
        pytest.param(output([text("a")]), "text_parts", ("a",), ((0, "text"),), id="a list"),
        pytest.param(
            output([text("Script completed\n"), IMAGE, text("b")], "custom_tool_call_output"),
            "text_parts",
            ("Script completed\n", "b"),
            ((0, "text"), (2, "text")),
            id="a custom tool's texts, and an image between them",
        ),
        pytest.param(output([IMAGE]), "other", (), (), id="an image alone"),
        pytest.param(output([]), "other", (), (), id="an empty list"),
        pytest.param(output([None, 7, {"type": "input_text"}]), "other", (), (), id="odd parts"),
        pytest.param(output(None), "other", (), (), id="null"),
        pytest.param(output({"text": "a"}), "other", (), (), id="an object"),
        pytest.param(
            shell(printed("a", "b"), printed("", "c")),
            "text_parts",
            ("a", "b", "c"),
            ((0, "stdout"), (0, "stderr"), (1, "stderr")),
            id="what two commands printed",
        ),
        pytest.param(shell(printed(""), None, printed(7)), "other", (), (), id="nothing printed"),
        pytest.param(output("a", "shell_call_output"), "other", (), (), id="a shell's string"),
        pytest.param(patch("Done."), "string", ("Done.",), ((),), id="a patch's text"),
        pytest.param(patch(None), "other", (), (), id="a patch without a text"),
        pytest.param(output("{}", "local_shell_call_output"), "other", (), (), id="a JSON text"),
        pytest.param(output({}, "computer_call_output"), "other", (), (), id="a screenshot"),
        pytest.param(output("a", "new_call_output"), "other", (), (), id="an unknown result"),
        pytest.param(
            output("a", caller={"type": "program", "caller_id": "p"}),
            "other",
            (),
            (),
            id="what a program was given",
        ),
        pytest.param(
            output("a", caller={"type": "direct"}), "string", ("a",), ((),), id="called directly"
        ),
    ],
)
def test_what_a_result_is(
    item: dict[str, Any], kind: str, texts: tuple[str, ...], slots: tuple[Path, ...]
) -> None:
    (found,) = RESPONSES.read_element(item).results
    where = tuple(("output", *slot) for slot in slots)
    assert (found.call_id, found.kind, found.texts, found.slots) == ("a", kind, texts, where)


@as_one_test
@pytest.mark.parametrize(
    ("item", "expected"),
    [
        pytest.param(shell(printed("a"), printed("b")), False, id="all ended well"),
        pytest.param(shell(printed("a"), printed("b", outcome=FAILED)), True, id="one failed"),
        pytest.param(shell(printed("a", outcome=LATE)), True, id="one took too long"),
        pytest.param(shell(printed("a", outcome=None)), False, id="no outcome"),
        pytest.param(patch("No.", status="failed"), True, id="a patch that failed"),
        pytest.param(patch("Yes.", status="completed"), False, id="a patch that did not"),
        pytest.param(output("a", status="incomplete"), False, id="a result that is cut off"),
    ],
)
def test_what_says_that_it_failed_is_an_error(item: dict[str, Any], expected: bool) -> None:
    assert expected == RESPONSES.read_element(item).results[0].is_error


@pytest.mark.parametrize(
    ("item", "expected"),
    [
        pytest.param(output("a", call_id=None), None, id="null"),
        pytest.param(output("a", call_id=""), None, id="empty"),
        pytest.param(output("a", call_id=7), None, id="a number"),
        pytest.param(
            {"type": "local_shell_call_output", "id": "a", "output": "{}"}, "a", id="a shell's own"
        ),
    ],
)
def test_an_id_is_a_text(item: dict[str, Any], expected: str | None) -> None:
    assert expected == RESPONSES.read_element(item).results[0].call_id


# All other items


def say(role: object, content: object, **others: object) -> dict[str, object]:
    return {"role": role, "content": content, **others}


@as_one_test
@pytest.mark.parametrize(
    ("item", "expected"),
    [
        pytest.param(say("user", "Go."), Element("user", ("Go.",)), id="a text"),
        pytest.param(
            say("user", [text("Go."), IMAGE, text("On.")], type="message"),
            Element("user", ("Go.", "On.")),
            id="texts and an image",
        ),
        pytest.param(say("developer", "Be kind."), Element("system", ("Be kind.",)), id="rules"),
        pytest.param(
            say("assistant", [{"type": "output_text", "text": "I look."}, {"type": "refusal"}]),
            Element("assistant", ("I look.",)),
            id="an answer",
        ),
        pytest.param(say("critic", "No."), Element("unknown", ("No.",)), id="an unknown role"),
        pytest.param(say(["user"], None), Element("unknown"), id="an odd role"),
        pytest.param(
            {"type": "function_call", "call_id": "a", "name": "run", "arguments": "{}"},
            Element("assistant", (), (Call("a", "run", "{}"),)),
            id="a function",
        ),
        pytest.param(
            {"type": "custom_tool_call", "call_id": "a", "name": "exec", "input": "text(1)"},
            Element("assistant", (), (Call("a", "exec", "text(1)"),)),
            id="a custom tool",
        ),
        pytest.param(
            {"type": "shell_call", "call_id": "a", "action": {"commands": ["ls"]}},
            Element("assistant", (), (Call("a", "shell", {"commands": ["ls"]}),)),
            id="a shell",
        ),
        pytest.param(
            {"type": "apply_patch_call", "call_id": "a", "operation": {"path": "b"}},
            Element("assistant", (), (Call("a", "apply_patch", {"path": "b"}),)),
            id="a patch",
        ),
        pytest.param(
            {"type": "new_call", "call_id": "a"},
            Element("assistant", (), (Call("a", "new", None),)),
            id="an unknown call",
        ),
        pytest.param(
            {"type": "function_call", "call_id": "", "name": "read", "arguments": "{}"},
            Element("assistant", (), (Call(None, "read", "{}"),)),
            id="a call of the client's without an id",
        ),
        pytest.param(
            {"type": "web_search_call", "id": "ws_1"},
            Element("assistant"),
            id="the provider's own tool",
        ),
        pytest.param(
            {"type": "mcp_call", "id": "m", "name": "x", "output": "long"},
            Element("assistant"),
            id="the provider's own MCP tool",
        ),
        pytest.param(
            {"type": "tool_search_output", "call_id": None, "tools": []},
            Element("assistant"),
            id="tools that the provider found",
        ),
        pytest.param(
            {"type": "tool_search_output", "call_id": "a", "tools": []},
            Element("assistant", (), (), (ToolResult("a", "other", (), ()),)),
            id="tools that the client found",
        ),
        pytest.param(
            {"type": "program", "call_id": "a", "code": "x"},
            Element("assistant", (), (Call("a", "program", None),)),
            id="a program",
        ),
        pytest.param(
            {"type": "program_output", "call_id": "a", "result": "x"},
            Element("assistant", (), (), (ToolResult("a", "other", (), ()),)),
            id="what a program gave",
        ),
        pytest.param(
            {"type": "mcp_approval_request", "id": "m", "name": "x"},
            Element("assistant", (), (Call("m", "mcp_approval_request", None),)),
            id="a question",
        ),
        pytest.param(
            {"type": "mcp_approval_response", "approval_request_id": "m", "approve": True},
            Element("user", (), (), (ToolResult("m", "other", (), ()),)),
            id="its answer",
        ),
        pytest.param(
            {"type": "reasoning", "summary": [], "encrypted_content": "x"},
            Element("assistant", is_bound=True),
            id="reasoning",
        ),
        pytest.param({"type": "compaction"}, Element("system"), id="a compaction"),
        pytest.param({"type": "additional_tools"}, Element("system"), id="more tools"),
        pytest.param({"type": "memory"}, Element("unknown"), id="an unknown item"),
        pytest.param({"type": 7}, Element("unknown"), id="an odd type"),
        pytest.param({}, Element("unknown"), id="an empty object"),
        pytest.param(None, Element("unknown"), id="no object"),
        pytest.param("Go.", Element("unknown"), id="a bare text"),
    ],
)
def test_what_an_item_is(item: object, expected: Element) -> None:
    assert expected == RESPONSES.read_element(item)
    assert len(expected.results) == len(RESPONSES.measure_element(item).results)


def test_an_answer_is_a_run_of_items_and_one_turn() -> None:
    calls = [
        {"type": kind, "call_id": call_id, "name": "run", "arguments": "{}"}
        for kind, call_id in (("function_call", "a"), ("custom_tool_call", "b"))
    ]
    answer = [{"type": "reasoning"}, say("assistant", "I look."), *calls]
    outputs = [output("1"), *(output(n, "custom_tool_call_output", call_id="b") for n in "23")]
    items = [say("user", "Go."), *answer, *outputs, say("assistant", "Done.")]
    found = read_request(json.dumps({"input": items}).encode(), RESPONSES)
    assert (found.turns, [r.turn for r in found.results]) == (1, [0, 0, 0])
    assert len(lay_out(found).requests) == 3


# The request


@as_one_test
@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, None),
        ({"previous_response_id": None, "conversation": None, "context_management": None}, None),
        (
            {"previous_response_id": "resp_1"},
            "the provider holds the history (previous_response_id)",
        ),
        ({"conversation": "conv_1"}, "the provider holds the history (conversation)"),
        ({"conversation": {"id": "conv_1"}}, "the provider holds the history (conversation)"),
        (
            {"context_management": [{"type": "compaction", "compact_threshold": 9}]},
            "the provider trims the history (compaction)",
        ),
        ({"context_management": [{"type": "new"}]}, None),
        ({"input": "Go."}, "its input is one text, without tool results"),
        (
            {"input": [{"type": "item_reference", "id": "fc_1"}]},
            "the provider holds a part of the history (item_reference)",
        ),
    ],
)
def test_what_makes_a_request_go_out_whole(fields: dict[str, object], expected: str | None) -> None:
    document = {"model": "gpt-5.5", "input": [], **fields}
    assert expected == Request(document, RESPONSES).obstacle
    if expected is not None:
        with pytest.raises(WireError, match=expected.partition(" (")[0]):
            read_request(json.dumps(document).encode(), RESPONSES)


@as_one_test
@pytest.mark.parametrize(
    ("model", "is_encrypted", "expected"),
    [
        *((model, True, "drops") for model in ("gpt-5.6", "gpt-5.6-sol", "gpt-5.10", "gpt-6")),
        *((model, True, "drops") for model in ("gpt-6-astra", "gpt-6.2", "openai/gpt-7-mini")),
        *((model, True, None) for model in ("gpt-5", "gpt-5.5", "gpt-5.1-codex", "gpt-5-mini")),
        *((model, True, None) for model in ("gpt-5-2025-08-07", "gpt-4o", "chatgpt-4o-latest")),
        *((model, True, None) for model in ("gpt-4.1", "o3", "o4-mini", "o1-2024-12-17")),
        *((model, True, None) for model in ("codex-mini-latest", "computer-use-preview")),
        *((model, True, None) for model in ("gpt-oss-120b", "grok-5", "google/gemini-3-pro")),
        ("gpt-6", False, "drops"),
        ("claude-opus-5-5", True, "may_refuse"),
        ("anthropic/claude-sonnet-4.5", True, None),
        ("my-deployment", True, "drops"),
        ("my-deployment", False, None),
        (None, True, "drops"),
        (None, False, None),
    ],
)
def test_which_models_bind_their_reasoning(
    model: str | None, is_encrypted: bool, expected: str | None
) -> None:
    assert expected == find_responses_binding(model, is_encrypted=is_encrypted)
    content = "gAAA" if is_encrypted else None
    items = [say("user", "Go."), {"type": "reasoning", "encrypted_content": content}]
    assert expected == Request({"model": model, "input": items}, RESPONSES).binding


@as_one_test
@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, Marks()),
        ({"prompt_cache_options": {"ttl": "30m"}}, Marks(lifetimes=("30m",))),
        (
            {"prompt_cache_options": {"mode": "explicit"}, "prompt_cache_retention": "24h"},
            Marks(lifetimes=("24h",)),
        ),
        ({"prompt_cache_options": "30m", "prompt_cache_retention": 24}, Marks()),
        ({"input": [say("user", [text("Go.", **BREAKPOINT)])]}, Marks(in_list=True)),
        ({"input": [output([text("out", **BREAKPOINT)])]}, Marks(in_list=True)),
    ],
)
def test_marks(fields: dict[str, object], expected: Marks) -> None:
    assert expected == Request({"input": [output("out"), None], **fields}, RESPONSES).marks


def test_what_stands_beside_the_list() -> None:
    tools = [{"type": "function", "name": "run"}]
    body = {"model": "gpt-5", "instructions": "Be kind.", "tools": tools, "stream": True}
    assert (RESPONSES.find_model(body, ""), RESPONSES.find_model({"model": 5}, "")) == (
        "gpt-5",
        None,
    )
    assert (RESPONSES.streams(body, ""), RESPONSES.streams({"stream": 1}, "")) == (True, False)
    assert (RESPONSES.find_tools(body), RESPONSES.find_head_texts(body)) == (tools, ("Be kind.",))
    assert RESPONSES.find_head_texts({"instructions": None}) == ()
    spelled = json.dumps(tools, separators=(",", ":"))
    expected = estimate_tokens("Be kind.") + estimate_tokens(spelled)
    assert HeadSize(expected) == RESPONSES.measure_head(body)
    assert HeadSize(0) == RESPONSES.measure_head({"instructions": []})


def test_a_cache_sees_the_same_item_however_it_is_spelled() -> None:
    noted: dict[str, Any] = {
        "internal_chat_message_metadata_passthrough": {"turn_id": "t"},
        "id": "m",
    }
    plain = {"type": "function_call_output", "call_id": "a", "output": "out"}
    marked = output([text("out", **BREAKPOINT)], status="completed", **noted)
    assert plain == RESPONSES.unmark(marked)
    assert say("user", "Go.") == RESPONSES.unmark(say("user", [text("Go.")]))
    kept = say("user", [IMAGE, text("Go."), "odd"])
    assert kept == RESPONSES.unmark(kept)
    assert RESPONSES.unmark(None) is None


# Sizes


def tokens(*texts: str) -> int:
    return sum(map(estimate_tokens, texts))


@as_one_test
@pytest.mark.parametrize(
    ("item", "total", "own"),
    [
        (say("user", "Go on."), 4 + tokens("Go on."), None),
        (say("user", [text("Go."), {**IMAGE, "detail": "low"}]), 4 + tokens("Go.") + 85, None),
        (say("user", [IMAGE, None]), 4 + 3_200, None),
        (say("user", None), 4, None),
        (output("out"), 8 + tokens("out"), tokens("out")),
        (shell(printed("a", "b")), 8 + tokens("a", "b"), tokens("a", "b")),
        (output({"type": "computer_screenshot"}, "computer_call_output"), 1_608, 1_600),
        (
            {"type": "function_call", "id": "f", "call_id": "a", "name": "run", "arguments": "{}"},
            8 + tokens("run", "{}"),
            None,
        ),
        (
            {"type": "shell_call", "action": {"commands": ["ls"]}, "environment": None},
            8 + tokens('{"commands":["ls"]}'),
            None,
        ),
        ({"type": "reasoning", "summary": [], "encrypted_content": "x" * 1_700}, 108, None),
        ({"type": "reasoning", "summary": [], "encrypted_content": "x" * 600}, 8, None),
        ({"type": "image_generation_call", "result": "x" * 600}, 8, None),
        (None, 0, None),
    ],
)
def test_sizes(item: object, total: int, own: int | None) -> None:
    found = RESPONSES.measure_element(item)
    assert (total, () if own is None else ((8, own),)) == (found.total, found.results)


def test_texts_that_are_tokens() -> None:
    assert (["Go."], 4 + 1_600) == RESPONSES.count_parts(say("user", [text("Go."), IMAGE]))
    assert (["out"], 8) == RESPONSES.count_parts(output("out", id="f"))
    call = {"type": "function_call", "call_id": "a", "name": "run", "arguments": "{}"}
    assert (["run", "{}"], 8) == RESPONSES.count_parts(call)
    assert ([], 0) == RESPONSES.count_parts(None)


def test_a_summary_is_what_the_user_says() -> None:
    assert Element("user", ("So far.",)) == RESPONSES.read_element(
        RESPONSES.user_message("So far.")
    )


@as_one_test
@pytest.mark.parametrize("recent", [1, 2, 3, 4])
@pytest.mark.parametrize("budget", [2_000, 200])
def test_a_reduced_history_is_one_that_the_provider_takes(recent: int, budget: int) -> None:
    thought = {"type": "reasoning", "id": "rs", "summary": []}
    items: list[dict[str, Any]] = [say("user", "Go.")]
    for n in range(6):
        call = {"type": "function_call", "call_id": f"c{n}", "name": "run", "arguments": "{}"}
        items += [thought, call, output("old output " * 60, call_id=f"c{n}")]
    items += [thought, say("assistant", "Done. " * 40)]
    body = json.dumps({"model": "gpt-5", "input": items}).encode()
    options = ReductionOptions(
        enabled=True,
        max_input_chars=budget,
        preserve_recent_raw_turns=recent,
        observation_masking=False,
    )
    found = rewrite_request(read_request(body, RESPONSES), Strategies(reduction=options))
    assert found.plan is not None
    assert found.plan.dropped
    after = json.loads(found.body)
    assert check(Received(request=after)) is None
    kinds = [item.get("type") for item in after["input"]]
    answers = [at for at, item in enumerate(after["input"]) if RESPONSES.read_element(item).calls]
    assert ["reasoning"] * len(answers) == [kinds[at - 1] for at in answers]
    assert ["reasoning", None] == kinds[-2:]
