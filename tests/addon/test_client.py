"""Which client a request comes from, and whether a subscription pays for it."""

import pytest
from mitmproxy import http
from mitmproxy.test import tutils

from addon.shared.client import find_client, is_subscription


def request(place: str = "api.example", **headers: str) -> http.Request:
    host, _, path = place.partition("/")
    request = tutils.treq(
        method=b"POST", host=host, authority=host.encode(), path=f"/{path}".encode()
    )
    request.headers.clear()
    request.headers.update({name.replace("_", "-"): value for name, value in headers.items()})
    return request


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
    assert expected == find_client(request(user_agent=user_agent))


def test_a_client_that_does_not_say_has_no_name() -> None:
    assert find_client(request()) is None


def test_a_user_agent_of_any_length_is_read_at_once() -> None:
    assert "x" * 64 == find_client(request(user_agent="x" * 1_000_000))
    assert "/" * 64 == find_client(request(user_agent="/" * 1_000_000))


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
