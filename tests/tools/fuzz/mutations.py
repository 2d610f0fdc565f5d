"""What happens to a body's bytes on its way, and odd things that a client may put into it."""

from collections.abc import Callable
from random import Random

_TOKENS = (
    *(b"NaN", b"-Infinity", b"1e999", b"-0", b"1.0", b"true", b"null", b"9" * 40, b'""', b"{}"),
    *(
        b"[]",
        b",",
        b":",
        b'"',
        b"}",
        b"]",
        b"{",
        b"[",
        b"\\",
        b'"\\ud800"',
        b"\xff",
        b"\xed\xa0\x80",
    ),
    *(b'"messages":[', b'"messages":[]', b',"messages":[{"role":"user"}]', b'"contents":[{}],'),
    *(b'"input":[', b'"role":"tool",', b'"content":"x",', b'{"messages":[{"a":1}]}', b"\x00"),
    *(b"[" * 1_100, b'{"a":' * 600, b"[" * 400 + b"]" * 400, b"\xef\xbb\xbf", b" \r\n\t" * 9),
)


def _overwrite(body: bytes, at: int, random: Random) -> bytes:
    return body[:at] + bytes([random.choice(b'{}[]",:\\0e-tn \xff')]) + body[at + 1 :]


def _insert(body: bytes, at: int, random: Random) -> bytes:
    return body[:at] + random.choice(_TOKENS) + body[at:]


def _insert_at_a_sign(body: bytes, at: int, random: Random) -> bytes:
    found = body.find(random.choice((b",", b"{", b"[", b"]", b"}")), at)
    return _insert(body, max(0, found) + random.randrange(2), random)


def _delete(body: bytes, at: int, random: Random) -> bytes:
    return body[:at] + body[at + random.choice((1, 1, 2, 9, 300)) :]


def _repeat(body: bytes, at: int, random: Random) -> bytes:
    end = at + random.choice((1, 9, 80, 500))
    return body[:end] + body[at:end] + body[end:]


def _move(body: bytes, at: int, random: Random) -> bytes:
    end, to = at + random.choice((9, 80, 300)), random.randrange(len(body) + 1)
    rest = body[:at] + body[end:]
    return rest[:to] + body[at:end] + rest[to:]


def _truncate(body: bytes, at: int, random: Random) -> bytes:
    return body[:at]


def _begin(body: bytes, at: int, random: Random) -> bytes:
    return random.choice((b"\xef\xbb\xbf", b" \n", b"\xef\xbb\xbf\xef\xbb\xbf", b"x")) + body


def _end(body: bytes, at: int, random: Random) -> bytes:
    return body + random.choice((b"\n", b" x", b"}", b",", b"{}", b"\x00"))


def _deepen(body: bytes, at: int, random: Random) -> bytes:
    deep = random.choice((90, 190, 210, 480, 960, 1_000, 1_020))
    inserted = b'"deep":' + b"[" * deep + b"]" * deep + b","
    found = body.find(b"{", at if random.random() < 0.7 else 0)
    return body[: found + 1] + inserted + body[found + 1 :]


_MUTATIONS: tuple[Callable[[bytes, int, Random], bytes], ...] = (
    _overwrite,
    _insert,
    _insert_at_a_sign,
    _insert_at_a_sign,
    _delete,
    _repeat,
    _move,
    _truncate,
    _begin,
    _end,
    _deepen,
)


def mutate(body: bytes, random: Random) -> bytes:
    """Return a body after one to three accidents."""
    for _ in range(random.choice((1, 1, 1, 2, 3))):
        body = random.choice(_MUTATIONS)(body, random.randrange(len(body) + 1), random)
    return body
