"""Three processors behind a real Envoy: a conversation comes to the one that knows it."""

import contextlib
import os
import signal
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest

from addon.gateways.envoy.launch import running_envoy, running_service, write_envoy_config
from tests.live.envoy_harness import (
    MISSING,
    PATH,
    Behind,
    find_processes,
    require_envoy,
    stopped,
)
from tests.live.harness import (
    ON,
    conversation,
    encoded,
    environment,
    eventually,
    masked,
    read_records,
    running_upstream,
)
from tests.live.test_replicas_live import NAMES_A_CONVERSATION

pytestmark = pytest.mark.skipif(MISSING is not None, reason=f"needs {MISSING}")

BODY = encoded(conversation())
SESSIONS = 12
MOST_SESSIONS = 100


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """A place for each processor, so that its records say what came to it."""
    return [tmp_path_factory.mktemp(name) for name in "abc"]


@pytest.fixture(scope="module")
def behind(folders: list[Path], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Behind]:
    folder = tmp_path_factory.mktemp("envoy")
    with contextlib.ExitStack() as stack:
        upstream = stack.enter_context(running_upstream(tmp_path_factory.mktemp("upstream")))
        services = []
        for place in folders:
            (place / "config.toml").write_bytes(ON)
            told = ("--config", str(place / "config.toml"), "--drain", "1")
            running = running_service(place, *told, env=environment(place))
            services.append(stack.enter_context(running))
        ports = [service.port for service in services]
        config = write_envoy_config(folder, ports, upstream.sink.port, upstream.ca)
        envoy = stack.enter_context(running_envoy(require_envoy(), config))
        found = Behind(envoy, services, folder, upstream)
        _fill(found, folders)
        yield found


def _fill(behind: Behind, folders: list[Path]) -> None:
    """Send requests of many conversations until each processor has written a record of some."""
    numbers = count(1)

    def ask() -> bool | None:
        number = next(numbers)
        _ask(behind, {"session-id": f"first {number}"})
        # A record that came later would be counted for a test.
        eventually(lambda: sum(len(read_records(each)) for each in folders) == number or None)
        return all(map(read_records, folders)) or None

    eventually(ask)


def _ask(behind: Behind, headers: dict[str, str]) -> bool:
    """Send a request with these headers, and no credential else; return whether it was masked."""
    with behind.connect() as connection:
        connection.request("POST", PATH, BODY, {"content-type": "application/json", **headers})
        connection.getresponse().read()
    return masked(BODY) == behind.upstream.sink.last(PATH).body


def _ask_often(
    behind: Behind, folders: list[Path], times: int, headers: dict[str, str]
) -> list[int]:
    """Send a request so many times; return how many of them came to each processor."""
    before = [len(read_records(folder)) for folder in folders]
    for _ in range(times):
        assert _ask(behind, headers)

    def count_new() -> list[int] | None:
        new = [len(read_records(f)) - was for f, was in zip(folders, before, strict=True)]
        return new if sum(new) == times else None

    return eventually(count_new)


@NAMES_A_CONVERSATION
def test_all_requests_of_a_conversation_come_to_one_processor(
    behind: Behind, folders: list[Path], header: str
) -> None:
    came: list[int] = []
    # Which processor a conversation comes to is chance: a few may all miss one of the three.
    while len(came) < SESSIONS or (set(came) != {0, 1, 2} and len(came) < MOST_SESSIONS):
        times = _ask_often(behind, folders, 3, {header: f"conversation {len(came)}"})
        assert sorted(times) == [0, 0, 3]
        came.append(times.index(3))
    assert set(came) == {0, 1, 2}


def test_what_a_processor_that_is_gone_knew_comes_to_another_at_once(
    behind: Behind, folders: list[Path]
) -> None:
    came = _ask_often(behind, folders, 1, {"session-id": "orphan"})
    service = behind.services[came.index(1)]
    (process,) = find_processes(service)
    with stopped(service.process.pid):  # which would start it again
        os.kill(process, signal.SIGKILL)
        assert all(_ask(behind, {"session-id": "orphan"}) for _ in range(5))
