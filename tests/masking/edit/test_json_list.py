"""A list is cut out of a document, and what was cut before changes nothing but the time."""

import json
from operator import is_

import pytest
from hypothesis import given
from hypothesis import strategies as st

from masking.edit.json_list import ListCut, cut_list
from masking.errors import WireError
from tests.support.builders import examples

PATHS = (("messages",), ("request", "messages"))

ELEMENTS = ("{}", '{"a":[1]}', '{"a": [1]}', '{"messages":[{}]}', '"},{"', "[{}]", "1", "NaN")
GAPS = (",", ", ", " \n,")
AROUND = (
    '{"messages":[%s]}',
    '{"metadata":[%s],"messages":[{}]}',
    '{"messages":[%s],"messages":[{}]}',
    '{"messages":[],"messages":[%s]}',
    '{"messages":[%s],"x":[{}]}',
    '{"request":{"messages":[%s]}}',
    '{"messages":null,"request":{"messages":[%s]} }',
    '{"messages":1,"messages":[%s]}',
    '{"messages":[%s],',
    '{"messages":[%s}',
    "[%s]",
)


def ways(body: bytes, earlier: ListCut | None = None) -> list[ListCut] | str:
    """Return all ways to cut a body, or why there is none."""
    try:
        return [*cut_list(body, PATHS, earlier)]
    except WireError as error:
        return error.problem


def join(cut: ListCut) -> bytes:
    listed = (part for pair in zip(cut.elements, [*cut.gaps, b""], strict=False) for part in pair)
    return cut.head + b"".join(listed) + cut.tail


@st.composite
def bodies(draw: st.DrawFn) -> bytes:
    """A document, or what is nearly one, with a list that many others begin like."""
    elements = draw(st.lists(st.sampled_from(ELEMENTS), max_size=5))
    gaps = [draw(st.sampled_from(GAPS)) for _ in elements[1:]]
    listed = "".join(part for pair in zip(elements, [*gaps, ""], strict=False) for part in pair)
    return (draw(st.sampled_from(AROUND)) % listed).encode()


@examples(4)
@given(bodies(), bodies())
def test_a_document_is_cut_as_by_who_has_not_seen_another(before: bytes, body: bytes) -> None:
    expected, earlier = ways(body), ways(before)
    if isinstance(earlier, str):
        return
    for each in earlier:
        found = ways(body, each)
        if isinstance(expected, str):
            assert expected == found
            continue
        assert isinstance(found, list)
        assert expected == found[-len(expected) :]
        assert all(cut in expected and join(cut) == body for cut in found)


def test_what_continues_another_keeps_its_elements() -> None:
    messages = [{"role": "user", "content": str(n)} for n in range(9)]
    bodies = [json.dumps({"messages": messages[:end]}).encode() for end in (6, 9)]
    (earlier,) = cut_list(bodies[0], PATHS)
    later = next(cut_list(bodies[1], PATHS, earlier))
    assert len(later.elements) == 9
    assert all(map(is_, earlier.elements, later.elements))


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b'{"metadata":[{},{}],"messages":[{"a":1}]}', id="in another place"),
        pytest.param(b'{"messages":[{},{}],"messages":[{"a":1}]}', id="in a list that is replaced"),
    ],
)
def test_a_list_is_not_taken_for_another_because_it_has_the_same_elements(body: bytes) -> None:
    (earlier,) = cut_list(b'{"messages":[{},{}]}', PATHS)
    assert [b'{"a":1}'] == next(cut_list(body, PATHS, earlier)).elements
