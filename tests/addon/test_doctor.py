"""`obsmask doctor`: what it says of made-up environments, files and records."""

import json
import os
import stat
from collections.abc import Iterable
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from mitmproxy.certs import CertStore

from addon.commands.diagnosis.authorities import (
    check_authority,
    check_bundles,
    check_served,
    read_bundle,
)
from addon.commands.diagnosis.bypasses import check_bypasses
from addon.commands.diagnosis.clients import find_client
from addon.commands.diagnosis.configuration import (
    check_configuration,
    check_local,
    read_configuration,
)
from addon.commands.diagnosis.finding import Finding, broken, note, ok
from addon.commands.diagnosis.prices import check_list, check_prices, check_uncached
from addon.commands.diagnosis.program import Interpreter, Program
from addon.commands.diagnosis.proxies import (
    DEFAULT,
    Reached,
    check_none,
    check_reached,
    check_variables,
    find_addresses,
)
from addon.commands.diagnosis.storage import check_folder, check_record_file, render_size
from addon.commands.diagnosis.traffic import check_bound, check_passed
from addon.commands.diagnosis.trial import Attempt, Outcome
from addon.commands.diagnosis.trust import check_attempts, check_unasked
from addon.commands.diagnosis.versions import check_installations
from addon.commands.main import main
from addon.metrics.record import RequestRecord
from addon.metrics.software import describe_software
from addon.proxy.health_check import Address, Health
from masking.config import Settings, parse_settings
from tests.live.harness import OFF, ON

