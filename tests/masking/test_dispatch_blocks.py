from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from masking.history_summary import BEGIN, END, find_blocks
from masking.reduction import mask_observation
from tests.builders import OLD, texts

BLOCK = f'{BEGIN}\n{{"task_id":"2.1","status":"completed"}}\n{END}'
INLINE = f"{BEGIN}{END}"
PROSE = "verbose logs " * 10
"""130 characters."""


class Blocks(NamedTuple):
    case: str
    text: str
    expected: list[str]


BLOCKS = [
    Blocks("none", PROSE, []),
    Blocks("empty", "", []),
    Blocks("one", f"{PROSE}{BLOCK}{PROSE}", [BLOCK]),
    Blocks("nothing outside", BLOCK, [BLOCK]),
    Blocks("several, in order", f"{BLOCK}{PROSE}{INLINE}{PROSE}{BLOCK}", [BLOCK, INLINE, BLOCK]),
    Blocks("side by side", f"{BLOCK}{INLINE}", [BLOCK, INLINE]),
    Blocks("unterminated", f"{PROSE}{BEGIN} {{}} {PROSE}", []),
    Blocks("an end alone", f"{PROSE}{END}", []),
    Blocks("reversed", f"{END} {{}} {BEGIN}", []),
    Blocks("reversed, then one", f"{END} {BEGIN} {{}} {END}", [f"{BEGIN} {{}} {END}"]),
    Blocks("of BEGIN BEGIN END the inner one", f"{BEGIN} a {BEGIN} b {END}", [f"{BEGIN} b {END}"]),
    Blocks("of BEGIN END END the first", f"{BEGIN} a {END} b {END}", [f"{BEGIN} a {END}"]),
    Blocks("one, then an unterminated one", f"{BLOCK} {BEGIN} {PROSE}", [BLOCK]),
    Blocks("an unterminated one, then one", f"{BEGIN} {PROSE}{BLOCK}", [BLOCK]),
    Blocks("in one line with the prose", f"a {BEGIN} {{}} {END} b", [f"{BEGIN} {{}} {END}"]),
    Blocks("another case", BLOCK.lower(), []),
    Blocks("astral, combining, lone", f"😀{BEGIN}e\u0301\ud83d😀{END}é",
           [f"{BEGIN}e\u0301\ud83d😀{END}"]),
]  # fmt: skip


@pytest.mark.parametrize("given", BLOCKS, ids=lambda given: given.case)
def test_blocks(given: Blocks) -> None:
    assert given.expected == find_blocks(given.text)


class Mask(NamedTuple):
    case: str
    text: str
    expected: str
    max_chars: int = 80


def same(case: str, text: str, max_chars: int = 80) -> Mask:
    return Mask(case, text, text, max_chars)


SHORT = "[observation masked — 31 chars]"
"""31 characters; an observation of 32 gets shorter by one."""

MASKS = [
    Mask("prose", OLD, "[observation masked — 330 chars]"),
    Mask("one character longer than its placeholder", "x" * 32, "[observation masked — 32 chars]"),
    same("as long as its placeholder", "x" * 31),
    same("shorter than its placeholder", "x" * 30),
    same("empty", ""),
    Mask("in code points", "😀e\u0301\ud83d" * 10, "[observation masked — 40 chars]"),
    Mask("a block and prose on both sides", f"{PROSE}\n{BLOCK}\n{PROSE}",
         f"[dispatch output masked — 262 chars]\n{BLOCK}"),
    Mask("several blocks", f"{BLOCK}{PROSE}{INLINE}{PROSE}{BLOCK}",
         f"[dispatch output masked — 260 chars]\n{BLOCK}\n{INLINE}\n{BLOCK}"),
    same("a block and nothing else", BLOCK),
    same("a block and less prose than the placeholder is long", f"logs\n{BLOCK}"),
    same("a block and as much prose as the placeholder and its line break",
         f"{'x' * 36}{BLOCK}"),
    Mask("a block and one character more", f"{'x' * 37}{BLOCK}",
         f"[dispatch output masked — 37 chars]\n{BLOCK}"),
    Mask("an unterminated block is prose", f"{BEGIN}{PROSE}", "[observation masked — 151 chars]"),
    Mask("so are reversed markers", f"{END}{PROSE}{BEGIN}", "[observation masked — 170 chars]"),
    Mask("of two beginnings the outer one is prose", f"{BEGIN}{PROSE}{BLOCK}",
         f"[dispatch output masked — 151 chars]\n{BLOCK}"),
    Mask("clipped to none: one character stays", OLD, "[", 0),
    Mask("clipped to less than none", OLD, "[", -5),
    Mask("clipped to 1", OLD, "[", 1),
    Mask("clipped to 2", OLD, "[o", 2),
    Mask("clipped to 3", OLD, "...", 3),
    Mask("clipped to 4", OLD, "[...", 4),
    Mask("clipped by one", OLD, "[observation masked — 330 ch...", 31),
    Mask("not clipped", OLD, "[observation masked — 330 chars]", 32),
    Mask("clipped, and so shorter than a short text", "xxxxx", "[...", 4),
    same("clipped to its own length", "xxxx", 4),
    Mask("a block is never clipped", f"{PROSE}{BLOCK}", f"[...\n{BLOCK}", 4),
    Mask("a block after one character", f"{PROSE}{BLOCK}", f"[\n{BLOCK}", 0),
    same("a placeholder already, though another would be shorter",
         "[observation masked — 123456 chars]"),
    same("a dispatch placeholder already", f"[dispatch output masked — 123456 chars]\n{BLOCK}"),
    same("a placeholder that was clipped in its last word",
         "[observation masked — 12345678901 ...", 37),
    same("a placeholder that was clipped in its number",
         "[observation masked — 123456789012...", 37),
    Mask("nearly a placeholder", "[observation masked — 4200 chars] ",
         "[observation masked — 34 chars]"),
    Mask("a placeholder with a word for a number", "[observation masked — ever so many chars]",
         "[observation masked — 41 chars]"),
    Mask("a placeholder and more", f"[observation masked — 4200 chars]\n{PROSE}",
         "[observation masked — 164 chars]"),
    Mask("a number that no length has", f"[observation masked — {'9' * 21} chars]",
         "[observation masked — 50 chars]"),
]  # fmt: skip


@pytest.mark.parametrize("given", MASKS, ids=lambda given: given.case)
def test_mask(given: Mask) -> None:
    assert given.expected == mask_observation(given.text, given.max_chars)


_pieces = st.one_of(texts, st.sampled_from([BEGIN, END, BLOCK, PROSE, "\n", SHORT]))
observations = st.lists(_pieces, max_size=6).map("".join)
_limits = st.one_of(st.integers(-1, 6), st.integers(20, 90))


@given(observations, _limits)
def test_no_observation_grows_and_no_block_is_lost(text: str, max_chars: int) -> None:
    masked = mask_observation(text, max_chars)
    assert masked == text or len(masked) < len(text)
    assert find_blocks(masked) == find_blocks(text)
    assert bool(masked) == bool(text)


@given(observations, _limits)
def test_masking_twice_equals_once(text: str, max_chars: int) -> None:
    once = mask_observation(text, max_chars)
    assert once == mask_observation(once, max_chars)
