"""Which masked requests may go out as the client wrote them."""

import json
from typing import Any

import pytest

from addon.attempts import may_go_unmasked
from masking.reduction import ReductionOptions
from masking.rewrite import Rewrite, Step, Strategies, read_request
from masking.window import MaskPolicy
from masking.wire.responses import RESPONSES
from tests.support.marks import as_one_test
from tests.support.priced import rewrite_request

POLICY = MaskPolicy(True, 1, bound_reasoning="drop")
REDUCTION = ReductionOptions(enabled=True, max_input_chars=100, preserve_recent_raw_turns=1)
REASONING = {"type": "reasoning", "encrypted_content": "x", "summary": []}
BINDS, FREE = "gpt-5.6", "gpt-4o"


def turn(number: int) -> list[dict[str, Any]]:
    call = {"type": "function_call", "call_id": f"c{number}", "name": "shell", "arguments": "{}"}
    output = {"type": "function_call_output", "call_id": f"c{number}", "output": "word " * 100}
    return [call, output]


def rewrite(model: str, *items: dict[str, Any], strategies: Strategies | None = None) -> Rewrite:
    """Mask a request of three turns with some items in it after the first."""
    user = {"type": "message", "role": "user", "content": "Go."}
    body = {"model": model, "input": [user, *turn(0), *items, *turn(1), *turn(2)]}
    encoded = json.dumps(body).encode()
    conversation = read_request(encoded, RESPONSES)
    return rewrite_request(conversation, strategies or Strategies(schema1=POLICY))


@as_one_test
@pytest.mark.parametrize(
    ("model", "items", "window", "expected"),
    [
        pytest.param(FREE, [], None, True, id="the window is not known"),
        pytest.param(FREE, [], 100_000, True, id="it fits"),
        pytest.param(FREE, [], 100, False, id="it does not fit"),
        pytest.param(FREE, [REASONING], None, True, id="reasoning is not bound"),
        pytest.param(BINDS, [], None, True, id="there is no reasoning"),
        pytest.param(BINDS, [REASONING], None, False, id="reasoning follows what is masked"),
    ],
)
def test_what_may_go_unmasked(
    model: str, items: list[dict[str, Any]], window: int | None, expected: bool
) -> None:
    masked = rewrite(model, *items)
    assert (2, expected) == (len(masked.masked), may_go_unmasked(masked, window))


def test_reasoning_that_follows_what_is_dropped_is_bound_as_well() -> None:
    dropping = Strategies(schema1=MaskPolicy(bound_reasoning="drop"), reduction=REDUCTION)
    reduced = rewrite(BINDS, REASONING, strategies=dropping)
    assert (True, False) == (bool(reduced.edits.dropped), may_go_unmasked(reduced, None))


def test_reasoning_before_all_that_is_masked_is_bound_to_none_of_it() -> None:
    body = json.dumps({"model": BINDS, "input": [REASONING, *turn(0), *turn(1)]}).encode()
    masked = rewrite_request(read_request(body, RESPONSES), Strategies(schema1=POLICY))
    assert (1, True) == (len(masked.masked), may_go_unmasked(masked, None))


def test_what_goes_unmasked_says_why_each_result_stays() -> None:
    body = json.dumps({"model": FREE, "input": [*turn(0), *turn(1)]}).encode()
    whole = Step(read_request(body, RESPONSES), Strategies()).leave_unmasked()
    assert whole.body is body
    assert ["refused"] * 2 == [decision.reason for decision in whole.decisions]
