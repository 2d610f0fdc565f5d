"""Which tool calls are equal."""

import json

import pytest

from masking.window import call_key
from tests.support.marks import as_one_test

LONG = "x" * 2_000
DEEP = "[" * 400 + "]" * 400


@as_one_test
@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        pytest.param('{"path": "a", "n": 1}', '{"n":1,"path":"a"}', True, id="in another order"),
        pytest.param('{"path": "é"}', '{"path": "\\u00e9"}', True, id="escaped otherwise"),
        pytest.param('{"path": "a"}', {"path": "a"}, True, id="a text and its decoded value"),
        pytest.param({"path": "a", "n": 1}, {"n": 1, "path": "a"}, True, id="decoded, reordered"),
        pytest.param('{"path": "a"}', '{"path": "b"}', False, id="another value"),
        pytest.param('{"n": 1}', '{"n": true}', False, id="a number and a truth"),
        pytest.param("ls -l", "ls -l", True, id="no JSON"),
        pytest.param("ls -l", "ls -a", False, id="another that is no JSON"),
        pytest.param("ls", '"ls"', True, id="a text and its JSON"),
        pytest.param(None, {}, False, id="none and an empty object"),
        pytest.param({"n": 10**30}, {"n": 10**30}, True, id="a large number"),
        pytest.param({"n": 10**30}, {"n": 10**31}, False, id="another large number"),
        pytest.param('{"a": "\\ud83d"}', '{"a":"\\ud83d"}', True, id="half a character"),
        pytest.param(DEEP, DEEP, True, id="nested too deep"),
        pytest.param(
            json.dumps({"text": LONG}), json.dumps({"text": LONG}), True, id="long, spelled alike"
        ),
        pytest.param(
            json.dumps({"text": LONG}),
            json.dumps({"text": LONG}, indent=1),
            False,
            id="long, spelled otherwise",
        ),
    ],
)
def test_arguments_are_equal_if_their_values_are(
    one: object, other: object, expected: bool
) -> None:
    assert expected is (call_key("read", one) == call_key("read", other))


def test_calls_of_different_tools_are_never_equal() -> None:
    keys = {call_key(tool, {"path": "a"}) for tool in ("read", "write", None)}
    assert 3 == len(keys)


def test_values_that_cannot_be_written_are_alike() -> None:
    deep: list[object] = []
    for _ in range(100_000):
        deep = [deep]
    assert ("read", "") == call_key("read", deep)
