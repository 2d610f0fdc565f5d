"""The hold-out: the share of the conversations that is observed only, to compare the others with.

It is a function of the conversation's digest and the configuration, so that a conversation is in
the same group at every request, after a restart, and behind every replica.
"""

from hashlib import blake2b

_RANGE = 1 << 64


def is_held_out(opening: bytes, percent: float, salt: str) -> bool:
    """Whether a conversation belongs to the share of `percent`, by what `digest_opening` returns.

    A larger percentage only adds conversations. Another salt chooses anew.
    """
    if percent <= 0:
        return False
    digest = blake2b(opening + salt.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "big") < percent / 100 * _RANGE
