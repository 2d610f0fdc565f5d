"""A provider on loopback that gives the answers of a recording, one after the other."""

import ipaddress
import ssl
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import serialization
from mitmproxy.certs import CertStore

from addon.network import LOOPBACK_HOST
from addon.recordings.flows import read_flows
from addon.request import find_wire_format
from masking.conversation import Conversation
from masking.rewrite import read_request
from masking.wire import WireFormat

HOST = LOOPBACK_HOST

_NAMES = ("api.openai.com", "api.anthropic.com", "localhost")
"""The names in its certificate: Envoy expects those of the vendors."""


class RecordedReply(NamedTuple):
    """A request to a model, decoded, and the answer to it as it was sent, still compressed.

    path: of the request's URL, with the query.
    """

    path: str
    wire: WireFormat
    body: bytes
    status: int
    headers: dict[str, str]
    answer: bytes

    def read(self, body: bytes) -> Conversation:
        """Read a body that was sent to the same path. Raises WireError if it is no request."""
        return read_request(body, self.wire, self.path.partition("?")[0])


def read_replies(recording: Path) -> list[RecordedReply]:
    """Read the requests to models in a recording, each with its answer. Raises as `read_flows`."""
    return [
        RecordedReply(
            path=flow.request.path,
            wire=match.wire,
            body=flow.request.content or b"",
            status=flow.response.status_code,
            headers={
                name: value
                for name in ("content-type", "content-encoding")
                if (value := flow.response.headers.get(name))
            },
            answer=flow.response.raw_content or b"",
        )
        for flow in read_flows(recording)
        if flow.response and (match := find_wire_format(flow.request))
    ]


class Provider(NamedTuple):
    """A running provider: its port, its authority's PEM file, and the bodies that it received."""

    port: int
    ca: Path
    received: list[bytes]


@contextmanager
def running_provider(replies: Sequence[RecordedReply], folder: Path) -> Iterator[Provider]:
    """Run a provider that answers the nth request with the nth reply, over TLS.

    Its certificate authority is made in the folder. Raises OSError if there is no free port.
    """
    received: list[bytes] = []

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def do_POST(self) -> None:
            reply = replies[len(received)]
            received.append(b"".join(self._read_body()))
            self.send_response(reply.status)
            for name, value in reply.headers.items():
                self.send_header(name, value)
            self.send_header("content-length", str(len(reply.answer)))
            self.end_headers()
            self.wfile.write(reply.answer)

        def _read_body(self) -> Iterator[bytes]:
            """Yield the pieces of the body; Envoy sends what it has changed in chunks."""
            if "content-length" in self.headers:
                yield self.rfile.read(int(self.headers["content-length"]))
                return
            while size := int(self.rfile.readline().partition(b";")[0], 16):
                yield self.rfile.read(size)
                self.rfile.readline()
            self.rfile.readline()

        def log_message(self, *_: object) -> None:
            """Say nothing: the demo has its own output."""

    with ThreadingHTTPServer((HOST, 0), Handler) as server:
        # The handshake is left to the thread of the connection, so that no client holds up others.
        server.socket = make_tls_context(folder, _NAMES).wrap_socket(
            server.socket, server_side=True, do_handshake_on_connect=False
        )
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield Provider(server.server_port, folder / "provider-ca-cert.pem", received)
        finally:
            server.shutdown()


def make_tls_context(folder: Path, hosts: Sequence[str]) -> ssl.SSLContext:
    """Return what a server of these hosts on loopback needs, with an authority made in `folder`."""
    names: list[x509.GeneralName] = [x509.DNSName(host) for host in hosts]
    address = x509.IPAddress(ipaddress.ip_address(HOST))
    entry = CertStore.from_store(folder, "provider", 2048).get_cert(hosts[0], [*names, address])
    key = entry.privatekey.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    leaf = folder / "provider-leaf.pem"
    leaf.touch(mode=0o600)
    leaf.write_bytes(key + entry.cert.to_pem())
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(leaf)
    return context
