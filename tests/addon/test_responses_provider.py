"""The scripted provider as OpenAI Responses: what it answers, counts, drops and refuses."""

import asyncio
import copy
import json
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import openai
import pytest
from tornado.httpclient import HTTPClientError
from tornado.websocket import websocket_connect

from addon.recordings.provider.provider import Provider
from addon.recordings.provider.responses_items import find_dropped
from addon.recordings.provider.script import SIDE_ANSWER, Call, Reply, ScriptedReplies, call
from tests.live.harness import SECONDS

BINDING, OLDER = "gpt-5.6-sol", "gpt-5.1-codex"
TASK = {"role": "user", "content": "Do it."}
TOOLS: list[Any] = [
    {"type": "function", "name": "run", "parameters": {"type": "object"}, "strict": False},
    {"type": "shell", "environment": {"type": "local"}},
    {"type": "apply_patch"},
    {"type": "namespace", "name": "functions", "tools": [{"type": "custom", "name": "exec"}]},
]
PATCH = {"type": "delete_file", "path": "a.txt"}
SCRIPT = ScriptedReplies(
    (
        Reply(
            thinking="Look first, and then look again.",
            calls=(call("call_0", "run", command="ls"), call("call_1", "run", command="é b")),
        ),
        Reply(
            thinking="Now the others.",
            content="One more look.",
            calls=(
                Call(id="call_2", tool="exec", arguments="text(await tools.look({deep: true}));"),
                call("call_3", "shell", commands=["ls", "false"]),
                call("call_4", "apply_patch", **PATCH),
            ),
        ),
        Reply(thinking="That was it.", content="All of it is done now, and nothing is left."),
    )
)


@pytest.fixture
def provider() -> Iterator[Provider]:
    with Provider(SCRIPT, strict=True) as running:
        yield running


def post(provider: Provider, request: dict[str, Any], path: str = "/responses") -> httpx.Response:
    return httpx.post(f"{provider.url}{path}", json=request, timeout=SECONDS)


def request(*items: dict[str, Any], model: str = OLDER, **fields: object) -> dict[str, Any]:
    given = {"model": model, "input": [dict(TASK), *items], "tools": TOOLS, "store": False}
    return copy.deepcopy(given | fields)


OUTPUTS: dict[str, Any] = {
    "function_call": {"output": "out"},
    "custom_tool_call": {"output": [{"type": "input_text", "text": "out"}]},
    "shell_call": {
        "output": [{"stdout": "", "stderr": "", "outcome": {"type": "exit", "exit_code": 1}}]
    },
    "apply_patch_call": {"status": "completed"},
}


