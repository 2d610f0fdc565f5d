"""What the strict provider refuses, as the vendors do, and what it takes; and to what it holds the
model's reasoning bound.
"""

import copy
import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import httpx
import pytest

from tests.live.harness import SECONDS
from tests.provider.talks import CLIENTS, GEMINI, MESSAGES, OLLAMA, RESPONSES, TASK, Body, Client
from tests.support.marks import as_one_test
from tests.tools.provider.messages import BINDING_BETA
from tests.tools.provider.provider import Provider
from tests.tools.provider.responses import find_dropped
from tests.tools.provider.script import Reply, ScriptedReplies

BOUND_CLAUDE, BOUND_GPT, OLDER_GPT = "claude-opus-5-5", "gpt-5.6-sol", "gpt-5.1-codex"
MARK = {"cache_control": {"type": "ephemeral"}}
HOUR = {"cache_control": {"type": "ephemeral", "ttl": "1h"}}

Change = Callable[[Body], object]


def put(*place_and_value: object) -> Change:
    """Return a change that puts the last of these at the place that the others name."""
    *place, value = place_and_value

    def apply(body: Body) -> None:
        where, last = find(body, place)
        where[last] = value

    return apply


def take(*place: object) -> Change:
    """Return a change that takes away what is at a place."""

    def apply(body: Body) -> None:
        where, last = find(body, place)
        where.pop(last)

    return apply


def find(body: Body, place: Sequence[object]) -> tuple[Any, object]:
    """Return what holds a place, and its last step."""
    where: Any = body
    for step in place[:-1]:
        where = where[step]
    return where, place[-1]


def double(body: Body, entries: str, start: int, end: int) -> None:
    body[entries] += copy.deepcopy(body[entries][start:end])


def text(words: str, mark: Body | None = None) -> Body:
    return {"type": "text", "text": words, **(mark or {})}


def lose_thinking(body: Body) -> None:
    body["thinking"] = {"type": "enabled", "budget_tokens": 1024}
    del body["messages"][1]["content"][0]


M_RESULT = ("messages", 2, "content", 0)
G_CALL = ("contents", 1, "parts", 1)
G_RESPONSE = ("contents", 2, "parts", 0, "functionResponse")
NO_OUTPUT = "No tool output found for function call call_0."
NO_CALL = "No tool call found for function call output with call_id call_0."
UNVERIFIED = "The encrypted content for item rs_scripted_1 could not be verified."
UNFOLLOWED = (
    "Item 'rs_scripted_1' of type 'reasoning' was provided without its required following item."
)
PARTS = "supported are input_text, input_image, input_file."
UNANSWERED = "`tool_use` ids were found without `tool_result`"

