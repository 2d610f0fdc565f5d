"""Chapter 1: every byte outside a replaced string is the client's.

The promise that stands above all others. It is proven for each request before it leaves; and for
made-up and recorded ones by `tests/masking/test_splice.py` and the fuzzer,
`tests.tools.benchmarks.fuzz`.
"""

import json

import pytest

from masking import MaskPolicy, find_format
from masking.request_cache import RequestCache
from tests.spec.talk import OUTPUT, SHORT, mask, reasons
from tests.support.marks import as_one_test
from tests.support.priced import rewrite_request
from tests.support.wire_conversations import IN_EVERY_FORMAT, Told, User, Writer, turn, turns

# A Chat Completions request as an agent might write it, after its third turn.
CHAT_BEFORE = r"""{
 "model": "gpt-4o", "temperature": 1.00, "temperature": 5e-1,
 "messages": [
  {"role": "user", "content": "When is the caf\u00e9 open?"},
  {"role": "assistant", "content": null, "tool_calls": [
   {"id": "call_1", "type": "function",
    "function": {"name": "read", "arguments": "{\"path\": \"hours.txt\"}"}}]},
  {"role": "tool", "tool_call_id": "call_1", "content": "Mo closed\nTu-Fr 9-17\nSa 9-12"},
  {"role": "assistant", "content": null, "tool_calls": [
   {"id": "call_2", "type": "function",
    "function": {"name": "read", "arguments": "{\"path\": \"holidays.txt\"}"}}]},
  {"content": "Closed on May 1.", "tool_call_id": "call_2", "role": "tool"}
 ]
}"""

# The window keeps the last turn. One string is another one; nothing else is.
CHAT_AFTER = r"""{
 "model": "gpt-4o", "temperature": 1.00, "temperature": 5e-1,
 "messages": [
  {"role": "user", "content": "When is the caf\u00e9 open?"},
  {"role": "assistant", "content": null, "tool_calls": [
   {"id": "call_1", "type": "function",
    "function": {"name": "read", "arguments": "{\"path\": \"hours.txt\"}"}}]},
  {"role": "tool", "tool_call_id": "call_1", "content": "<call_1 read 28>"},
  {"role": "assistant", "content": null, "tool_calls": [
   {"id": "call_2", "type": "function",
    "function": {"name": "read", "arguments": "{\"path\": \"holidays.txt\"}"}}]},
  {"content": "Closed on May 1.", "tool_call_id": "call_2", "role": "tool"}
 ]
}"""

# The same in Anthropic's format, where results stand in what the user says.
MESSAGES_BEFORE = r"""{"messages":[
{"role":"user","content":"When is the café open?"},
{"role":"assistant","content":[{"type":"tool_use","id":"t1","name":"read","input":{"n":1.0}}]},
{"role":"user","content":[
 {"type":"tool_result","tool_use_id":"t1","content":"Mo closed\nTu-Fr 9-17\nSa 9-12"},
 {"type":"text","text":"Mo closed\nTu-Fr 9-17\nSa 9-12"}]},
{"role":"assistant","content":[{"type":"tool_use","id":"t2","name":"read","input":{}}]},
{"role":"user","content":[{"type":"tool_result","tool_use_id":"t2","content":"Never."}]}
],"max_tokens":1024,"model":"claude-sonnet-4-5"}"""

MESSAGES_AFTER = r"""{"messages":[
{"role":"user","content":"When is the café open?"},
{"role":"assistant","content":[{"type":"tool_use","id":"t1","name":"read","input":{"n":1.0}}]},
{"role":"user","content":[
 {"type":"tool_result","tool_use_id":"t1","content":"<t1 read 28>"},
 {"type":"text","text":"Mo closed\nTu-Fr 9-17\nSa 9-12"}]},
{"role":"assistant","content":[{"type":"tool_use","id":"t2","name":"read","input":{}}]},
{"role":"user","content":[{"type":"tool_result","tool_use_id":"t2","content":"Never."}]}
],"max_tokens":1024,"model":"claude-sonnet-4-5"}"""


