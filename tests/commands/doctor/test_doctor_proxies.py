"""Where the environment leads requests: to a proxy, and which one, or past it."""

from pathlib import Path

import pytest

from addon.commands.doctor.proxies import (
    Probe,
    check_bypasses,
    check_hosts,
    check_none,
    check_probe,
    check_variables,
    find_addresses,
    probe,
)
from addon.network import DEFAULT_ADDRESS, Address
from addon.proxy.health import Health
from addon.records.build import describe_software
from masking.config import Settings, parse_settings
from tests.support.findings import fixes, levels
from tests.support.marks import as_one_test

US = "http://127.0.0.1:8080"


@as_one_test
@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({}, []),
        ({"HTTPS_PROXY": US, "https_proxy": US, "HTTP_PROXY": US}, []),
        ({"HTTPS_PROXY": US}, []),
        ({"https_proxy": US}, []),
        ({"HTTPS_PROXY": US, "https_proxy": "http://company:3128"}, ["broken"]),
        ({"HTTP_PROXY": US}, ["note"]),
        ({"ALL_PROXY": US, "http_proxy": US}, ["note"]),
        ({"HTTPS_PROXY": "company.example"}, []),
        ({"HTTPS_PROXY": "http://:8080"}, ["broken"]),
        ({"HTTPS_PROXY": "socks5://localhost:1080"}, ["broken"]),
    ],
    ids=[
        "nothing set",
        "all agree",
        "upper case alone",
        "lower case alone",
        "upper and lower case differ",
        "not for https",
        "for everything, which few clients read",
        "without a port",
        "no address",
        "another kind of proxy",
    ],
)
def test_the_proxy_variables_are_compared(environment: dict[str, str], expected: list[str]) -> None:
    assert expected == levels(check_variables(environment))


def test_a_password_in_a_variable_is_never_told() -> None:
    secret = "http://user:hunter2@company:99999"
    environment = {"HTTPS_PROXY": secret, "https_proxy": secret.replace("99999", "3128")}
    found = list(check_variables(environment))
    refused = Probe(Address("company", 3128), problem="Connection refused")
    found += check_probe(refused, ["https_proxy"], Path("config.toml"))
    assert ["broken"] * 3 == levels(found)
    assert "hunter2" not in f"{found}"


def test_variables_are_grouped_by_the_address_to_which_they_lead() -> None:
    environment = {"HTTPS_PROXY": US, "https_proxy": f"{US}/", "ALL_PROXY": "http://[::1]:9"}
    environment |= {"http_proxy": "http://:1", "HTTP_PROXY": "company.example"}
    expected = {
        Address("company.example", 80): ["HTTP_PROXY"],
        Address("127.0.0.1", 8080): ["HTTPS_PROXY", "https_proxy"],
        Address("::1", 9): ["ALL_PROXY"],
    }
    assert expected == find_addresses(environment)


def health(**changes: object) -> Health:
    told = {
        **describe_software(Settings()),
        "run": "0" * 8,
        "state": "observation-masking 0.1.0 ON: masks others at once",
        "is_masking": True,
        "config": "/c.toml",
        "records": None,
        "unopened": {},
        "unserved": 0,
        **changes,
    }
    return Health.model_validate(told)


@as_one_test
@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (Probe(DEFAULT_ADDRESS, health()), ["ok"]),
        (Probe(DEFAULT_ADDRESS, health(is_masking=False)), ["note"]),
        (Probe(DEFAULT_ADDRESS, health(software_version="0.0.9")), ["ok", "note"]),
        (Probe(DEFAULT_ADDRESS, health(config="/other.toml")), ["ok", "note"]),
        (Probe(DEFAULT_ADDRESS, health(lost_records=3)), ["ok", "broken"]),
        (Probe(DEFAULT_ADDRESS, health(unopened={"a": 3}, unserved=2)), ["ok", "note", "note"]),
        (Probe(Address("10.0.0.5", 8080), health()), ["ok", "note"]),
        (Probe(DEFAULT_ADDRESS), ["note"]),
        (Probe(DEFAULT_ADDRESS, problem="Connection refused"), ["broken"]),
    ],
    ids=[
        "masks",
        "does not mask",
        "another version",
        "another configuration",
        "lost records",
        "passed some unopened and unread",
        "listens to other machines",
        "another proxy",
        "nothing",
    ],
)
def test_what_listens_is_told(found: Probe, expected: list[str]) -> None:
    assert expected == levels(check_probe(found, ["HTTPS_PROXY"], Path("/c.toml")))


@pytest.mark.parametrize(
    ("found", "fix"),
    [
        (Probe(DEFAULT_ADDRESS, problem="Connection refused"), "obsmask run -- COMMAND"),
        (Probe(DEFAULT_ADDRESS, health()), 'eval "$(obsmask env)"'),
    ],
    ids=["nothing runs", "one runs"],
)
def test_where_nothing_is_set_the_next_step_is_told(found: Probe, fix: str) -> None:
    assert [fix] == fixes(check_none(found))


def test_the_variables_are_set_again_for_the_proxy_that_runs() -> None:
    found = Probe(Address("127.0.0.1", 8099), health(unopened={"h": 3}))
    assert ['eval "$(obsmask env --proxy http://127.0.0.1:8099)"'] == fixes(
        check_probe(found, ["HTTPS_PROXY"], None)
    )


def test_a_proxy_for_which_the_environment_was_set_is_to_be_started() -> None:
    gone = Probe(Address("127.0.0.1", 8081), problem="Connection refused")
    found = check_probe(gone, ["HTTPS_PROXY"], Path("/c.toml"), is_by_env=True)
    assert ["obsmask proxy --port 8081"] == fixes(found)


@pytest.mark.parametrize("host", ["a b", "a" * 300, "no-such-host.test"])
def test_a_host_that_cannot_be_one_is_not_reached(host: str) -> None:
    found = probe(Address(host, 8080))
    assert ["broken"] == levels(check_probe(found, ["HTTPS_PROXY"], Path("/c.toml")))


# What leads past it


@as_one_test
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
    assert expected == [(finding.level, finding.fix) for finding in found]


@as_one_test
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
