"""What a real proxy masks is read back byte by byte: by `obsmask recall`, and by an MCP client."""

import asyncio
import json
import re
import stat
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import pytest
from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.types import CallToolResult, TextContent

from addon.commands.main import main
from addon.recall import RecallFolder
from masking.window.placeholder import recall_id
from tests.live.harness import (
    SECONDS,
    Live,
    Upstream,
    answer,
    environment,
    eventually,
    running_addon,
)
from tests.support.builders import OLD
from tests.support.wire_conversations import WRITERS, Step, User, Writer, in_each, turn, turns

RECALLING = b"""[observation_masking.schema1]
window_turns = 2
cache_pricing = "none"
placeholder_template = "[{tool_name} {arguments}: obsmask recall {recall}]"

[observation_masking.recall]
enabled = true
"""
OBSMASK = (sys.executable, "-m", "addon.commands.main")
TAIL = "\n<system-reminder>\nGo on.\n</system-reminder>"
SPOKEN = [writer for writer in WRITERS if writer.name != "made up"]


class Proxies(NamedTuple):
    """Two proxies that share the user's state directory."""

    both: tuple[Live, Live]
    state: Path

    @property
    def folder(self) -> Path:
        return self.state / "observation-masking" / "recall"

    def read(self, recalled: str) -> bytes:
        """Return what is kept under an id, once it is there."""
        eventually(lambda: (self.folder / recalled).exists() or None)
        return RecallFolder(self.folder).read(recalled)

    def run(self, *arguments: str) -> "subprocess.CompletedProcess[bytes]":
        return subprocess.run(
            [*OBSMASK, *arguments],
            env=environment(self.state, XDG_STATE_HOME=str(self.state)),
            capture_output=True,
            timeout=SECONDS,
        )


@pytest.fixture(scope="module")
def proxies(upstream: Upstream, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Proxies]:
    state = tmp_path_factory.mktemp("state")
    one, two = (
        running_addon(
            tmp_path_factory.mktemp(name), upstream, config=RECALLING, XDG_STATE_HOME=str(state)
        )
        for name in ("one", "two")
    )
    with one as first, two as second:
        yield Proxies((first, second), state)


def send(live: Live, writer: Writer, steps: Sequence[Step]) -> str:
    """Send a conversation; the body that arrives."""
    items = [item for step in steps for item in writer.spell(step)]
    live.sink.answers[writer.path] = answer()
    return live.send(writer.path, json.dumps(writer.wrap(items)).encode()).body.decode()


def find_ids(body: str) -> list[str]:
    return re.findall(r"obsmask recall ([0-9a-f]{16})\]", body)


@in_each(SPOKEN)
def test_each_masked_text_is_read_back_as_it_was(proxies: Proxies, writer: Writer) -> None:
    texts = [f'{writer.name} é😀 \\ " \r\n\t\x01 {OLD}', f"{writer.name} 2 {OLD}"]
    steps = [User(), *turn("a", texts[0]), *turn("b", texts[1]), *turns(2)]
    bodies = {send(live, writer, steps) for live in proxies.both}
    assert 1 == len(bodies), "both proxies send the same bytes"
    ids = find_ids(bodies.pop())
    assert [recall_id(text) for text in texts] == ids
    assert [text.encode() for text in texts] == [proxies.read(each) for each in ids]


@in_each([w for w in SPOKEN if w.has_lists])
def test_each_part_of_a_list_is_read_back_by_itself(proxies: Proxies, writer: Writer) -> None:
    parts = (f"{writer.name} part 1 {OLD}", f"{writer.name} part 2 {OLD}")
    steps = [User(), *turn("a", parts), *turns(2)]  # type: ignore[arg-type]
    ids = find_ids(send(proxies.both[0], writer, steps))
    assert [part.encode() for part in parts] == [proxies.read(each) for each in ids]


def test_a_reminder_behind_a_result_stays_and_is_not_kept(proxies: Proxies) -> None:
    writer = next(writer for writer in SPOKEN if writer.name == "messages")
    text = f"{OLD}, with a reminder"
    body = send(proxies.both[0], writer, [User(), *turn("a", text + TAIL), *turns(2)])
    [recalled] = find_ids(body)
    assert f"{recalled}]{json.dumps(TAIL)[1:-1]}" in body
    assert text.encode() == proxies.read(recalled)


def keep(proxies: Proxies, text: str) -> str:
    """Have a text masked and kept; its id."""
    [recalled] = find_ids(send(proxies.both[0], SPOKEN[0], [User(), *turn("a", text), *turns(2)]))
    assert text.encode() == proxies.read(recalled)
    return recalled


def test_the_command_prints_it(proxies: Proxies) -> None:
    text = f'é😀 \\ " \r\n\t\x01 {OLD}'
    assert text.encode() == proxies.run("recall", keep(proxies, text)).stdout


