"""The networks that a proxy meets: a company's proxy and its authority, git, servers on loopback.

Every process is real. Names that end in `.test` lead to loopback: for the proxy by a script beside
the addon, and for the company's proxy because it goes nowhere else.
"""

import contextlib
import functools
import http.client
import http.server
import io
import json
import re
import shutil
import socket
import socketserver
import ssl
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from pathlib import Path

import httpx
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from mitmproxy.certs import CertStore

from addon.network import read_address
from addon.proxy.base_urls import Server, behind
from addon.proxy.environment import client_environment
from tests.live.harness import (
    ON,
    SECONDS,
    Heard,
    Sink,
    conversation,
    encoded,
    environment,
    eventually,
    masked,
    ssl_context,
    stream,
)
from tests.support.ports import hold_port

CHAT = "/v1/chat/completions"
BODY = encoded(conversation())
KEPT = "/kept"
"""The company's proxy answers this itself, and waits for the next request."""

USER = "Basic bWVAY29ycDpwOncvw6k="
HOSTS = FAR, CLOSED, NEAR, NEAR_CLOSED = (
    "far.test",
    "closed.test",
    "near.test",
    "closed.near.test",
)
"""Behind the company's proxy or not; opened by ours, or passed through."""

CONFIG = ON + f'[observation_masking.hosts]\nnever = ["{CLOSED}", "{NEAR_CLOSED}"]\n'.encode()

SERVE = (sys.executable, "-u", "-m", "addon.proxy.server")
"""As `run` starts a proxy, which then waits for a line that says how to serve."""

RESOLVER = """
import socket

resolve = socket.getaddrinfo


def lead_here(host, *more, **named):
    name = host.decode() if isinstance(host, bytes) else host
    return resolve("127.0.0.1" if str(name).endswith(".test") else name, *more, **named)


socket.getaddrinfo = lead_here
"""


class PlainSink(Sink):
    """The same over plain HTTP."""

    def get_request(self) -> tuple[ssl.SSLSocket, object]:
        return socketserver.TCPServer.get_request(self)  # type: ignore[return-value]


class CompanyProxy(socketserver.ThreadingTCPServer):
    """A proxy that wants a user, keeps what it is asked for, and leads all to loopback."""

    daemon_threads = True

    def __init__(self, leaf: Path | None) -> None:
        self.asked: list[str] = []
        self._tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER) if leaf else None
        if self._tls and leaf:
            self._tls.load_cert_chain(leaf)
        super().__init__(("127.0.0.1", 0), _Asked)

    @property
    def port(self) -> int:
        return int(self.server_address[1])

    def get_request(self) -> tuple[socket.socket, object]:
        connection, address = super().get_request()
        return self._tls.wrap_socket(connection, True) if self._tls else connection, address

    def handle_error(self, request: object, client_address: object) -> None:
        """Say nothing: a test that cares looks at what was asked."""


class _Asked(socketserver.StreamRequestHandler):
    server: CompanyProxy
    rfile: io.BufferedReader

    def handle(self) -> None:
        line = self.rfile.readline().decode()
        # At the end of a connection there is no line at all, however often it is read.
        headers = [*takewhile(lambda each: each not in (b"\r\n", b""), self.rfile)]
        if not line:
            return
        method, target, _ = line.split(" ")
        self.server.asked.append(f"{method} {target}")
        if f"Proxy-Authorization: {USER}\r\n".encode() not in headers:
            self.wfile.write(b"HTTP/1.1 407 Who?\r\ncontent-length: 0\r\n\r\n")
            return
        if target.endswith(KEPT):
            self.wfile.write(b"HTTP/1.1 200 Kept\r\ncontent-length: 2\r\n\r\nok")
            self.rfile.read()
            return
        port = int(re.findall(r":(\d+)", target)[0])
        with socket.create_connection(("127.0.0.1", port)) as other:
            if method == "CONNECT":
                self.wfile.write(b"HTTP/1.1 200 Connected\r\n\r\n")
            else:
                path = "/" + target.split("/", 3)[3]
                own = b"Proxy-Authorization"
                kept = b"".join(each for each in headers if not each.startswith(own))
                other.sendall(f"{method} {path} HTTP/1.1\r\n".encode() + kept + b"\r\n")
            back = (lambda: other.recv(65536), self.connection)
            thread = threading.Thread(target=_copy, args=back, daemon=True)
            thread.start()
            _copy(lambda: self.rfile.read1(65536), other)
            thread.join()


