"""The scripted provider as Google: what it answers, counts and refuses."""

import copy
import json
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest

from addon.recordings.provider.provider import Provider
from addon.recordings.provider.script import Reply, ScriptedReplies, call
from tests.live.harness import SECONDS

MODELS = "/v1beta/models/gemini-3-pro-preview"
CODE_ASSIST = "/v1internal"
TASK = {"role": "user", "parts": [{"text": "Do it."}]}
TOOLS = [{"functionDeclarations": [{"name": "shell"}]}]
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


def post(provider: Provider, body: dict[str, Any], path: str) -> httpx.Response:
    return httpx.post(f"http://127.0.0.1:{provider.port}{path}", json=body, timeout=SECONDS)


def ask(provider: Provider, body: dict[str, Any]) -> dict[str, Any]:
    answer: dict[str, Any] = post(provider, body, f"{MODELS}:generateContent").json()
    return answer


def results(content: dict[str, Any], text: str = "out") -> dict[str, Any]:
    calls = (part["functionCall"] for part in content["parts"] if "functionCall" in part)
    return {
        "role": "user",
        "parts": [
            {
                "functionResponse": {
                    "id": each["id"],
                    "name": each["name"],
                    "response": {"output": text},
                }
            }
            for each in calls
        ],
    }


def play(provider: Provider, turns: int) -> dict[str, Any]:
    """The request after so many turns, as a client builds it."""
    built: dict[str, Any] = {"contents": [copy.deepcopy(TASK)], "tools": TOOLS}
    for _ in range(turns):
        content = ask(provider, built)["candidates"][0]["content"]
        built["contents"] += [content, results(content)]
    return built


def put_together(chunks: list[dict[str, Any]]) -> dict[str, Any]:
    """The answer that a client makes of a stream."""
    parts: list[dict[str, Any]] = []
    for chunk in chunks:
        for part in chunk["candidates"][0]["content"]["parts"]:
            before = parts[-1] if parts else {}
            is_more = "text" in part and "text" in before
            if is_more and part.get("thought") == before.get("thought"):
                before["text"] += part["text"]
            else:
                parts.append(part)
    last = chunks[-1]
    last["candidates"][0]["content"]["parts"] = parts
    return last


def read_events(response: httpx.Response) -> list[dict[str, Any]]:
    assert response.headers["content-type"].startswith("text/event-stream")
    found = response.text.removesuffix("\r\n\r\n").split("\r\n\r\n")
    return [json.loads(event.removeprefix("data: ")) for event in found]


def read_array(response: httpx.Response) -> list[dict[str, Any]]:
    assert response.headers["content-type"].startswith("application/json")
    chunks: list[dict[str, Any]] = response.json()
    return chunks


@pytest.mark.parametrize(
    ("query", "read"), [("?alt=sse", read_events), ("", read_array)], ids=["events", "an array"]
)
@pytest.mark.parametrize("turns", range(3))
def test_a_stream_adds_up_to_the_whole_answer(
    turns: int, query: str, read: Callable[[httpx.Response], list[dict[str, Any]]]
) -> None:
    answers = []
    for path in ("generateContent", f"streamGenerateContent{query}"):
        with Provider(SCRIPT, strict=True) as provider:
            response = post(provider, play(provider, turns), f"{MODELS}:{path}")
            streamed = "stream" in path
            answers.append(put_together(read(response)) if streamed else response.json())
    assert answers[0] == answers[1]
    assert "STOP" == answers[0]["candidates"][0]["finishReason"]


def test_every_chunk_of_a_stream_has_a_usage(provider: Provider) -> None:
    response = post(provider, play(provider, 2), f"{MODELS}:streamGenerateContent?alt=sse")
    counts = [chunk["usageMetadata"]["candidatesTokenCount"] for chunk in read_events(response)]
    assert len(counts) > 2
    assert sorted(counts) == counts


def test_only_the_first_of_parallel_calls_is_signed(provider: Provider) -> None:
    parts = ask(provider, play(provider, 0))["candidates"][0]["content"]["parts"]
    assert [False, True, False] == ["thoughtSignature" in part for part in parts]


def test_code_assist_is_one_level_deeper(provider: Provider) -> None:
    whole = ask(provider, play(provider, 1))
    body = {"model": "gemini-3-pro-preview", "project": "p", "request": play(provider, 1)}
    deeper = post(provider, body, f"{CODE_ASSIST}:generateContent").json()
    assert whole["candidates"] == deeper["response"]["candidates"]
    assert whole["modelVersion"] == deeper["response"]["modelVersion"]
    assert post(provider, {}, f"{CODE_ASSIST}:loadCodeAssist").json()["cloudaicompanionProject"]
    assert {} == post(provider, {}, f"{CODE_ASSIST}:retrieveUserQuota").json()
    assert [] == provider.refusals


@pytest.mark.parametrize(
    "wrap",
    [lambda body: body, lambda body: {"generateContentRequest": body}],
    ids=["plain", "whole"],
)
def test_tokens_are_counted_as_they_are_billed(
    provider: Provider, wrap: Callable[[dict[str, Any]], dict[str, Any]]
) -> None:
    body = play(provider, 1)
    billed = ask(provider, body)["usageMetadata"]["promptTokenCount"]
    counted = post(provider, wrap(body), f"{MODELS}:countTokens").json()
    assert {"totalTokens": billed} == counted


