"""How a line of ours is broken on a terminal, and left whole elsewhere."""

import fcntl
import io
import os
import struct
import sys
import termios
from pathlib import Path

import pytest
from rich.console import Console

from addon.commands.lines import say
from addon.commands.terminal import print_text

LINE = (
    "claude-code: ANTHROPIC_BASE_URL leads through the proxy to https://api.anthropic.com; to see "
    "each request, type obsmask page --print --port 8080 --proxy http://127.0.0.1:8080"
)


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        (
            80,
            [
                "obsmask: claude-code: ANTHROPIC_BASE_URL leads through the proxy to",
                "https://api.anthropic.com; to see each request, type",
                "obsmask page --print --port 8080 --proxy http://127.0.0.1:8080",
            ],
        ),
        (400, [f"obsmask: {LINE}"]),
    ],
)
def test_on_a_terminal_a_line_is_broken_at_its_words(
    columns: int, expected: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    ours, terminal = os.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    with os.fdopen(terminal, "w") as screen:
        monkeypatch.setattr(sys, "stderr", screen)
        say(LINE)
        screen.flush()
        seen = ""
        while not seen.endswith("8080\r\n"):  # it may come in pieces
            seen += os.read(ours, 10_000).decode()
    assert expected == seen.splitlines()
    os.close(ours)


def test_in_a_file_a_line_stays_whole(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with (tmp_path / "log").open("w") as file:
        monkeypatch.setattr(sys, "stderr", file)
        say(LINE)
        say("")
    assert f"obsmask: {LINE}\n" == (tmp_path / "log").read_text()


TEXT = "A replay prices tokens.\n\nThis changes it:\nobsmask config add 'prices={ read = 0.1 }'"


@pytest.mark.parametrize(
    ("is_terminal", "expected"),
    [
        (
            True,
            "A replay prices\ntokens.\n\nThis changes it:\n"
            "obsmask config add 'prices={ read = 0.1 }'\n",
        ),
        (False, f"{TEXT}\n"),
    ],
    ids=["terminal", "file"],
)
def test_a_text_is_broken_at_its_words_and_a_command_is_not(
    is_terminal: bool, expected: str
) -> None:
    screen = io.StringIO()
    print_text(Console(file=screen, width=20, force_terminal=is_terminal), TEXT)
    assert expected == screen.getvalue()
