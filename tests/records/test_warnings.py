"""What the log says besides a request's own line: each warning once for its key."""

import logging
from collections.abc import Mapping

import pytest

from addon.config_commands import Advice
from addon.once import Once
from addon.records.advice import WARNINGS, RedactionTrace, Warnings
from addon.records.build import describe_pricing
from addon.records.record import RequestRecord
from masking.prices import PriceSettings, find_pricing
from masking.redaction import Redactions
from tests.masking.test_redaction import ANSWER, SYSTEM, decide, streamed
from tests.support.builders import IMAGE, SECRET, assistant, call, parts, result, unanswered
from tests.support.made_up_records import record
from tests.support.marks import as_one_test


def test_each_has_a_name_of_its_own() -> None:
    assert len(WARNINGS) == len({each.name for each in WARNINGS})


def test_what_came_up_last_is_remembered() -> None:
    once = Once(2)
    assert [True, True, False, True, False, True] == list(map(once.is_first, "abacab"))


# Every sentence


SHORTENS = (
    "Long results can be shortened all the same: obsmask run --shorten, or obsmask config set "
    "arrival.enabled=true (undo: obsmask config unset arrival.enabled)."
)
DROPS_IT = (
    "obsmask config set schema1.bound_reasoning=drop (undo: obsmask config unset "
    "schema1.bound_reasoning)"
)

