"""The hold-out: what the records say of the conversations that are masked and of those held out."""

from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from addon.metrics.holdout import Holdout, Mean
from addon.metrics.observed import as_masked, as_sent
from tests.made_up_records import bill, describe, read_json, record, status, write_records

OUT = {"masking": "observed", "group": "holdout"}


def talk(name: str, requests: int, **fields: object) -> Iterator[dict[str, object]]:
    """Yield the requests of a conversation; each costs a dollar masked, and two unmasked."""
    for number in range(requests):
        told = {"conversation_id": name, "tool_turns": number, "status": 200, "purpose": "answer"}
        yield {**told, **bill(2.0, 1.0, 0.1), **fields}


def count(*requests: dict[str, object]) -> Holdout:
    counted = Holdout()
    for fields in requests:
        counted.add(record(**fields))
    return counted


def test_each_group_is_counted_by_its_conversations() -> None:
    found = count(
        *talk("a", 3),
        *talk("b", 5, status=500),
        *talk("c", 6, **OUT),
    ).compare()
    assert Mean(2, 4.0, 1.0) == found["requests"].masked
    assert Mean(1, 6.0, None) == found["requests"].held_out
    assert (2.5, 0.0) == tuple(mean.mean for mean in found["failures"])
    assert (3.0, 5.0) == tuple(mean.mean for mean in found["tool turns"])
    assert (4.0, 12.0) == tuple(mean.mean for mean in found["dollars"])


@pytest.mark.parametrize(
    "others",
    [
        pytest.param({"masking": "off"}, id="off"),
        pytest.param({"masking": "observed"}, id="all is observed"),
        pytest.param({"passed_through": "signed (cch)"}, id="passed untouched"),
        pytest.param({"purpose": "count"}, id="no answer is asked for"),
        pytest.param({"conversation_id": None}, id="of no known conversation"),
        pytest.param({"config_digest": "another"}, id="of a time with other settings"),
    ],
)
def test_what_is_not_compared(others: dict[str, object]) -> None:
    compared = [*talk("a", 3), *talk("c", 6, **OUT)]
    assert {} == count(*talk("b", 4, **others), *talk("c", 6, **OUT)).compare()
    assert count(*compared).compare() == count(*compared, *talk("b", 4, **others)).compare()


def test_a_conversation_of_unknown_price_has_no_dollars() -> None:
    unpriced = {"cost_dollars_before": None, "cost_dollars_after": None}
    untaken = {**unpriced, "cost_tokens_before": None, "cost_tokens_after": None, "status": 500}
    found = count(*talk("a", 3, **unpriced), *talk("b", 1), *talk("b", 1, **untaken),
                  *talk("c", 6, **OUT)).compare()  # fmt: skip
    assert (Mean(1, 1.0, None), 2) == (found["dollars"].masked, found["requests"].masked[0])
    unknown = count(*talk("a", 3, **unpriced), *talk("c", 6, **OUT)).compare()
    assert ["failures", "requests", "tool turns", "re-reads"] == [*unknown]


def test_rereads_of_what_would_have_been_masked_are_compared_with_those_of_what_was() -> None:
    out = {**OUT, "masked": 2, "rereads": 1}
    found = count(*talk("a", 3, masked=2, rereads=2), *talk("c", 6, **out)).compare()["re-reads"]
    assert (6.0, 6.0) == tuple(mean.mean for mean in found)


def test_status_counts_rereads_of_what_was_masked_and_of_what_would_have_been(
    capsys: pytest.CaptureFixture[str], records: Path
) -> None:
    write_records(records, *talk("a", 3, rereads=1), *talk("c", 1, rereads=1, **OUT))
    assert [
        "3 calls repeated one whose result was masked",
        "1 call repeated one whose result would have been masked",
    ] == describe(status(capsys))["Re-reads"]
    total = read_json(capsys)["total"]
    assert (3, 1) == (total["rereads"], total["observed_as_if_masked"]["rereads"])


def group(
    name: str, conversations: int, turns: int, **fields: object
) -> Iterator[dict[str, object]]:
    """Yield conversations of about so many requests."""
    for number in range(conversations):
        yield from talk(f"{name}{number}", turns + number % 3, **fields)


