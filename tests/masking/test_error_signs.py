import json

import pytest

from masking.strategies.error_signs import looks_like_error

LIMIT = 200
PADDING = "def load(path): return path\n" * 30
"""Long enough to be above the limit by itself, without a sign of an error."""

WORDS = [
    "Traceback (most recent call last):\n",
    "traceback",
    "an Exception was raised",
    "UNHANDLED EXCEPTION",
    "request timeout",
    "TimeoutError",
    "connect_error",
    "Connection refused",
    "dial tcp: connection refused",
    "Error",
    "error: no such file",
    "ERROR 404",
    "Errors: 2",
    "fine\nError: no",
    "fine\r\nerror",
    "fine\n\nERROR",
]

NO_WORDS = [
    "",
    "ok",
    "an error in the middle of a line",
    "no errors",
    "mirror",
    "\n  error is indented",
    "connection\nrefused",
    "time out",
    '{"errors": []}',
]

SIGNS = [
    "Traceback (most recent call last):",
    "ModuleNotFoundError: No module named 'x'",
    "Error: Cannot find module",
    "TypeError: x is not a function",
    "json.decoder.JSONDecodeError: Expecting value",
    "java.lang.IllegalStateException: closed",
    "Exit Code: 1",
    "Exit code: 127",
    "exit code 2",
    "EXIT CODE: 1",
    "exit_code: 1",
    "exitCode: 1",
    "exit code: -9",
    "exit code 010",
    "exit status 1",
    "Process exited with code 1",
    "Command exited with status 2",
    "<returncode>1</returncode>",
    "<exit_code>1</exit_code>",
    '"returncode": 1,',
    '    "exit_code": 1,',
    '{"chunk_id":"a5c4c8","wall_time_seconds":0.0000063,"exit_code":1,"output":""}',
    "Script failed",
    "[The command completed with exit code 1.]",
    "[Command finished with exit code 1]",
    "(exit code: 1)",
    "is_error: true",
    '  "is_error": true,',
    "is_error=True",
]

NO_SIGNS = [
    "    raise ValueError('no')  # Error: never",
    "except ConnectionError: pass  # Exception: none",
    "# see the Traceback (most recent call last): line",
    "the word exception, a timeout, connection refused",
    "error: lower case, as compilers write it in every log",
    "Exit Code: 0",
    "exit code 0, 1 warning",
    "Process exited with code 0",
    "<returncode>0</returncode>",
    '"exit_code": 00,',
    '{"chunk_id":"a5c4c8","wall_time_seconds":0.1,"exit_code":0,"output":"1"}',
    "Script failed to start, and then it ran",
    "exit status: none",
    "the documentation of this tool says that it may stop with exit code 1",
    "sys.exit(main())  # the exit code is not 1",
    "is_error: false",
    "is_error: trueish",
    "this_is_error: true",
    "x" * 400 + "Error: far from the start of its line",
    "x" * 400 + " exit code: 1",
]

JSON = [
    ('{"error": "no"}', True),
    ('{"error": null}', True),
    (' \n\t{"a": 1, "error": {}}\n', True),
    ('{"status": "error"}', True),
    ('{"status": "ERROR"}', True),
    ('{"status": "Error", "data": []}', True),
    ('{"\\u0065rror": 1}', True),
    ('{"st\\u0061tus": "err\\u006fr"}', True),
    ('{"error": 1, "huge": ' + "9" * 5000 + "}", False),
    ('{"error": 1, "lone": "\\ud800"}', True),
    ('{"error": 1, "number": NaN}', True),
    ('{"status": "ok"}', False),
    ('{"status": "errors"}', False),
    ('{"status": 500}', False),
    ('{"status": ["error"]}', False),
    ('{"Error": 1}', False),
    ('{"result": {"error": "nested"}}', False),
    ('{"result": {"status": "error"}}', False),
    ('[{"error": "in an array"}]', False),
    ('["error"]', False),
    ('"error"', False),
    ('{"error": broken', False),
    ('{"error": 1} trailing', False),
    ('text {"error": 1}', False),
    ('{"error":' * 5000, False),
    ('{"error": ' + "[" * 100_000 + "]" * 100_000 + "}", False),
]


