"""Chapter 7: an error stays, because an agent that forgets its mistakes repeats them.

Single words count in short texts alone. In 852 real results the bare words kept 36.6% of all
characters, as source code mentions exceptions and timeouts; the signs of long texts keep 2.8%.
"""

import json
from dataclasses import replace

import pytest

from masking.window import looks_like_error
from tests.spec.talk import OUTPUT, SHORT, mask, reasons
from tests.support.marks import as_one_test
from tests.support.wire_conversations import (
    IN_EVERY_FORMAT,
    WRITERS,
    Ask,
    Give,
    Model,
    Tools,
    User,
    Writer,
    in_each,
    turn,
    turns,
)

WORDS = 2_000
"""The default of `error_words_max_chars`."""

LONG = "some more lines of output\n" * 200
"""5,200 characters."""


@as_one_test
@pytest.mark.parametrize(
    "text",
    [
        "Traceback",
        "unhandled EXCEPTION in thread",
        "TimeOut after 30 s",
        "connect_error",
        "Connection refused",
        "Error: no such file",
        "error",
        "compiling\nerror: expected ;",
    ],
)
def test_a_word_in_a_short_text_makes_an_error(text: str) -> None:
    assert looks_like_error(text, WORDS)
    assert not looks_like_error(f"{LONG}\n-- {text}", WORDS)


@as_one_test
@pytest.mark.parametrize("text", ["", "fine", "no error here", "0 errors", "mirror", "a terror"])
def test_other_texts_are_none(text: str) -> None:
    assert not looks_like_error(text, WORDS)


@as_one_test
@pytest.mark.parametrize(
    "line",
    [
        "Traceback (most recent call last):",
        "ValueError: invalid literal",
        "java.lang.NullPointerException: null",
        "Exit code: 1",
        "exit status 2",
        "Process exited with code 127",
        "<returncode>1</returncode>",
        "[The command completed with exit code 1.]",
        "is_error: true",
    ],
)
def test_a_sign_at_the_start_of_a_line_makes_an_error_at_every_length(line: str) -> None:
    assert looks_like_error(line, WORDS)
    assert looks_like_error(f"{LONG}{line}\n{LONG}", WORDS)


@pytest.mark.parametrize(
    "line",
    ["Exit code: 0", "exit status 00", "is_error: false", "# raises ValueError: see the manual"],
)
def test_the_sign_of_a_success_or_one_inside_a_line_makes_none(line: str) -> None:
    assert not looks_like_error(f"{LONG}{line}\n", WORDS)


@as_one_test
@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({"error": "no such file"}, True),
        ({"error": {"code": 5}}, True),
        ({"error": None}, False),
        ({"error": ""}, False),
        ({"error": False}, False),
        ({"status": "error"}, True),
        ({"status": "Error"}, True),
        ({"status": "ok"}, False),
        ({"exit_code": 1}, True),
        ({"exit_code": 0}, False),
        ({"returncode": -9}, True),
        ({"success": False}, True),
        ({"success": True}, False),
        ([{"success": True}, {"success": False}], True),
        ([*[{"success": True}] * 7, {"success": False}], True),
        ([*[{"success": True}] * 8, {"success": False}], False),
        ("error", False),
    ],
    ids=str,
)
def test_what_json_says_of_itself_counts_at_every_length(value: object, expected: bool) -> None:
    """In an object, or in one of a list of at most eight; a longer list is data."""
    padded = value
    if isinstance(value, dict):
        padded = {"output": LONG, **value}
    elif isinstance(value, list):
        padded = [{"output": LONG, **value[0]}, *value[1:]]
    assert expected is looks_like_error(json.dumps(value), 0)
    assert expected is looks_like_error(json.dumps(padded), WORDS)


def test_up_to_which_length_words_count_is_a_setting() -> None:
    """A very large value gives the literal behavior of the tech spec."""
    text = f"{LONG}-- a timeout"
    found = [looks_like_error(text, most) for most in (0, WORDS, len(text) - 1, len(text), 10**9)]
    assert [False, False, False, True, True] == found


@as_one_test
@IN_EVERY_FORMAT
def test_an_error_stays_in_every_format_however_old(writer: Writer) -> None:
    failed = f"Traceback (most recent call last):\n{OUTPUT}"
    told = writer.tell(User(), *turn("a", failed), *turn("b", OUTPUT), *turns(1))
    assert ["error", "masked", "in_window"] == reasons(mask(told, SHORT))
    off = replace(SHORT, keep_errors=False)
    assert ["masked", "masked", "in_window"] == reasons(mask(told, off))


@as_one_test
@in_each([writer for writer in WRITERS if writer.tells_errors])
def test_what_its_format_says_failed_stays_whatever_its_text(writer: Writer) -> None:
    said = (Model((Ask("a"),)), Tools((Give("a", OUTPUT, fails=True),)), *turns(1))
    assert ["error", "in_window"] == reasons(mask(writer.tell(User(), *said), SHORT))