SAID: Mapping[str, tuple[Mapping[str, object], int, list[str]]] = {
    "prices assumed": (
        {"price_source": "assumed", "price_read_ratio": 0.1, "price_write_ratio": 1.25},
        1,
        [
            "no price of cached tokens is known for a request without a model at h: "
            "assumed 0.1 of a plain token's, and 1.25 for a written one. If that is "
            "wrong, set your own, with other numbers: obsmask config add 'prices={ host ="
            ' "h", read = 0.1, write = 1.25 }\'',
        ],
    ),
    "prices assumed for a model of another seller": (
        {
            "price_source": "assumed",
            "price_read_ratio": 0.1,
            "price_write_ratio": 1.25,
            "model": "m",
            "price_entry": ("OpenAI", "gpt-4o"),
        },
        1,
        [
            "no price of cached tokens is known for m at h: assumed 0.1 of a plain "
            "token's, and 1.25 for a written one, as OpenAI charges for gpt-4o. If that "
            "is wrong, set your own, with other numbers: obsmask config add 'prices={ "
            'host = "h", read = 0.1, write = 1.25 }\'',
        ],
    ),
    "nothing cached 20 times": (
        {
            "price_source": "price list",
            "price_read_ratio": 0.1,
            "price_write_ratio": 1.0,
            "cached_tokens": 0,
            "predicted_cached_tokens": 2000,
        },
        21,
        [
            "h has reported no cached tokens on 20 requests in a row that should have had"
            " them. If it sells none, masking saves more once the configuration says so: "
            "obsmask config add hosts.uncached=h",
        ],
    ),
    "a held boundary, some cached": (
        {"conversation": 3, "boundary_held": True, "prompt_tokens": 9000, "cached_tokens": 5},
        1,
        [
            "h no longer caches what conversation 3 sends since its boundary moved: the "
            "boundary is held where it is",
        ],
    ),
    "a held boundary, nothing cached": (
        {"conversation": 3, "boundary_held": True, "prompt_tokens": 9000, "cached_tokens": 0},
        1,
        [
            "h no longer caches what conversation 3 sends since its boundary moved: the "
            "boundary is held where it is. It reports no cached tokens at all: if it "
            "caches nothing, let the window slide there: obsmask config add "
            "hosts.uncached=h",
        ],
    ),
    "a held boundary, no usage": (
        {"conversation": 3, "boundary_held": True, "prompt_tokens": None},
        1,
        [
            "h no longer caches what conversation 3 sends since its boundary moved: the "
            "boundary is held where it is",
        ],
    ),
    "signed": (
        {"passed_through": "signed (cch)", "model": "m"},
        1,
        [
            "claude-code signs what it sends to h, so it passes untouched. It signs "
            "nothing if it is started by obsmask run -- claude, or with this proxy's port"
            " as its base URL: ANTHROPIC_BASE_URL=http://127.0.0.1:PORT/to/https/h",
        ],
    ),
    "bound, refused": (
        {"binding": "refuses", "kept": {"bound": 3}, "model": "m"},
        1,
        [
            "h: m binds its reasoning to all that precedes it, and a request would be refused if "
            f"a tool result before reasoning were masked: so none is. {SHORTENS[:-1]}",
        ],
    ),
    "bound, not tried": (
        {"binding": "may_refuse", "kept": {"bound": 3}, "model": "m"},
        1,
        [
            "h: m binds its reasoning to all that precedes it, and some accounts are refused if "
            "a tool result before reasoning is masked. A request of claude-code's will test this "
            "account, once that pays; until then none is masked",
        ],
    ),
    "bound, refused to the account": (
        {"binding": "may_refuse", "account": "refuses", "kept": {"bound": 3}, "model": "m"}
        | {"tried": True, "resent": "accepted"},
        1,
        [
            "h: m binds its reasoning to all that precedes it, and has refused this account a "
            "request in which a tool result before reasoning was masked: for 30 days from then, "
            f"none is. {SHORTENS[:-1]}",
        ],
    ),
    "bound, and the provider could clear": (
        {"binding": "refuses", "kept": {"bound": 3}, "model": "m", "clearing": "possible"},
        1,
        [
            "h: m binds its reasoning to all that precedes it, and a request would be refused if "
            f"a tool result before reasoning were masked: so none is. {SHORTENS} "
            "Have the provider clear them instead: obsmask config set "
            "schema1.provider_clearing=true (undo: obsmask config unset schema1.provider_clearing)",
        ],
    ),
    "asked to clear, and refused": (
        {"clearing": "refused", "model": "m", "resent": "accepted"},
        1,
        [
            "h refused to clear older tool results of m (400), so the request was sent again "
            "without asking: its conversation does not ask again until the proxy ends",
        ],
    ),
    "asked to clear, in vain": (
        {"clearing": "asked", "cleared_tool_uses": 0, "model": "m"},
        1,
        [
            "h, asked to clear older tool results of m, has cleared nothing: after two such "
            "answers a conversation does not ask again",
        ],
    ),
    "asked to clear, and cleared": ({"clearing": "asked", "cleared_tool_uses": 4}, 1, []),
    "tried, taken": (
        {"binding": "may_refuse", "account": "takes", "tried": True, "model": "m"},
        1,
        [
            "h has taken a masked request of this account to m: from now on older tool results "
            "are masked there",
        ],
    ),
    "tried, and refused for another reason": (
        {"binding": "may_refuse", "tried": True, "resent": "refused", "model": "m"},
        1,
        [
            "h refused a masked request to m (400), and did not take it as the agent wrote it "
            "either, so that says nothing of what this account may send: it is tried again in an "
            "hour at the earliest",
        ],
    ),
    "bound, dropped": (
        {"binding": "drops", "kept": {"bound": 1}},
        1,
        [
            "h: the model silently loses its reasoning if a tool result before it is masked: so "
            f"none is. {SHORTENS} To mask older results, too, but the model then loses "
            f"its earlier reasoning: {DROPS_IT}",
        ],
    ),
    "outgrown": (
        {
            "model": "m",
            "model_window_tokens": 200000,
            "fits_unmasked": False,
            "masked": 3,
            "conversation": 2,
            "conversation_id": "a",
        },
        1,
        [
            "h: conversation 2 no longer fits the 200,000 tokens of m without masking: "
            "switch masking off only after the agent has made a summary (/compact)",
        ],
    ),
    "outgrown, of no number": (
        {
            "model": None,
            "model_window_tokens": 200000,
            "fits_unmasked": False,
            "masked": 3,
            "conversation": None,
            "conversation_id": "a",
        },
        1,
        [
            "h: a conversation no longer fits the 200,000 tokens of its model without "
            "masking: switch masking off only after the agent has made a summary "
            "(/compact)",
        ],
    ),
    "resent, accepted": (
        {"resent": "accepted", "model": "m"},
        1,
        [
            "h refused a masked request to m (400), and took it as the agent wrote it: "
            "its conversation is sent unmasked until the proxy ends, or until resend_on_400"
            " is switched off",
        ],
    ),
    "resent, refused": (
        {"resent": "refused"},
        1,
        [
            "h refused a masked request to a model (400), and did not take it as the "
            "agent wrote it either: masking goes on",
        ],
    ),
    "resent, refused, and no longer sure of the account": (
        {"resent": "refused", "binding": "may_refuse", "masked": 3},
        1,
        [
            "h refused a masked request to a model (400), and did not take it with less masked "
            "either: whether this account may still send masked requests is found out at the next "
            "one that pays",
        ],
    ),
    "all at once": (
        {
            "price_source": "assumed",
            "price_read_ratio": 0.1,
            "price_write_ratio": 1.25,
            "conversation": 3,
            "boundary_held": True,
            "prompt_tokens": 9000,
            "binding": "drops",
            "kept": {"bound": 1},
            "masked": 1,
            "model_window_tokens": 9000,
            "fits_unmasked": False,
            "conversation_id": "b",
            "resent": "accepted",
            "model": "m",
        },
        2,
        [
            "no price of cached tokens is known for m at h: assumed 0.1 of a plain "
            "token's, and 1.25 for a written one. If that is wrong, set your own, with "
            'other numbers: obsmask config add \'prices={ host = "h", read = 0.1, write = '
            "1.25 }'",
            "h no longer caches what conversation 3 sends since its boundary moved: the "
            "boundary is held where it is. It reports no cached tokens at all: if it "
            "caches nothing, let the window slide there: obsmask config add "
            "hosts.uncached=h",
            "h: m silently loses its reasoning if a tool result before it is masked: so "
            f"none is. {SHORTENS} To mask older results, too, but "
            f"the model then loses its earlier reasoning: {DROPS_IT}",
            "h: conversation 3 no longer fits the 9,000 tokens of m without masking: "
            "switch masking off only after the agent has made a summary (/compact)",
            "h refused a masked request to m (400), and took it as the agent wrote it: "
            "its conversation is sent unmasked until the proxy ends, or until resend_on_400"
            " is switched off",
        ],
    ),
}
"""The fields of a request, how often it is met, and all that is said of it."""


