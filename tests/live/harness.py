"""Real processes on loopback for the live tests: a proxy, a server that keeps every byte, clients.

Nothing of the environment reaches them but what is passed on by name.
"""

import contextlib
import inspect
import json
import os
import re
import shutil
import socket
import socketserver
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, TypeVar, cast

import httpx
from mitmproxy.certs import CertStore
from mitmproxy.options import CONF_BASENAME

from addon.network import Address
from addon.proxy.health import check_health
from addon.proxy.server import ADDON, MITMDUMP, Proxy, running_proxy, start_mitmdump
from masking.config import Settings, parse_settings
from masking.rewrite import rewrite_request
from masking.window import MaskPolicy
from tests.live.forks import fork_mitmdump
from tests.support.record_lines import read_lines
from tests.tools.provider.provider import Provider, is_old_account
from tests.tools.provider.script import Received, Reply, Script

HOST = "localhost"
SECONDS = 300.0
"""After which a client gives up: so long that no machine is too slow."""

PATIENCE = 60.0
"""Seconds that a test waits for one thing to come about: only what hangs takes so long."""

UNPRICED = b"""[observation_masking.schema1]
enabled = true
window_turns = 2
placeholder_template = "<{tool_call_id} {tool_name} {original_chars}>"
skip_if_not_shorter = false
mask_text_parts = true
"""
ON = UNPRICED + b'cache_pricing = "none"\n'
"""What is masked is then seen at once, whatever the cache is worth."""

OFF = ON.replace(b"enabled = true", b"enabled = false")

Answer = Sequence[bytes | threading.Event]
"""What a `Sink` says, piece by piece; at an event it waits until that is set, and hangs
up if it never is."""

_PASSED_ON = ("PATH", "PYTHONPATH", "SYSTEMROOT")
_Value = TypeVar("_Value")


def environment(folder: Path, **more: str) -> dict[str, str]:
    """Return all the environment a process of a test gets."""
    kept = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
    return {**kept, "HOME": str(folder), "XDG_STATE_HOME": str(folder / "state"), **more}


def eventually(find: Callable[[], _Value | None], seconds: float = PATIENCE) -> _Value:
    """Return what `find` finds, as soon as it does.

    It looks again after a twentieth of the time that it has waited, because looking takes a core
    from what it waits for.

    Raises TimeoutError, which says who waited, and what the names in `find` stand for.
    """
    begin = time.monotonic()
    while (waited := time.monotonic() - begin) < seconds:
        if (found := find()) is not None:
            return found
        time.sleep(max(0.01, min(0.25, waited / 20)))
    caller = inspect.stack(0)[1]
    lines = [f"nothing in {seconds:g} s at {caller.filename}:{caller.lineno}"]
    seen = inspect.getclosurevars(find).nonlocals if inspect.isfunction(find) else {}
    for name, value in seen.items():
        log = getattr(getattr(value, "proxy", value), "log", "")
        lines += [f"{name}: {value!r:.1000}", f"{log}"[-2000:]]
    raise TimeoutError("\n".join(lines))


def policy_of(config: bytes) -> MaskPolicy:
    return cast(Settings, parse_settings(config)).policy


def masked(body: bytes, config: bytes = ON) -> bytes:
    """Return what is to arrive when `body` was sent."""
    return rewrite_request(body, policy_of(config)).body


def conversation(
    turns: int = 5, text: str = "a line of output é\n" * 20, **fields: object
) -> dict[str, Any]:
    """Return a request with one call and one result per tool turn."""
    messages: list[dict[str, object]] = [{"role": "user", "content": "Go on."}]
    for turn in range(turns):
        function = {"name": "shell", "arguments": "{}"}
        call = {"id": f"call_{turn}", "type": "function", "function": function}
        messages.append({"role": "assistant", "content": None, "tool_calls": [call]})
        messages.append({"role": "tool", "tool_call_id": f"call_{turn}", "content": text})
    return {"model": "gpt-4o", "messages": messages, **fields}


