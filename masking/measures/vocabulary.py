"""The o200k_base vocabulary, read from the package itself and never downloaded.

`o200k_base.tiktoken.xz` is OpenAI's own file, compressed (MIT, see `o200k_base.LICENSE`).
tiktoken's wheel has none, and its loader would fetch it over the network. As xz it takes 1.15 MB
(gzip: 1.69 MB) and loads in 0.2 s, a quarter of it unpacking.
"""

import binascii
import functools
import hashlib
import lzma
from importlib.resources import files

import tiktoken

ENCODING_NAME = "o200k_base"

_FILE = files("masking.measures") / "o200k_base.tiktoken.xz"

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
def load_o200k_base() -> tiktoken.Encoding:
    """Return an encoding that encodes as `tiktoken.get_encoding("o200k_base")` does.

    Read once in a process. It cannot be pickled. Raises OSError if the data file is missing,
    ValueError if it is not OpenAI's.
    """
    ranks = parse_vocabulary(_FILE.read_bytes())
    encoding = tiktoken.Encoding(
        name=ENCODING_NAME,
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


def is_exact_for(model: str | None) -> bool:
    """Whether tiktoken maps `model` to o200k_base; False for an unknown model.

    A provider's prefix is not part of the name: `openrouter/openai/gpt-4o` is `gpt-4o`.
    """
    try:
        return tiktoken.encoding_name_for_model((model or "").rpartition("/")[2]) == ENCODING_NAME
    except KeyError:
        return False
