"""What may be in a shipped recording, and what must be: nothing here knows how it was made."""

import json
import re
import sys
from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import pytest
from mitmproxy import http

from addon.recordings.flows import find_exchanges, name_of, read_flows, write_flows
from addon.recordings.scrub import (
    EPOCH,
    REQUEST_HEADERS,
    RESPONSE_HEADERS,
    OwnRecording,
    check_for_leaks,
    scrub,
)
from masking.conversation import Conversation, find_answers, read_conversation
from masking.wire.usage import read_usage
from tests.support.places import recordings
from tests.support.scripted_actions import perform
from tests.support.sessions import CHATS, TALKS, each_of
from tests.tools.provider.script import SIDE_ANSWER
from tests.tools.studio.clients import CLIENTS
from tests.tools.studio.mcp_recorder import SERVER
from tests.tools.studio.scenario import Scenario, write_project

SCENARIOS = {client.scenario for client in CLIENTS.values()}

OWN = OwnRecording(
    server=SERVER,
    texts=frozenset({SIDE_ANSWER}.union(*(scenario.texts for scenario in SCENARIOS))),
)

MACHINE_PATH = re.compile(
    r"(?<![\w.])/(?:home|root|tmp|Users|var|opt|usr|work|mnt|private|srv)/(?!user\b|client\b)"
)
DATE = re.compile(r"\b20[2-9]\d-[01]\d-[0-3]\d\b|\b[0-2]\d:[0-5]\d:[0-5]\d\b|\bGMT\b")

PROTOCOL = "2025-11-25"
"""The version of MCP, which is a date."""

GOOGLE = "https://generativelanguage.googleapis.com"
URLS = {
    "http://mcp.example/documents",
    "http://mcp.example/streams",
    "https://api.openai.com/v1/chat/completions",
    "https://api.openai.com/v1/responses",
    "https://api.anthropic.com/v1/messages",
    f"{GOOGLE}/v1/models/gemini-3-pro-preview:generateContent",
    f"{GOOGLE}/v1/models/gemini-3-pro-preview:streamGenerateContent",
    f"{GOOGLE}/v1beta/models/gemini-3-pro-preview:streamGenerateContent",
    f"{GOOGLE}/v1beta/models/gemini-3.1-pro-preview:streamGenerateContent",
    f"{GOOGLE}/v1beta/models/gemini-3.8-flash:streamGenerateContent",
    "https://cloudcode-pa.googleapis.com/v1internal:streamGenerateContent",
    "https://ollama.com/api/chat",
}

LABELS = re.compile(
    r"<path>/project/[\w./]+</path>|</?content>|<type>file</type>|\(End of file - total \d+ lines\)"
    r"|</?untrusted_context>|\.\.\.|these words [a-z ;]+"
    r"|these words [a-z ;]+: /project/[\w./]+ \(1 replacements\)\. these words [a-z ;]+:"
    r"|\(no output\)|Directory: \(root\)|Error: \(none\)|Output: \(empty\)|Signal: 0"
    r"|Exit Code: [01]|Exit code: 1|Process Group PGID: 1000|---"
    r"|The file: /project/[\w./]+ has been updated\."
    r" Showing lines \d+-\d+ of \d+ from the edited file:"
    r"|The file /project/[\w./]+ has been updated successfully\. \(these words [a-z ]+\)"
    r"|Edit applied successfully\.|Successfully replaced 1 block\(s\) in [\w./]+\."
    r"|Command exited with code 1|Exit code 1"
    r"|Chunk ID: 000000|Wall time:? 0\.1 seconds|Process exited with code [0-9]+|Output:"
    r"|Original token count: \d+|Script completed|Exit code: 0"
    r"|Success\. Updated the following files:|M [\w./]+"
    r"|<shellId: \d+ completed with exit code [01]>|these words [a-z ]+:(?: /scratch/[\w.-]+)?|ok +"
    r"|Content of /project/[\w./]+:|\[Command exited with code 1\]|\[stderr\]"
    r"|Signal: \(none\)|Process Group PGID: \(none\)"
)
"""Lines that clients put around the output of a tool; none says more than what it is about."""

FRAME = re.compile(
    r"^(?:\d+(?:: ?|\t|$)| *\d+ \| ?|Output: |Command: "
    r"|Error executing tool Bash: Error \(exit code 1\): )"
)
"""What clients put before a line of it."""