REFUSED: dict[str, dict[str, tuple[Change, str]]] = {
    "chat": {
        "a missing result": (take("messages", 3), "no tool messages answer call_1"),
        "a result without a call": (take("messages", 1), "messages[1]: role 'tool' must follow"),
        "a message too early": (
            lambda b: b["messages"].insert(3, TASK),
            "messages[3]: no tool messages answer call_1",
        ),
        "two results of one call": (lambda b: double(b, "messages", 2, 3), "messages[4]: role"),
    },
    "messages": {
        "an unknown field": (put("foo", 1), "foo: Extra inputs are not permitted"),
        "no limit": (take("max_tokens"), "max_tokens: Field required"),
        "nothing said": (put("messages", []), "at least one message is required"),
        "an unknown field in a result": (put(*M_RESULT, "name", "x"), "tool_result.name: Extra"),
        "an unknown role": (put("messages", 0, "role", "tool"), "role: Input should be"),
        "an assistant first": (put("messages", 0, "role", "assistant"), 'use the "user" role'),
        "no content": (put("messages", 0, "content", []), "must have non-empty content"),
        "an empty text": (put("messages", 0, "content", ""), "text content blocks must be"),
        "another id": (put(*M_RESULT, "tool_use_id", "toolu_x"), "unexpected `tool_"),
        "a missing result": (take(*M_RESULT), UNANSWERED),
        "text before results": (
            lambda b: b["messages"][2]["content"].insert(0, text("before")),
            UNANSWERED,
        ),
        "two results of one call": (
            lambda b: double(b["messages"][2], "content", 0, 1),
            "each tool_use must have a single result",
        ),
        "two calls of one id": (
            lambda b: double(b, "messages", 1, 3),
            "`tool_use` ids must be unique",
        ),
        "an altered thought": (put("messages", 1, "content", 0, "thinking", "x"), "`signature`"),
        "an altered signature": (put("messages", 1, "content", 0, "signature", "x"), "`signature`"),
        "a thought that is missing": (lose_thinking, "in the latest assistant message cannot be"),
        "binding controls without their beta": (
            put("thinking", {"type": "adaptive", "block_binding": {"a": "b"}}),
            "thinking.block_binding: Extra inputs are not permitted",
        ),
        "binding controls without thinking": (
            put("thinking", {"type": "disabled", "block_binding": {"a": "b"}}),
            "thinking.block_binding: Extra inputs are not permitted",
        ),
        "five marks": (
            put("system", [text("x", MARK)] * 5),
            "A maximum of 4 blocks with cache_control may be provided. Found 5.",
        ),
        "a longer lifetime after a shorter one": (
            put("system", [text("x", MARK), text("x", HOUR)]),
            "must not come after a ttl='5m'",
        ),
        "an image that is none": (put(*M_RESULT, "content", [{"type": "x"}]), "unexpected type"),
    },
    "responses": {
        "an unknown field": (put("messages", []), "Unknown parameter: 'messages'."),
        "no model": (take("model"), "Missing required parameter: 'model'."),
        "no list": (put("input", {}), "Invalid type for 'input': expected one of a text or an"),
        "an item that is a text": (
            lambda b: b["input"].insert(0, "Do it."),
            "Invalid 'input[0]': expected an object.",
        ),
        "an unknown role": (put("input", 0, "role", "tool"), "[0]': unknown role 'tool'."),
        "an unknown part": (
            put("input", 0, "content", [text("")]),
            f"Invalid 'input[0]': unknown part 'text', {PARTS}",
        ),
        "no content": (put("input", 0, "content", None), "[0]': expected a text or an array of"),
        "no text": (put("input", 0, "content", [{"type": "input_text"}]), "[0]': missing 'text'."),
        "an unknown type": (put("input", 2, "type", "x"), "Invalid 'input[2]': unknown type 'x'."),
        "a call without an id": (put("input", 2, "call_id", ""), "[2]': missing 'call_id'."),
        "a result without an id": (put("input", 4, "call_id", None), "[4]': missing 'call_id'."),
        "a missing result": (take("input", 4), NO_OUTPUT),
        "a result without a call": (take("input", 2), NO_CALL),
        "a result of another type": (put("input", 4, "type", "custom_tool_call_output"), NO_OUTPUT),
        "the model's part in a result": (
            put("input", 4, "output", [{"type": "output_text", "text": "x"}]),
            f"Invalid 'input[4]': unknown part 'output_text', {PARTS}",
        ),
        "an altered thought": (
            put("input", 1, "summary", [{"type": "summary_text", "text": "Look first."}]),
            UNVERIFIED,
        ),
        "an altered signature": (put("input", 1, "encrypted_content", "gAAA"), UNVERIFIED),
        "a thought at the end": (lambda b: double(b, "input", 1, 2), UNFOLLOWED),
    },
    "gemini": {
        "an unknown field": (put("messages", []), 'Unknown name "messages"'),
        "nothing said": (put("contents", []), "contents is not specified"),
        "an unknown role": (put("contents", 0, "role", "tool"), "use a valid role"),
        "no parts": (put("contents", 0, "parts", []), "must not be empty"),
        "the model's turn last": (take("contents", 2), "start and end with a user role"),
        "no first content of the user": (take("contents", 0), "start and end with a user"),
        "a missing result": (
            take("contents", 2, "parts", 1),
            "number of function response parts is equal",
        ),
        "a result without a call": (take("contents", 1), "immediately after a function call turn"),
        "another id": (put(*G_RESPONSE, "id", "x"), "does not match"),
        "another name": (put(*G_RESPONSE, "name", "x"), "does not match"),
        "a response that is a text": (put(*G_RESPONSE, "response", "x"), "Invalid value"),
        "an unknown field in a result": (
            put(*G_RESPONSE, "content", "x"),
            "Unknown name \"content\" at 'contents[2].parts[0].function_response'",
        ),
        "an altered signature": (
            put(*G_CALL, "thoughtSignature", "eA=="),
            "Thought signature is not valid",
        ),
        "an altered call": (
            put(*G_CALL, "functionCall", "args", "command", "rm"),
            "Thought signature is not valid",
        ),
        "no signature in the current turn": (
            take(*G_CALL, "thoughtSignature"),
            "missing a thought_signature",
        ),
    },
    "ollama": {
        "an unknown field": (put("contents", []), "unknown field contents"),
        "an unknown field in a message": (
            put("messages", 0, "parts", []),
            "messages[0]: unknown field parts",
        ),
        "an unknown role": (put("messages", 0, "role", "x"), "messages[0]: invalid role: x"),
        "a list as content": (put("messages", 0, "content", []), "messages[0]: content must be"),
        "a missing result": (take("messages", 3), "no messages answer shell"),
        "a message too early": (
            lambda b: b["messages"].insert(3, TASK),
            "messages[3]: no messages answer shell",
        ),
        "a result too much": (
            lambda b: double(b, "messages", 3, 4),
            "messages[4]: answers no open call",
        ),
        "another name": (put("messages", 2, "tool_name", "x"), "messages[2]: answers no open call"),
        "arguments as a text": (
            put("messages", 1, "tool_calls", 0, "function", "arguments", "{}"),
            "messages[1]: arguments must be an object",
        ),
    },
}