def encoded(request: object) -> bytes:
    return json.dumps(request, ensure_ascii=False, indent=1).encode()


def answer(
    body: bytes = b"{}", *, status: int = 200, kind: str = "application/json", **headers: str
) -> Answer:
    fields = {"content-type": kind, "content-length": str(len(body)), **headers}
    return [_head(status, fields) + body]


def stream(*events: bytes, wait: threading.Event | None = None, **headers: str) -> Answer:
    """Return an event stream; after its first event it waits for what is given."""
    fields = {"content-type": "text/event-stream", "transfer-encoding": "chunked"}
    fields |= _spelled(headers)
    first, *others = (b"%x\r\n%b\r\n" % (len(event), event) for event in events)
    waiting = [wait] if wait else []
    return [_head(200, fields), first, *waiting, *others, b"0\r\n\r\n"]


def _head(status: int, fields: Mapping[str, str]) -> bytes:
    lines = [f"{name.replace('_', '-')}: {value}" for name, value in fields.items()]
    return "\r\n".join([f"HTTP/1.1 {status} So", *lines, "connection: close", "", ""]).encode()


class Heard(NamedTuple):
    """A request as it arrived: every byte of its head, and its body without the chunks' frames."""

    head: bytes
    body: bytes

    @property
    def path(self) -> str:
        return self.head.split(b" ", 2)[1].decode().partition("?")[0]

    @property
    def head_but_length(self) -> bytes:
        lines = self.head.split(b"\r\n")
        return b"\r\n".join(
            line for line in lines if not line.lower().startswith(b"content-length")
        )


class Sink(socketserver.ThreadingTCPServer):
    """A TLS server that keeps what it hears and says what it is told, by path."""

    daemon_threads = True

    def __init__(self, leaf: Path) -> None:
        self.heard: list[Heard] = []
        self.answers: dict[str, Answer] = {}
        self._tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._tls.load_cert_chain(leaf)
        super().__init__(("127.0.0.1", 0), _Connection)

    @property
    def port(self) -> int:
        return int(self.server_address[1])

    def url(self, path: str) -> str:
        return f"https://{HOST}:{self.port}{path}"

    def last(self, path: str) -> Heard:
        """Return the last request to a path, whatever its query, once there is one."""
        return eventually(lambda: next((h for h in reversed(self.heard) if h.path == path), None))

    def get_request(self) -> tuple[ssl.SSLSocket, object]:
        connection, address = super().get_request()
        wrapped = self._tls.wrap_socket(connection, server_side=True, do_handshake_on_connect=False)
        return wrapped, address

    def handle_error(self, request: object, client_address: object) -> None:
        """Say nothing: a test that cares looks at what was heard."""


class _Connection(socketserver.StreamRequestHandler):
    server: Sink
    disable_nagle_algorithm = True

    def handle(self) -> None:
        head = self._read_head()
        if head is None:
            return
        heard = Heard(head, self._read_body(head.lower()))
        self.server.heard.append(heard)
        for piece in self.server.answers.get(heard.path, answer()):
            if isinstance(piece, bytes):
                self.wfile.write(piece)
            elif not piece.wait(SECONDS):
                return
        with contextlib.suppress(OSError):
            self.connection.shutdown(socket.SHUT_RDWR)

    def _read_head(self) -> bytes | None:
        """Return the head of a request; None where the client left before it was complete."""
        lines = [self.rfile.readline()]
        while lines[-1] not in (b"", b"\r\n"):
            lines.append(self.rfile.readline())
        return b"".join(lines) if lines[-1] else None

    def _read_body(self, head: bytes) -> bytes:
        if b"transfer-encoding: chunked" in head:
            return b"".join(iter(self._read_chunk, b""))
        _, found, rest = head.partition(b"content-length:")
        return self.rfile.read(int(rest.split(b"\r\n")[0])) if found else b""

    def _read_chunk(self) -> bytes:
        chunk = self.rfile.read(int(self.rfile.readline(), 16))
        self.rfile.readline()
        return chunk


