"""A real Dask cluster on loopback replays what one process does, and comes to the same."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Protocol

import pytest

from addon.commands.main import INTERRUPTED, main
from tests.live.harness import conversation, eventually
from tests.support.ports import hold_port

dask = pytest.importorskip("dask")
distributed = pytest.importorskip("distributed")
SESSIONS = 16


class Worker(Protocol):
    pid: int


class Scheduler(Protocol):
    tasks: Mapping[str, object]


class Cluster(Protocol):
    """What is used of a `distributed.LocalCluster`."""

    scheduler: Scheduler
    scheduler_address: str
    workers: Mapping[int, Worker]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    options = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": None}
    with distributed.LocalCluster(**options) as running:
        yield running


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sessions")
    for name in range(SESSIONS):
        write_sessions(folder / f"{name}.jsonl", 8 + name % 5)
    return folder


def write_sessions(path: Path, turns: int) -> None:
    """Write a file with a conversation of so many tool turns."""
    request = conversation(turns, "one more line of output\n" * 100)
    request["messages"].append({"role": "assistant", "content": "Done."})
    path.write_text(json.dumps(request | {"name": "talk"}))


def start(cluster: Cluster, *arguments: str) -> subprocess.Popen[str]:
    """Start a command on the cluster, in a process that heeds Ctrl-C."""
    command = [sys.executable, "-m", "addon.commands.main", *arguments]
    return subprocess.Popen(
        [*command, "--scheduler", cluster.scheduler_address],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
        text=True,
    )


def replay_here(folder: Path, capsys: pytest.CaptureFixture[str]) -> object:
    assert 0 == main(["replay", str(folder), "--json", "--processes", "1"])
    return json.loads(capsys.readouterr().out)


def test_a_cluster_comes_to_the_same(
    cluster: Cluster, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with start(cluster, "replay", str(folder), "--json") as replay:
        out, said = replay.communicate()
    assert 0 == replay.returncode, said
    assert replay_here(folder, capsys) == json.loads(out)


def test_a_worker_that_is_killed_costs_nothing_but_its_work(
    cluster: Cluster, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with start(cluster, "replay", str(folder), "--json") as replay:
        eventually(lambda: cluster.scheduler.tasks or None)
        os.kill(next(iter(cluster.workers.values())).pid, signal.SIGKILL)
        out, _ = replay.communicate()
    assert 0 == replay.returncode
    assert replay_here(folder, capsys) == json.loads(out)


def test_ctrl_c_is_one_line_and_what_dask_may_say(cluster: Cluster, folder: Path) -> None:
    with start(cluster, "tune", str(folder)) as tune:
        eventually(lambda: cluster.scheduler.tasks or None)
        tune.send_signal(signal.SIGINT)
        out, said = tune.communicate()
    *others, last = said.strip().splitlines()
    assert (INTERRUPTED, "", "obsmask: interrupted") == (tune.returncode, out, last)
    assert [] == [line for line in others if "distributed" not in line]


def test_a_cluster_that_is_not_there_is_named(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    address = f"tcp://127.0.0.1:{hold_port()}"
    with dask.config.set({"distributed.comm.timeouts.connect": "1s"}):
        assert 1 == main(["replay", str(folder), "--scheduler", address])
    assert address in capsys.readouterr().err
