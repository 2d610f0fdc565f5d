"""`obsmask replay` over the logs that agents keep: what it finds, what it says, how it goes on."""

import dataclasses
import json
import os
import re
import signal
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from addon.accounts import Verdict
from addon.commands.log_answer import describe_section
from addon.commands.main import main
from addon.records.words import render_dollars
from addon.replay.logs import LOGS, find_logs, find_logs_at_home, list_homes, merge_newest_first
from addon.replay.logs.answer import LogAnswer, LoggedSession
from addon.replay.totals import Totals
from masking.accounting import Bill, Money
from tests.support.made_logs import MadeSession, write_claude_code
from tests.support.marks import thorough
from tests.support.page_parts import find_table
from tests.support.places import ROOT
from tests.support.remembered import learn
from tests.support.sessions import CHATS
from tests.support.terminals import terminal

NOW = datetime.now(UTC)
DAY = timedelta(days=1)


def keep(home: Path, *sessions: MadeSession) -> list[Path]:
    """Write sessions where Claude Code keeps them, each with the time of its last request."""
    paths = []
    for session in sessions:
        path = write_claude_code(home / ".claude" / "projects", session)
        ended = session.began + timedelta(seconds=session.turns * (session.pause + 1))
        os.utime(path, (ended.timestamp(), ended.timestamp()))
        paths.append(path)
    return paths


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    moved = ("CLAUDE_CONFIG_DIR", "CODEX_HOME", "GEMINI_CLI_HOME", "MSWEA_GLOBAL_CONFIG_DIR")
    for name in [*moved, *(name for name in os.environ if name.startswith("XDG_"))]:
        monkeypatch.delenv(name, raising=False)
    return tmp_path


