"""Starts the proxy, in this process or in one of its own, and waits until it masks.

`serve` runs mitmdump with the addon in this process: on loopback, into the network that it finds.
`ProxyProcess` starts that as a process of its own, for `obsmask run`. `running_proxy` runs plain
mitmdump, as a user would who loads the addon himself, for as long as a block lasts.

mitmproxy takes half a second to load, so only what runs it in this process imports it.
"""

import contextlib
import logging
import os
import re
import signal
import subprocess
import sys
import threading
import time
from argparse import Namespace
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from addon.network import DEFAULT_URL, LOOPBACK_HOST, Address, is_unspecified
from addon.places import make_folder, open_private
from addon.proxy.environment import make_files_absolute
from addon.proxy.health import Health, check_health

if TYPE_CHECKING:
    from mitmproxy.master import Master
    from mitmproxy.options import Options
    from mitmproxy.proxy.mode_specs import ProxyMode

    from addon.proxy.upstream import Upstream

logger = logging.getLogger("observation_masking")

_Found = TypeVar("_Found")

ADDON = Path(__file__).parents[1] / "mask.py"
HOST = LOOPBACK_HOST
START_SECONDS = 300.0

MITMDUMP = (sys.executable, "-u", "-c", "from mitmproxy.tools.main import mitmdump; mitmdump()")
"""This environment's own mitmdump, wherever its scripts are installed, with an unbuffered log."""

_LISTENING = re.compile(r"proxy[^\n]* listening at \S*:(\d+)")
"""mitmproxy's log line of a proxy in any mode, with its port."""

_MASKING = re.compile(
    _LISTENING.pattern + r".*observation-masking \S+ (?:ON|OFF|OBSERVING)", re.DOTALL
)
"""Listening does not prove that the addon is there: mitmdump ends after it if an option is bad."""

_LOG_CHARS = 2_000


def wait_for_start(
    name: str,
    process: "subprocess.Popen[bytes]",
    read_log: Callable[[], str],
    find: Callable[[str], _Found | None],
    seconds: float = START_SECONDS,
) -> _Found:
    """Wait until a process has started: until `find` returns something, given its log so far.

    Raises RuntimeError, with the end of the log, if the process ends before, or takes too long.
    """
    end = time.monotonic() + seconds
    while time.monotonic() < end and process.poll() is None:
        if (found := find(read_log())) is not None:
            return found
        time.sleep(0.02)
    log = read_log()[-_LOG_CHARS:].strip()
    raise RuntimeError(f"{name} did not start: {log.removeprefix('obsmask: ')}")


def _find_port(log: str, sign: re.Pattern[str] = _LISTENING) -> int | None:
    found = sign.search(log)
    return int(found[1]) if found else None


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


@contextlib.contextmanager
def running_proxy(
    folder: Path,
    *arguments: str,
    script: Path = ADDON,
    env: dict[str, str] | None = None,
    confdir: Path | None = None,
) -> Iterator[Proxy]:
    """Run mitmdump with a script on a free port of loopback; `folder` gets its log and its CA.

    With `confdir`, the CA is the one that is there. Leaving the block ends mitmdump and waits for
    that, so that everything it writes is complete. Raises RuntimeError, with the end of its log, if
    it does not start.
    """
    confdir, log = confdir or folder / "mitmproxy", folder / "mitmdump.log"
    command = [*MITMDUMP, "--listen-host", HOST, "--listen-port", "0", "-s", str(script)]
    command += ["--set", f"confdir={confdir}", *arguments]
    with log.open("wb") as output:
        process = subprocess.Popen(  # noqa: S603 - our own interpreter
            command, stdout=output, stderr=output, stdin=subprocess.DEVNULL, cwd=folder, env=env
        )
    sign = _MASKING if script == ADDON else _LISTENING
    try:
        port = wait_for_start(
            "mitmdump",
            process,
            lambda: log.read_text(errors="replace"),
            lambda text: _find_port(text, sign),
        )
        yield Proxy(process.pid, port, confdir / "mitmproxy-ca-cert.pem", log)
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(START_SECONDS)


# The proxy of `obsmask run`, in a process of its own

_SERVE = (sys.executable, "-P", "-u", "-m", "addon.proxy.server")
_RUN_START_SECONDS = 60.0
_STOP_SECONDS = 20.0
_KEPT_LOGS = 20


