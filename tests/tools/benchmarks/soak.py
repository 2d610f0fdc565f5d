"""Many requests through two proxies that share a folder.

Run it by `python -m tests.tools.benchmarks.soak` (Linux).

Conversations in all formats grow through two proxies with the shipped settings, which share their
file of records, its rotation, and their memory of conversations. The answers are whole or streamed;
some fail, and some clients leave in the middle. The provider compares every request with what the
core makes of it without a proxy. Prints a line of memory and waits from time to time, and in the
end what does not hold; exits with 1 if anything does not.
"""

import argparse
import asyncio
import math
import os
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

from addon.places import shipped
from addon.proxy.server import HOST, Proxy, running_proxy
from masking.config import parse_settings
from tests.tools.soak.checks import Outcome, find_faults
from tests.tools.soak.client import Clients
from tests.tools.soak.provider import running_provider
from tests.tools.soak.record_files import keeping
from tests.tools.soak.samples import HEADING, Sampler

_CONFIG = shipped("config.toml")
_RECORD_BYTES = 2_500
_ROTATIONS = 8
_SAMPLES = 20


async def soak(
    requests: int, conversations: int, folder: Path, seconds: float = math.inf
) -> Outcome:
    """Send so many requests of about so many conversations, in so many seconds at most."""
    records = folder / "state" / "observation-masking" / "requests.jsonl"
    async with running_provider() as (provider, port):
        with ExitStack() as stack:
            files = stack.enter_context(keeping(records, folder))
            proxies = [_start(stack, folder / name, port, requests) for name in ("one", "other")]
            sampler = Sampler(proxies, max(requests // _SAMPLES, 100))
            ports = [proxy.port for proxy in proxies]
            settings = parse_settings(_CONFIG.read_bytes())
            assert settings is not None
            ends = time.monotonic() + seconds
            clients = Clients(ports, provider, settings, requests, ends, sampler.note)
            await clients.play(
                requests / conversations, at_once=max(1, min(100, conversations // 2))
            )
            await asyncio.to_thread(stack.close)  # while the provider hears the proxies hang up
    return Outcome(clients, sampler.samples, files, [proxy.log for proxy in proxies])


def _start(stack: ExitStack, folder: Path, provider: int, requests: int) -> Proxy:
    """Start a proxy whose file of records is rotated some times."""
    folder.mkdir()
    home = folder.parent
    env = {**os.environ, "HOME": str(home), "XDG_STATE_HOME": str(home / "state")}
    env["XDG_CONFIG_HOME"] = str(home)
    megabytes = max(1, requests * _RECORD_BYTES // _ROTATIONS // 1_000_000)
    settings = (f"mask_config={_CONFIG}", f"mask_set=metrics.max_megabytes={megabytes}")
    options = ["--mode", f"reverse:http://{HOST}:{provider}"]
    for setting in (*settings, "flow_detail=0"):
        options += ["--set", setting]
    return stack.enter_context(running_proxy(folder, *options, env=env, confdir=home / "mitmproxy"))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requests", type=int, default=2_000)
    parser.add_argument("--conversations", type=int, default=100)
    parser.add_argument("--minutes", type=float, default=math.inf, help="after which it ends")
    given = parser.parse_args()
    seconds = 60 * given.minutes
    print(HEADING)
    with tempfile.TemporaryDirectory() as folder:
        outcome = asyncio.run(soak(given.requests, given.conversations, Path(folder), seconds))
        faults = [*find_faults(outcome)]
    clients = outcome.clients
    print(
        f"{clients.sent:,} requests of {clients.conversations:,} conversations,"
        f" {len(outcome.files)} files of records:",
        "all holds" if not faults else "does not hold:",
    )
    for fault in faults:
        print(fault)
    return int(bool(faults))


if __name__ == "__main__":
    sys.exit(main())
