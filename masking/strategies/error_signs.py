"""What looks like an error.

A single word is a good sign in a short text and useless in a long one: source code mentions
exceptions and timeouts on every page. So words count up to a certain length. Signs that stand where
tools print them, at the start of a line, count at every length, and so does what a JSON object
says of itself.
"""

import re
from collections.abc import Sequence

import msgspec
from ahocorasick_rs import MATCHKIND_LEFTMOST_FIRST, AhoCorasick

_WORDS = AhoCorasick(
    ["traceback", "exception", "timeout", "connect_error", "connection refused", "\nerror"],
    matchkind=MATCHKIND_LEFTMOST_FIRST,
)

_EXIT_CODE = re.compile(
    r"(?:\W{0,8}(?:\w{1,20} ){0,4}|<shellId: \w{1,20} completed with |"
    r"(?:Error executing tool [\w.-]{1,80}: )?Error \()"
    r"(?:exit[ _]?(?:code|status)|exited with(?: code| status)?|returncode)"
    r"[^\w\n]{1,4}0*[1-9]",
    re.IGNORECASE | re.ASCII,
)
"""In the forms that agents print: `Exit Code: 1`, `<returncode>1</returncode>`, `"returncode": 1`,
`Process exited with code 1`, `[The command completed with exit code 1.]`, Copilot's
`<shellId: 2 completed with exit code 3>`, Continue's `Error executing tool Bash: Error (exit code
1): ...`."""

_CODEX_EXIT_CODE = r"|\{\"chunk_id\":\"\w*\",\"wall_time_seconds\":[\d.e-]+,\"exit_code\":0*[1-9]"
"""What codex gives to a program of its model's, which may print all of it."""

_SIGNS = {
    "Traceback (most recent": re.compile(r"Traceback \(most recent call last\)"),
    "Error: ": re.compile(r"[\w.$]{0,120}Error: "),
    "Exception: ": re.compile(r"[\w.$]{0,120}Exception: "),
    "is_error": re.compile(r"\W{0,8}is_error\W{1,4}true\b", re.IGNORECASE),
    "xit code": _EXIT_CODE,
    "xit Code": _EXIT_CODE,
    "XIT CODE": _EXIT_CODE,
    "xit_code": re.compile(_EXIT_CODE.pattern + _CODEX_EXIT_CODE, _EXIT_CODE.flags),
    "Script failed": re.compile(r"Script failed\r?$", re.MULTILINE),
    "xitCode": _EXIT_CODE,
    "xit status": _EXIT_CODE,
    "xited with": _EXIT_CODE,
    "eturncode": _EXIT_CODE,
}
"""By cue, the pattern that must match at the start of the cue's line. One pass finds all cues;
regular expressions over the whole text would take ten times as long."""

_CUES = AhoCorasick(_SIGNS, matchkind=MATCHKIND_LEFTMOST_FIRST)

_NO_ERROR = "Error: (none)"
"""qwen-code writes this into the result of every command that succeeded."""

_KEY_WITHOUT_VALUE = re.compile(
    r'"(?:traceback|exception|timeout|connect_error)"\s*:\s*'
    r'(?:null|false|""|0(?![.\w])|\[\s*\]|\{\s*\})',
    re.IGNORECASE,
)
"""A word that is denied: code-puppy writes `"timeout":false` into every result."""

_SIGN_REACH = 160
"""The most code points that may stand between the start of a line and its cue."""


def looks_like_error(text: str, words_max_chars: int) -> bool:
    """Whether a tool's output looks like an error.

    In a text of up to `words_max_chars` code points a word is enough, in upper or lower case:
    traceback, exception, timeout, connect_error, connection refused, or "error" at the start of a
    line. At every length, a sign at the start of a line counts, and a JSON object, or one in a list
    of at most eight values, that has an `error` which is not empty, a `status` equal to "error" in
    upper or lower case, an `exit_code` or `returncode` other than 0, or `success: false`.
    """
    said = text.replace(_NO_ERROR, "")
    if len(text) <= words_max_chars and _has_word(said):
        return True
    return _has_anchored_sign(said) or _is_json_error(text)


def _has_word(text: str) -> bool:
    return _holds_word(text) and _holds_word(_KEY_WITHOUT_VALUE.sub("", text))


