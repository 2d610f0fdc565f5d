"""What the log says where a masked request was refused, and sent as the agent wrote it."""

import pytest

from addon.metrics.resend_warnings import ResendWarnings
from tests.made_up_records import record


@pytest.mark.parametrize(
    ("resent", "expected"),
    [
        pytest.param(None, [], id="any other request"),
        pytest.param(
            "accepted",
            [
                "h refused a masked request to m (400), and took it as the agent wrote it: its "
                "conversation goes out whole until the proxy ends, or until resend_on_400 is "
                "switched off"
            ],
            id="taken whole",
        ),
        pytest.param(
            "refused",
            [
                "h refused a masked request to m (400), and did not take it as the agent wrote it "
                "either: masking goes on"
            ],
            id="not taken either",
        ),
    ],
)
def test_what_is_said(resent: str | None, expected: list[str]) -> None:
    assert expected == ResendWarnings().find(record(model="m", resent=resent))


def test_a_model_without_a_name_is_told_of() -> None:
    (line,) = ResendWarnings().find(record(resent="accepted"))
    assert line.startswith("h refused a masked request to a model (400)")


def test_each_is_said_once_for_each_host_and_model() -> None:
    warnings = ResendWarnings()
    records = [
        record(resent="accepted"),
        record(resent="accepted"),
        record(resent="refused"),
        record(resent="accepted", host="other"),
        record(resent="accepted", model="other"),
    ]
    assert [1, 0, 1, 1, 1] == [len(warnings.find(each)) for each in records]
