"""Chapter 14: long strings in the answers of MCP servers are cut to head and tail."""

import pytest

from masking.config import parse_settings
from masking.mcp import McpSettings, mask_payload_bytes
from tests.support.marks import as_one_test
from tests.support.payloads import mask_payload

POLICY = McpSettings(enabled=True, max_chars=300, head_chars=20, tail_chars=10)
LONG = "abcdefghij" * 100
CUT = (
    "abcdefghijabcdefghij"
    "\n... [KIMI_PROXY_OBSERVATION_MASKED original_chars=1000 head=20 tail=10] ...\n"
    "abcdefghij"
)


def answer(result: object, call_id: object = 1) -> dict[str, object]:
    return {"jsonrpc": "2.0", "id": call_id, "result": result}


def test_by_default_it_is_off_and_cuts_4000_to_2000_and_2000() -> None:
    policy = McpSettings()
    found = (policy.enabled, policy.max_chars, policy.head_chars, policy.tail_chars)
    assert (False, 4_000, 2_000, 2_000) == found
    settings = parse_settings(b"[observation_masking.mcp]\n")
    assert settings is not None
    assert not settings.mcp.enabled


def test_an_answer_before_and_after() -> None:
    body = '{ "jsonrpc": "2.0", "id": 7.0, "result": {"text":\t"%s", "n": 1e2} }'
    found = mask_payload_bytes((body % LONG).encode(), POLICY)
    assert body % CUT.replace("\n", "\\n") == found.body.decode()


@as_one_test
@pytest.mark.parametrize(
    "policy",
    [
        McpSettings(enabled=False, max_chars=300),
        McpSettings(enabled=True, max_chars=0),
        McpSettings(enabled=True, max_chars=-1),
        McpSettings(enabled=True, max_chars=1_000, head_chars=1, tail_chars=1),
        McpSettings(enabled=True, max_chars=300, head_chars=500, tail_chars=500),
    ],
    ids=["off", "0 is off", "less is off", "it is not longer", "it would not get shorter"],
)
def test_the_very_same_answer_comes_back_if_nothing_is_cut(policy: McpSettings) -> None:
    value = answer(LONG)
    assert value is mask_payload(value, policy)


def test_strings_at_any_depth_are_cut_and_keys_are_not() -> None:
    value = answer({LONG: [{"text": LONG}, "short", LONG, None, 5]})
    assert answer({LONG: [{"text": CUT}, "short", CUT, None, 5]}) == mask_payload(value, POLICY)


def test_of_an_error_its_data_alone_is_cut() -> None:
    error = {"code": -32000, "message": LONG, "data": {"log": LONG}}
    expected = {"code": -32000, "message": LONG, "data": {"log": CUT}}
    value = {"jsonrpc": "2.0", "id": 1, "error": error}
    assert value | {"error": expected} == mask_payload(value, POLICY)


def test_a_batch_is_handled_element_by_element() -> None:
    batch = [answer(LONG), {"jsonrpc": "2.0", "method": "log", "params": LONG}, answer("ok", 2)]
    assert [answer(CUT), *batch[1:]] == mask_payload(batch, POLICY)


@as_one_test
@pytest.mark.parametrize(
    "message",
    [
        pytest.param(answer({"data": LONG, "mimeType": "image/png"}), id="an image"),
        pytest.param(answer({"blob": LONG, "mimeType": "application/pdf"}), id="a file"),
        pytest.param(answer({"nextCursor": LONG}), id="a cursor"),
        pytest.param(answer({"uri": LONG}), id="an address"),
        pytest.param(answer({"text": f"https://example.org/{LONG}"}), id="a text that is one"),
        pytest.param(answer({"taskId": LONG}), id="an id"),
        pytest.param(answer("ok", LONG), id="the id of the message"),
        pytest.param(answer({"tools": [{"name": "t", "inputSchema": {"d": LONG}}]}), id="tools"),
        pytest.param({"jsonrpc": "2.0", "id": 1, "method": "m", "params": LONG}, id="a request"),
        pytest.param({"id": 1, "result": LONG}, id="no JSON-RPC 2.0"),
    ],
)
def test_what_a_program_needs_whole_is_never_cut(message: object) -> None:
    assert message is mask_payload(message, POLICY)


def test_the_answer_to_tools_list_is_never_cut_whatever_it_looks_like() -> None:
    value = answer({"text": LONG})
    assert value is mask_payload(value, POLICY, {1: "tools/list"})
    assert value is not mask_payload(value, POLICY, {1: "tools/call"})
