"""The scripted provider as Anthropic: what it answers, counts and refuses."""

import copy
import json
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest

from addon.recordings.provider.messages_check import BINDING_BETA
from addon.recordings.provider.provider import Provider
from addon.recordings.provider.script import Reply, ScriptedReplies, call
from tests.live.harness import SECONDS

BOUND = "claude-opus-5-5"
OLDER = "claude-sonnet-4-5"
TOOLS = [{"name": "shell", "input_schema": {"type": "object"}}]
TASK = {"role": "user", "content": "Do it."}
SCRIPT = ScriptedReplies(
    (
        Reply(
            thinking="Look first, and then look again.",
            calls=(call("call_0", "shell", command="ls"), call("call_1", "shell", command="é b")),
        ),
        Reply(content="One more look.", calls=(call("call_0", "shell"),)),
        Reply(thinking="That was it.", content="All of it is done now, and nothing is left."),
    )
)


@pytest.fixture
def provider() -> Iterator[Provider]:
    with Provider(SCRIPT, strict=True) as running:
        yield running


def post(
    provider: Provider, request: dict[str, Any], path: str = "/messages", **headers: str
) -> httpx.Response:
    fields = {name.replace("_", "-"): value for name, value in headers.items()}
    return httpx.post(f"{provider.url}{path}", json=request, headers=fields, timeout=SECONDS)


def request(*messages: dict[str, Any], model: str = OLDER, **fields: object) -> dict[str, Any]:
    return {
        "model": model,
        "max_tokens": 9,
        "messages": [dict(TASK), *messages],
        "tools": TOOLS,
        **fields,
    }


def results(answer: dict[str, Any], text: str = "out") -> dict[str, Any]:
    calls = (each for each in answer["content"] if each["type"] == "tool_use")
    return {
        "role": "user",
        "content": [
            {"type": "tool_result", "tool_use_id": each["id"], "content": text} for each in calls
        ],
    }


def play(provider: Provider, turns: int, **fields: Any) -> dict[str, Any]:  # noqa: ANN401
    """The request after so many turns, as a client builds it."""
    built = request(**fields)
    for _ in range(turns):
        answer = post(provider, built).json()
        built["messages"].append({"role": "assistant", "content": answer["content"]})
        built["messages"].append(results(answer))
    return built


def events(response: httpx.Response) -> list[dict[str, Any]]:
    found = []
    for event in response.text.removesuffix("\n\n").split("\n\n"):
        name, data = event.split("\n")
        found.append(json.loads(data.removeprefix("data: ")))
        assert name == f"event: {found[-1]['type']}"
    return found


def put_together(stream: list[dict[str, Any]]) -> dict[str, Any]:
    """The message that a client makes of a stream."""
    message: dict[str, Any] = stream[0]["message"]
    texts: dict[int, str] = {}
    for event in stream:
        match event:
            case {"type": "content_block_start"}:
                message["content"].append(event["content_block"])
            case {"type": "content_block_delta", "index": index, "delta": delta}:
                match delta:
                    case {"type": "text_delta"}:
                        message["content"][index]["text"] += delta["text"]
                    case {"type": "thinking_delta"}:
                        message["content"][index]["thinking"] += delta["thinking"]
                    case {"type": "signature_delta"}:
                        message["content"][index]["signature"] = delta["signature"]
                    case {"type": "input_json_delta"}:
                        texts[index] = texts.get(index, "") + delta["partial_json"]
            case {"type": "message_delta"}:
                message |= event["delta"]
                message["usage"] |= event["usage"]
    for index, text in texts.items():
        message["content"][index]["input"] = json.loads(text)
    return message


@pytest.mark.parametrize("turns", range(3))
def test_a_stream_adds_up_to_the_whole_answer(turns: int) -> None:
    answers = []
    for stream in (False, True):
        with Provider(SCRIPT, strict=True) as provider:
            response = post(provider, play(provider, turns) | {"stream": stream})
            answers.append(put_together(events(response)) if stream else response.json())
    assert answers[0] == answers[1]
    assert answers[0]["stop_reason"] == ("end_turn" if turns == 2 else "tool_use")


def test_its_script_is_followed_to_the_end(provider: Provider) -> None:
    last = post(provider, play(provider, 2)).json()
    assert last["content"][-1]["text"] == SCRIPT.replies[-1].content
    assert [len(each.said) for each in provider.requests] == [0, 1, 2]
    assert ({each.dialect for each in provider.requests}, provider.refusals) == ({"messages"}, [])


@pytest.mark.parametrize(
    ("path", "streams"),
    [
        ("/projects/p/locations/l/publishers/anthropic/models/claude:rawPredict", False),
        ("/projects/p/locations/l/publishers/anthropic/models/claude:streamRawPredict", True),
        ("/model/anthropic.claude/invoke", False),
    ],
)
def test_other_clouds_are_known_by_their_paths(
    provider: Provider, path: str, streams: bool
) -> None:
    response = post(provider, request(), path)
    assert response.headers["content-type"].startswith("text/event-stream") is streams
    assert "call_1" in response.text
    assert provider.requests[0].dialect == "messages"