@pytest.mark.parametrize("text", WORDS)
def test_a_word_makes_a_short_text_an_error(text: str) -> None:
    assert looks_like_error(text, LIMIT)


@pytest.mark.parametrize("text", NO_WORDS)
def test_a_short_text_without_a_word_is_no_error(text: str) -> None:
    assert not looks_like_error(text, LIMIT)


@pytest.mark.parametrize(
    ("length", "expected"), [(LIMIT - 1, True), (LIMIT, True), (LIMIT + 1, False)]
)
@pytest.mark.parametrize("letter", ["x", "é", "😀"])
def test_words_count_up_to_a_length_in_code_points(
    length: int, expected: bool, letter: str
) -> None:
    assert expected == looks_like_error("a timeout ".ljust(length, letter), LIMIT)


@pytest.mark.parametrize("text", ["Exception", "timeout", "Error"])
def test_at_a_limit_of_nought_no_word_counts(text: str) -> None:
    assert not looks_like_error(text, 0)


def test_a_very_large_limit_is_the_tech_specs_literal_rule() -> None:
    assert looks_like_error(PADDING * 1000 + "mid-line timeout", 10**9)


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
@pytest.mark.parametrize(
    ("before", "after"),
    [(PADDING, ""), ("", PADDING), (PADDING, PADDING), ("\n", PADDING), ("é😀\ud800\n", PADDING)],
    ids=["last line", "first line", "middle", "second line", "after wide characters"],
)
@pytest.mark.parametrize("sign", SIGNS)
def test_a_sign_at_the_start_of_a_line_makes_a_long_text_an_error(
    sign: str, before: str, after: str, newline: str
) -> None:
    text = f"{before}{sign}\n{after}".replace("\n", newline)
    assert looks_like_error(text, LIMIT)


@pytest.mark.parametrize("line", [*NO_SIGNS, *(f"see: {sign}" * 9 for sign in WORDS[1:6])])
def test_a_long_text_that_only_mentions_errors_is_no_error(line: str) -> None:
    assert not looks_like_error(f"{PADDING}{line}\n{PADDING}", LIMIT)


def test_a_sign_counts_wherever_the_words_do_not() -> None:
    assert looks_like_error("Exit Code: 1", 0)


@pytest.mark.parametrize("padding", ["", PADDING], ids=["short", "long"])
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Output: ok\nError: (none)\nExit Code: 0\n", False),
        ("Error: (none)\n", False),
        ("Error: (none)\nError: no such file\n", True),
        ("Error: (none)\nExit Code: 0\nTraceback (most recent call last):\n", True),
        ("Error: none\n", True),
    ],
)
def test_an_error_that_says_none_is_no_error(text: str, expected: bool, padding: str) -> None:
    assert expected == looks_like_error(text + padding, LIMIT)


@pytest.mark.parametrize("limit", [0, 10**9])
@pytest.mark.parametrize("padding", ["", " " * 9000])
@pytest.mark.parametrize(("text", "expected"), JSON)
def test_the_json_rule_holds_at_every_length(
    text: str, expected: bool, padding: str, limit: int
) -> None:
    assert expected == looks_like_error(padding + text, limit)


def test_a_long_json_error() -> None:
    assert looks_like_error(json.dumps({"log": PADDING * 100, "error": "no"}), LIMIT)


def test_a_broken_json_text_is_judged_by_its_words() -> None:
    assert looks_like_error('{"message": "timeout', LIMIT)


def test_lone_surrogates_do_no_harm() -> None:
    assert looks_like_error("\ud800 timeout", LIMIT)
    assert not looks_like_error("\udfff" * 500, LIMIT)
