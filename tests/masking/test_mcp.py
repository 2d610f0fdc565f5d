import copy
import dataclasses
import json
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from masking import WireError
from masking.edit.json_text import decode, edit_strings
from masking.mcp import (
    UNKNOWN,
    MaskedPayload,
    McpSettings,
    Methods,
    cut_text,
    find_cuts,
    mask_payload_bytes,
)
from tests.support.builders import SECRET
from tests.support.marks import as_one_test
from tests.support.payloads import mask_payload

POLICY = McpSettings(enabled=True, max_chars=100, head_chars=3, tail_chars=2)
"""Small, so that an expected text can be written out."""

LONG = "abc" + "." * 195 + "yz"
CUT = "abc\n... [KIMI_PROXY_OBSERVATION_MASKED original_chars=200 head=3 tail=2] ...\nyz"


def policy(**changes: int) -> McpSettings:
    return dataclasses.replace(POLICY, **changes)  # type: ignore[arg-type]


def marker(chars: int, head: int, tail: int) -> str:
    numbers = f"original_chars={chars} head={head} tail={tail}"
    return f"\n... [KIMI_PROXY_OBSERVATION_MASKED {numbers}] ...\n"


def answer(result: object = None, **fields: object) -> dict[str, object]:
    return {"jsonrpc": "2.0", "id": 1, "result": result, **fields}


def failure(data: object, message: str = "no") -> dict[str, object]:
    return {
        "jsonrpc": "2.0",
        "id": 1,
        "error": {"code": -32000, "message": message, "data": data},
    }


def content(text: str = LONG) -> dict[str, object]:
    return {"content": [{"type": "text", "text": text}]}


# One text


def test_the_defaults_are_those_of_the_gateway_but_off() -> None:
    assert McpSettings() == McpSettings(
        enabled=False, max_chars=4000, head_chars=2000, tail_chars=2000
    )
    text = "A" * 10_000
    assert text == cut_text(text, McpSettings())
    expected = "A" * 2000 + marker(10_000, 2000, 2000) + "A" * 2000
    assert expected == cut_text(text, McpSettings(enabled=True))


class Text(NamedTuple):
    case: str
    text: str
    expected: str
    policy: McpSettings = POLICY


SMILE = "\N{GRINNING FACE}"
ACUTE = "e\N{COMBINING ACUTE ACCENT}"

TEXTS = [
    Text("a long one", LONG, CUT),
    Text("one more than the limit", "x" * 101, f"xxx{marker(101, 3, 2)}xx"),
    Text("exactly the limit", "x" * 100, "x" * 100),
    Text("an empty one", "", ""),
    Text("off", LONG, LONG, McpSettings(max_chars=1)),
    Text("no limit", LONG, LONG, policy(max_chars=0)),
    Text("a limit below none", LONG, LONG, policy(max_chars=-1)),
    Text("no head", LONG, f"{marker(200, 0, 2)}yz", policy(max_chars=9, head_chars=0)),
    Text("no tail", LONG, f"abc{marker(200, 3, 0)}", policy(max_chars=9, tail_chars=0)),
    Text("less than none", LONG, marker(200, 0, 0),
         policy(max_chars=9, head_chars=-4, tail_chars=-5)),
    Text("head and tail are all of it", LONG, LONG,
         policy(max_chars=9, head_chars=100, tail_chars=100)),
    Text("head and tail are more than it", LONG, LONG,
         policy(max_chars=9, head_chars=150, tail_chars=150)),
    Text("a tail longer than the text", "x" * 1000, "x" * 1000,
         policy(max_chars=9, head_chars=0, tail_chars=1500)),
    Text("a head longer than the text", "x" * 1000, "x" * 1000,
         policy(max_chars=9, head_chars=1500, tail_chars=0)),
    Text("a marker as long as what it replaces", "x" * 78, "x" * 78, policy(max_chars=9)),
    Text("a marker shorter by one", "x" * 79, f"xxx{marker(79, 3, 2)}xx", policy(max_chars=9)),
    Text("code points beyond 16 bits", SMILE * 200,
         f"{SMILE * 3}{marker(200, 3, 2)}{SMILE * 2}"),
    Text("combining characters count each", ACUTE * 100,
         f"{(ACUTE * 2)[:3]}{marker(200, 3, 2)}{ACUTE}"),
    Text("lone surrogates", "\ud83d" * 200, "\ud83d" * 3 + marker(200, 3, 2) + "\ud83d" * 2),
    Text("a cut one", CUT, CUT, policy(max_chars=9)),
    Text("a cut one with more behind it", CUT + "." * 50,
         f"abc{marker(len(CUT) + 50, 3, 2)}..", policy(max_chars=9)),
    Text("a marker that stands elsewhere", "." * 60 + CUT, f"...{marker(60 + len(CUT), 3, 2)}yz"),
    Text("a marker of another policy", f"ab{marker(9000, 2, 2)}{'.' * 99}yz",
         f"ab\n{marker(2 + len(marker(9000, 2, 2)) + 101, 3, 2)}yz"),
]  # fmt: skip


