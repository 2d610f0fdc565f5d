"""`obsmask run`: the command is as it would be without us, behind a proxy that goes with it."""

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import pytest

from addon.memory import open_memory, read_conversations
from addon.network import read_address
from addon.proxy.authorities import write_bundle
from addon.proxy.health import check_health
from addon.proxy.server import Proxy, running_proxy
from tests.live.harness import (
    SECONDS,
    conversation,
    encoded,
    environment,
    eventually,
    masked,
    read_records,
)
from tests.support.histories import read_history
from tests.support.namespaces import NAMESPACE, has_namespaces
from tests.support.terminals import terminal
from tests.tools.provider.provider import HOST, Provider
from tests.tools.provider.script import Reply
from tests.tools.studio.recorder import REDIRECT

BODY = encoded(conversation())
RUN = (sys.executable, "-m", "addon.commands.main", "run")
MASKING = ("--window-turns", "2", "--set", "schema1.cache_pricing=none")
CONFIG = b'[observation_masking.schema1]\nwindow_turns = 2\ncache_pricing = "none"\n'

AMOUNT = r"(about )?\$?[\d.,]+"
AGENT = """
import pathlib, sys, time
import httpx
url = "https://api.openai.com/v1/chat/completions"
headers = {"content-type": "application/json", "authorization": "Bearer none"}
said = sys.stdin.buffer.read()
for path in map(pathlib.Path, sys.argv[1:]):  # each is waited for before a request
    print("waiting", flush=True)
    while not path.exists():
        time.sleep(0.01)
for attempt in range(600):
    try:
        answer = httpx.post(url, content=said, headers=headers, timeout=300)
        break
    except httpx.TransportError:
        time.sleep(0.5)  # as real agents try again
print(answer.json()["choices"][0]["message"]["content"])
sys.exit(5)
"""
"""An agent that asks once, and ends with 5."""


@dataclass(frozen=True)
class World:
    """All there is for a command: a provider, behind a proxy that the environment names."""

    provider: Provider
    outer: Proxy
    bundle: Path

    def environment(self, home: Path, **more: str) -> dict[str, str]:
        network = {"HTTPS_PROXY": self.outer.url, "SSL_CERT_FILE": str(self.bundle)}
        return environment(home, **network, **more)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    folder = tmp_path_factory.mktemp("world")
    with Provider(lambda _: Reply(content="Well done."), tls_folder=folder / "tls") as provider:
        options = (
            *("--set", "connection_strategy=lazy"),
            *("--set", f"ssl_verify_upstream_trusted_ca={provider.ca}"),
            *("--set", f"provider={HOST}:{provider.port}"),
        )
        with running_proxy(folder, *options, script=REDIRECT) as outer:
            yield World(provider, outer, write_bundle(folder / "bundle.pem", [outer.ca]))


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """The user's home, beside the folder that the command works in."""
    (tmp_path / "work").mkdir()
    (tmp_path / "home").mkdir()
    return tmp_path / "home"


def run(
    world: World,
    home: Path,
    *arguments: str,
    body: bytes = BODY,
    more: Mapping[str, str] | None = None,
) -> "subprocess.CompletedProcess[str]":
    """Run `obsmask run` to its end, with a body for an agent to send."""
    return subprocess.run(
        [*RUN, *arguments],
        env=world.environment(home, **(more or {})),
        cwd=home.parent / "work",
        input=body.decode(),
        capture_output=True,
        text=True,
        timeout=SECONDS,
    )


def agent(*files: Path) -> tuple[str, ...]:
    return (sys.executable, "-c", AGENT, *map(str, files))


def records_of(home: Path) -> Path:
    return home / "state" / "observation-masking" / "requests.jsonl"


@pytest.mark.smoke
def test_an_agent_is_masked_and_the_last_line_says_what_that_came_to(
    world: World, home: Path
) -> None:
    done = run(world, home, *MASKING, "--tag", "try", "--", *agent())
    assert (5, "Well done.\n") == (done.returncode, done.stdout)
    assert masked(BODY, CONFIG) == world.provider.requests[-1].body != BODY
    assert re.fullmatch(
        rf"obsmask: 1 request; input (cost|worth) .*, without masking {AMOUNT}: saved {AMOUNT} "
        r"\(\d+%.*\).*; obsmask page shows each request\n",
        done.stderr,
    )
    (record,) = read_records(home)
    assert ("api.openai.com", "try", 200) == (record["host"], record["tag"], record["status"])


