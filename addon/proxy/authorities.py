"""Certificate authorities: whom clients trust behind the proxy, and whom the proxy itself trusts.

A bundle is named by its content and never changed, so that proxies which are started at the same
time, in different environments, do not disturb each other.
"""

import hashlib
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import certifi

from addon.places import (
    UNFINISHED,
    data_folder,
    make_folder,
    release_lock,
    take_lock,
    write_private,
)
from addon.proxy.environment import (
    CA_FOLDERS_VARIABLE,
    CA_VARIABLES,
    OTHER_CA_VARIABLES,
    WGET_VARIABLE,
    wgetrc_beside,
)

CONF_DIR, CONF_BASENAME = "~/.mitmproxy", "mitmproxy"
"""As in `mitmproxy.options`, which takes long to load, and most callers need nothing else of it."""

_CERTIFICATE = re.compile(
    rb"-----BEGIN (?:TRUSTED )?CERTIFICATE-----.*?-----END (?:TRUSTED )?CERTIFICATE-----", re.DOTALL
)

_HASHED = re.compile(r"[0-9a-f]{8}\.\d+")
"""How a certificate is called in such a folder, after its subject."""

_LOCK_SECONDS = 30.0
"""How long to wait for another process that makes the authority."""

_SYSTEM = (
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
    "/etc/ssl/cert.pem",
)
"""Where systems keep their authorities, in the order of Go's crypto/x509. An administrator adds a
company's there, and git and curl read nothing else where no variable is set."""

_GIT_FILES = (".gitconfig", ".config/git/config", "/etc/gitconfig")
"""Where git's settings are, below the home folder. Without any, git is not asked: on a Mac the name
may stand for a program that offers to install it."""

_GIT_SCOPES = ("--system", "--global")
"""Not a repository's own settings: those may be a stranger's."""

_GIT_KEYS = r"^http\.(.*\.)?sslcainfo$"
_GIT_SECONDS = 10.0


FindSpare = Callable[[OSError], Path]
"""Returns a folder for what cannot be written where it belongs, for a reason, or raises that."""


def user_bundle(environment: Mapping[str, str] = os.environ) -> Path:
    """Return the user's own bundle: the authorities trusted so far, and mitmproxy's.

    Trusted so far are the public ones, the system's, and those in the files that the clients'
    variables and git's settings name. Beside it are wget's settings. If mitmproxy has no authority
    yet, it is made, as on its first start. Raises OSError, with the variable's name, if a variable
    names no readable file.
    """
    trusted = _find_certificates(_read_trusted(environment))
    return _store_user_bundle(_make_folder(), trusted, own_authority(), environment)


def upstream_bundle(
    environment: Mapping[str, str] = os.environ, find_spare: FindSpare | None = None
) -> Path:
    """Return the authorities that the proxy is to trust: those the user trusts. Raises as above.

    What cannot be written is in the folder that `find_spare` returns, if that is given.
    """
    trusted = _find_certificates(_read_trusted(environment))
    try:
        return _store(_make_folder(), "upstream-ca-bundle", trusted)
    except OSError as error:
        if find_spare is None:
            raise
        return _store(find_spare(error), "upstream-ca-bundle", trusted)


class Bundles(NamedTuple):
    """The bundle for clients, that for the proxy itself, and the certificate of its authority."""

    user: Path
    upstream: Path
    authority: Path


def make_bundles(find_spare: FindSpare, environment: Mapping[str, str] = os.environ) -> Bundles:
    """Return `user_bundle` and `upstream_bundle`; what the user trusts is read once.

    What cannot be written is in the folder that `find_spare` returns, mitmproxy's authority, too.
    """
    trusted = _find_certificates(_read_trusted(environment))
    try:
        authority = own_authority()
    except OSError as error:
        authority = _name_authority(find_spare(error) / "mitmproxy")
        _make_authority(authority)
    try:
        folder = _make_folder()
        return _store_bundles(folder, trusted, authority, environment)
    except OSError as error:
        return _store_bundles(find_spare(error), trusted, authority, environment)


def _store_bundles(
    folder: Path, trusted: dict[bytes, None], authority: Path, environment: Mapping[str, str]
) -> Bundles:
    upstream = _store(folder, "upstream-ca-bundle", trusted)
    user = _store_user_bundle(folder, trusted, authority, environment)
    return Bundles(user, upstream, authority)


def write_bundle(path: Path, authorities: Sequence[Path]) -> Path:
    """Write the public certificate authorities and these into one file."""
    path.write_bytes(b"\n".join(p.read_bytes() for p in (Path(certifi.where()), *authorities)))
    return path


def own_authority() -> Path:
    """Return the certificate of mitmproxy's own authority, which is made on first use.

    Raises OSError if it cannot be made.
    """
    path = authority_path()
    if not _is_made(path):
        # Two that are started at once would mix the files of two authorities.
        name = _make_folder() / "authority.lock"
        lock = take_lock(str(name), _LOCK_SECONDS)
        if isinstance(lock, str):
            raise OSError(0, lock, str(name))
        try:
            if not _is_made(path):
                _make_authority(path)
        finally:
            release_lock(lock)
    return path


def authority_path() -> Path:
    """Return where that certificate is, or will be."""
    return _name_authority(Path(CONF_DIR).expanduser())


def _name_authority(folder: Path) -> Path:
    return folder / f"{CONF_BASENAME}-ca-cert.pem"


def _is_made(path: Path) -> bool:
    """Whether an authority is complete: the last of these files is the last that is made."""
    made = ("-ca.pem", "-ca-cert.pem", "-dhparam.pem")
    files = [path.with_name(f"{CONF_BASENAME}{each}") for each in made]
    return all(each.is_file() and each.stat().st_size for each in files)


