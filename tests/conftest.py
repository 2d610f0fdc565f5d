"""Settings of the whole suite."""

import gc
import json
import logging
import os
import signal
import subprocess
from collections.abc import Callable, Generator, Iterator
from itertools import compress
from operator import not_
from pathlib import Path
from typing import TYPE_CHECKING, cast
from zlib import crc32

import pytest
from filelock import FileLock
from hypothesis import settings

if TYPE_CHECKING:
    from tests.tools.golden import Record, Replay

# `quick` and `ci` try the same examples each time, so that a run depends on the change alone.
# `--hypothesis-profile=deep` looks for new ones, and prints what reproduces a failure. None has a
# clock, nor files of examples, which take long to write.
settings.register_profile("quick", deadline=None, max_examples=10, derandomize=True)
settings.register_profile("ci", deadline=None, max_examples=30, derandomize=True)
settings.register_profile("deep", deadline=None, max_examples=100, print_blob=True, database=None)
settings.load_profile("quick")

ON_ONE_PYTHON = (
    *("tests/look/", "tests/masking/", "tests/provider/", "tests/replay/", "tests/spec/"),
    *("tests/studio/", "tests/addon/test_advice.py", "tests/commands/test_tun"),
    *("tests/records/test_harm.py", "tests/records/test_paired_runs.py"),
    *("tests/recordings/test_recordings_hygiene.py", "tests/test_client_table.py"),
    *("tests/test_docs.py", "tests/test_imports.py", "tests/test_marks.py"),
    *("tests/test_mutations.py", "tests/test_order.py", "tests/test_rooms.py"),
)
"""What touches neither mitmproxy nor a process, so that one Python is enough: the contract, the
statistics of harm, settings that are replayed, and what only reads sources, pages and recordings.
"""

# A shell starts what runs behind it (`pytest &`) with Ctrl-C ignored, and every process that a test
# starts would inherit that, and not end.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True, scope="session")
def nothing_of_the_user(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keep a price list and a configuration that the user has stored out of the tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_DATA_HOME", str(tmp_path_factory.mktemp("data")))
        patch.setenv("XDG_CONFIG_HOME", str(tmp_path_factory.mktemp("config")))
        yield


@pytest.fixture(scope="session")
def replay_once(tmp_path_factory: pytest.TempPathFactory) -> "Replay":
    """Replay a recording of the repository as `tests.tools.golden` does, once in a run.

    Whichever process needs it first replays it; the others read what it found.
    """
    # The process that hands out the tests runs none of them, and mitmproxy takes long to load.
    from tests.tools.golden import golden_file, replay_recording

    own = tmp_path_factory.getbasetemp()
    shared = own.parent if os.environ.get("PYTEST_XDIST_WORKER") else own

    def replay(recording: Path, config: Path | None) -> "list[Record]":
        kept = shared / f"replay-{golden_file(recording, config).name}"
        with FileLock(f"{kept}.lock"):
            if not kept.exists():
                kept.write_text(json.dumps(replay_recording(recording, config)), "utf-8")
        return cast("list[Record]", json.loads(kept.read_text("utf-8")))

    return replay


def _wants_live(config: pytest.Config) -> bool:
    """Whether more live tests are asked for than those marked `smoke`."""
    return "not (live" not in config.option.markexpr


@pytest.hookimpl(wrapper=True)
def pytest_xdist_auto_num_workers() -> Generator[None, int, int]:
    """Let one process more than there are cores run tests: many of them wait for others."""
    return (yield) + 1


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Do not import live tests for nothing: their clients take seconds, in every process."""
    is_live = collection_path.match("live/test_*.py")
    if is_live and not _wants_live(config):
        return "smoke" not in collection_path.read_text("utf-8") or None
    return None


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--part", metavar="K/N", help="run one of N equal parts of the thorough tests")
    parser.addoption("--reverse", action="store_true", help="run the last test first")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark what one Python is enough for; keep a part of the thorough tests, if one is asked for.

    A test's name decides in which part it is.
    """
    for item in items:
        if item.nodeid.startswith(ON_ONE_PYTHON):
            item.add_marker("one_python")
    if config.getoption("--reverse"):
        items.reverse()
    if (wanted := config.getoption("--part")) is None:
        return
    part, parts = map(int, wanted.split("/"))
    is_in = [
        not item.get_closest_marker("thorough") or crc32(item.nodeid.encode()) % parts == part - 1
        for item in items
    ]
    config.hook.pytest_deselected(items=[*compress(items, map(not_, is_in))])
    items[:] = compress(items, is_in)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Leave what collecting tests makes, which is kept, out of every search for garbage.

    While tests are collected, such searches take a sixth of the time. Later each would go through
    16,000 tests again, and a test of what is still referenced searches hundreds of times. The
    little garbage among it is kept as well: to find it takes half a second in every process.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


_current: list[pytest.Item] = []


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Note which test runs, and restore the logger's level, which commands set for good."""
    _current[:] = [item]
    try:
        return (yield)
    finally:
        logging.getLogger("observation_masking").setLevel(logging.NOTSET)


@pytest.fixture(autouse=True, scope="session")
def only_live_tests_start_a_proxy() -> Iterator[None]:
    """Refuse a test that starts mitmdump and is not marked `live`."""
    start: Callable[..., None] = subprocess.Popen.__init__

    def check(process: object, args: object, *others: object, **named: object) -> None:
        if "mitmdump()" in str(args) and not _current[0].get_closest_marker("live"):
            pytest.fail("mark it with pytest.mark.live: it starts mitmdump")
        start(process, args, *others, **named)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(subprocess.Popen, "__init__", check)
        yield
