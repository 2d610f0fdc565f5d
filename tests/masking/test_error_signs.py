import json

import pytest

from masking.window.signs import looks_like_error
from tests.support.marks import as_one_test

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
    ('{"error": true}', True),
    ('{"error": 1}', True),
    ('{"error": -0.5e3}', True),
    ('{"error": [0]}', True),
    (' \n\t{"a": 1, "error": {"code": 0}}\n', True),
    ('{"error": null}', False),
    ('{"error": ""}', False),
    ('{"error": false}', False),
    ('{"error": 0}', False),
    ('{"error": -0.0}', False),
    ('{"error": 0e7}', False),
    ('{"error": [ ]}', False),
    ('{"error": {\n}}', False),
    ('{"error": 1, "error": null}', False),
    ('{"error": null, "error": 1}', True),
    ('{"exit_code": 1}', True),
    ('{"exit_code": -9}', True),
    ('{"exit_code": 0}', False),
    ('{"exit_code": null}', False),
    ('{"exit_code": true}', False),
    ('{"returncode": 3}', True),
    ('{"returncode": 0}', False),
    ('{"success": false}', True),
    ('{"success": true}', False),
    ('{"success": null}', False),
    ('{"success": 0}', False),
    ('{"status": "error"}', True),
    ('{"status": "ERROR"}', True),
    ('{"status": "Error", "data": []}', True),
    ('{"\\u0065rror": 1}', True),
    ('{"st\\u0061tus": "err\\u006fr"}', True),
    ('{"error": 1, "huge": ' + "9" * 5000 + "}", True),
    ('{"error": 1, "lone": "\\ud800"}', True),
    ('{"error": 1, "lone": "\ud800"}', True),
    ('{"error": 1, "number": NaN}', True),
    ('{"error": 1, "numbers": [-Infinity, Infinity]}', True),
    ('[{"error": 1, "number": NaN}]', True),
    ('{"status": "ok"}', False),
    ('{"status": "errors"}', False),
    ('{"status": 500}', False),
    ('{"status": ["error"]}', False),
    ('{"Error": 1}', False),
    ('{"result": {"error": "nested"}}', False),
    ('{"result": {"status": "error"}}', False),
    ('{"results": [{"error": "nested"}]}', False),
    ('[{"error": "alone"}]', True),
    (
        ' [ "text", 1, null, [], {}, {"exit_code": 0}, {"success": true}, {"status": "error"} ]',
        True,
    ),
    ('[{"error": "the first of nine"}' + ", {}" * 8 + "]", False),
    ('[{"error": null}, {"success": true}]', False),
    ('[[{"error": "deeper"}]]', False),
    ('["error"]', False),
    ("[]", False),
    ("{}", False),
    ('[{"error": 1}, broken', False),
    ("[" * 100_000 + "]" * 100_000, False),
    ('"error"', False),
    ('{"error": broken', False),
    ('{"error": 1} trailing', False),
    ('text {"error": 1}', False),
    ('{"error":' * 5000, False),
    ('{"error": ' + "[" * 100_000 + "]" * 100_000 + "}", False),
]

AGENTS = [
    ("copilot", "OUTPUT\n<shellId: 2 completed with exit code 3>", True),
    ("copilot", "OUTPUT\n<shellId: 2 completed with exit code 0>", False),
    (
        "cline",
        '[{"query":"make","result":"[Command exited with code 3]\\nOUTPUT",'
        '"error":"Command exited with code 3","success":false}]',
        True,
    ),
    ("cline", '[{"query":"make","result":"OUTPUT","success":true}]', False),
    ("vibe", '{"command":"make","returncode":3,"stderr":"","stdout":"OUTPUT"}', True),
    ("vibe", '{"command":"make","returncode":0,"stderr":"","stdout":"OUTPUT"}', False),
    ("hermes", '{"output": "OUTPUT", "exit_code": 1, "error": null}', True),
    ("hermes", '{"output": "OUTPUT", "exit_code": 0, "error": null}', False),
    (
        "code-puppy",
        '{"success":false,"error":"It did not exit cleanly","stdout":"OUTPUT","exit_code":1,'
        '"timeout":false}',
        True,
    ),
    (
        "code-puppy",
        '{"success":true,"error":"","stdout":"OUTPUT","exit_code":0,"timeout":false}',
        False,
    ),
    ("Continue", "Error executing tool Bash: Error (exit code 1): OUTPUT", True),
    ("mini-swe-agent", "<returncode>1</returncode>\n<output>\nOUTPUT</output>", True),
    ("mini-swe-agent", "<returncode>0</returncode>\n<output>\nOUTPUT</output>", False),
    ("qwen-code", "Output: OUTPUT\nError: (none)\nExit Code: 1\nSignal: (none)", True),
    ("qwen-code", "Output: OUTPUT\nError: (none)\nExit Code: 0\nSignal: (none)", False),
    ("claude-code", "Exit code 1\nOUTPUT", True),
    ("codex", "Chunk ID: 1f\nProcess exited with code 1\nOutput:\nOUTPUT", True),
    ("codex", "Chunk ID: 1f\nProcess exited with code 0\nOutput:\nOUTPUT", False),
    ("codex", "Script failed\nWall time 0.1 seconds\nOutput:\nOUTPUT", True),
    ("openhands", "OUTPUT\n[The command completed with exit code 1.]", True),
    ("pi", "OUTPUT\n\nCommand exited with code 1", True),
]
"""What agents make of a command's output, and whether it failed."""