Screen = pytest.CaptureFixture[str]
NOW = datetime(2026, 11, 22, tzinfo=UTC)


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A user without anything, in an empty folder, in an environment that says nothing."""
    for name in [*os.environ]:
        if name not in ("PATH", "PYTHONPATH", "XDG_DATA_HOME"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "own"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    return tmp_path


def levels(findings: Iterable[Finding]) -> list[str]:
    return [finding.level for finding in findings]


def says(findings: Iterable[Finding]) -> str:
    return "\n".join(finding.says for finding in findings)


def mends(findings: Iterable[Finding]) -> list[str | None]:
    return [finding.mend for finding in findings if finding.level != "ok"]


# Configuration


def test_the_configuration_that_holds_is_named_with_what_it_sets(home: Path) -> None:
    file = home / "mine.toml"
    file.write_bytes(ON)
    found = list(check_configuration(read_configuration(str(file))))
    assert ["ok", "ok"] == levels(found)
    assert f"{file} holds: --config names it" == found[0].says
    assert "schema1.window_turns = 2 (shipped: 8)" in found[1].says
    assert 'schema1.cache_pricing = "none" (shipped: "auto")' in found[1].says


def test_without_one_of_ones_own_the_shipped_one_holds() -> None:
    (found,) = check_configuration(read_configuration(""))
    assert found.says.endswith("holds: it is the shipped one, as you have none of your own")


def test_a_switch_in_the_environment_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STREAM_REDACTION_ENABLED", "maybe")
    found = list(check_configuration(read_configuration("")))
    assert "redaction.enabled = true (shipped: false, by the environment)" in found[1].says
    assert ["ok", "ok", "note"] == levels(found)
    assert "maybe" in found[2].says


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"[observation_masking.schema1]\nwindow_turn = 2", "observation_masking.schema1.window_"),
        (b"[observation_masking", "not TOML"),
        (b"[other]", "no [observation_masking] table"),
        (None, "cannot read the configuration"),
    ],
    ids=["an unknown key", "no TOML", "none of our tables", "no file"],
)
def test_a_mistake_in_the_configuration_is_broken_and_has_its_place(
    home: Path, content: bytes | None, problem: str
) -> None:
    file = home / "mine.toml"
    if content is not None:
        file.write_bytes(content)
    (found,) = check_configuration(read_configuration(str(file)))
    assert found.level == "broken"
    assert problem in found.says
    assert str(file) in found.says
    assert found.mend == f"obsmask config check {file}"


def test_the_home_of_no_user_is_a_mistake() -> None:
    (found,) = check_configuration(read_configuration("~nobody-here/mine.toml"))
    assert found.level == "broken"


def test_that_masking_is_off_is_told(home: Path) -> None:
    (home / "mine.toml").write_bytes(OFF)
    found = list(check_configuration(read_configuration(str(home / "mine.toml"))))
    assert note("Masking is off", found[-1].mend) == found[-1]


@pytest.mark.parametrize(
    ("content", "levels_"),
    [(ON, ["note"]), (b"[tool]", []), (b"[observation_masking", []), (None, [])],
    ids=["ours", "another's", "broken", "none"],
)
def test_a_file_of_ours_in_a_project_is_told(content: bytes | None, levels_: list[str]) -> None:
    if content is not None:
        Path("config.toml").write_bytes(content)
    assert levels_ == levels(check_local())


# Proxy

US = "http://127.0.0.1:8080"


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
        ({"HTTPS_PROXY": "nonsense"}, ["broken"]),
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
    reached = Reached(Address("company", 3128), problem="Connection refused")
    found += check_reached(reached, ["https_proxy"], Path("config.toml"))
    assert ["broken"] * 3 == levels(found)
    assert "hunter2" not in f"{found}"


def test_variables_are_grouped_by_the_address_to_which_they_lead() -> None:
    environment = {"HTTPS_PROXY": US, "https_proxy": f"{US}/", "ALL_PROXY": "http://[::1]:9"}
    environment |= {"http_proxy": "none"}
    expected = {
        Address("127.0.0.1", 8080): ["HTTPS_PROXY", "https_proxy"],
        Address("::1", 9): ["ALL_PROXY"],
    }
    assert expected == find_addresses(environment)


def health(**changes: object) -> Health:
    told = {
        **describe_software(Settings()),
        "run": "0" * 8,
        "state": "observation-masking 0.1.0 ON, window of 8 tool turns",
        "is_masking": True,
        "config": "/c.toml",
        "records": None,
        "unopened": {},
        "unserved": 0,
        **changes,
    }
    return Health.model_validate(told)


@pytest.mark.parametrize(
    ("reached", "expected"),
    [
        (Reached(DEFAULT, health()), ["ok"]),
        (Reached(DEFAULT, health(is_masking=False)), ["note"]),
        (Reached(DEFAULT, health(software_version="0.0.9")), ["ok", "note"]),
        (Reached(DEFAULT, health(config="/other.toml")), ["ok", "note"]),
        (Reached(DEFAULT, health(unopened={"a": 3}, unserved=2)), ["ok", "note", "note"]),
        (Reached(DEFAULT), ["note"]),
        (Reached(DEFAULT, problem="Connection refused"), ["broken"]),
    ],
    ids=[
        "masks",
        "does not mask",
        "another version",
        "another configuration",
        "passed some unopened and unread",
        "another proxy",
        "nothing",
    ],
)
def test_what_listens_is_told(reached: Reached, expected: list[str]) -> None:
    assert expected == levels(check_reached(reached, ["HTTPS_PROXY"], Path("/c.toml")))


@pytest.mark.parametrize(
    ("reached", "mend"),
    [
        (Reached(DEFAULT, problem="Connection refused"), "obsmask run -- COMMAND"),
        (Reached(DEFAULT, health()), 'eval "$(obsmask env)"'),
    ],
    ids=["nothing runs", "one runs"],
)
def test_where_nothing_is_set_the_next_step_is_told(reached: Reached, mend: str) -> None:
    assert [mend] == mends(check_none(reached))


# Certificates


@pytest.fixture(scope="module")
def authorities(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Two authorities that mitmproxy made."""
    folder = tmp_path_factory.mktemp("authorities")
    for name in ("one", "other"):
        CertStore.from_store(folder / name, "mitmproxy", 2048)
    return [folder / name / "mitmproxy-ca-cert.pem" for name in ("one", "other")]


def proxys(authorities: list[Path]) -> bytes:
    return next(iter(read_bundle(authorities[0]).certificates))


@pytest.mark.parametrize(
    ("after", "expected"),
    [(-1, ["broken"]), (29, ["note"]), (31, ["ok"])],
    ids=["expired", "soon", "not soon"],
)
def test_an_authority_has_its_time(
    authorities: list[Path], after: int, expected: list[str]
) -> None:
    end = x509.load_der_x509_certificate(proxys(authorities)).not_valid_after_utc
    now = end - timedelta(days=after)
    assert expected == levels(check_authority(read_bundle(authorities[0]), now))


def test_an_authority_is_made_at_the_first_start(home: Path) -> None:
    bundle = read_bundle(home / "mitmproxy-ca-cert.pem")
    assert ["ok"] == levels(check_authority(bundle, NOW))


def test_an_authority_that_is_none_is_broken(home: Path) -> None:
    file = home / "mitmproxy-ca-cert.pem"
    file.write_text("-----BEGIN CERTIFICATE-----\n?\n-----END CERTIFICATE-----\n")
    assert ["broken"] == levels(check_authority(read_bundle(file), NOW))


