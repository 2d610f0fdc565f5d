"""The line that says what some requests come to."""

import pytest

from addon.metrics.held import HELD
from addon.metrics.tally_line import find_why_untouched, render_tally
from tests.made_up_records import UNPRICED, bill, tally

SIZES = {"request_tokens_before": 1_844_335, "request_tokens_after": 1_204_113}
MASKED = {"tool_results": 9, "masked": 4, **SIZES}
WHOLE = {"tool_results": 9, "request_tokens_before": 1_000, "request_tokens_after": 1_000}


@pytest.mark.parametrize(
    ("records", "expected"),
    [
        pytest.param([], "0 requests", id="none"),
        pytest.param(
            [MASKED | bill(4.21, 3.2799, 0.04), {"status": 500, "masked": 1}],
            "2 requests, 1 failed, 1,204,113 tokens sent, 640,222 not sent (-35%), "
            "$0.9301 of $4.2100 saved (22% ±1)",
            id="a saving",
        ),
        pytest.param(
            [MASKED | bill(4.21, 3.2799, subscription=True)],
            "1 request, 1,204,113 tokens sent, 640,222 not sent (-35%), "
            "$0.9301 of $4.2100 saved (22%, at API prices)",
            id="on a subscription",
        ),
        pytest.param(
            [MASKED | bill(400, 300, 8)],
            "1 request, 1,204,113 tokens sent, 640,222 not sent (-35%), "
            "$100.00 of $400.00 saved (25% ±2)",
            id="many dollars",
        ),
        pytest.param(
            [MASKED | bill(4, 5, 0.4)],
            "1 request, 1,204,113 tokens sent, 640,222 not sent (-35%), "
            "$1.0000 lost on $4.0000 (25% ±10)",
            id="a loss",
        ),
        pytest.param(
            [MASKED | bill(4, 3.9, 0.4)],
            "1 request, 1,204,113 tokens sent, 640,222 not sent (-35%), "
            "cost $3.9000, about as unmasked",
            id="no more than the margin of error",
        ),
        pytest.param(
            [MASKED | bill(4, 3.9, 0.4, subscription=True)],
            "1 request, 1,204,113 tokens sent, 640,222 not sent (-35%), "
            "cost $3.9000, about as unmasked (at API prices)",
            id="the same on a subscription",
        ),
        pytest.param(
            [MASKED | bill(5_000, 4_000, 100) | UNPRICED],
            "1 request, 1,204,113 tokens sent, 640,222 not sent (-35%), "
            "1,000 of 5,000 input tokens saved (20% ±2, no price is known)",
            id="in tokens where no price is known",
        ),
        pytest.param(
            [MASKED | bill(4, 3), bill(9, 9) | UNPRICED],
            "2 requests, 1,204,113 tokens sent, 640,222 not sent (-35%), "
            "$1.0000 of $4.0000 saved (25%), no price known for 1 request",
            id="where some prices are known",
        ),
        pytest.param(
            [{"masked": 4, "tool_results": 9}],
            "1 request",
            id="nothing was counted",
        ),
        pytest.param(
            [WHOLE | bill(4, 4) | {"kept": {"held": 3, "in_window": 6}}],
            "1 request, 1,000 tokens sent, cost $4.0000, nothing masked, because moving the "
            "boundary does not pay yet",
            id="nothing was masked",
        ),
    ],
)
def test_the_line_tells(records: list[dict[str, object]], expected: str) -> None:
    assert expected == render_tally(tally(*records))


OBSERVED = {"masking": "observed", "tool_results": 5, "masked": 3,
            "request_tokens_before": 1_000, "request_tokens_after": 400}  # fmt: skip


@pytest.mark.parametrize(
    ("records", "expected"),
    [
        pytest.param(
            [OBSERVED | bill(4, 3, 0.1)],
            "1 request, 1,000 tokens sent, cost $4.0000, observed: masking would have left out 600 "
            "of 1,000 tokens (-60%) and saved $1.0000 of $4.0000 (25% ±2)",
            id="a saving",
        ),
        pytest.param(
            [OBSERVED | bill(3, 4, 0.1, subscription=True)],
            "1 request, 1,000 tokens sent, cost $3.0000 (at API prices), observed: masking would "
            "have left out 600 of 1,000 tokens (-60%) and lost $1.0000 on $3.0000 "
            "(33% ±3, at API prices)",
            id="a loss",
        ),
        pytest.param(
            [OBSERVED | bill(4, 3, 2) | UNPRICED],
            "1 request, 1,000 tokens sent, observed: masking would have left out 600 of 1,000 "
            "tokens (-60%) and cost about as much, 4 input tokens (no price is known)",
            id="no known price, and a margin as large as the saving",
        ),
        pytest.param(
            [OBSERVED | {"request_tokens_before": None, "request_tokens_after": None}],
            "1 request, observed: masking would have masked tool results",
            id="nothing was counted",
        ),
        pytest.param(
            [OBSERVED | {"masked": 0, "kept": {"held": 5}}],
            "1 request, 1,000 tokens sent, observed: masking would have changed nothing, because "
            "moving the boundary does not pay yet",
            id="nothing would have been masked",
        ),
        pytest.param(
            [
                OBSERVED | {"masked": 0, "tool_results": 0},
                *[{"masking": "observed", "passed_through": "the provider holds the history"}] * 2,
            ],
            "3 requests, 1,000 tokens sent, observed: masking would have changed nothing, because "
            "2 of 3 requests passed through untouched: the provider holds the history",
            id="most would have passed through",
        ),
        pytest.param(
            [OBSERVED | {"group": "holdout"}, OBSERVED | {"masking": "on"}],
            "2 requests, 1,400 tokens sent, 600 not sent (-30%), observed: masking would have left "
            "out 600 of 1,000 tokens (-60%)",
            id="one that is held out, and one that is masked",
        ),
    ],
)
def test_what_is_observed_is_told_apart(records: list[dict[str, object]], expected: str) -> None:
    assert expected == render_tally(tally(*records))


