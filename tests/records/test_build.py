"""From an answered request to its record."""

import dataclasses
from collections.abc import Iterable
from datetime import UTC, datetime

import pytest

from addon.records.build import RECORD_SCHEMA, describe_entry, describe_software, make_record
from addon.records.record import RequestRecord
from addon.stages import Answered, Measured
from masking.accounting.bill import NO_BILL, NO_MARGIN
from masking.accounting.cost import Cost, PromptCost
from masking.accounting.ledger import Entry, Ledger, Sent
from masking.accounting.prompt import Sizes, measure, read_prompt
from masking.accounting.rereads import Places
from masking.config import MetricsSettings, Settings
from masking.prices import Pricing
from masking.rewrite import Strategies, read_request
from masking.tokens import TokenCounter
from masking.wire.usage import Usage
from tests.live.harness import conversation, encoded
from tests.support.builders import MASK_ALL
from tests.support.made_up_requests import priced, rewritten
from tests.support.marks import as_one_test
from tests.support.priced import rewrite_request

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


@as_one_test
@pytest.mark.parametrize(
    ("window", "prompt", "observed", "expected"),
    [
        pytest.param(None, None, False, (None, None), id="the window is not known"),
        pytest.param(1_000_000, None, False, (1_000_000, True), id="it fits"),
        pytest.param(1_000, None, False, (1_000, False), id="by o200k it does not"),
        pytest.param(1_000, 10, False, (1_000, True), id="the provider counts less"),
        pytest.param(1_000, 10, True, (1_000, True), id="observed: what it counts is all of it"),
        pytest.param(20_000, 40_000, False, (20_000, False), id="the provider counts more"),
    ],
)
def test_a_record_says_whether_the_request_would_fit_unmasked(
    window: int | None, prompt: int | None, observed: bool, expected: tuple[int | None, bool | None]
) -> None:
    body = encoded(conversation())
    rewrite = rewrite_request(read_request(body), Strategies(schema1=MASK_ALL))
    counter = TokenCounter()
    read = read_prompt(rewrite, counter)
    pricing = Pricing(0.1, 1.0, window=window)
    stage = rewritten(priced=dataclasses.replace(priced("m"), pricing=pricing), observed=observed)
    answered = [
        make_record(
            Answered(
                rewritten=stage,
                measured=Measured(sizes=sizes, conversation_id="", prompt=read),
                usage=Usage(prompt=prompt),
            ),
            None,
        )
        for sizes in (measure(rewrite, read), measure(rewrite))
    ]
    found = [(record.model_window_tokens, record.fits_unmasked) for record in answered]
    assert [expected, (window, None)] == found  # the second was not counted


@pytest.mark.parametrize(
    ("tier", "is_standard", "expected"),
    [
        (None, False, (None, False)),
        ("fast", False, ("fast", False)),
        ("flex", True, ("flex", True)),
    ],
)
def test_a_record_tells_the_tier_of_service(
    tier: str | None, is_standard: bool, expected: tuple[str | None, bool | None]
) -> None:
    pricing = Pricing(0.1, 1.0, tier=tier, is_standard=is_standard)
    stage = rewritten(priced=dataclasses.replace(priced("m"), pricing=pricing))
    record = make_record(Answered(rewritten=stage), None)
    assert expected == (record.service_tier, record.price_is_standard)


@pytest.mark.parametrize(
    ("status", "seconds", "expected"),
    [
        pytest.param(200, 1.23456, 1.235, id="an answer"),
        pytest.param(None, 1.0, 1.0, id="one without a status"),
        pytest.param(429, 1.0, None, id="a refusal"),
        pytest.param(200, None, None, id="no stream"),
    ],
)
def test_a_record_tells_when_a_streamed_answer_began(
    status: int | None, seconds: float | None, expected: float | None
) -> None:
    answered = Answered(rewritten=rewritten(), status=status, first_chunk_seconds=seconds)
    assert make_record(answered, None).first_chunk_seconds == expected


@as_one_test
@pytest.mark.parametrize(
    ("repeated", "shortened", "masked_before", "expected"),
    [
        pytest.param(((0,), (0, 1)), (), {0, 1}, (2, 0), id="all that is repeated was masked"),
        pytest.param(((0,), (0, 1)), (), {0}, (1, 0), id="one of two was seen"),
        pytest.param(((0,), (0, 1)), (0,), None, (0, 0), id="the request before is not known"),
        pytest.param((), (0,), {0}, (0, 0), id="no call repeats any"),
        pytest.param(((0,),), (0,), (), (0, 1), id="one that was shortened"),
        pytest.param(((0,),), (0,), {0}, (1, 0), id="masked by now, so a re-read of that"),
        pytest.param(((0, 1),), (0,), {1}, (0, 1), id="one shortened, the other masked"),
        pytest.param(((0, 1),), (0,), (), (0, 0), id="the other was whole"),
        pytest.param(((0,), (1,), (2,)), (0, 2), {1}, (1, 2), id="of three calls two"),
    ],
)
def test_a_record_counts_calls_that_repeat_what_was_masked_or_shortened(
    repeated: tuple[Places, ...],
    shortened: Iterable[int],
    masked_before: Iterable[int] | None,
    expected: tuple[int, int],
) -> None:
    body = encoded(conversation())
    rewrite = rewrite_request(read_request(body), Strategies(schema1=MASK_ALL))
    counter = TokenCounter()
    prompt = read_prompt(rewrite, counter)
    measured = Measured(
        sizes=measure(rewrite),
        conversation_id="",
        prompt=prompt,
        repeated=repeated,
        shortened=frozenset(shortened),
    )
    answered = Answered(rewritten=rewritten(), measured=measured)
    sent = Sent(
        cache_scope=b"", prompt=prompt, masked=rewrite.masked, usage=None, when=NOON, is_masked=True
    )
    entry = Ledger().enter(sent, Pricing(0.1, 1.0))
    before = None if masked_before is None else frozenset(masked_before)
    found = make_record(answered, dataclasses.replace(entry, masked_before=before))
    assert expected == (found.rereads, found.arrival_rereads or 0)
    assert 0 == make_record(answered, None).rereads


PLAIN = PromptCost(prompt=1.0, cached=0.0, written=0.0, cost=1.0)
ENTRY = Entry(
    cost=Cost(
        before=PLAIN, after=PLAIN, predicted=0, hit_rate=1.0, basis="reported", margin=NO_MARGIN,
    ),
    conversation=7, bill=NO_BILL, so_far=NO_BILL, masked_before=None, is_frozen=False,
    left_out=1.0,
)  # fmt: skip


def test_everything_that_is_measured_and_billed_is_in_the_record() -> None:
    measured = {field.name for field in dataclasses.fields(Sizes)}
    assert measured | set(describe_entry(ENTRY)) <= set(RequestRecord.model_fields)


def test_without_an_entry_a_record_says_nothing_of_it() -> None:
    record = make_record(Answered(rewritten=rewritten()), None)
    assert record.dump().keys().isdisjoint({*describe_entry(ENTRY), "rereads"})


def test_the_software_is_told_by_its_settings() -> None:
    settings = Settings()
    elsewhere = dataclasses.replace(settings, metrics=MetricsSettings(path="elsewhere"))
    other = dataclasses.replace(settings, holdout_salt="another")
    told = describe_software(settings)
    assert told["record_schema"] == RECORD_SCHEMA == 4
    assert describe_software(elsewhere) == told
    assert describe_software(other)["config_digest"] != told["config_digest"]
