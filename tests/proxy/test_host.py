"""What the addon changes in its process: memory, the log, standard output, and all of it back."""

import asyncio
import contextlib
import io
import logging
import os
import platform
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from mitmproxy import ctx
from mitmproxy.addons.dumper import Dumper
from mitmproxy.addons.save import Save
from mitmproxy.addons.termlog import TermLog
from mitmproxy.log import LegacyLogEvents, LogEntry
from mitmproxy.proxy.layers.websocket import Fragmentizer
from mitmproxy.test import taddons
from mitmproxy.test.tflow import tflow
from mitmproxy.test.tutils import tresp

from addon.config import ConfigFile, render_start
from addon.proxy.host import Output, prepare_host
from masking.config import parse_settings
from masking.errors import ConfigError
from tests.live.harness import ON, environment, eventually, run_mitmdump

# What is printed: odd characters in names, and lines of a log, as soon as they are written.


ODD = '[observation_masking.redaction]\nenabled = true\ntool_names = ["\\u001b[31mlöschen"]\n'


def print_in(encoding: str, text: str) -> bytes:
    """Return what a program prints of a text where the terminal asks for an encoding."""
    program = (
        f"from addon.proxy.host import print_any_character\nprint_any_character(); print({text!a})"
    )
    return subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONIOENCODING": encoding},
        capture_output=True,
        check=True,
    ).stdout.strip()


@pytest.mark.parametrize(
    ("encoding", "text", "expected"),
    [
        pytest.param("utf-8", "für", "für".encode(), id="a character"),
        pytest.param("ascii", "für €", b"f\\xfcr \\u20ac", id="a character that is lacking"),
        pytest.param("utf-8", "f\udcfcr", b"f\xfcr", id="a byte of a file name"),
        pytest.param("ascii", "ü\udcfcü", b"\\xfc\xfc\\xfc", id="both"),
        pytest.param("utf-8", "\ud800", b"\\ud800", id="no character at all"),
    ],
)
def test_any_character_can_be_printed(encoding: str, text: str, expected: bytes) -> None:
    assert expected == print_in(encoding, text)


def test_a_shell_gets_the_bytes_of_a_path(tmp_path: Path) -> None:
    folder = tmp_path / "für alle"
    variables = {"HOME": str(tmp_path), "XDG_DATA_HOME": str(folder), "PYTHONIOENCODING": "ascii"}
    shown = subprocess.run(
        [sys.executable, "-m", "addon.commands.main", "env", "--force"],
        env={**os.environ, **variables},
        capture_output=True,
        check=True,
    ).stdout
    assert f"export SSL_CERT_FILE='{folder}/".encode() in shown


def test_a_home_that_mitmproxy_cannot_name_is_told_with_the_way_out(tmp_path: Path) -> None:
    home = tmp_path / "für alle"
    locale = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    failed = subprocess.run(
        [sys.executable, "-m", "addon.commands.main", "env", "--force"],
        env={**os.environ, "HOME": str(home), "XDG_DATA_HOME": str(tmp_path), **locale},
        capture_output=True,
        check=False,
    )
    _, said = failed.stderr.decode().splitlines(keepends=True)  # the first: no proxy answers
    assert 1 == failed.returncode
    assert said.startswith("obsmask: mitmproxy cannot name ")
    assert said.endswith("/.mitmproxy in this locale: set PYTHONUTF8=1\n")


def test_no_escape_character_reaches_the_start_line(tmp_path: Path) -> None:
    (tmp_path / "a\n\x1b.toml").write_text(ODD, encoding="utf-8")
    line = render_start(ConfigFile(tmp_path / "a\n\x1b.toml"))
    assert line.isprintable()
    assert "redacts the results of \N{REPLACEMENT CHARACTER}[31mlöschen" in line


def test_no_escape_character_reaches_a_message() -> None:
    with pytest.raises(ConfigError) as raised:
        parse_settings(b'[observation_masking.schema1]\n"\\u001b[31m" = 1')
    assert str(raised.value).isprintable()


def test_a_file_may_begin_with_a_byte_order_mark() -> None:
    assert parse_settings(ON) == parse_settings("\ufeff".encode() + ON) is not None


@pytest.mark.live
@pytest.mark.parametrize(
    "variables",
    [{"PYTHONIOENCODING": "ascii"}, {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}],
    ids=["asked for", "of the locale"],
)
def test_the_proxy_starts_whatever_the_encoding(tmp_path: Path, variables: dict[str, str]) -> None:
    """A home of another name would be mitmproxy's to read: it does not, in the second case."""
    (tmp_path / "für alle").mkdir()
    config = tmp_path / "für alle" / "config.toml"
    config.write_text(ODD, encoding="utf-8")
    option = f"mask_config={config}"
    ended = run_mitmdump(tmp_path, "-nr", os.devnull, "--set", option, **variables)
    assert "redacts the results of" in ended.stdout
    assert "Traceback" not in ended.stdout


