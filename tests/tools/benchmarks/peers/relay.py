"""Lets a library change requests on their way: `python relay.py NAME PORT PROVIDER`.

An HTTP server of the standard library on PORT of loopback, in the library's own environment. It
gives the messages of each request to the library, and sends the request on to the port PROVIDER.
NAME is one of `CHANGES`; `nothing` calls no library: what the server itself costs. An error of the
library is an answer with the status 500.
"""

import http.client
import json
import sys
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib import import_module
from typing import Any

Change = Callable[[dict[str, Any]], bytes]


def load_headroom(function: str) -> Change:
    """Return what changes the messages by a function of headroom's."""
    compress = getattr(import_module("headroom"), function)

    def change(request: dict[str, Any]) -> bytes:
        messages = compress(request["messages"], model=request["model"]).messages
        return json.dumps({**request, "messages": messages}).encode()

    return change


def load_langchain(**settings: int) -> Change:
    """Return what clears results in Chat Completions as LangChain's middleware does in an agent.

    The middleware sees all messages but the system's.
    """
    core = import_module("langchain_core.messages")
    count = import_module("langchain_core.messages.utils").count_tokens_approximately
    edit = import_module("langchain.agents.middleware").ClearToolUsesEdit(**settings)

    def change(request: dict[str, Any]) -> bytes:
        spelled = [each for each in request["messages"] if each["role"] in _SEEN]
        messages = core.convert_to_messages([{"content": None, **each} for each in spelled])
        edited = [*messages]
        edit.apply(edited, count_tokens=count)
        for message, before, after in zip(spelled, messages, edited, strict=True):
            if after is not before:
                message["content"] = after.content
        return json.dumps(request).encode()

    return change


_SEEN = ("user", "assistant", "tool")
CHANGES: dict[str, Callable[[], Change | None]] = {
    "nothing": lambda: None,
    "compress": lambda: load_headroom("compress"),
    "densify": lambda: load_headroom("densify"),
    "clear": load_langchain,
    "clear early": lambda: load_langchain(trigger=30_000),
}


def serve(change: Change | None, port: int, provider: int) -> None:
    """Serve until the process is ended."""

    class Relay(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True
        upstream: http.client.HTTPConnection | None = None

        def do_GET(self) -> None:
            self.answer(200, "text/plain", b"ready")

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            try:
                changed = body if change is None else change(json.loads(body))
            except Exception as error:  # noqa: BLE001 - whatever the library raises is its answer
                self.answer(500, "text/plain", type(error).__name__.encode())
                return
            if self.upstream is None:
                self.upstream = http.client.HTTPConnection("127.0.0.1", provider, timeout=300)
            left_out = ("content-length", "host", "connection")
            headers = {n: v for n, v in self.headers.items() if n.lower() not in left_out}
            self.upstream.request("POST", self.path, changed, headers)
            answer = self.upstream.getresponse()
            self.answer(answer.status, answer.getheader("content-type", ""), answer.read())

        def answer(self, status: int, kind: str, body: bytes) -> None:
            self.send_response(status)
            self.send_header("content-type", kind)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the server's
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", port), Relay)
    server.daemon_threads = True
    server.serve_forever()


if __name__ == "__main__":
    serve(CHANGES[sys.argv[1]](), int(sys.argv[2]), int(sys.argv[3]))