def test_a_key_that_others_can_read_is_broken(authorities: list[Path]) -> None:
    key = authorities[0].with_name("mitmproxy-ca.pem")
    key.chmod(0o644)
    found = list(check_authority(read_bundle(authorities[0]), NOW))
    key.chmod(0o600)
    assert ["ok", "broken"] == levels(found)
    assert [f"chmod 600 {key}"] == mends(found)
    assert ["ok"] == levels(check_authority(read_bundle(authorities[0]), NOW))


def test_a_running_proxy_may_have_another_authority(authorities: list[Path]) -> None:
    one, other = map(read_bundle, authorities)
    assert [] == [*check_served(proxys(authorities), one)]
    assert ["broken"] == levels(check_served(proxys(authorities), other))


ALL = ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "NODE_EXTRA_CA_CERTS")


@pytest.mark.parametrize(
    ("content", "is_proxied", "expected"),
    [
        ([0, 1], True, ["ok"]),
        ([0, 1], False, []),
        ([1, 1], True, ["broken"] * 3),
        ([1, 1], False, ["note"] * 2),
        ([0], True, ["note"] * 2 + ["ok"]),
        ([], True, ["broken"] * 3),
        ([], False, ["broken"] * 3),
        (None, False, ["broken"] * 3),
    ],
    ids=[
        "the proxy's, and others",
        "the same, without a proxy",
        "another that mitmproxy made",
        "the same, without a proxy: it alone replaces the public ones",
        "the proxy's alone",
        "no certificate",
        "no certificate, without a proxy",
        "no file",
    ],
)
def test_the_files_that_variables_name_are_read(
    authorities: list[Path],
    home: Path,
    content: list[int] | None,
    is_proxied: bool,
    expected: list[str],
) -> None:
    bundle = home / "bundle.pem"
    if content is not None:
        bundle.write_bytes(b"".join(authorities[place].read_bytes() for place in content))
    found = check_bundles(
        dict.fromkeys(ALL, str(bundle)), proxys(authorities), is_proxied=is_proxied
    )
    assert sorted(expected) == sorted(levels(found))


def test_a_bundle_of_an_earlier_authority_is_told_apart(
    authorities: list[Path], home: Path
) -> None:
    environment = {"SSL_CERT_FILE": str(authorities[1])}
    (found, *_) = check_bundles(environment, proxys(authorities), is_proxied=True)
    assert "has another that mitmproxy made" in found.says


def test_what_is_not_set_is_named_where_a_proxy_is(authorities: list[Path], home: Path) -> None:
    found = list(check_bundles({}, proxys(authorities), is_proxied=True))
    assert ["broken"] * 3 == levels(found)
    assert [] == [name for name in ALL if name not in says(found)]
    assert [] == [*check_bundles({}, proxys(authorities), is_proxied=False)]


# The command

NODE = Program("agent", Path("/bin/agent"), Interpreter("node", Path("/bin/node")))
PROXIED = Interpreter("node", Path("/bin/node"))


def attempt(way: str, outcome: Outcome) -> Attempt:
    return Attempt(way=way, outcome=outcome, detail="")


@pytest.mark.parametrize(
    ("outcomes", "name", "expected"),
    [
        (["trusted", "trusted"], "", ["ok"]),
        (["untrusted", "unreached"], "", ["broken", "note"]),
        (["trusted", "unreached"], "", ["ok", "note"]),
        (["trusted", "unreached"], "qwen", ["ok"]),
        (["untrusted", "unreached"], "qwen", ["broken", "note"]),
        (["trusted", "untrusted"], "", ["ok", "broken"]),
        (["failed"], "", ["broken"]),
        ([], "", ["note"]),
    ],
    ids=[
        "trusts",
        "does not trust, and has no proxy",
        "trusts, and its own fetch goes past",
        "the same, of a client that is known to ask in another way",
        "a known client that does not trust",
        "a package that has authorities of its own",
        "gets no answer",
        "cannot be asked",
    ],
)
def test_what_a_runtime_does_is_told(
    outcomes: list[Outcome], name: str, expected: list[str]
) -> None:
    attempts = [attempt(f"way {place}", each) for place, each in enumerate(outcomes)]
    assert expected == levels(check_attempts(NODE, PROXIED, find_client(name), attempts))


