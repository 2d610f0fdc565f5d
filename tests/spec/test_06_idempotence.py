"""Chapter 6: what is masked twice is masked once."""

from dataclasses import replace

import pytest

from masking import (
    MaskPolicy,
    RedactionPolicy,
    ReductionOptions,
    mask_old_tool_results,
    redact_tool_results,
    reduce_history,
    rewrite_request,
)
from masking.mcp import McpSettings
from tests.spec.talk import CACHED, IN_FORMATS_WITH_LISTS, OUTPUT, SHORT, mask, reasons, requests
from tests.support.builders import assistant, call, parts
from tests.support.builders import turn as chat_turn
from tests.support.marks import as_one_test
from tests.support.payloads import mask_payload
from tests.support.wire_conversations import (
    IN_EVERY_FORMAT,
    Ask,
    Give,
    Model,
    Tools,
    User,
    Writer,
    turn,
    turns,
)

GROWS = replace(SHORT, placeholder_template="{original_chars} characters, long ago " * 20)
LATER = assistant(call("later"))


@as_one_test
@IN_EVERY_FORMAT
@pytest.mark.parametrize(
    "policy",
    [
        pytest.param(SHORT, id="a short template"),
        pytest.param(MaskPolicy(True, 1), id="the library's template"),
        pytest.param(GROWS, id="a template that is longer than the results"),
        pytest.param(replace(SHORT, placeholder_template="{recall} {arguments}"), id="recall"),
        pytest.param(replace(SHORT, skip_if_not_shorter=True, mask_text_parts=True), id="shipped"),
    ],
)
def test_masking_twice_is_masking_once(writer: Writer, policy: MaskPolicy) -> None:
    told = writer.tell(User(), *turn("a", OUTPUT), *turn("b", "ok"), *turn("c", OUTPUT))
    once = mask(told, policy).body
    assert once != told.body
    assert once is rewrite_request(once, policy, told.wire, writer.path).body


@IN_FORMATS_WITH_LISTS
def test_masking_a_list_twice_is_masking_it_once(writer: Writer) -> None:
    said = (Model((Ask("a"),)), Tools((Give("a", (OUTPUT, OUTPUT)),)), *turns(1))
    policy = replace(SHORT, mask_text_parts=True)
    once = mask(writer.tell(User(), *said), policy).body
    assert once is rewrite_request(once, policy, writer.wire, writer.path).body


@as_one_test
@IN_EVERY_FORMAT
def test_where_the_cache_has_a_price_masking_twice_is_masking_once(writer: Writer) -> None:
    """The prices are those of the window alone, so that only the placeholders can say so."""
    (*_, told) = requests(writer, 12)
    once = mask(told, SHORT, CACHED).body
    assert once != told.body
    assert once is rewrite_request(once, SHORT, told.wire, writer.path, CACHED).body


@as_one_test
@pytest.mark.parametrize(
    ("content", "expected"),
    [
        pytest.param("<a shell 7>", "already_masked", id="its own"),
        pytest.param("<a shell 123456>", "already_masked", id="with any number"),
        pytest.param("<b shell 7>", "masked", id="of another id"),
        pytest.param("<a read 7>", "masked", id="of another tool"),
        pytest.param("<a shell many>", "masked", id="without a number"),
        pytest.param("<a shell 7> and more", "masked", id="and more"),
        pytest.param(" <a shell 7>", "masked", id="after a blank"),
    ],
)
def test_a_text_that_the_template_could_have_rendered_for_this_result_is_left_alone(
    content: str, expected: str
) -> None:
    messages = [*chat_turn("a", content), LATER]
    assert (expected == "masked") == (mask_old_tool_results(messages, SHORT) is not messages)


def test_a_list_of_placeholders_is_left_alone() -> None:
    messages = [*chat_turn("a", parts("<a shell 7>", "<a shell 9>")), LATER]
    assert messages is mask_old_tool_results(messages, replace(SHORT, mask_text_parts=True))


@as_one_test
@IN_EVERY_FORMAT
def test_a_request_in_which_results_are_masked_already_masks_the_others(writer: Writer) -> None:
    """As where two proxies stand in a row, or an agent resumes what it was shown."""
    call_id = "a" if writer.has_ids else ""
    told = writer.tell(User(), *turn("a", f"<{call_id} shell 600>"), *turn("b", OUTPUT), *turns(1))
    assert ["already_masked", "masked", "in_window"] == reasons(mask(told, SHORT))


def test_redacting_twice_is_redacting_once() -> None:
    policy = RedactionPolicy(True, ("shell",))
    once = redact_tool_results(
        [*chat_turn("a", OUTPUT), {"role": "assistant", "content": "Done."}], policy
    )
    assert once is redact_tool_results(once, policy)


def test_reducing_twice_is_reducing_once() -> None:
    options = ReductionOptions(enabled=True, max_input_chars=900, preserve_recent_raw_turns=2)
    messages = [*chat_turn("a", OUTPUT), *chat_turn("b", OUTPUT)]
    once = reduce_history(messages, options)
    assert ("masking", 1) == (once.reduction_stage, once.masked_count)
    assert once.messages is reduce_history(once.messages, options).messages


def test_cutting_an_answer_of_an_mcp_server_twice_is_cutting_it_once() -> None:
    policy = McpSettings(enabled=True, max_chars=100, head_chars=40, tail_chars=40)
    once = mask_payload({"jsonrpc": "2.0", "id": 1, "result": OUTPUT}, policy)
    assert once is mask_payload(once, policy)