@as_one_test
@pytest.mark.parametrize("output", ["3 files differ", PADDING], ids=["short", "long"])
@pytest.mark.parametrize(("agent", "result", "expected"), AGENTS)
def test_a_command_that_failed_is_an_error_in_each_agents_words(
    agent: str, result: str, expected: bool, output: str
) -> None:
    if result.startswith(("{", "[")):
        output = json.dumps(output)[1:-1]
    assert expected == looks_like_error(result.replace("OUTPUT", output), LIMIT), agent


@as_one_test
@pytest.mark.parametrize("text", WORDS)
def test_a_word_makes_a_short_text_an_error(text: str) -> None:
    assert looks_like_error(text, LIMIT)


@as_one_test
@pytest.mark.parametrize("text", NO_WORDS)
def test_a_short_text_without_a_word_is_no_error(text: str) -> None:
    assert not looks_like_error(text, LIMIT)


@as_one_test
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


AROUND = {
    "alone": ("", ""),
    "short": ("fine\n", "fine"),
    "last": (PADDING, ""),
    "first": ("", PADDING),
    "middle": (PADDING, PADDING),
    "second": ("\n", PADDING),
    "after wide characters": ("é😀\ud800\n", PADDING),
}
"""What stands before and after a line, by where that makes it stand."""


@as_one_test
@pytest.mark.parametrize("newline", ["\n", "\r\n"])
@pytest.mark.parametrize("sign", SIGNS)
def test_a_sign_at_the_start_of_a_line_makes_a_text_an_error(sign: str, newline: str) -> None:
    texts = {
        where: f"{before}{sign}\n{after}".replace("\n", newline)
        for where, (before, after) in AROUND.items()
    }
    assert [] == [where for where, text in texts.items() if not looks_like_error(text, LIMIT)]


@as_one_test
@pytest.mark.parametrize("line", [*NO_SIGNS, *(f"see: {sign}" * 9 for sign in WORDS[1:6])])
def test_a_long_text_that_only_mentions_errors_is_no_error(line: str) -> None:
    assert not looks_like_error(f"{PADDING}{line}\n{PADDING}", LIMIT)


def test_a_sign_counts_wherever_the_words_do_not() -> None:
    assert looks_like_error("Exit Code: 1", 0)


@as_one_test
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


@as_one_test
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"timeout":false,"exception" : null,"TRACEBACK":"","connect_error": [],"ok":1}', False),
        ('{"timeout": { },"Timeout": 0, "exception": [\n]}', False),
        ('{"timeout": 0, "timeout": 1}', True),
        ('{"timeout": true}', True),
        ('{"timeout": 0.5}', True),
        ('{"timeout": [1]}', True),
        ('{"timeout": false, "stdout": "timeout"}', True),
        ("timeout: false", True),
    ],
)
def test_a_word_is_no_sign_as_a_key_without_a_value(text: str, expected: bool) -> None:
    assert expected == looks_like_error(text, LIMIT)


@as_one_test
@pytest.mark.parametrize(("text", "expected"), JSON)
def test_the_json_rule_holds_at_every_length(text: str, expected: bool) -> None:
    texts = text, " " * 9000 + text
    assert {expected} == {looks_like_error(one, limit) for one in texts for limit in (0, 10**9)}


def test_a_long_json_error() -> None:
    assert looks_like_error(json.dumps({"log": PADDING * 100, "error": "no"}), LIMIT)


def test_a_broken_json_text_is_judged_by_its_words() -> None:
    assert looks_like_error('{"message": "timeout', LIMIT)


def test_lone_surrogates_do_no_harm() -> None:
    assert looks_like_error("\ud800 timeout", LIMIT)
    assert not looks_like_error("\udfff" * 500, LIMIT)
