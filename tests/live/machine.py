"""A machine with a network behind it, both in namespaces: what is served there is served from here.

The machine has an ordinary user, a way out over IPv4 and IPv6, and a `hosts` file of its own. The
servers are the test's own, on sockets that a process behind the machine has opened and sent here.
"""

import contextlib
import os
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest

from addon.proxy.transparent import PACKAGES
from tests.live.harness import SECONDS

FAR, FAR_IPV6, NEAR = "203.0.113.1", "2001:db8::1", "203.0.113.10"
"""The addresses of the servers, and of the machine (RFC 5737, RFC 3849)."""

_MAKE = f"""
ip link set lo up
exec 3<&0
unshare --net sh -c 'echo $$; exec cat' <&3 > "$FOLDER/far" &
while [ ! -s "$FOLDER/far" ]; do sleep 0.05; done
far=$(cat "$FOLDER/far")
ip link add eth0 type veth peer name near netns "$far"
ip address add {NEAR}/24 dev eth0
ip -6 address add 2001:db8::10/64 dev eth0 nodad
ip link set eth0 up
nsenter --net=/proc/$far/ns/net sh -ec '
    ip link set lo up
    ip address add {FAR}/24 dev near
    ip -6 address add {FAR_IPV6}/64 dev near nodad
    ip link set near up
'
ip route add default via {FAR}
ip -6 route add default via {FAR_IPV6}
mount --bind "$FOLDER/hosts" /etc/hosts
mount --bind "$FOLDER/resolv.conf" "$(readlink -f /etc/resolv.conf)"
echo $$ $far
exec cat
"""

_OPEN = """
import socket, sys
kind, family, host, port, path = sys.argv[1:]
opened = socket.socket(socket.AddressFamily[family], socket.SocketKind[kind])
if family == "AF_INET6":
    opened.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
opened.bind((host, int(port)))
if kind == "SOCK_STREAM":
    opened.listen(128)
channel = socket.socket(socket.AF_UNIX)
channel.connect(path)
socket.send_fds(channel, [b"x"], [opened.fileno()])
"""


class Machine:
    """The machine; its user is number 1000, whoever runs the tests."""

    def __init__(self, near: int, far: int, folder: Path) -> None:
        self._near, self._far, self._folder = near, far, folder

    def command(self, folder: Path, *words: str) -> list[str]:
        """Return a command as the machine's user gives it in a folder."""
        inside = _enter(self._near, "net", "mnt")
        own = ("--map-user=1000", "--map-group=1000")
        # Entering the namespace of its files has led to their root.
        there = ("sh", "-c", 'cd "$0" && exec "$@"')
        return [*inside, "unshare", "--user", *own, *there, str(folder), *words]

    def listen(
        self, port: int, kind: str = "SOCK_STREAM", host: str | None = None
    ) -> socket.socket:
        """Return a socket on a port behind the machine, or of the machine's own `host`."""
        process = self._far if host is None else self._near
        family = "AF_INET6" if host is None else "AF_INET"
        path = self._folder / "channel"
        path.unlink(missing_ok=True)
        with socket.socket(socket.AF_UNIX) as channel:
            channel.bind(str(path))
            channel.listen()
            words = (kind, family, host or "::", f"{port}", str(path))
            subprocess.run(
                [*_enter(process, "net"), sys.executable, "-c", _OPEN, *words], check=True
            )
            connection, _ = channel.accept()
            with connection:
                _, (descriptor,), _, _ = socket.recv_fds(connection, 1, 1)
        return socket.socket(fileno=descriptor)


def _enter(process: int, *kinds: str) -> list[str]:
    found = [f"--{name}=/proc/{process}/ns/{kind}" for kind, name in _NAMESPACES if kind in kinds]
    user = f"--user=/proc/{process}/ns/user"
    return ["nsenter", user, *found, "--preserve-credentials", "--"]


_NAMESPACES = (("net", "net"), ("mnt", "mount"))


@contextlib.contextmanager
def running_machine(names: Sequence[str]) -> Iterator[Machine]:
    """Run a machine to which all these names lead behind it; skip a test where none can be made."""
    search = os.pathsep.join((os.environ.get("PATH", os.defpath), "/usr/sbin", "/sbin"))
    for program in PACKAGES:
        if shutil.which(program, path=search) is None:
            pytest.skip(
                f"{program} is not installed: docs/CONTRIBUTING.md says what these tests need"
            )
    environment: Mapping[str, str] = {**os.environ, "PATH": search}
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        hosts = ["127.0.0.1 localhost", "::1 localhost"]
        hosts += [f"{address} {name}" for name in names for address in (FAR, FAR_IPV6)]
        (folder / "hosts").write_text("\n".join((*hosts, "")))
        (folder / "resolv.conf").write_text("nameserver 127.0.0.53\n")
        with subprocess.Popen(
            ["unshare", "--user", "--map-root-user", "--net", "--mount", "sh", "-euc", _MAKE],
            env={**environment, "FOLDER": made},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as process:
            assert process.stdin is not None
            assert process.stdout is not None
            assert process.stderr is not None
            said = process.stdout.readline()
            if not said:
                pytest.skip(f"no namespaces can be made here: {process.stderr.read().strip()}")
            near, far = map(int, said.split())
            with pytest.MonkeyPatch.context() as patch:
                patch.setenv("PATH", search)
                yield Machine(near, far, folder)
            process.stdin.close()
            process.wait(SECONDS)
