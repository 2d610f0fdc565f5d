"""Bundles of authorities: whose they hold, and that two of them do not disturb each other."""

import os
import re
import shutil
import ssl
import stat
import subprocess
import sys
from pathlib import Path

import certifi
import pytest
from mitmproxy.certs import CertStore

from addon.places import release_lock, take_lock
from addon.proxy import authorities
from addon.proxy.authorities import (
    make_bundles,
    own_authority,
    upstream_bundle,
    user_bundle,
    write_bundle,
)
from addon.proxy.environment import CA_VARIABLES, OTHER_CA_VARIABLES, WGET_VARIABLE, wgetrc_beside
from tests.live.harness import run_mitmdump


def make_authority(folder: Path, name: str = "some") -> Path:
    CertStore.from_store(folder, name, 2048)
    return folder / f"{name}-ca-cert.pem"


def find_certificates(*files: Path) -> set[str]:
    sign = re.compile("-----BEGIN CERTIFICATE-----.*?-----END CERTIFICATE-----", re.DOTALL)
    return {found for file in files for found in sign.findall(file.read_text())}


PUBLIC = find_certificates(Path(certifi.where()))


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A user's home, on a system without authorities of its own."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.setattr(authorities, "_SYSTEM", (str(tmp_path / "system.pem"),))
    return tmp_path


def test_a_bundle_holds_the_public_authorities_and_the_others(tmp_path: Path) -> None:
    bundle = write_bundle(tmp_path / "bundle.pem", [make_authority(tmp_path)])
    assert PUBLIC | find_certificates(make_authority(tmp_path)) == find_certificates(bundle)
    ssl.create_default_context(cafile=str(bundle))


@pytest.mark.live
def test_the_users_bundle_holds_the_authority_that_the_proxy_will_use(home: Path) -> None:
    bundle = user_bundle({})
    used = home / ".mitmproxy" / "mitmproxy-ca-cert.pem"
    made = used.read_text()
    assert PUBLIC | find_certificates(used) == find_certificates(bundle)
    run_mitmdump(home, "-n", "--set", f"confdir={home}/.mitmproxy")
    assert made == used.read_text()


def test_a_file_that_a_variable_names_is_trusted_on_both_sides(home: Path) -> None:
    named = make_authority(home)
    trusted = PUBLIC | find_certificates(named)
    on_both_sides = trusted, trusted | find_certificates(own_authority())
    variables = (*CA_VARIABLES, *OTHER_CA_VARIABLES)
    assert dict.fromkeys(variables, on_both_sides) == {
        variable: (
            find_certificates(upstream_bundle({variable: str(named)})),
            find_certificates(user_bundle({variable: str(named)})),
        )
        for variable in variables
    }


def test_folders_of_authorities_are_trusted_as_openssl_reads_them(home: Path) -> None:
    folders = [home / "one", home / "two"]
    named = [make_authority(folder).rename(folder / "12ab34cd.0") for folder in folders]
    make_authority(home / "one", "not named by its subject")
    places = f"{folders[0]}:{home}/none::{folders[1]}"
    assert PUBLIC | find_certificates(*named) == find_certificates(
        upstream_bundle({"SSL_CERT_DIR": places})
    )
    assert PUBLIC | find_certificates(named[0]) == find_certificates(
        upstream_bundle({"REQUESTS_CA_BUNDLE": str(folders[0])})
    )


@pytest.mark.skipif(not shutil.which("git"), reason="there is no git")
def test_what_git_is_told_to_trust_is_trusted(home: Path) -> None:
    named = [make_authority(home, name) for name in ("everywhere", "at a host")]
    git = {"HOME": str(home), "PATH": os.environ["PATH"], "GIT_CONFIG_NOSYSTEM": "1"}
    (home / ".gitconfig").write_text(
        "[http]\n\tsslCAInfo = ~/everywhere-ca-cert.pem\n"
        f'[http "https://git.corp.test"]\n\tsslCAInfo = "{named[1]}"\n'
        '[http "https://other.test"]\n\tsslCAInfo = /none.pem\n'
    )
    assert PUBLIC | find_certificates(*named) == find_certificates(upstream_bundle(git))
    instead = {**git, "GIT_SSL_CAINFO": str(named[0])}
    assert PUBLIC | find_certificates(named[0]) == find_certificates(upstream_bundle(instead))


def test_the_systems_authorities_are_trusted(home: Path) -> None:
    make_authority(home).rename(home / "system.pem")
    assert PUBLIC | find_certificates(home / "system.pem") == find_certificates(upstream_bundle({}))


def test_a_bundle_of_ones_own_adds_nothing_the_second_time(home: Path) -> None:
    first = user_bundle({"SSL_CERT_FILE": str(make_authority(home))})
    assert first == user_bundle(dict.fromkeys(CA_VARIABLES, str(first)))


def test_bundles_of_two_environments_stand_beside_each_other(home: Path) -> None:
    one = user_bundle({"SSL_CERT_FILE": str(make_authority(home, "one"))})
    before = one.read_bytes()
    other = user_bundle({"SSL_CERT_FILE": str(make_authority(home, "other"))})
    assert one != other
    assert before == one.read_bytes()
    assert {one, other} == {*one.parent.glob("*.pem")}


