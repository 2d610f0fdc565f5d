"""The last line of a run: what it came to, or why that is nothing, and what changes it."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from addon.commands.main import main
from addon.commands.run import Ended, Remedies, render_end
from addon.proxy.health import Health
from addon.proxy.transparent import Counts
from addon.records.record import RequestRecord
from addon.records.tally import Tally
from addon.skip_reasons import HELD
from tests.support.marks import as_one_test

HEALTH = Health(
    software_version="1",
    run="00000000",
    state="ON",
    is_masking=True,
    config="config.toml",
    records="/state/requests.jsonl",
    unopened={},
    unserved=0,
)

REQUEST: Mapping[str, object] = {
    "time": "2026-01-01T00:00:00.000+00:00",
    "host": "api.example.com",
    "path": "/v1/chat/completions",
    "masking": "on",
    "status": 200,
}
SIGNED = {"passed_through": "signed (cch)"}
UNKNOWN = {"passed_through": HELD["unknown"]}


def tally_of(*records: Mapping[str, object]) -> Tally:
    tally = Tally()
    for record in records:
        tally.add(RequestRecord.model_validate({**REQUEST, **record}))
    return tally


ENDED = Ended(("agent", "a task"), 0, 60.0)
DROPS = (
    "the model would lose its reasoning; obsmask run --shorten cuts long results all the same; "
    "obsmask config set --config config.toml schema1.bound_reasoning=drop (undo: obsmask config "
    "unset --config config.toml schema1.bound_reasoning) changes that, but the model then loses "
    "its earlier reasoning"
)
REMEDIES = Remedies("obsmask run -- claude", "obsmask run --force-http")


def render(
    *records: Mapping[str, object],
    remedies: Remedies = REMEDIES,
    told: Mapping[str, Any] | None = None,
) -> str:
    health = HEALTH.model_copy(update=told)
    return render_end(tally_of(*records), health, remedies, ENDED, deaths=0, log=None)


@as_one_test
@pytest.mark.parametrize(
    ("record", "why"),
    [
        (SIGNED, "claude-code signs what it sends; obsmask run -- claude changes that"),
        (
            {**SIGNED, "binding": "refuses"},
            "claude-code signs what it sends, and the model binds its reasoning to all that "
            "precedes it",
        ),
        (
            UNKNOWN,
            "the provider holds the history of the agent's WebSocket; "
            "obsmask run --force-http changes that, but an agent that speaks no HTTP to models "
            "then fails",
        ),
        (
            {"passed_through": HELD["pass"]},
            "the provider holds the history of the agent's WebSocket; "
            "obsmask config set --config config.toml websocket.mode=auto changes that",
        ),
        (
            {"passed_through": HELD["unmasked"]},
            "the provider holds the history of the agent's WebSocket, which stays open unless "
            "masking is on",
        ),
        (
            {"passed_through": HELD["bound"], "binding": "drops"},
            DROPS,
        ),
        (
            {"binding": "refuses", "kept": {"bound": 3}, "tool_results": 3},
            "the model binds its reasoning to all that precedes it; obsmask run --shorten cuts "
            "long results all the same",
        ),
        (
            {"binding": "drops", "kept": {"bound": 3}, "tool_results": 3},
            DROPS,
        ),
    ],
    ids=[
        *("signed", "signed and bound", "a WebSocket", "a WebSocket that is left alone"),
        *("one that is observed", "one that is bound", "bound, refused", "bound, dropped"),
    ],
)
def test_it_says_why_nothing_is_masked_and_only_what_would_change_that(
    record: Mapping[str, object], why: str
) -> None:
    line = f"1 request; nothing masked, because {why}; obsmask page shows each request"
    assert line == render(record)


@pytest.mark.parametrize("record", [SIGNED, UNKNOWN], ids=["signed", "a WebSocket"])
def test_what_is_done_already_or_cannot_be_is_not_advised(record: Mapping[str, object]) -> None:
    assert " changes that" not in render(record, remedies=Remedies())


def test_a_run_that_leaves_clients_as_they_are_names_its_own_option() -> None:
    remedies = Remedies("obsmask run", "obsmask run", keeps_sockets=True)
    line = render({"passed_through": HELD["pass"]}, remedies=remedies)
    assert "agent's WebSocket; obsmask run changes that" in line


def test_it_says_what_stood_in_the_way_of_masking_claude_code() -> None:
    stands = "/etc/settings.json sets ANTHROPIC_BASE_URL to https://api.anthropic.com"
    line = render(SIGNED, remedies=Remedies(hindrance=stands))
    assert f"because claude-code signs what it sends, and {stands}; obsmask page" in line


def test_signed_requests_beside_masked_ones_are_told_of_with_what_has_them_masked() -> None:
    masked = {"masked": 1, "tool_results": 9, "tokens_before": 9, "tokens_after": 5}
    line = render(masked, SIGNED, SIGNED)
    assert (
        "; 2 requests passed, as claude-code signs them: obsmask run -- claude changes that; "
        in line
    )
    bound = {**SIGNED, "binding": "refuses"}
    assert "signs them" not in render(masked, bound, bound)


@pytest.mark.parametrize(
    ("told", "words"),
    [
        (
            {"unopened": {"a.example": 2, "b.example": 1}},
            "; connections passed undecrypted, as a certificate isn't trusted: 2 to a.example, "
            "1 to b.example; ",
        ),
        ({"unserved": 4}, "; 4 requests used an unsupported API format; "),
        (
            {"lost_records": 1, "summary": "2 requests; input cost $1"},
            "2 requests; input cost $1; 1 request could not be recorded",
        ),
    ],
    ids=["no trust", "another format", "a full disk"],
)
def test_it_says_what_passed_by(told: Mapping[str, Any], words: str) -> None:
    assert words in render({}, told=told)


@pytest.mark.parametrize(("deaths", "times"), [(1, "once"), (3, "3 times")])
def test_it_says_that_the_proxy_ended(deaths: int, times: str) -> None:
    line = render_end(Tally(), HEALTH, Remedies(), ENDED, deaths=deaths, log=Path("/a.log"))
    assert f"; the proxy ended {times} by itself, and /a.log says why" in line


@pytest.mark.parametrize(
    ("count", "expected"),
    [
        (0, ""),
        (
            1,
            "; 1 conversation no longer fits its model without masking: switch masking off only ",
        ),
        (
            2,
            "; 2 conversations no longer fit their model without masking: switch masking off only ",
        ),
    ],
)
def test_a_run_that_outgrew_its_models_says_what_to_do_first(count: int, expected: str) -> None:
    grew = [
        {"masked": 1, "fits_unmasked": False, "conversation_id": str(number)}
        for number in range(count)
    ]
    counted = tally_of({"masked": 1, "kept": {"summary": 2}}, *grew)
    line = render_end(counted, HEALTH, Remedies(), ENDED, deaths=0, log=None)
    assert (expected != "", True) == ("no longer fit" in line, expected in line)
    assert "; 1 request for a summary left whole; " in line


DOCTOR = "obsmask doctor -- agent 'a task'"


@as_one_test
@pytest.mark.parametrize(
    ("ended", "expected"),
    [
        (
            ENDED,
            f"no request to a model came through the proxy: {DOCTOR} looks for the reason; "
            "obsmask run --reverse URL -- agent 'a task' is for an agent that takes no proxy",
        ),
        (ENDED._replace(seconds=4.9), ""),
        (
            ENDED._replace(seconds=4.9, code=1),
            "agent failed before any request to a model came through the proxy; if it names the "
            f"network or a certificate: {DOCTOR}",
        ),
        (ENDED._replace(seconds=4.9, code=130), ""),
        (Ended(("agent", "run", "--help"), 0, 60.0), ""),
        (Ended(("agent", "--version"), 1, 0.1), ""),
        (Ended(("agent", "-v"), 0, 9.0), ""),
    ],
    ids=[
        *("long", "short", "failed at once", "interrupted at once"),
        *("help", "version, failed", "a short option alone"),
    ],
)
def test_no_request_is_spoken_of_only_where_some_were_to_be_expected(
    ended: Ended, expected: str
) -> None:
    assert expected == render_end(Tally(), HEALTH, Remedies(), ended, deaths=0, log=None)


def test_a_verbose_agent_is_expected_to_ask() -> None:
    ended = Ended(("agent", "-v", "a task"), 0, 60.0)
    line = render_end(Tally(), HEALTH, Remedies(), ended, deaths=0, log=None)
    assert line.startswith("no request to a model came through the proxy: ")


def test_what_else_came_through_a_short_run_is_told() -> None:
    health = HEALTH.model_copy(update={"unserved": 2})
    ended = ENDED._replace(seconds=0.1)
    line = render_end(Tally(), health, Remedies(), ended, deaths=0, log=None)
    assert "2 requests used an unsupported API format" == line


# A network of its own


@pytest.mark.parametrize(
    ("past", "words"),
    [
        (Counts(), ""),
        (Counts(tcp=2), "; connections to other ports, past the proxy: 2 TCP"),
        (
            Counts(1, 3, 1),
            "; connections to other ports, past the proxy: 1 TCP, 3 UDP; QUIC refused (1 packet)",
        ),
        (Counts(quic=4), "; QUIC refused (4 packets)"),
    ],
)
def test_it_says_what_went_past_the_proxy(past: Counts, words: str) -> None:
    ended = ENDED._replace(past=past)
    line = render_end(Tally(), HEALTH, Remedies(), ended, deaths=0, log=None)
    assert f"no request to a model came through the proxy{words}" == line


def test_it_says_that_its_network_has_ended() -> None:
    ended = ENDED._replace(past=Counts(), lost_network=True)
    line = render_end(Tally(), HEALTH, Remedies(), ended, deaths=0, log=Path("/a.log"))
    assert "; pasta ended before the command, which then had no network: /a.log may" in line


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("--ports", "443"), "--ports is for --transparent"),
        (("--loopback", "5432"), "--loopback is for --transparent"),
        (("--transparent", "--ports", "https"), "expected a whole number from 1 to 65535"),
        (("--transparent", "--reverse", "http://localhost:1"), "exclude each other"),
        (("--transparent", "--proxy", "127.0.0.1:1"), "--proxy takes no settings"),
    ],
)
def test_options_that_do_not_go_together_are_refused(
    options: tuple[str, ...], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert 2 == main(["run", *options, "--", "true"])
    assert says in " ".join(capsys.readouterr().err.split())


def test_a_network_of_its_own_goes_to_no_other_proxy(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("addon.commands.run.find_missing", lambda: None)
    monkeypatch.setenv("HTTPS_PROXY", "http://a.company.test:3128")
    assert 1 == main(["run", "--transparent", "--", "true"])
    assert "HTTPS_PROXY names one: unset HTTPS_PROXY" in capsys.readouterr().err
    monkeypatch.setenv("OBSMASK_REPLACED", "{}")
    assert 1 == main(["run", "--transparent", "--", "true"])
    assert 'eval "$(obsmask env --unset)"' in capsys.readouterr().err
