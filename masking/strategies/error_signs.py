"""What looks like an error.

A single word is a good sign in a short text and useless in a long one: source code mentions
exceptions and timeouts on every page. So words count up to a certain length. In longer texts only
signs count that stand where tools print them, at the start of a line.
"""

import json
import re

import orjson
from ahocorasick_rs import MATCHKIND_LEFTMOST_FIRST, AhoCorasick

_WORDS = AhoCorasick(
    ["traceback", "exception", "timeout", "connect_error", "connection refused", "\nerror"],
    matchkind=MATCHKIND_LEFTMOST_FIRST,
)

_EXIT_CODE = re.compile(
    r"\W{0,8}(?:\w{1,20} ){0,4}"
    r"(?:exit[ _]?(?:code|status)|exited with(?: code| status)?|returncode)"
    r"[^\w\n]{1,4}0*[1-9]",
    re.IGNORECASE | re.ASCII,
)
"""In the forms that agents print: `Exit Code: 1`, `<returncode>1</returncode>`, `"returncode": 1`,
`Process exited with code 1`, `[The command completed with exit code 1.]`."""

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

_SIGN_REACH = 160
"""The most code points that may stand between the start of a line and its cue."""


def looks_like_error(text: str, words_max_chars: int) -> bool:
    """Whether a tool's output looks like an error.

    In a text of up to `words_max_chars` code points a word is enough, in upper or lower case:
    traceback, exception, timeout, connect_error, connection refused, or "error" at the start of a
    line. In a longer text only anchored signs count. At every length, a JSON object counts that
    has a key `error`, or a `status` equal to "error" in upper or lower case.
    """
    has_sign = _has_word if len(text) <= words_max_chars else _has_anchored_sign
    if has_sign(text) and (_NO_ERROR not in text or has_sign(text.replace(_NO_ERROR, ""))):
        return True
    return _is_json_error(text)


def _has_word(text: str) -> bool:
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


def _is_json_error(text: str) -> bool:
    if text.lstrip()[:1] != "{" or not _may_name_an_error(text):
        return False
    document = _load_or_none(text)
    if not isinstance(document, dict):
        return False
    status = document.get("status")
    return "error" in document or (isinstance(status, str) and status.lower() == "error")


def _may_name_an_error(text: str) -> bool:
    return '"error"' in text or '"status"' in text or "\\u00" in text


def _load_or_none(text: str) -> object:
    for loads in (orjson.loads, json.loads):
        try:
            document: object = loads(text)
        except (ValueError, RecursionError):
            continue
        return document
    return None