def _copy(read: Callable[[], bytes], target: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := read():
            target.sendall(data)
        target.shutdown(socket.SHUT_WR)


@dataclass
class World:
    """The servers, the authority that vouches for them, and where a user lives."""

    folder: Path
    ca: Path
    sink: Sink
    plain: PlainSink
    site: http.server.ThreadingHTTPServer
    companies: dict[str, CompanyProxy] = field(default_factory=dict)


@contextlib.contextmanager
def serving(server: socketserver.TCPServer) -> Iterator[None]:
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    yield
    server.shutdown()


def make_leaf(folder: Path) -> tuple[Path, Path]:
    """Return an authority's certificate, and a file with a server's key and certificate."""
    store = CertStore.from_store(folder, "company", 2048)
    names = [x509.DNSName(name) for name in ("localhost", *HOSTS)]
    entry = store.get_cert("localhost", names)
    key = entry.privatekey.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.TraditionalOpenSSL,
        serialization.NoEncryption(),
    )
    leaf = folder / "leaf.pem"
    leaf.write_bytes(key + entry.cert.to_pem())
    return folder / "company-ca-cert.pem", leaf


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    folder = tmp_path_factory.mktemp("world")
    ca, leaf = make_leaf(folder / "tls")
    make_repository(folder / "site" / "site.git")
    files = functools.partial(QuietFiles, directory=str(folder / "site"))
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(leaf)
    with contextlib.ExitStack() as stack:
        sink = stack.enter_context(Sink(leaf))
        plain = stack.enter_context(PlainSink(leaf))
        site = stack.enter_context(http.server.ThreadingHTTPServer(("127.0.0.1", 0), files))
        site.socket = tls.wrap_socket(site.socket, server_side=True)
        companies = {
            scheme: stack.enter_context(CompanyProxy(leaf if scheme == "https" else None))
            for scheme in ("http", "https")
        }
        for server in (sink, plain, site, *companies.values()):
            stack.enter_context(serving(server))
        yield World(folder, ca, sink, plain, site, companies)


class QuietFiles(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        """Say nothing."""


@dataclass
class Served:
    """A proxy as `run` starts it, and what it said."""

    world: World
    process: subprocess.Popen[bytes]
    url: str
    log_file: Path
    environment: dict[str, str]
    bundle: Path

    @property
    def log(self) -> str:
        return self.log_file.read_text()

    def client(self, bundle: Path) -> httpx.Client:
        verify = ssl_context(bundle)
        return httpx.Client(proxy=self.url, verify=verify, trust_env=False, timeout=SECONDS)

    def post(self, url: str, sink: Sink, *, passes: bool = False) -> Heard:
        """Send the conversation; a client that only trusts the company sees what passes through."""
        sink.heard.clear()
        with self.client(self.world.ca if passes else self.bundle) as client:
            client.post(url, content=BODY).raise_for_status()
        return sink.last(CHAT)


def bundles_of(variables: dict[str, str]) -> tuple[Path, Path]:
    """Return what `run` gives in this environment to clients, and to the proxy."""
    script = "from addon.proxy.authorities import *; print(user_bundle()); print(upstream_bundle())"
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, env=variables, capture_output=True, text=True, check=True)
    to_clients, to_proxy = done.stdout.splitlines()
    return Path(to_clients), Path(to_proxy)


def told_to_serve(arguments: Sequence[str], bundle: Path) -> bytes:
    """Return the line for the standard input of `SERVE`."""
    told = {"arguments": ["--listen-port", "0", *arguments], "bundle": str(bundle)}
    return f"{json.dumps(told)}\n".encode()


