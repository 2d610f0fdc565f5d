"""Whether clients find the proxy's certificate authority in the files that they read."""

import http.client
import re
import shlex
import ssl
import stat
from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from pathlib import Path
from typing import NamedTuple

from cryptography import x509

from addon.commands.doctor.report import Finding, broken, note, ok
from addon.network import Address
from addon.proxy.environment import CA_VARIABLES, OTHER_CA_VARIABLES

_VARIABLES = (*CA_VARIABLES, *OTHER_CA_VARIABLES)

_ESSENTIAL = ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "NODE_EXTRA_CA_CERTS")
"""What most clients need. The others can take their place in a single one."""

_SOON = timedelta(days=30)
_SECONDS = 5.0
_MAX_BYTES = 100_000

_PEM = re.compile(rb"-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----", re.DOTALL)


class Bundle(NamedTuple):
    """The certificates in a file, in DER; `problem` if it cannot be read."""

    path: Path
    certificates: frozenset[bytes] = frozenset()
    problem: str | None = None


def read_bundle(path: Path) -> Bundle:
    """Read the certificates of a PEM file."""
    try:
        if not stat.S_ISREG(path.stat().st_mode):  # to read from a pipe may never end
            return Bundle(path, problem="not a regular file")
        data = path.read_bytes()
    except OSError as error:
        return Bundle(path, problem=error.strerror or str(error))
    found = frozenset(filter(None, map(_decode, _PEM.findall(data))))
    return Bundle(path, found, None if found else "it contains no certificate")


def _decode(block: bytes) -> bytes | None:
    try:
        return ssl.PEM_cert_to_DER_cert(block.decode("ascii"))
    except ValueError:
        return None


def fetch_authority(address: Address) -> bytes | None:
    """Return the authority of a running mitmproxy, in DER; None if it does not serve it."""
    connection = http.client.HTTPConnection(*address, timeout=_SECONDS)
    try:
        connection.request("GET", "http://mitm.it/cert/pem")
        return _decode(connection.getresponse().read(_MAX_BYTES))
    except (OSError, http.client.HTTPException):
        return None
    finally:
        connection.close()


def check_authority(authority: Bundle, now: datetime) -> Iterator[Finding]:
    """Yield the state of the proxy's own authority, and of its key."""
    folder = authority.path.parent
    again = f"rm {shlex.quote(str(folder))}/mitmproxy-ca*"
    if not authority.path.exists():
        yield ok(f"{authority.path} is created when the proxy first starts")
        return
    if authority.problem:
        yield broken(f"{authority.path}: {authority.problem}", again)
        return
    (first,) = list(authority.certificates)[:1]
    ends = x509.load_der_x509_certificate(first).not_valid_after_utc
    if ends < now:
        yield broken(f"{authority.path} expired on {ends:%Y-%m-%d}: no client trusts it", again)
    elif ends - now < _SOON:
        yield note(f"{authority.path} expires on {ends:%Y-%m-%d}", again)
    else:
        yield ok(f"{authority.path} is the proxy's authority, valid until {ends:%Y-%m-%d}")
    key = folder / "mitmproxy-ca.pem"
    if key.exists() and key.stat().st_mode & 0o077:
        yield broken(
            f"{key} can be read by others: with it they can pose as any server to your agents",
            f"chmod 600 {shlex.quote(str(key))}",
        )


def check_bundles(
    environment: Mapping[str, str], authority: bytes | None, fix: str | None = None
) -> Iterator[Finding]:
    """Yield what is wrong with the files that the variables name, file by file.

    authority: that of the proxy to which the environment leads, which they must contain; None if
        it leads to none.
    fix: the line that adds it to them.
    """
    named: dict[str, list[str]] = {}
    for name in _VARIABLES:
        if file := environment.get(name):
            named.setdefault(file, []).append(name)
    for file, names in named.items():
        bundle = read_bundle(Path(file))
        says = f"{file}, named by {', '.join(names)}"
        if bundle.problem:
            yield broken(f"{says}: {bundle.problem}", f"unset {' '.join(names)}")
        elif authority is not None and authority not in bundle.certificates:
            yield broken(
                f"{says}, lacks the proxy's authority: what reads it will not trust the proxy", fix
            )
        elif authority is not None:
            yield ok(f"{says}, contains the proxy's authority")
    missing = [name for name in _ESSENTIAL if not environment.get(name)]
    if authority is not None and missing:
        yield broken(
            f"Not set: {', '.join(missing)}. Clients that need one will not trust the proxy", fix
        )


def find_useless(environment: Mapping[str, str]) -> Iterator[str]:
    """Yield the variables that name a file without certificates."""
    for name in _VARIABLES:
        if environment.get(name) and read_bundle(Path(environment[name])).problem:
            yield name