CUT = re.compile(
    r"[^\n]*\n+\.\.\.(?: \[\d+ characters truncated\] |\[truncated \d+ chars\])\.\.\."
    r"\n+[^\n]*(?:\n|$)"
)
"""Where a client left out the middle of a text, with the lines that it cut through."""

ALL = each_of("path", recordings())
EVERY_TALK = each_of("path", TALKS)


@cache
def flows(path: Path) -> tuple[http.HTTPFlow, ...]:
    return tuple(read_flows(path))


@cache
def requests(path: Path) -> tuple[Conversation, ...]:
    """The requests of a recording that want an answer and offer tools, in order."""
    read = (found for each in flows(path) for found in conversations(each))
    return tuple(each for each in read if offers_tools(each))


def conversations(flow: http.HTTPFlow) -> Iterator[Conversation]:
    for exchange in find_exchanges(flow):
        if exchange.match.purpose == "answer":
            document = json.loads(exchange.body or b"")
            yield read_conversation(document, exchange.match.wire, flow.request.path)


def offers_tools(request: Conversation) -> bool:
    """Whether the model may call any; codex offers some in an item of its own."""
    in_items = any(isinstance(item, dict) and "tools" in item for item in request.items)
    return in_items or bool(request.wire.find_tools(request.body))


def longest(path: Path) -> Conversation:
    return max(requests(path), key=lambda each: len(each.items))


def turns(path: Path) -> list[list[str | None]]:
    """The call ids of each tool turn."""
    request = longest(path)
    answers = find_answers(request.elements, in_runs=request.wire.answers_in_runs)
    calls = ([c.call_id for at in answer for c in request.elements[at].calls] for answer in answers)
    return [ids for ids in calls if ids]


def results(path: Path) -> list[str]:
    return [result.text for result in longest(path).results]


def output(result: str) -> str:
    """The text itself, where a client sends it inside a JSON object of its own."""
    try:
        framed = json.loads(result)
    except ValueError:
        return result
    match framed:
        case {"returncode": _, "output": text, **others} if not others:  # mini-swe-agent
            return str(text)
        case [{"query": _, "result": text, "success": _, **others}]:  # cline
            assert others in ({}, {"error": "Command exited with code 1"})
            return str(text)
    return result


class Shape(NamedTuple):
    """What a session must be like; `largest` is between what and what the longest result has."""

    turns: int
    results: int
    requests: int
    largest: tuple[int, int] = (8_000, 10_500)
    tests: int = 12


SHAPES = {
    "scratch": Shape(20, 27, 21),
    "questions": Shape(16, 25, 21),
    "tour": Shape(27, 35, 28, largest=(14_000, 25_000), tests=13),
    "long": Shape(80, 99, 81, largest=(18_000, 25_000), tests=159),
}
CUT_RESULTS = {"cline-tour": (7_500, 8_500)}
"""What the longest result has where the client cuts them shorter than the others do."""


def shape_of(path: Path) -> Shape:
    shape = SHAPES[scenario_of(path)]
    return shape._replace(largest=CUT_RESULTS.get(name_of(path), shape.largest))


def scenario_of(path: Path) -> str:
    return name_of(path).rpartition("-")[2]


def test_there_are_recordings_of_every_scenario() -> None:
    """Clients with one task, others with several questions, long ones, tours, and one of MCP."""
    assert {*SHAPES, "files"} == {*map(scenario_of, recordings())}


@ALL
def test_nothing_looks_like_a_secret(path: Path) -> None:
    for number, each in enumerate(flows(path)):
        check_for_leaks(each, number)


@ALL
def test_scrubbing_once_more_changes_nothing(path: Path) -> None:
    for number, each in enumerate(flows(path)):
        assert scrub(each, number, OWN).get_state() == each.get_state()


@ALL
def test_only_allowed_headers_are_left(path: Path) -> None:
    for each in flows(path):
        assert each.response
        assert {name.lower() for name in each.request.headers} <= REQUEST_HEADERS
        assert {name.lower() for name in each.response.headers} <= RESPONSE_HEADERS
        assert "(" not in each.request.headers["user-agent"]