@contextlib.contextmanager
def running(world: World, folder: Path, *arguments: str, **variables: str) -> Iterator[Served]:
    """Start `addon.proxy.server` with these variables, until its standard input ends."""
    folder.mkdir(exist_ok=True)
    (folder / "config.toml").write_bytes(CONFIG)
    (folder / "resolver.py").write_text(RESOLVER)
    told = environment(folder, XDG_DATA_HOME=str(folder / "data"), **variables)
    bundle, upstream = bundles_of(told)
    log = folder / "proxy.log"
    config = f"mask_config={folder / 'config.toml'}"
    scripts = ["-s", str(folder / "resolver.py"), "--set", config, *arguments]
    with (
        log.open("wb") as output,
        subprocess.Popen(
            SERVE,
            bufsize=0,
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=output,
            cwd=folder,
            env=told,
        ) as process,
    ):
        assert process.stdin is not None
        process.stdin.write(told_to_serve(scripts, upstream))
        ready = re.compile(r"listening at \S*:(\d+)(?=.*observation-masking \S+ ON)", re.DOTALL)
        port = eventually(lambda: ready.search(log.read_text()) or process.poll())
        assert isinstance(port, re.Match), log.read_text()
        yield Served(world, process, f"http://127.0.0.1:{port[1]}", log, told, bundle)
    assert "Traceback" not in log.read_text()


@pytest.fixture(scope="module", params=["http", "https"])
def served(
    request: pytest.FixtureRequest, world: World, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Served]:
    """A proxy behind that of a company, which speaks plain HTTP or TLS itself."""
    company = world.companies[request.param]
    folder = tmp_path_factory.mktemp("served")
    url = f"{request.param}://me%40corp:p%3Aw%2F%C3%A9@localhost:{company.port}"
    variables = {"https_proxy": url, "HTTP_PROXY": url, "NO_PROXY": f"other, .{NEAR}"}
    with running(world, folder, SSL_CERT_FILE=str(world.ca), **variables) as proxy:
        yield proxy


@pytest.fixture
def company(served: Served) -> CompanyProxy:
    scheme = served.environment["https_proxy"].partition(":")[0]
    found = served.world.companies[scheme]
    found.asked.clear()
    return found


TLS_HOSTS = {
    "opened, behind the company's proxy": (FAR, True, True),
    "passed through, behind the company's proxy": (CLOSED, False, True),
    "opened, reached directly": (NEAR, True, False),
    "passed through, reached directly": (NEAR_CLOSED, False, False),
    "this machine": ("localhost", True, False),
}
"""Host, whether it is opened, and whether the company's proxy leads there."""


@pytest.mark.parametrize("case", TLS_HOSTS.values(), ids=TLS_HOSTS)
def test_a_request_over_tls_goes_the_way_of_its_host(
    served: Served, company: CompanyProxy, case: tuple[str, bool, bool]
) -> None:
    host, is_intercepted, is_behind = case
    place = f"{host}:{served.world.sink.port}"
    heard = served.post(f"https://{place}{CHAT}", served.world.sink, passes=not is_intercepted)
    assert (masked(BODY) if is_intercepted else BODY) == heard.body
    assert ([f"CONNECT {place}"] if is_behind else []) == company.asked
    assert b"proxy-authorization" not in heard.head.lower()


@pytest.mark.parametrize(("host", "is_behind"), [(FAR, True), (NEAR, False), ("localhost", False)])
def test_a_plain_request_goes_the_way_of_its_host(
    served: Served, company: CompanyProxy, host: str, is_behind: bool
) -> None:
    url = f"http://{host}:{served.world.plain.port}{CHAT}"
    heard = served.post(url, served.world.plain)
    assert masked(BODY) == heard.body
    assert heard.head.startswith(f"POST {CHAT} HTTP/1.1\r\n".encode())
    assert ([f"POST {url}"] if is_behind else []) == company.asked
    assert b"proxy-authorization" not in heard.head.lower()


ASKED = {
    "as a server": (False, False),
    "in absolute form": (True, False),
    "through a tunnel": (False, True),
}
"""How clients ask at our own port; the latter two know no `NO_PROXY`."""


