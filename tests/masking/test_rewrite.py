import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from masking import ChatMessage, MaskPolicy, Rewrite, WireError
from masking.edit import apply_to_list
from masking.model import Decision, Edits, places_masked, replacements_of
from masking.rewrite import Strategies, read_request
from tests.support.builders import (
    IMAGE,
    MASK_ALL,
    OLD,
    SECRET,
    assistant,
    call,
    documents,
    parts,
    policies,
    policy,
    result,
    turn,
    unanswered,
)
from tests.support.marks import as_one_test, thorough
from tests.support.priced import rewrite_request

CONVERSATION = [{"role": "user", "content": "go"}, *turn("a"), *turn("b"), *turn("a")]


def encode(messages: object, **others: object) -> bytes:
    return json.dumps({"model": "m", "messages": messages, **others}).encode()


def test_masks_the_old_results_and_says_what_was_decided() -> None:
    body = encode(CONVERSATION)
    found = rewrite_request(body, MASK_ALL)
    old = json.dumps(OLD).encode()
    assert (
        body.replace(old, b'"<a|shell|330>"', 1).replace(old, b'"<b|shell|330>"', 1) == found.body
    )
    assert [d.reason for d in found.decisions] == ["masked", "masked", "in_window"]
    assert (3, [d.result for d in found.decisions]) == (
        found.conversation.turns,
        [*found.conversation.results],
    )
    assert json.loads(body) == found.conversation.document


@as_one_test
@pytest.mark.parametrize(
    ("messages", "chosen"),
    [
        (CONVERSATION, policy(enabled=False)),
        (CONVERSATION, policy(window_turns=0)),
        (CONVERSATION, policy(window_turns=3)),
        (CONVERSATION, MaskPolicy()),
        ([], MASK_ALL),
        ([None, 1, "x", [], {}], MASK_ALL),
        ([*turn(content="timeout"), *unanswered()], policy(keep_errors=True)),
        ([*turn(content=[IMAGE]), *unanswered()], policy(mask_text_parts=True)),
        ([*turn(content=parts(OLD)), *unanswered()], MASK_ALL),
        ([*turn(content="<a|shell|1>"), *unanswered()], MASK_ALL),
        ([*turn(content="x"), *unanswered()], policy(skip_if_not_shorter=True)),
    ],
)
@pytest.mark.parametrize(
    "spelling", [b"%s", b" %s\n", b"\xef\xbb\xbf%s", b'{"x":NaN,%.0s"messages":[]}']
)
def test_where_nothing_is_masked_the_very_same_object_comes_back(
    messages: object, chosen: MaskPolicy, spelling: bytes
) -> None:
    body = spelling % encode(messages)
    assert body is rewrite_request(body, chosen).body


@as_one_test
@pytest.mark.parametrize(
    ("body", "path"),
    [
        (b"", "body"),
        (b"null", "body"),
        (b"[]", "body"),
        (b"17", "body"),
        (f'"{SECRET}"'.encode(), "body"),
        (f'["{SECRET}"]'.encode(), "body"),
        (f'[{{"messages":["{SECRET}"]}}]'.encode(), "body"),
        (b"{}", "body"),
        (f'{{"input":"{SECRET}"}}'.encode(), "body"),
        (f'{{"messages":"{SECRET}"}}'.encode(), "body.messages"),
        (f'{{"messages":{{"{SECRET}":[]}}}}'.encode(), "body.messages"),
        (b'{"messages":null}', "body.messages"),
        (b'{"messages":0.5}', "body.messages"),
        (b'{"messages":NaN}', "body.messages"),
        (b'{"messages":[],"messages":true}', "body.messages"),
        (encode(CONVERSATION)[:-2], "body"),
        (encode(CONVERSATION) + b"}", "body"),
        (encode(SECRET).decode().encode("utf-16"), "body"),
        (encode(CONVERSATION).replace(b"old", b"\xff\xfe"), "body"),
        (b"model=m&messages=" + SECRET.encode(), "body"),
        (b'{"messages":' + b"[" * 100_000 + b"]" * 100_000 + b"}", "body"),
    ],
    ids=lambda value: value[:24],
)
@pytest.mark.parametrize("chosen", [MASK_ALL, policy(enabled=False)], ids=["on", "off"])
def test_a_body_that_is_not_ours_is_an_error_that_repeats_nothing(
    body: bytes, path: str, chosen: MaskPolicy
) -> None:
    with pytest.raises(WireError) as caught:
        rewrite_request(body, chosen)
    assert path == caught.value.path
    assert SECRET not in str(caught.value)


@as_one_test
@pytest.mark.parametrize("beside", ["1", "NaN", "1e999", '"\\ud800"'])
@pytest.mark.parametrize("number", ["12345", "-0.5", "1e2", "NaN"])
def test_a_number_is_neither_a_content_nor_an_id(number: str, beside: str) -> None:
    later = '{"role":"assistant","tool_calls":[{"id":"z"}]}'
    for call_id, content, reason in (
        (f'"{number}"', number, "not_string"),
        (number, '"x"', "bad_id"),
    ):
        body = (
            f'{{"x":{beside},"messages":[{{"role":"assistant","tool_calls":[{{"id":{call_id}}}]}},'
            f'{{"role":"tool","tool_call_id":{call_id},"content":{content}}},{later}]}}'
        ).encode()
        found = rewrite_request(body, MASK_ALL)
        assert [reason] == [decision.reason for decision in found.decisions]
        assert body is found.body


def test_of_duplicate_messages_the_last_count() -> None:
    one = json.dumps([*turn(content="first"), *unanswered()])
    other = json.dumps([*turn(content="other"), *unanswered()])
    body = f'{{"messages":{one},"messages":{other}}}'.encode()
    assert body.replace(b'"other"', b'"<a|shell|5>"') == rewrite_request(body, MASK_ALL).body


