import json
from collections.abc import Callable
from typing import NamedTuple

import pytest

import masking.edit.splice
from masking import Replacement, WireError
from masking.edit.json_text import decode
from masking.edit.splice import apply, splice
from tests.support.builders import SECRET
from tests.support.marks import as_one_test

HEAD = '{"role":"assistant","tool_calls":[{"id":"a"}]}'
PATH = ("messages", 1, "content")


@pytest.fixture(params=["fast", "exact"])
def road(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Either road, whatever the body: the exact one is what is left when the fast one gives up."""
    if request.param == "exact":
        monkeypatch.setattr(masking.edit.splice, "_cut_quickly", lambda *_: None)


def splice_texts(body: bytes, changes: dict[tuple[str | int, ...], str]) -> bytes:
    """Exchange the strings at these paths."""
    document = decode(body)
    assert isinstance(document, dict)
    return splice(
        body,
        document,
        [Replacement(path, _get(document, path), new) for path, new in changes.items()],
    )


def _get(document: object, path: tuple[str | int, ...]) -> str:
    for step in path:
        document = document[step]  # type: ignore[index]
    assert isinstance(document, str)
    return document


class Spelled(NamedTuple):
    """A body, the token in it that goes, and the one that comes; every other byte stays."""

    case: str
    body: str
    old: str
    new: str = '"<new>"'
    to: str = "<new>"
    path: tuple[str | int, ...] = PATH


def body(content: str, before: str = "", after: str = "") -> str:
    """A compact request whose tool result's content is spelled like this."""
    return (
        f'{{{before}"messages":[{HEAD},{{"role":"tool","tool_call_id":"a","content":{content}}}]'
        f"{after}}}"
    )


SPELLINGS = [
    Spelled("compact", body('"old"'), '"old"'),
    Spelled(
        "spaced",
        '{"model": "m", "messages": [{"role": "user"}, {"role": "tool", "content": "old"}]}',
        '"old"',
    ),
    Spelled(
        "indented",
        '{\n  "messages": [\n    {},\n    {\n      "content": "old",\n      "x": 1\n    }\n  ]\n}',
        '"old"',
    ),
    Spelled(
        "tabs and CRLF between tokens",
        '\r\n{\t"messages"\r\n:\t[ {}\t,\r\n{ "content" :\r\n"old"\t} ]\r\n}\r\n\t ',
        '"old"',
    ),
    Spelled("raw UTF-8", body('"é😀 old"', '"model":"é",'), '"é😀 old"', '"<é>"', "<é>"),
    Spelled("ASCII escapes", body(r'"\u00e9\ud83d\ude00"'), r'"\u00e9\ud83d\ude00"',
            r'"<\u00e9>"', "<é>"),
    Spelled("upper-case escapes", body(r'"\u00E9\uD83D\uDE00"'), r'"\u00E9\uD83D\uDE00"'),
    Spelled("raw and escaped side by side", body(r'"é\u00e9"'), r'"é\u00e9"'),
    Spelled("needless escapes", body(r'"\u006fld"'), r'"\u006fld"'),
    Spelled("escaped slashes", body(r'"a\/b"'), r'"a\/b"'),
    Spelled("Go", body(r'"\u003ca\u003e\u0026\u2028"'), r'"\u003ca\u003e\u0026\u2028"'),
    Spelled("control characters by number", body(r'"\u000a\u0009\u0022\u005c"'),
            r'"\u000a\u0009\u0022\u005c"'),
    Spelled("control characters by letter", body(r'"\n\t\r\b\f\"\\"'), r'"\n\t\r\b\f\"\\"'),
    Spelled("escaped NUL and raw DEL", body('"\\u0000\x7f"'), '"\\u0000\x7f"'),
    Spelled("raw U+2028", body('"\u2028"'), '"\u2028"'),
    Spelled("a lone surrogate in the text", body(r'"\ud800 old"'), r'"\ud800 old"'),
    Spelled("a lone surrogate in the placeholder", body('"old"'), '"old"', r'"<\ud800>"',
            "<\ud800>"),
    Spelled("a lone surrogate in the placeholder, beside raw UTF-8", body('"old"', '"x":"é",'),
            '"old"', r'"<\ud800>"', "<\ud800>"),
    Spelled("a lone surrogate elsewhere", body('"old"', r'"x":"\udfff",'), '"old"'),
    Spelled("a lone surrogate in a key", body('"old"', r'"\udfff":1,'), '"old"'),
    Spelled("a quote in the placeholder", body('"old"'), '"old"', r'"\"\\"', '"\\'),
    Spelled("an empty text", body('""'), '""'),
    Spelled("a long text", body(f'"{"old" * 999}"'), f'"{"old" * 999}"'),
    Spelled("numbers", body('"old"', '"n":[1e2,1.0,10E+2,-0.0,-0,0.10,1e-7,123456789012345678],'),
            '"old"'),
    Spelled("numbers of any size", body('"old"', f'"n":[{10**30},1e999,-1e999,{"9" * 5000}],'),
            '"old"'),
    Spelled("NaN and Infinity", body('"old"', '"n":[NaN,Infinity,-Infinity],'), '"old"'),
    Spelled("key order", body('"old"', '"z":1,"a":2,', ',"b":3,"A":4'), '"old"'),
    Spelled("content before the other keys",
            '{"messages":[{},{"content":"old","tool_call_id":"a","role":"tool"}],"model":"m"}',
            '"old"'),
    Spelled("content between the other keys",
            '{"messages":[{},{"tool_call_id":"a","content":"old","role":"tool"}]}', '"old"'),
    Spelled("an escaped key", r'{"m\u0065ssages":[{},{"\u0063ontent":"old"}]}', '"old"'),
    Spelled("a text part", '{"messages":[{},{"content":[{"type":"text","text":"old","x":0}]}]}',
            '"old"', path=(*PATH, 0, "text")),
    Spelled("a byte-order mark", "\ufeff" + body('"old"'), '"old"'),
    Spelled("a byte-order mark and blanks", "\ufeff \n" + body('"old"'), '"old"'),
    Spelled("empty containers beside it", body('"old"', '"x":[],"y":{},"z":[ ],', ',"w":[{}]'),
            '"old"'),
    Spelled("brackets in texts", body('"old"', '"x":"]}{[,:",'), '"old"'),
    Spelled("the token inside another text", body('"old"', r'"x":"\"old\" and, \"old\"",'),
            ':"old"', ':"<new>"'),
]  # fmt: skip


def check(given: Spelled) -> None:
    before = given.body.encode("utf-8")
    old, new = given.old.encode(), given.new.encode()
    assert before.count(old) == 1
    assert before.replace(old, new) == splice_texts(before, {given.path: given.to})


@as_one_test
@pytest.mark.usefixtures("road")
@pytest.mark.parametrize("given", SPELLINGS, ids=lambda given: given.case)
def test_every_other_byte_is_the_clients(given: Spelled) -> None:
    check(given)


class Ambiguous(NamedTuple):
    """A body in which the old token stands at `§` and elsewhere too."""

    case: str
    body: str
    old: str = '"old"'


AMBIGUOUS = [
    Ambiguous("the same text in a kept message before it",
              '{"messages":[{"content":"old"},{"content":§}]}'),
    Ambiguous("the same text in a kept message after it",
              '{"messages":[{},{"content":§},{"content":"old"}]}'),
    Ambiguous("the same text as a key", '{"old":1,"messages":[{"old":2},{"content":§,"old":3}]}'),
    Ambiguous("the text is its own key", '{"messages":[{},{"content":§}]}', '"content"'),
    Ambiguous("a duplicate content before it", '{"messages":[{},{"content":"old","content":§}]}'),
    Ambiguous("a duplicate content that begins like it",
              '{"messages":[{},{"content":"old and older","content":§}]}'),
    Ambiguous("a duplicate content that ends like it",
              '{"messages":[{},{"content":"very old","content":§}]}'),
    Ambiguous("a duplicate content and more before it",
              '{"messages":[{},{"content":"older","x":1,"x":1,"content":§}]}'),
    Ambiguous("a duplicate key of something else",
              '{"x":"old, not","messages":[{},{"content":§}],"x":"very old"}'),
    Ambiguous("a duplicate content of another type",
              '{"messages":[{"content":"old"},{"content":null,"content":§}]}'),
    Ambiguous("a duplicate content of another kind",
              '{"messages":[{"content":"old"},{"content":{"a":[1]},"content":§}]}'),
    Ambiguous("duplicate messages",
              '{"messages":[{},{"content":"old"}],"messages":[{},{"content":§}]}'),
    Ambiguous("duplicate messages, longer",
              '{"messages":[{},{"content":"old"},{"content":"old"}],"messages":[{},{"content":§}]}'),
    Ambiguous("duplicate messages that are null",
              '{"x":"old","messages":null,"messages":[{},{"content":§}]}'),
    Ambiguous("duplicate messages that are a number",
              '{"x":"old","messages":-1.5e3,"messages":[{},{"content":§}]}'),
    Ambiguous("duplicate messages that are a text",
              '{"x":"old","messages":"[{]}","messages":[{},{"content":§}]}'),
    Ambiguous("duplicate messages that are an object",
              '{"messages":{"1":{"content":"old"}},"messages":[{},{"content":§}]}'),
    Ambiguous("a duplicate list without messages",
              '{"x":"old","messages":[],"messages":[{},{"content":§}]}'),
    Ambiguous("a duplicate list of no objects",
              '{"x":"old","messages":[1,"]",2],"messages":[{},{"content":§}]}'),
    Ambiguous("the same text in another spelling", r'{"messages":[{"content":"\u006fld"},'
              '{"content":§},{"content":"old"}]}'),
    Ambiguous("a text that looks like JSON", '{"x": ", ","messages": [{}, {"content": §}]}',
              '", "'),
    Ambiguous("a common beginning", f'{{"x":"{"old" * 30}","messages":[{{}},{{"content":§}}]}}',
              f'"{"old" * 29}"'),
]  # fmt: skip


@as_one_test
@pytest.mark.usefixtures("road")
@pytest.mark.parametrize("given", AMBIGUOUS, ids=lambda given: given.case)
def test_only_the_string_that_is_meant_is_exchanged(given: Ambiguous) -> None:
    before = given.body.replace("§", given.old).encode()
    expected = given.body.replace("§", '"<new>"').encode()
    assert expected == splice_texts(before, {PATH: "<new>"})


@pytest.mark.usefixtures("road")
def test_a_duplicate_content_beside_text_parts() -> None:
    shape = '{"x":"old","messages":[{},{"content":%s,"content":[{"text":§}]}]}'
    for duplicate in ('"[old]"', "null", "7", '{"0":{"text":"old"}}', '[{"text":"old"},"old"]'):
        before = (shape % duplicate).replace("§", '"old"').encode()
        expected = (shape % duplicate).replace("§", '"<new>"').encode()
        assert expected == splice_texts(before, {(*PATH, 0, "text"): "<new>"})


@pytest.mark.usefixtures("road")
def test_a_placeholder_that_no_json_can_spell_is_an_error() -> None:
    """Two lone surrogates in a row would arrive as one character."""
    with pytest.raises(WireError):
        splice_texts(body('"old"').encode(), {PATH: "\ud83d" + "\ude00"})


@pytest.mark.usefixtures("road")
def test_several_strings_at_once() -> None:
    shape = '{"messages":[{"content":%s},{"content":"old"},{"content":[{"text":%s},{"text":%s}]}]}'
    before = (shape % ('"old"', r'"\u006fld"', '"old"')).encode()
    expected = (shape % ('"1"', '"2"', '"3"')).encode()
    changes: dict[tuple[str | int, ...], str] = {
        ("messages", 0, "content"): "1",
        ("messages", 2, "content", 0, "text"): "2",
        ("messages", 2, "content", 1, "text"): "3",
    }
    assert expected == splice_texts(before, changes)


def test_strings_of_one_object_come_in_the_order_of_their_last_keys() -> None:
    before = b'{"a":"x","b":"old","a":"old"}'
    expected = b'{"a":"x","b":"1","a":"2"}'
    assert expected == splice_texts(before, {("b",): "1", ("a",): "2"})
    assert expected == splice_texts(before, {("a",): "2", ("b",): "1"})


@pytest.mark.usefixtures("road")
def test_more_than_ten_messages_keep_their_order() -> None:
    shape = '{"messages":[' + ",".join(['{"content":%s}'] * 25) + "]}"
    before = (shape % (('"old"',) * 25)).encode()
    expected = (shape % tuple(f'"{i}"' if i % 2 else '"old"' for i in range(25))).encode()
    changes: dict[tuple[str | int, ...], str] = {
        ("messages", i, "content"): str(i) for i in range(1, 25, 2)
    }
    assert expected == splice_texts(before, changes)


def _nested(depth: int) -> str:
    return "[" * depth + "]" * depth


@pytest.mark.usefixtures("road")
@pytest.mark.parametrize(
    "place",
    [
        lambda nest: body('"old"', f'"x":{nest},'),
        lambda nest: f'{{"messages":[{{}},{{"x":{nest},"content":"old"}}]}}',
        lambda nest: body('"old"', f'"nan":NaN,"x":{nest},'),
        lambda nest: body('"old"', f'"x":{nest.replace("[", chr(123) + chr(34) * 2 + ":", 900)},'),
    ],
    ids=["beside the messages", "in the message", "with NaN", "broken"],
)
def test_however_deep_the_right_bytes_or_a_wire_error(place: Callable[[str], str]) -> None:
    for depth in (*range(850, 1030), 100_000):
        before = place(_nested(depth)).encode()
        try:
            assert before.replace(b'"old"', b'"<new>"') == splice_texts(before, {PATH: "<new>"})
        except WireError as error:
            assert error.path == "body"  # noqa: PT017


@as_one_test
@pytest.mark.parametrize(
    ("other", "path"),
    [
        ({"messages": [{}, {"content": "gone"}]}, PATH),
        ({"messages": [{}, {"content": "old"}, "more"]}, PATH),
        ({"messages": [{}, {"content": "old"}]}, ("messages", 5, "content")),
        ({"messages": [{}, {"content": "old"}]}, ("messages", 1, "elsewhere")),
        ({"messages": [{}, {"content": "old"}]}, ("messages", 1, "content", 0, "text")),
        ({"messages": [{}, {"content": "old"}]}, ("messages", "x")),
    ],
)
def test_a_replacement_that_is_not_of_this_body_harms_nothing(
    other: dict[str, object], path: tuple[str | int, ...]
) -> None:
    before = b'{"messages":[{},{"content":"old"}]}'
    try:
        after = splice(before, other, [Replacement(path, "old", "<new>")])
    except (WireError, LookupError, TypeError):
        return
    assert before.replace(b"old", b"<new>") == after


@as_one_test
@pytest.mark.parametrize(
    ("source", "expected"),
    [
        (b"{}", {}),
        (b' [1, "a", null, true] ', [1, "a", None, True]),
        (b'\xef\xbb\xbf{"a":"b"}', {"a": "b"}),
        (b'{"a":1,"a":2}', {"a": 2}),
        (b'"\\ud800"', "\ud800"),
        (b'"\\ud83d\\ude00"', "😀"),
    ],
)
def test_decode(source: bytes, expected: object) -> None:
    assert expected == decode(source)


@as_one_test
@pytest.mark.parametrize("number", ["1", "-0.0", "1e2", "1e999", "9" * 5000, "NaN", "-Infinity"])
@pytest.mark.parametrize("beside", ["1", "NaN", '"\\ud800"'])
def test_a_number_never_comes_back_as_a_text(number: str, beside: str) -> None:
    document = decode(f'{{"n":{number},"beside":{beside}}}'.encode())
    assert isinstance(document, dict)
    assert not isinstance(document["n"], str)


@as_one_test
@pytest.mark.parametrize(
    "source",
    [
        b"",
        b" \r\n",
        b"\xef\xbb\xbf",
        b"\xef\xbb\xbf\xef\xbb\xbf{}",
        SECRET.encode(),
        f'{{"messages":["{SECRET}"'.encode(),
        f'{{"messages":["{SECRET}"]}} {{}}'.encode(),
        f"{{'messages':['{SECRET}']}}".encode(),
        f'{{"messages":["{SECRET}",]}}'.encode(),
        f'{{"messages":["{SECRET}\n"]}}'.encode(),
        f'{{"messages":["{SECRET}\xe9"]}}'.encode("latin-1"),
        f'{{"messages":["{SECRET}"]}}'.encode("utf-16"),
        f'{{"messages":["{SECRET}"]}}'.encode("utf-16-le"),
        f'{{"messages":["{SECRET}"]}}'.encode("utf-32"),
        f'{{"messages":["{SECRET}\ud800"]}}'.encode("utf-8", "surrogatepass"),
        b'{"a":' * 100_000,
        b"[" * 100_000 + b"]" * 100_000,
        b'{"a":' * 100_000 + b"1" + b"}" * 100_000,
        b"\x00",
        b"nan",
        b"\x1f\x8b\x08",
    ],
    ids=lambda source: source[:24],
)
def test_what_is_no_json_is_an_error_that_repeats_nothing(source: bytes) -> None:
    with pytest.raises(WireError) as caught:
        decode(source)
    assert caught.value.path == "body"
    assert SECRET not in str(caught.value)


def test_apply_shares_what_it_leaves() -> None:
    document: dict[str, object] = {"messages": [{"content": "kept"}, {"content": "old"}], "x": []}
    before = json.dumps(document)
    after = apply(document, [Replacement(PATH, "old", "<new>")])
    assert after == {"messages": [{"content": "kept"}, {"content": "<new>"}], "x": []}
    assert before == json.dumps(document)
    assert after["x"] is document["x"]
    assert after["messages"][0] is document["messages"][0]  # type: ignore[index]


def test_a_path_through_a_text_leads_nowhere() -> None:
    with pytest.raises(TypeError, match="container"):
        apply({"a": "text"}, [Replacement(("a", 0), "t", "x")])


def test_a_text_that_nearly_matches_everywhere_takes_the_exact_road() -> None:
    """Or else each of a hundred thousand near misses would be compared at length."""
    quotes = '"' * 50_000
    kept = {"role": "user", "content": quotes * 2}
    old = {"role": "tool", "content": f"{quotes}x"}
    body = json.dumps({"messages": [kept, old]}).encode()
    replacement = Replacement(("messages", 1, "content"), f"{quotes}x", "gone")
    document = json.loads(body)
    expected = json.dumps({"messages": [kept, {**old, "content": "gone"}]}).encode()
    assert expected == splice(body, document, [replacement])