class ProxyProcess:
    """Starts a proxy, starts it again on the same port, and stops it.

    The proxy runs in a session of its own, so that what is typed at the terminal does not reach it.
    It also ends when the process that started it is gone, as its standard input then ends.

    address: where it listens, on loopback; port 0 until it has started.
    folder: its working directory.
    log: the file that gets its output.
    """

    def __init__(self, arguments: Sequence[str], *, folder: Path, log: Path) -> None:
        self._arguments = arguments
        self._folder, self.log = folder, log
        self._process: subprocess.Popen[bytes] | None = None
        self.address = Address(HOST, 0)

    def start(self) -> Health:
        """Start it, wait until it masks, and return its health.

        Raises RuntimeError, with the end of its log, if it does not start.
        """
        host, port = self.address  # any free port at first, the same one later
        place = ["--listen-host", host, "--listen-port", str(port), "--mode", f"regular@{port}"]
        with self.log.open("ab") as output:
            begin = output.tell()
            self._process = subprocess.Popen(  # noqa: S603 - our own interpreter
                [*_SERVE, *place, *self._arguments],
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=output,
                cwd=self._folder,
                env=make_files_absolute(os.environ),
                start_new_session=True,
            )

        def read_log() -> str:
            return self.log.read_bytes()[begin:].decode(errors="replace")

        try:
            self.address, health = wait_for_start(
                "the proxy", self._process, read_log, _find_masking, _RUN_START_SECONDS
            )
        except RuntimeError:
            self.stop()
            raise
        return health

    def forget(self, process: int) -> bool:
        """Return whether this is the id of its process, which has ended and been waited for."""
        if self._process is None or self._process.pid != process:
            return False
        self._process.returncode = 0  # nobody can wait for it again
        self._process = None
        return True

    def stop(self) -> None:
        """Let it write the records of what it has served, and end it."""
        process, self._process = self._process, None
        if process is None:
            return
        with process:  # which closes its standard input, and waits
            process.send_signal(signal.SIGINT)
            try:
                process.wait(_STOP_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()


def _find_masking(log: str) -> tuple[Address, Health] | None:
    """Return where a proxy listens, and its health, once it answers as one that masks."""
    port = _find_port(log)
    if port is None:
        return None
    address = Address(HOST, port)
    try:
        health = check_health(address)
    except OSError:
        return None
    return (address, health) if health else None


def open_log(state: Path) -> Path:
    """Return a new, empty log in `logs` of the state folder; only the latest logs are kept.

    Raises OSError.
    """
    folder = state / "logs"
    make_folder(folder)
    for old in sorted(folder.glob("*.log"))[: 1 - _KEPT_LOGS]:
        old.unlink(missing_ok=True)
    log = folder / f"{datetime.now(UTC):%Y%m%dT%H%M%S.%f}-{os.getpid()}.log"
    os.close(open_private(str(log), os.O_CREAT | os.O_EXCL | os.O_WRONLY))
    return log


def find_ports(state: Path) -> Iterator[int]:
    """Yield the ports of the proxies that have a log in the state folder, the latest first.

    Most of them have ended since, and another program may listen there.
    """
    for log in sorted((state / "logs").glob("*.log"), reverse=True):
        with contextlib.suppress(OSError):
            if port := _find_port(log.read_text(encoding="utf-8", errors="replace")):
                yield port


# The proxy in this process


def serve(arguments: Sequence[str], *addons: object) -> None:
    """Run the proxy until it is stopped; `arguments` are mitmdump's, and come first.

    An upstream proxy and the authorities that the user trusts are taken from the environment.
    Neither is ever on a command line, which every user of the machine can read.

    Raises ValueError and OSError if the environment names a proxy or an authority that cannot be
    used, and SystemExit, after a line on standard error, if an argument cannot.
    """
    from mitmproxy import ctx
    from mitmproxy.tools import cmdline
    from mitmproxy.tools.dump import DumpMaster
    from mitmproxy.tools.main import run

    from addon.proxy.authorities import upstream_bundle
    from addon.proxy.routes import UpstreamRoutes

    bundle = upstream_bundle()

    def add_options(arguments: Namespace) -> dict[str, Any]:
        upstream = _find_upstream(ctx.options)
        routes = [UpstreamRoutes(upstream)] if upstream else []
        ctx.master.addons.add(*routes, *addons)
        return _choose_options(arguments, ctx.options, upstream, bundle)

    run(DumpMaster, cmdline.mitmdump, ["-s", str(ADDON), *arguments], add_options)


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


class Announcement:
    """Tells the person in front of `obsmask proxy` how to lead clients through it."""

    def running(self) -> None:
        from mitmproxy import ctx
        from mitmproxy.proxy.mode_specs import RegularMode, UpstreamMode

        for server in ctx.master.addons.get("proxyserver").servers:
            if isinstance(server.mode, RegularMode | UpstreamMode) and server.listen_addrs:
                logger.info(f"in the client's terminal: {render_call(server.listen_addrs[0])}")


def render_call(listening: tuple[object, ...]) -> str:
    """Return the command that sets a client's environment for a proxy that listens there."""
    host, port = str(listening[0]), int(str(listening[1]))
    url = Address(HOST if is_unspecified(host) else host, port).url
    option = "" if url == DEFAULT_URL else f" --proxy {url}"
    return f'eval "$(obsmask env{option})"'


if __name__ == "__main__":
    try:
        serve(sys.argv[1:], EndWithInput())
    except (OSError, ValueError) as error:
        sys.exit(f"obsmask: {error}")