@pytest.mark.parametrize(("is_absolute", "is_tunnelled"), ASKED.values(), ids=ASKED)
def test_what_a_base_url_of_ours_names_is_reached_as_any_host(
    served: Served, company: CompanyProxy, is_absolute: bool, is_tunnelled: bool
) -> None:
    """All on one connection."""
    world, place = served.world, served.url.removeprefix("http://")
    asked: list[str] = []
    with contextlib.closing(http.client.HTTPConnection(place, timeout=SECONDS)) as client:
        if is_tunnelled:
            client.set_tunnel(place)
        for host in (FAR, NEAR, FAR, "localhost"):
            for scheme, sink in (("https", world.sink), ("http", world.plain)):
                sink.heard.clear()
                there = Server(scheme, host, sink.port)
                url = f"{behind(read_address(served.url), there)}{CHAT}"
                client.request("POST", url if is_absolute else url[len(served.url) :], BODY)
                said = client.getresponse()
                assert (200, b"{}") == (said.status, said.read())
                heard = sink.last(CHAT)
                assert masked(BODY) == heard.body
                assert heard.head.startswith(f"POST {CHAT} HTTP/1.1\r\n".encode())
                assert f"Host: {host}:{sink.port}\r\n".encode() in heard.head
                assert b"proxy-authorization" not in heard.head.lower()
                tunnel, plain = f"CONNECT {there.authority}", f"POST http://{there.authority}{CHAT}"
                asked += [tunnel if scheme == "https" else plain] if host == FAR else []
    # A tunnel is kept for the requests that follow on a connection.
    assert {*asked} == {*company.asked}


def test_a_host_that_is_not_opened_is_not_masked_behind_a_base_url_of_ours(served: Served) -> None:
    sink = served.world.sink
    sink.heard.clear()
    url = behind(read_address(served.url), Server("https", CLOSED, sink.port))
    httpx.post(f"{url}{CHAT}", content=BODY, trust_env=False).raise_for_status()
    assert BODY == sink.last(CHAT).body


def test_a_user_that_the_company_does_not_know_is_told_so(world: World, tmp_path: Path) -> None:
    """The direct way is never tried."""
    proxy = f"http://localhost:{world.companies['http'].port}"
    world.sink.heard.clear()
    with running(world, tmp_path, HTTPS_PROXY=proxy, SSL_CERT_FILE=str(world.ca)) as served:
        url = behind(read_address(served.url), Server("https", FAR, world.sink.port))
        said = httpx.post(f"{url}{CHAT}", content=BODY, trust_env=False)
    assert (502, True) == (said.status_code, "407" in said.text)
    assert [] == world.sink.heard


def test_in_mitmproxys_own_upstream_mode_the_user_is_named_to_the_other_proxy_alone(
    world: World, tmp_path: Path
) -> None:
    company = world.companies["http"]
    company.asked.clear()
    arguments = (
        *("--mode", f"upstream:http://localhost:{company.port}"),
        *("--set", "upstream_auth=me@corp:p:w/é"),
    )
    with running(world, tmp_path, *arguments, SSL_CERT_FILE=str(world.ca)) as served:
        for scheme, sink in (("https", world.sink), ("http", world.plain)):
            sink.heard.clear()
            url = behind(read_address(served.url), Server(scheme, FAR, sink.port))
            httpx.post(f"{url}{CHAT}", content=BODY, trust_env=False).raise_for_status()
            heard = sink.last(CHAT)
            assert masked(BODY) == heard.body
            assert b"proxy-authorization" not in heard.head.lower()
    plain = f"{FAR}:{world.plain.port}"
    assert [f"CONNECT {FAR}:{world.sink.port}", f"POST http://{plain}{CHAT}"] == company.asked


LOOPS: dict[str, Callable[[http.client.HTTPConnection, str], None]] = {
    "in absolute form": lambda client, there: client.request("GET", f"http://{there}/"),
    "by a base URL": lambda client, there: client.request("GET", f"/to/http/{there}/to/http/a/b"),
    "by its Host": lambda client, there: client.request("GET", "/", headers={"Host": there}),
}


@pytest.mark.parametrize("ask", LOOPS.values(), ids=LOOPS)
def test_another_name_of_the_proxy_is_no_endless_loop(
    plain_served: Served, ask: Callable[[http.client.HTTPConnection, str], None]
) -> None:
    place = plain_served.url.removeprefix("http://")
    there = f"{FAR}:{place.partition(':')[2]}"
    before = plain_served.log.count("server connect")
    with contextlib.closing(http.client.HTTPConnection(place, timeout=SECONDS)) as client:
        ask(client, there)
        said = client.getresponse()
        problem = json.loads(said.read())["error"]["message"]
    assert (400, True) == (said.status, problem.endswith("this leads back to the proxy itself"))
    assert 1 == plain_served.log.count("server connect") - before


