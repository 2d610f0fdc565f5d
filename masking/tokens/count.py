"""Counting tokens with o200k_base, whatever the model: exact for the models that have it.

It is slow (some 6 MB/s) beside all else on a request's path, so it is done in a thread afterwards.
It takes time in proportion to a text, whatever that holds: tiktoken's own grows faster in what its
pattern takes for one word, and ends in a panic for a million blanks.

The vocabulary is read from the package itself and never downloaded. `o200k_base.tiktoken.xz` is
OpenAI's own file, compressed (MIT, see `o200k_base.LICENSE`). tiktoken's wheel has none, and its
loader would fetch it over the network. As xz it takes 1.15 MB (gzip: 1.69 MB) and loads in 0.2 s, a
quarter of it unpacking. tiktoken is imported on first use: a request's path needs none of it.
"""

import binascii
import functools
import hashlib
import lzma
import re
from collections.abc import Callable
from hashlib import blake2b
from importlib.resources import files
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import tiktoken

_REMEMBERED_FROM = 128
"""In characters. Counting a shorter text takes hardly longer than looking it up."""

_STEP = 2_048
"""In characters. A text is cut between two steps of this length that are each of one kind. So a
word of three steps is always cut, and one of less than two never is."""

_ONE_KIND = re.compile(rf"[^\x00-@\[-`{{-\x7f\s\d]{{{_STEP}}}|[\W_]{{{_STEP}}}")
"""A step that may lie within one word: letters and what is beyond ASCII, or signs and blanks. The
pattern puts ASCII's signs at the ends of a word of letters alone."""

_CUT_SHORT = 3
"""How many tokens before a cut may differ from those of the whole text, or from any in it."""

_MOST_AT_ONCE = 128 * _STEP
"""Any text is cut after so many characters, so that counting can end early: 25 ms."""


class TokenCounter:
    """Counts tokens and remembers the counts of longer texts: an agent repeats its messages.

    It remembers digests, up to `max_entries` of them (200 bytes each), and then begins anew: an
    element that a request has again keeps its count itself. Threads may share one. The vocabulary
    is loaded on first use.

    `check` is called before each text that has to be counted, and every 262,144 characters within
    one; what it raises ends the counting.
    """

    def __init__(
        self, max_entries: int = 16_384, check: Callable[[], object] = lambda: None
    ) -> None:
        self._counts: dict[bytes, int] = {}
        self._max_entries, self._check = max_entries, check

    def count(self, text: str) -> int:
        """Return the tokens of a text; the names of special tokens in it are ordinary text.

        A lone surrogate counts as U+FFFD. A text of 262,144 characters or more, or with a word of
        4,096 or more, be it of letters, of signs or of blanks, is counted in pieces. That changes
        the result of periodic texts by less than 1%, of others by hardly a token.
        """
        if len(text) < _REMEMBERED_FROM:
            self._check()
            return _count(text)
        digest = blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()
        counted = self._counts.get(digest)
        if counted is None:
            self._check()
            # Unlocked: two threads may at worst count the same text.
            counted = _count(text, self._check)
            if len(self._counts) >= self._max_entries:
                self._counts.clear()
            self._counts[digest] = counted
        return counted


def _count(text: str, check: Callable[[], object] = lambda: None) -> int:
    """Count the tokens of a text, piece by piece if it is long; `check` is called before each."""
    tokens, start, was_one_kind = 0, 0, False
    if len(text) >= 2 * _STEP:
        for at in range(0, len(text), _STEP):
            is_one_kind = _ONE_KIND.match(text, at) is not None
            if (was_one_kind and is_one_kind) or at - start >= _MOST_AT_ONCE:
                check()
                counted, start = _count_up_to(text, start, at)
                tokens += counted
            was_one_kind = is_one_kind
    return tokens + len(load_o200k_base().encode_ordinary(text[start:]))


def _count_up_to(text: str, start: int, end: int) -> tuple[int, int]:
    """Count the tokens from `start` to shortly before `end`; return where the last of them ends.

    What is left before `end` is to be counted with what follows.
    """
    encoding = load_o200k_base()
    tokens = encoding.encode_ordinary(text[start:end])
    left = _CUT_SHORT
    while (tail := encoding.decode_bytes(tokens[-left:]))[0] & 0xC0 == 0x80:
        left += 1  # it begins within a character
    return len(tokens) - left, end - len(tail.decode())


_FILE = files("masking.tokens") / "o200k_base.tiktoken.xz"

# The three values below are those of tiktoken_ext/openai_public.py in tiktoken 0.14.
_SHA256 = "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d"
_SPECIAL_TOKENS = {"<|endoftext|>": 199999, "<|endofprompt|>": 200018}
_PATTERN = "|".join(
    (
        r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+"
        r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
        r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*"
        r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
        r"\p{N}{1,3}",
        r" ?[^\s\p{L}\p{N}]+[\r\n/]*",
        r"\s*[\r\n]+",
        r"\s+(?!\S)",
        r"\s+",
    )
)


@functools.cache
def load_o200k_base() -> "tiktoken.Encoding":
    """Return an encoding that encodes as `tiktoken.get_encoding("o200k_base")` does.

    Read once in a process. It cannot be pickled. Raises OSError if the data file is missing,
    ValueError if it is not OpenAI's.
    """
    import tiktoken

    ranks = parse_vocabulary(_FILE.read_bytes())
    encoding = tiktoken.Encoding(
        name="o200k_base",
        pat_str=_PATTERN,
        mergeable_ranks=ranks,
        special_tokens=_SPECIAL_TOKENS,
    )
    # tiktoken encodes with a copy of its own, and keeps this one, of 35 MB, to pickle itself.
    ranks.clear()
    return encoding


def parse_vocabulary(packed: bytes) -> dict[bytes, int]:
    """Return each token's rank, from the bytes of the xz file.

    Raises ValueError if `packed` is no xz file or does not unpack to OpenAI's vocabulary.
    """
    try:
        content = lzma.decompress(packed)
    except lzma.LZMAError as error:
        raise ValueError(f"{_FILE.name} is damaged: {error}") from error
    found = hashlib.sha256(content).hexdigest()
    if found != _SHA256:
        raise ValueError(f"{_FILE.name} is not OpenAI's: SHA-256 {found}, expected {_SHA256}")
    # Lines are "<base64> <rank>" with ranks from 0 without a gap, as the hash has just proved.
    tokens = content.split()[::2]
    return dict(zip(map(binascii.a2b_base64, tokens), range(len(tokens)), strict=True))