def drop_ids(contents: list[Body]) -> None:
    for part in (part for content in contents for part in content["parts"]):
        for key in ("functionCall", "functionResponse"):
            part.get(key, {}).pop("id", None)


def split(contents: list[Body], at: int) -> None:
    content = contents.pop(at)
    contents[at:at] = [{**content, "parts": [part]} for part in content["parts"]]


def spell_for_urls(part: Body) -> None:
    part["thoughtSignature"] = part["thoughtSignature"].replace("+", "-").replace("/", "_")


def speak_after_the_call(body: Body) -> None:
    del body["contents"][1]["parts"][1]["thoughtSignature"]
    body["contents"][2]["parts"].append({"text": "Go on."})


EFFORT = {"role": "system", "content": [], "output_config": {"effort": "low"}}

TAKEN: dict[str, dict[str, Change]] = {
    "messages": {"an effort alone": lambda b: b["messages"].append(EFFORT)},
    "gemini": {
        "calls and responses without ids": lambda b: drop_ids(b["contents"]),
        "a response in a content of its own": lambda b: split(b["contents"], 2),
        "each part of an answer in a content of its own": lambda b: split(b["contents"], 1),
        "a role of old": put("contents", 2, "role", "function"),
        "no role": take("contents", 0, "role"),
        "a signature as it is in URLs": lambda b: spell_for_urls(b["contents"][1]["parts"][1]),
        "no signature before what the user says": speak_after_the_call,
    },
}


def spread(table: dict[str, dict[str, Any]]) -> list[Any]:
    return [
        pytest.param(name, row, id=f"{name}, {what}")
        for name, rows in table.items()
        for what, row in rows.items()
    ]


def problem_of(name: str, answer: Body) -> str:
    """Return the message of an error, whose shape is the vendor's."""
    if name == "ollama":
        return str(answer["error"])
    error = answer["error"]
    kind = error["status" if name == "gemini" else "type"]
    assert ("INVALID_ARGUMENT" if name == "gemini" else "invalid_request_error") == kind
    return str(error["message"])


