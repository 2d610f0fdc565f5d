"""Records an MCP client at work: the client, its server and a real mitmdump, all on loopback.

Client and server are those of the mcp package (`agents/mcp_agent.py`), which must be installed. The
recording is scrubbed, like any other.
"""

import re
import socket
import subprocess
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path

from addon.proxy.server import HOST, Proxy, running_proxy
from addon.recordings.scrub import OwnRecording, scrub_recording
from tests.tools.studio.clients import MCP_FILES
from tests.tools.studio.recorder import REDIRECT, Workspace
from tests.tools.studio.scenario import write_project

SERVER = "mcp.example"
"""The server's name in the recording; no such host can exist (RFC 2606)."""

PACKAGE = "mcp>=1.24,<2"

_AGENT = Path(__file__).with_name("agents") / "mcp_agent.py"

_OWN = OwnRecording(
    server=SERVER,
    spellings=((re.compile(r'(?<="serverInfo":\{"name":"files","version":")[\w.+]+'), "1.0.0"),),
)
"""A FastMCP server tells the version of the package."""


def record_mcp(out: Path, *, time_limit: float = 300.0) -> int:
    """Record an MCP client that works on a project's files; return the number of requests.

    The client has `time_limit` seconds. Raises RuntimeError if the mcp package is missing, or if
    the client or the proxy fails; nothing is written to `out` then.
    """
    if find_spec("mcp") is None:
        raise RuntimeError(f"recording {MCP_FILES} needs the mcp package: pip install '{PACKAGE}'")
    with (
        tempfile.TemporaryDirectory(prefix="obsmask-") as folder,
        socket.create_server((HOST, 0)) as listening,
    ):
        workspace = Workspace(Path(folder).resolve())
        write_project("tally", workspace.work)
        settings = (
            *("--set", "connection_strategy=lazy"),
            *("--set", f"provider={HOST}:{listening.getsockname()[1]}"),
            *("--set", f"provider_name={SERVER}"),
        )
        with running_proxy(
            workspace.root, "-w", str(workspace.raw), *settings, script=REDIRECT
        ) as proxy:
            _run(workspace, listening, proxy, time_limit)
        return scrub_recording(workspace.raw, out, _OWN)


def _run(workspace: Workspace, listening: socket.socket, proxy: Proxy, time_limit: float) -> None:
    """Let the client work, with the server in the same process on the listening socket."""
    try:
        done = subprocess.run(
            [sys.executable, "-P", str(_AGENT), str(listening.fileno()), SERVER],
            cwd=workspace.work,
            env={
                "HOME": str(workspace.home),
                "LANG": "C.UTF-8",
                "PYTHONDONTWRITEBYTECODE": "1",
                "HTTP_PROXY": proxy.url,
            },
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            timeout=time_limit,
            pass_fds=[listening.fileno()],
        )
    except subprocess.TimeoutExpired:
        raise RuntimeError(f"the client had not ended after {time_limit:g} seconds") from None
    if done.returncode:
        raise RuntimeError(f"the client failed; it printed:\n{done.stdout[-2000:]}")