@as_one_test
@pytest.mark.parametrize("given", TEXTS, ids=lambda given: given.case)
def test_a_text_is_cut_to_head_and_tail(given: Text) -> None:
    cut = cut_text(given.text, given.policy)
    assert given.expected == cut
    assert cut == cut_text(cut, given.policy)
    assert (cut is given.text) == (len(cut) >= len(given.text))


def test_a_false_marker_does_not_save_a_long_text() -> None:
    """Not by other numbers than the policy's, and not by a long number either."""
    for false in (marker(9, 3, 200) + "." * 200, marker(10**99, 3, 2) + "yz"):
        assert f"abc{marker(3 + len(false), 3, 2)}{false[-2:]}" == cut_text(f"abc{false}", POLICY)


@given(
    st.text(max_size=300),
    st.builds(
        McpSettings,
        enabled=st.just(True),
        max_chars=st.integers(-1, 300),
        head_chars=st.integers(-1, 150),
        tail_chars=st.integers(-1, 150),
    ),
)
def test_a_text_gets_shorter_once_or_not_at_all(text: str, policy: McpSettings) -> None:
    cut = cut_text(text, policy)
    assert cut is text or len(cut) < len(text)
    assert cut is cut_text(cut, policy)


# One message


class Message(NamedTuple):
    case: str
    value: object
    expected: object
    methods: Methods = UNKNOWN


def stays(case: str, value: object, methods: Methods = UNKNOWN) -> Message:
    return Message(case, value, value, methods)


IMAGE = {"type": "image", "data": LONG, "mimeType": "image/png"}
URI = "https://example.org/" + "a" * 200
TOOLS = {"tools": [{"name": "t", "description": LONG, "inputSchema": {"title": LONG}}]}