@as_one_test
@pytest.mark.parametrize(("name", "row"), spread(REFUSED))
def test_what_the_vendor_refuses_is_refused(name: str, row: tuple[Change, str]) -> None:
    client, (change, words) = CLIENTS[name], row
    with Provider(client.script, strict=True) as provider:
        body = client.play(provider, 1)
        change(body)
        refused = client.post(provider, body)
    assert 400 == refused.status_code
    problem = problem_of(name, refused.json())
    assert words in problem
    assert [problem] == provider.refusals


@as_one_test
@pytest.mark.parametrize(("name", "change"), spread(TAKEN))
def test_what_the_vendor_takes_is_taken(name: str, change: Change) -> None:
    client = CLIENTS[name]
    with Provider(client.script, strict=True) as provider:
        body = client.play(provider, 1)
        change(body)
        assert "One more look." in client.post(provider, body).text
    assert [] == provider.refusals


@as_one_test
@pytest.mark.parametrize("client", CLIENTS.values(), ids=[*CLIENTS])
def test_nothing_is_refused_where_it_is_not_strict(client: Client) -> None:
    with Provider(client.script) as provider:
        answer = client.post(provider, {**client.opening, "foo": 1})
    assert 200 == answer.status_code


@pytest.mark.parametrize("body", [b"{", b"[]", b"", b"\xff"])
def test_what_is_no_request_is_refused(body: bytes) -> None:
    with Provider(MESSAGES.script) as provider:
        answer = httpx.post(f"{provider.url}/messages", content=body, timeout=SECONDS)
    assert (400, []) == (answer.status_code, provider.requests)


@pytest.mark.parametrize(
    ("name", "status", "kind"),
    [
        ("chat", 503, {"type": "server_error"}),
        ("messages", 429, {"type": "rate_limit_error"}),
        ("messages", 503, {"type": "api_error"}),
        ("gemini", 429, {"code": 429, "status": "RESOURCE_EXHAUSTED"}),
        ("gemini", 418, {"code": 418, "status": "INTERNAL"}),
    ],
)
def test_an_error_has_the_vendors_shape(name: str, status: int, kind: Body) -> None:
    with Provider(ScriptedReplies((Reply(status=status),))) as provider:
        failed = CLIENTS[name].post(provider, CLIENTS[name].opening)
    assert status == failed.status_code
    assert kind.items() <= failed.json()["error"].items()


@pytest.mark.parametrize(
    ("output", "expected"),
    [
        ([], None),
        ([{"stdout": ""}], "expected stdout, stderr and outcome."),
        ("text", "expected stdout, stderr and outcome."),
    ],
)
def test_what_a_shell_of_openais_may_say(output: object, expected: str | None) -> None:
    with Provider(RESPONSES.script, strict=True) as provider:
        body = RESPONSES.play(provider, 2)
        body["input"][-2]["output"] = output
        RESPONSES.post(provider, body)
    assert ([f"Invalid 'input[12]': {expected}"] if expected else []) == provider.refusals


def test_several_results_may_answer_one_custom_call() -> None:
    with Provider(RESPONSES.script, strict=True) as provider:
        body = RESPONSES.play(provider, 2)
        body["input"].append({**body["input"][-3], "name": "exec", "output": "half way"})
        assert 200 == RESPONSES.post(provider, body).status_code


def test_older_models_of_googles_need_no_signature() -> None:
    with Provider(GEMINI.script, strict=True) as provider:
        body = GEMINI.play(provider, 1)
        del body["contents"][1]["parts"][1]["thoughtSignature"]
        path = "/v1/projects/p/locations/l/publishers/google/models/gemini-2.5-pro:generateContent"
        older = Client(path, {}, "contents", GEMINI.follow)
        assert 200 == older.post(provider, body).status_code


def test_results_are_answered_in_the_order_of_calls_by_name() -> None:
    with Provider(OLLAMA.script, strict=True) as provider:
        body = OLLAMA.play(provider, 1)
        body["messages"][1]["tool_calls"][1]["function"]["name"] = "read"
        body["messages"][3]["tool_name"] = "read"
        assert 200 == OLLAMA.post(provider, body).status_code
        body["messages"].append(body["messages"].pop(2))
        refused = OLLAMA.post(provider, body)
    assert "messages[2]: answers no open call" in refused.json()["error"]