def test_it_counts_tokens(provider: Provider) -> None:
    asked = request()
    del asked["max_tokens"]
    counted = post(provider, asked, "/messages/count_tokens").json()
    answered = post(provider, request()).json()["usage"]
    assert counted == {"input_tokens": answered["input_tokens"]}


@pytest.mark.parametrize(
    ("status", "kind"),
    [(400, "invalid_request_error"), (429, "rate_limit_error"), (503, "api_error")],
)
def test_a_failing_status(status: int, kind: str) -> None:
    with Provider(lambda _: Reply(status=status)) as provider:
        response = post(provider, request())
    assert (response.status_code, response.json()["error"]["type"]) == (status, kind)
    assert response.json()["type"] == "error"


# What is cached

LONG = "a" * 8_000
MARK = {"cache_control": {"type": "ephemeral"}}
HOUR = {"cache_control": {"type": "ephemeral", "ttl": "1h"}}


def text(words: str = LONG, mark: dict[str, Any] | None = None) -> dict[str, Any]:
    return {"type": "text", "text": words, **(mark or {})}


def usage(provider: Provider, *blocks: dict[str, Any], **fields: Any) -> tuple[int, int, int]:  # noqa: ANN401
    """What is read, what is written, and the rest, in thousands of tokens."""
    asked = request(**fields) | {"messages": [{"role": "user", "content": list(blocks)}]}
    found = post(provider, asked).json()["usage"]
    counts = (
        found["cache_read_input_tokens"],
        found["cache_creation_input_tokens"],
        found["input_tokens"],
    )
    assert sum(found["cache_creation"].values()) == counts[1]
    one, two, three = (round(count, -3) // 1_000 for count in counts)
    return one, two, three


def test_nothing_is_cached_without_a_mark(provider: Provider) -> None:
    assert [usage(provider, text()) for _ in range(2)] == [(0, 0, 2), (0, 0, 2)]


def test_what_is_marked_is_written_once_and_then_read(provider: Provider) -> None:
    assert usage(provider, text(mark=MARK), text()) == (0, 2, 2)
    assert usage(provider, text(), text(mark=MARK), text()) == (2, 2, 2)
    assert usage(provider, text("b"), text(mark=MARK)) == (0, 2, 0)


def test_a_mark_at_the_top_level_stands_at_the_end(provider: Provider) -> None:
    assert usage(provider, text(), text(), **MARK) == (0, 4, 0)
    assert usage(provider, text(), text(), text(), **MARK) == (4, 2, 0)


@pytest.mark.parametrize(("more", "expected"), [(19, (2, 0, 0)), (20, (0, 2, 0))])
def test_a_mark_looks_back_over_twenty_blocks(
    provider: Provider, more: int, expected: tuple[int, int, int]
) -> None:
    usage(provider, text(mark=MARK))
    later = [text("b") for _ in range(more - 1)]
    assert usage(provider, text(), *later, text("c", MARK)) == expected


def test_short_prompts_are_not_cached_and_models_differ_in_what_is_short(
    provider: Provider,
) -> None:
    short = text("a" * 3_000, MARK)
    assert usage(provider, short) == (0, 0, 1)
    assert usage(provider, short, model=BOUND) == (0, 1, 0)
    assert usage(provider, text(mark=MARK), model="claude-haiku-4-5") == (0, 0, 2)


def test_written_tokens_are_told_by_lifetime(provider: Provider) -> None:
    blocks = [text(mark=HOUR), text(mark=MARK)]
    asked = request() | {"messages": [{"role": "user", "content": blocks}]}
    written = post(provider, asked).json()["usage"]["cache_creation"]
    assert round(written["ephemeral_1h_input_tokens"], -3) == 2_000
    assert round(written["ephemeral_5m_input_tokens"], -3) == 2_000


# What is refused


def change(place: tuple[Any, ...], value: object) -> Callable[[dict[str, Any]], None]:
    def apply(built: dict[str, Any]) -> None:
        *steps, last = place
        where: Any = built
        for step in steps:
            where = where[step]
        where[last] = value

    return apply


def put_text_first(built: dict[str, Any]) -> None:
    built["messages"][2]["content"].insert(0, {"type": "text", "text": "before"})


def lose_a_result(built: dict[str, Any]) -> None:
    del built["messages"][2]["content"][0]


def double_a_result(built: dict[str, Any]) -> None:
    built["messages"][2]["content"].append(built["messages"][2]["content"][0])


def lose_thinking(built: dict[str, Any]) -> None:
    built["thinking"] = {"type": "enabled", "budget_tokens": 1024}
    del built["messages"][1]["content"][0]


def double_a_call(built: dict[str, Any]) -> None:
    built["messages"] += copy.deepcopy(built["messages"][1:3])


RESULT = ("messages", 2, "content", 0)
REFUSED = {
    "an unknown field": (change(("foo",), 1), "foo: Extra inputs are not permitted"),
    "an unknown field in a result": (change((*RESULT, "name"), "shell"), "tool_result.name: Extra"),
    "an unknown role": (change(("messages", 0, "role"), "tool"), "role: Input should be"),
    "an assistant first": (change(("messages", 0, "role"), "assistant"), 'use the "user" role'),
    "no content": (change(("messages", 0, "content"), []), "must have non-empty content"),
    "an empty text": (change(("messages", 0, "content"), ""), "text content blocks must be"),
    "a result of another call": (change((*RESULT, "tool_use_id"), "toolu_x"), "unexpected `tool_"),
    "no result": (lose_a_result, "`tool_use` ids were found without `tool_result` blocks"),
    "text before results": (put_text_first, "`tool_use` ids were found without `tool_result`"),
    "two results of one call": (double_a_result, "each tool_use must have a single result"),
    "two calls of one id": (double_a_call, "`tool_use` ids must be unique"),
    "an altered thought": (change(("messages", 1, "content", 0, "thinking"), "x"), "`signature`"),
    "an altered signature": (change(("messages", 1, "content", 0, "signature"), "x"), "`signat"),
    "a thought that is missing": (lose_thinking, "in the latest assistant message cannot be"),
    "binding controls without their beta": (
        change(("thinking",), {"type": "adaptive", "block_binding": {"a": "b"}}),
        "thinking.block_binding: Extra inputs are not permitted",
    ),
    "five marks": (
        change(("system",), [text("x", MARK) for _ in range(5)]),
        "A maximum of 4 blocks with cache_control may be provided. Found 5.",
    ),
    "a longer lifetime after a shorter one": (
        change(("system",), [text("x", MARK), text("x", HOUR)]),
        "must not come after a ttl='5m'",
    ),
    "an image that is none": (change((*RESULT, "content"), [{"type": "x"}]), "unexpected type 'x'"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_the_real_provider_would_refuse_is_refused(provider: Provider, name: str) -> None:
    built = play(provider, 1)
    edit, words = REFUSED[name]
    edit(built)
    response = post(provider, built)
    assert (response.status_code, response.json()["error"]["type"]) == (
        *(400, "invalid_request_error"),
    )
    assert words in response.json()["error"]["message"]
    assert provider.refusals == [response.json()["error"]["message"]]


def test_a_system_message_may_change_the_effort_and_say_nothing(provider: Provider) -> None:
    effort = {"role": "system", "content": [], "output_config": {"effort": "low"}}
    assert post(provider, request(effort)).status_code == 200


def test_nothing_is_refused_where_it_is_not_strict() -> None:
    with Provider(SCRIPT) as provider:
        assert post(provider, {"messages": [TASK], "foo": 1}).status_code == 200


# What thinking is bound to


def alter_a_result(built: dict[str, Any]) -> None:
    built["messages"][2]["content"][0]["content"] = "masked"


def test_newer_models_bind_thinking_to_all_before_it(provider: Provider) -> None:
    finished = play(provider, 2, model=BOUND)
    answer = post(provider, finished).json()
    built = finished | {
        "messages": [
            *copy.deepcopy(finished["messages"]),
            {"role": "assistant", "content": answer["content"]},
            TASK,
        ]
    }
    assert post(provider, built).status_code == 200
    alter_a_result(built)
    problem = post(provider, built).json()["error"]["message"]
    assert problem == "messages.5.content.0: `thinking` block is bound to a different conversation"
    assert post(provider, built | {"model": OLDER}).status_code == 200
    drop = {"type": "adaptive", "block_binding": {"prefix_mismatch_behavior": "drop_block"}}
    dropped = post(provider, built | {"thinking": drop}, anthropic_beta=BINDING_BETA).json()
    assert dropped["input_transformations"] == [
        {"type": "thinking_dropped", "message_index": 5, "content_index": 0}
    ]


@pytest.mark.parametrize(
    "edit",
    [
        change(("messages", 0, "content"), [text("Do it.", MARK)]),
        change((*RESULT, "content"), [text("out")]),
        change((*RESULT, "is_error"), False),
        change(("max_tokens",), 10),
        change(("output_config",), {"effort": "low"}),
        change(("system",), "x-anthropic-billing-header: cch=01234;"),
    ],
    ids=["a mark", "a list of one text", "no error", "max_tokens", "effort", "who pays"],
)
def test_what_is_no_change_of_the_conversation(
    provider: Provider, edit: Callable[[dict[str, Any]], None]
) -> None:
    built = play(provider, 1, model=BOUND)
    built["messages"] += [
        {"role": "assistant", "content": [text("One more look.")]},
        {"role": "user", "content": "Well?"},
    ]
    edit(built)
    assert post(provider, built).json().get("error") is None


def test_a_changed_system_prompt_is_a_change(provider: Provider) -> None:
    built = play(provider, 1, model=BOUND) | {"system": "Be brief."}
    assert "bound to a different conversation" in post(provider, built).text