def _holds_word(text: str) -> bool:
    lowered = text.lower()
    return lowered.startswith("error") or bool(_find_any(_WORDS, lowered))


def _has_anchored_sign(text: str) -> bool:
    return any(_starts_a_line(text, cue, _SIGNS[cue]) for cue in set(_find_any(_CUES, text)))


def _find_any(wanted: AhoCorasick, text: str) -> list[str]:
    try:
        return wanted.find_matches_as_strings(text)
    except UnicodeEncodeError:  # a lone surrogate
        return wanted.find_matches_as_strings(text.encode("utf-8", "replace").decode())


def _starts_a_line(text: str, cue: str, sign: re.Pattern[str]) -> bool:
    at = text.find(cue)
    while at >= 0:
        start = text.rfind("\n", max(0, at - _SIGN_REACH), at) + 1
        if (start > 0 or at <= _SIGN_REACH) and sign.match(text, start):
            return True
        next_line = text.find("\n", at)
        at = text.find(cue, next_line) if next_line >= 0 else -1
    return False


_NOTHING = msgspec.Raw(b"null")


class _Answer(msgspec.Struct):
    """What a JSON object says of how a call went. Its other values are checked, not decoded."""

    error: msgspec.Raw = _NOTHING
    status: msgspec.Raw = _NOTHING
    exit_code: msgspec.Raw = _NOTHING
    returncode: msgspec.Raw = _NOTHING
    success: msgspec.Raw = _NOTHING


_MOST_ANSWERS = 8
"""A longer list is data, such as the entries of a log."""

_ShortList = msgspec.defstruct(
    "_ShortList",
    [(f"value_{place}", msgspec.Raw, _NOTHING) for place in range(_MOST_ANSWERS)],
    array_like=True,
    forbid_unknown_fields=True,
)
"""Decoding ends at the first value too many, so that a long list takes no memory."""

_ANSWER = msgspec.json.Decoder(_Answer)
_SHORT_LIST = msgspec.json.Decoder(_ShortList)

_OPENING = re.compile(r"[ \t\n\r]*([{\[])")
_HALF_PAIR = re.compile(rb"\\u[dD][89a-fA-F][0-9a-fA-F]{2}")

_EMPTY = re.compile(rb'null|false|""|\[\s*\]|\{\s*\}|-?0(?:\.0+)?(?:[eE][+-]?\d+)?')
_NUMBER = re.compile(rb"-?\d")
_STRING = re.compile(b'"')


def _is_json_error(text: str) -> bool:
    opening = _OPENING.match(text)
    if opening is None:
        return False
    body = text.encode("utf-8", "replace")
    read = _read_object if opening[1] == "{" else _read_list
    answers = read(body)
    if answers is None:
        answers = read(_make_strict(body)) or ()
    return any(map(_states_failure, answers))


def _read_object(body: bytes | msgspec.Raw) -> Sequence[_Answer] | None:
    """Return what a JSON object says; None if it is none."""
    try:
        return (_ANSWER.decode(body),)
    except (msgspec.DecodeError, RecursionError):
        return None


def _read_list(body: bytes) -> Sequence[_Answer] | None:
    """Return what the objects in a short JSON list say; None if it is no JSON."""
    try:
        values = msgspec.structs.astuple(_SHORT_LIST.decode(body))
    except msgspec.ValidationError:  # it is longer
        return ()
    except (msgspec.DecodeError, RecursionError):
        return None
    return [answer for value in values for answer in _read_object(value) or ()]


def _make_strict(body: bytes) -> bytes:
    """Return JSON as Python writes it without what no standard allows, in strings or outside."""
    for number in (b"-Infinity", b"Infinity", b"NaN"):
        body = body.replace(number, b"null")
    return _HALF_PAIR.sub(rb"\\u003f", body)


def _states_failure(answer: _Answer) -> bool:
    return (
        not _EMPTY.fullmatch(answer.error)
        or _is_failing_code(answer.exit_code)
        or _is_failing_code(answer.returncode)
        or bytes(answer.success) == b"false"
        or _says_error(answer.status)
    )


def _is_failing_code(value: msgspec.Raw) -> bool:
    return _NUMBER.match(value) is not None and not _EMPTY.fullmatch(value)


def _says_error(value: msgspec.Raw) -> bool:
    if not _STRING.match(value):
        return False
    said: str = msgspec.json.decode(value)
    return said.lower() == "error"
