"""Whether the files of the variables hold the proxy's authority."""

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from mitmproxy.certs import CertStore

from addon.commands.doctor.certificates import check_authority, check_bundles, read_bundle
from tests.support.findings import fixes, levels, says

NOW = datetime(2026, 11, 22, tzinfo=UTC)


@pytest.fixture(scope="module")
def authorities(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Two authorities that mitmproxy made."""
    folder = tmp_path_factory.mktemp("authorities")
    for name in ("one", "other"):
        CertStore.from_store(folder / name, "mitmproxy", 2048)
    return [folder / name / "mitmproxy-ca-cert.pem" for name in ("one", "other")]


def proxys(authorities: list[Path]) -> bytes:
    return next(iter(read_bundle(authorities[0]).certificates))


@pytest.mark.parametrize(
    ("after", "expected"),
    [(-1, ["broken"]), (29, ["note"]), (31, ["ok"])],
    ids=["expired", "soon", "not soon"],
)
def test_an_authority_has_its_time(
    authorities: list[Path], after: int, expected: list[str]
) -> None:
    end = x509.load_der_x509_certificate(proxys(authorities)).not_valid_after_utc
    now = end - timedelta(days=after)
    assert expected == levels(check_authority(read_bundle(authorities[0]), now))


def test_an_authority_is_made_at_the_first_start(home: Path) -> None:
    bundle = read_bundle(home / "mitmproxy-ca-cert.pem")
    assert ["ok"] == levels(check_authority(bundle, NOW))


def test_an_authority_that_is_none_is_broken(home: Path) -> None:
    file = home / "mitmproxy-ca-cert.pem"
    file.write_text("-----BEGIN CERTIFICATE-----\n?\n-----END CERTIFICATE-----\n")
    assert ["broken"] == levels(check_authority(read_bundle(file), NOW))


def test_a_key_that_others_can_read_is_broken(authorities: list[Path]) -> None:
    key = authorities[0].with_name("mitmproxy-ca.pem")
    key.chmod(0o644)
    found = list(check_authority(read_bundle(authorities[0]), NOW))
    key.chmod(0o600)
    assert ["ok", "broken"] == levels(found)
    assert [f"chmod 600 {key}"] == fixes(found)
    assert ["ok"] == levels(check_authority(read_bundle(authorities[0]), NOW))


ALL = ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "NODE_EXTRA_CA_CERTS")


@pytest.mark.parametrize(
    ("content", "is_proxied", "expected"),
    [
        ([0, 1], True, ["ok"]),
        ([0, 1], False, []),
        ([1], True, ["broken"]),
        ([1], False, []),
        ([0], True, ["ok"]),
        ([], True, ["broken"]),
        ([], False, ["broken"]),
        (None, False, ["broken"]),
    ],
    ids=[
        "the proxy's, and others",
        "the same, without a proxy",
        "another authority",
        "another authority, without a proxy",
        "the proxy's alone",
        "no certificate",
        "no certificate, without a proxy",
        "no file",
    ],
)
def test_the_files_that_variables_name_are_read(
    authorities: list[Path],
    home: Path,
    content: list[int] | None,
    is_proxied: bool,
    expected: list[str],
) -> None:
    bundle = home / "bundle.pem"
    if content is not None:
        bundle.write_bytes(b"".join(authorities[place].read_bytes() for place in content))
    authority = proxys(authorities) if is_proxied else None
    found = check_bundles(dict.fromkeys(ALL, str(bundle)), authority)
    assert expected == levels(found)


def test_what_is_not_set_is_named_where_a_proxy_is(authorities: list[Path], home: Path) -> None:
    found = list(check_bundles({}, proxys(authorities)))
    assert ["broken"] == levels(found)
    assert "Not set: SSL_CERT_FILE, REQUESTS_CA_BUNDLE, NODE_EXTRA_CA_CERTS." in says(found)
    assert [] == [*check_bundles({}, None)]


def test_a_pipe_and_a_folder_are_no_files_of_authorities(home: Path) -> None:
    os.mkfifo(home / "pipe")
    problems = [read_bundle(home / name).problem for name in ("pipe", "work", "none")]
    assert ["not a regular file"] * 2 + ["No such file or directory"] == problems