def results(output: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [
        {"type": f"{item['type']}_output", "call_id": item["call_id"], **OUTPUTS[item["type"]]}
        for item in output
        if item["type"] in OUTPUTS
    ]


def play(provider: Provider, turns: int, **fields: Any) -> dict[str, Any]:  # noqa: ANN401
    """The request after so many turns, as a client builds it."""
    built = request(**fields)
    for _ in range(turns):
        output = post(provider, built).json()["output"]
        built["input"] += [*output, *results(output)]
    return built


def client(provider: Provider) -> openai.OpenAI:
    return openai.OpenAI(api_key="sk-none", base_url=provider.url, max_retries=0)


def put_together(events: list[dict[str, Any]]) -> dict[str, Any]:
    """The answer that a client makes of a stream."""
    answer: dict[str, Any] = {**events[-1]["response"], "output": []}
    for number, event in enumerate(events):
        assert number == event["sequence_number"]
        item = answer["output"][-1] if answer["output"] else {}
        match event["type"].removeprefix("response.").split("."):
            case ["output_item", "added"]:
                answer["output"].append(event["item"])
            case ["reasoning_summary_part", "added"]:
                item["summary"].append(event["part"])
            case ["content_part", "added"]:
                item["content"].append(event["part"])
            case ["reasoning_summary_text", "delta"]:
                item["summary"][-1]["text"] += event["delta"]
            case ["output_text", "delta"]:
                item["content"][-1]["text"] += event["delta"]
            case ["function_call_arguments", "delta"]:
                item["arguments"] += event["delta"]
            case ["custom_tool_call_input", "delta"]:
                item["input"] += event["delta"]
            case ["output_item", "done"]:
                ends = {key: event["item"][key] for key in _ENDS if key in event["item"]}
                item |= {"status": None, **ends}
                answer["output"][-1] = {k: v for k, v in item.items() if v is not None}
    return answer


_ENDS = ("status", "encrypted_content")


@pytest.mark.parametrize("turns", range(3))
def test_a_stream_adds_up_to_the_whole_answer(turns: int) -> None:
    answers: list[Any] = []
    for stream in (False, True):
        with Provider(SCRIPT, strict=True) as provider:
            asked, responses = play(provider, turns), client(provider).responses
            if stream:
                events = [each.to_dict() for each in responses.create(**asked, stream=True)]
                answers.append(put_together(events))
            else:
                answers.append(responses.create(**asked).to_dict())
    assert answers[0] == answers[1]
    kinds = [
        ["reasoning", "function_call", "function_call"],
        ["reasoning", "message", "custom_tool_call", "shell_call", "apply_patch_call"],
        ["reasoning", "message"],
    ]
    assert kinds[turns] == [item["type"] for item in answers[0]["output"]]


def test_a_call_is_spelled_as_its_tool_wants_it(provider: Provider) -> None:
    answered = post(provider, play(provider, 1)).json()["output"]
    _, _, custom, shell, patch = answered
    assert (custom["name"], custom["namespace"]) == ("exec", "functions")
    assert custom["input"] == SCRIPT.replies[1].calls[0].arguments
    assert shell["action"] == {"commands": ["ls", "false"]}
    assert patch["operation"] == PATCH


def test_tools_may_be_offered_in_an_item(provider: Provider) -> None:
    offered = {"type": "additional_tools", "role": "developer", "tools": TOOLS}
    asked = request(offered, tools=[])
    assert post(provider, asked).json()["output"][1]["name"] == "run"
    aside = post(provider, request(tools=[])).json()["output"][0]
    assert aside["content"][0]["text"] == SIDE_ANSWER


def test_a_text_is_one_message(provider: Provider) -> None:
    assert post(provider, request(input="Do it.")).json()["output"][1]["name"] == "run"


# Strictness


def drop_at(place: int) -> Callable[[dict[str, Any]], object]:
    return lambda asked: asked["input"].pop(place)


def put_at(place: int, **fields: object) -> Callable[[dict[str, Any]], object]:
    return lambda asked: asked["input"][place].update(fields)


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda asked: asked.update(messages=[]), "Unknown parameter: 'messages'."),
        (lambda asked: asked.pop("model"), "Missing required parameter: 'model'."),
        (
            lambda asked: asked.update(input={}),
            "Invalid type for 'input': expected one of a text or an array of items.",
        ),
        (put_at(0, role="tool"), "Invalid 'input[0]': unknown role 'tool'."),
        (
            put_at(0, content=[{"type": "text", "text": ""}]),
            "Invalid 'input[0]': unknown part 'text', supported are input_text, input_image, "
            "input_file.",
        ),
        (put_at(0, content=None), "Invalid 'input[0]': expected a text or an array of parts."),
        (
            put_at(0, content=[{"type": "input_text"}]),
            "Invalid 'input[0]': missing 'text'.",
        ),
        (put_at(2, type="tool_call"), "Invalid 'input[2]': unknown type 'tool_call'."),
        (put_at(2, call_id=""), "Invalid 'input[2]': missing 'call_id'."),
        (put_at(4, call_id=None), "Invalid 'input[4]': missing 'call_id'."),
        (drop_at(4), "No tool output found for function call call_0."),
        (drop_at(2), "No tool call found for function call output with call_id call_0."),
        (
            put_at(4, type="custom_tool_call_output"),
            "No tool output found for function call call_0.",
        ),
        (
            put_at(4, output=[{"type": "output_text", "text": "x"}]),
            "Invalid 'input[4]': unknown part 'output_text', supported are input_text, "
            "input_image, input_file.",
        ),
        (
            put_at(1, summary=[{"type": "summary_text", "text": "Look first."}]),
            "The encrypted content for item rs_scripted_1 could not be verified.",
        ),
        (
            put_at(1, encrypted_content="gAAA"),
            "The encrypted content for item rs_scripted_1 could not be verified.",
        ),
        (
            lambda asked: asked["input"].append(asked["input"][1]),
            "Item 'rs_scripted_1' of type 'reasoning' was provided without its required following "
            "item.",
        ),
        (
            lambda asked: asked["input"].insert(0, "Do it."),
            "Invalid 'input[0]': expected an object.",
        ),
    ],
)
def test_what_is_refused(
    provider: Provider, change: Callable[[dict[str, Any]], object], expected: str
) -> None:
    asked = play(provider, 1)
    change(asked)
    response = post(provider, asked)
    assert (response.status_code, response.json()["error"]["message"]) == (400, expected)
    assert provider.refusals == [expected]