def test_what_cannot_be_asked_is_not_guessed() -> None:
    native = Program("agent", Path("/bin/agent"), "native")
    (found,) = check_unasked(native, None)
    assert found.level == "note"
    assert "cannot be known" in found.says
    (known,) = check_unasked(native, find_client("claude"))
    assert "SSL_CERT_FILE or NODE_EXTRA_CA_CERTS" in known.says


HTTP = b'[observation_masking.websocket]\nmode = "http"\n'


@pytest.mark.parametrize(
    ("name", "environment", "config", "expected"),
    [
        ("claude", {}, b"", ["note"]),
        ("claude", {"CLAUDE_CODE_ATTRIBUTION_HEADER": "0"}, b"", ["ok"]),
        ("claude", {"ANTHROPIC_BASE_URL": "https://gateway.example"}, b"", ["ok"]),
        ("codex", {}, b"", ["note"]),
        ("codex", {}, HTTP, ["ok"]),
        ("cline", {}, b"", ["note"]),
        ("aider", {}, b"", ["note"]),
        ("code", {}, b"", ["note"]),
        ("sudo", {}, b"", ["note"]),
        ("mini", {}, b"", []),
    ],
    ids=[
        "signs",
        "does not sign",
        "does not sign elsewhere",
        "speaks over a WebSocket",
        "is told to use HTTP",
        "keeps its old environment",
        "has no tool results",
        "is an editor",
        "drops the environment",
        "is masked",
    ],
)
def test_what_is_known_of_a_client_is_told(
    name: str, environment: dict[str, str], config: bytes, expected: list[str]
) -> None:
    client, settings = find_client(name), parse_settings(config) or Settings()
    assert client is not None
    assert expected == levels(client.remarks(environment, settings))


# What goes past


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({"NO_PROXY": "localhost,127.0.0.1,::1"}, []),
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
    ],
    ids=[
        "this machine",
        "everything",
        "a provider's domain",
        "a host of the records",
        "the host of a base URL",
        "a model on this machine",
        "the same, with a password",
        "a gateway",
        "no URL",
    ],
)
def test_what_leads_past_the_proxy_is_found(
    environment: dict[str, str], expected: list[tuple[str, str]]
) -> None:
    found = check_bypasses(environment, {"llm.example"})
    assert expected == [(finding.level, finding.mend) for finding in found]


def record(**fields: object) -> RequestRecord:
    told = {"time": "2026-11-22T00:00:00Z", "host": "api.openai.com", "path": "/v1/responses"}
    return RequestRecord.model_validate({**told, "model": "gpt-5", "masking": "on", **fields})


def test_requests_that_passed_are_counted_by_reason() -> None:
    signed = [record(passed_through="signed (cch)") for _ in range(2)]
    found = list(check_passed([*signed, record(), record(passed_through="not JSON")]))
    assert "2 of 4 requests passed untouched: signed (cch)" == found[0].says
    assert ["obsmask run --client-changes -- claude", None] == mends(found)


def test_a_session_that_must_not_change_sides_is_told_once() -> None:
    bound = [record(binding="refuses", masked=masked) for masked in (0, 3, 4)]
    (found,) = check_bound([*bound, record(binding="drops", masked=3), record(masked=3)])
    assert "api.openai.com refuses a session with gpt-5" in found.says


# Prices


@pytest.mark.parametrize(
    ("today", "expected"),
    [(date(2026, 11, 23), "ok"), (date(2030, 1, 1), "note")],
    ids=["new", "old"],
)
def test_the_price_list_has_an_age(today: date, expected: str) -> None:
    assert [expected] == levels(check_list(Settings(), today))


def test_it_says_where_each_price_comes_from() -> None:
    own = b'[[observation_masking.prices]]\nhost = "own.example"\nread = 0.5\nwrite = 1\n'
    settings = parse_settings(own)
    assert settings is not None
    hosts = ["api.openai.com", "own.example", "elsewhere.example"]
    found = list(check_prices(settings, [record(host=host) for host in hosts]))
    assert ["ok", "ok", "note"] == levels(found)
    line = found[2].mend or ""
    told = parse_settings(line.encode())
    assert told is not None
    assert (told.prices[0].host, told.prices[0].read) == ("elsewhere.example", 0.1)


def test_many_models_are_not_all_named() -> None:
    found = list(check_prices(Settings(), [record(model=f"gpt-{n}") for n in range(20)]))
    assert 13 == len(found)
    assert found[-1].says.startswith("8 more models")


