"""Adding to a list of a request's body changes no other byte of it."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from masking import WireError
from masking.edit import splice
from masking.edit.json_text import decode
from tests.support.marks import as_one_test

PATH = ("managed", "edits")
ITEM = {"type": "clear", "keep": 3}
ADDED = '{"type":"clear","keep":3}'


def add(body: str) -> str:
    document = decode(body.encode())
    assert isinstance(document, dict)
    return splice.add(body.encode(), document, PATH, ITEM, in_list=True).decode()


@as_one_test
@pytest.mark.parametrize(
    ("body", "expected"),
    [
        pytest.param('{"a":1}', '{"a":1,"managed":{"edits":[%]}}', id="nothing there"),
        pytest.param('{"a": 1 }\n', '{"a": 1 ,"managed":{"edits":[%]}}\n', id="blanks"),
        pytest.param("{}", '{"managed":{"edits":[%]}}', id="an empty document"),
        pytest.param('{"managed":{},"a":1}', '{"managed":{"edits":[%]},"a":1}', id="an object"),
        pytest.param(
            '{"managed": {"b" : 2}}', '{"managed": {"b" : 2,"edits":[%]}}', id="with a member"
        ),
        pytest.param('{"managed":{"edits":[]}}', '{"managed":{"edits":[%]}}', id="an empty list"),
        pytest.param(
            '{"managed":{"edits":[{"x":1}]},"a":[{"x":1}]}',
            '{"managed":{"edits":[{"x":1},%]},"a":[{"x":1}]}',
            id="a list, whose like stands elsewhere",
        ),
        pytest.param(
            '{"managed": {"edits": [ {"x": "\\u00e4"} ]} }',
            '{"managed": {"edits": [ {"x": "\\u00e4"} ,%]} }',
            id="spelled otherwise",
        ),
        pytest.param('{"managed":null,"a":1}', '{"managed":{"edits":[%]},"a":1}', id="null"),
        pytest.param(
            '{"managed":{"edits": null}}', '{"managed":{"edits": [%]}}', id="null in an object"
        ),
        pytest.param(
            '{"managed":{"edits":[1]},"managed":{"edits":[]}}',
            '{"managed":{"edits":[1]},"managed":{"edits":[%]}}',
            id="a key twice",
        ),
        pytest.param(
            '{"b":NaN,"managed":{"edits":[NaN]}}',
            '{"b":NaN,"managed":{"edits":[NaN,%]}}',
            id="what is no JSON to all",
        ),
    ],
)
def test_an_item_is_added_and_no_other_byte_changes(body: str, expected: str) -> None:
    assert expected.replace("%", ADDED) == add(body)


@pytest.mark.parametrize("body", ['{"managed":[]}', '{"managed":{"edits":{}}}', '{"managed":7}'])
def test_what_is_no_list_is_left_alone(body: str) -> None:
    with pytest.raises(WireError, match="cannot make these edits"):
        add(body)


def test_a_document_of_another_body_is_refused() -> None:
    for other in (b'{"b":2}', b"{}", b"not JSON", b"", b"\xff"):
        with pytest.raises(WireError, match=r"cannot make these edits|not UTF-8"):
            splice.add(other, {"managed": {"edits": [1]}}, PATH, ITEM, in_list=True)


@as_one_test
@pytest.mark.parametrize(
    ("body", "expected"),
    [
        pytest.param('{"a":1}', '{"a":1,"b":{"c":"d"}}', id="nothing there"),
        pytest.param('{"b":{"x":1},"a":1}', '{"b":{"x":1,"c":"d"},"a":1}', id="an object"),
        pytest.param('{"b": null}', '{"b": {"c":"d"}}', id="null"),
        pytest.param('{"b":{"c": null}}', '{"b":{"c": "d"}}', id="null in an object"),
        pytest.param('{"b":{"x":"\\u00e4"}}', '{"b":{"x":"\\u00e4","c":"d"}}', id="escaped"),
    ],
)
def test_a_value_is_put_where_nothing_is(body: str, expected: str) -> None:
    document = decode(body.encode())
    assert isinstance(document, dict)
    assert expected == splice.add(body.encode(), document, ("b", "c"), "d").decode()


@pytest.mark.parametrize("body", ['{"b":{"c":1}}', '{"b":[]}'])
def test_what_is_there_is_not_replaced(body: str) -> None:
    document = decode(body.encode())
    assert isinstance(document, dict)
    with pytest.raises(WireError, match="cannot make these edits"):
        splice.add(body.encode(), document, ("b", "c"), "d")


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=12,
)
edits = st.dictionaries(st.text() | st.just("edits"), values).map(
    lambda held: held | ({"edits": []} if not isinstance(held.get("edits"), list | None) else {})
)


@given(
    st.dictionaries(st.text(), values),
    st.none() | edits,
    st.booleans(),
    st.sampled_from([None, 1]),
)
def test_whatever_else_is_there_stays_byte_for_byte(
    others: dict[str, object], managed: object, ascii_only: bool, indent: int | None
) -> None:
    document = {**others, "managed": managed, "end": 1}
    body = json.dumps(document, ensure_ascii=ascii_only, indent=indent)
    added = add(body)
    before, found, after = added.rpartition(ADDED)
    assert found
    assert body.startswith(before[: len(before) - len(',"managed":{"edits":[')].rstrip("[{,:"))
    assert after.endswith(body[len(body) - max(0, len(after) - len("]}")) :])
    expected = json.loads(body)
    held = expected["managed"] = expected["managed"] or {}
    held["edits"] = [*(held.get("edits") or []), ITEM]
    assert expected == json.loads(added)
