import gzip
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from mitmproxy import flow, http
from mitmproxy.net import encoding
from mitmproxy.test import tflow

from addon.recordings.flows import read_flows, write_flows
from addon.recordings.scrub import (
    EPOCH,
    OwnRecording,
    fill,
    is_conversation,
    scrub,
    scrub_recording,
)
from masking.edit.json_text import edit_strings, find_strings
from tests.support.builders import SECRET, Spelling, documents, spellings
from tests.support.marks import as_one_test
from tests.support.sessions import CHATS

KEY = "sk-" + "a1B2" * 8
REQUEST: dict[str, Any] = {
    "model": "gpt-4o",
    "user": "jane",
    "messages": [
        {"role": "system", "content": "You are Jane's agent."},
        {"role": "user", "content": [{"type": "text", "text": "Call Jane."}], "name": "jane"},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [
                {
                    "id": "call_0",
                    "type": "function",
                    "function": {"name": "dial", "arguments": '{"name": "jane", "times": 2}'},
                },
            ],
        },
        {"role": "tool", "tool_call_id": "call_0", "content": "Jane\nis out", "name": "dial"},
    ],
    "tools": [
        {
            "type": "function",
            "function": {
                "name": "dial",
                "description": "Calls Jane.",
                "parameters": {
                    "type": "object",
                    "properties": {"name": {"type": "string", "enum": ["jane", "joe"]}},
                    "required": ["name"],
                },
            },
        }
    ],
    "temperature": 0.5,
}
ARGUMENTS = ("messages", 2, "tool_calls", 0, "function", "arguments")
CHANGED = {
    ("user",): "thes",
    ("messages", 0, "content"): "these words stand whe",
    ("messages", 1, "content", 0, "text"): "these word",
    ("messages", 1, "name"): "thes",
    ARGUMENTS: '{"name": "thes", "times": 2}',
    ("messages", 3, "content"): "thes\n words",
    ("tools", 0, "function", "description"): "these words",
    ("tools", 0, "function", "parameters", "properties", "name", "enum", 0): "thes",
    ("tools", 0, "function", "parameters", "properties", "name", "enum", 1): "the",
}
STREAM = """\
event: message_start
data: {"type": "start", "delta": {"content": "Jane is"}}

: ping for Jane
event: of Jane's own
data: Jane
data: [DONE]

"""


def recorded(body: object = REQUEST, **headers: str) -> http.HTTPFlow:
    made = tflow.tflow(resp=True, err=False)
    assert made.response
    url = "https://api.openai.com/v1/chat/completions?key=jane"
    fields = [(name.encode(), value.encode()) for name, value in headers.items()]
    made.request = http.Request.make("POST", url, headers=fields)
    made.request.raw_content = as_bytes(body)
    made.response.content = b'{"id": "chatcmpl-1", "choices": [{"message": {"content": "Jane"}}]}'
    return made


def as_bytes(body: object) -> bytes:
    return body if isinstance(body, bytes) else json.dumps(body).encode()


def as_text(content: bytes | None) -> str:
    assert content is not None
    return content.decode()


def strings(text: str) -> dict[tuple[str | int, ...], str]:
    return {span.path: span.value for span in find_strings(text)}


def skeleton(text: str) -> str:
    """The text without its string values."""
    pieces, done = [], 0
    for span in find_strings(text):
        pieces.append(text[done : span.start])
        done = span.end
    return '""'.join((*pieces, text[done:]))


def scrubbed_body(body: object, own: OwnRecording | None = None) -> str:
    return as_text(scrub(recorded(body), 0, own).request.content)


def scrubbed_answer(body: str) -> str:
    made = recorded()
    assert made.response
    made.response.text = body
    response = scrub(made).response
    assert response
    return as_text(response.content)


def write(folder: Path, *flows: http.HTTPFlow) -> Path:
    path = folder / "in.flow"
    write_flows(path, flows)
    return path


def test_of_a_foreign_recording_only_the_structure_stays() -> None:
    before = strings(json.dumps(REQUEST))
    after = strings(scrubbed_body(REQUEST))
    assert {path: text for path, text in after.items() if text != before[path]} == CHANGED
    assert "ane" not in scrubbed_body(REQUEST)


