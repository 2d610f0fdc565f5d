"""`obsmask run --transparent`: a network of its own, for a command that knows nothing of a proxy.

All of it is real: the namespaces, pasta, nftables, mitmdump. The machine that the user sits at has
a network behind it, in which the provider has its real names.
"""

import contextlib
import functools
import http.server
import json
import os
import re
import signal
import socket
import ssl
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from addon.proxy.authorities import write_bundle
from addon.proxy.environment import CA_VARIABLES
from addon.recordings.replies import make_tls_context
from tests.live.harness import SECONDS, environment, eventually, masked
from tests.live.machine import FAR, FAR_IPV6, Machine, running_machine
from tests.live.test_run_clients_live import MASKED, MASKING, RUN, prepare
from tests.live.test_run_live import AGENT, BODY
from tests.live.test_run_live import MASKING as SLIDING
from tests.tools.provider.provider import VENDORS, Provider
from tests.tools.provider.script import Reply
from tests.tools.studio.client import COMMAND, FAKE_KEY, TOUR, Client, Tool
from tests.tools.studio.installation import find_installed
from tests.tools.studio.recorder import Workspace, run_client
from tests.tools.studio.scenario import write_project
from tests.tools.studio.scripted_client import script_replies

pytestmark = pytest.mark.live

AWAIT = "while ! [ -e {} ]; do sleep 0.05; done"

FILES, PLAIN, OTHER, LOOP = "ollama.com", 9000, 8443, 9001
"""A name of the provider's; behind other ports there are files, over TLS at one."""


@dataclass(frozen=True)
class World:
    """The machine, the provider behind it, and the authority of both servers."""

    machine: Machine
    provider: Provider
    files: Path
    bundle: Path

    def environment(self, home: Path, **more: str) -> dict[str, str]:
        return environment(home, SSL_CERT_FILE=str(self.bundle), **more)

    def run(
        self, home: Path, *words: str, given: bytes = b"", options: Sequence[str] = ()
    ) -> "subprocess.CompletedProcess[str]":
        """Run a command by `obsmask run --transparent` to its end."""
        return subprocess.run(
            self.command(home, *options, "--", *words),
            env=self.environment(home),
            input=given.decode(),
            capture_output=True,
            text=True,
            timeout=SECONDS,
        )

    def command(self, home: Path, *words: str) -> list[str]:
        return self.machine.command(home, *RUN, "--transparent", *words)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    folder = tmp_path_factory.mktemp("world")
    files = folder / "files"
    files.mkdir()
    names = VENDORS
    with running_machine(names) as machine, contextlib.ExitStack() as stack:
        provider = Provider(
            lambda _: Reply(content="Well done."),
            tls_folder=folder / "tls",
            listening=machine.listen(443),
        )
        stack.enter_context(provider)
        tls = make_tls_context(folder / "tls", names)
        handler = functools.partial(_Files, directory=str(files))
        for port, context, host in (
            (PLAIN, None, None),
            (OTHER, tls, None),
            (80, None, None),
            (LOOP, None, "127.0.0.1"),
        ):
            opened = machine.listen(port, host=host)
            stack.enter_context(serving(opened, handler, context))
        assert provider.ca is not None
        yield World(machine, provider, files, write_bundle(folder / "bundle.pem", [provider.ca]))


class _Files(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        """Say nothing."""


@contextlib.contextmanager
def serving(
    opened: socket.socket, handler: "functools.partial[_Files]", tls: ssl.SSLContext | None
) -> Iterator[None]:
    server = http.server.ThreadingHTTPServer(("", 0), handler, bind_and_activate=False)
    server.socket.close()
    server.socket = tls.wrap_socket(opened, server_side=True) if tls else opened
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield
    server.shutdown()
    server.server_close()


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "home").mkdir()
    return tmp_path / "home"


def find_processes(home: Path) -> list[int]:
    """Return the processes that were started with this home, by a run or by what it ran."""
    found = []
    for path in Path("/proc").glob("[0-9]*/environ"):
        with contextlib.suppress(OSError):
            if f"HOME={home}".encode() in path.read_bytes().split(b"\0"):
                found.append(int(path.parent.name))
    return found


