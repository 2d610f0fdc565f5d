"""What may be in a shipped recording, and what must be: nothing here knows how it was made."""

import json
import re
import sys
from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from mitmproxy import http

from addon.proxy.shipped import recordings
from addon.recordings.flows import name_of, read_flows, write_flows
from addon.recordings.leak_check import check
from addon.recordings.provider.script import SIDE_ANSWER
from addon.recordings.scrub import EPOCH, REQUEST_HEADERS, RESPONSE_HEADERS, scrub
from addon.recordings.scrubbed_text import OwnRecording
from addon.recordings.studio.clients import CLIENTS
from addon.recordings.studio.mcp_recorder import SERVER
from addon.recordings.studio.scenario import Scenario, write_project
from tests.scripted_actions import perform
from tests.sessions import CHATS

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

URLS = {
    "http://mcp.example/documents",
    "http://mcp.example/streams",
    "https://api.openai.com/v1/chat/completions",
}

LABELS = re.compile(
    r"<path>/project/[\w./]+</path>|</?content>|<type>file</type>|\(End of file - total \d+ lines\)"
    r"|\(no output\)|Directory: \(root\)|Error: \(none\)|Output: \(empty\)|Signal: 0"
    r"|Exit Code: [01]|Exit code: 1|Process Group PGID: 1000|---"
    r"|The file: /project/[\w./]+ has been updated\."
    r" Showing lines \d+-\d+ of \d+ from the edited file:"
)
"""Lines that clients put around the output of a tool; none says more than what it is about."""

FRAME = re.compile(r"^(?:\d+: ?|Output: |Command: )")
"""What clients put before a line of it."""

ALL = pytest.mark.parametrize("path", recordings(), ids=name_of)
TALKS = pytest.mark.parametrize("path", CHATS, ids=name_of)


@cache
def flows(path: Path) -> tuple[http.HTTPFlow, ...]:
    return tuple(read_flows(path))


def request(flow: http.HTTPFlow) -> Any:  # noqa: ANN401 - JSON
    return json.loads(flow.request.content or b"")


def conversation(path: Path) -> list[dict[str, Any]]:
    """The messages of the longest request."""
    return max((request(each)["messages"] for each in flows(path)), key=len)


def turns(path: Path) -> list[list[str]]:
    """The call ids of each tool turn."""
    return [
        [call["id"] for call in message["tool_calls"]]
        for message in conversation(path)
        if message.get("tool_calls")
    ]


def results(path: Path) -> list[str]:
    return [
        content if isinstance(content, str) else "".join(part["text"] for part in content)
        for message in conversation(path)
        if message["role"] == "tool"
        for content in [message["content"]]
    ]


def output(result: str) -> str:
    """The text itself, where a client sends it inside a JSON object of its own."""
    try:
        framed = json.loads(result)
    except ValueError:
        return result
    if not isinstance(framed, dict) or "output" not in framed:
        return result
    assert framed.keys() == {"returncode", "output"}
    return str(framed["output"])


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
    "long": Shape(80, 99, 81, largest=(20_000, 25_000), tests=159),
}


def scenario_of(path: Path) -> str:
    return name_of(path).rpartition("-")[2]


def test_there_are_recordings_of_every_scenario() -> None:
    """Five clients with one task, others with several questions, a long one, and one of MCP."""
    found = sorted(map(scenario_of, recordings()))
    assert found == ["files", "long", "questions", *["scratch"] * 5]


@ALL
def test_nothing_looks_like_a_secret(path: Path) -> None:
    for number, each in enumerate(flows(path)):
        check(each, number)


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


@TALKS
def test_it_holds_a_whole_session(path: Path) -> None:
    lengths = [len(request(each)["messages"]) for each in flows(path) if request(each).get("tools")]
    assert len(results(path)) == sum(map(len, turns(path)))
    sizes = len(turns(path)), len(results(path)), len(lengths)
    assert sizes == SHAPES[scenario_of(path)][:3]
    assert all(earlier < later for earlier, later in pairwise(lengths))


@TALKS
def test_a_request_repeats_the_one_before(path: Path) -> None:
    requests = [request(each)["messages"] for each in flows(path) if request(each).get("tools")]
    for earlier, later in pairwise(requests):
        assert later[: len(earlier)] == earlier


@TALKS
def test_results_are_of_every_kind(path: Path) -> None:
    found = [output(each) for each in results(path)]
    sizes = sorted(map(len, found))
    least, most = SHAPES[scenario_of(path)].largest
    assert (sizes[0] < 250, least < sizes[-1] < most) == (True, True)
    assert sum(size > 2_000 for size in sizes) >= 5
    assert any("Traceback (most recent call last)" in each for each in found)
    assert any("No such file or directory" in each for each in found)
    assert any(f"{SHAPES[scenario_of(path)].tests} passed, 0 failed" in each for each in found)


@TALKS
def test_calls_are_parallel_and_their_ids_come_again(path: Path) -> None:
    assert {len(ids) for ids in turns(path)} == {1, 2, 3}
    assert all(ids[0] == "call_0" for ids in turns(path))


@pytest.mark.skipif(sys.version_info[:2] != (3, 11), reason="tracebacks differ between Pythons")
def test_results_hold_our_own_lines_and_labels(tmp_path: Path) -> None:
    """A line is what an action gives without a client, the action, or a label; nothing else."""
    given = (outcomes(each, tmp_path / str(number)) for number, each in enumerate(SCENARIOS))
    lines = {line for each in given for text in each for line in text.splitlines()}
    ours = lines | {line.strip() for line in lines}
    strange = [
        (name_of(path), line)
        for path in CHATS
        for result in results(path)
        for line in output(result).splitlines()
        if not (ours & {line, FRAME.sub("", line)} or LABELS.fullmatch(line))
    ]
    assert strange == []


def outcomes(scenario: Scenario, folder: Path) -> Iterator[str]:
    """What a scenario's actions give, one by one, and the actions themselves."""
    write_project(scenario.project, folder)
    for text in perform(scenario.actions, folder):
        yield text.replace(str(folder), "/project")
    yield from (action.what for action in scenario.actions)


@TALKS
def test_the_provider_reports_cached_tokens(path: Path) -> None:
    last = flows(path)[-1].response
    assert last
    cached = re.search(rb'"cached_tokens": ?(\d+)', last.content or b"")
    assert cached
    assert int(cached[1]) >= 1_024