@as_one_test
@pytest.mark.parametrize(
    ("fields", "times", "expected"),
    [pytest.param(*row, id=name) for name, row in SAID.items()],
)
def test_what_is_said(fields: Mapping[str, object], times: int, expected: list[str]) -> None:
    warnings, advice = Warnings(), Advice()
    said = [line for _ in range(times) for line in warnings.find(record(**fields), advice)]
    assert expected == said


# Prices


def priced(
    cached: int | None = 0,
    *,
    host: str = "api.openai.com",
    model: str | None = "gpt-4o",
    predicted: int | None = 2_000,
    settings: PriceSettings | None = None,
    replay: bool = False,
) -> RequestRecord:
    """Return a request that was answered; the provider told `cached`."""
    pricing = find_pricing(settings or PriceSettings(), host, model)
    fields = {
        "time": "2026-01-01",
        "host": host,
        "path": "/",
        "masking": "on",
        "replay": replay,
        "model": model,
        "prompt_tokens": 9_000,
        "cached_tokens": cached,
        "predicted_cached_tokens": predicted,
        **describe_pricing(pricing),
        "price_entry": pricing.entry and (pricing.entry.seller, pricing.entry.model),
    }
    return RequestRecord.model_validate(fields)


def warn(*records: RequestRecord, most: int | None = None) -> list[list[str]]:
    """Return the first words of each warning, for each of these requests in turn."""
    warnings = Warnings(most)
    return [[each.split(":")[0] for each in warnings.find(record, Advice())] for record in records]


def tell(record: RequestRecord) -> list[str]:
    return Warnings().find(record, Advice())


def assumed(host: str, model: str) -> list[str]:
    return [f"no price of cached tokens is known for {model} at {host}"]


def test_what_is_assumed_is_said_once_for_each_host() -> None:
    one, other = (priced(1, host=host) for host in ("a.example", "b.example"))
    first, second = assumed("a.example", "gpt-4o"), assumed("b.example", "gpt-4o")
    assert [first, [], second, []] == warn(one, one, other, one)


def test_it_says_what_is_assumed_why_and_which_command_sets_it() -> None:
    (known,) = tell(priced(1, host="a.example", model="gpt-4o-mini-x"))
    assert (
        "0.5 of a plain token's, and 1 for a written one, as OpenAI charges for gpt-4o-mini."
        in known
    )
    command = """obsmask config add 'prices={ host = "a.example", read = 0.5, write = 1.0 }'"""
    assert known.endswith(f"If that is wrong, set your own, with other numbers: {command}")
    (unknown,) = tell(priced(1, host="a.example", model=None))
    assert "for a request without a model at a.example: assumed" in unknown
    assert "assumed 0.1 of a plain token's, and 1.25 for a written one. If" in unknown


def test_what_is_known_is_no_news() -> None:
    given = PriceSettings((0.1, 1.0))
    assert [[], []] == warn(priced(1), priced(1, host="a.example", settings=given))
    unpriced = RequestRecord(time="2026-01-01", host="a.example", path="/", masking="on")
    assert [[]] == warn(unpriced)


