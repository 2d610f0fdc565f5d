import pytest

from masking.wire.parts import count_blocks, is_marked
from tests.support.builders import call
from tests.support.marks import as_one_test

MARK = {"cache_control": {"type": "ephemeral"}}


@as_one_test
@pytest.mark.parametrize(
    ("element", "expected"),
    [
        pytest.param({"role": "user", "content": "go"}, (1, False), id="a string"),
        pytest.param({"role": "user", "content": "go", **MARK}, (1, True), id="a marked message"),
        pytest.param(
            {"role": "user", "content": [{"type": "text", "text": "a"}] * 3}, (3, False), id="parts"
        ),
        pytest.param(
            {"role": "user", "content": [{"type": "text", "text": "a", **MARK}]},
            (1, True),
            id="a marked part",
        ),
        pytest.param(
            {"role": "user", "content": [{"content": [{"type": "text", "text": "a", **MARK}]}]},
            (1, True),
            id="a marked part of a part",
        ),
        pytest.param(
            {"role": "user", "content": [{"text": "a"}, {"cachePoint": {"type": "default"}}]},
            (2, True),
            id="a block that is a mark",
        ),
        pytest.param(
            {"role": "user", "content": "go", "cache_control": None}, (1, False), id="null"
        ),
        pytest.param(
            {"role": "assistant", "content": "I", "tool_calls": [call("a"), {**call("b"), **MARK}]},
            (3, False),
            id="calls, whose marks nobody looks at",
        ),
        pytest.param(
            {"role": "assistant", "content": None, "tool_calls": [call()]}, (1, False), id="a call"
        ),
        pytest.param({"role": "user"}, (1, False), id="nothing"),
        pytest.param(7, (1, False), id="no object"),
    ],
)
def test_an_element_tells_its_blocks_and_whether_it_is_marked(
    element: object, expected: tuple[int, bool]
) -> None:
    assert expected == (count_blocks(element), is_marked(element))
