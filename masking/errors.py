"""What looks like an error.

A single word is a good sign in a short text and a useless one in a long text: source code
mentions exceptions and timeouts on every page. So words count up to a length, and above it
only signs that stand where tools print them: at the start of a line.
"""

import json
import re
from collections.abc import Iterator

import orjson
from ahocorasick_rs import MATCHKIND_LEFTMOST_FIRST, BytesAhoCorasick

_WORDS = BytesAhoCorasick(
    [b"traceback", b"exception", b"timeout", b"connect_error", b"connection refused", b"\nerror"],
    matchkind=MATCHKIND_LEFTMOST_FIRST,
)

_EXIT_CODE = re.compile(
    rb"\W{0,8}(?:\w{1,20} ){0,4}"
    rb"(?:exit[ _]?(?:code|status)|exited with(?: code| status)?|returncode)"
    rb"\W{1,4}0*[1-9]",
    re.IGNORECASE,
)
"""As agents print it: `Exit Code: 1`, `<returncode>1</returncode>`, `"returncode": 1`, `Process
exited with code 1`, `[The command completed with exit code 1.]`."""

_SIGNS = {
    b"Traceback (most recent": re.compile(rb"Traceback \(most recent call last\)"),
    b"Error:": re.compile(rb"[\w.$]{0,120}Error:"),
    b"Exception:": re.compile(rb"[\w.$]{0,120}Exception:"),
    b"is_error": re.compile(rb"\W{0,8}is_error\W{1,4}true\b", re.IGNORECASE),
    b"xit code": _EXIT_CODE,
    b"xit Code": _EXIT_CODE,
    b"XIT CODE": _EXIT_CODE,
    b"xit_code": _EXIT_CODE,
    b"xitCode": _EXIT_CODE,
    b"xit status": _EXIT_CODE,
    b"xited with": _EXIT_CODE,
    b"eturncode": _EXIT_CODE,
}
"""A cue, and what must stand at the start of a line that holds it. All cues are looked for in
one pass; a regular expression over the whole text takes ten times as long."""

_CUES = BytesAhoCorasick(list(_SIGNS), matchkind=MATCHKIND_LEFTMOST_FIRST)
_SIGN_BY_CUE = tuple(_SIGNS.values())

_SIGN_REACH = 160
"""Bytes between the start of a line and its cue, at most."""


def looks_like_error(text: str, words_max_chars: int) -> bool:
    """Whether a tool's output reads like a failure.

    Words (traceback, exception, timeout, connect_error, connection refused, a line-initial
    "error"; in any case) count in texts of up to `words_max_chars` code points, anchored signs
    in longer ones, and a JSON object with a key `error`, or whose `status` is "error" in any
    case, at every length.
    """
    has_sign = _has_word if len(text) <= words_max_chars else _has_anchored_sign
    return has_sign(text) or _is_json_error(text)


def _has_word(text: str) -> bool:
    lowered = text.lower()
    return lowered.startswith("error") or bool(_WORDS.find_matches_as_indexes(_as_bytes(lowered)))


def _has_anchored_sign(text: str) -> bool:
    data = _as_bytes(text)
    return any(sign.match(data, start) for sign, start in _find_lines_with_cues(data))


def _find_lines_with_cues(data: bytes) -> Iterator[tuple[re.Pattern[bytes], int]]:
    """Yield the sign that each cue stands for and the start of the line the cue is in."""
    for cue, at, _ in _CUES.find_matches_as_indexes(data):
        start = data.rfind(b"\n", max(0, at - _SIGN_REACH), at) + 1
        if start > 0 or at <= _SIGN_REACH:
            yield _SIGN_BY_CUE[cue], start


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


def _as_bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")