_SWITCHED_OFF = """
import os, subprocess, sys, time
import httpx
obsmask = [sys.executable, "-m", "addon.commands.main"]
subprocess.run([*obsmask, "config", "set", "mode=off"], check=True)
with httpx.Client(proxy=os.environ["HTTPS_PROXY"], trust_env=False) as client:
    while client.get("http://obsmask.test/health").json()["is_masking"]:
        time.sleep(0.1)
exec(sys.argv[1])
"""


def test_a_users_first_setting_reaches_the_proxy_of_a_run(world: World, home: Path) -> None:
    """`obsmask config set mode=off`, in a shell of the session."""
    user = (sys.executable, "-c", _SWITCHED_OFF, AGENT.replace("sys.argv[1:]", "()"))
    done = run(world, home, *MASKING, "--", *user)
    assert 5 == done.returncode, done.stderr
    assert BODY == world.provider.requests[-1].body


_LOOK = """
import os, urllib.request
proxy = urllib.request.ProxyHandler({"http": os.environ["HTTPS_PROXY"]})
led = urllib.request.build_opener(proxy).open("http://obsmask.test/", timeout=300)
print(led.url, "Observation masking" in led.read().decode())
"""
"""Opens the page as the proxy leads to it."""


ELSEWHERE = (
    *("env", "-u", "HTTPS_PROXY", "-u", "https_proxy", "-u", "HTTP_PROXY", "-u", "http_proxy"),
    *(sys.executable, "-m", "addon.commands.main", "page", "--print"),
)
"""Asks for the page as in another terminal of the user's, whose environment names no proxy."""


def test_its_page_is_found_from_another_terminal(world: World, home: Path) -> None:
    ended = run(world, home, "--page", "--", *ELSEWHERE)
    named = re.search(r"obsmask: page: (http://127\.0\.0\.1:\d+/)", ended.stderr)
    assert named is not None
    assert f"{named[1]}\n" == ended.stdout


def test_of_several_proxies_each_is_named(world: World, home: Path) -> None:
    ended = run(world, home, "-q", "--", *RUN, "-q", "--", *ELSEWHERE)
    assert 0 == ended.returncode
    runs = re.findall(r"  since \d\d:\d\d: (\S+)  \(run \w+\)", ended.stderr)
    assert 2 == len({*runs})
    assert ended.stdout.strip() in runs


def test_its_page_is_named_before_the_command_runs(world: World, home: Path) -> None:
    done = run(world, home, *MASKING, "--page", "--", sys.executable, "-c", _LOOK)
    named = re.match(r"obsmask: page: (http://127\.0\.0\.1:\d+/)\n", done.stderr)
    assert named, done.stderr
    assert f"{named[1]} True\n" == done.stdout


def test_without_a_page_the_command_runs_all_the_same(world: World, home: Path) -> None:
    done = run(world, home, "--set", "page.enabled=false", "--page", "--", "true")
    assert 0 == done.returncode
    assert done.stderr.startswith("obsmask: the proxy has no page; its log says why\n")


def test_an_agent_is_only_observed_and_the_last_line_says_what_masking_would_have_done(
    world: World, home: Path
) -> None:
    done = run(world, home, "--observe", *MASKING, "--", *agent())
    assert (5, "Well done.\n") == (done.returncode, done.stdout)
    assert BODY == world.provider.requests[-1].body
    assert re.fullmatch(
        rf"obsmask: 1 request; only observed: input (cost|worth) .*, with masking {AMOUNT}: would "
        rf"have saved {AMOUNT} \(\d+%.*\).*; obsmask page shows each request\n",
        done.stderr,
    )
    assert ["observed"] == [record["masking"] for record in read_records(home)]


@pytest.mark.parametrize("place", ["/dev/full", "/proc", "/proc/version/x"])
def test_records_that_cannot_be_written_change_nothing_for_the_command(
    world: World, home: Path, place: str
) -> None:
    setting = f'metrics.path="{place}"'
    done = run(world, home, *MASKING, "--set", setting, "--", *agent())
    assert (5, "Well done.\n") == (done.returncode, done.stdout)
    assert done.stderr.startswith("obsmask: 1 request; ")
    assert done.stderr.endswith("; 1 request could not be recorded\n")


