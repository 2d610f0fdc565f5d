"""What the end of a TLS handshake says about a client's trust in the proxy's certificate.

Only what the client does after it has the certificate tells anything. mitmproxy lets the client
wait for the handshake with the server, so a client that hangs up before may just have waited too
long.
"""

import re
from typing import Literal

from mitmproxy import tls
from OpenSSL import SSL

Failure = Literal["refused", "closed", "failed"]
"""How a handshake ended: the client sent an alert about the certificate; it closed the connection
once it had the certificate; or there was another error, such as no cipher in common."""

_REFUSAL = re.compile(
    r"alert (unknown ca|bad certificate|unsupported certificate"
    r"|certificate (unknown|expired|revoked))"
)
"""The alerts of RFC 8446, section 6.2, about the peer's certificate, as OpenSSL names them."""


def read_program(hello: tls.ClientHello) -> tuple[object, ...]:
    """Return what tells programs at the same address apart: the TLS that they offer."""
    ciphers = tuple(suite for suite in hello.cipher_suites if not _is_grease(suite))
    return (*ciphers, *hello.alpn_protocols)


def read_failure(error: str, handshake: SSL.Connection | None) -> Failure | None:
    """Return how a handshake failed, or None if that says nothing about the client's trust.

    `error` is mitmproxy's message, which quotes OpenSSL's.
    """
    if handshake is None:
        return None  # there was no complete ClientHello
    if handshake.get_state_string() == b"error":
        return "refused" if _REFUSAL.search(error) else "failed"
    return "closed" if is_certificate_sent(handshake) else None


def is_certificate_sent(handshake: SSL.Connection) -> bool:
    """Return whether the server has sent its certificate in an unfinished handshake.

    In TLS 1.3 the server's Finished goes out with the certificate, and a HelloRetryRequest with
    neither. In TLS 1.2 the server waits for the client right after its certificate.
    """
    waits = handshake.get_state_string() == b"SSLv3/TLS write server done"
    return waits or handshake.get_finished() is not None


def _is_grease(value: int) -> bool:
    """Whether a value is one of those that mean nothing and change every time (RFC 8701)."""
    return value & 0x0F0F == 0x0A0A