@pytest.mark.live
def test_several_that_start_at_once_make_one_authority(home: Path) -> None:
    script = "from addon.proxy.authorities import user_bundle; print(user_bundle({}))"
    started = [
        subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE) for _ in range(4)
    ]
    bundles = {each.communicate()[0] for each in started}
    assert [0, 0, 0, 0] == [each.returncode for each in started]
    assert 1 == len(bundles)
    (bundle,) = bundles
    made = find_certificates(home / ".mitmproxy" / "mitmproxy-ca.pem")
    assert made <= find_certificates(Path(bundle.decode().strip()))


def test_a_bundle_that_was_damaged_is_written_anew() -> None:
    bundle = user_bundle({})
    before = bundle.read_bytes()
    bundle.write_bytes(before[:1000])
    assert (bundle, before) == (user_bundle({}), bundle.read_bytes())


def test_wget_gets_the_bundle_beside_the_settings_of_the_system(home: Path) -> None:
    (home / "wgetrc").write_text("passive_ftp = on\nca_certificate = /other.pem")
    bundle = user_bundle({WGET_VARIABLE: f"{home}/wgetrc"})
    expected = f"passive_ftp = on\nca_certificate = /other.pem\nca_certificate = {bundle}\n"
    assert expected == wgetrc_beside(bundle).read_text()
    user_bundle({WGET_VARIABLE: str(wgetrc_beside(bundle))})
    assert expected == wgetrc_beside(bundle).read_text()


def test_a_bundle_leaves_a_private_key_where_it_was(home: Path) -> None:
    make_authority(home)
    with_key = home / "some-ca.pem"
    assert "PRIVATE KEY" in with_key.read_text()
    assert "PRIVATE KEY" not in upstream_bundle({"SSL_CERT_FILE": str(with_key)}).read_text()


def test_a_bundle_is_its_owners_alone() -> None:
    bundle = user_bundle({})
    assert [0o600, 0o700] == [stat.S_IMODE(path.stat().st_mode) for path in (bundle, bundle.parent)]


def test_a_variable_that_names_no_file_is_named(home: Path) -> None:
    problem = f"^REQUESTS_CA_BUNDLE names {home}/none.pem: No such file or directory$"
    with pytest.raises(OSError, match=problem):
        user_bundle({"REQUESTS_CA_BUNDLE": f"{home}/none.pem"})


def test_a_variable_that_names_a_pipe_is_refused_at_once(home: Path) -> None:
    os.mkfifo(home / "pipe")
    with pytest.raises(OSError, match=rf"^CURL_CA_BUNDLE names {home}/pipe: not a regular file$"):
        user_bundle({"CURL_CA_BUNDLE": f"{home}/pipe"})


def test_what_the_proxy_trusts_is_not_called_like_what_clients_trust(home: Path) -> None:
    assert ("upstream", "ca") == tuple(
        bundle({}).name.partition("-")[0] for bundle in (upstream_bundle, user_bundle)
    )


# Where nothing can be written.


def test_what_a_home_does_not_take_lies_in_a_spare_folder(home: Path) -> None:
    for name in (".mitmproxy", "data"):
        (home / name).write_bytes(b"no folder")
    (spare := home / "spare").mkdir()
    problems: list[OSError] = []

    def find_spare(problem: OSError) -> Path:
        problems.append(problem)
        return spare

    user, upstream, authority = make_bundles(find_spare, {})
    assert {spare} == {user.parent, upstream.parent}
    assert spare / "mitmproxy" / "mitmproxy-ca-cert.pem" == authority
    assert PUBLIC == find_certificates(upstream)
    assert PUBLIC | find_certificates(authority) == find_certificates(user)
    assert upstream == upstream_bundle({}, find_spare)
    assert 3 == len(problems)
    assert [True] * 3 == [str(home) in str(problem) for problem in problems]
    with pytest.raises(OSError, match="cannot be made"):
        upstream_bundle({})


def test_an_authority_that_is_there_needs_nothing_written(home: Path) -> None:
    made = own_authority()
    shutil.rmtree(home / "data")
    (home / "data").write_bytes(b"no folder")
    (spare := home / "spare").mkdir()
    assert made == make_bundles(lambda _: spare, {}).authority


_ON_A_FULL_DISK = """
import resource
from addon.proxy.authorities import own_authority
import mitmproxy.certs
resource.setrlimit(resource.RLIMIT_FSIZE, (2_000, 2_000))
own_authority()
"""


@pytest.mark.skipif(sys.platform == "win32", reason="no such limit")
def test_a_full_disk_leaves_no_half_of_an_authority(home: Path) -> None:
    """mitmproxy would not start with it any more."""
    failed = subprocess.run(
        [sys.executable, "-c", _ON_A_FULL_DISK], capture_output=True, text=True, check=False
    )
    assert failed.stderr.endswith(f"OSError: [Errno 27] File too large: '{home}/.mitmproxy'\n")
    assert [] == [*(home / ".mitmproxy").iterdir()]
    assert own_authority().is_file()


def test_an_authority_that_another_process_makes_for_too_long_is_an_error(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("addon.proxy.authorities._LOCK_SECONDS", 0.0)
    path = Path(own_authority())
    shutil.rmtree(path.parent)
    (file,) = (home / "data").rglob("authority.lock")
    lock = take_lock(str(file), 0.0)
    assert isinstance(lock, int)
    with pytest.raises(OSError, match=r"another process holds its lock: .*authority\.lock"):
        own_authority()
    release_lock(lock)
    assert own_authority().is_file()
