"""Whether clients find the proxy's certificate authority in the files that they read."""

import http.client
import re
import shlex
import ssl
import stat
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import NamedTuple

from cryptography import x509

from addon.commands.doctor.report import Finding, broken, note, ok
from addon.network import Address
from addon.proxy.environment import CA_VARIABLES, OTHER_CA_VARIABLES

_READERS: Mapping[str, str] = {
    "SSL_CERT_FILE": "Python's clients",
    "REQUESTS_CA_BUNDLE": "requests",
    "NODE_EXTRA_CA_CERTS": "Node's clients",
    "CURL_CA_BUNDLE": "curl",
    "GIT_SSL_CAINFO": "git",
    "AWS_CA_BUNDLE": "boto3",
    "DENO_CERT": "Deno",
}
"""Who needs a variable. Some clients, as claude-code and codex, can do with another one."""

_VARIABLES = (*CA_VARIABLES, *OTHER_CA_VARIABLES)

_ESSENTIAL = ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "NODE_EXTRA_CA_CERTS")
"""What most clients need. The others can take their place in a single one."""

_ADDING = ("NODE_EXTRA_CA_CERTS", "DENO_CERT")
"""The others replace the public authorities."""

_MOST_NAMED = 4
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
    """Yield the state of the proxy's own authority."""
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
    yield from _check_key(folder / "mitmproxy-ca.pem")


def check_foreign(address: Address, authority: Bundle) -> Iterator[Finding]:
    """Yield what to know of a running proxy whose authority is not the one of this user."""
    yield note(
        f"The proxy at {address.url} has another authority than {authority.path}: it runs for "
        "another user or on another machine, or with another confdir. Clients need its certificate",
        f"curl -x {address.url} http://mitm.it/cert/pem > proxy-ca.pem",
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
        yield from _check_bundle(read_bundle(Path(file)), names, authority, fix)
    missing = [name for name in _ESSENTIAL if not environment.get(name)]
    if authority is not None and missing:
        is_one = len(missing) == 1
        yield broken(
            f"{_join(missing)} {'is' if is_one else 'are'} not set: {_name_readers(missing)} will "
            "not trust the proxy",
            fix,
        )


def _check_bundle(
    bundle: Bundle, names: Sequence[str], authority: bytes | None, fix: str | None
) -> Iterator[Finding]:
    place = f"{_join(names)} {'names' if len(names) == 1 else 'name'} {bundle.path}"
    if bundle.problem:
        yield broken(f"{place}: {bundle.problem}", f"unset {' '.join(names)}")
        return
    if authority is not None and authority not in bundle.certificates:
        yield broken(
            f"{place}, which lacks the proxy's authority{_find_old(bundle)}: "
            f"{_name_readers(names)} will not trust the proxy",
            fix,
        )
    elif authority is not None:
        yield ok(f"{place}, which contains the proxy's authority")
    if len(bundle.certificates) == 1 and not {*names} <= {*_ADDING}:
        yield note(
            f"{place}, which contains one authority alone: clients that use it trust no server "
            "whose connections the proxy does not open",
            fix,
        )


def find_useless(environment: Mapping[str, str]) -> Iterator[str]:
    """Yield the variables that name a file without certificates."""
    for name in _VARIABLES:
        if environment.get(name) and read_bundle(Path(environment[name])).problem:
            yield name


def _join(names: Sequence[str]) -> str:
    """Return a list of names as text; of many, the first ones."""
    if len(names) > _MOST_NAMED:
        return f"{', '.join(names[: _MOST_NAMED - 1])} and {len(names) - _MOST_NAMED + 1} more"
    *others, last = names
    return f"{', '.join(others)} and {last}" if others else last


def _name_readers(variables: Sequence[str]) -> str:
    readers = [_READERS[name] for name in variables if name in _READERS]
    return _join(readers) if readers else "clients that use it"


def _decode(block: bytes) -> bytes | None:
    try:
        return ssl.PEM_cert_to_DER_cert(block.decode("ascii"))
    except ValueError:
        return None


def _find_old(bundle: Bundle) -> str:
    """Return the words for a bundle with an authority that mitmproxy has made before."""
    is_old = any(b"mitmproxy" in each for each in bundle.certificates)
    return ", but has another that mitmproxy made" if is_old else ""


def _check_key(key: Path) -> Iterator[Finding]:
    try:
        is_open = key.stat().st_mode & 0o077
    except OSError:
        return
    if is_open:
        yield broken(
            f"{key} can be read by others: with it they can pose as any server to your agents",
            f"chmod 600 {shlex.quote(str(key))}",
        )
