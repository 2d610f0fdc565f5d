"""A network for one command, from which all HTTPS goes through the proxy: `run --transparent`.

    the machine's own              outer namespace             inner namespace
        network      <-- pasta -->  mitmdump, nftables  <-- veth -->  the command

What comes out of the inner namespace for the ports of HTTP and HTTPS is led to mitmdump; the rest
is passed on and counted. pasta (https://passt.top) connects the outer one with the network of the
machine, as an ordinary user may. `transparent.sh`, beside this, makes what is between.

Nothing is left behind, however it ends. Namespaces live as long as a process is in them. Two
processes hold these, and end when their standard input does, which is when `run` has ended. The
inner one then kills whatever the command has left running, and with the outer one pasta ends.

Only Linux has such namespaces. They are entered by util-linux (`unshare`, `nsenter`), because
Python itself can enter none before its version 3.12.
"""

import contextlib
import json
import os
import secrets
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from addon.network import LOOPBACK_HOST, find_free_port
from addon.proxy.authorities import hash_subject

DEFAULT_PORTS = (80, 443)

PACKAGES: Mapping[str, str] = {
    "pasta": "passt",
    "nft": "nftables",
    "ip": "iproute2",
    "unshare": "util-linux",
    "nsenter": "util-linux",
}
"""The programs that are needed, and the package of each on Debian, Ubuntu and Fedora."""

_SETUP = Path(__file__).with_name("transparent.sh")

_SYSTEM_FOLDERS = ("/usr/sbin", "/sbin")
"""Where `nft` and `ip` are, which the PATH of an ordinary user often lacks."""

_TUN = Path("/dev/net/tun")
_RESTRICTED = Path("/proc/sys/kernel/apparmor_restrict_unprivileged_userns")

_OUTER_ADDRESS, _INNER_ADDRESS = "192.0.0.1", "192.0.0.2"
"""The two ends between the namespaces: of a block that no network uses (RFC 7335)."""

_RESOLVER = "169.254.1.53"
"""pasta sends what is asked there to the machine's own resolver, also to one on loopback."""

_HOLD = "readlink /proc/self/ns/net; exec cat > /dev/null"
"""What runs in the outer namespace: it says which that is, and ends with its input."""

_IN_FOLDER = ("sh", "-c", 'cd "$0" && unset OLDPWD && exec "$@"')
"""Whoever enters a mount namespace is at its root."""

_CLOSE_SECONDS = 10.0
_MOST_SAID = 300


class Counts(NamedTuple):
    """The connections that were passed on past the proxy, and the packets of QUIC refused."""

    tcp: int = 0
    udp: int = 0
    quic: int = 0


class NetworkOptions(NamedTuple):
    """What the network of a command is to be like.

    page_port: where the proxy's page is to listen.
    ports: those that lead to the proxy, at whatever address.
    loopback: the ports of the machine's own loopback that the command is to reach.
    """

    page_port: int
    ports: Sequence[int] = DEFAULT_PORTS
    loopback: Sequence[int] = ()


class Missing(NamedTuple):
    """What this machine lacks, as the end of a sentence, and a command that mends it, if any."""

    says: str
    fix: str | None = None

    def __str__(self) -> str:
        return f"--transparent {self.says}{f': {self.fix}' if self.fix else ''}"


def find_missing() -> Missing | None:
    """Return what this machine lacks for such a network; None if it lacks nothing."""
    if sys.platform != "linux":
        return Missing("needs Linux")
    if os.geteuid() == 0:
        return Missing("is for an ordinary user: pasta does not serve root")
    for program, package in PACKAGES.items():
        if shutil.which(program, path=_path()) is None:
            return Missing(f"needs {program}, of the package {package}")
    if not os.access(_TUN, os.R_OK | os.W_OK):
        return Missing(f"needs {_TUN}, which you may not open", f"sudo chmod 666 {_TUN}")
    tried = subprocess.run(  # noqa: S603 - our own command
        [_find("unshare"), "--user", "--map-root-user", "--net", "--mount", "true"],
        capture_output=True,
        text=True,
        check=False,
    )
    if tried.returncode == 0:
        return None
    with contextlib.suppress(OSError):
        if _RESTRICTED.read_text().strip() != "0":
            allow = f"sudo sysctl -w kernel.{_RESTRICTED.name}=0"
            return Missing("needs user namespaces, which AppArmor forbids here", allow)
    return Missing(f"needs user namespaces ({_shorten(tried.stderr) or 'none can be made'})")