@dataclass
class Upstream:
    """Two TLS servers under one certificate authority: the scripted provider, and the sink.

    `confdir` holds an authority for all proxies in front of them: to make one takes its time.
    """

    provider: Provider
    sink: Sink
    ca: Path
    confdir: Path
    replies: list[Reply] = field(default_factory=list)


@contextlib.contextmanager
def running_upstream(
    folder: Path,
    script: Script | None = None,
    *,
    is_old: Callable[[Received], bool] = is_old_account,
) -> Iterator[Upstream]:
    """Run the servers; with a script of its own, the provider is strict, but for old accounts."""
    replies = [Reply(content="Well done, and on we go.")]
    answer: Script = script or (lambda _: replies[-1])
    with (
        Provider(
            answer, tls_folder=folder / "tls", strict=script is not None, is_old=is_old
        ) as provider,
        Sink(folder / "tls" / "provider-leaf.pem") as sink,
    ):
        threading.Thread(target=sink.serve_forever, args=(0.02,), daemon=True).start()
        CertStore.from_store(folder / "mitmproxy", CONF_BASENAME, 2048)
        yield Upstream(provider, sink, cast(Path, provider.ca), folder / "mitmproxy", replies)
        sink.shutdown()


@dataclass(frozen=True)
class Live:
    """A running proxy with the addon in front of the upstream, and what belongs to it."""

    proxy: Proxy
    folder: Path
    upstream: Upstream
    bundle: Path

    @property
    def sink(self) -> Sink:
        return self.upstream.sink

    def client(
        self,
        *,
        proxy: str | httpx.Proxy | None = "",
        http2: bool = False,
        on_request: Callable[[httpx.Request], object] = lambda _: None,
    ) -> httpx.Client:
        """Return a client that trusts proxy and servers; it goes through this one by default."""
        return httpx.Client(
            proxy=self.proxy.url if proxy == "" else proxy,
            verify=ssl_context(self.bundle, http2=http2),
            http2=http2,
            timeout=SECONDS,
            trust_env=False,
            event_hooks={"request": [on_request]},
        )

    def distrusting_client(self) -> httpx.Client:
        """Return a client that trusts the servers, but not the proxy."""
        verify = ssl_context(self.upstream.ca)
        return httpx.Client(proxy=self.proxy.url, verify=verify, timeout=SECONDS, trust_env=False)

    def send(self, path: str, body: bytes = b"", **headers: str) -> Heard:
        """POST a body to the sink through the proxy; what arrived."""
        return self._send(self.client(), path, body, headers)

    def send_directly(self, path: str, body: bytes = b"", **headers: str) -> Heard:
        """POST a body to the sink past the proxy; what arrived."""
        return self._send(self.client(proxy=None), path, body, headers)

    def _send(
        self, client: httpx.Client, path: str, body: bytes, headers: Mapping[str, str]
    ) -> Heard:
        with client:
            client.post(self.sink.url(path), content=body, headers=_spelled(headers))
        return self.sink.last(path.partition("?")[0])

    @contextlib.contextmanager
    def tunnel(self) -> Iterator[socket.socket]:
        """Have the proxy connect to the sink, and hang up."""
        target = f"{HOST}:{self.sink.port}"
        with socket.create_connection(("127.0.0.1", self.proxy.port), SECONDS) as connection:
            connection.sendall(f"CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n\r\n".encode())
            assert b" 200 " in connection.recv(4096)
            yield connection

    def records(self) -> list[dict[str, Any]]:
        """Return the records of all requests that have ended; a proxy that runs is asked first."""
        with contextlib.suppress(OSError):
            check_health(Address("127.0.0.1", self.proxy.port), SECONDS)
        return read_records(self.folder)

    def record(self, path: str) -> dict[str, Any]:
        """Return the record of the only request to a path, once it is written."""
        return eventually(lambda: next((r for r in self.records() if r["path"] == path), None))

    def configure(self, config: bytes) -> None:
        """Write the configuration, unless it is written already, and wait until that is seen."""
        path = self.folder / "config.toml"
        if not (path.is_file() and path.read_bytes() == config):
            self.reconfigure(lambda: path.write_bytes(config))

    def reconfigure(self, edit: Callable[[], object]) -> None:
        """Edit the configuration, and wait until the log says what became of that."""
        before = self._count_edits()
        edit()
        eventually(lambda: self._count_edits() > before or None)

    def _count_edits(self) -> int:
        return len(re.findall(r"configuration (?:reloaded|unchanged)", self.proxy.log))


