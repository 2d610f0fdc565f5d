import pytest

from masking.wire.parts import count_blocks
from tests.support.builders import call
from tests.support.marks import as_one_test


@as_one_test
@pytest.mark.parametrize(
    ("element", "expected"),
    [
        pytest.param({"role": "user", "content": "go"}, 1, id="a string"),
        pytest.param(
            {"role": "user", "content": [{"type": "text", "text": "a"}] * 3}, 3, id="parts"
        ),
        pytest.param(
            {"role": "user", "content": [{"text": "a"}, {"cachePoint": {"type": "default"}}]},
            2,
            id="a block that is a mark",
        ),
        pytest.param(
            {"role": "assistant", "content": "I", "tool_calls": [call("a"), call("b")]},
            3,
            id="a text and calls",
        ),
        pytest.param(
            {"role": "assistant", "content": None, "tool_calls": [call()]}, 1, id="a call"
        ),
        pytest.param({"role": "user"}, 1, id="nothing"),
        pytest.param(7, 1, id="no object"),
    ],
)
def test_an_element_tells_its_blocks(element: object, expected: int) -> None:
    assert expected == count_blocks(element)
