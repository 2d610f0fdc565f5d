"""What the log says where nothing is masked, once for each host and model."""

import pytest

from addon.metrics.advice import Advice
from addon.metrics.record import RequestRecord
from addon.metrics.untouched_warnings import UntouchedWarnings

SIGNED: dict[str, object] = {"passed_through": "signed (cch)"}
REFUSES: dict[str, object] = {"binding": "refuses", "kept": {"bound": 3}}
DROPS: dict[str, object] = {"binding": "drops", "kept": {"bound": 1, "error": 1}}


def answered(fields: dict[str, object], host: str = "h", model: str = "m") -> RequestRecord:
    least = {"time": "2026-01-01", "path": "/p", "masking": "on", "host": host, "model": model}
    return RequestRecord.model_validate({**least, **fields})


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        pytest.param(
            SIGNED, ["to h,", "obsmask run -- claude", "PORT/to/https/h"], id="a signed body"
        ),
        pytest.param(REFUSES, ["h: m binds", "would be refused"], id="refused"),
        pytest.param(
            DROPS, ["h: m loses", "obsmask config set schema1.bound_reasoning=drop"], id="dropped"
        ),
        pytest.param({"binding": "refuses", "kept": {"held": 3}}, [], id="nothing is bound"),
        pytest.param({"binding": "drops"}, [], id="nothing was measured"),
        pytest.param({"passed_through": "signed"}, [], id="signed by another"),
        pytest.param({"kept": {"error": 3}}, [], id="any other request"),
    ],
)
def test_what_is_said(fields: dict[str, object], words: list[str]) -> None:
    lines = UntouchedWarnings().find(answered(fields), Advice())
    assert len(lines) == bool(words)
    assert all(word in lines[0] for word in words)


def test_a_user_is_not_led_to_a_setting_that_would_not_help() -> None:
    (line,) = UntouchedWarnings().find(answered(REFUSES), Advice())
    assert "bound_reasoning" not in line


def test_each_is_said_once_for_each_host_and_model() -> None:
    warnings = UntouchedWarnings()
    records = [
        answered(REFUSES),
        answered(REFUSES),
        answered(DROPS),
        answered(REFUSES, host="other"),
        answered(REFUSES, model="other"),
        answered(SIGNED),
        answered(SIGNED),
    ]
    assert [len(warnings.find(record, Advice())) for record in records] == [1, 0, 1, 1, 1, 1, 0]