def test_text_parts_of_one_result() -> None:
    body = encode([*turn(content=parts(OLD, "x", OLD + "é")), *unanswered()])
    old, longer = (json.dumps(text).encode() for text in (OLD, OLD + "é"))
    expected = body.replace(old, b'"<a|shell|330>"').replace(longer, b'"<a|shell|331>"')
    assert expected == rewrite_request(body, policy(mask_text_parts=True)).body


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (b'{"x":"-","messages":%b}', rb'"<\u00e9>"'),
        ('{"x":"é","messages":%b}'.encode(), '"<é>"'.encode()),
    ],
    ids=["ascii", "utf-8"],
)
def test_a_placeholder_is_spelled_as_its_body_is(body: bytes, expected: bytes) -> None:
    before = body % json.dumps([*turn(), *unanswered()]).encode()
    after = rewrite_request(before, policy(placeholder_template="<é>")).body
    assert before.replace(json.dumps(OLD).encode(), expected) == after


def test_the_same_text_in_a_kept_message_and_in_a_masked_one() -> None:
    messages = [
        {"role": "user", "content": OLD},
        assistant(call("a"), call("b")),
        result("elsewhere"),
        result("b"),
        *unanswered(),
        {"role": "user", "content": OLD},
    ]
    before, old = encode(messages), json.dumps(OLD).encode()
    pieces = before.split(old)
    expected = old.join(pieces[:3]) + b'"<b|shell|330>"' + old.join(pieces[3:])
    assert expected == rewrite_request(before, MASK_ALL).body


@pytest.mark.parametrize(
    "escape", ["x", thorough("\\u00e9"), "\\/"], ids=["plain", "ascii", "slashes"]
)
def test_fifty_megabytes(escape: str) -> None:
    size = 50_000_000 // len(escape)
    shape = json.dumps([*turn(content="OLD"), *unanswered()]).encode()
    before = b'{"messages":%b}' % shape.replace(b'"OLD"', b'"%b"' % (escape.encode() * size))
    expected = b'{"messages":%b}' % shape.replace(b'"OLD"', b'"<a|shell|%d>"' % size)
    assert (
        expected
        == rewrite_request(before, MaskPolicy(True, 1, True, 0, MASK_ALL.placeholder_template)).body
    )


def mask_only(body: bytes, only: frozenset[int] | None, chosen: MaskPolicy = MASK_ALL) -> Rewrite:
    return rewrite_request(read_request(body), Strategies(schema1=chosen), only=only)


HELD = encode([*turn("a"), result("orphan"), *turn("b"), *turn("c"), *turn("a")])
"""Of its five results the first, the third and the fourth are old."""


@as_one_test
@pytest.mark.parametrize(
    ("only", "expected"),
    [
        pytest.param(None, "masked orphan masked masked in_window", id="not held"),
        pytest.param({0, 2, 3}, "masked orphan masked masked in_window", id="all that are old"),
        pytest.param({0, 2}, "masked orphan masked held in_window", id="those masked so far"),
        pytest.param({2}, "held orphan masked held in_window", id="one in the middle"),
        pytest.param({1, 4, 9}, "held orphan held held in_window", id="none that is old"),
        pytest.param((), "held orphan held held in_window", id="none"),
    ],
)
def test_where_the_boundary_is_held_only_these_are_masked(
    only: set[int] | None, expected: str
) -> None:
    found = mask_only(HELD, None if only is None else frozenset(only))
    assert expected == " ".join(decision.reason for decision in found.decisions)
    old = json.dumps(OLD).encode()
    pieces = HELD.split(old)
    written = [
        f'"<{d.result.call_id}|shell|330>"'.encode() if d.reason == "masked" else old
        for d in found.decisions
    ]
    assert found.body == b"".join(a + b for a, b in zip(pieces, [*written, b""], strict=True))


def test_where_all_is_held_the_very_same_object_comes_back() -> None:
    assert HELD is mask_only(HELD, frozenset()).body


@pytest.mark.parametrize("chosen", [MASK_ALL, policy(cache_read_ratio=0.5)], ids=["slides", "not"])
def test_while_it_is_held_the_earlier_bytes_stand_still(chosen: MaskPolicy) -> None:
    messages: list[ChatMessage] = [{"role": "user", "content": "go"}]
    for number in range(6):
        messages += turn(f"call_{number}")
    held = places_masked(mask_only(encode(messages), None, chosen).decisions)
    before = mask_only(encode(messages), held, chosen).body.removesuffix(b"]}")
    for number in range(6, 12):
        messages += turn(f"call_{number}")
        after = mask_only(encode(messages), held, chosen)
        assert after.body.startswith(before)
        assert held == places_masked(after.decisions)
        before = after.body.removesuffix(b"]}")


@given(documents(), policies, st.none() | st.frozensets(st.integers(0, 8)))
def test_holding_only_ever_takes_away(
    document: dict[str, object], chosen: MaskPolicy, only: frozenset[int] | None
) -> None:
    body = json.dumps(document).encode()
    free, held = rewrite_request(body, chosen), mask_only(body, only, chosen)
    masked = places_masked(free.decisions)
    assert (masked if only is None else masked & only) == places_masked(held.decisions)
    for place, (one, other) in enumerate(zip(free.decisions, held.decisions, strict=True)):
        if place in masked and only is not None and place not in only:
            assert Decision(one.result, "held") == other
        else:
            assert one == other
    assert held.edits == Edits(replacements_of(held.decisions))
    expected = {**document, "messages": apply_to_list(held.conversation.items, held.edits)}
    assert repr(json.loads(json.dumps(expected))) == repr(json.loads(held.body))