MESSAGES = [
    Message("a text in a result", answer(content()), answer(content(CUT))),
    Message("a result that is a text", answer(LONG), answer(CUT)),
    Message("a list in a result", answer([LONG, ["short", LONG]]), answer([CUT, ["short", CUT]])),
    Message("structured content and its text",
            answer({**content(), "structuredContent": {"result": LONG}}),
            answer({**content(CUT), "structuredContent": {"result": CUT}})),
    Message("an error of a tool", answer({**content(), "isError": True}),
            answer({**content(CUT), "isError": True})),
    Message("data of an error", failure(LONG), failure(CUT)),
    Message("data of an error, deeper", failure({"trace": [LONG]}), failure({"trace": [CUT]})),
    Message("no result but an error", answer(error={"code": 1, "message": LONG, "data": LONG}),
            answer(error={"code": 1, "message": LONG, "data": CUT})),
    stays("the message of an error", failure(None, message=LONG)),
    Message("a result beside an error: the result alone", answer(LONG, error={"data": LONG}),
            answer(CUT, error={"data": LONG})),
    stays("an error that is a text", {"jsonrpc": "2.0", "id": 1, "error": LONG}),
    stays("an error without data", {"jsonrpc": "2.0", "id": 1, "error": {"message": LONG}}),
    stays("nothing in the answer", {"jsonrpc": "2.0", "id": 1}),
    stays("other members of the answer", answer({}, extra=LONG, id=LONG)),
    stays("keys", answer({LONG: {LONG: "short"}})),
    Message("a long key and a long text", answer({LONG: LONG}), answer({LONG: CUT})),
    Message("a batch, one by one", [answer(LONG), 7, None, LONG, failure(LONG), []],
            [answer(CUT), 7, None, LONG, failure(CUT), []]),
    stays("a batch in a batch", [[answer(LONG)]]),
    stays("an empty batch", []),
    stays("a request of the server",
          {"jsonrpc": "2.0", "id": 1, "method": "sampling/createMessage", "params": {"a": LONG}}),
    stays("a request with a result", answer(LONG, method="roots/list")),
    stays("a notification",
          {"jsonrpc": "2.0", "method": "notifications/message", "params": {"data": LONG}}),
    stays("another protocol", {"id": 1, "result": LONG}),
    stays("another version", answer(LONG, jsonrpc="1.0")),
    stays("a number for a version", answer(LONG, jsonrpc=2.0)),
    stays("a text", LONG),
    stays("a number", 1),
    stays("nothing", None),
    stays("a short result", answer(content("short"))),
    stays("an image", answer({"content": [IMAGE]})),
    stays("a blob", answer({"contents": [{"uri": "u", "mimeType": "a/b", "blob": LONG}]})),
    stays("a blob without a type", answer({"contents": [{"uri": "u", "blob": LONG}]})),
    Message("data without a type", answer({"data": LONG, "blob": LONG}),
            answer({"data": CUT, "blob": CUT})),
    Message("a text with a type", answer({"contents": [{"mimeType": "text/plain", "text": LONG}]}),
            answer({"contents": [{"mimeType": "text/plain", "text": CUT}]})),
    Message("a text of a resource", answer({"contents": [{"uri": "file:///a", "text": LONG}]}),
            answer({"contents": [{"uri": "file:///a", "text": CUT}]})),
    stays("a page for the client", answer({"contents": [{"uri": "ui://a/b", "text": LONG}]})),
    stays("what is handed on", answer({"_meta": {"view": LONG}, "requestState": LONG})),
    stays("a server's request in a result",
          answer({"inputRequests": {"a": {"params": {"messages": [content()]}}}})),
    stays("the tools by their shape", answer(TOOLS)),
    stays("the tools by their method", answer({"tools": [LONG]}), {1: "tools/list"}),
    Message("tools in another answer", answer(TOOLS), answer({"tools": [
        {"name": "t", "description": CUT, "inputSchema": {"title": CUT}}]}), {1: "tools/call"}),
    stays("the tools of an unknown request", answer(TOOLS), {2: "tools/call"}),
    Message("an answer to another id", answer(LONG, id="1"), answer(CUT, id="1"),
            {1: "tools/list"}),
    stays("an answer to a name", answer(LONG, id="a"), {"a": "tools/list"}),
    Message("an answer to no id", answer(LONG, id=None), answer(CUT, id=None)),
    Message("an invalid id", answer(LONG, id=[1]), answer(CUT, id=[1]), {1: "tools/list"}),
    Message("no tools", answer({"tools": [], "text": LONG}), answer({"tools": [], "text": CUT})),
    Message("tools of another kind", answer({"tools": [LONG]}), answer({"tools": [CUT]})),
    Message("tools without a schema", answer({"tools": [{"name": LONG}]}),
            answer({"tools": [{"name": CUT}]})),
    stays("a place as the value", answer([URI, "data:image/png;base64," + "a" * 200])),
    Message("a text with a place in it", answer(f"see {URI}"),
            answer(f"see{marker(4 + len(URI), 3, 2)}aa")),
    Message("a text that begins like a place", answer(f"{URI} and more"),
            answer(f"htt{marker(len(URI) + 9, 3, 2)}re")),
    Message("a text of places", answer("data:,a\n" * 30), answer(f"dat{marker(240, 3, 2)}a\n")),
]  # fmt: skip