@ALL
def test_nothing_of_the_machine_is_left(path: Path, tmp_path: Path) -> None:
    write_flows(tmp_path / "plain.flow", flows(path))
    text = (tmp_path / "plain.flow").read_text(encoding="utf-8").replace(PROTOCOL, "")
    assert (MACHINE_PATH.findall(text), DATE.findall(text)) == ([], [])
    for number, each in enumerate(flows(path)):
        assert each.request.url in URLS
        assert each.client_conn.peername == ("127.0.0.1", 50000)
        assert not each.client_conn.certificate_list
        assert not each.server_conn.certificate_list
        assert (each.server_conn.peername, each.metadata) == (None, {})
        assert each.request.timestamp_start == EPOCH + number


@ALL
def test_it_is_of_moderate_size(path: Path) -> None:
    assert path.stat().st_size < 2_000_000


@EVERY_TALK
def test_it_holds_a_whole_session(path: Path) -> None:
    lengths = [len(each.items) for each in requests(path)]
    assert len(results(path)) == sum(map(len, turns(path)))
    sizes = len(turns(path)), len(results(path)), len(lengths)
    assert sizes == shape_of(path)[:3]
    assert all(earlier < later for earlier, later in pairwise(lengths))


@EVERY_TALK
def test_a_request_repeats_the_one_before(path: Path) -> None:
    for earlier, later in pairwise(requests(path)):
        before = [*map(earlier.wire.unmark, earlier.items)]
        assert [*map(later.wire.unmark, later.items[: len(before)])] == before


@EVERY_TALK
def test_results_are_of_every_kind(path: Path) -> None:
    found = [output(each) for each in results(path)]
    sizes = sorted(map(len, found))
    least, most = shape_of(path).largest
    assert (sizes[0] < 250, least < sizes[-1] < most) == (True, True)
    assert sum(size > 2_000 for size in sizes) >= 5
    assert any("Traceback (most recent call last)" in each for each in found)
    assert any("No such file or directory" in each for each in found)
    assert any(f"{shape_of(path).tests} passed, 0 failed" in each for each in found)


@EVERY_TALK
def test_calls_are_parallel(path: Path) -> None:
    assert {len(ids) for ids in turns(path)} == {1, 2, 3}


@each_of("path", CHATS)
def test_ids_come_again(path: Path) -> None:
    """Copilot CLI and the newest qwen-code give a call another id if its own was there before."""
    come_again = [ids[0] for ids in turns(path)].count("call_0")
    gives_own = name_of(path) in ("copilot-tour", "qwen-code-tour")
    assert come_again == (1 if gives_own else len(turns(path)))


@pytest.mark.thorough
@pytest.mark.skipif(sys.version_info[:2] != (3, 11), reason="tracebacks differ between Pythons")
def test_results_hold_our_own_lines_and_labels(tmp_path: Path) -> None:
    """A line is what an action gives without a client, the action, or a label; nothing else."""
    given = (outcomes(each, tmp_path / str(number)) for number, each in enumerate(SCENARIOS))
    lines = {line for each in given for text in each for line in text.splitlines()}
    ours = lines | {line.strip() for line in lines} | {line.removeprefix("./") for line in lines}
    strange = [
        (name_of(path), line)
        for path in TALKS
        for result in results(path)
        for line in CUT.sub("", output(result)).splitlines()
        if not (ours & {line, FRAME.sub("", line)} or LABELS.fullmatch(line))
    ]
    assert strange == []


def outcomes(scenario: Scenario, folder: Path) -> Iterator[str]:
    """What a scenario's actions give, one by one, and the actions themselves."""
    write_project(scenario.project, folder)
    for text in perform(scenario.actions, folder):
        yield text.replace(str(folder), "/project")
    yield from (action.what for action in scenario.actions)


@EVERY_TALK
def test_the_provider_reports_cached_tokens(path: Path) -> None:
    *_, last = find_exchanges(flows(path)[-1])
    usage = read_usage(last.answer or b"")
    request = longest(path)
    wants_marks = request.wire.name == "messages" and not request.marks.are_there
    assert usage
    if request.wire.name == "ollama":  # which does not say
        assert usage.cached is None
    else:
        assert (usage.cached == 0) if wants_marks else ((usage.cached or 0) >= 1_024)