UNCACHED = [
    "api.openai.com has reported no cached tokens on 20 requests in a row that should have had "
    "them. If it sells none, masking saves more once the configuration says so"
]


def count_until(*records: RequestRecord) -> list[int]:
    """Return at which of these requests, counted from 1, it was said that nothing is cached."""
    return [n for n, said in enumerate(warn(*records), 1) if said == UNCACHED]


def test_twenty_requests_without_a_cached_token_are_named_once() -> None:
    assert [20] == count_until(*[priced()] * 60)


def test_a_cached_token_begins_the_count_anew() -> None:
    assert [40] == count_until(*[priced()] * 19, priced(1), *[priced()] * 20)


def test_what_says_nothing_of_the_cache_is_not_counted() -> None:
    unreported, short, replayed = priced(None), priced(predicted=1_999), priced(replay=True)
    refused = priced(predicted=None)
    told = priced(settings=PriceSettings(uncached=("api.openai.com",)))
    for each in (unreported, short, replayed, refused, told):
        assert [] == count_until(*[each] * 30)
        assert [21] == count_until(*[priced()] * 19, each, priced())


def test_hosts_are_counted_apart_and_forgotten_when_there_are_too_many() -> None:
    others = [priced(1, host=f"{n}.example") for n in range(3)]
    mine = [priced()] * 19
    assert [] != warn(*mine, others[0], priced(), most=2)[-1]
    assert [] == warn(*mine, *others, priced(), most=2)[-1]


# A boundary that is held


def held(conversation: int = 3, /, **fields: object) -> RequestRecord:
    return RequestRecord.model_validate(
        {"time": "2026-01-01", "host": "llm.example", "path": "/p", "masking": "on"}
        | {"conversation": conversation, "boundary_held": True, "prompt_tokens": 9_000}
        | {"cached_tokens": 100, **fields}
    )


def test_a_held_boundary_is_logged_once_for_each_conversation() -> None:
    warnings = Warnings()
    records = [
        held(boundary_held=False),
        held(),
        held(),
        held(4),
        held(),
        held(4),
        held(replay=True),
    ]
    assert [len(warnings.find(record, Advice())) for record in records] == [0, 1, 0, 1, 0, 0, 1]


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        pytest.param({"cached_tokens": 100}, False, id="some are cached"),
        pytest.param({"cached_tokens": 0}, True, id="none is cached"),
        pytest.param({"cached_tokens": None}, True, id="none is reported"),
        pytest.param({"cached_tokens": None, "prompt_tokens": None}, False, id="no usage at all"),
    ],
)
def test_the_setting_is_named_where_nothing_is_cached(
    fields: dict[str, object], expected: bool
) -> None:
    (warning,) = Warnings().find(held(**fields), Advice())
    assert warning.startswith("llm.example no longer caches what conversation 3 sends since its")
    assert ("obsmask config add hosts.uncached=llm.example" in warning) is expected


# Where nothing is masked


SIGNED: dict[str, object] = {"passed_through": "signed (cch)"}
REFUSES: dict[str, object] = {"binding": "refuses", "kept": {"bound": 3}}
DROPS: dict[str, object] = {"binding": "drops", "kept": {"bound": 1, "error": 1}}


def answered(fields: dict[str, object], host: str = "h", model: str = "m") -> RequestRecord:
    least = {"time": "2026-01-01", "path": "/p", "masking": "on", "host": host, "model": model}
    return RequestRecord.model_validate({**least, **fields})


@as_one_test
@pytest.mark.parametrize(
    ("fields", "words"),
    [
        pytest.param(
            SIGNED, ["to h,", "obsmask run -- claude", "PORT/to/https/h"], id="a signed body"
        ),
        pytest.param(REFUSES, ["h: m binds", "would be refused"], id="refused"),
        pytest.param(
            DROPS,
            ["h: m silently loses", "obsmask config set schema1.bound_reasoning=drop"],
            id="dropped",
        ),
        pytest.param({"binding": "refuses", "kept": {"held": 3}}, [], id="nothing is bound"),
        pytest.param({"binding": "drops"}, [], id="nothing was measured"),
        pytest.param({"passed_through": "signed"}, [], id="signed by another"),
        pytest.param({"kept": {"error": 3}}, [], id="any other request"),
    ],
)
def test_what_is_said_where_nothing_is_masked(fields: dict[str, object], words: list[str]) -> None:
    lines = Warnings().find(answered(fields), Advice())
    assert len(lines) == bool(words)
    assert all(word in lines[0] for word in words)