@contextlib.contextmanager
def running_addon(
    folder: Path,
    upstream: Upstream,
    *arguments: str,
    config: bytes | None = ON,
    trust: Sequence[Path] = (),
    **variables: str,
) -> Iterator[Live]:
    """Run the proxy with the addon and this configuration."""
    if config is not None:
        (folder / "config.toml").write_bytes(config)
        variables = {"OBSMASK_CONFIG": str(folder / "config.toml"), **variables}
    shutil.copytree(upstream.confdir, folder / "mitmproxy", dirs_exist_ok=True)
    trusted = _joined(folder / "upstream.pem", upstream.ca, *trust)
    arguments = ("--set", f"ssl_verify_upstream_trusted_ca={trusted}", *arguments)
    env = environment(folder, **variables)
    start = fork_mitmdump if sys.platform == "linux" else start_mitmdump
    with running_proxy(folder, *arguments, env=env, start=start) as proxy:
        bundle = _joined(folder / "client.pem", proxy.ca, upstream.ca, *trust)
        yield Live(proxy, folder, upstream, bundle)


class _Http2Context(ssl.SSLContext):
    """Offers nothing but HTTP/2; httpx would name it last, and the proxy takes the first."""

    def set_alpn_protocols(self, alpn_protocols: Iterable[str]) -> None:
        super().set_alpn_protocols(["h2"])


def ssl_context(bundle: Path, *, http2: bool = False) -> ssl.SSLContext:
    context = (_Http2Context if http2 else ssl.SSLContext)(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(bundle)
    return context


def read_records(folder: Path) -> list[dict[str, Any]]:
    return read_lines(folder / "state" / "observation-masking" / "requests.jsonl")


_WAITS_FOR_RECORDS = f"""
from addon.proxy import health
from addon.records import recorder
recorder._STOP_SECONDS = health._SETTLE_SECONDS = {SECONDS}
"""


def waits_for_records(folder: Path) -> tuple[str, str]:
    """Return arguments with which a proxy says how it is, and ends, once all is recorded.

    Otherwise it does not wait long for that, and a slow machine may take longer.
    """
    script = folder / "waits_for_records.py"
    script.write_text(_WAITS_FOR_RECORDS)
    return "-s", str(script)


def run_mitmdump(
    folder: Path, *arguments: str, **variables: str
) -> subprocess.CompletedProcess[str]:
    """Run mitmdump with the addon until it ends by itself; its log is all in `stdout`."""
    return subprocess.run(
        [*MITMDUMP, "-s", str(ADDON), "--set", f"confdir={folder}/mitmproxy", *arguments],
        env=environment(folder, **variables),
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=SECONDS,
    )


def _joined(path: Path, *authorities: Path) -> Path:
    path.write_bytes(b"".join(authority.read_bytes() for authority in authorities))
    return path


def _spelled(headers: Mapping[str, str]) -> dict[str, str]:
    """Return headers given as keyword arguments in the spelling of HTTP."""
    return {name.replace("_", "-"): value for name, value in headers.items()}