def test_nothing_is_left_behind_but_in_the_users_own_folders(world: World, home: Path) -> None:
    run(world, home, "--", *agent())
    assert [] == [*(home.parent / "work").iterdir()]
    (log,) = (home / "state" / "observation-masking" / "logs").iterdir()
    kept = [log, log.parent, log.parent.parent]
    assert [0o600, 0o700, 0o700] == [each.stat().st_mode & 0o777 for each in kept]
    (port,) = re.findall(r"proxy.* listening at \S*:(\d+)", log.read_text())
    with pytest.raises(ConnectionRefusedError):
        check_health(read_address(f"127.0.0.1:{port}"))


def test_a_configuration_in_the_working_directory_is_not_read(world: World, home: Path) -> None:
    """It may be a stranger's project."""
    (home.parent / "work" / "config.toml").write_bytes(CONFIG)
    run(world, home, "--", *agent())
    assert BODY == world.provider.requests[-1].body
    run(world, home, "--config", "config.toml", "--", *agent())
    assert masked(BODY, CONFIG) == world.provider.requests[-1].body


def test_several_at_once_count_their_own(world: World, home: Path) -> None:
    bodies = [encoded(conversation(turns)) for turns in (4, 5, 6)]
    started = [
        subprocess.Popen(
            [*RUN, *MASKING, "--", *agent()],
            env=world.environment(home),
            cwd=home.parent / "work",
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        for _ in bodies
    ]
    ended = [
        process.communicate(body, timeout=SECONDS)
        for process, body in zip(started, bodies, strict=True)
    ]
    assert [5, 5, 5] == [process.returncode for process in started]
    assert [True] * 3 == [said.startswith(b"obsmask: 1 request; ") for _, said in ended]
    assert [4, 5, 6] == sorted(record["tool_turns"] for record in read_records(home))


@pytest.mark.parametrize(
    ("command", "code", "said"),
    [
        (["no-such-agent"], 127, "obsmask: no-such-agent: no such command\n"),
        (["./not-runnable"], 126, "obsmask: ./not-runnable: Permission denied\n"),
        (["-q", "--", "sh", "-c", "exit 3"], 3, ""),
        (["--set", "schema1.windw=1", "true"], 1, "schema1.windw"),
        (["--proxy", "127.0.0.1:1", "--tag", "a", "true"], 2, "--proxy takes no"),
        (["--proxy", "nonsense", "true"], 2, "as 127.0.0.1:8080: nonsense"),
        (["--reverse", "nonsense", "true"], 2, "as http://localhost:11434: nonsense"),
        (["--proxy", "127.0.0.1:1", "true"], 1, "no proxy with the addon answers"),
        ([], 2, "Missing argument 'COMMAND [ARGS]...'"),
    ],
)
def test_what_goes_wrong_is_one_line_and_an_exit_code(
    world: World, home: Path, command: Sequence[str], code: int, said: str
) -> None:
    (home.parent / "work" / "not-runnable").write_text("nothing")
    done = run(world, home, *command)
    assert code == done.returncode
    assert said in done.stderr if said else "" == done.stderr
    assert "Traceback" not in done.stderr


def logs_of(home: Path) -> list[Path]:
    return [*(home / "state" / "observation-masking" / "logs").iterdir()]


def test_a_command_that_sends_nothing_for_long_is_told_where_to_look(
    world: World, home: Path
) -> None:
    done = run(world, home, "sleep", "5.1")
    assert (0, "") == (done.returncode, done.stdout)
    assert done.stderr.startswith("obsmask: no request to a model came through the proxy: ")
    assert "obsmask doctor -- sleep 5.1 looks" in done.stderr
    assert "obsmask run --reverse URL -- sleep 5.1 is" in done.stderr
    assert 1 == len(logs_of(home))


def test_a_command_that_sends_nothing_and_ends_at_once_leaves_no_word_and_no_log(
    world: World, home: Path
) -> None:
    done = run(world, home, "true")
    assert (0, "", "") == (done.returncode, done.stdout, done.stderr)
    assert [] == logs_of(home)


def test_a_command_that_fails_at_once_is_told_what_may_be_wrong(world: World, home: Path) -> None:
    done = run(world, home, "false")
    assert (1, "") == (done.returncode, done.stdout)
    assert done.stderr.startswith("obsmask: false failed before any request to a model came ")
    assert 1 == len(logs_of(home))


@pytest.mark.parametrize(
    ("command", "code"),
    [(["--help"], 0), (["--set", "schema1.windw=1", "true"], 1), (["--nonsense", "true"], 2)],
    ids=["help", "a mistake in a setting", "a mistake in an option"],
)
def test_a_proxy_that_was_not_needed_after_all_leaves_nothing(
    world: World, home: Path, command: Sequence[str], code: int
) -> None:
    done = run(world, home, *command)
    assert code == done.returncode
    assert [] == [*home.rglob("*.log")]


_SLOW = """
import sys, time
if "addon.proxy.server" in sys.orig_argv:
    time.sleep(float({seconds}))
"""


def slow_start(world: World, home: Path, seconds: float) -> dict[str, str]:
    """Return an environment in which the proxy takes so much longer to start."""
    folder = home / "slow"
    folder.mkdir()
    (folder / "sitecustomize.py").write_text(_SLOW.format(seconds=seconds))
    given = world.environment(home)
    return {**given, "PYTHONPATH": os.pathsep.join((str(folder), given.get("PYTHONPATH", "")))}


_SIGN = "obsmask: starting the proxy..."


def test_on_a_terminal_a_slow_start_is_seen_and_gone_before_the_command_runs(
    world: World, home: Path
) -> None:
    command = (*RUN, "--", "echo", "begun")
    given = slow_start(world, home, 2)
    with terminal(*command, env=given, cwd=home.parent / "work") as screen:
        assert 0 == screen.wait()
        assert f"{_SIGN}\r{' ' * len(_SIGN)}\rbegun\n" == screen.screen.replace("\r\n", "\n")


@pytest.mark.parametrize("options", [("-q",), ()], ids=["quiet", "on a pipe"])
def test_a_slow_start_is_not_seen_elsewhere(
    world: World, home: Path, options: Sequence[str]
) -> None:
    given = slow_start(world, home, 1)
    folder = home.parent / "work"
    if options:
        with terminal(*RUN, *options, "true", env=given, cwd=folder) as screen:
            assert 0 == screen.wait()
            assert "" == screen.screen
    else:
        done = subprocess.run([*RUN, "true"], env=given, cwd=folder, capture_output=True)
        assert (0, b"", b"") == (done.returncode, done.stdout, done.stderr)


def test_ctrl_c_ends_a_slow_start(world: World, home: Path) -> None:
    given = slow_start(world, home, SECONDS)
    with terminal(*RUN, "true", env=given, cwd=home.parent / "work") as screen:
        screen.wait_for(_SIGN)
        proxy = eventually(lambda: find_proxy(screen.process.pid))
        screen.type("\x03")
        with contextlib.suppress(subprocess.TimeoutExpired):
            screen.process.wait(10)
        if screen.process.poll() is None:
            screen.type("\x03")  # while pydantic builds a model, it swallows the first
        screen.wait_for("obsmask: interrupted\n")
        assert 130 == screen.wait()
    eventually(lambda: None if is_running(proxy) else True)


def test_a_proxy_that_cannot_start_says_why(world: World, home: Path) -> None:
    (home / ".mitmproxy").mkdir()
    (home / ".mitmproxy" / "config.yaml").write_text("stream_large_bodies: 1m\n")
    done = run(world, home, "true")
    assert 1 == done.returncode
    assert done.stderr.startswith("obsmask: the proxy did not start: ")
    assert "stream_large_bodies" in done.stderr


def test_ctrl_c_is_the_commands_and_the_last_line_still_comes(world: World, home: Path) -> None:
    script = "import time\ntry: print('begun', flush=True); time.sleep(900)\n"
    script += "except KeyboardInterrupt: print('interrupted'); raise SystemExit(9)"
    command = (*RUN, "--", sys.executable, "-c", script)
    with terminal(*command, env=world.environment(home), cwd=home.parent / "work") as screen:
        screen.wait_for("begun\n")
        screen.type("\x03")
        screen.wait_for("interrupted\n")
        screen.wait_for("obsmask: ")
        assert 9 == screen.wait()


def test_a_command_that_forks_ends_when_it_does_itself(world: World, home: Path) -> None:
    """What it has started in the background goes on, and nobody waits for it."""
    done = run(world, home, "sh", "-c", "(sleep 1000 </dev/null >/dev/null 2>&1 & echo $!)")
    os.kill(int(done.stdout), signal.SIGKILL)
    assert 0 == done.returncode


def start(world: World, home: Path, *arguments: str) -> "subprocess.Popen[str]":
    """Start `obsmask run` with an agent that waits, and give it what it is to send."""
    process = subprocess.Popen(
        [*RUN, *arguments],
        env=world.environment(home),
        cwd=home.parent / "work",
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdin
    process.stdin.write(BODY.decode())
    process.stdin.close()
    process.stdin = None
    assert process.stdout
    assert "waiting\n" == process.stdout.readline()
    return process


def find_proxy(parent: int) -> int | None:
    """Return the process of the proxy that `obsmask run` has started."""
    for child in Path(f"/proc/{parent}/task/{parent}/children").read_text().split():
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # it has just ended
            if b"addon.proxy.server" in Path(f"/proc/{child}/cmdline").read_bytes():
                return int(child)
    return None


def is_running(process: int) -> bool:
    try:
        return "\nState:\tZ" not in Path(f"/proc/{process}/status").read_text()
    except OSError:
        return False


LINUX = pytest.mark.skipif(sys.platform != "linux", reason="processes are looked up in /proc")


@LINUX
def test_a_proxy_that_dies_is_started_again_on_the_same_port(world: World, home: Path) -> None:
    ready = home / "ready"
    process = start(world, home, *MASKING, "--", *agent(ready))
    first = eventually(lambda: find_proxy(process.pid))
    os.kill(first, signal.SIGKILL)
    second = eventually(lambda: _another(find_proxy(process.pid), first))
    ready.touch()
    told, said = process.communicate(timeout=SECONDS)
    assert (5, "Well done.\n") == (process.returncode, told)
    assert masked(BODY, CONFIG) == world.provider.requests[-1].body
    assert "obsmask: 1 request; " in said
    assert "; the proxy ended once by itself, and " in said
    assert not is_running(second)


def _another(found: int | None, first: int) -> int | None:
    return None if found == first else found


_SMALL_HOME = """
mount -t tmpfs -o size=2m,mode=700 none "$HOME"
if [ "$1" = full ]; then cat /dev/zero > "$HOME/filler" 2> /dev/null || true; fi
if [ "$1" = read-only ]; then mount -o remount,ro "$HOME"; fi
shift
exec "$@"
"""

_SESSION = """
import json, os, pathlib, signal, sys, time
import httpx
url = "https://api.openai.com/v1/chat/completions"
headers = {"content-type": "application/json", "authorization": "Bearer none"}
client = httpx.Client(headers=headers, timeout=300)
def ask(body):
    for attempt in range(600):
        try:
            answer = client.post(url, content=body)
            return answer.json()["choices"][0]["message"]["content"]
        except httpx.TransportError:
            time.sleep(0.1)  # as while a proxy starts again
def fill():
    with open(os.path.join(os.environ["HOME"], "filler"), "ab", buffering=0) as filler:
        for size in (1 << 16, 1):
            try:
                while True:
                    filler.write(bytes(size))
            except OSError:
                pass
def kill_proxy():
    parent = os.getppid()
    for child in pathlib.Path(f"/proc/{parent}/task/{parent}/children").read_text().split():
        if int(child) != os.getpid():
            os.kill(int(child), signal.SIGKILL)
bodies = [body.encode() for body in json.load(sys.stdin)]
for number, body in enumerate(bodies):
    if number == len(bodies) // 4 and sys.argv[1] == "fills":
        fill()
    if number == len(bodies) // 2:
        kill_proxy()
        if sys.argv[1] == "fills":
            fill()
    print(ask(body))
sys.exit(5)
"""
"""Asks again and again; amid that the home is full, and later the proxy is killed."""


@pytest.mark.skipif(not has_namespaces(), reason="NO USER NAMESPACES: a full disk is not tried")
@pytest.mark.parametrize("disk", ["fills", "full", "read-only"])
def test_on_a_full_disk_each_request_is_answered_and_masked(
    world: World, home: Path, disk: str
) -> None:
    bodies = [encoded(conversation(turns)) for turns in range(3, 23)]
    enter = [*NAMESPACE, "sh", "-euc", _SMALL_HOME, "sh"]
    before = len(world.provider.requests)
    done = subprocess.run(
        [*enter, disk, *RUN, *MASKING, "--", sys.executable, "-c", _SESSION, disk],
        env=world.environment(home),
        cwd=home.parent / "work",
        input=json.dumps([body.decode() for body in bodies]),
        capture_output=True,
        text=True,
        timeout=SECONDS,
    )
    assert (5, "Well done.\n" * 20) == (done.returncode, done.stdout), done.stderr
    sent = [request.body for request in world.provider.requests[before:]]
    assert [masked(body, CONFIG) for body in bodies] == sent
    *notices, last = done.stderr.splitlines()
    if disk == "fills":
        assert [] == notices
        assert "; 10 requests could not be recorded; the proxy ended once by itself, and " in last
    else:
        (notice,) = notices
        assert re.fullmatch(
            rf"obsmask: {home}/state.*: (No space left on device|cannot be made: Read-only file "
            r"system)\. This run keeps its files in (\S+), and removes them at its end",
            notice,
        )
        assert not Path(notice.split()[-6].rstrip(",")).exists()
        assert last.endswith("; the proxy ended once by itself")


def test_a_broken_history_costs_no_agent_anything(world: World, home: Path) -> None:
    """The first is put aside, and made anew from the records; the other cannot be."""
    state = home / "state" / "observation-masking"
    state.mkdir(parents=True)
    history = state / "history.sqlite3"
    history.write_bytes(b"no database" * 1_000)
    for _ in range(2):
        done = run(world, home, *MASKING, "--", *agent())
        assert (5, "Well done.\n") == (done.returncode, done.stdout), done.stderr
        assert masked(BODY, CONFIG) == world.provider.requests[-1].body
        assert re.fullmatch(
            r"obsmask: 1 request; .*; obsmask page shows each request\n", done.stderr
        )
        if history.is_file():
            assert [1] == [each.requests for each in read_history(state)]
            history.unlink()
            history.mkdir()
    logs = [each.read_text() for each in sorted((state / "logs").iterdir())]
    found = ("history.sqlite3 is damaged", "the history of sessions is not written")
    assert [[True, False], [False, True]] == [[each in log for each in found] for log in logs]
    with closing(open_memory(lambda: state)) as store:
        assert 1 == len(store.read(read_conversations))


@LINUX
def test_the_proxy_goes_with_a_run_that_is_killed(world: World, home: Path) -> None:
    ready = home / "ready"
    wait = 'cat > /dev/null; echo waiting; until [ -e "$0" ]; do sleep 0.1; done'
    process = start(world, home, "--", "sh", "-c", wait, str(ready))
    proxy = eventually(lambda: find_proxy(process.pid))
    process.kill()
    eventually(lambda: None if is_running(proxy) else True)
    ready.touch()  # the command has outlived both
    process.communicate(timeout=SECONDS)


def test_sigterm_is_the_commands(world: World, home: Path) -> None:
    process = start(world, home, "--", *agent(home / "never"))
    process.terminate()
    _, said = process.communicate(timeout=SECONDS)
    assert 128 + signal.SIGTERM == process.returncode
    assert "Traceback" not in said


def test_a_proxy_that_is_running_serves_several_runs(world: World, home: Path) -> None:
    served = subprocess.Popen(
        [sys.executable, "-u", "-m", "addon.commands.main", "proxy", "--port", "0", *MASKING],
        env=world.environment(home),
        cwd=home.parent / "work",
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        assert served.stdout
        told = ""
        while not (found := re.search(r"listening at \S*:(\d+)", told)):
            told += served.stdout.readline()
        at = f"127.0.0.1:{found[1]}"
        for _ in range(2):
            done = run(world, home, "--proxy", at, "--", *agent())
            assert (5, "Well done.\n") == (done.returncode, done.stdout)
            assert masked(BODY, CONFIG) == world.provider.requests[-1].body
            assert done.stderr.startswith(f"obsmask: through http://{at} meanwhile: 1 request; ")
    finally:
        served.send_signal(signal.SIGINT)
        served.communicate(timeout=SECONDS)


LOCAL_AGENT = """
import json, os, sys, urllib.request
url = os.environ["OPENAI_BASE_URL"] + "/chat/completions"
asked = urllib.request.Request(url, sys.stdin.buffer.read(), {"content-type": "application/json"})
print(json.load(urllib.request.urlopen(asked))["choices"][0]["message"]["content"])
"""


HEEDLESS_AGENT = """
import os, sys, httpx
url = os.environ["OPENAI_BASE_URL"] + "/chat/completions"
client = httpx.Client(proxy=os.environ["HTTP_PROXY"], trust_env=False)
headers = {"content-type": "application/json"}
answer = client.post(url, content=sys.stdin.buffer.read(), headers=headers)
print(answer.json()["choices"][0]["message"]["content"])
"""

TUNNELLING_AGENT = """
import http.client, json, os, sys
from urllib.parse import urlsplit
proxy, url = urlsplit(os.environ["HTTP_PROXY"]), urlsplit(os.environ["OPENAI_BASE_URL"])
client = http.client.HTTPConnection(proxy.hostname, proxy.port)
client.set_tunnel(url.hostname, url.port)
headers = {"content-type": "application/json"}
client.request("POST", url.path + "/chat/completions", sys.stdin.buffer.read(), headers)
print(json.load(client.getresponse())["choices"][0]["message"]["content"])
"""


@pytest.mark.parametrize(
    "program",
    [LOCAL_AGENT, HEEDLESS_AGENT, TUNNELLING_AGENT],
    ids=["without the proxy", "by way of the proxy", "through a tunnel"],
)
def test_a_local_server_is_reached_by_a_base_url(world: World, home: Path, program: str) -> None:
    """As clients do it that heed NO_PROXY, and as those do it that do not."""
    with Provider(lambda _: Reply(content="From here.")) as local:
        command = (sys.executable, "-c", program)
        done = run(world, home, *MASKING, "--reverse", f"http://{HOST}:{local.port}", *command)
        assert (0, "From here.\n") == (done.returncode, done.stdout)
        assert masked(BODY, CONFIG) == local.requests[-1].body
    assert done.stderr.startswith("obsmask: 1 request; ")


SHOW = f"""#!{sys.executable}
import json, os, sys
print(json.dumps([sys.argv[1:], dict(os.environ)]))
"""
VENDOR = "https://api.anthropic.com"
BASE_URL = r"http://127\.0\.0\.1:\d+/to/https/api\.anthropic\.com"


@pytest.mark.parametrize(
    ("options", "environment", "base_url", "line"),
    [
        ((), {}, BASE_URL, f"claude-code: ANTHROPIC_BASE_URL leads through the proxy to {VENDOR}"),
        (("-q",), {}, BASE_URL, None),
        (("--no-agent-setup",), {}, None, None),
        (
            (),
            {"ANTHROPIC_MODEL": "claude-fable-5-2"},
            None,
            "claude-code is unchanged: claude-fable-5-2 binds its reasoning to what precedes it",
        ),
    ],
    ids=["no option", "quiet", "as it is", "a model that binds"],
)
def test_claude_code_is_given_a_base_url_of_the_proxys(
    world: World,
    home: Path,
    options: Sequence[str],
    environment: Mapping[str, str],
    base_url: str | None,
    line: str | None,
) -> None:
    program = home / "claude"
    program.write_text(SHOW)
    program.chmod(0o700)
    done = run(world, home, *options, str(program), more=environment)
    arguments, given = json.loads(done.stdout)
    assert [] == arguments
    assert re.fullmatch(str(base_url), str(given.get("ANTHROPIC_BASE_URL")))
    said = [each for each in done.stderr.splitlines() if each.startswith("obsmask: claude-code")]
    assert ([] if line is None else [f"obsmask: {line}"]) == said


def test_how_claude_code_is_led_is_said_once_and_when_it_changes(world: World, home: Path) -> None:
    program = home / "claude"
    program.write_text(SHOW)
    program.chmod(0o700)
    changed = {"ANTHROPIC_BASE_URL": "https://gateway.example"}
    said = [
        "ANTHROPIC_BASE_URL leads through the proxy to "
        in run(world, home, str(program), more=more).stderr
        for more in ({}, {}, changed, changed, {})
    ]
    assert [True, False, True, False, True] == said


def test_nothing_and_everything_cannot_be_changed_at_once(world: World, home: Path) -> None:
    done = run(world, home, "--no-agent-setup", "--force-http", "true")
    assert 2 == done.returncode
    assert "--no-agent-setup and --force-http exclude each other" in done.stderr
