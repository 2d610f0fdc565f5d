"""Runs the proxy, in this process or as plain mitmdump in one of its own.

`serve` runs mitmdump with the addon in this process: on loopback, into the network that it finds.
As a program, this module does so for `addon/proxy/process.py`. `running_proxy` runs plain mitmdump,
as a user would who loads the addon himself, for as long as a block lasts.

mitmproxy takes half a second to load, so only what runs it in this process imports it.
"""

import contextlib
import gc
import importlib.util
import json
import logging
import os
import re
import signal
import subprocess
import sys
import threading
from argparse import Namespace
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from addon.network import LOOPBACK_HOST, Address
from addon.proxy.environment import render_call
from addon.proxy.process import LISTENING, START_SECONDS, Process, find_port, wait_for_start

if TYPE_CHECKING:
    from mitmproxy.master import Master
    from mitmproxy.options import Options
    from mitmproxy.proxy.mode_specs import ProxyMode

    from addon.proxy.upstream import Upstream

logger = logging.getLogger("observation_masking")

ADDON = Path(__file__).parents[1] / "mask.py"
HOST = LOOPBACK_HOST

MITMDUMP = (sys.executable, "-u", "-c", "from mitmproxy.tools.main import mitmdump; mitmdump()")
"""This environment's own mitmdump, wherever its scripts are installed, with an unbuffered log."""

_MASKING = re.compile(
    LISTENING.pattern + r".*observation-masking \S+ (?:ON|OFF|OBSERVING)", re.DOTALL
)
"""Listening does not prove that the addon is there: mitmdump ends after it if an option is bad."""

# Plain mitmdump, for as long as a block lasts


@dataclass(frozen=True, slots=True)
class Proxy:
    """A running mitmdump: its port, its certificate authority, and what it has logged so far."""

    pid: int
    port: int
    ca: Path
    log_file: Path

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self.port}"

    @property
    def log(self) -> str:
        return self.log_file.read_text(errors="replace")


Start = Callable[[Sequence[str], Path, Mapping[str, str] | None], Process]
"""Starts mitmdump with arguments, in the folder of the file that all its output goes to."""


def start_mitmdump(arguments: Sequence[str], log: Path, env: Mapping[str, str] | None) -> Process:
    with log.open("wb") as output:
        return subprocess.Popen(  # noqa: S603 - our own interpreter
            [*MITMDUMP, *arguments],
            stdout=output,
            stderr=output,
            stdin=subprocess.DEVNULL,
            cwd=log.parent,
            env=env,
        )


@contextlib.contextmanager
def running_proxy(
    folder: Path,
    *arguments: str,
    script: Path = ADDON,
    env: dict[str, str] | None = None,
    confdir: Path | None = None,
    start: Start = start_mitmdump,
) -> Iterator[Proxy]:
    """Run mitmdump with a script on a free port of loopback; `folder` gets its log and its CA.

    With `confdir`, the CA is the one that is there. Leaving the block ends mitmdump and waits for
    that, so that everything it writes is complete. Raises RuntimeError, with the end of its log, if
    it does not start.
    """
    confdir, log = confdir or folder / "mitmproxy", folder / "mitmdump.log"
    own = ("--listen-host", HOST, "--listen-port", "0", "-s", str(script))
    process = start([*own, "--set", f"confdir={confdir}", *arguments], log, env)
    sign = _MASKING if script == ADDON else LISTENING
    try:
        port = wait_for_start(
            "mitmdump",
            process,
            lambda: log.read_text(errors="replace"),
            lambda text: find_port(text, sign),
        )
        yield Proxy(process.pid, port, confdir / "mitmproxy-ca-cert.pem", log)
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(START_SECONDS)


# The proxy in this process


def serve(arguments: Sequence[str], bundle: Path, *addons: object) -> None:
    """Run the proxy until it is stopped; `arguments` are mitmdump's, and come first.

    bundle: the authorities that it trusts, from `upstream_bundle`.

    An upstream proxy is taken from the environment. It is never on a command line, which every user
    of the machine can read.

    Raises ValueError and OSError if the environment names a proxy that cannot be used, and
    SystemExit, after a line on standard error, if an argument cannot.
    """
    from mitmproxy import ctx
    from mitmproxy.tools import cmdline
    from mitmproxy.tools.dump import DumpMaster
    from mitmproxy.tools.main import run

    from addon.proxy.host import print_what_can_be_printed
    from addon.proxy.routes import UpstreamRoutes

    class EarlyMaster(DumpMaster):
        """Prints already before our addon is loaded."""

        def __init__(self, options: "Options") -> None:
            super().__init__(options)
            print_what_can_be_printed(self.addons)

    def add_options(arguments: Namespace) -> dict[str, Any]:
        upstream = _find_upstream(ctx.options)
        routes = [UpstreamRoutes(upstream)] if upstream else []
        ctx.master.addons.add(*routes, *addons)
        return _choose_options(arguments, ctx.options, upstream, bundle)

    run(EarlyMaster, cmdline.mitmdump, ["-s", str(ADDON), *arguments], add_options)


