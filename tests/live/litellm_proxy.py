"""A real LiteLLM proxy with the hook, in an environment of its own, before a provider.

mitmproxy and LiteLLM cannot be installed together, so it is not the environment of the tests.
"""

import contextlib
import json
import os
import re
import signal
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.live.harness import SECONDS, environment, eventually, read_records
from tests.support.places import ROOT
from tests.support.ports import hold_port
from tests.tools.provider.provider import Provider

PYTHON = Path(os.environ.get("OBSMASK_TEST_LITELLM", ROOT / ".venv-litellm" / "bin" / "python"))
"""Its Python, as docs/CONTRIBUTING.md sets it up."""

NEEDS_LITELLM = pytest.mark.skipif(
    not PYTHON.exists(),
    reason=f"no LiteLLM at {PYTHON}: docs/CONTRIBUTING.md says how to install it",
)

KEY = "sk-of-the-proxy-0123456789abcdef0123456789"


@dataclass(frozen=True)
class LiteLLM:
    """A running proxy: its port, and the folder of its log, its settings and its records."""

    port: int
    folder: Path
    client: httpx.Client

    @property
    def log(self) -> str:
        return (self.folder / "litellm.log").read_text(errors="replace")

    def post(self, path: str, request: object) -> httpx.Response:
        url = f"http://127.0.0.1:{self.port}{path}"
        return self.client.post(url, json=request, headers={"authorization": f"Bearer {KEY}"})

    def configure(self, config: bytes) -> None:
        """Change the settings, and wait until the log says so."""
        before = self._count_edits()
        (self.folder / "obsmask.toml").write_bytes(config)
        eventually(lambda: self._count_edits() > before or None)

    def _count_edits(self) -> int:
        return self.log.count("configuration reloaded")

    def records(self, count: int) -> list[dict[str, Any]]:
        """Return the records once there are so many."""
        found = eventually(lambda: r if len(r := read_records(self.folder)) >= count else None)
        assert count == len(found)
        return found


def read_documented(kind: str) -> str:
    """Return the first block of a kind in the section that says how to use it."""
    page = (ROOT / "docs" / "deployment.md").read_text(encoding="utf-8")
    section = page.partition("\n## LiteLLM\n")[2]
    found = re.search(rf"^```{kind}\n(.*?)^```$", section, re.MULTILINE | re.DOTALL)
    assert found is not None
    return found[1]


def litellm_environment(folder: Path, provider: Provider, config: bytes) -> dict[str, str]:
    """Return the environment of a program with LiteLLM; every vendor is the provider."""
    (folder / "obsmask.toml").write_bytes(config)
    bare = f"http://127.0.0.1:{provider.port}"
    return environment(
        folder,
        OBSMASK_CONFIG=str(folder / "obsmask.toml"),
        OPENAI_API_KEY="sk-openai",
        OPENAI_BASE_URL=provider.url,
        ANTHROPIC_API_KEY="sk-anthropic",
        ANTHROPIC_API_BASE=bare,
        LITELLM_MASTER_KEY=KEY,
        LITELLM_LOCAL_MODEL_COST_MAP="True",  # it asks GitHub otherwise
        NO_PROXY="*",
        PYTHONPATH=str(ROOT),
    )


@contextlib.contextmanager
def running_litellm(
    folder: Path, provider: Provider, config: bytes, proxy_config: str | None = None
) -> Iterator[LiteLLM]:
    """Run the proxy as the documentation configures it, unless its own file is given."""
    text = read_documented("yaml") if proxy_config is None else proxy_config
    (folder / "config.yaml").write_text(text, encoding="utf-8")
    port = hold_port()
    command = [str(PYTHON.parent / "litellm"), "--config", str(folder / "config.yaml")]
    command += ["--host", "127.0.0.1", "--port", str(port)]
    with (folder / "litellm.log").open("wb") as log:
        process = subprocess.Popen(
            command,
            env=litellm_environment(folder, provider, config),
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )
    try:
        with httpx.Client(timeout=SECONDS, trust_env=False) as client:
            running = LiteLLM(port, folder, client)
            eventually(lambda: _is_ready(process, running), SECONDS)  # it loads for a minute
            yield running
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(SECONDS)


def _is_ready(process: "subprocess.Popen[bytes]", litellm: LiteLLM) -> bool | None:
    assert process.poll() is None, litellm.log[-3000:]
    with contextlib.suppress(httpx.TransportError):
        url = f"http://127.0.0.1:{litellm.port}/health/liveliness"
        return litellm.client.get(url).status_code == 200 or None
    return None


_LOADED = """
import json, os, sys
import litellm
for line in sys.stdin:
    program = json.loads(line)
    if child := os.fork():
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
        continue
    os.chdir(program["folder"])
    for name, stream in (("stdout", 1), ("stderr", 2)):
        os.dup2(os.open(name, os.O_CREAT | os.O_WRONLY), stream)
    os.environ.clear()
    os.environ.update(program["env"])
    exec(program["code"], {"__name__": "__main__"})
    break
"""


class Programs:
    """Runs programs that use LiteLLM, each in a fork of one process: it takes long to load."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process = process

    def run(
        self, code: str, folder: Path, env: Mapping[str, str]
    ) -> "subprocess.CompletedProcess[str]":
        """Run a program until it ends by itself."""
        program = {"code": code, "folder": str(folder), "env": dict(env)}
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(json.dumps(program), file=self._process.stdin, flush=True)
        returncode = int(self._process.stdout.readline())
        said = ((folder / name).read_text("utf-8") for name in ("stdout", "stderr"))
        return subprocess.CompletedProcess(["-c", code], returncode, *said)


@contextlib.contextmanager
def running_programs(folder: Path, provider: Provider, config: bytes) -> Iterator[Programs]:
    """Load LiteLLM for programs that are to run."""
    with subprocess.Popen(
        [str(PYTHON), "-c", _LOADED],
        env=litellm_environment(folder, provider, config),
        cwd=folder,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        yield Programs(process)
