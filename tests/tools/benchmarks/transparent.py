"""What an agent's HTTPS pays in a network of its own, beside `obsmask run` with variables.

    python -m tests.tools.benchmarks.transparent

Both run alternately, by the same user of the same machine in namespaces (`tests.live.machine`): how
long a small request on an open connection takes, one on a new connection, and a download of 16 MB.
Medians of all rounds, and their ratios.
"""

import contextlib
import json
import statistics
import subprocess
import sys
import tempfile
import threading
from collections import defaultdict
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from addon.proxy.authorities import write_bundle
from addon.recordings.replies import make_tls_context
from tests.live.harness import environment
from tests.live.machine import running_machine

HOST, ROUNDS = "api.openai.com", 6
RUN = (sys.executable, "-m", "addon.commands.main", "run", "-q")

CLIENT = f"""
import json, time, httpx
found = {{"open": [], "new": [], "download": []}}
def ask(client, path="/"):
    began = time.perf_counter()
    client.get(f"https://{HOST}{{path}}").raise_for_status()
    return time.perf_counter() - began
with httpx.Client(timeout=300) as client:
    ask(client)
    found["open"] = [ask(client) for _ in range(100)]
    found["download"] = [ask(client, "/large") for _ in range(3)]
for _ in range(10):
    with httpx.Client(timeout=300) as client:
        found["new"].append(ask(client))
print(json.dumps(found))
"""


class _Server(BaseHTTPRequestHandler):
    protocol_version, wbufsize = "HTTP/1.1", 64 * 1024  # head and body in one packet
    large = bytes(16 * 1024 * 1024)

    def do_GET(self) -> None:
        body = self.large if self.path == "/large" else b"{}"
        self.send_response(200)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


def main() -> None:
    """Measure, and print a table."""
    found: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        machine = stack.enter_context(running_machine([HOST]))
        tls = make_tls_context(folder / "tls", [HOST])
        server = ThreadingHTTPServer(("", 0), _Server, bind_and_activate=False)
        server.socket.close()
        server.socket = tls.wrap_socket(machine.listen(443), server_side=True)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        stack.callback(server.shutdown)
        authority = folder / "tls" / "provider-ca-cert.pem"
        bundle = write_bundle(folder / "bundle.pem", [authority])
        for _ in range(ROUNDS):
            for way in ("variables", "transparent"):
                options = ["--transparent"] if way == "transparent" else []
                done = subprocess.run(
                    machine.command(folder, *RUN, *options, "--", sys.executable, "-c", CLIENT),
                    env=environment(folder, SSL_CERT_FILE=str(bundle)),
                    capture_output=True,
                    text=True,
                    check=False,
                )
                if done.returncode:
                    sys.exit(done.stderr)
                for kind, seconds in json.loads(done.stdout).items():
                    found[kind][way] += seconds
    print("| | variables | transparent | ratio |\n|---|--:|--:|--:|")
    names = {
        "open": "a request on an open connection",
        "new": "a request on a new connection",
        "download": "a download of 16 MB",
    }
    for kind, name in names.items():
        first, second = (statistics.median(found[kind][w]) for w in ("variables", "transparent"))
        print(f"| {name} | {1e3 * first:.1f} ms | {1e3 * second:.1f} ms | {second / first:.2f} |")


if __name__ == "__main__":
    main()