@given(documents(), spellings)
def test_every_byte_outside_the_strings_is_the_clients(
    document: dict[str, object], spelling: Spelling
) -> None:
    text = spelling.spell(document)
    scrubbed = scrubbed_body(text.encode())
    assert skeleton(scrubbed) == skeleton(text)
    before, after = strings(text), strings(scrubbed)
    assert {path: len(value) for path, value in after.items()} == {
        path: len(value) for path, value in before.items()
    }
    assert scrubbed_body(scrubbed.encode()) == scrubbed


@given(documents(), spellings)
def test_strings_that_stay_keep_their_spelling(
    document: dict[str, object], spelling: Spelling
) -> None:
    text = spelling.spell(document)
    assert edit_strings(text, lambda _, value: value) == text


@as_one_test
@pytest.mark.parametrize(
    "body",
    [
        pytest.param('{"content": "s3cr3t", "content": "x", "messages": []}', id="duplicate key"),
        pytest.param('{"messages": [{"role": "a s3cr3t"}]}', id="a role that is prose"),
        pytest.param('{"messages": [{"role": ["a s3cr3t"]}]}', id="a role that is a list"),
        pytest.param('{"messages": [], "metadata": {"id": "s3cr3t"}}', id="the user's own keys"),
        pytest.param('{"messages": "s3cr3t"}', id="messages that are a string"),
        pytest.param('{"messages": [["s3cr3t"]]}', id="a message that is a list"),
        pytest.param('{"input": [{"arguments": "{\\"id\\": \\"s3cr3t\\"}"}]}', id="Responses call"),
        pytest.param('{"input": [{"arguments": "{s3cr3t"}]}', id="arguments that are no JSON"),
        pytest.param('{"input": "s3cr3t"}', id="Responses input"),
        pytest.param('{"messages": [{"input": {"name": "s3cr3t"}}]}', id="Messages call"),
        pytest.param('{"contents": [{"args": {"name": "s3cr3t"}}]}', id="Gemini call"),
        pytest.param('{"contents": [{"response": {"id": "s3cr3t"}}]}', id="Gemini result"),
        pytest.param("{'messages': 's3cr3t'}", id="no JSON"),
        pytest.param('\ufeff{"messages": "s3cr3t"}', id="a byte-order mark"),
        pytest.param(f'{{"model": "{"s3cr3t" * 40}"}}', id="an identifier too long to be one"),
        pytest.param("[" * 100_000 + '"s3cr3t"' + "]" * 100_000, id="nested too deeply"),
    ],
)
def test_content_is_found_wherever_it_stands(body: str) -> None:
    scrubbed = scrubbed_body(body.encode())
    assert (SECRET in scrubbed, len(scrubbed)) == (False, len(body))


def test_arguments_stay_json() -> None:
    arguments = strings(scrubbed_body(REQUEST))[ARGUMENTS]
    assert json.loads(arguments) == {"name": "thes", "times": 2}


def test_an_answer_keeps_its_structure() -> None:
    body = '{"id": "chatcmpl-1", "choices": [{"message": {"content": "Jane"}}], "usage": {"n": 1}}'
    assert scrubbed_answer(body) == body.replace("Jane", "thes")


def test_an_event_stream_keeps_its_structure() -> None:
    assert scrubbed_answer(STREAM).splitlines() == [
        "event: message_start",
        'data: {"type": "start", "delta": {"content": "these w"}}',
        "",
        fill(": ping for Jane"),
        fill("event: of Jane's own"),
        "data:" + fill(" Jane"),
        "data: [DONE]",
        "",
    ]


def test_request_line_and_headers_are_reduced() -> None:
    made = recorded(
        **{
            "Host": "api.openai.com",
            "Authorization": f"Bearer {KEY}",
            "Cookie": "session=jane",
            "OpenAI-Organization": "org-jane",
            "X-Stainless-OS": "Linux",
            "User-Agent": "Agent/1.0 (linux; jane's) Lib/2",
            "Content-Type": "application/json",
        }
    )
    request = scrub(made).request
    assert request.url == "https://api.openai.com/v1/chat/completions"
    assert dict(request.headers) == {
        "Host": "api.openai.com",
        "User-Agent": "Agent/1.0 Lib/2",
        "Content-Type": "application/json",
        "content-length": str(len(as_bytes(REQUEST))),
    }


def test_response_headers_are_reduced() -> None:
    made = recorded()
    assert made.response
    made.response.headers["set-cookie"] = "a=b"
    made.response.headers["openai-organization"] = "jane"
    response = scrub(made).response
    assert response
    assert set(response.headers) == {"content-length"}