# What reasoning is bound to


@pytest.fixture
def anthropic() -> Iterator[Provider]:
    with Provider(MESSAGES.script, strict=True) as running:
        yield running


def test_claudes_newer_models_bind_thinking_to_all_before_it(anthropic: Provider) -> None:
    body = MESSAGES.play(anthropic, 3, model=BOUND_CLAUDE)
    body["messages"][-1] = TASK
    assert 200 == MESSAGES.post(anthropic, body).status_code
    body["messages"][2]["content"][0]["content"] = "masked"
    problem = MESSAGES.post(anthropic, body).json()["error"]["message"]
    assert "messages.5.content.0: `thinking` block is bound to a different conversation" == problem
    assert 200 == MESSAGES.post(anthropic, body | {"model": "claude-sonnet-4-5"}).status_code
    drop = {"type": "adaptive", "block_binding": {"prefix_mismatch_behavior": "drop_block"}}
    asked = body | {"thinking": drop}
    dropped = MESSAGES.post(anthropic, asked, anthropic_beta=BINDING_BETA).json()
    assert [{"type": "thinking_dropped", "message_index": 5, "content_index": 0}] == dropped[
        "input_transformations"
    ]
    assert 200 == MESSAGES.post(anthropic, body | {"thinking": {"type": "disabled"}}).status_code
    anthropic.refuses_dropping = True
    refused = MESSAGES.post(anthropic, asked, anthropic_beta=BINDING_BETA).json()
    assert "not available to this account" in refused["error"]["message"]


@pytest.mark.parametrize(
    ("change", "is_one"),
    [
        pytest.param(put("messages", 0, "content", [text("Do it.", MARK)]), False, id="a mark"),
        pytest.param(put(*M_RESULT, "content", [text("out")]), False, id="a list of one text"),
        pytest.param(put(*M_RESULT, "is_error", False), False, id="no error"),
        pytest.param(put("max_tokens", 10), False, id="max_tokens"),
        pytest.param(put("output_config", {"effort": "low"}), False, id="effort"),
        pytest.param(put("system", "x-anthropic-billing-header: cch=01234;"), False, id="who pays"),
        pytest.param(put("system", "Be brief."), True, id="a system prompt"),
    ],
)
def test_what_is_a_change_of_the_conversation(
    anthropic: Provider, change: Change, is_one: bool
) -> None:
    body = MESSAGES.play(anthropic, 1, model=BOUND_CLAUDE)
    body["messages"] += [
        {"role": "assistant", "content": [text("One more look.")]},
        {"role": "user", "content": "Well?"},
    ]
    change(body)
    assert is_one == ("bound to a different conversation" in MESSAGES.post(anthropic, body).text)


@pytest.mark.parametrize(
    ("model", "place", "expected"),
    [(BOUND_GPT, 4, [6]), (BOUND_GPT, 10, []), (BOUND_GPT, 0, [1, 6]), (OLDER_GPT, 4, [])],
)
def test_gpts_newer_models_drop_reasoning_after_a_change(
    model: str, place: int, expected: list[int]
) -> None:
    with Provider(RESPONSES.script, strict=True) as provider:
        body = RESPONSES.play(provider, 2, model=model)
        assert [] == find_dropped(body)
        body["input"][place]["output" if place else "content"] = "another text"
        assert 200 == RESPONSES.post(provider, body).status_code
    assert expected == find_dropped(provider.requests[-1].request)


def test_how_a_client_spells_an_item_is_no_change() -> None:
    with Provider(RESPONSES.script, strict=True) as provider:
        body = RESPONSES.play(provider, 2, model=BOUND_GPT)
    for item in body["input"]:
        item.pop("id", None)
        if item.get("type") == "reasoning":
            item["content"] = None
        if item.get("type") == "function_call":
            item["arguments"] = json.dumps(json.loads(item["arguments"]), indent=1)
    content = [{"type": "input_text", "text": TASK["content"]}]
    body["input"][0] = {"type": "message", **TASK, "content": content}
    assert [] == find_dropped(body)
