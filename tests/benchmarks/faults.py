"""Faults of providers, clients and the machine: `python -m tests.benchmarks.faults` (Linux).

Each fault passes through a plain mitmdump and through one with the addon. The client must get the
same bytes from both, or see the same end; the proxy must live, write no traceback, and leave a
record file of which every line can be read. What happens to the machine (a full disk, a folder that
is gone, a configuration that is replaced all the time, SIGTERM and SIGKILL at each phase) has no
plain mitmdump beside it: there the traffic must pass. Prints a line for each, and exits with 1 if
one does not hold.
"""

import contextlib
import json
import os
import signal
import socket
import socketserver
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import NamedTuple

from addon.proxy.launch import ADDON, HOST, Proxy, running_proxy
from tests.benchmarks.fault_list import (
    ANSWERS,
    EVENT,
    LAST,
    PHASES,
    REQUESTS,
    STALL,
    STREAM,
    WHOLE,
    Action,
    act,
    answer,
)

_SECONDS = 20.0


class Seen(NamedTuple):
    """What a client gets, and whether that ended with a reset."""

    data: bytes
    was_reset: bool


class _Provider(socketserver.ThreadingTCPServer):
    """Answers each request as `actions` says."""

    daemon_threads = True
    allow_reuse_address = True
    actions: Sequence[Action] = ()

    def handle_error(self, request: object, client_address: object) -> None:
        """Say nothing of those who hang up."""


class _Connection(socketserver.StreamRequestHandler):
    server: _Provider

    def handle(self) -> None:
        length = 0
        while (line := self.rfile.readline()) not in (b"", b"\r\n"):
            if line.lower().startswith(b"content-length:"):
                length = int(line.partition(b":")[2])
        self.rfile.read(length)
        act(self.connection, self.server.actions)


class Bench:
    """A plain proxy, one that streams its answers, and ours, before one provider."""

    def __init__(self, provider: _Provider, folder: Path, stack: ExitStack) -> None:
        self.provider, self.folder = provider, folder
        (folder / "plain.py").touch()
        streaming = Path(__file__).with_name("stream_answers.py")
        self.plain = stack.enter_context(start(self, "plain", folder / "plain.py"))
        self.streaming = stack.enter_context(start(self, "streaming", streaming))
        self.ours = stack.enter_context(start(self, "ours"))


@contextmanager
def start(bench: Bench, name: str, script: Path = ADDON, *options: str) -> Iterator[Proxy]:
    folder = bench.folder / name
    folder.mkdir(exist_ok=True)
    env = {**os.environ, "HOME": str(folder), "XDG_STATE_HOME": str(folder / "state")}
    mode = f"reverse:http://{HOST}:{bench.provider.server_address[1]}"
    with running_proxy(folder, "--mode", mode, *options, script=script, env=env) as proxy:
        yield proxy


def exchange(port: int, actions: Sequence[Action], *, leaves: bool = False) -> Seen:
    """Send something, and return what comes; if it `leaves`, the client does not wait for that."""
    got = b""
    with socket.create_connection((HOST, port), _SECONDS) as client:
        try:
            act(client, actions)
            while not leaves and (piece := client.recv(65_536)):
                got += piece
        except ConnectionError:
            return Seen(got, True)
        except OSError:  # closed by ourselves
            return Seen(got, False)
    return Seen(got, False)


def check_answer(bench: Bench, name: str) -> bool:
    bench.provider.actions = ANSWERS[name]
    plain = bench.streaming if name.startswith("stream:") else bench.plain
    return exchange(plain.port, [WHOLE]) == exchange(bench.ours.port, [WHOLE])


def check_request(bench: Bench, name: str) -> bool:
    """Whether both proxies serve the next client as well after a client's fault."""
    bench.provider.actions = [STALL, answer()]
    for proxy in (bench.plain, bench.ours):
        exchange(proxy.port, REQUESTS[name], leaves=True)
    bench.provider.actions = [answer()]
    return exchange(bench.plain.port, [WHOLE]) == exchange(bench.ours.port, [WHOLE])


def check_full_disk(bench: Bench) -> bool:
    option = 'mask_set=metrics.path="/dev/full"'
    return _passes(bench, "full", "--set", option)


def check_folder_gone(bench: Bench) -> bool:
    bench.provider.actions = [answer()]
    with start(bench, "gone") as proxy:
        exchange(proxy.port, [WHOLE])
        records = find_records(bench.folder / "gone")
        wait_for(lambda: records.exists())
        for file in records.parent.iterdir():
            file.unlink()
        records.parent.rmdir()
        seen = exchange(proxy.port, [WHOLE])
        wait_for(lambda: records.exists())
    return seen.data.startswith(b"HTTP/1.1 200") and count_records(bench.folder / "gone") == 1


