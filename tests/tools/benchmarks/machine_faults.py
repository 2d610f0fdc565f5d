"""What happens to the machine of a proxy, and to its process, while requests pass."""

import contextlib
import json
import os
import signal
import socket
import threading
from collections.abc import Callable, Mapping
from datetime import datetime
from pathlib import Path

from addon.proxy.server import ADDON, HOST
from tests.tools.benchmarks.fault_bench import (
    SECONDS,
    Bench,
    count_records,
    exchange,
    find_records,
    has_ended,
    is_sound,
    start,
    wait_for,
)
from tests.tools.benchmarks.fault_list import EVENT, LAST, PHASES, STALL, STREAM, WHOLE, act, answer


def check_clock(bench: Bench) -> bool:
    """Let the clock jump between requests; the records must show it, and nothing be un-masked."""
    library = next(Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1"), None)
    if library is None:
        print("the clock takes libfaketime: apt-get install libfaketime")
        return False
    time_file = bench.folder / "time"
    time_file.write_text("+0")
    bench.provider.actions = [answer()]
    seen = []
    with start(
        *(bench, "clock", ADDON),
        LD_PRELOAD=str(library),
        FAKETIME_TIMESTAMP_FILE=str(time_file),
        FAKETIME_NO_CACHE="1",
        FAKETIME_DONT_FAKE_MONOTONIC="1",
    ) as proxy:
        for jump in _JUMPS:
            time_file.write_text(jump)
            seen.append(exchange(proxy.port, [WHOLE]))
    folder = bench.folder / "clock"
    records = [json.loads(line) for line in find_records(folder).read_bytes().splitlines()]
    hours = [int(datetime.fromisoformat(record["time"]).timestamp() // 3600) for record in records]
    masked = [record["masked"] for record in records]
    return (
        all(each.data.startswith(b"HTTP/1.1 200") for each in seen)
        and len(_JUMPS) == len(records)
        and max(hours) - min(hours) >= 40
        and masked == sorted(masked)
        and is_sound(folder)
    )


_JUMPS = ("+0", "+20h", "-20h", "+1h", "-4d", "+2d", "+0")


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
        with socket.create_connection((HOST, proxy.port), SECONDS) as client:
            act(client, PHASES[phase])
            if phase == "within the answer":
                client.recv(10)
            os.kill(proxy.pid, number)
            with contextlib.suppress(OSError):
                while client.recv(65_536):
                    pass
        wait_for(lambda: has_ended(proxy.pid))  # a second signal would meet mitmproxy's own end
    return is_sound(folder) and count_records(folder) >= 1


def _passes(bench: Bench, name: str, *options: str) -> bool:
    bench.provider.actions = [answer()]
    with start(bench, name, ADDON, *options) as proxy:
        seen = exchange(proxy.port, [WHOLE])
    return seen.data.startswith(b"HTTP/1.1 200") and is_sound(bench.folder / name)


MACHINE: Mapping[str, Callable[[Bench], bool]] = {
    "machine: a full disk": check_full_disk,
    "machine: the record folder is gone": check_folder_gone,
    "machine: a configuration replaced all the time": check_configuration,
    "machine: a clock that jumps": check_clock,
}
