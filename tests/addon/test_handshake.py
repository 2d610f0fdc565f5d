"""What the end of a handshake says: a real client and the proxy's side of TLS, in memory."""

import contextlib
import ssl
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from mitmproxy.certs import CertStore
from mitmproxy.options import CONF_BASENAME
from mitmproxy.proxy.layers.tls import parse_client_hello
from mitmproxy.tls import ClientHello
from OpenSSL import SSL

from addon.proxy.handshake import read_failure, read_program

CLOSED = "The client disconnected during the handshake."


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("authority")
    CertStore.from_store(folder, CONF_BASENAME, 2048)
    return folder / f"{CONF_BASENAME}-ca.pem"


class Client:
    """A client that trusts nobody."""

    def __init__(
        self, version: ssl.TLSVersion = ssl.TLSVersion.TLSv1_3, ciphers: str = "DEFAULT"
    ) -> None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.maximum_version = version
        context.set_ciphers(ciphers)
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_hostname="localhost")

    def answer(self, heard: bytes = b"") -> bytes:
        """Return what the client says to what it heard; at first its ClientHello."""
        self._incoming.write(heard)
        with contextlib.suppress(ssl.SSLError):
            self._tls.do_handshake()
        return self._outgoing.read()


def server_side(authority: Path, curve: ec.EllipticCurve | None = None) -> SSL.Connection:
    context = SSL.Context(SSL.TLS_SERVER_METHOD)
    context.use_certificate_file(str(authority))
    context.use_privatekey_file(str(authority))
    if curve is not None:
        context.set_tmp_ecdh(curve)
    handshake = SSL.Connection(context)
    handshake.set_accept_state()
    return handshake


def hear(handshake: SSL.Connection, said: bytes) -> bytes:
    """Take what a client said; return the answer. Raises SSL.Error where it ends the handshake."""
    handshake.bio_write(said)
    with contextlib.suppress(SSL.WantReadError):
        handshake.do_handshake()
    return handshake.bio_read(65_535)


def failure_after(handshake: SSL.Connection, said: bytes) -> str:
    """Return mitmproxy's account of a handshake that a client's words end."""
    with pytest.raises(SSL.Error) as caught:
        hear(handshake, said)
    return f"The client may not trust the proxy's certificate (OpenSSL {caught.value!r})"


def test_a_close_before_a_complete_hello_says_nothing() -> None:
    assert read_failure(CLOSED, None) is None


def test_a_close_while_the_server_is_waited_for_says_nothing(authority: Path) -> None:
    assert read_failure("connection closed early", server_side(authority)) is None


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_a_close_after_the_certificate_is_one(authority: Path, version: ssl.TLSVersion) -> None:
    handshake = server_side(authority)
    assert len(hear(handshake, Client(version).answer())) > 1_000
    assert "closed" == read_failure(CLOSED, handshake)


def test_a_close_after_a_hello_retry_request_says_nothing(authority: Path) -> None:
    """It asks for another key share, and the certificate follows only the second hello."""
    handshake, client = server_side(authority, ec.SECP384R1()), Client()
    request = hear(handshake, client.answer())
    assert read_failure(CLOSED, handshake) is None
    hear(handshake, client.answer(request))
    assert "closed" == read_failure(CLOSED, handshake)


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_a_client_without_the_authority_refuses(authority: Path, version: ssl.TLSVersion) -> None:
    handshake, client = server_side(authority), Client(version)
    error = failure_after(handshake, client.answer(hear(handshake, client.answer())))
    assert "refused" == read_failure(error, handshake)


@pytest.mark.parametrize(
    ("alert", "expected"),
    [
        pytest.param(40, "failed", id="handshake_failure"),
        pytest.param(42, "refused", id="bad_certificate"),
        pytest.param(43, "refused", id="unsupported_certificate"),
        pytest.param(44, "refused", id="certificate_revoked"),
        pytest.param(45, "refused", id="certificate_expired"),
        pytest.param(46, "refused", id="certificate_unknown"),
        pytest.param(48, "refused", id="unknown_ca"),
        pytest.param(80, "failed", id="internal_error"),
    ],
)
def test_an_alert_on_the_certificate_is_a_refusal(
    authority: Path, alert: int, expected: str
) -> None:
    handshake = server_side(authority)
    hear(handshake, Client(ssl.TLSVersion.TLSv1_2).answer())
    error = failure_after(handshake, bytes([21, 3, 3, 0, 2, 2, alert]))  # a fatal alert's record
    assert expected == read_failure(error, handshake)


def test_a_client_with_no_cipher_in_common_fails(authority: Path) -> None:
    handshake = server_side(authority)
    hello = Client(ssl.TLSVersion.TLSv1_2, "ECDHE-ECDSA-AES128-SHA").answer()
    assert "failed" == read_failure(failure_after(handshake, hello), handshake)


def parsed(hello: bytes) -> ClientHello:
    found = parse_client_hello(hello)
    assert found is not None
    return found


def test_a_program_is_known_by_the_tls_that_it_offers() -> None:
    one, again = (read_program(parsed(Client().answer())) for _ in range(2))
    other = read_program(parsed(Client(ciphers="ECDHE+AESGCM").answer()))
    assert one == again
    assert one != other


def test_ciphers_that_stand_for_nothing_do_not_tell_programs_apart() -> None:
    """Some clients name one at random each time (RFC 8701)."""
    hello = Client().answer()
    first = parsed(hello).cipher_suites[0].to_bytes(2)
    greased = [hello.replace(first, value, 1) for value in (b"\x1a\x1a", b"\xda\xda")]
    one, other = (read_program(parsed(changed)) for changed in greased)
    assert one == other