KEPT_KEYS = [
    *("id", "ID", "ids", "taskId", "toolUseId", "task_id", "task-id", "x.id", "userID"),
    *("uri", "uris", "URI", "uriTemplate", "uri_template", "resourceUri", "url", "iconUrl"),
    *("cursor", "nextCursor", "next_cursor", "nextPageToken", "HTTPUrl"),
]
CUT_KEYS = ["grid", "GRID", "paid", "valid", "curl", "text", "identity", "tokens", "urls_text", ""]


@as_one_test
@pytest.mark.parametrize("given", MESSAGES, ids=lambda given: given.case)
def test_a_message_is_masked(given: Message) -> None:
    before = copy.deepcopy(given.value)
    masked = mask_payload(given.value, POLICY, given.methods)
    assert given.expected == masked
    assert before == given.value
    assert (masked is given.value) == (given.expected == given.value)
    assert masked is mask_payload(masked, POLICY, given.methods)


@as_one_test
@pytest.mark.parametrize("given", MESSAGES, ids=lambda given: given.case)
@pytest.mark.parametrize("indent", [None, 1])
def test_a_message_is_masked_in_its_bytes(given: Message, indent: int | None) -> None:
    body = json.dumps(given.value, indent=indent).encode()
    masked, cuts = mask_payload_bytes(body, POLICY, given.methods)
    assert json.dumps(given.expected, indent=indent).encode() == masked
    assert (masked is body) == (cuts == ()) == (given.expected == given.value)
    assert MaskedPayload(masked) == mask_payload_bytes(masked, POLICY, given.methods)


@as_one_test
@pytest.mark.parametrize("key", KEPT_KEYS)
def test_what_a_key_says_to_be_a_reference_is_kept(key: str) -> None:
    for result in ({key: LONG}, [{key: LONG}], {key: [LONG, 1]}):
        assert answer(result) == mask_payload(answer(result), POLICY)


@as_one_test
@pytest.mark.parametrize("key", KEPT_KEYS)
def test_what_is_inside_of_more_than_a_reference_is_not(key: str) -> None:
    value = answer({key: {"text": LONG, "id": LONG}, "more": {key: [{"text": LONG}, []]}})
    expected = answer({key: {"text": CUT, "id": LONG}, "more": {key: [{"text": CUT}, []]}})
    assert expected == mask_payload(value, POLICY)


@as_one_test
@pytest.mark.parametrize("key", CUT_KEYS)
def test_another_key_keeps_nothing(key: str) -> None:
    assert answer({key: CUT}) == mask_payload(answer({key: LONG}), POLICY)


def test_off_nothing_is_looked_at() -> None:
    value = answer(LONG)
    for off in (McpSettings(), policy(max_chars=0)):
        assert value is mask_payload(value, off)
        assert find_cuts(value, off) == ()
        assert mask_payload_bytes(b"no JSON" * 1000, off) == MaskedPayload(b"no JSON" * 1000)


def test_what_is_unchanged_is_shared() -> None:
    value = answer({"content": [{"text": LONG}, {"text": "short"}]})
    masked = mask_payload(value, POLICY)
    assert masked["result"]["content"][1] is value["result"]["content"][1]  # type: ignore[index]


