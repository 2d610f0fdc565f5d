"""What a request says: its client, who pays for it, whether it is signed, whether it is large."""

import pytest
from mitmproxy import http
from mitmproxy.test import tutils

from addon.proxy.flows import ReadRequest
from addon.request import (
    client_of,
    find_wire_format,
    is_bulk_download,
    is_bulk_upload,
    is_event_stream,
    is_signed,
    is_subscription,
    one_line,
    path_of,
)
from tests.support.marks import as_one_test


def request(place: str = "api.example", **headers: str) -> http.Request:
    host, _, path = place.partition("/")
    request = tutils.treq(
        method=b"POST", host=host, authority=host.encode(), path=f"/{path}".encode()
    )
    request.headers.clear()
    request.headers.update({name.replace("_", "-"): value for name, value in headers.items()})
    return request


@as_one_test
@pytest.mark.parametrize(
    ("user_agent", "expected"),
    [
        ("claude-cli/2.1.330 (external, cli)", "claude-cli"),
        ("codex_exec/0.169.0 (Debian 12; x86_64) dumb", "codex_exec"),
        ("OpenAI/Python 2.54.0", "OpenAI/Python"),
        ("OpenAI/JS 6.1.0", "OpenAI/JS"),
        ("GeminiCLI-tui/0.61.0/gemini-3-flash google-api-nodejs-client/10.9.0", "GeminiCLI-tui"),
        ("google-genai-sdk/3.4.0+afc+chat gl-python/3.11.7", "google-genai-sdk"),
        ("ai-sdk/openai/2.0.1 runtime/bun/1.3.14", "ai-sdk/openai"),
        ("opencode/v1.18.33", "opencode"),
        ("QwenCode/0.15.10", "QwenCode"),
        ("pi", "pi"),
        ("tool(linux)", "tool"),
        ("a" * 65 + "/1.0", "a" * 64),
        ("a\x1b[31m/1.0", "a\ufffd[31m"),
        ("", None),
        (" ", None),
        ("(no product)", None),
    ],
)
def test_a_client_is_named_without_its_version(user_agent: str, expected: str | None) -> None:
    assert expected == client_of(request(user_agent=user_agent))


def test_a_client_that_leaves_its_user_agent_to_a_library_is_named_by_its_title() -> None:
    told = {"user_agent": "litellm/1.105.7", "HTTP_Referer": "https://docs.all-hands.dev/"}
    assert "openhands" == client_of(request(**told, X_Title="OpenHands"))
    assert "litellm" == client_of(request(**told, X_Title="Something else"))


def test_a_client_that_does_not_say_has_no_name() -> None:
    assert client_of(request()) is None


def test_a_user_agent_of_any_length_is_read_at_once() -> None:
    assert "x" * 64 == client_of(request(user_agent="x" * 1_000_000))
    assert "/" * 64 == client_of(request(user_agent="/" * 1_000_000))


@as_one_test
@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        pytest.param(request(), False, id="no credential"),
        pytest.param(request(x_api_key="sk-ant-api03-x"), False, id="an API key of Anthropic"),
        pytest.param(request(authorization="Bearer sk-proj-x"), False, id="one of OpenAI"),
        pytest.param(request(authorization="Bearer sk-ant-oat01-x"), True, id="Claude's login"),
        pytest.param(request(authorization="bearer  sk-ant-oat01-x"), True, id="spelled otherwise"),
        pytest.param(request(chatgpt_account_id="x"), True, id="an account of ChatGPT"),
        pytest.param(request(chatgpt_account_id=""), False, id="an empty one"),
        pytest.param(request("chatgpt.com"), True, id="ChatGPT's host"),
        pytest.param(request("ChatGPT.com."), True, id="the same host, spelled otherwise"),
        pytest.param(request("notchatgpt.com"), False, id="a host that ends alike"),
        pytest.param(request("cloudcode-pa.googleapis.com"), True, id="Gemini Code Assist"),
        pytest.param(request("api.individual.githubcopilot.com"), True, id="GitHub Copilot"),
        pytest.param(request("portal.qwen.ai/v1/chat/completions"), True, id="Qwen's login"),
        pytest.param(request("api.kimi.com/coding/v1/messages"), True, id="a plan for coding"),
        pytest.param(request("api.z.ai/api/coding/paas/v4/chat/completions"), True, id="another"),
        pytest.param(request("api.z.ai/api/paas/v4/chat/completions"), False, id="its host's API"),
        pytest.param(request("generativelanguage.googleapis.com"), False, id="Google's API"),
    ],
)
def test_a_subscription_is_known_by_its_credential_or_its_host(
    asked: http.Request, expected: bool
) -> None:
    assert is_subscription(asked) is expected


