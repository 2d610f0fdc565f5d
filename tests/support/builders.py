"""Conversations, policies and JSON spellings for the tests: short builders, and strategies."""

import json
import re
import struct
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from hypothesis import settings
from hypothesis import strategies as st

from masking import ChatMessage, Conversation, MaskPolicy, Rewrite
from masking.arrival import Arrived
from masking.conversation import read_conversation, with_targets
from masking.messages_api import read_messages
from masking.model import Decision, Path, Replacement
from masking.wire.chat import CHAT
from tests.support.priced import PricedPolicy, at_prices

TEMPLATE: Final = "<{tool_call_id}|{tool_name}|{original_chars}>"
"""A short template, so that an expected text can be written out."""

OLD: Final = "old output " * 30
"""330 characters without a sign of an error."""

SECRET: Final = "s3cr3t"
"""Content that no error message may repeat."""

MASK_ALL: Final = PricedPolicy(True, 1, False, None, TEMPLATE)
"""Masks every string result but the last turn's."""


def examples(times: float) -> settings:
    """Try this many times as many examples as the profile says."""
    return settings(max_examples=round(times * settings().max_examples))


def policy(base: MaskPolicy = MASK_ALL, /, **changes: object) -> PricedPolicy:
    return at_prices(base, **changes)


def call(call_id: object = "a", tool: object = "shell", path: object = None) -> ChatMessage:
    arguments = "{}" if path is None else json.dumps({"path": path})
    return {"id": call_id, "type": "function", "function": {"name": tool, "arguments": arguments}}


def assistant(*calls: ChatMessage) -> ChatMessage:
    return {"role": "assistant", "content": None, "tool_calls": list(calls)}


def result(call_id: object = "a", content: object = OLD) -> ChatMessage:
    return {"role": "tool", "tool_call_id": call_id, "content": content}


def turn(
    call_id: str = "a", content: object = OLD, tool: object = "shell", path: object = None
) -> list[ChatMessage]:
    return [assistant(call(call_id, tool, path)), result(call_id, content)]


def unanswered(turns: int = 1) -> list[ChatMessage]:
    """Later tool turns without results, which make older ones leave the window."""
    return [assistant(call(f"later_{i}")) for i in range(turns)]


def parts(*texts: str) -> list[ChatMessage]:
    return [{"type": "text", "text": text} for text in texts]


IMAGE: Final[ChatMessage] = {"type": "image_url", "image_url": {"url": "data:,"}}


# How a client may spell the same document.


class Hole(NamedTuple):
    """Stands in a document for a string whose token is not compared."""


HOLE: Final = "\0"
"""How a hole is spelled: no JSON text has this character."""


class Spelling(NamedTuple):
    escaped: str = "[^\\s\\S]"
    """Characters that are escaped beyond those that must be, as a regular expression."""
    comma: str = ","
    colon: str = ":"
    pad: str = ""
    """Blanks inside brackets."""
    upper: bool = False
    """Hexadecimal digits in upper case."""

    def spell(self, value: object) -> str:
        match value:
            case str():
                return f'"{re.sub(self._to_escape, self._escape, value)}"'
            case dict():
                members = (f"{self.spell(k)}{self.colon}{self.spell(v)}" for k, v in value.items())
                return f"{{{self.pad}{self.comma.join(members)}{self.pad}}}"
            case list():
                return f"[{self.pad}{self.comma.join(map(self.spell, value))}{self.pad}]"
            case Hole():
                return HOLE
        return json.dumps(value)

    @property
    def _to_escape(self) -> str:
        return rf'["\\\x00-\x1f\ud800-\udfff]|{self.escaped}'

    def _escape(self, match: re.Match[str]) -> str:
        char = match[0]
        if char in '"\\/':
            return "\\" + char
        data = char.encode("utf-16-be", "surrogatepass")
        units = struct.unpack(f">{len(data) // 2}H", data)
        return "".join(f"\\u{unit:04X}" if self.upper else f"\\u{unit:04x}" for unit in units)


spellings = st.builds(
    Spelling,
    escaped=st.sampled_from(
        ["[^\\s\\S]", "[^\\x00-\\x7f]", "[<>&\\u2028\\u2029]", "/", "[\\s\\S]"]
    ),
    comma=st.sampled_from([",", ", ", ",\n    ", "\t,\r\n"]),
    colon=st.sampled_from([":", ": ", " : ", "\r\n:\t"]),
    pad=st.sampled_from(["", " ", "\n  ", "\r\n\t"]),
    upper=st.booleans(),
)


# Conversations as agents and their accidents produce them.