SIGNED = {"passed_through": "signed (cch)"}


@pytest.mark.parametrize(
    ("records", "because", "setting"),
    [
        pytest.param(
            [SIGNED, WHOLE, {"masking": "off"}],
            "claude-code signs what it sends",
            "obsmask run -- claude",
            id="claude-code, whose small requests are not signed",
        ),
        pytest.param(
            [SIGNED | {"binding": "refuses"}, SIGNED | {"binding": "refuses"}, SIGNED],
            "claude-code signs what it sends, and the model binds its reasoning to all that "
            "precedes it",
            None,
            id="claude-code with a model that binds its reasoning",
        ),
        pytest.param(
            [SIGNED | {"binding": "refuses"}, SIGNED],
            "claude-code signs what it sends",
            "obsmask run -- claude",
            id="claude-code with two models, one of which binds its reasoning",
        ),
        pytest.param(
            [{"passed_through": HELD["pass"], "binding": "drops"}],
            "the provider holds the history of the agent's WebSocket, and the model would lose "
            "its reasoning",
            "obsmask config set websocket.mode=auto, with obsmask config set "
            "schema1.bound_reasoning=drop,",
            id="codex that is left alone, with reasoning that a setting gives up",
        ),
        pytest.param(
            [{"passed_through": HELD["bound"], "binding": "drops"}],
            "the model would lose its reasoning",
            "obsmask config set schema1.bound_reasoning=drop",
            id="codex with reasoning that a setting gives up",
        ),
        pytest.param(
            [{"passed_through": HELD["unmasked"], "masking": "observed"}],
            "the provider holds the history of the agent's WebSocket, which stays open unless "
            "masking is on",
            None,
            id="codex that is only observed",
        ),
        pytest.param(
            [{"passed_through": HELD["unknown"]}],
            "the provider holds the history of the agent's WebSocket",
            "obsmask config set websocket.mode=http",
            id="a client that nobody has tried",
        ),
        pytest.param(
            [{"passed_through": "no JSON", "binding": "drops"}],
            "every request passed through untouched: no JSON",
            None,
            id="what no setting changes, whatever is bound",
        ),
        pytest.param(
            [SIGNED, {"passed_through": HELD["pass"]}, {"passed_through": HELD["pass"]}],
            "the provider holds the history of the agent's WebSocket",
            "obsmask config set websocket.mode=auto",
            id="codex, more often than claude-code",
        ),
        pytest.param(
            [WHOLE | {"binding": "drops", "kept": {"bound": 1, "held": 2}}],
            "the model would lose its reasoning",
            "obsmask config set schema1.bound_reasoning=drop",
            id="reasoning that a setting gives up",
        ),
        pytest.param(
            [WHOLE | {"binding": "refuses", "kept": {"bound": 1, "held": 2}}],
            "the model binds its reasoning to all that precedes it",
            None,
            id="reasoning that no setting gives up",
        ),
        pytest.param([{"masking": "off"}], "masking is off", None, id="masking is off"),
        pytest.param(
            [{"masking": "observed"}], "masking is only observed", None, id="all is observed"
        ),
        pytest.param(
            [{"passed_through": "signed\x1b"}, {"passed_through": "signed\x1b"}],
            "every request passed through untouched: signed\ufffd",
            None,
            id="all passed through",
        ),
        pytest.param(
            [{"tool_results": 0}, *[{"passed_through": "the provider holds the history"}] * 18],
            "18 of 19 requests passed through untouched: the provider holds the history",
            None,
            id="all passed through but the first",
        ),
        pytest.param(
            [WHOLE | {"kept": {"in_window": 9}}, *[{"passed_through": "signed\x1b"}] * 2],
            "2 of 3 requests passed through untouched: signed\ufffd",
            None,
            id="most passed through",
        ),
        pytest.param(
            [{"passed_through": "signed"}, {"tool_results": 0}],
            "no request held a tool result",
            None,
            id="nothing to mask",
        ),
        pytest.param(
            [WHOLE | {"kept": {"in_window": 9}}],
            "no tool result is older than the window",
            None,
            id="a short session",
        ),
        pytest.param(
            [WHOLE | {"kept": {"in_window": 9, "error": 2, "last_k": 1}}],
            "the older tool results look like errors",
            "obsmask config set schema1.keep_errors=false",
            id="nothing but errors",
        ),
        pytest.param(
            [WHOLE | {"kept": {"invented_later": 2}}],
            "the older tool results stay: invented_later",
            None,
            id="a reason of a newer version",
        ),
    ],
)
def test_it_is_told_why_nothing_was_masked(
    records: list[dict[str, object]], because: str, setting: str | None
) -> None:
    found = find_why_untouched(tally(*records))
    assert (because, setting) == found
    assert str(found) == f"nothing masked, because {because}" + (
        "" if setting is None else f"; {setting} changes that"
    )