@pytest.mark.parametrize(
    ("path", "before", "after"),
    [
        pytest.param("/v1/chat/completions", CHAT_BEFORE, CHAT_AFTER, id="chat"),
        pytest.param("/v1/messages", MESSAGES_BEFORE, MESSAGES_AFTER, id="messages"),
    ],
)
def test_a_request_before_and_after(path: str, before: str, after: str) -> None:
    match = find_format("POST", path)
    assert match is not None
    assert after == rewrite_request(before.encode(), SHORT, match.wire, path).body.decode()


THREE_TURNS = (User("Go."), *turn("a", OUTPUT), *turn("b", OUTPUT), *turn("c", OUTPUT))


@as_one_test
@IN_EVERY_FORMAT
def test_every_byte_outside_the_replaced_strings_is_the_clients(writer: Writer) -> None:
    told = writer.tell(*THREE_TURNS)
    ids = ("a", "b") if writer.has_ids else ("", "")
    expected = told.body.decode()
    for call_id in ids:  # the third stays
        expected = expected.replace(json.dumps(OUTPUT), f'"<{call_id} shell 600>"', 1)
    assert expected == mask(told, SHORT).body.decode()


@as_one_test
@IN_EVERY_FORMAT
def test_an_equal_text_beside_the_result_stays(writer: Writer) -> None:
    """The bytes to be cut are proven to be the result's own, not the first that look like them."""
    items = [{"note": OUTPUT, **item} for item in writer.tell(*THREE_TURNS).items]  # type: ignore[dict-item]
    told = Told(writer, items)
    after = json.loads(mask(told, SHORT).body)
    for step in told.read().list_path:
        after = after[step]
    assert [OUTPUT] * len(items) == [item["note"] for item in after]
    assert items != after


@pytest.mark.parametrize("ascii_only", [True, False], ids=["escaped", "not escaped"])
def test_a_placeholder_is_spelled_as_the_client_spells_its_texts(ascii_only: bool) -> None:
    """Escaped to ASCII if all of the body is, else not."""
    policy = MaskPolicy(True, 1)  # whose placeholder is French
    body = CHAT_BEFORE if ascii_only else CHAT_BEFORE.replace(r"\u00e9", "é")
    after = rewrite_request(body.encode(), policy).body.decode()
    assert (r"masqu\u00e9e" in after, "masquée" in after) == (ascii_only, not ascii_only)


@as_one_test
@IN_EVERY_FORMAT
def test_if_nothing_is_masked_the_bytes_are_the_very_same(writer: Writer) -> None:
    told = writer.tell(User(), *turn("a", OUTPUT))
    body = told.body
    assert body is rewrite_request(body, SHORT, told.wire, writer.path).body


@as_one_test
@IN_EVERY_FORMAT
def test_no_message_is_added_removed_or_moved_and_no_call_changes(writer: Writer) -> None:
    told = writer.tell(*THREE_TURNS)
    before = told.read()
    after = RequestCache().read(mask(told, SHORT).body, told.wire, writer.path)
    assert len(before.elements) == len(after.elements)
    assert [e._replace(results=()) for e in before.elements] == [
        e._replace(results=()) for e in after.elements
    ]
    assert [(r.call_id, r.element) for r in before.results] == [
        (r.call_id, r.element) for r in after.results
    ]


@as_one_test
@IN_EVERY_FORMAT
def test_a_process_that_remembers_what_it_has_read_sends_the_same_bytes(writer: Writer) -> None:
    """A request is read faster the second time; a restart or a second replica changes nothing."""
    cache = RequestCache()
    for count in range(5):
        told = writer.tell(*THREE_TURNS, *turns(count))
        read = cache.read(told.body, told.wire, writer.path)
        assert mask(told, SHORT).body == rewrite_request(read, SHORT).body


def test_an_element_that_no_format_knows_is_passed_over() -> None:
    odd: list[object] = [
        None,
        3,
        "text",
        [],
        {"role": "critic", "content": OUTPUT},
        {"role": "tool"},
    ]
    document = json.loads(CHAT_BEFORE)
    document["messages"][1:1] = odd
    rewrite = rewrite_request(json.dumps(document).encode(), SHORT)
    assert odd == json.loads(rewrite.body)["messages"][1 : 1 + len(odd)]
    assert ["bad_id", "masked", "in_window"] == reasons(rewrite)