def _make_authority(path: Path) -> None:
    """Make an authority beside what is there: a full disk would leave half a file in its place.

    mitmproxy would not start with that any more. Raises OSError with the folder.
    """
    from mitmproxy import certs, options

    key, folder = path.with_name(f"{CONF_BASENAME}-ca.pem"), path.parent
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if key.is_file() and key.stat().st_size:  # the user's own, perhaps
            certs.CertStore.from_store(folder, CONF_BASENAME, options.KEY_SIZE)
            return
        with tempfile.TemporaryDirectory(prefix=UNFINISHED, dir=folder) as made:
            certs.CertStore.from_store(made, CONF_BASENAME, options.KEY_SIZE)
            for file in Path(made).iterdir():
                file.replace(folder / file.name)
    except UnicodeEncodeError:
        raise ValueError(
            f"mitmproxy cannot name {folder} in this locale: set PYTHONUTF8=1"
        ) from None
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(folder)) from None


def hash_subject(certificate: Path) -> str:
    """Return the hash of a certificate's subject, by which OpenSSL names its file in a folder."""
    from OpenSSL import crypto

    loaded = crypto.load_certificate(crypto.FILETYPE_PEM, certificate.read_bytes())
    return f"{int(loaded.subject_name_hash()):08x}"  # a number, whatever its type says


def _read_trusted(environment: Mapping[str, str]) -> Iterator[bytes]:
    yield Path(certifi.where()).read_bytes()
    if system := next((path for path in map(Path, _SYSTEM) if path.is_file()), None):
        yield system.read_bytes()
    for name in (*CA_VARIABLES, *OTHER_CA_VARIABLES):
        if environment.get(name):
            yield from _read_named(name, Path(environment[name]))
    if not environment.get("GIT_SSL_CAINFO"):
        yield from (path.read_bytes() for path in _find_git_authorities(environment))
    for folder in filter(None, environment.get(CA_FOLDERS_VARIABLE, "").split(os.pathsep)):
        yield from _read_folder(Path(folder))


def _find_git_authorities(environment: Mapping[str, str]) -> Iterator[Path]:
    """Yield the files that git's settings name, for all hosts or for one; none without git.

    A variable for git takes the place of these settings, so what they name has to be in it.
    """
    home = Path(environment.get("HOME") or Path.home())
    if not any((home / name).is_file() for name in _GIT_FILES):
        return
    git = shutil.which("git", path=environment.get("PATH"))
    for scope in _GIT_SCOPES if git else ():
        command = [str(git), "config", scope, "--null", "--type=path", "--get-regexp", _GIT_KEYS]
        try:
            done = subprocess.run(  # noqa: S603 - the user's own git
                command,
                env=environment,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=_GIT_SECONDS,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired):
            continue
        for pair in filter(None, done.stdout.split(b"\0")):
            _, _, value = pair.decode(errors="surrogateescape").partition("\n")
            if (path := Path(value)).is_file():
                yield path


def _read_named(variable: str, path: Path) -> Iterator[bytes]:
    """Yield a file, or those of a folder: requests takes either."""
    if path.is_dir():
        yield from _read_folder(path)
        return
    if path.exists() and not path.is_file():
        raise OSError(f"{variable} names {path}: not a regular file")  # a pipe would never end
    try:
        yield path.read_bytes()
    except OSError as error:
        raise OSError(f"{variable} names {path}: {error.strerror}") from None


def _read_folder(folder: Path) -> Iterator[bytes]:
    """Yield the files of a folder as OpenSSL looks for them: without a word where there is none."""
    if folder.is_dir():
        for file in sorted(folder.iterdir()):
            if _HASHED.fullmatch(file.name) and file.is_file():
                yield file.read_bytes()


def _find_certificates(parts: Iterable[bytes]) -> dict[bytes, None]:
    """Return each certificate once, and nothing else: such a file may hold a private key, too."""
    return dict.fromkeys(one for part in parts for one in _CERTIFICATE.findall(part))


def _store_user_bundle(
    folder: Path, trusted: dict[bytes, None], authority: Path, environment: Mapping[str, str]
) -> Path:
    own = _find_certificates([authority.read_bytes()])
    bundle = _store(folder, "ca-bundle", {**trusted, **own})
    _write_wgetrc(bundle, Path(environment.get(WGET_VARIABLE) or "/etc/wgetrc"))
    return bundle


def _store(folder: Path, name: str, certificates: Iterable[bytes]) -> Path:
    content = b"\n".join((*certificates, b""))
    bundle = folder / f"{name}-{hashlib.sha256(content).hexdigest()[:16]}.pem"
    _write(bundle, content)
    return bundle


def _write_wgetrc(bundle: Path, settings: Path) -> None:
    """Write the system's settings of wget, and the bundle: wget reads either file, not both."""
    try:
        lines = settings.read_bytes().splitlines()
    except OSError:
        lines = []
    ours = f"ca_certificate = {bundle.parent}{os.sep}".encode()
    kept = [line for line in lines if not line.startswith(ours)]
    last = f"ca_certificate = {bundle}".encode()
    _write(wgetrc_beside(bundle), b"\n".join((*kept, last, b"")))


def _make_folder() -> Path:
    folder = data_folder()
    make_folder(folder)
    return folder


def _write(file: Path, content: bytes) -> None:
    """Write a file, unless it is there already."""
    try:
        is_there = file.read_bytes() == content
    except OSError:
        is_there = False
    if not is_there:
        write_private(file, content)