def test_plain_requests_to_many_hosts_share_a_connection(
    served: Served, company: CompanyProxy
) -> None:
    """As urllib3 does: to it, one proxy is one connection."""
    client = http.client.HTTPConnection(served.url.removeprefix("http://"), timeout=SECONDS)
    with contextlib.closing(client):
        for number in range(12):
            client.request("GET", f"http://host{number}.test{KEPT}")
            assert b"ok" == client.getresponse().read()
    assert 12 == len(company.asked)


def test_no_log_names_the_user_and_the_log_names_the_proxy(served: Served) -> None:
    said = r"requests go on to the proxy https?://localhost:\d+, which https_proxy names\n"
    eventually(lambda: re.search(said, served.log))
    assert not re.search("p:w|p%3A|me@|me%40|bWVAY29", served.log)
    arguments = Path(f"/proc/{served.process.pid}/cmdline").read_bytes()
    assert b"me%40" not in arguments
    assert b"me@" not in arguments


def run_client(served: Served, *command: str) -> subprocess.CompletedProcess[str]:
    """Run a program in the environment that clients get."""
    told = client_environment(served.url, served.bundle, served.environment)
    return subprocess.run(
        command,
        env={**served.environment, **told, "GIT_CONFIG_NOSYSTEM": "1", "GIT_TERMINAL_PROMPT": "0"},
        cwd=served.world.folder,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=SECONDS,
    )