@pytest.mark.parametrize(
    ("output", "expected"),
    [
        ({"output": []}, None),
        ({"output": [{"stdout": ""}]}, "expected stdout, stderr and outcome."),
        ({"output": "text"}, "expected stdout, stderr and outcome."),
    ],
)
def test_what_a_shell_may_say(
    provider: Provider, output: dict[str, Any], expected: str | None
) -> None:
    asked = play(provider, 2)
    put_at(-2, **output)(asked)
    refused = [] if expected is None else [f"Invalid 'input[12]': {expected}"]
    post(provider, asked)
    assert refused == provider.refusals


def test_several_results_may_answer_one_custom_call(provider: Provider) -> None:
    asked = play(provider, 2)
    asked["input"].append({**asked["input"][-3], "name": "exec", "output": "half way"})
    assert post(provider, asked).status_code == 200


# Bound reasoning


@pytest.mark.parametrize(
    ("model", "place", "expected"),
    [
        (BINDING, 4, [6]),
        (BINDING, 10, []),
        (BINDING, 0, [1, 6]),
        (OLDER, 4, []),
    ],
)
def test_reasoning_after_a_change_is_dropped_by_newer_models(
    provider: Provider, model: str, place: int, expected: list[int]
) -> None:
    asked = play(provider, 2, model=model)
    assert find_dropped(asked) == []
    asked["input"][place]["output" if place else "content"] = "another text"
    assert post(provider, asked).status_code == 200
    assert find_dropped(provider.requests[-1].request) == expected


def test_how_a_client_spells_an_item_changes_nothing(provider: Provider) -> None:
    asked = play(provider, 2, model=BINDING)
    for item in asked["input"]:
        item.pop("id", None)
        if item.get("type") == "reasoning":
            item["content"] = None
        if item.get("type") == "function_call":
            item["arguments"] = json.dumps(json.loads(item["arguments"]), indent=1)
    asked["input"][0] = {
        "type": "message",
        **TASK,
        "content": [{"type": "input_text", "text": TASK["content"]}],
    }
    assert find_dropped(asked) == []


# Usage


LONG = "word " * 2_000


@pytest.mark.parametrize(("model", "step", "writes"), [(OLDER, 128, False), (BINDING, 1, True)])
def test_what_comes_from_the_cache(provider: Provider, model: str, step: int, writes: bool) -> None:
    asked = request({"role": "user", "content": LONG}, model=model)
    first = post(provider, asked).json()
    asked["input"] += [*first["output"], *results(first["output"])]
    second = post(provider, asked).json()["usage"]
    before, now = first["usage"]["input_tokens"], second["input_tokens"]
    cached = before // step * step
    assert 2_000 < before < now
    assert first["usage"]["input_tokens_details"] == {
        "cached_tokens": 0,
        "cache_write_tokens": before if writes else 0,
    }
    assert second["input_tokens_details"] == {
        "cached_tokens": cached,
        "cache_write_tokens": now - cached if writes else 0,
    }


