"""What leads requests past the proxy."""

import pytest

from addon.commands.diagnosis.bypasses import check_bypasses, check_hosts
from masking.config import parse_settings


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({"NO_PROXY": "localhost,127.0.0.1,::1"}, []),
        ({"NO_PROXY": "127.0.0.2,llama.localhost"}, []),
        ({"NO_PROXY": "*"}, [("broken", "export NO_PROXY=''")]),
        (
            {"no_proxy": "localhost, .openai.com"},
            [("broken", "export no_proxy=localhost")],
        ),
        ({"NO_PROXY": "llm.example"}, [("broken", "export NO_PROXY=''")]),
        (
            {"OPENAI_BASE_URL": "https://gateway.example/v1", "NO_PROXY": "gateway.example,b"},
            [("broken", "export NO_PROXY=b")],
        ),
        (
            {"OLLAMA_HOST": "127.0.0.1:11434"},
            [("note", "obsmask run --reverse http://127.0.0.1:11434 -- COMMAND")],
        ),
        (
            {"OPENAI_BASE_URL": "http://user:secret@localhost:8000/v1"},
            [("note", "obsmask run --reverse http://localhost:8000 -- COMMAND")],
        ),
        ({"ANTHROPIC_BASE_URL": "https://gateway.example"}, []),
        ({"OPENAI_BASE_URL": "http://[:x"}, []),
        (
            {
                "OPENAI_BASE_URL": "http://127.0.0.1:8080/to/https/gateway.example/v1",
                "OLLAMA_HOST": "127.0.0.1:8080/to/http/localhost:11434",
                "NO_PROXY": "gateway.example",
            },
            [],
        ),
        (
            {"OPENAI_BASE_URL": "http://localhost:8080/to/nobody"},
            [("note", "obsmask run --reverse http://localhost:8080 -- COMMAND")],
        ),
    ],
    ids=[
        "this machine",
        "the same, by other names",
        "everything",
        "a provider's domain",
        "a host of the records",
        "the host of a base URL",
        "a model on this machine",
        "the same, with a password",
        "a gateway",
        "no URL",
        "servers behind the proxy's own base URLs",
        "what only looks like one",
    ],
)
def test_what_leads_past_the_proxy_is_found(
    environment: dict[str, str], expected: list[tuple[str, str]]
) -> None:
    found = check_bypasses(
        environment, {"llm.example", "127.0.0.1", "127.0.0.2", "llama.localhost"}
    )
    assert expected == [(finding.level, finding.mend) for finding in found]


@pytest.mark.parametrize(
    "url",
    ["https://gateway.example/v1", "http://127.0.0.1:8080/to/https/gateway.example/v1"],
)
@pytest.mark.parametrize(
    ("hosts", "expected"),
    [
        ("", []),
        ('never = ["*.example"]', ["hosts.never names gateway.example", "hosts.never names llm."]),
        ('only = ["llm.example"]', ["hosts.only leaves out gateway.example"]),
    ],
    ids=["as shipped", "never", "only"],
)
def test_hosts_that_the_configuration_leaves_alone_are_named(
    hosts: str, expected: list[str], url: str
) -> None:
    settings = parse_settings(f"[observation_masking.hosts]\n{hosts}".encode())
    assert settings is not None
    environment = {"OPENAI_BASE_URL": url}
    found = [each.says for each in check_hosts(environment, {"llm.example"}, settings.hosts)]
    assert expected == [says[: len(start)] for says, start in zip(found, expected, strict=True)]
