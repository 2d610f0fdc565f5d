"""Clients of a local model server are led to our port: by the variables that they read."""

import pytest

from addon.proxy.base_urls import Server, point_at, read_server

OURS = "http://127.0.0.1:9000"


@pytest.mark.parametrize(
    ("url", "server", "origin"),
    [
        (
            "http://localhost:11434",
            Server("http", "localhost", 11434),
            "http://localhost:11434",
        ),
        (
            "https://llm.example.com/v1/",
            Server("https", "llm.example.com", 443, "/v1"),
            "https://llm.example.com:443",
        ),
        ("http://[::1]:8000", Server("http", "::1", 8000), "http://[::1]:8000"),
    ],
)
def test_a_base_url_is_read(url: str, server: Server, origin: str) -> None:
    assert (server, origin) == (read_server(url), server.origin)


@pytest.mark.parametrize(
    "url", ["", "localhost:11434", "ftp://a:1", "http://:1", "http://a:x", "http://a:1?b=c"]
)
def test_what_is_no_base_url_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match=r"^expected the base URL of a server"):
        read_server(url)


SERVER = read_server("http://localhost:8000/v1")
ALL = {
    "OPENAI_BASE_URL": f"{OURS}/v1",
    "OPENAI_API_BASE": f"{OURS}/v1",
    "ANTHROPIC_BASE_URL": OURS,
    "GOOGLE_GEMINI_BASE_URL": OURS,
    "OLLAMA_HOST": OURS,
    "OLLAMA_API_BASE": OURS,
}


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({}, ALL),
        (
            {"ANTHROPIC_BASE_URL": "https://api.anthropic.com"},
            {name: url for name, url in ALL.items() if name != "ANTHROPIC_BASE_URL"},
        ),
        (
            {"OPENAI_API_BASE": "http://127.0.0.1:8000/api", "ANTHROPIC_BASE_URL": "https://a.b"},
            {"OPENAI_API_BASE": f"{OURS}/api"},
        ),
        ({"OLLAMA_HOST": "0.0.0.0:8000"}, {"OLLAMA_HOST": OURS}),
        (
            {"OPENAI_BASE_URL": "http://localhost:8001/v1"},
            {name: url for name, url in ALL.items() if name != "OPENAI_BASE_URL"},
        ),
    ],
    ids=[
        "no variable is set: all are",
        "one that leads elsewhere stays, and the others are set",
        "one that leads there keeps its path, and the others stay",
        "a variable without a scheme",
        "another port is another server",
    ],
)
def test_variables_lead_to_our_port(environment: dict[str, str], expected: dict[str, str]) -> None:
    assert expected == point_at(9000, SERVER, environment)


def test_the_openai_path_is_added_where_the_server_has_none() -> None:
    found = point_at(9000, read_server("http://localhost:11434"), {})
    assert f"{OURS}/v1" == found["OPENAI_BASE_URL"]