@pytest.mark.parametrize(
    ("model", "chars", "expected"),
    [
        ("gemini-3-pro-preview", 20_000, True),
        ("gemini-3-pro-preview", 12_000, False),
        ("gemini-2.5-pro", 12_000, True),
        ("gemini-2.5-pro", 6_000, False),
    ],
)
def test_a_prefix_is_cached_if_it_is_long_enough(
    provider: Provider, model: str, chars: int, expected: bool
) -> None:
    text = "word " * (chars // 5)
    body = {"contents": [{"role": "user", "parts": [{"text": text}]}], "tools": TOOLS}
    path = f"/v1beta/models/{model}:generateContent"
    first = post(provider, body, path).json()["usageMetadata"]
    again = post(provider, body, path).json()["usageMetadata"]
    assert "cachedContentTokenCount" not in first
    found = {"cachedContentTokenCount": first["promptTokenCount"]} if expected else {}
    assert first | found == again


Change = Callable[[dict[str, Any]], object]

REFUSED: list[tuple[str, Change, str]] = [
    ("an unknown field", lambda b: b.update(messages=[]), 'Unknown name "messages"'),
    ("nothing said", lambda b: b["contents"].clear(), "contents is not specified"),
    ("an unknown role", lambda b: b["contents"][0].update(role="tool"), "use a valid role"),
    ("no parts", lambda b: b["contents"][0].update(parts=[]), "must not be empty"),
    ("the model's turn last", lambda b: b["contents"].pop(), "start and end with a user role"),
    ("no first content of the user", lambda b: b["contents"].pop(0), "start and end with a user"),
    (
        "a missing response",
        lambda b: b["contents"][2]["parts"].pop(),
        "number of function response parts is equal",
    ),
    (
        "a response without a call",
        lambda b: b["contents"].pop(1),
        "immediately after a function call turn",
    ),
    (
        "another id",
        lambda b: b["contents"][2]["parts"][0]["functionResponse"].update(id="x"),
        "does not match",
    ),
    (
        "another name",
        lambda b: b["contents"][2]["parts"][0]["functionResponse"].update(name="x"),
        "does not match",
    ),
    (
        "a response that is a text",
        lambda b: b["contents"][2]["parts"][0]["functionResponse"].update(response="x"),
        "Invalid value",
    ),
    (
        "an unknown key in a response",
        lambda b: b["contents"][2]["parts"][0]["functionResponse"].update(content="x"),
        "Unknown name \"content\" at 'contents[2].parts[0].function_response'",
    ),
    (
        "an altered signature",
        lambda b: b["contents"][1]["parts"][1].update(thoughtSignature="eA=="),
        "Thought signature is not valid",
    ),
    (
        "an altered call",
        lambda b: b["contents"][1]["parts"][1]["functionCall"]["args"].update(command="rm"),
        "Thought signature is not valid",
    ),
    (
        "no signature in the current turn",
        lambda b: b["contents"][1]["parts"][1].pop("thoughtSignature"),
        "missing a thought_signature",
    ),
]


@pytest.mark.parametrize(
    ("change", "problem"), [row[1:] for row in REFUSED], ids=[row[0] for row in REFUSED]
)
def test_what_the_real_provider_refuses(provider: Provider, change: Change, problem: str) -> None:
    body = play(provider, 1)
    change(body)
    refused = post(provider, body, f"{MODELS}:generateContent")
    assert 400 == refused.status_code
    error = refused.json()["error"]
    assert (400, "INVALID_ARGUMENT") == (error["code"], error["status"])
    assert problem in error["message"]
    assert [error["message"]] == provider.refusals


ACCEPTED: list[tuple[str, Change]] = [
    ("calls and responses without ids", lambda b: pop_ids(b["contents"])),
    ("a response in a content of its own", lambda b: split(b["contents"], 2)),
    ("each part of an answer in a content of its own", lambda b: split(b["contents"], 1)),
    ("a role of old", lambda b: b["contents"][2].update(role="function")),
    ("no role", lambda b: b["contents"][0].pop("role")),
    ("a signature as it is in URLs", lambda b: spell_for_urls(b["contents"][1]["parts"][1])),
    (
        "no signature before what the user says",
        lambda b: (
            b["contents"][1]["parts"][1].pop("thoughtSignature"),
            b["contents"][2]["parts"].append({"text": "Go on."}),
        ),
    ),
]


def pop_ids(contents: list[dict[str, Any]]) -> None:
    for part in (part for content in contents for part in content["parts"]):
        for key in ("functionCall", "functionResponse"):
            part.get(key, {}).pop("id", None)


def split(contents: list[dict[str, Any]], at: int) -> None:
    content = contents.pop(at)
    contents[at:at] = [{**content, "parts": [part]} for part in content["parts"]]


def spell_for_urls(part: dict[str, Any]) -> None:
    part["thoughtSignature"] = part["thoughtSignature"].replace("+", "-").replace("/", "_")


@pytest.mark.parametrize("change", [row[1] for row in ACCEPTED], ids=[row[0] for row in ACCEPTED])
def test_what_the_real_provider_takes(provider: Provider, change: Change) -> None:
    body = play(provider, 1)
    change(body)
    answer = ask(provider, body)
    assert [] == provider.refusals
    assert "One more look." == answer["candidates"][0]["content"]["parts"][0]["text"]


def test_older_models_need_no_signature(provider: Provider) -> None:
    body = play(provider, 1)
    del body["contents"][1]["parts"][1]["thoughtSignature"]
    path = "/v1/projects/p/locations/l/publishers/google/models/gemini-2.5-pro:generateContent"
    assert 200 == post(provider, body, path).status_code


@pytest.mark.parametrize(("status", "kind"), [(429, "RESOURCE_EXHAUSTED"), (418, "INTERNAL")])
def test_an_error_is_in_googles_shape(status: int, kind: str) -> None:
    with Provider(ScriptedReplies((Reply(status=status),))) as provider:
        found = ask(provider, {"contents": [TASK], "tools": TOOLS})["error"]
    assert (status, kind) == (found["code"], found["status"])