def test_a_host_without_cached_tokens_is_told() -> None:
    told = record(cached_tokens=0, predicted_cached_tokens=9_000, price_read_ratio=0.1)
    (found,) = check_uncached([told] * 20)
    assert 'uncached = ["api.openai.com"]' == found.mend
    assert [] == [*check_uncached([told] * 19)]


# What is stored


@pytest.mark.parametrize(
    ("mode", "expected"),
    [(0o600, ["ok"]), (0o644, ["ok", "note"])],
    ids=["private", "readable by others"],
)
def test_a_record_file_is_the_users_alone(home: Path, mode: int, expected: list[str]) -> None:
    file = home / "requests.jsonl"
    file.write_text("{}\n")
    file.chmod(mode)
    assert expected == levels(check_record_file(file))


@pytest.mark.parametrize("name", ["new.jsonl", "deep/er/new.jsonl"])
def test_a_record_file_that_is_not_there_can_be_made(home: Path, name: str) -> None:
    assert ["ok"] == levels(check_record_file(home / name))


def test_a_record_file_that_is_a_folder_is_broken(home: Path) -> None:
    assert ["broken"] == levels(check_record_file(home / "work"))


def test_a_record_file_below_a_file_is_broken(home: Path) -> None:
    (home / "file").touch()
    assert ["broken"] == levels(check_record_file(home / "file" / "requests.jsonl"))


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_cannot_be_written_is_broken(home: Path) -> None:
    (home / "work").chmod(0o500)
    assert ["broken"] == levels(check_record_file(home / "work" / "requests.jsonl"))


def test_a_folder_is_listed_with_sizes_the_largest_first(home: Path) -> None:
    (home / "work" / "runs").mkdir()
    (home / "work" / "small").write_bytes(b"x" * 10)
    (home / "work" / "runs" / "large").write_bytes(b"x" * 2_500_000)
    (home / "work").chmod(0o755)
    found = list(check_folder(home / "work", is_private=True))
    assert ["ok", "note"] == levels(found)
    assert found[0].says.endswith("holds 2.5 MB: runs/large 2.5 MB, small 10 bytes")
    assert [] == [*check_folder(home / "none", is_private=True)]


@pytest.mark.parametrize(
    ("size", "expected"), [(0, "0 bytes"), (1_499, "1 kB"), (2_000_000, "2.0 MB")]
)
def test_a_size_is_told_in_its_unit(size: int, expected: str) -> None:
    assert expected == render_size(size)


# Versions


@pytest.mark.parametrize(
    ("printed", "expected"),
    [("0.0.9", ["note"]), ("nothing", ["note"])],
    ids=["another version", "no version"],
)
def test_another_installation_on_the_search_path_is_told(
    home: Path, printed: str, expected: list[str]
) -> None:
    program = home / "obsmask"
    program.write_text(f"#!/bin/sh\necho {printed}\n")
    program.chmod(0o755 | stat.S_IXUSR)
    found = list(check_installations({"PATH": f"{home}:{home}/none"}))
    assert expected == levels(found)
    assert str(program) in says(found)


# The command as a whole


def test_it_says_all_of_it_and_that_nothing_is_broken(capsys: Screen) -> None:
    assert main(["doctor"]) == 0
    shown = capsys.readouterr().out
    assert "obsmask run -- COMMAND" in shown
    assert "0 things broken" in shown


def test_what_is_broken_makes_it_fail(capsys: Screen, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", "/nowhere/bundle.pem")
    assert main(["doctor", "--json"]) == 1
    told = json.loads(capsys.readouterr().out)["findings"]
    assert [("Certificates", "unset SSL_CERT_FILE")] == [
        (each["topic"], each["mend"]) for each in told if each["level"] == "broken"
    ]


def test_a_command_that_is_not_there_is_broken(capsys: Screen) -> None:
    assert main(["doctor", "--", "no-such-agent", "--json"]) == 1
    assert "no-such-agent: no such command" in capsys.readouterr().out


def test_a_check_that_fails_is_told_and_the_others_go_on(capsys: Screen, home: Path) -> None:
    file = home / "mine.toml"
    file.write_text('[observation_masking.metrics]\npath = "~nobody-here/requests.jsonl"\n')
    assert main(["doctor", "--config", str(file), "--json"]) == 1
    told = json.loads(capsys.readouterr().out)["findings"]
    assert ["What is stored"] == [each["topic"] for each in told if each["level"] == "broken"]
    assert "Versions" == told[-1]["topic"]


def test_findings_have_three_levels() -> None:
    assert ["ok", "note", "broken"] == levels([ok("a"), note("b"), broken("c", "d")])