@pytest.mark.parametrize(
    ("masked", "held_out", "expected"),
    [
        pytest.param((9, 20), (40, 5), (False, False), id="too few masked"),
        pytest.param((40, 20), (9, 5), (False, False), id="too few held out"),
        pytest.param((10, 20), (10, 20), (True, False), id="alike"),
        pytest.param((40, 20), (10, 21), (True, True), id="one more in each"),
    ],
)
def test_a_difference_is_told_where_there_are_enough_and_it_is_more_than_chance(
    masked: tuple[int, int], held_out: tuple[int, int], expected: tuple[bool, bool]
) -> None:
    requests = [*group("m", *masked), *group("h", held_out[0], held_out[1], **OUT)]
    found = count(*requests).compare()["requests"]
    assert expected == (found.is_told, found.is_telling)


def test_status_sets_the_groups_side_by_side(
    capsys: pytest.CaptureFixture[str], records: Path
) -> None:
    write_records(records, *group("m", 12, 20), *group("h", 11, 30, **OUT))
    lines = [line for line in status(capsys) if " each: " in line or line.startswith("Held out")]
    assert ["Held out", *["in each"] * 5] == [
        "Held out" if line.startswith("Held") else "in each" for line in lines
    ]
    assert lines[0].endswith("11 of 23 conversations")
    assert lines[2].endswith("requests in each: 21.0 masked, 30.9 held out (more than chance)")
    assert lines[5].endswith("$21.0000 masked, $61.8182 held out (more than chance)")
    found = read_json(capsys)["holdout"]["requests_per_conversation"]
    assert (12, 11) == (found["masked"]["conversations"], found["held_out"]["conversations"])
    assert found["is_more_than_chance"]


def test_status_says_that_the_conversations_are_too_few(
    capsys: pytest.CaptureFixture[str], records: Path
) -> None:
    write_records(records, *talk("a", 3), *talk("c", 6, **OUT))
    (line,) = (line for line in status(capsys) if line.startswith("Held out"))
    assert line.endswith("1 of 2 conversations, too few to tell: 10 of each are the least")
    assert read_json(capsys)["holdout"]["failures_per_conversation"]["is_more_than_chance"] is None


def test_status_says_nothing_where_none_is_held_out(
    capsys: pytest.CaptureFixture[str], records: Path
) -> None:
    write_records(records, *talk("a", 3))
    assert [] == [line for line in status(capsys) if line.startswith("Held out")]
    assert {} == read_json(capsys)["holdout"]


def test_a_record_of_an_observed_request_as_it_was_sent_and_as_if_it_were_masked() -> None:
    fields = {"masked": 3, "kept": {"held": 1}, "tool_results": 4, "boundary_moved": True,
              "request_tokens_before": 9, "request_tokens_after": 4,
              "first_chunk_seconds": 0.5}  # fmt: skip
    observed = record(**talk("a", 1, **fields).__next__() | OUT)
    sent, masked = as_sent(observed), as_masked(observed)
    assert (0, {}, 9, 2.0, 0.0, False, 0.5) == (
        *(sent.masked, sent.kept, sent.request_tokens_after, sent.cost_tokens_after),
        *(sent.saved_tokens_error, sent.boundary_moved, sent.first_chunk_seconds),
    )
    assert ("on", 3, 4, 1.0, None) == (
        *(masked.masking, masked.masked, masked.request_tokens_after, masked.cost_tokens_after),
        masked.first_chunk_seconds,
    )
    assert as_sent(record()).masked is None


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, {"user": 20, "results": 80}),
        ({"request_tokens_before": 20}, {"user": 20}),
        ({"dropped_messages": 3}, None),
        ({"composition": None}, None),
        ({"request_tokens_before": None}, None),
    ],
    ids=["whole results", "no result", "a reduction", "no parts", "no tokens"],
)
def test_what_the_prompt_was_composed_of_when_it_left(
    fields: Mapping[str, object], expected: Mapping[str, int] | None
) -> None:
    parts = {"user": 20, "placeholders": 10}
    told = {"masking": "observed", "request_tokens_before": 100, "composition": parts}
    assert expected == as_sent(record(**{**told, **fields})).composition
