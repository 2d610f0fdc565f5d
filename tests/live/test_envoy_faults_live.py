"""Whatever becomes of the processor, the bytes of client and provider go on."""

import contextlib
import os
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from pathlib import Path

import pytest

from addon.gateways.envoy.launch import running_service
from tests.live.envoy_harness import (
    MISSING,
    Behind,
    find_processes,
    running_behind,
    spell,
    stopped,
)
from tests.live.harness import (
    Upstream,
    conversation,
    encoded,
    environment,
    eventually,
    masked,
    stream,
)

pytestmark = pytest.mark.skipif(MISSING is not None, reason=f"needs {MISSING}")

BODY = encoded(conversation())
STREAMED = encoded(conversation(stream=True))
EVENTS = [
    b"data: {}\n\n",
    *(b'data: {"number": %d}\n\n' % n for n in range(9)),
    b"data: [DONE]\n\n",
]
NUMBERS = count()

Fault = Callable[[Behind], contextlib.AbstractContextManager[None]]


@pytest.fixture(scope="module")
def behind(tmp_path_factory: pytest.TempPathFactory, upstream: Upstream) -> Iterator[Behind]:
    with running_behind(tmp_path_factory.mktemp("envoy"), upstream, hasty=True) as found:
        yield found


def new_path() -> str:
    return f"/{next(NUMBERS)}/v1/chat/completions"


def mask_again(behind: Behind) -> None:
    """Wait until requests are masked."""
    eventually(lambda: masked(BODY) == behind.send(BODY, new_path()).body or None)


@contextlib.contextmanager
def killed(behind: Behind) -> Iterator[None]:
    """Kill what serves Envoy; what would start it again stands still meanwhile."""
    (service,) = behind.services
    with stopped(service.process.pid):
        for process in find_processes(service):
            os.kill(process, signal.SIGKILL)
        yield


@contextlib.contextmanager
def hanging(behind: Behind) -> Iterator[None]:
    with stopped(*find_processes(behind.services[0])):
        yield


@pytest.mark.parametrize("fault", [killed, hanging])
def test_a_request_goes_on_as_the_client_wrote_it(behind: Behind, fault: Fault) -> None:
    mask_again(behind)
    with fault(behind):
        assert BODY == behind.send(BODY, new_path()).body
    mask_again(behind)


@pytest.mark.parametrize("fault", [killed, hanging])
def test_an_answer_that_has_begun_comes_to_its_end(behind: Behind, fault: Fault) -> None:
    path, more = new_path(), threading.Event()
    behind.upstream.sink.answers[path] = stream(*EVENTS, wait=more)
    mask_again(behind)
    with behind.connect() as connection:
        connection.request("POST", path, STREAMED, spell({}))
        response = connection.getresponse()
        first = response.read1()
        with fault(behind):
            more.set()
            assert b"".join(EVENTS) == first + response.read()


def test_a_restart_under_load_loses_no_request(tmp_path: Path, upstream: Upstream) -> None:
    """While one service ends and another begins, requests are masked or not, and nothing else."""
    with running_behind(tmp_path, upstream, hasty=True) as behind, _sending(behind) as heard:
        eventually(lambda: masked(BODY) in heard or None)
        (service,) = behind.services
        service.process.send_signal(signal.SIGTERM)
        folder = tmp_path / "next"
        folder.mkdir()
        told, env = ("--config", str(tmp_path / "config.toml")), environment(tmp_path)
        with running_service(folder, *told, env=env, port=service.port):
            assert 0 == service.process.wait()
            before = len(heard)
            eventually(lambda: masked(BODY) in heard[before:] or None)
    assert {BODY, masked(BODY)} >= set(heard)


@contextlib.contextmanager
def _sending(behind: Behind) -> Iterator[list[bytes]]:
    """Send the same request again and again; what arrived. An answer that fails, fails here."""
    heard: list[bytes] = []
    ending = threading.Event()

    def send() -> None:
        while not ending.is_set():
            heard.append(behind.send(BODY, new_path()).body)

    with ThreadPoolExecutor(4) as senders:
        sending = [senders.submit(send) for _ in range(4)]
        try:
            yield heard
        finally:
            ending.set()
    for each in sending:
        each.result()


def test_a_service_that_ends_lets_answers_come_to_their_end(
    tmp_path: Path, upstream: Upstream
) -> None:
    path, more = new_path(), threading.Event()
    upstream.sink.answers[path] = stream(*EVENTS, wait=more)
    with running_behind(tmp_path, upstream, "--drain", "300") as behind:
        first_path = new_path()
        behind.send(BODY, first_path)
        behind.record(first_path)  # the vocabulary is loaded: that may outlast the end of a service
        with behind.connect() as connection:
            connection.request("POST", path, STREAMED, spell({}))
            response = connection.getresponse()
            first = response.read1()
            (service,) = behind.services
            service.process.send_signal(signal.SIGTERM)
            more.set()
            assert b"".join(EVENTS) == first + response.read()
        assert 0 == service.process.wait()
        assert (200, None) == (behind.record(path)["status"], behind.record(path)["error"])