@pytest.mark.live
def test_a_line_of_the_log_is_there_when_it_is_written(tmp_path: Path) -> None:
    with (log := tmp_path / "log").open("wb") as output:
        started = subprocess.Popen(
            [sys.executable, "-m", "addon.commands.main", "proxy", "--port", "0"],
            env=environment(tmp_path),
            stdout=output,
            cwd=tmp_path,
        )
    try:
        eventually(lambda: b"eval " in log.read_bytes() or None)
    finally:
        started.terminate()
        started.wait()


# A body's memory is not taken from the system anew for each copy of it.


PROGRAM = """
import resource
import threading

from mitmproxy.test import taddons
from mitmproxy.test.tflow import tflow
from mitmproxy.test.tutils import tresp
from addon.proxy.host import Output, prepare_host

def copy_bodies() -> None:
    for _ in range(50):
        b"x" * 1_000_000

with taddons.context() as context:
    prepare_host(context.master.addons)
copy_bodies()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
copy_bodies()
thread = threading.Thread(target=copy_bodies)
thread.start()
thread.join()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""

PAGES_OF_A_BODY = 1_000_000 // 4_096


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other C libraries have no such call")
def test_copies_of_a_body_share_its_pages() -> None:
    shown = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, check=True, text=True
    ).stdout
    # Each of two threads takes the pages once; all the rest of a hundred copies has them.
    assert int(shown) < 10 * PAGES_OF_A_BODY


# mitmproxy's log lines go to addons that take them, and streamed answers need no line.


class Taking:
    """An addon that takes log lines as before mitmproxy 9."""

    def __init__(self) -> None:
        self.taken: list[str] = []

    def add_log(self, entry: LogEntry) -> None:
        self.taken.append(entry.msg)


async def log_lines(*addons: object) -> None:
    """Log two lines while a mitmproxy with these addons runs, and let its loop go round."""
    with taddons.context() as context, prepare_host(context.master.addons):
        context.master.addons.add(*addons)  # later, as a script that is edited
        server = logging.getLogger("mitmproxy.proxy.server")
        server.warning("Streaming response from example.test.")
        server.warning("client connect")
        await asyncio.sleep(0)


def test_an_addon_that_is_loaded_later_takes_every_line_that_says_something() -> None:
    taking = Taking()
    asyncio.run(log_lines(taking))
    (line,) = taking.taken
    assert line.endswith("client connect")


def test_without_such_an_addon_a_line_is_not_made_for_any(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[logging.LogRecord] = []

    def emit(handler: LegacyLogEvents, record: logging.LogRecord) -> None:
        if handler.master is ctx.master:  # not one that an earlier test has left behind
            made.append(record)

    monkeypatch.setattr(LegacyLogEvents, "emit", emit)
    asyncio.run(log_lines())
    assert [] == made
    asyncio.run(log_lines(Taking()))
    assert ["client connect"] == [record.getMessage() for record in made]


def test_that_an_answer_is_streamed_is_not_said(caplog: pytest.LogCaptureFixture) -> None:
    asyncio.run(log_lines())
    assert ["client connect"] == [record.getMessage() for record in caplog.records]


def test_a_cancelled_task_is_no_error_not_even_after_the_end(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """mitmproxy cancels what its connections do when its addons are done."""
    with taddons.context() as context:
        prepare_host(context.master.addons).close()
        for error in (asyncio.CancelledError(), ValueError()):
            logging.getLogger("asyncio").error(f"{type(error).__name__}", exc_info=error)
    assert ["ValueError"] == caplog.messages


# What cannot be printed or recorded ends nothing.


def test_lines_that_cannot_be_printed_are_lost_and_a_later_line_says_so(tmp_path: Path) -> None:
    with (
        Path("/dev/full").open("w", buffering=1) as full,
        (tmp_path / "log").open("w", buffering=1) as room,
    ):
        output = Output(full)
        print("lost\nin one", file=output)
        print("lost", file=output)
        os.dup2(room.fileno(), full.fileno())  # somebody has made room
        print("said", file=output)
        print("said again", file=output)
    lines = (tmp_path / "log").read_text().splitlines()
    notice = "Up to 2 lines could not be written here."
    assert [
        "lost",
        "in one",
        "",
        notice,
        "said",
        "said again",
    ] == lines  # the first was kept


def test_a_reader_that_stands_still_holds_nothing_up() -> None:
    """One that is slow gets everything."""
    reading, writing = os.pipe()
    with os.fdopen(writing, "w", buffering=1) as pipe, os.fdopen(reading, "rb") as reader:
        output, line = Output(pipe), "x" * 99_999
        print(line, file=output)  # more than a pipe takes
        print("lost", file=output)
        held = len(reader.read1(1 << 20))
        assert 0 < held < len(line)
        print("said", file=output)
        slow = threading.Thread(target=print, args=(line,), kwargs={"file": output})
        slow.start()
        said = b""
        while not said.endswith(b"x\n"):
            said += reader.read1(4_096)
        slow.join()
        notice = "\nUp to 2 lines could not be written here.\n"
        assert f"{notice}said\n{line}\n" == said.decode()


def test_a_pipe_that_nobody_reads_any_more_ends_nothing() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with contextlib.suppress(BrokenPipeError), os.fdopen(writing, "w", buffering=1) as pipe:
        print("lost", file=Output(pipe))


def test_mitmproxy_prints_its_log_and_its_flows_so(monkeypatch: pytest.MonkeyPatch) -> None:
    with Path("/dev/full").open("w", buffering=1) as full, taddons.context(Dumper()) as context:
        monkeypatch.setattr(sys, "stdout", full)
        log, dumper = TermLog(full), context.master.addons.get("dumper")
        dumper.outfp = full
        try:
            for _ in range(2):
                prepare_host(context.master.addons).close()
            log.logger.emit(logging.LogRecord("a", logging.INFO, "", 0, "lost", None, None))
            dumper.echo("lost")
            assert log.logger.file is not full is not dumper.outfp
        finally:
            log.uninstall()
            with contextlib.suppress(OSError):
                full.close()


def test_a_recording_that_cannot_be_written_ends_alone(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with taddons.context(Save()) as context:
        save = context.master.addons.get("save")
        context.options.save_stream_file = "/dev/full"
        for _ in range(2):
            prepare_host(context.master.addons).close()
        for _ in range(20):  # more than is held in memory
            flow = tflow(resp=tresp(content=bytes(10_000)))
            save.request(flow)
            save.response(flow)
    assert [
        "the recording /dev/full ends here: [Errno 28] No space left on device"
    ] == caplog.messages


# Messages of a WebSocket.


def test_a_changed_message_goes_out_in_one_frame() -> None:
    """In several, characters would be cut in two."""
    text = "é".encode() * 10_000
    with taddons.context() as context, prepare_host(context.master.addons):
        (frame,) = Fragmentizer([b"x"], is_text=True)(text)
    assert (text.decode(), True) == (frame.data, frame.message_finished)


# All of it, again and back.


def read_process() -> dict[str, object]:
    """Return all that is changed, as far as it can be read, and can be undone."""
    handlers = (each for each in logging.getLogger().handlers if isinstance(each, LegacyLogEvents))
    return {
        "filters": [*logging.getLogger("mitmproxy.proxy.server").filters],
        "filters of events": [len(each.filters) for each in handlers],
        "interval": sys.getswitchinterval(),
        "fragments": Fragmentizer.FRAGMENT_SIZE,
        "standard output": (sys.stdout.errors, getattr(sys.stdout, "line_buffering", None)),
    }


def test_loading_the_script_again_changes_nothing_more() -> None:
    """mitmproxy does so whenever it is edited."""
    asyncio_log = logging.getLogger("asyncio")
    with taddons.context() as context, prepare_host(context.master.addons):
        first, filters = read_process(), [*asyncio_log.filters]
        for _ in range(2):
            prepare_host(context.master.addons)
            assert (first, filters) == (read_process(), asyncio_log.filters)


@pytest.fixture
def as_python_starts(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Take back what another test's addon has left, as none is unloaded there."""
    interval, server = sys.getswitchinterval(), logging.getLogger("mitmproxy.proxy.server")
    monkeypatch.setattr(server, "filters", [])
    monkeypatch.setattr(Fragmentizer, "FRAGMENT_SIZE", 4_000)
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(io.BytesIO()))
    sys.setswitchinterval(0.005)
    yield
    sys.setswitchinterval(interval)


@pytest.mark.usefixtures("as_python_starts")
def test_the_process_is_as_before_when_the_addon_is_gone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # That of this process may have been changed by another test, as commands do for good.
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(io.BytesIO()))
    with taddons.context() as context:
        before = read_process()
        undo = prepare_host(context.master.addons)
        changed = read_process()
        undo.close()
        assert before == read_process()
    assert [] == before["filters"]
    assert [] == [name for name, value in before.items() if value == changed[name]]