def _find_upstream(options: "Options") -> "Upstream | None":
    """Return the proxy that is to come behind ours; None in other modes than a plain proxy's."""
    from mitmproxy.proxy.mode_specs import RegularMode

    from addon.proxy.upstream import find_upstream

    modes = [mode for mode in map(_read_mode, options.mode) if mode]
    if not any(isinstance(mode, RegularMode) for mode in modes):
        return None
    own = [Address(HOST, mode.listen_port(options.listen_port) or 0) for mode in modes]
    return find_upstream(os.environ, own)


def _read_mode(text: str) -> "ProxyMode | None":
    from mitmproxy.proxy.mode_specs import ProxyMode

    try:
        return ProxyMode.parse(text)
    except ValueError:  # of which mitmproxy will complain
        return None


def _choose_options(
    arguments: Namespace, options: "Options", upstream: "Upstream | None", bundle: Path
) -> dict[str, Any]:
    """Return mitmdump's options beside its arguments; none that these, or its file, set."""
    found: dict[str, Any] = {}
    if not options.listen_host:
        found["listen_host"] = HOST
    is_given = any(each.partition("=")[0] == "flow_detail" for each in arguments.setoptions)
    if arguments.flow_detail is None and not is_given and not options.has_changed("flow_detail"):
        found["flow_detail"] = 0  # its own line for each request has the whole URL
    if not options.ssl_verify_upstream_trusted_ca:
        found["ssl_verify_upstream_trusted_ca"] = str(bundle)
    if upstream:
        found["mode"] = [_put_behind(upstream, mode) for mode in options.mode]
    if arguments.filter_args:  # as mitmdump itself has it
        names = ("save_stream_filter", "readfile_filter", "dumper_filter")
        found |= dict.fromkeys(names, " ".join(arguments.filter_args))
    return found


def _put_behind(upstream: "Upstream", mode: str) -> str:
    """Return a mode with the proxy behind ours, listening where it did; a reverse one stays."""
    from mitmproxy.proxy.mode_specs import RegularMode

    if not isinstance(_read_mode(mode), RegularMode):
        return mode
    _, at, place = mode.partition("@")
    return f"upstream:{upstream.url}{at}{place}"


class EndWithInput:
    """Ends the proxy when standard input ends: the process that held it open is gone."""

    def running(self) -> None:
        from mitmproxy import ctx

        # A thread that waits costs the loop nothing, and works wherever there are pipes.
        threading.Thread(target=self._wait, args=(ctx.master,), daemon=True).start()

    def _wait(self, master: "Master") -> None:
        with contextlib.suppress(OSError):
            while os.read(sys.stdin.fileno(), 4096):
                pass
        with contextlib.suppress(RuntimeError):  # it has ended already
            master.shutdown()


class PortReport:
    """Writes the port of the proxy to a pipe, as a line, once it listens."""

    def __init__(self, pipe: int) -> None:
        self._pipe = pipe

    def running(self) -> None:
        for address in _find_own():
            with contextlib.suppress(OSError):  # who asked is gone
                os.write(self._pipe, f"{address[1]}\n".encode())


class Announcement:
    """Tells the person in front of `obsmask proxy` how to lead clients through it."""

    def running(self) -> None:
        for address in _find_own():
            logger.info(f"in the client's terminal: {render_call(address)}")


def _find_own() -> Iterator[tuple[object, ...]]:
    """Yield where mitmproxy listens as a plain proxy, with another behind it or without."""
    from mitmproxy import ctx
    from mitmproxy.proxy.mode_specs import RegularMode, UpstreamMode

    for server in ctx.master.addons.get("proxyserver").servers:
        if isinstance(server.mode, RegularMode | UpstreamMode) and server.listen_addrs:
            yield server.listen_addrs[0]


# This module as a program

_LOADED = (
    *("mitmproxy.tools.main", "mitmproxy.tools.dump"),
    *("addon.mask", "addon.page.server", "addon.proxy.routes"),
)
"""All that `serve` needs."""

_SELDOM_USED = ("ldap3", "passlib.apache")
"""What mitmproxy imports for its option `proxyauth` alone: a fifth of the time that it takes."""


class _LoadWhenUsed(MetaPathFinder):
    """Finds modules that are loaded when something in them is used."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname not in _SELDOM_USED:
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is not None and spec.loader is not None:
            spec.loader = importlib.util.LazyLoader(spec.loader)
        return spec


def _serve_when_told() -> None:
    """Load the proxy, then serve as the first line of standard input says.

    Whoever started this process finds out meanwhile what to say. If it ends first, so does this. It
    gets the port through standard output, which is the log from then on, as standard error is.
    """
    report = PortReport(os.dup(1))
    os.dup2(2, 1)
    # Loading makes a hundred thousand objects that stay. The collector would look for garbage among
    # them again and again: a tenth of the time.
    gc.disable()
    sys.meta_path.insert(0, _LoadWhenUsed())
    for name in _LOADED:
        importlib.import_module(name)
    gc.freeze()
    gc.enable()
    if line := sys.stdin.buffer.readline():
        told = json.loads(line)
        serve(told["arguments"], Path(told["bundle"]), EndWithInput(), report)


if __name__ == "__main__":
    try:
        _serve_when_told()
    except (OSError, ValueError) as error:
        sys.exit(f"obsmask: {error}")