@pytest.fixture(scope="module")
def plain_served(world: World, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A proxy in a network without another; the user's CA is in a variable alone."""
    folder = tmp_path_factory.mktemp("plain")
    with running(world, folder, SSL_CERT_FILE=str(world.ca)) as proxy:
        yield proxy


def make_repository(folder: Path) -> None:
    """Make a repository that git clones from files alone."""
    folder.mkdir(parents=True)
    own = {"GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@test"}
    own |= {"GIT_COMMITTER_NAME": "a", "GIT_COMMITTER_EMAIL": "a@test"}
    for line in ("init -q --bare .", "update-server-info"):
        subprocess.run(["git", *line.split()], cwd=folder, check=True)
    tree = ["git", "hash-object", "-t", "tree", "-w", "--stdin"]
    run = functools.partial(
        subprocess.run, cwd=folder, check=True, capture_output=True, text=True, input=""
    )
    commit = run(
        ["git", "commit-tree", "-m", "first", run(tree).stdout.strip()],
        env=environment(folder, **own),
    ).stdout.strip()
    run(["git", "update-ref", "HEAD", commit])
    run(["git", "update-server-info"])


HAS_GIT = shutil.which("git") is not None


@pytest.mark.skipif(not HAS_GIT, reason="there is no git")
@pytest.mark.parametrize("host", [FAR, CLOSED], ids=["opened", "passed through"])
def test_git_clones_over_https(plain_served: Served, host: str) -> None:
    """Debian's is built with GnuTLS, which reads no variable of OpenSSL's."""
    world = plain_served.world
    url = f"https://{host}:{world.site.server_address[1]}/site.git"
    done = run_client(plain_served, "git", "clone", "-q", url, f"clone-{host}")
    assert (0, "") == (done.returncode, done.stderr)
    assert (world.folder / f"clone-{host}" / ".git" / "HEAD").exists()
    assert "UNMASKED" not in plain_served.log


@pytest.mark.parametrize("host", [FAR, CLOSED], ids=["opened", "passed through"])
@pytest.mark.parametrize(
    "command",
    [
        ("curl", "-sS"),
        ("wget", "-q", "-O", "-"),
        (sys.executable, "-c", "import httpx, sys; print(httpx.get(sys.argv[1]).text)"),
    ],
    ids=["curl", "wget", "httpx"],
)
def test_other_tools_trust_both(plain_served: Served, command: tuple[str, ...], host: str) -> None:
    if not shutil.which(command[0]):
        pytest.skip(f"there is no {command[0]}")
    url = f"https://{host}:{plain_served.world.site.server_address[1]}/site.git/HEAD"
    done = run_client(plain_served, *command, url)
    assert "ref: refs/heads/" in done.stdout, done.stderr
    assert "UNMASKED" not in plain_served.log


@pytest.mark.skipif(not shutil.which("curl"), reason="there is no curl")
@pytest.mark.parametrize("scheme", ["http", "https"])
def test_a_closed_port_of_this_machine_refuses(plain_served: Served, scheme: str) -> None:
    """curl's 7: failed to connect. Behind the proxy it would get a page with 502."""
    for name in ("127.0.0.1", "localhost", "[::1]"):
        done = run_client(plain_served, "curl", "-sS", f"{scheme}://{name}:{hold_port()}/")
        assert 7 == done.returncode, done.stderr


def test_a_company_that_wants_another_user_is_named(world: World, tmp_path: Path) -> None:
    url = f"http://somebody:else@localhost:{world.companies['http'].port}"
    with running(world, tmp_path, HTTPS_PROXY=url, SSL_CERT_FILE=str(world.ca)) as served:
        with served.client(served.bundle) as client:
            answer = client.get(f"https://{FAR}:{world.sink.port}/")
        assert 502 == answer.status_code
        assert "407" in answer.text
        assert "somebody" not in answer.text
        eventually(lambda: re.search("refused HTTP CONNECT request: 407", served.log))


def test_clients_that_are_connected_at_the_end_are_no_error(world: World, tmp_path: Path) -> None:
    world.plain.answers["/endless"] = stream(b"data: 1\n\n", wait=(wait := threading.Event()))
    place = f"localhost:{world.plain.port}"
    with running(world, tmp_path) as served:  # which looks for tracebacks when it has ended
        port = int(served.url.rpartition(":")[2])
        idle, busy, tunnel = (socket.create_connection(("127.0.0.1", port)) for _ in range(3))
        busy.sendall(f"GET http://{place}/endless HTTP/1.1\r\nHost: {place}\r\n\r\n".encode())
        tunnel.sendall(f"CONNECT {place} HTTP/1.1\r\n\r\n".encode())
        assert [b"HTTP/1.1", b"HTTP/1.1"] == [each.recv(8) for each in (busy, tunnel)]
    wait.set()
    for each in (idle, busy, tunnel):
        each.close()


START_AND_WAIT = """
import subprocess, sys

line, *command = sys.argv[1:]
child = subprocess.Popen(command, bufsize=0, stdin=subprocess.PIPE, start_new_session=True)
child.stdin.write(line.encode())
child.wait()
"""


def test_a_proxy_ends_when_the_process_that_started_it_is_killed(
    world: World, tmp_path: Path
) -> None:
    variables = environment(tmp_path)
    _, bundle = bundles_of(variables)
    with subprocess.Popen(
        [sys.executable, "-c", START_AND_WAIT, told_to_serve((), bundle), *SERVE],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        cwd=tmp_path,
        env=variables,
    ) as parent:
        assert parent.stdout is not None
        said = iter(parent.stdout.readline, b"")
        assert any(b" ON: " in line for line in said)
        parent.kill()
        assert b"0 requests" in b"".join(said)  # which ends when the proxy does


def test_what_is_no_plain_proxy_has_no_other_behind_it(world: World, tmp_path: Path) -> None:
    """The proxy that the environment names is not even there."""
    place = f"localhost:{world.sink.port}"
    mode = ("--mode", f"reverse:https://{place}")
    gone = f"http://localhost:{hold_port()}"
    with running(world, tmp_path, *mode, HTTPS_PROXY=gone, SSL_CERT_FILE=str(world.ca)) as served:
        httpx.post(f"{served.url}{CHAT}", content=BODY, trust_env=False).raise_for_status()
        assert masked(BODY) == world.sink.last(CHAT).body


def test_a_server_that_only_the_client_trusts_fails_once_and_then_passes_through(
    world: World, tmp_path: Path
) -> None:
    url = f"https://{FAR}:{world.sink.port}{CHAT}"
    with running(world, tmp_path) as served:
        with served.client(served.bundle) as client:
            assert 502 == client.post(url, content=BODY).status_code
        assert BODY == served.post(url, world.sink, passes=True).body
        with pytest.raises(httpx.ConnectError, match="CERTIFICATE_VERIFY_FAILED"):
            served.post(url, world.sink)
        said = f"the certificate of {FAR} cannot be verified \\(unable to get local issuer"
        assert 1 == eventually(lambda: len(re.findall(said, served.log)) or None)
        process = served.process
        assert process.stdin is not None
        process.stdin.close()
        process.wait(SECONDS)
        assert f"as a certificate isn't trusted: 2 to {FAR}" in served.log


def test_a_server_that_only_the_client_trusts_always_fails_behind_a_base_url(
    world: World, tmp_path: Path
) -> None:
    """The client speaks no TLS that could pass unopened."""
    with running(world, tmp_path) as served:
        url = behind(read_address(served.url), Server("https", FAR, world.sink.port))
        for _ in range(2):
            said = httpx.post(f"{url}{CHAT}", content=BODY, trust_env=False)
            assert (502, True) == (said.status_code, "Certificate verify failed" in said.text)
        with served.client(served.bundle) as client:  # its first connection fails, too
            assert 502 == client.get(f"https://{FAR}:{world.sink.port}/").status_code
        assert 1 == served.log.count("pass through unopened and UNMASKED")


def test_a_company_whose_certificate_is_unknown_is_not_passed_by(
    world: World, tmp_path: Path
) -> None:
    company = world.companies["https"]
    url = f"https://me%40corp:p%3Aw%2F%C3%A9@localhost:{company.port}"
    with running(world, tmp_path, HTTPS_PROXY=url) as served:
        for _ in range(2):
            with served.client(served.bundle) as client:
                answer = client.get(f"https://{FAR}:{world.sink.port}/")
            assert (502, True) == (answer.status_code, "Certificate verify failed" in answer.text)
        assert "UNMASKED" not in served.log


ASKS_BY_ITS_BASE_URL = """
import os, sys, urllib.request
url = os.environ["OPENAI_BASE_URL"] + "/chat/completions"
print(urllib.request.urlopen(url, sys.stdin.buffer.read()).status)
"""


def test_a_run_leads_a_base_url_by_the_companys_proxy(world: World, tmp_path: Path) -> None:
    """Its proxy knows no other way to a name that ends in `.test`."""
    (tmp_path / "config.toml").write_bytes(CONFIG)
    company = world.companies["http"]
    company.asked.clear()
    url = f"http://me%40corp:p%3Aw%2F%C3%A9@localhost:{company.port}"
    named = {"HTTPS_PROXY": url, "SSL_CERT_FILE": str(world.ca)}
    place = f"{FAR}:{world.sink.port}"
    options = ["-q", "--config", str(tmp_path / "config.toml"), "--reverse", f"https://{place}"]
    command = [sys.executable, "-c", ASKS_BY_ITS_BASE_URL]
    done = subprocess.run(
        [sys.executable, "-m", "addon.commands.main", "run", *options, "--", *command],
        cwd=tmp_path,
        env=environment(tmp_path, XDG_DATA_HOME=str(tmp_path / "data"), **named),
        input=BODY,
        capture_output=True,
        timeout=SECONDS,
    )
    assert (0, b"200\n", b"") == (done.returncode, done.stdout, done.stderr)
    assert masked(BODY) == world.sink.last(CHAT).body
    assert [f"CONNECT {place}"] == company.asked


def test_a_run_finds_an_authority_beside_the_command(world: World, tmp_path: Path) -> None:
    """Its proxy works in another folder."""
    shutil.copy(world.ca, tmp_path / "own.pem")
    variables = {"XDG_DATA_HOME": str(tmp_path / "data"), "SSL_CERT_FILE": "own.pem"}
    done = subprocess.run(
        [sys.executable, "-m", "addon.commands.main", "run", "-q", "--", "echo", "done"],
        cwd=tmp_path,
        env=environment(tmp_path, **variables),
        capture_output=True,
        text=True,
        timeout=SECONDS,
    )
    assert (0, "done\n", "") == (done.returncode, done.stdout, done.stderr)
