"""Whether the proxy grows: `python -m tests.tools.benchmarks.memory` (Linux).

Sends 2,000 requests of 1 MB through a real mitmdump with the shipped policy and prints its
resident memory on the way. A fifth of each request is new, so that caches have work to do.
"""

import http.client
import json
import tempfile
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from addon.commands.demo import write_config
from addon.proxy.server import HOST, Proxy, running_proxy
from tests.tools.benchmarks.rewrite import build_body

REQUESTS = 2_000
STEP = 250


class Provider(BaseHTTPRequestHandler):
    """Answers each request at once, with a usage."""

    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        answer = b'{"choices": [], "usage": {"prompt_tokens": 1, "completion_tokens": 1}}'
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the server's own name
        """Say nothing."""


def resident_mb(proxy: Proxy) -> float:
    """Return the resident memory of the proxy's process, in megabytes."""
    status = Path(f"/proc/{proxy.pid}/status").read_text()
    return int(status.partition("VmRSS:")[2].split()[0]) / 1000


def vary(messages: list[dict[str, object]], number: int) -> bytes:
    """Return the request with a fifth of its texts made new."""
    varied = [
        {**message, "content": f"{number} {message['content']}"}
        if message["role"] == "tool" and index % 10 == 3
        else message
        for index, message in enumerate(messages)
    ]
    return json.dumps({"model": "gpt-4o", "messages": varied}).encode()


def main() -> None:
    server = ThreadingHTTPServer((HOST, 0), Provider)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    messages = json.loads(build_body())["messages"]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        options = ("--mode", f"reverse:http://{HOST}:{server.server_port}")
        with running_proxy(
            folder, *options, "--set", f"mask_config={write_config(folder)}"
        ) as proxy:
            client = http.client.HTTPConnection(HOST, proxy.port)
            for number in range(1, REQUESTS + 1):
                client.request("POST", "/v1/chat/completions", vary(messages, number))
                client.getresponse().read()
                if number % STEP == 0:
                    print(f"{number:>5} requests  {resident_mb(proxy):>6.0f} MB")


if __name__ == "__main__":
    main()