def called(processes: Sequence[int], pattern: str) -> list[int]:
    """Return those of some processes whose command begins like this."""
    found = []
    for process in processes:
        with contextlib.suppress(OSError):
            command = Path(f"/proc/{process}/cmdline").read_bytes().replace(b"\0", b" ").decode()
            if re.match(pattern, command):
                found.append(process)
    return found


def last_line(said: str) -> str:
    return said.rstrip().splitlines()[-1]


def test_a_client_that_knows_no_proxy_is_masked(world: World, home: Path) -> None:
    count = len(world.provider.requests)
    done = world.run(home, sys.executable, "-c", ask_by_httpx(), given=BODY, options=SLIDING)
    assert (done.stdout, done.returncode) == ("Well done.\n", 5), done.stderr
    assert [masked(BODY, SLIDING_CONFIG)] == [r.body for r in world.provider.requests[count:]]
    assert "1 request" in last_line(done.stderr)
    assert "past the proxy" not in done.stderr
    assert [] == find_processes(home)


SLIDING_CONFIG = b'[observation_masking.schema1]\nwindow_turns = 2\ncache_pricing = "none"\n'

OWN = ("PWD", "LC_CTYPE")
"""The shell and Python set these themselves."""

SHOW = """
import json, os, pathlib
status = pathlib.Path("/proc/self/status").read_text()
print(json.dumps({
    "environment": dict(os.environ),
    "ids": [os.getuid(), os.getgid()],
    "rights": [line for line in status.splitlines() if line.startswith(("CapEff", "CapPrm"))],
    "folder": os.getcwd(),
}))
"""


def test_it_is_the_user_with_no_rights_and_of_variables_gets_the_authorities_alone(
    world: World, home: Path
) -> None:
    bare = {**world.environment(home), "OLD": "kept", "NO_PROXY": "some.where"}
    done = subprocess.run(
        world.command(home, "-q", "--", sys.executable, "-c", SHOW),
        env=bare,
        capture_output=True,
        text=True,
        timeout=SECONDS,
    )
    assert "" == done.stderr
    shown = json.loads(done.stdout)
    assert [1000, 1000] == shown["ids"]
    assert {"0000000000000000"} == {line.split()[1] for line in shown["rights"]}
    assert str(home) == shown["folder"]
    found = {name: value for name, value in shown["environment"].items() if name not in OWN}
    del bare["NO_PROXY"]
    changed = {name for name, value in found.items() if bare.get(name) != value}
    assert set(CA_VARIABLES) >= changed
    assert set(found) - changed <= set(bare)


WAYS = f"""
say() {{ echo "$1 $(curl -s -m 20 -o /dev/null -w '%{{http_code}}' $2)"; }}
say name https://{FILES}/there
for n in 1 2; do say address "-k https://{FAR}/there"; done
for n in 1 2; do say ipv6 "-k https://[{FAR_IPV6}]/there"; done
say plain http://{FILES}/there
say other "-k https://{FAR}:{OTHER}/there"
say other6 "http://[{FAR_IPV6}]:{PLAIN}/there"
say loop http://127.0.0.1:{LOOP}/there
say proxy http://192.0.0.1:{LOOP + 1}/there
python3 - <<'END'
import socket, time
for port in (443, 5000):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sent:
        sent.connect(("{FAR}", port))
        try:
            sent.send(b"x"); time.sleep(0.2); sent.send(b"x"); print(port, "sent")
        except ConnectionRefusedError:
            print(port, "refused")
END
"""


