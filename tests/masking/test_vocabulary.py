"""The vocabulary is OpenAI's, comes from the package, and a damaged one is refused."""

import hashlib
import lzma
from pathlib import Path

import pytest
import tiktoken

from masking.tokens import load_o200k_base
from masking.tokens.count import parse_vocabulary
from tests.support.places import ROOT

FILE = ROOT / "masking" / "tokens" / "o200k_base.tiktoken.xz"
URL = "https://openaipublic.blob.core.windows.net/encodings/o200k_base.tiktoken"

TEXT = "Don't 1234567 naïve  straße\r\n\r\n\t漢字 😀 // HTTPServer x_y <|endoftext|>\n   end  "


def test_the_encoding_is_the_one_tiktoken_loads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """tiktoken finds the unpacked file in its cache and so asks no network."""
    cached = tmp_path / hashlib.sha1(URL.encode()).hexdigest()
    cached.write_bytes(lzma.decompress(FILE.read_bytes()))
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(tmp_path))
    expected = tiktoken.get_encoding("o200k_base")
    actual = load_o200k_base()
    assert expected is not actual
    assert vars_of(expected) == vars_of(actual)
    assert not actual._mergeable_ranks  # which only pickling needs
    assert expected.encode(TEXT, allowed_special="all") == actual.encode(
        TEXT, allowed_special="all"
    )


def vars_of(encoding: tiktoken.Encoding) -> dict[str, object]:
    others = ("_core_bpe", "_mergeable_ranks")
    return {name: value for name, value in vars(encoding).items() if name not in others}


def test_the_encoding_is_loaded_once() -> None:
    assert load_o200k_base() is load_o200k_base()


@pytest.mark.parametrize(
    ("packed", "message"),
    [
        pytest.param(b"", "is damaged", id="an empty file"),
        pytest.param(b"IQ== 0\n", "is damaged", id="a file that is no xz"),
        pytest.param(FILE.read_bytes()[:-100], "is damaged", id="a file cut short"),
        pytest.param(lzma.compress(b"IQ== 0\n"), "SHA-256 .* expected 446a", id="other content"),
    ],
)
def test_a_vocabulary_that_is_not_openais_is_refused(packed: bytes, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        parse_vocabulary(packed)
