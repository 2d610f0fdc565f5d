import pytest

from masking.reduction import count_chars
from masking.window.placeholder import clip
from masking.wire.chat import CHAT
from masking.wire.messages import MESSAGES
from tests.support.builders import IMAGE, assistant, call, parts, read
from tests.support.marks import as_one_test

ASTRAL = "😀"
COMBINING = "e\u0301"
LONE = "\ud83d"
REMINDER = "<system-reminder>Go on.</system-reminder>"


@as_one_test
@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ({"role": "user", "content": "text"}, ("text",)),
        ({"content": "no role"}, ("no role",)),
        ({"role": "user", "content": ""}, ("",)),
        ({"role": "user", "content": parts("a", "", "b")}, ("a", "", "b")),
        ({"role": "user", "content": [IMAGE, *parts("beside an image")]}, ("beside an image",)),
        ({"role": "user", "content": [None, "a", {"type": "text"}, {"text": "a"}]}, ()),
        ({"role": "user", "content": [{"type": "text", "text": 7}]}, ()),
        ({"role": "user", "content": [{"type": "refusal", "refusal": "no"}]}, ()),
        ({"role": "user", "content": []}, ()),
        ({"role": "user", "content": None}, ()),
        ({"role": "user", "content": 7}, ()),
        ({"role": "user", "content": {"type": "text", "text": "a"}}, ()),
        (assistant(call()), ()),
        ({}, ()),
        (None, ()),
        ("text", ()),
        (["content"], ()),
    ],
)
def test_the_texts_of_a_message(message: object, expected: tuple[str, ...]) -> None:
    assert expected == CHAT.read_element(message).all_texts


def test_the_size_is_that_of_all_texts_in_code_points() -> None:
    messages = [
        {"role": "system", "content": "abc"},
        {"role": "user", "content": [*parts(ASTRAL, COMBINING), IMAGE]},
        {"role": "user", "content": LONE},
        assistant(call()),
        None,
    ]
    assert 3 + 1 + 2 + 1 == count_chars(read(messages).elements)


def test_what_follows_the_text_of_a_result_counts_too() -> None:
    block = {"type": "tool_result", "tool_use_id": "a", "content": f"out\n{REMINDER}"}
    element = MESSAGES.read_element({"role": "user", "content": [block]})
    assert element.results[0].texts == ("out",)
    assert len(f"out\n{REMINDER}") == count_chars([element])


@as_one_test
@pytest.mark.parametrize(
    ("max_chars", "expected"),
    [
        (-1, ""),
        (0, ""),
        (1, "a"),
        (2, "ab"),
        (3, "..."),
        (4, "a..."),
        (5, "ab..."),
        (6, "abcdef"),
        (7, "abcdef"),
    ],
)
def test_clip(max_chars: int, expected: str) -> None:
    assert expected == clip("abcdef", max_chars)


@as_one_test
@pytest.mark.parametrize("max_chars", range(8))
@pytest.mark.parametrize("text", ["", ASTRAL * 6, COMBINING * 3, LONE * 6, "é" * 6])
def test_a_clipped_text_is_no_longer_than_it_may_be(text: str, max_chars: int) -> None:
    assert min(len(text), max_chars) == len(clip(text, max_chars))
