"""Signs by which an error is recognized, and an agent's own request for a summary. All are data."""

import re
from collections.abc import Sequence

import msgspec
from ahocorasick_rs import MATCHKIND_LEFTMOST_FIRST, AhoCorasick

from masking.conversation import Conversation

# Errors

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
    "xit_code": re.compile(_EXIT_CODE.pattern + _CODEX_EXIT_CODE, _EXIT_CODE.flags),
    "Script failed": re.compile(r"Script failed\r?$", re.MULTILINE),
    **dict.fromkeys(("xit code", "xit Code", "XIT CODE", "xitCode"), _EXIT_CODE),
    **dict.fromkeys(("xit status", "xited with", "eturncode"), _EXIT_CODE),
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
    # A single word is a good sign in a short text and useless in a long one: source code mentions
    # exceptions and timeouts on every page. So words count up to a certain length. Signs that stand
    # where tools print them, at the start of a line, count at every length, and so does what a JSON
    # object says of itself.
    cues = {*_find_any(_CUES, text)}
    said = text.replace(_NO_ERROR, "") if "Error: " in cues else text
    if (
        len(text) <= words_max_chars
        and _has_word(said)
        and _has_word(_KEY_WITHOUT_VALUE.sub("", said))
    ):
        return True
    if any(_starts_a_line(said, cue, _SIGNS[cue]) for cue in cues):
        return True
    return _is_json_error(text)


def _has_word(text: str) -> bool:
    lowered = text.lower()
    return lowered.startswith("error") or bool(_find_any(_WORDS, lowered))


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


class _Outcome(msgspec.Struct):
    """What a JSON object says of how a call went. Its other values are checked, not decoded."""

    error: msgspec.Raw = _NOTHING
    status: msgspec.Raw = _NOTHING
    exit_code: msgspec.Raw = _NOTHING
    returncode: msgspec.Raw = _NOTHING
    success: msgspec.Raw = _NOTHING


_MOST_OUTCOMES = 8
"""A longer list is data, such as the entries of a log."""

_ShortList = msgspec.defstruct(
    "_ShortList",
    [(f"value_{place}", msgspec.Raw, _NOTHING) for place in range(_MOST_OUTCOMES)],
    array_like=True,
    forbid_unknown_fields=True,
)
"""Decoding ends at the first value too many, so that a long list takes no memory."""

_OUTCOME = msgspec.json.Decoder(_Outcome)
_SHORT_LIST = msgspec.json.Decoder(_ShortList)

_JSON_OPENING = re.compile(r"[ \t\n\r]*([{\[])")
_HALF_PAIR = re.compile(rb"\\u[dD][89a-fA-F][0-9a-fA-F]{2}")

_EMPTY = re.compile(rb'null|false|""|\[\s*\]|\{\s*\}|-?0(?:\.0+)?(?:[eE][+-]?\d+)?')
_NUMBER = re.compile(rb"-?\d")
_STRING = re.compile(b'"')


def _is_json_error(text: str) -> bool:
    opening = _JSON_OPENING.match(text)
    if opening is None:
        return False
    body = text.encode("utf-8", "replace")
    read = _read_object if opening[1] == "{" else _read_list
    outcomes = read(body)
    if outcomes is None:
        outcomes = read(_make_strict(body)) or ()
    return any(map(_states_failure, outcomes))


def _read_object(body: bytes | msgspec.Raw) -> Sequence[_Outcome] | None:
    """Return what a JSON object says; None if it is none."""
    try:
        return (_OUTCOME.decode(body),)
    except (msgspec.DecodeError, RecursionError):
        return None


def _read_list(body: bytes) -> Sequence[_Outcome] | None:
    """Return what the objects in a short JSON list say; None if it is no JSON."""
    try:
        values = msgspec.structs.astuple(_SHORT_LIST.decode(body))
    except msgspec.ValidationError:  # it is longer
        return ()
    except (msgspec.DecodeError, RecursionError):
        return None
    return [outcome for value in values for outcome in _read_object(value) or ()]


def _make_strict(body: bytes) -> bytes:
    """Return JSON as Python writes it without what no standard allows, in strings or outside."""
    for number in (b"-Infinity", b"Infinity", b"NaN"):
        body = body.replace(number, b"null")
    return _HALF_PAIR.sub(rb"\\u003f", body)


def _states_failure(outcome: _Outcome) -> bool:
    if not _EMPTY.fullmatch(outcome.error) or bytes(outcome.success) == b"false":
        return True
    codes = (outcome.exit_code, outcome.returncode)
    if any(_NUMBER.match(code) and not _EMPTY.fullmatch(code) for code in codes):
        return True
    return bool(
        _STRING.match(outcome.status) and msgspec.json.decode(outcome.status).lower() == "error"
    )


# Summaries

_SUMMARY_OPENINGS = (
    "CRITICAL: Respond with TEXT ONLY. Do NOT call any tools.",  # claude-code
    "CRITICAL: Respond with text only. Do NOT call any tools.",  # vibe
    "Please provide a concise summary of our conversation so far, capturing the key ",  # Continue
    "Your task is to create a detailed summary of ",  # older claude-code, Roo Code, Kilo Code
    "You are performing a CONTEXT CHECKPOINT COMPACTION",  # codex, where it makes its own
    '<explicit_instructions type="summarize_task"',  # cline
    '<explicit_instructions type="condense"',  # cline, by its user
)
"""How a text of the last message begins where an agent may leave its tools in the request."""

_SUMMARY_ASKED = re.compile(
    r"""\b(?:create|generate|write|provide|produce|prepare)\ (?:an?|the|your)\b [^\n]{0,80}?
        \b(?:summary|state_snapshot|handoff|prompt\ for\ continuing)\b
      | \bsummari[sz]e\b [^\n]{0,60}? \b(?:conversation|session|history|chat|above|so\ far)\b""",
    re.IGNORECASE | re.VERBOSE,
)
"""What a text asks for where no tool can be called, as in qwen-code and gemini-cli."""

_LOOKED_AT = 2_000
"""In characters: so much of a text's beginning, and of its end, is looked at."""

_LAST_TEXTS = 4
"""An instruction is in one of so many at the end: a message may have any number of them."""


def is_summary_request(conversation: Conversation) -> bool:
    """Whether an agent asks for a summary of its history, to go on with that alone.

    What it says takes the history's place for good, so it is worth sending unmasked. A request is
    one of these only if its last message asks for it: a wrong yes breaks the cached prefix once, a
    wrong no leaves the request masked like any other.
    """
    wire, body = conversation.wire, conversation.body
    if not conversation.results:
        return False
    if wire.compacts(conversation.document, conversation.path):
        return True
    texts = _last_user_texts(conversation)
    if any(text[:_LOOKED_AT].lstrip().startswith(_SUMMARY_OPENINGS) for text in texts):
        return True
    if not any(map(_asks_for_summary, texts[-_LAST_TEXTS:])):
        return False
    return not wire.find_tools(body) or wire.forbids_tools(body)


def _last_user_texts(conversation: Conversation) -> Sequence[str]:
    """Return what the user says at the end of a request, after every answer of the assistant."""
    for element in reversed(conversation.elements):
        if element.speaker != "system":  # reminders may follow
            return element.texts if element.speaker == "user" else ()
    return ()


def _asks_for_summary(text: str) -> bool:
    return _SUMMARY_ASKED.search(text[:_LOOKED_AT]) is not None or (
        len(text) > _LOOKED_AT and _SUMMARY_ASKED.search(text[-_LOOKED_AT:]) is not None
    )