def replay(capsys: pytest.CaptureFixture[str], *arguments: object) -> dict[str, Any]:
    assert main(["replay", *map(str, arguments), "--json"]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def say(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    assert main(["replay", *map(str, arguments)]) == 0
    return " ".join(capsys.readouterr().out.split())


def test_without_a_path_the_logs_of_30_days_are_read_where_agents_keep_them(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    keep(
        home,
        MadeSession(turns=4, began=NOW - DAY, seed=1),
        MadeSession(turns=40, began=NOW - 2 * DAY, seed=2),
        MadeSession(turns=4, began=NOW - 40 * DAY, seed=3),
    )
    assert main(["replay"]) == 0
    printed = capsys.readouterr()
    assert "claude-code: 2 logs in ~/.claude/projects" in printed.err
    words = " ".join(printed.out.split())
    assert re.match(r"2 sessions since \w+ \d+, \d{4}, 46 requests: Input cost \$", words)
    assert "Next: obsmask run -- claude" in words
    assert re.search(r"Output cost another \$0\.\d\d either way\.", words)


def test_where_there_is_no_log_it_says_where_it_looked(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["replay"]) == 1
    said = capsys.readouterr().err
    for agent, place in list_homes(home, {}):
        assert f"~/{place.relative_to(home)} ({agent})" in said


def test_a_folder_of_one_platform_is_looked_at_only_there(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    places = {}
    for platform in ("linux", "darwin"):
        monkeypatch.setattr(sys, "platform", platform)
        places[platform] = {place for _, place in list_homes(home, {})}
    library = home / "Library" / "Application Support" / "mini-swe-agent"
    assert {library} == places["darwin"] - places["linux"]
    assert places["linux"] < places["darwin"]


def test_what_it_cost_is_the_sum_of_the_logs_own_usage(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    [path] = keep(home, MadeSession(turns=50, began=NOW - DAY))
    expected = 0.0
    for line in path.read_text().splitlines():
        if usage := json.loads(line)["message"].get("usage"):
            expected += usage["input_tokens"] + 0.1 * usage["cache_read_input_tokens"]
            expected += 1.25 * usage["cache_creation_input_tokens"]
    found = replay(capsys)["logs"]
    assert pytest.approx(expected * 3e-6, rel=0.001) == found["dollars_before"]
    assert pytest.approx(51 * 200 * 15e-6, rel=0.001) == found["answer_dollars"]
    assert found["dollars_saved"] == pytest.approx(found["dollars_before"] - found["dollars_after"])


def test_since_counts_requests_and_not_sessions(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A session that goes on over the limit counts from there on."""
    keep(home, MadeSession(turns=9, began=NOW - 10 * DAY, pause=DAY.total_seconds()))
    every = replay(capsys, "--since", "30d")["logs"]["requests"]
    some = replay(capsys, "--since", "4d")["logs"]["requests"]
    assert (10, True) == (every, 3 <= some <= 5)


@pytest.mark.parametrize(
    "text", ["today", "Yesterday", "12h", "7d", "2w", "1m", "2026-11-01", "2026-11-01T10:00+01:00"]
)
def test_days_are_understood(text: str, home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    keep(home, MadeSession(turns=3, began=datetime.now(UTC)))
    assert 4 == replay(capsys, "--since", text)["logs"]["requests"]


def test_another_day_is_a_mistake(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["replay", "--since", "last week"]) == 2
    assert (
        "expected hours, days, weeks, months, years, or a date, as 12h, 7d, 4w, 3m, 1y, or"
        in capsys.readouterr().err
    )


def test_one_project_can_be_chosen(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sessions = [
        MadeSession(turns=3, project="app", seed=1, began=NOW - DAY),
        MadeSession(turns=5, project="site", seed=2, began=NOW - DAY),
    ]
    keep(home, *sessions)
    found = replay(capsys, "--project", "site")
    assert [("site", 6)] == [(each["project"], each["requests"]) for each in found["conversations"]]
    assert main(["replay", "--project", "neither"]) == 1
    assert "no request to replay of project neither since" in capsys.readouterr().err


def test_a_folder_may_mix_logs_recordings_and_files(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_claude_code(tmp_path / "deep", MadeSession(turns=4))
    (tmp_path / CHATS[0].name).write_bytes(CHATS[0].read_bytes())
    messages = [{"role": "user", "content": "Hi."}, {"role": "assistant", "content": "Hello."}]
    (tmp_path / "talk.json").write_text(json.dumps({"messages": messages}))
    (tmp_path / "other.jsonl").write_text('{"a": 1}\n{"a": 2}\n')
    found = replay(capsys, tmp_path)
    agents = [each["agent"] for each in found["conversations"] if "agent" in each]
    assert ["claude-code"] == agents
    by_model = {each["agent"] for each in found["logs"]["by_model"]}
    assert {"claude-code", "recording"} == by_model
    assert found["logs"]["requests"] == found["total"]["requests"]


def mask(path: Path) -> None:
    """Have the prompts of a log get shorter while it grows, as they do behind obsmask."""
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    for number, line in enumerate(lines):
        if usage := line["message"].get("usage"):
            usage["cache_read_input_tokens"] = 9_000 + 500 * (number % 40)
            usage["cache_creation_input_tokens"] = 0
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))


def test_a_session_that_was_masked_already_stands_apart(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    keep(home, MadeSession(turns=40, began=NOW - DAY, seed=1))
    alone, said_alone = replay(capsys)["logs"], say(capsys)
    [path] = keep(home, MadeSession(turns=40, began=NOW - DAY))
    mask(path)
    found, said = replay(capsys)["logs"], say(capsys)
    headline = "1 session since .* either way"
    assert re.findall(headline, said_alone) == re.findall(headline, said) != []
    assert {**alone, "found": [], "cost_only": {}} == {**found, "found": [], "cost_only": {}}
    masked = found["cost_only"]["shortened"]
    assert (1, 41) == (masked["sessions"], masked["requests"])
    assert (
        f"1 session ({render_dollars(masked['dollars_before'])}) was shortened on the way" in said
    )


def test_where_all_was_masked_already_that_is_all_it_says(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    [path] = keep(home, MadeSession(turns=40, began=NOW - DAY))
    mask(path)
    found = replay(capsys)["logs"]
    assert (0, 0, 0) == (found["sessions"], found["dollars_before"], found["dollars_saved"])
    paid = render_dollars(found["cost_only"]["shortened"]["dollars_before"])
    assert say(capsys) == (
        f"1 session ({paid}) was shortened on the way, as behind obsmask. What that saved, obsmask "
        "status says; it is in no other figure here."
    )
    assert main(["tune", "--processes", "1"]) == 1
    assert capsys.readouterr().err.endswith(
        "obsmask: no request to try settings on: of 1 session, 1 shortened on the way, as behind "
        "obsmask, which tells nothing of other settings. obsmask run --observe -- AGENT sends a "
        "session whole, to be tried afterwards; without a path, --since 1y reads older ones\n"
    )


def test_a_broken_log_does_not_end_it(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    paths = keep(home, MadeSession(turns=4, began=NOW - DAY), MadeSession(3, seed=2, began=NOW))
    with paths[0].open("a") as file:
        file.write('{"type": "assistant", "mess')
    assert 9 == replay(capsys)["logs"]["requests"]


def test_both_accounts_are_told_where_that_matters(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    [path] = keep(home, MadeSession(turns=45, model="claude-opus-5-5", began=NOW - DAY))
    thought = {"type": "thinking", "thinking": "", "signature": "c2ln"}
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    for line in lines:
        if line["type"] == "assistant":
            line["message"]["content"].insert(0, thought)
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    said = say(capsys)
    assert "claude-opus-5-5 (binds its reasoning)" in said
    assert "Where the model binds its reasoning, other ways to save:" in said
    assert re.search(r"claude-code, claude-opus-5-5 +\$[\d.]+ +the same +\$[\d.]+ \(-\d+%", said)
    [model] = replay(capsys)["logs"]["by_model"]
    assert {"shorten", "clear", "drop"} == {*model["roads"]}
    assert 0 < model["roads"]["drop"]["dollars"] < model["dollars_after"]
    accounts = replay(capsys)["logs"]["accounts"]
    assert accounts["new"]["dollars_saved"] == 0 < accounts["old"]["dollars_saved"]
    assert "would have been saved on an Anthropic account made before" in say(capsys)
    assert replay(capsys, "--account", "old")["logs"]["dollars_saved"] > 0
    assert {} == replay(capsys, "--account", "new")["logs"]["accounts"]

    # Without an account named, it is what the proxy has found out, as long as that is one thing.
    for number, verdict in enumerate[Verdict](("takes", "refuses")):
        learn("h", f"model {number}", verdict)
        found = replay(capsys)["logs"]
        assert (found["dollars_saved"] > 0, found["accounts"] == {}) == (number == 0, number == 0)


def test_a_model_without_a_price_stands_apart(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    keep(
        home,
        MadeSession(turns=4, began=NOW - DAY, seed=1),
        MadeSession(turns=4, began=NOW - DAY, seed=2, model="nobodys-model"),
    )
    said = say(capsys)
    assert "Not in dollars, as no price is known: 5 requests worth" in said
    keep(home, MadeSession(turns=4, began=NOW - DAY, seed=1, model="nobodys-model"))
    assert re.search(r"Input worth [\d,]+ input tokens", say(capsys))


def test_tune_takes_logs_the_same_way(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A session that counts for its cost alone is as good as none."""
    _, odd = keep(
        home,
        MadeSession(turns=25, began=NOW - DAY, result=2_000),
        MadeSession(turns=5, began=NOW - DAY, result=2_000, seed=2),
    )
    odd.write_text(odd.read_text().replace('"cache_read_input_tokens":', '"x":'))
    assert main(["tune", "--processes", "1"]) == 0
    said = capsys.readouterr().out
    assert "obsmask config set" in said
    assert "settings on 26 requests; costs in US dollars" in said
    found = replay(capsys)["logs"]
    saved = found["dollars_saved"] / found["dollars_before"]
    assert f"present: saved {100 * saved:+.1f}% ±" in said


def test_a_report_shows_logs(
    home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    began = (NOW - DAY).replace(second=0)  # its first answer comes within the minute
    keep(home, MadeSession(turns=40, began=began))
    page = tmp_path / "page.html"
    say(capsys, "--report", page)
    written = page.read_text()
    assert "claude-sonnet-4-5-20250929" in written
    (data,) = re.findall(r'id="data">(.*?)</script>', written)
    places, conversations = (json.loads(data)[name] for name in ("places", "conversations"))
    for caption, name in (
        ("Sessions by agent and model", "claude-code, claude-sonnet-4-5"),
        ("Sessions by length", "31 to 100 tool turns"),
    ):
        ((first, *_),) = find_table(places["sessions-table"], caption)
        assert name == first
    # A session is known by its folder and its time, not by its id.
    began = began.astimezone()
    session = f"claude-code in app, {began:%B} {began.day}, {began:%Y, %H:%M}"
    ((first, *_),) = find_table(places["conversations-table"], "All conversations")
    assert session == first == conversations["c1"][0]["text"]


def start(home: Path, *arguments: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-m", "addon.commands.main", "replay", *arguments],
        env={**os.environ, "HOME": str(home), "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        bufsize=1,
    )


@pytest.mark.parametrize("processes", ["1", thorough("2")])
def test_ctrl_c_prints_what_is_known_so_far(home: Path, processes: str) -> None:
    few = [MadeSession(turns=5, seed=n, began=NOW - DAY) for n in range(6)]
    long = MadeSession(turns=1_500, result=1_000, began=NOW - 3 * DAY)
    keep(home, *few, long)
    with start(home, "--processes", processes) as run:
        assert run.stderr is not None
        for line in run.stderr:
            if "So far" in line:
                break
        run.send_signal(signal.SIGINT)
        out, _ = run.communicate(timeout=60)
    assert 130 == run.returncode
    assert out.startswith("Interrupted after ")
    assert "Input cost $" in out


def test_a_huge_session_shows_how_far_it_is_in_a_pipe(home: Path) -> None:
    keep(home, MadeSession(turns=8_000, result=1_000, began=NOW - DAY))
    with start(home, "--processes", "2") as run:
        assert run.stderr is not None
        seen = []
        for line in run.stderr:
            if found := re.search(r"0 sessions, ([\d,]+) requests", line):
                seen.append(int(found[1].replace(",", "")))
                if seen[-1]:
                    break
        run.terminate()
        run.communicate(timeout=60)
    assert seen
    assert 0 < seen[-1] < 8_001


# What is found


def test_logs_come_the_newest_first(home: Path) -> None:
    paths = keep(home, *(MadeSession(turns=1, seed=n, began=NOW - n * DAY) for n in (3, 1, 2)))
    found = find_logs(home)
    assert [paths[1], paths[2], paths[0]] == [log.path for log in merge_newest_first(found)]
    recent = find_logs_at_home(home, {}, NOW - 1.5 * DAY)
    assert [paths[1]] == [log.path for each in recent for log in each.logs]


def test_each_agent_is_there_once() -> None:
    agents = [kind.agent for kind in LOGS]
    assert len(agents) == len(set(agents))


# What the sums say


def logged(cost: float, saved: float) -> LoggedSession:
    money = Money(1, cost, cost - saved)
    totals = Totals(requests=1, bill=Bill(tokens=money, dollars=money))
    return LoggedSession("a", None, NOW, 5, False, {"m": totals})


def test_the_error_of_a_sample_shrinks_with_its_size_and_is_none_of_all() -> None:
    answer, errors = LogAnswer(), []
    for number in range(40):
        answer.add(logged(10.0, 2.0 if number % 2 else 4.0))
        errors.append(answer.sampling_error(40))
    assert 1.0 == errors[0]
    assert errors[3] > errors[10] > errors[30] > errors[39] == 0.0
    # 20 of 40, half of them at 20% and half at 40%: 2 x sqrt(.5 x .1^2 / 19 x 20 / 20)
    assert pytest.approx(2 * (0.5 * 0.01 / 19) ** 0.5, rel=1e-6) == errors[19]


@pytest.mark.parametrize(
    ("asked_again", "end"),
    [
        pytest.param(0, "would have saved $3.00 (20%).", id="none"),
        pytest.param(
            12,
            "would have saved $3.00 (20%); 4% if each of the 12 calls that asked again cost one "
            "more request.",
            id="some",
        ),
    ],
)
def test_the_headline_has_what_is_left_if_calls_that_asked_again_cost_something(
    asked_again: int, end: str
) -> None:
    answer, session = LogAnswer(), logged(15.0, 3.0)
    money = Money(75, 15.0, 12.0)
    bill = Bill(tokens=money, dollars=money).ask_again(asked_again)
    totals = dataclasses.replace(session.models["m"], requests=75, bill=bill)
    answer.add(session._replace(models={"m": totals}))
    assert describe_section(answer, None).sentence.endswith(f"with masking $12.00: {end}")


def test_what_was_passed_over_is_named_once() -> None:
    answer = LogAnswer()
    for kinds in ("abcdefg", "ab", "a"):
        answer.add(logged(1.0, 0.5)._replace(unread=frozenset(kinds)))
    *_, told = describe_section(answer, None).notes
    assert told.startswith("Entries of these kinds were passed over: a, b, ")
    assert told.endswith(", and 2 more.")
    assert sum(answer.unread.values()) == 10


# What it looks like


def test_all_that_is_said_fits_a_screen_of_80_by_24(
    home: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """With everything that may be said: many models, one without a price, some for the cost."""
    models = (
        *("claude-sonnet-4-5-20250929", "claude-opus-4-5-20251101", "nobodys-model"),
        *("claude-haiku-4-5-20251001", "claude-sonnet-4-20250514"),
    )
    turns = (5, 10, 30, 30, 50)
    keep(
        home,
        *(
            MadeSession(turns=count, model=model, seed=number, began=NOW - DAY)
            for number, (model, count) in enumerate(zip(models, turns, strict=True))
        ),
    )
    [odd] = keep(home, MadeSession(turns=40, seed=20, began=NOW - DAY))
    odd.write_text(odd.read_text().replace('"cache_read_input_tokens":', '"x":'))
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr("addon.commands.replay.open_console", lambda: Console(width=80))
    assert main(["replay"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) <= 22  # with what was found before it, and the shell's next line
    assert max(map(len, lines)) <= 80
    assert "Not in dollars" in "".join(lines)
    assert "shortened on the way" in "".join(lines)


def test_a_terminal_shows_what_was_found_and_how_far_it_is(home: Path) -> None:
    keep(home, *(MadeSession(turns=20, seed=n, began=NOW - DAY) for n in range(6)))
    command = (sys.executable, "-m", "addon.commands.main", "replay", "--processes", "1")
    env = {**os.environ, "HOME": str(home), "PYTHONPATH": str(ROOT), "TERM": "xterm"}
    with terminal(*command, env=env) as shown:
        shown.wait_for("claude-code: 6 logs in ~/.claude/projects")
        shown.wait_for(" sessions, ")  # the bar
        shown.wait_for("6 sessions since")
        assert shown.wait() == 0


def test_what_arrival_would_have_saved_is_told_apart(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """These sessions read files, which stay whole unless that is asked for."""
    keep(home, MadeSession(turns=20, result=20_000, began=NOW - DAY))
    options = ("--set", "arrival.enabled=true", "--set", "arrival.file_arguments=[]")
    found, whole = replay(capsys, *options), replay(capsys, *options[:2])
    logs, arrival = found["logs"], found["logs"]["arrival"]
    assert arrival["saved"] == logs["dollars_saved_at_arrival"] > 0
    assert logs["dollars_saved"] == pytest.approx(arrival["saved"] + arrival["saved_by_masking"])
    assert arrival == {**found["total"]["arrival"], "saved": arrival["saved"]}
    (by_model,) = logs["by_model"]
    assert logs["dollars_saved_at_arrival"] == by_model["dollars_saved_at_arrival"]
    assert "arrival" not in whole["logs"]
    assert "dollars_saved_at_arrival" not in whole["logs"]

    said = " ".join(say(capsys, *options).split())
    assert f"At arrival {arrival['results']} long results would have been shortened by" in said
    assert "At arrival" not in say(capsys, *options[:2])