def check_configuration(bench: Bench) -> bool:
    """Replace the configuration a thousand times a second while requests pass."""
    config = bench.folder / "config.toml"
    texts = ["window_turns = 2", "window_turns = 3", "window_turns = [", ""]
    config.write_text(f"[observation_masking.schema1]\n{texts[0]}\n")
    ending = threading.Event()

    def replace() -> None:
        number = 0
        while not ending.wait(0.001):
            number += 1
            part = config.with_suffix(".part")
            part.write_text(f"[observation_masking.schema1]\n{texts[number % len(texts)]}\n")
            part.replace(config)

    bench.provider.actions = [answer()]
    thread = threading.Thread(target=replace)
    with start(bench, "replaced", ADDON, "--set", f"mask_config={config}") as proxy:
        thread.start()
        seen = [exchange(proxy.port, [WHOLE]) for _ in range(50)]
        ending.set()
        thread.join()
    return all(each.data.startswith(b"HTTP/1.1 200") for each in seen) and is_sound(
        bench.folder / "replaced"
    )


def check_signal(bench: Bench, number: signal.Signals, phase: str) -> bool:
    """Whether the record file can be read after a signal while a request is at some phase."""
    name = f"{number.name} {phase}"
    bench.provider.actions = [answer()]
    folder = bench.folder / name
    with contextlib.suppress(ProcessLookupError), start(bench, name) as proxy:
        exchange(proxy.port, [WHOLE])
        wait_for(lambda: find_records(folder).exists())
        bench.provider.actions = [STREAM, EVENT, STALL, STALL, EVENT, LAST]
        with socket.create_connection((HOST, proxy.port), _SECONDS) as client:
            act(client, PHASES[phase])
            if phase == "within the answer":
                client.recv(10)
            os.kill(proxy.pid, number)
            with contextlib.suppress(OSError):
                while client.recv(65_536):
                    pass
        wait_for(lambda: has_ended(proxy.pid))  # a second signal would meet mitmproxy's own end
    return is_sound(folder) and count_records(folder) >= 1


MACHINE: Mapping[str, Callable[[Bench], bool]] = {
    "machine: a full disk": check_full_disk,
    "machine: the record folder is gone": check_folder_gone,
    "machine: a configuration replaced all the time": check_configuration,
}


def _passes(bench: Bench, name: str, *options: str) -> bool:
    bench.provider.actions = [answer()]
    with start(bench, name, ADDON, *options) as proxy:
        seen = exchange(proxy.port, [WHOLE])
    return seen.data.startswith(b"HTTP/1.1 200") and is_sound(bench.folder / name)


def find_records(folder: Path) -> Path:
    return folder / "state" / "observation-masking" / "requests.jsonl"


def count_records(folder: Path) -> int:
    """Return how many records a file has. Raises ValueError for a line that cannot be read."""
    lines = find_records(folder).read_bytes().split(b"\n")
    return sum(1 for line in lines[:-1] if json.loads(line))


def is_sound(folder: Path) -> bool:
    """Whether the log has no traceback, and the record file no line that cannot be read."""
    if find_records(folder).exists():
        count_records(folder)
    return "Traceback" not in (folder / "mitmdump.log").read_text()


def has_ended(pid: int) -> bool:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"


def wait_for(holds: Callable[[], bool]) -> None:
    end = time.monotonic() + _SECONDS
    while not holds() and time.monotonic() < end:
        time.sleep(0.02)


def list_checks(bench: Bench) -> Iterator[tuple[str, Callable[[], bool]]]:
    """Yield each fault by its name, and what tells whether all is as it should be."""
    for name in ANSWERS:
        yield name, partial(check_answer, bench, name)
    for name in REQUESTS:
        yield name, partial(check_request, bench, name)
    yield "the proxy after all of these", partial(is_sound, bench.folder / "ours")
    for name, check in MACHINE.items():
        yield name, partial(check, bench)
    for number in (signal.SIGTERM, signal.SIGKILL):
        for phase in PHASES:
            yield f"{number.name} {phase}", partial(check_signal, bench, number, phase)


def main() -> int:
    failed = 0
    with (
        tempfile.TemporaryDirectory() as folder,
        _Provider((HOST, 0), _Connection) as provider,
        ExitStack() as stack,
    ):
        threading.Thread(target=provider.serve_forever, args=(0.02,), daemon=True).start()
        bench = Bench(provider, Path(folder), stack)
        for name, check in list_checks(bench):
            holds = check()
            failed += not holds
            print(f"{name:50} {'holds' if holds else 'DOES NOT HOLD'}", flush=True)
        provider.shutdown()
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