def test_nothing_of_the_connection_or_the_time_stays() -> None:
    made = recorded()
    made.comment, made.metadata["who"] = "jane", "jane"
    made.client_conn.peername = ("10.1.2.3", 4)
    made.client_conn.sni = made.server_conn.sni = "jane"
    made.server_conn.peername = ("10.1.2.4", 4)
    made.error = flow.Error("jane hung up")
    clean = scrub(made, 3)
    state = repr(clean.get_state())
    assert ("jane" in state, "10.1.2" in state) == (False, False)
    assert clean.client_conn.peername[0] == "127.0.0.1"
    assert (clean.request.timestamp_start, clean.live) == (EPOCH + 3, False)
    assert clean.error


def test_the_same_place_gives_the_same_flow() -> None:
    assert scrub(recorded(), 3).get_state() == scrub(recorded(), 3).get_state()
    assert scrub(recorded(), 3).id != scrub(recorded(), 4).id


@pytest.mark.parametrize("name", ["gzip", "deflate", "br", "zstd"])
def test_a_compressed_body_stays_compressed(name: str) -> None:
    body = encoding.encode(as_bytes(REQUEST), name)
    assert isinstance(body, bytes)
    request = scrub(recorded(body, **{"content-encoding": name})).request
    assert request.headers["content-encoding"] == name
    assert request.headers["content-length"] == str(len(request.raw_content or b""))
    assert as_text(request.content) == scrubbed_body(REQUEST)


@pytest.mark.parametrize(
    ("body", "name"),
    [
        pytest.param(b"s3cr3t", "gzip", id="not compressed"),
        pytest.param(gzip.compress(b"s3cr3t"), "snappy", id="unknown encoding"),
        pytest.param(b"s3cr3t\xff", "identity", id="no text"),
    ],
)
def test_a_body_that_cannot_be_read_becomes_filler(body: bytes, name: str) -> None:
    request = scrub(recorded(body, **{"content-encoding": name})).request
    assert request.content == fill(body.decode("latin-1")).encode()


def test_a_response_without_a_body_stays_without() -> None:
    made = recorded()
    assert made.response
    made.response.raw_content = None
    response = scrub(made).response
    assert response
    assert response.raw_content is None


OWN = OwnRecording(
    texts=frozenset({"Call Jane."}),
    spellings=((re.compile(r"/tmp/run1\b"), "/project"), (re.compile(r"PID \d+"), "PID 1")),
)


def test_of_our_own_recording_task_results_and_calls_stay() -> None:
    request: Any = json.loads(json.dumps(REQUEST))
    request["messages"][1]["content"][0]["text"] = "Hello! Call Jane. Bye."
    request["messages"][3]["content"] = "Jane is in /tmp/run1/a, PID 77"
    after = json.loads(scrubbed_body(request, OWN))["messages"]
    assert [each["content"] for each in after] == [
        "these words stand whe",
        [{"type": "text", "text": "these wCall Jane.these"}],
        None,
        "Jane is in /project/a, PID 1",
    ]
    assert after[2] == REQUEST["messages"][2]


@pytest.mark.parametrize(
    "wrap", [lambda body: body, lambda body: {"request": body}], ids=["Gemini", "Code Assist"]
)
def test_of_our_own_recording_of_gemini_results_and_calls_stay(
    wrap: Callable[[object], object],
) -> None:
    call = {"id": "a", "name": "read", "args": {"path": "/tmp/run1/a"}}
    answer = {"id": "a", "name": "read", "response": {"name": "read", "output": "PID 77"}}
    body = {
        "systemInstruction": {"role": "user", "parts": [{"text": "Secret."}]},
        "contents": [
            {"role": "user", "parts": [{"text": "Call Jane."}]},
            {"role": "model", "parts": [{"functionCall": call, "thoughtSignature": "c2lnbg=="}]},
            {"role": "user", "parts": [{"functionResponse": answer}]},
        ],
        "session_id": "0b1c",
    }
    expected = {
        "systemInstruction": {"role": "user", "parts": [{"text": "these w"}]},
        "contents": [
            {"role": "user", "parts": [{"text": "Call Jane."}]},
            {
                "role": "model",
                "parts": [
                    {
                        "functionCall": {**call, "args": {"path": "/project/a"}},
                        "thoughtSignature": "these wo",
                    }
                ],
            },
            {
                "role": "user",
                "parts": [
                    {
                        "functionResponse": {
                            **answer,
                            "response": {"name": "read", "output": "PID 1"},
                        }
                    }
                ],
            },
        ],
        "session_id": "thes",
    }
    assert wrap(expected) == json.loads(scrubbed_body(wrap(body), OWN))