def test_each_way_out_leads_through_the_addon_or_is_counted_or_refused(
    world: World, home: Path
) -> None:
    """The table "What goes where" of docs/deployment.md."""
    (world.files / "there").write_text("there")
    done = world.run(home, "sh", "-c", WAYS, options=("--loopback", f"{LOOP}"))
    said = dict(line.split(" ", 1) for line in done.stdout.splitlines())
    # The provider answers on 443 and knows no such path; the others have the file. Its certificate
    # names no address: after a first failure it is the client's to judge that, as with any proxy.
    assert said == {
        "name": "404",
        "address": "404",
        "ipv6": "404",
        "plain": "200",
        "other": "200",
        "other6": "200",
        "loop": "200",
        "proxy": "000",
        "443": "refused",
        "5000": "sent",
    }
    log = "".join(path.read_text() for path in home.glob("state/*/logs/*.log"))
    for host, count in ((FAR, 3), (FAR_IPV6, 1)):
        reached = re.findall(rf"server connect \[?{re.escape(host)}\]?:(?:443|80)", log)
        assert len(reached) >= count, log
    assert "connections to other ports, past the proxy: 2 TCP, 1 UDP" in done.stderr
    assert re.search(r"QUIC refused \(\d packets?\)", done.stderr)


def ask_by_httpx() -> str:
    """Return an agent that takes no proxy, and asks once."""
    agent = AGENT.replace("httpx.post(", "httpx.Client(trust_env=False, verify=bundle).post(")
    return f"import os; bundle = os.environ['SSL_CERT_FILE']\n{agent}"


def test_settings_go_by_the_name_of_a_host_and_not_by_its_address(world: World, home: Path) -> None:
    """All names have one address here. A certificate that names another host is one name's, too."""
    get = f"curl -sk -o /dev/null https://other.test --resolve other.test:443:{FAR}; "
    agent = f'{get}{get}exec {sys.executable} -c "$0"'
    for only, expected in (("ollama.com", BODY), ("api.openai.com", masked(BODY, SLIDING_CONFIG))):
        count = len(world.provider.requests)
        options = (*SLIDING, "--set", f'hosts.only=["{only}","other.test"]')
        words = ("sh", "-c", agent, ask_by_httpx())
        done = world.run(home, *words, given=BODY, options=options)
        assert 5 == done.returncode, done.stderr
        assert [expected] == [each.body for each in world.provider.requests[count:]]
        assert (
            "connections passed undecrypted, as a certificate isn't trusted: 1 to other.test"
            in done.stderr
        )


def test_a_port_that_is_named_leads_through_the_proxy_too(world: World, home: Path) -> None:
    (world.files / "there").write_text("there")
    get = f"curl -s -o /dev/null -w '%{{http_code}}' https://{FILES}:{OTHER}/there"
    done = world.run(home, "sh", "-c", get, options=("--ports", f"{OTHER}"))
    assert "200" == done.stdout
    assert "past the proxy" not in done.stderr


def test_without_any_variable_the_system_s_own_authorities_have_the_proxy_s(
    world: World, home: Path
) -> None:
    get = f"env -i /usr/bin/curl -s -o /dev/null -w '%{{http_code}} ' https://{FILES}/there"
    python = (
        'env -i /usr/bin/python3 -c "import urllib.request, urllib.error\ntry:\n'
        f"    urllib.request.urlopen('https://{FILES}/there')\n"
        'except urllib.error.HTTPError as error:\n    print(error.code)"'
    )
    done = world.run(home, "sh", "-c", f"{get}; {python}")
    assert "404 404\n" == done.stdout, done.stderr


def test_git_and_pip_work_inside(world: World, home: Path) -> None:
    """As without: they fetch from a server whose authority the user trusts."""
    git = functools.partial(subprocess.run, check=True, capture_output=True, env=environment(home))
    source = home / "source"
    git(["git", "init", "-q", str(source)])
    who = ("-c", "user.name=n", "-c", "user.email=e@x.test")
    git(["git", "-C", str(source), *who, "commit", "-q", "--allow-empty", "-m", "One"])
    git(["git", "clone", "-q", "--bare", str(source), str(world.files / "one.git")])
    git(["git", "-C", str(world.files / "one.git"), "update-server-info"])
    package = world.files / "simple" / "tiny"
    package.mkdir(parents=True)
    _write_wheel(package / "tiny-1.0-py3-none-any.whl")
    both = (
        f"git clone -q https://{FILES}:{OTHER}/one.git there && git -C there log --format=%s && "
        f"{sys.executable} -m pip --isolated --disable-pip-version-check install -q --no-compile "
        f"--target t --index-url https://{FILES}:{OTHER}/simple tiny && ls t"
    )
    done = world.run(home, "sh", "-c", both, options=("--ports", f"443,{OTHER}"))
    assert ["One", "tiny-1.0.dist-info", "tiny.py"] == done.stdout.split(), done.stderr