# Its bytes


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        pytest.param(
            b'\xef\xbb\xbf {"id":1.0e0,"jsonrpc":"2.0","n":123456789012345678901234567890,'
            b'"result":{"a":1E+2,"text":"%s"  ,"b":"\\u00e9\\/"}}\r\n' % LONG.encode(),
            b'\xef\xbb\xbf {"id":1.0e0,"jsonrpc":"2.0","n":123456789012345678901234567890,'
            b'"result":{"a":1E+2,"text":%s  ,"b":"\\u00e9\\/"}}\r\n' % json.dumps(CUT).encode(),
            id="spelling",
        ),
        pytest.param(
            b'{"jsonrpc":"2.0","result":{"text":"%s","text":"%s"}}' % ((LONG.encode(),) * 2),
            b'{"jsonrpc":"2.0","result":{"text":"%s","text":%s}}'
            % (LONG.encode(), json.dumps(CUT).encode()),
            id="a key twice: the last one holds",
        ),
        pytest.param(
            b'{"jsonrpc":"2.0","result":["\\ud800%s",NaN]}' % LONG.encode(),
            b'{"jsonrpc":"2.0","result":["\\ud800ab%s",NaN]}'
            % json.dumps(marker(201, 3, 2) + "yz")[1:-1].encode(),
            id="a lone surrogate and no number",
        ),
        pytest.param(
            '{"jsonrpc":"2.0","result":["é%s","\\ud83d\\ude00%s"]}'.encode()
            % ((LONG.encode(),) * 2),
            '{{"jsonrpc":"2.0","result":["éab{0}","😀ab{0}"]}}'.format(
                json.dumps(marker(201, 3, 2) + "yz")[1:-1]
            ).encode(),
            id="a pair of surrogates is one character",
        ),
    ],
)
def test_every_byte_outside_the_cut_strings_stays(body: bytes, expected: bytes) -> None:
    assert expected == mask_payload_bytes(body, POLICY).body


@pytest.mark.parametrize(
    "body",
    [f"data {SECRET}".encode() * 30, b"\xff" * 101, b"[" * 100_000 + b"]" * 100_000],
    ids=["no JSON", "no UTF-8", "too deep"],
)
def test_what_cannot_be_read_is_an_error_that_repeats_nothing(body: bytes) -> None:
    with pytest.raises(WireError) as raised:
        mask_payload_bytes(body, POLICY)
    assert SECRET not in str(raised.value)


def test_what_is_too_short_to_be_cut_is_not_even_read() -> None:
    body = b"no JSON".ljust(100)
    assert mask_payload_bytes(body, POLICY).body is body


def test_a_deep_answer_is_masked_or_is_an_error() -> None:
    for depth in (100, 400, 900, 2000):
        body = json.dumps(answer(LONG)).replace(
            json.dumps(LONG), '[{"a":' * depth + json.dumps(LONG) + "}]" * depth
        )
        try:
            masked = mask_payload_bytes(body.encode(), POLICY)
        except WireError:
            assert depth > 100
        else:
            assert len(masked.cuts) == 1


TEXT = st.one_of(
    st.sampled_from([LONG, CUT, URI, "short"]),
    st.text(st.characters(codec="utf-8"), max_size=9).map(lambda text: text * 25),
)
KEYS = st.one_of(st.sampled_from(["text", "id", "data", "mimeType", "_meta", "tools"]), TEXT)
VALUES = st.recursive(
    st.none() | st.booleans() | st.floats(allow_nan=False) | st.integers() | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=12,
)
ANSWERS = st.one_of(
    st.builds(answer, VALUES),
    st.builds(failure, VALUES),
    st.lists(st.builds(answer, VALUES) | VALUES, max_size=3),
    VALUES,
)


@given(ANSWERS, st.sampled_from([None, 1]), st.booleans())
def test_nothing_outside_the_cut_strings_changes(
    value: object, indent: int | None, ascii_only: bool
) -> None:
    text = json.dumps(value, indent=indent, ensure_ascii=ascii_only)
    body = text.encode("utf-8")
    masked, cuts = mask_payload_bytes(body, POLICY)
    placeholders = {cut.slot: cut.placeholder for cut in cuts}
    assert text.isascii() == masked.isascii()
    edited = edit_strings(text, lambda path, value: placeholders.get(path, value))
    assert decode(masked) == decode(edited.encode()) == mask_payload(decode(body), POLICY)
    kept = edit_strings(masked.decode(), lambda path, value: "" if path in placeholders else value)
    assert kept == edit_strings(text, lambda path, value: "" if path in placeholders else value)


@given(ANSWERS)
def test_masking_twice_is_masking_once(value: object) -> None:
    before = copy.deepcopy(value)
    masked = mask_payload(value, POLICY)
    assert before == value
    assert masked is mask_payload(masked, POLICY)
    assert all(len(cut.placeholder) < len(cut.text) for cut in find_cuts(value, POLICY))