def test_a_user_is_not_led_to_a_setting_that_would_not_help() -> None:
    (line,) = Warnings().find(answered(REFUSES), Advice())
    assert "bound_reasoning" not in line


def test_each_is_said_once_for_each_host_and_model() -> None:
    warnings = Warnings()
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


# A conversation that no longer fits its model


GREW: dict[str, object] = {
    "model": "m",
    "model_window_tokens": 200_000,
    "fits_unmasked": False,
    "masked": 3,
    "conversation": 2,
    "conversation_id": "a",
}


@as_one_test
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
def test_what_is_said_of_a_conversation_that_no_longer_fits(
    fields: dict[str, object], expected: str | None
) -> None:
    said = Warnings().find(record(**{**GREW, **fields}), Advice())
    end = " without masking: switch masking off only after the agent has made a summary (/compact)"
    assert ([] if expected is None else [expected + end]) == said


def test_that_is_said_once_for_each_conversation() -> None:
    warnings = Warnings()
    ids = ["a", "a", "b", "a"]
    assert [1, 0, 1, 0] == [
        len(warnings.find(record(**{**GREW, "conversation_id": each}), Advice())) for each in ids
    ]


# A request that was refused, and sent again


@pytest.mark.parametrize(
    ("resent", "expected"),
    [
        pytest.param(None, [], id="any other request"),
        pytest.param(
            "accepted",
            [
                "h refused a masked request to m (400), and took it as the agent wrote it: its "
                "conversation is sent unmasked until the proxy ends, or until resend_on_400 is "
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
def test_what_is_said_of_a_request_that_was_sent_again(
    resent: str | None, expected: list[str]
) -> None:
    assert expected == Warnings().find(record(model="m", resent=resent), Advice())


def test_a_model_without_a_name_is_told_of() -> None:
    (line,) = Warnings().find(record(resent="accepted"), Advice())
    assert line.startswith("h refused a masked request to a model (400)")


def test_that_is_said_once_for_each_host_and_model_and_outcome() -> None:
    warnings = Warnings()
    records = [
        record(resent="accepted"),
        record(resent="accepted"),
        record(resent="refused"),
        record(resent="accepted", host="other"),
        record(resent="accepted", model="other"),
    ]
    assert [1, 0, 1, 1, 1] == [len(warnings.find(each, Advice())) for each in records]


# Redactions


def trace(*requests: Redactions) -> list[tuple[int, str]]:
    """Return what is logged for these requests, except at debug level."""
    logged: list[tuple[int, str]] = []
    traced = RedactionTrace(lambda level, line: logged.append((level, line)))
    for redactions in requests:
        traced.log(redactions)
    return logged


def test_a_trace_tells_everything_but_content() -> None:
    assert trace(decide([SYSTEM, *streamed(content=SECRET * 9), ANSWER])) == [
        (
            logging.INFO,
            'redacted {"tool_call_id": "a", "tool": "stream", "position": 2, "scenario": 1, '
            f'"reason": "redacted", "chars_before": 54, "chars_after": {len("<a|stream|54>")}}}',
        )
    ]


@pytest.mark.parametrize(
    "content", [SECRET, parts(SECRET, SECRET), None, [*parts(SECRET), IMAGE], [IMAGE]]
)
@pytest.mark.parametrize("later", [[], [ANSWER], [{"role": SECRET}], [SECRET], unanswered()])
@pytest.mark.parametrize("call_id", ["a", None])
def test_neither_trace_nor_warning_holds_content(
    content: object, later: list[object], call_id: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    messages = [assistant(call(call_id, "stream")), result(call_id, content), *later]
    with caplog.at_level(logging.DEBUG, "observation_masking"):
        assert SECRET not in str(trace(decide(messages)))
    assert SECRET not in caplog.text


@pytest.mark.parametrize(
    ("later", "expected"),
    [
        ([ANSWER], []),
        ([None], ["messages[2] has no known role and counts as an answer (1 in all)"]),
        ([ANSWER, {}, 3], ["messages[3] has no known role and counts as an answer (2 in all)"]),
    ],
    ids=["none", "one", "several"],
)
def test_one_warning_about_malformed_messages(later: list[object], expected: list[str]) -> None:
    logged = trace(decide([*streamed(), *later]))
    assert expected == [line for level, line in logged if level == logging.WARNING]