def _write_wheel(path: Path) -> None:
    from zipfile import ZipFile

    about = "tiny-1.0.dist-info"
    with ZipFile(path, "w") as wheel:
        wheel.writestr("tiny.py", "")
        wheel.writestr(f"{about}/METADATA", "Metadata-Version: 2.1\nName: tiny\nVersion: 1.0\n")
        wheel.writestr(
            f"{about}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        wheel.writestr(f"{about}/RECORD", "")


def test_a_resolver_on_the_machine_s_loopback_is_asked(world: World, home: Path) -> None:
    with world.machine.listen(53, "SOCK_DGRAM", "127.0.0.53") as asked:
        threading.Thread(target=_answer_names, args=(asked,), daemon=True).start()
        done = world.run(home, "getent", "ahostsv4", "only.dns.test")
        assert "198.51.100.7" in done.stdout, done.stderr


def _answer_names(asked: socket.socket) -> None:
    """Answer each question for an IPv4 address (RFC 1035); say of others that there is none."""
    with contextlib.suppress(OSError):
        while True:
            question, sender = asked.recvfrom(512)
            end = question.index(b"\0", 12) + 5
            is_ipv4 = question[end - 4 : end - 2] == b"\0\1"
            answer = b"\xc0\x0c\0\1\0\1\0\0\0\1\0\4" + socket.inet_aton("198.51.100.7")
            head = question[:2] + b"\x81\x80\0\1" + (b"\0\1" if is_ipv4 else b"\0\0") + b"\0" * 4
            asked.sendto(head + question[12:end] + (answer if is_ipv4 else b""), sender)


def test_a_process_that_it_starts_is_inside_and_a_daemon_ends_with_it(
    world: World, home: Path
) -> None:
    count = len(world.provider.requests)
    ask = "curl -s -o /dev/null --data-binary @body https://api.openai.com/v1/chat/completions"
    (home / "body").write_bytes(BODY)
    ask += " -H content-type:application/json -H authorization:x"
    started = f"(setsid sh -c '{ask}; touch asked; exec sleep 1000' &); {AWAIT.format('asked')}"
    done = world.run(home, "sh", "-c", started, options=SLIDING)
    assert 0 == done.returncode, done.stderr
    assert [masked(BODY, SLIDING_CONFIG)] == [r.body for r in world.provider.requests[count:]]
    assert [] == find_processes(home)


WAITS = f"touch ready; {AWAIT.format('go')}; exit 3"


@contextlib.contextmanager
def started(world: World, home: Path, waits: str = WAITS) -> Iterator["subprocess.Popen[str]"]:
    """Start a command that waits, and wait until it does."""
    with subprocess.Popen(
        world.command(home, "--", "sh", "-c", waits),
        env=world.environment(home),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            eventually(lambda: (home / "ready").exists() or process.poll() is not None or None)
            yield process
        finally:
            process.kill()


def test_two_run_at_once(world: World, tmp_path: Path) -> None:
    homes = [tmp_path / "one", tmp_path / "two"]
    with contextlib.ExitStack() as stack:
        both = []
        for home in homes:
            home.mkdir()
            both.append(stack.enter_context(started(world, home)))
        for home in homes:
            (home / "go").touch()
        assert [3, 3] == [process.wait(SECONDS) for process in both]


@pytest.mark.parametrize("signalled", ["INT", "KILL", "the command"])
def test_whatever_ends_it_nothing_is_left(world: World, home: Path, signalled: str) -> None:
    with started(world, home) as process:
        assert called(find_processes(home), r"\S*pasta ")
        if signalled == "INT":
            os.killpg(process.pid, signal.SIGINT)  # as a terminal does
        elif signalled == "KILL":
            process.kill()
        else:
            (waits,) = called(find_processes(home), "sh -c touch ready")
            os.kill(waits, signal.SIGKILL)
        process.wait(SECONDS)
        expected = {"INT": 130, "KILL": -9, "the command": 137}[signalled]
        assert expected == process.returncode
    eventually(lambda: not find_processes(home) or None)


def test_a_proxy_that_is_killed_is_started_again(world: World, home: Path) -> None:
    get = (
        f"touch ready; {AWAIT.format('go')}; for n in $(seq 300); do "
        f"curl -s -o /dev/null -w '%{{http_code}}' https://{FILES}/there && exit 3; sleep 0.2; done"
    )
    with started(world, home, get) as process:
        (proxy,) = called(find_processes(home), r"\S+ -P -u -m addon\.proxy\.server")
        os.kill(proxy, signal.SIGKILL)
        (home / "go").touch()
        said, error = process.communicate(timeout=SECONDS)
    assert (3, "404") == (process.returncode, said[-3:])
    assert "the proxy ended once by itself" in error
    eventually(lambda: not find_processes(home) or None)


def test_doctor_says_that_it_works(world: World, home: Path) -> None:
    doctor = (*RUN[:-1], "doctor", "--transparent")
    done = subprocess.run(
        world.machine.command(home, *doctor),
        env=world.environment(home),
        capture_output=True,
        text=True,
        timeout=SECONDS,
    )
    assert 0 == done.returncode, done.stdout + done.stderr
    assert "works here: IPv4 and IPv6" in " ".join(done.stdout.split())


_PROVIDER = {
    "name": "scripted",
    "baseUrl": "https://api.openai.com/v1",
    "apiKey": FAKE_KEY,
    "models": ["gpt-4o"],
}
NANOCODER = Client(
    registry="npm",
    packages=(
        "@nanocollective/nanocoder@1.30.0",
        "node@22",
    ),  # it wants a newer Node than many have
    command=(
        *("{package}/node_modules/.bin/node", "{package}/node_modules/.bin/nanocoder"),
        *("--provider", "scripted", "--model", "gpt-4o"),
        *("--mode", "yolo", "--trust-directory", "run", "{task}"),
    ),
    files={
        ".config/nanocoder/agents.config.json": json.dumps(
            {"nanocoder": {"providers": [_PROVIDER]}}
        )
    },
    shell=Tool("execute_bash", COMMAND),
    read=Tool("read_file", {"path": "{work}/{what}"}),
    scenario=TOUR,
)
"""It brings a network client of its own, which takes no proxy, whatever the environment says."""


@pytest.mark.thorough
@pytest.mark.parametrize(
    "client",
    [
        *(
            pytest.param(prepare(name), id=name)
            for name in ("qwen-code", "mini-swe-agent", "claude-code", "codex")
        ),
        pytest.param(NANOCODER, id="nanocoder"),
    ],
)
def test_a_real_agent_is_masked(world: World, client: Client, tmp_path: Path) -> None:
    package = find_installed(client)
    if package is None:
        pytest.skip(
            f"{client.packages[0]} is not installed: python -m tests.tools.studio installs it"
        )
    workspace = Workspace(tmp_path)
    write_project(client.scenario.project, workspace.work)
    workspace.home.mkdir(exist_ok=True)
    replies = script_replies(client, workspace.work)
    provider = world.provider
    first, provider._script, provider._strict = len(provider.requests), replies, True
    refused = len(provider.refusals)
    workspace.bundle.write_bytes(world.bundle.read_bytes())
    launcher = world.machine.command(workspace.work, *RUN, "--transparent", *MASKING, "--")
    said = run_client(client, package, workspace, None, SECONDS, launcher)
    assert [] == provider.refusals[refused:]
    came = provider.requests[first:]
    assert len(replies.replies) - 1 == max(replies.place(each.said) for each in came), said
    line = last_line(said)
    assert [] == [words for words in MASKED if words not in line], said
