"""What the log says, once, of a conversation that no longer fits its model without masking."""

import pytest

from addon.metrics.window_warnings import WindowWarnings
from tests.made_up_records import record

GREW: dict[str, object] = {
    "model": "m",
    "model_window_tokens": 200_000,
    "fits_unmasked": False,
    "masked": 3,
    "conversation": 2,
    "conversation_id": "a",
}


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        pytest.param({}, "h: conversation 2 no longer fits the 200,000 tokens of m", id="masked"),
        pytest.param(
            {"conversation": None, "model": None, "masked": 0, "dropped": 1},
            "h: a conversation no longer fits the 200,000 tokens of its model",
            id="reduced, and not entered",
        ),
        pytest.param({"masked": 0}, None, id="nothing was masked"),
        pytest.param({"masking": "observed"}, None, id="it was observed only"),
        pytest.param({"fits_unmasked": True}, None, id="it fits"),
        pytest.param({"fits_unmasked": None}, None, id="nobody knows"),
        pytest.param({"conversation_id": None}, None, id="of no known conversation"),
    ],
)
def test_what_is_said(fields: dict[str, object], expected: str | None) -> None:
    said = WindowWarnings().find(record(**{**GREW, **fields}))
    end = " without masking: switch masking off only after the agent has made a summary (/compact)"
    assert ([] if expected is None else [expected + end]) == said


def test_it_is_said_once_for_each_conversation() -> None:
    warnings = WindowWarnings()
    ids = ["a", "a", "b", "a"]
    assert [1, 0, 1, 0] == [
        len(warnings.find(record(**{**GREW, "conversation_id": each}))) for each in ids
    ]