class TransparentNetwork:
    """The two namespaces, from when they are made until `close`.

    port: where the proxy is to listen, on loopback in the outer namespace. It is reached on the
        machine's own loopback, as the page is, and on the command's.
    modes: mitmdump's, beside that of the plain proxy at `port`.

    bundle: the authorities that the command is to trust, in one file.
    authority: the certificate of the proxy's own.
    log: the file that gets what the programs say.
    scratch: a folder of the user's, over which the inner namespace has files of its own for a
        moment.

    Whoever makes one has asked `find_missing` before. Raises OSError, and RuntimeError with what a
    program said.
    """

    def __init__(
        self, wanted: NetworkOptions, bundle: Path, authority: Path, log: Path, scratch: Path
    ) -> None:
        self._log = log
        self._held: list[subprocess.Popen[bytes]] = []
        self.port, transparent_port = find_free_port(), find_free_port()
        loopback = _join(wanted.loopback)
        try:
            said = self._hold(
                "pasta",
                *("--foreground", "--quiet", "--config-net", "--no-map-gw"),
                *("--dns-forward", _RESOLVER),
                *("--tcp-ports", f"{LOOPBACK_HOST}/{self.port},{wanted.page_port}"),
                *("--tcp-ns", loopback or "none", "--udp-ports", "none", "--udp-ns", "none"),
                *("--", "sh", "-c", _HOLD),
            )
            self._outer = _find_process(said.strip())
            said = self._hold(
                *self._enter(f"--net=/proc/{self._outer}/ns/net"),
                *("unshare", "--net", "--mount", "--propagation", "slave", "sh", str(_SETUP)),
                OUTER=f"{self._outer}",
                OUTER_ADDRESS=_OUTER_ADDRESS,
                INNER_ADDRESS=_INNER_ADDRESS,
                PREFIX=_choose_prefix(),
                PORTS=_join(wanted.ports),
                LOOPBACK_PORTS=_join((self.port, *wanted.loopback)),
                PROXY_PORT=f"{transparent_port}",
                RESOLVER=_RESOLVER,
                SCRATCH=str(scratch),
                BUNDLE=str(bundle),
                AUTHORITY=str(authority),
                SUBJECT_HASH=hash_subject(authority),
            )
        except BaseException:
            self.close()
            raise
        self._inner, *ipv6 = said.split()
        hosts = (_OUTER_ADDRESS, *ipv6)
        self.modes = [f"transparent@{host}:{transparent_port}" for host in hosts]

    def __enter__(self) -> "TransparentNetwork":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def for_proxy(self, folder: Path) -> tuple[str, ...]:
        """Return what a command begins with that is to run beside the proxy, in a folder."""
        return (
            *self._enter(f"--net=/proc/{self._outer}/ns/net", self._files),
            *_IN_FOLDER,
            str(folder),
        )

    def for_command(self, folder: Path) -> tuple[str, ...]:
        """Return what a command begins with that is to run inside, in a folder.

        It has the user's own number again, and no rights over the namespaces.
        """
        inner = self._enter(f"--net=/proc/{self._inner}/ns/net", self._files)
        own = (f"--map-user={os.getuid()}", f"--map-group={os.getgid()}")
        return (*inner, _find("unshare"), "--user", *own, *_IN_FOLDER, str(folder))

    def has_ended(self, process: int) -> bool:
        """Return whether this is the id of a process that held it: then nothing works any more."""
        for held in self._held:
            if held.pid == process:
                held.returncode = 0  # nobody can wait for it again
                return True
        return False

    def count(self) -> Counts:
        """Return what has not gone through the proxy so far."""
        command = [*self._enter(f"--net=/proc/{self._outer}/ns/net"), "nft", "--json"]
        listed = subprocess.run(  # noqa: S603 - our own command
            [*command, "list", "counters", "table", "inet", "obsmask"],
            env=_environment(),
            capture_output=True,
            check=False,
        )
        with contextlib.suppress(ValueError, KeyError, TypeError):
            entries = [each.get("counter", {}) for each in json.loads(listed.stdout)["nftables"]]
            packets = {entry["name"]: int(entry["packets"]) for entry in entries if entry}
            return Counts(packets["past_tcp"], packets["past_udp"], packets["refused_quic"])
        return Counts()

    def close(self) -> None:
        """End what still runs inside, and with it the network."""
        for process in reversed(self._held):
            with contextlib.suppress(OSError):
                if process.stdin is not None:
                    process.stdin.close()
            try:
                process.wait(_CLOSE_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    @property
    def _files(self) -> str:
        return f"--mount=/proc/{self._inner}/ns/mnt"

    def _enter(self, *namespaces: str) -> tuple[str, ...]:
        user = f"--user=/proc/{self._outer}/ns/user"
        return (_find("nsenter"), user, *namespaces, "--preserve-credentials", "--")

    def _hold(self, program: str, *arguments: str, **variables: str) -> str:
        """Start a process that says a line and then waits; return the line."""
        begin = self._log.stat().st_size
        with self._log.open("ab") as log:
            process = subprocess.Popen(  # noqa: S603 - our own command
                [_find(program), *arguments],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                env=_environment(**variables),
                cwd="/",
                start_new_session=True,  # what is typed at the terminal is not for it
            )
        self._held.append(process)
        with process.stdout or contextlib.nullcontext() as output:
            said = output.readline().decode() if output else ""
        if not said.endswith("\n"):
            text = self._log.read_bytes()[begin:].decode(errors="replace")
            raise RuntimeError(f"--transparent: no network could be made: {_shorten(text)}")
        return said


def _find_process(namespace: str) -> int:
    """Return a process in a network namespace, by what the link to it in `/proc` says."""
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if str((process / "ns" / "net").readlink()) == namespace:
                return int(process.name)
    raise RuntimeError(f"--transparent: pasta has made {namespace}, and no process is in it")


def _choose_prefix() -> str:
    """Return a local prefix of IPv6 with 40 random bits (RFC 4193), as in front of an address."""
    digits = secrets.token_hex(5)
    return f"fd{digits[:2]}:{digits[2:6]}:{digits[6:]}::"


def _join(ports: Sequence[int]) -> str:
    return ",".join(map(str, ports))


def _find(program: str) -> str:
    return shutil.which(program, path=_path()) or program


def _path() -> str:
    return os.pathsep.join((os.environ.get("PATH", os.defpath), *_SYSTEM_FOLDERS))


def _environment(**more: str) -> dict[str, str]:
    return {**os.environ, "PATH": _path(), **more}


def _shorten(said: str) -> str:
    """Return the first lines that say something: pasta reports, too, that there is no syslog."""
    lines = (line.strip() for line in said.splitlines() if "to syslog" not in line)
    return "; ".join(filter(None, lines))[:_MOST_SAID]