def _join_surrogates(text: str) -> str:
    """A pair of surrogates is one character once it has been through JSON."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")


_ids = st.sampled_from([*["call_0", "call_1"] * 4, 'é"\\', "\ud83d", "", None, 7])
_paths = st.sampled_from([None, "a.py", "a.py", "b.py", "", 5])
_tools = st.sampled_from(["shell", "read", "é", "", None, 3])
_words = st.sampled_from(
    [
        OLD,
        "x" * 60,
        'a/b <c> & \u2028 é 😀 " \\ \n\t\x7f' * 5,
        "\ud83d lone " * 9,
        "Traceback (most recent call last):\n",
        '{"error": "no"}',
        "exception " + "pad\n" * 20,
        "<call_0|shell|330>",
        "<call_0|shell|",
        "",
    ]
)
texts = st.one_of(
    _words,
    st.builds("".join, st.lists(_words, max_size=2)),
    st.text(st.characters(exclude_categories=()), max_size=40),
).map(_join_surrogates)
_contents = st.one_of(
    texts,
    texts,
    texts,
    st.sampled_from([None, 0, -1.5, True, 10**30, {"text": OLD}, [], [None], [OLD]]),
    st.lists(texts, max_size=3).map(lambda found: parts(*found)),
    texts.map(lambda text: [*parts(text), IMAGE]),
)
_calls = st.one_of(
    st.builds(call, _ids, _tools),
    st.builds(call, _ids, _tools, _paths),
    st.sampled_from([None, "call_0", {"id": "call_1"}, {"id": "call_0", "function": None}]),
)
_results = st.builds(result, _ids, _contents)
_others: st.SearchStrategy[object] = st.one_of(
    st.builds(
        lambda role, text: {"role": role, "content": text},
        st.sampled_from(["system", "user", "assistant", "developer", "tool", "function", 1, None]),
        texts,
    ),
    st.sampled_from(
        [
            {"role": "assistant", "tool_calls": None},
            {"role": "assistant", "tool_calls": []},
            {"role": "assistant", "tool_calls": {"id": "call_0"}},
            {"role": "user", "tool_calls": [call("call_0")]},
            {"role": "user", "tool_call_id": "call_0", "content": OLD},
            {"role": "tool"},
            {},
        ]
    ),
)
_junk: st.SearchStrategy[object] = st.sampled_from([None, 3, OLD, [], ["role", "tool"]])
_turns = st.builds(
    lambda asked, answered: [{"role": "assistant", "tool_calls": asked}, *answered],
    st.lists(_calls, min_size=1, max_size=3),
    st.lists(_results, max_size=3),
)
_proper_turns = st.builds(
    turn,
    st.sampled_from(["call_0", "call_1"]),
    _contents,
    st.sampled_from(["shell", "read"]),
    _paths,
)
_strays = st.one_of(_results, _others, _junk).map(lambda message: [message])
_blocks = st.one_of(_proper_turns, _proper_turns, _proper_turns, _turns, _strays)
_conversations = st.builds(
    lambda blocks, later: [*(message for block in blocks for message in block), *unanswered(later)],
    st.lists(_blocks, min_size=1, max_size=8),
    st.sampled_from([2, 1, 0]),
)


@st.composite
def conversations(draw: st.DrawFn) -> list[ChatMessage]:
    """Message lists; what is no object is there too, whatever the type says."""
    return draw(_conversations)


policies = st.builds(
    PricedPolicy,
    st.just(True),
    st.sampled_from([1, 1, 2, 3]),
    st.booleans(),
    st.sampled_from([None, -1, 0, 1, 2]),
    st.sampled_from([TEMPLATE, MaskPolicy().placeholder_template, "{original_chars}0", "…", '"\\']),
    skip_if_not_shorter=st.booleans(),
    mask_text_parts=st.booleans(),
    error_words_max_chars=st.sampled_from([0, 20, 2_000]),
    cache_read_ratio=st.sampled_from([1.0, 1.0, 0.5, 0.1]),
    keep_latest_turns=st.sampled_from([0, 0, 2, 5]),
    keep_rereads=st.sampled_from([False, False, True]),
    keep_tools=st.sampled_from([(), (), (), ("r*",)]),
    mask_tools=st.sampled_from([(), (), (), ("shell", "é")]),
    keep_arguments=st.sampled_from([(), (), (), ("*.py",)]),
)


@st.composite
def documents(draw: st.DrawFn) -> dict[str, object]:
    """Whole requests: the messages among other keys, some of which only one decoder takes."""
    others = {
        "model": "m/é",
        "temperature": draw(st.sampled_from([0, -0.0, 1e22, 10**30, 0.1, float("nan")])),
        "seen": draw(texts),
        "tools": [{"type": "function", "function": {"name": "shell"}}],
    }
    keys = draw(st.permutations([*others, "messages"]))
    return {key: others[key] if key in others else draw(conversations()) for key in keys}


# Requests that are read.


def read(messages: list[Any], target_arguments: Sequence[str] = ()) -> Conversation:
    """Read a request that holds nothing but these messages."""
    return with_targets(read_messages(messages), target_arguments)


def read_body(document: Mapping[str, object], target_arguments: Sequence[str] = ()) -> Conversation:
    """Read a decoded Chat Completions request."""
    return with_targets(read_conversation(document, CHAT), target_arguments)


def list_replacements(decisions: Iterable[Decision]) -> list[Replacement]:
    """Return all that is replaced, in the order of the request."""
    return [replacement for each in decisions for replacement in each.replacements]


def list_places(conversation: Conversation, decisions: Iterable[Decision]) -> list[Path]:
    """Return the path of each of these replacements in the request."""
    at = conversation.list_path
    return [(*at, d.result.element, *r.slot) for d in decisions for r in d.replacements]


def unchanged(conversation: Conversation, decisions: tuple[Decision, ...] = ()) -> Rewrite:
    """Return a request with these decisions, that nothing else has changed."""
    arrived = Arrived(conversation, conversation)
    return Rewrite(body=b"", arrived=arrived, conversation=conversation, decisions=decisions)