def test_newer_models_find_only_the_ends_of_earlier_prompts(provider: Provider) -> None:
    for model, expected in ((OLDER, True), (BINDING, False)):
        long = {"role": "user", "content": LONG}
        for ending in ("One.", "Another."):
            asked = request(long, {"role": "user", "content": ending}, model=model)
            usage = post(provider, asked).json()["usage"]
        assert expected == bool(usage["input_tokens_details"]["cached_tokens"])


def test_the_whole_prompt_is_counted_and_a_history_made_short(provider: Provider) -> None:
    asked = play(provider, 1)
    counted = post(provider, asked, "/responses/input_tokens").json()
    assert counted["input_tokens"] == post(provider, asked).json()["usage"]["input_tokens"]
    short = post(provider, asked, "/responses/compact").json()["output"]
    assert [TASK, "compaction"] == [short[0], short[1]["type"]]


# WebSockets


def talk(provider: Provider, *messages: dict[str, Any]) -> list[list[dict[str, Any]]]:
    """Send messages one after the other; return the events that each gets."""

    async def send_all() -> list[list[dict[str, Any]]]:
        url = provider.url.replace("http", "ws", 1) + "/responses"
        socket = await websocket_connect(url, compression_options={})
        heard = []
        for message in messages:
            await socket.write_message(json.dumps({"type": "response.create", **message}))
            events: list[dict[str, Any]] = []
            while not events or events[-1]["type"] not in _LAST:
                told = await socket.read_message()
                if told is None:
                    break
                events.append(json.loads(told))
            heard.append(events)
        socket.close()
        return heard

    return asyncio.run(asyncio.wait_for(send_all(), SECONDS))


_LAST = ("response.completed", "error")


def test_a_connection_remembers_the_latest_response(provider: Provider) -> None:
    with Provider(SCRIPT, strict=True) as other:
        (first,) = talk(other, request())
    output = first[-1]["response"]["output"]
    before = {"previous_response_id": first[-1]["response"]["id"]}
    heard = talk(
        provider,
        request(generate=False),
        request(input=[], previous_response_id="resp_scripted_1"),
        request(**before, input=results(output)),
    )
    assert heard[0][-1]["response"]["output"] == []
    assert heard[1][-1]["response"]["output"] == output
    whole = [TASK, *output, *results(output)]
    assert provider.requests[-1].request["input"] == whole
    assert heard[2][-1]["response"] == post(provider, request(*whole[1:])).json() | {
        "usage": heard[2][-1]["response"]["usage"]
    }


def test_an_unknown_response_is_said_to_be_unknown(provider: Provider) -> None:
    delta = request(previous_response_id="resp_0")
    (events, after) = talk(provider, delta, request())
    assert (events[0]["status"], events[0]["error"]["code"]) == (400, "previous_response_not_found")
    assert after[-1]["type"] == "response.completed"


@pytest.mark.parametrize(
    ("message", "words"),
    [
        ({"type": "response.cancel"}, "Unknown event type."),
        (request(max_tokens=5), "Unknown parameter: 'max_tokens'."),
    ],
)
def test_a_message_can_be_refused(provider: Provider, message: dict[str, Any], words: str) -> None:
    ((event,),) = talk(provider, message)
    assert (event["type"], event["error"]["message"]) == ("error", words)


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        (Reply(status=429), ["error"]),
        (Reply(content="Some words.", dies_after=2), ["response.created", "response.in_progress"]),
    ],
)
def test_an_answer_can_fail(reply: Reply, expected: list[str]) -> None:
    with Provider(lambda _: reply) as provider:
        (events,) = talk(provider, request())
    assert expected == [event["type"] for event in events]


def test_a_provider_without_websockets_wants_http() -> None:
    with Provider(SCRIPT, websockets=False) as provider:
        with pytest.raises(HTTPClientError) as caught:
            talk(provider, request())
        assert caught.value.code == 426
        assert post(provider, request()).status_code == 200