def test_the_files_are_for_their_user_alone(proxies: Proxies) -> None:
    path = proxies.folder / keep(proxies, f"private {OLD}")
    assert [0o700, 0o600] == [stat.S_IMODE(p.stat().st_mode) for p in (proxies.folder, path)]


def test_the_start_says_where_content_is_kept(proxies: Proxies) -> None:
    line = f"masked content is kept in {proxies.folder}\n"
    counts = eventually(
        lambda: c if all(c := [live.proxy.log.count(line) for live in proxies.both]) else None
    )
    assert [1, 1] == counts


def test_the_list_tells_ids_sizes_and_ages_and_no_content(proxies: Proxies) -> None:
    recalled = keep(proxies, f"listed {OLD}")
    listed = proxies.run("recall", "--list").stdout.decode().splitlines()
    assert f"{recalled}          337 bytes  used " in "".join(listed)
    line = r"[0-9a-f]{16} +[\d,]+ bytes  used \d+ (seconds|minutes|hours|days) ago"
    assert all(re.fullmatch(line, each) for each in listed)


def test_an_unknown_id_is_one_line_and_a_failure(proxies: Proxies) -> None:
    ended = proxies.run("recall", "0" * 16)
    assert (1, b"") == (ended.returncode, ended.stdout)
    assert [f"obsmask: no text with the id '{'0' * 16}' is kept in {proxies.folder}"] == (
        ended.stderr.decode().splitlines()
    )


@pytest.mark.parametrize("arguments", [(), ("--list", "ab")])
def test_it_wants_an_id_or_the_list(arguments: tuple[str, ...]) -> None:
    assert 2 == main(["recall", *arguments])


def test_a_folder_can_be_named(
    proxies: Proxies, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    recalled = keep(proxies, f"named {OLD}")
    assert 0 == main(["recall", "--folder", str(proxies.folder), recalled])
    assert f"named {OLD}".encode() == capsysbinary.readouterr().out
    assert 1 == main(["recall", "--folder", str(proxies.state / "nowhere"), "--list"])


def test_an_mcp_client_recalls_it(proxies: Proxies) -> None:
    text = f"for MCP é😀 {OLD}"
    recalled = keep(proxies, text)
    server = StdioServerParameters(
        command=OBSMASK[0],
        args=[*OBSMASK[1:], "mcp"],
        env=environment(proxies.state, XDG_STATE_HOME=str(proxies.state)),
    )

    async def talk() -> tuple[list[str], CallToolResult, CallToolResult]:
        async with stdio_client(server) as streams, ClientSession(*streams) as session:
            await session.initialize()
            tools = [tool.name for tool in (await session.list_tools()).tools]
            found = await session.call_tool("recall", {"id": recalled})
            return tools, found, await session.call_tool("recall", {"id": "0" * 16})

    tools, found, missing = asyncio.run(talk())
    assert ["recall"] == tools
    assert [TextContent(type="text", text=text)] == found.content
    assert not found.isError
    assert missing.isError
    assert "no text with the id" in str(missing.content)


def test_switching_it_on_and_off_holds_from_the_next_request_on(
    upstream: Upstream, tmp_path: Path
) -> None:
    folder = tmp_path / "kept"
    config = RECALLING + f"folder = '{folder}'\n".encode()
    off = config.replace(b"recall {recall}", b"").replace(b"enabled = true", b"enabled = false")
    with running_addon(tmp_path, upstream, config=off) as live:
        send(live, SPOKEN[0], [User(), *turn("a", f"off {OLD}"), *turns(2)])
        live.configure(config)
        send(live, SPOKEN[0], [User("Again."), *turn("a", f"on {OLD}"), *turns(2)])
        eventually(lambda: folder.exists() or None)
        live.configure(off)
        send(live, SPOKEN[0], [User("Off."), *turn("a", f"off again {OLD}"), *turns(2)])
    assert [recall_id(f"on {OLD}")] == [k.recall_id for k in RecallFolder(folder).list_files()]


def test_a_folder_that_cannot_be_used_leaves_the_traffic_alone(
    upstream: Upstream, tmp_path: Path
) -> None:
    (tmp_path / "blocked").write_text("in the way")
    config = RECALLING + f"folder = '{tmp_path / 'blocked'}'\n".encode()
    with running_addon(tmp_path, upstream, config=config) as live:
        for number in range(3):
            steps = [User(str(number)), *turn("a", f"{number} {OLD}"), *turns(2)]
            assert [recall_id(f"{number} {OLD}")] == find_ids(send(live, SPOKEN[0], steps))
        warning = "masked content is not kept for recall: "
        eventually(lambda: warning in live.proxy.log or None)
    assert 1 == live.proxy.log.count(warning)