SIGNED = [
    pytest.param(header, id=f"{next(iter(header))}: {next(iter(header.values()))[:20]}")
    for header in (
        {"authorization": "AWS4-HMAC-SHA256 Credential=x, SignedHeaders=host, Signature=y"},
        {"authorization": "aws4-ecdsa-p256-sha256 Credential=x"},
        {"authorization": "AWS AKIDEXAMPLE:frJIUN8DYpKDtOLCwo//yllqDzg="},
        {"authorization": 'Signature version="1",headers="date host x-content-sha256",keyId="x"'},
        {"authorization": "TC3-HMAC-SHA256 Credential=x/2026-11-27/hunyuan/tc3_request"},
        {"authorization": "SDK-HMAC-SHA256 Access=x, SignedHeaders=host, Signature=y"},
        {"authorization": "ACS3-HMAC-SHA256 Credential=x,SignedHeaders=host,Signature=y"},
        {"authorization": "HMAC-SHA256 SignedHeaders=host;x-ms-content-sha256&Signature=y"},
        {"authorization": "HMAC-SHA256 y"},
        {"authorization": "SharedKey account:y="},
        {"authorization": "bce-auth-v1/ak/2026-11-27T00:00:00Z/1800/host/y"},
        {"authorization": 'hmac username="x", algorithm="hmac-sha256", signature="y"'},
        {"authorization": 'Hawk id="x", hash="y", mac="z"'},
        {"authorization": 'OAuth oauth_body_hash="x"'},
        {"authorization": 'Digest username="x", qop=auth-int, response="y"'},
        {"x-authorization": "EG1-HMAC-SHA256 client_token=x;signature=y"},
        {"Content-MD5": "x"},
        {"Digest": "x"},
        {"Content-Digest": "x"},
        {"Repr-Digest": "x"},
        {"Signature": "x"},
        {"Signature-Input": "x"},
        {"x-content-sha256": "x"},
        {"x-ms-content-sha256": "x"},
        {"x-amz-content-sha256": "UNSIGNED-PAYLOAD"},
        {"x-amz-checksum-crc32": "x"},
        {"x-amz-checksum-sha256": "x"},
        {"x-goog-hash": "crc32c=x"},
        {"X-Hub-Signature-256": "x"},
        {"x-bodysha1": "x"},
        {"x-sign": "x"},
        {"trailer": "Expires, x-amz-checksum-crc32"},
    )
]


@as_one_test
@pytest.mark.parametrize("headers", SIGNED)
def test_what_may_sign_a_body_is_known_by_what_it_is_called(headers: dict[str, str]) -> None:
    asked = request("api.example/v1/chat/completions")
    assert not is_signed(asked)
    asked.headers.update(headers)
    assert is_signed(asked)


@as_one_test
@pytest.mark.parametrize(
    "headers",
    [
        {"authorization": ""},
        {"authorization": "Bearer"},
        {"authorization": "Bearer AWS4-"},
        {"authorization": "Bearer id:secret, with=all"},
        {"authorization": "Basic eDp5"},
        {"authorization": "sk-proj-x_y"},
        {"authorization": "ak/with/four/slashes+in/it=="},
        {"authorization": "Key 5f0c:9a1b"},
        {"authorization": "Token token=x"},
        {"authorization": "Negotiate YII="},
        {"proxy-authorization": 'Digest username="x", response="y"'},
        {"want-content-digest": "sha-256=1"},
        {"accept-signature": "x"},
        {"trailer": "Expires"},
        {"x-signal": "x"},
        {"x-design-hashed": "x"},
        {"x-stainless-package-version": "1", "anthropic-beta": "x", "x-api-key": "sha256"},
    ],
)
def test_what_is_no_signature_of_a_body(headers: dict[str, str]) -> None:
    assert not is_signed(request(**headers))


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("?x-amz-signature=x", True),
        ("?X-Goog-Signature=", True),
        ("?signature=x", True),
        ("?api-version=2026&key=signature", False),
    ],
)
def test_a_signature_in_the_query_is_known(query: str, expected: bool) -> None:
    asked = request(f"api.example/v1/chat/completions{query}")
    assert is_signed(asked) is expected
    assert find_wire_format(asked)
    assert path_of(asked) == "/v1/chat/completions"


@pytest.mark.parametrize(
    ("name", "expected"), [("x-amz-checksum-crc32", True), ("grpc-status", False)]
)
def test_a_trailer_may_have_a_digest_though_none_was_declared(name: str, expected: bool) -> None:
    asked = request()
    asked.trailers = http.Headers(((name.encode(), b"x"),))
    assert is_signed(asked) is expected
    assert is_signed(ReadRequest(asked)) is expected


@as_one_test
@pytest.mark.parametrize(
    ("content_type", "expected"),
    [
        ("text/event-stream", True),
        ("Text/Event-Stream; charset=utf-8", True),
        ("text/event-stream;charset=utf-8", True),
        ("text/event-streams", False),
        ("application/json", False),
        ("", False),
    ],
)
def test_an_event_stream_is_known_by_its_type(content_type: str, expected: bool) -> None:
    headers = http.Headers(content_type=content_type)
    assert is_event_stream(tutils.tresp(headers=headers)) is expected


@as_one_test
@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({"content-length": "1000001"}, True),
        ({"content-length": "1000000"}, False),
        ({"content-length": "1000", "content-type": "video/mp4"}, False),
        ({"content-length": "9" * 5_000}, True),
        ({"content-length": "-1", "content-type": "text/html"}, True),
        ({"content-type": "application/x-ndjson"}, True),
        ({}, True),
    ],
)
def test_a_response_is_bulk_when_it_is_large_or_of_no_known_size(
    headers: dict[str, str], expected: bool
) -> None:
    fields = http.Headers([(k.encode(), v.encode()) for k, v in headers.items()])
    assert is_bulk_download(tutils.tresp(headers=fields)) is expected


@pytest.mark.parametrize(
    ("headers", "expected"),
    [({}, False), ({"transfer-encoding": "chunked"}, True), ({"content-length": "10"}, False)],
)
def test_a_request_is_bulk_only_when_it_has_a_body(headers: dict[str, str], expected: bool) -> None:
    fields = http.Headers([(k.encode(), v.encode()) for k, v in headers.items()])
    assert is_bulk_upload(tutils.treq(headers=fields)) is expected


def test_names_from_the_wire_are_short_and_stay_on_one_line() -> None:
    names = ["h\n{}", "/\x1b[31m", "m" * 1_000, "a\ud800"]
    assert ["h\ufffd{}", "/\ufffd[31m", "m" * 200, "a\ufffd"] == list(map(one_line, names))
