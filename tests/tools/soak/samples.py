"""How large two proxies are while the soak goes on, and how long their clients wait."""

import os
import statistics
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from addon.proxy.server import Proxy
from tests.tools.benchmarks.beside_plain import read_cpu


class Sample(NamedTuple):
    """The proxies after so many requests; milliseconds and CPU are of those since the last sample.

    megabytes, files: of each proxy, its memory and how many files it has open.
    """

    seconds: float
    requests: int
    megabytes: tuple[float, ...]
    files: tuple[int, ...]
    cpu_milliseconds: float
    median: float
    slowest: float

    def __str__(self) -> str:
        megabytes = " ".join(f"{each:6.0f}" for each in self.megabytes)
        files = " ".join(f"{each:5}" for each in self.files)
        return (
            f"{self.seconds:8.0f} {self.requests:9,} {megabytes} {files}"
            f" {self.cpu_milliseconds:8.1f} {self.median:8.1f} {self.slowest:8.1f}"
        )


HEADING = (
    f"{'seconds':>8} {'requests':>9} {'memory, MB':>13} {'open files':>11}"
    f" {'CPU ms':>8} {'wait ms':>8} {'99%':>8}"
)


@dataclass(slots=True)
class Sampler:
    """Takes a sample after every so many requests, and prints it."""

    proxies: list[Proxy]
    every: int
    samples: list[Sample] = field(default_factory=list)
    _began: float = field(default_factory=time.monotonic)
    _cpu: float = 0.0
    _requests: int = 0

    def note(self, waits: list[float]) -> None:
        """Take a sample if it is time; then the waits so far are forgotten."""
        if len(waits) < self.every:
            return
        cpu, before = sum(map(read_cpu, self.proxies)), self._cpu
        self._requests, self._cpu = self._requests + len(waits), cpu
        sample = Sample(
            time.monotonic() - self._began,
            self._requests,
            tuple(map(read_megabytes, self.proxies)),
            tuple(map(count_files, self.proxies)),
            1000 * (cpu - before) / len(waits),
            statistics.median(waits),
            statistics.quantiles(waits, n=100)[-1],
        )
        self.samples.append(sample)
        print(sample, flush=True)
        waits.clear()


def read_megabytes(proxy: Proxy) -> float:
    """Return the memory of a proxy, in megabytes."""
    status = Path(f"/proc/{proxy.pid}/status").read_text()
    return int(status.partition("VmRSS:")[2].split()[0]) / 1000


def count_files(proxy: Proxy) -> int:
    """Return how many files and sockets a proxy has open."""
    return len(os.listdir(f"/proc/{proxy.pid}/fd"))  # noqa: PTH208 - a name may be gone at once