@as_one_test
@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ({"contents": []}, True),
        ({"model": "m", "request": {"contents": []}}, True),
        ({"model": "m", "messages": []}, True),
        ({"request": {}}, False),
        ({"request": "contents"}, False),
        ({"cloudaicompanionProject": "p"}, False),
    ],
)
def test_what_is_a_conversation(body: object, expected: bool) -> None:
    assert expected is is_conversation(recorded(body).request)


def test_of_our_own_recording_answers_stay() -> None:
    made = recorded()
    assert made.response
    made.response.text = "Jane is in /tmp/run1"
    response = scrub(made, 0, OWN).response
    assert response
    assert response.content == b"Jane is in /project"


def with_result(text: str) -> http.HTTPFlow:
    return recorded({"messages": [{"role": "tool", "content": text}]})


@pytest.mark.parametrize(
    ("secret", "what"),
    [
        (KEY, "an API key"),
        (f"Authorization: bearer {'x' * 20}", "a bearer token"),
        ("AKIA" + "Q" * 16, "an AWS key"),
        ("ghp_" + "x" * 36, "a GitHub token"),
        ("AIza" + "x" * 35, "a Google key"),
        ("xoxb-" + "1" * 12, "a Slack token"),
        ("eyJ" + "x" * 20 + "." + "y" * 20 + ".z", "a signed token"),
        ("-----BEGIN " + "PRIVATE KEY-----", "a key or certificate"),
        ("/home/jane/.ssh/known", "the home folder"),
        ("mail for jane-doe-7", "the user's name"),
    ],
)
def test_a_secret_that_is_left_is_refused(
    secret: str, what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", "/home/jane")
    monkeypatch.setenv("LOGNAME", "jane-doe-7")
    source = write(tmp_path, with_result("nothing"), with_result(f"see: {secret}"))
    with pytest.raises(ValueError, match="is still in request 1") as caught:
        scrub_recording(source, tmp_path / "out.flow", OwnRecording())
    place = "the request's body, at messages.0.content"
    assert str(caught.value) == f"{what} is still in request 1, {place}"
    assert [each.name for each in tmp_path.iterdir()] == ["in.flow"]
    assert scrub_recording(source, tmp_path / "out.flow") == 2


@pytest.mark.parametrize("key", ["model", "id"])
def test_a_secret_in_the_structure_is_refused(key: str, tmp_path: Path) -> None:
    source = write(tmp_path, recorded({"messages": [], key: KEY}))
    with pytest.raises(ValueError, match=f"an API key is still in request 0.* at {key}"):
        scrub_recording(source, tmp_path / "out.flow")


def test_a_secret_in_a_key_is_refused(tmp_path: Path) -> None:
    source = write(tmp_path, recorded({"messages": [], KEY: 1}))
    with pytest.raises(ValueError, match=r"an API key is still in request 0.* position 18"):
        scrub_recording(source, tmp_path / "out.flow")


def test_a_secret_in_the_path_is_refused(tmp_path: Path) -> None:
    made = recorded()
    made.request.path = f"/{KEY}/chat/completions"
    with pytest.raises(ValueError, match="an API key is still in request 0, its URL"):
        scrub_recording(write(tmp_path, made), tmp_path / "out.flow")


@pytest.mark.parametrize(
    ("name", "stays"),
    [
        pytest.param("jane@mail.example.com", False, id="an e-mail address"),
        pytest.param("call_of-jane@example.com", False, id="one in an id"),
        pytest.param("claude-opus-5@20260101", True, id="the version of a model"),
        pytest.param("@scope/package.js", True, id="a package"),
    ],
)
def test_an_address_is_no_id(name: str, stays: bool) -> None:
    body = scrubbed_body({"messages": [{"role": "tool", "tool_call_id": name}], "model": name})
    kept = json.loads(body)
    assert [stays] * 2 == [name == kept["model"], name == kept["messages"][0]["tool_call_id"]]


def test_a_link_that_lies_in_the_way_is_not_followed(tmp_path: Path) -> None:
    source, other = write(tmp_path, recorded()), tmp_path / "other"
    other.write_text("of somebody")
    for name in ("out.flow", "part-out.flow", "out.flow.part"):
        (tmp_path / name).symlink_to(other)
    scrub_recording(source, tmp_path / "out.flow")
    assert "of somebody" == other.read_text()
    assert not (tmp_path / "out.flow").is_symlink()


def test_everyday_words_are_no_ones_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOGNAME", "root")
    monkeypatch.setenv("HOME", "/")
    source = write(tmp_path, with_result("the root of / is the root"))
    assert scrub_recording(source, tmp_path / "out.flow", OwnRecording()) == 1


def test_what_is_no_request_to_a_model_is_left_out(tmp_path: Path) -> None:
    page, list_, prose, other = recorded(), recorded([]), recorded(b"Jane"), recorded({"a": 1})
    page.request.method = "GET"
    source = write(tmp_path, page, recorded(), list_, prose, other)
    assert scrub_recording(source, tmp_path / "out.flow") == 1
    (kept,) = read_flows(tmp_path / "out.flow")
    assert as_text(kept.request.content) == scrubbed_body(REQUEST)


def asked(url: str = "http://mcp.example/jane") -> http.HTTPFlow:
    """Return a request to an MCP server, and its answer."""
    made = recorded({"jsonrpc": "2.0", "id": 1, "method": "prompts/get", "params": {"name": "Jo"}})
    made.request.url = url
    return made


@pytest.mark.parametrize("own", [None, OwnRecording(), OwnRecording(server="mcp.example")])
def test_what_is_asked_of_an_mcp_server_stays_only_of_our_own(
    own: OwnRecording | None, tmp_path: Path
) -> None:
    stream, other = asked(), asked()
    stream.request.method, other.request.raw_content = "GET", b"{}"
    source = write(tmp_path, asked("http://mcp.example.com/jane"), asked(), stream, other)
    kept = 1 if own and own.server else 0
    assert scrub_recording(source, tmp_path / "out.flow", own) == kept
    for clean in read_flows(tmp_path / "out.flow"):
        assert clean.request.url == "http://mcp.example/jane"
        assert clean.request.content == asked().request.content
        assert clean.response
        assert b"Jane" in (clean.response.content or b"")


def test_a_broken_recording_leaves_the_older_file_alone(tmp_path: Path) -> None:
    source, out = write(tmp_path, recorded()), tmp_path / "out.flow"
    source.write_bytes(source.read_bytes()[:-9])
    out.write_bytes(b"older")
    with pytest.raises(ValueError, match=r"in\.flow is no complete"):
        scrub_recording(source, out)
    assert out.read_bytes() == b"older"
    assert len(list(tmp_path.iterdir())) == 2


def test_an_exchange_without_an_answer_stays_without() -> None:
    made = recorded()
    made.response, made.error = None, flow.Error("jane hung up")
    clean = scrub(made)
    assert (clean.response, bool(clean.error)) == (None, True)


def test_a_lone_surrogate_stays_an_escape() -> None:
    text = '{"a": "é\\ud83d", "b": "é"}'
    edited = edit_strings(text, lambda _, value: value + "!")
    assert edited == '{"a": "\\u00e9\\ud83d!", "b": "é!"}'
    assert edit_strings(edited, lambda _, value: value) == edited


@pytest.mark.thorough
@pytest.mark.parametrize("path", CHATS, ids=lambda path: path.stem)
def test_a_real_recording_scrubbed_as_a_foreign_one(path: Path, tmp_path: Path) -> None:
    before = list(read_flows(path))
    assert scrub_recording(path, tmp_path / "out.flow") == len(before)
    text = (tmp_path / "out.flow").read_text()
    assert not [word for word in ("hinge", "Traceback", "tally", "refund") if word in text]
    for old, new in zip(before, read_flows(tmp_path / "out.flow"), strict=True):
        assert skeleton(as_text(new.request.content)) == skeleton(as_text(old.request.content))
        assert structure(new) == structure(old)


def structure(made: http.HTTPFlow) -> list[object]:
    body = json.loads(as_text(made.request.content))
    return [body["model"], [tool[tool["type"]]["name"] for tool in body.get("tools", ())]] + [
        (
            each["role"],
            each.get("tool_call_id"),
            [(call["id"], call["function"]["name"]) for call in each.get("tool_calls") or ()],
        )
        for each in body["messages"]
    ]
