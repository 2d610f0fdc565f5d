"""What Prometheus scrapes: the numbers, their labels, and the spelling of its own library."""

import json
import re
from collections.abc import Mapping

import pytest
from prometheus_client.parser import text_string_to_metric_families

from addon.page.prometheus import Counters, LabelValues, expose, find_outcome
from addon.quota import QuotaWindow
from tests.support.made_up_records import bill, record
from tests.support.marks import as_one_test
from tests.support.places import ROOT

NAMED = {"host": "h", "model": "m", "client": "c", "label": "l"}
WHO = {"model": "m", "client": "c", "label": "l"}


def scrape(*requests: Mapping[str, object]) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    counters = Counters()
    for fields in requests:
        counters.add(record(**fields))
    told, kind = expose(counters, "text/plain")
    assert kind.startswith("text/plain")
    families = text_string_to_metric_families(told.decode())
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in families
        for sample in family.samples
    }


def key(name: str, **labels: str) -> tuple[str, frozenset[tuple[str, str]]]:
    return name, frozenset(labels.items())


def test_requests_are_counted_by_who_and_outcome() -> None:
    found = scrape({**WHO, "masked": 2}, {**WHO, "masked": 3}, {**WHO, "status": 500})
    assert 2 == found[key("observation_masking_requests_total", **NAMED, outcome="masked")]
    assert 1 == found[key("observation_masking_requests_total", **NAMED, outcome="failed")]


@as_one_test
@pytest.mark.parametrize(
    ("fields", "outcome"),
    [
        ({"status": 429, "masked": 2}, "failed"),
        ({"error": "provider failed"}, "failed"),
        ({"passed_through": "signed"}, "passed"),
        ({"masked": 1}, "masked"),
        ({"redacted": 1}, "masked"),
        ({"masked": 0}, "unchanged"),
        ({"masked": 3, "masking": "observed"}, "observed"),
        ({}, "unchanged"),
    ],
)
def test_the_outcome_is_a_word(fields: Mapping[str, object], outcome: str) -> None:
    assert outcome == find_outcome(record(**fields))


def test_a_request_that_only_counts_tokens_sends_none() -> None:
    sizes = {"request_tokens_before": 10, "request_tokens_after": 7, "composition": {"tools": 7}}
    fields = {**WHO, **sizes, "prompt_tokens": 7, "cached_tokens": 3, "completion_tokens": 1}
    found = scrape(fields, {**fields, "purpose": "count"})
    answered = scrape(fields)
    requests = key("observation_masking_requests_total", **NAMED, outcome="unchanged")
    assert (2, 1) == (found.pop(requests), answered.pop(requests))
    assert answered == found


def test_what_was_only_observed_is_counted_as_it_was_sent() -> None:
    fields = {"masked": 2, "request_tokens_before": 9, "request_tokens_after": 4, **bill(4, 3)}
    found = scrape({**WHO, **fields, "masking": "observed"})
    sent = {**NAMED, "state": "sent"}
    assert 1 == found[key("observation_masking_requests_total", **NAMED, outcome="observed")]
    assert 9 == found[key("observation_masking_prompt_tokens_total", **sent)]
    assert 4 == found[key("observation_masking_cost_dollars_total", **sent)]
    assert key("observation_masking_tool_results_total", reason="masked") not in found


def test_tokens_money_moves_and_results_are_summed() -> None:
    found = scrape(
        {**WHO, **bill(4, 3), "request_tokens_before": 10, "request_tokens_after": 7,
         "cached_tokens": 5, "boundary_moved": True, "masked": 2, "kept": {"in_window": 8}},
        {**WHO, **bill(2, 2.5), "request_tokens_before": 10, "request_tokens_after": 7},
    )  # fmt: skip
    expected = {
        key("observation_masking_prompt_tokens_total", **NAMED, state="sent"): 14,
        key("observation_masking_prompt_tokens_total", **NAMED, state="not_sent"): 6,
        key("observation_masking_cached_tokens_total", **NAMED): 5,
        key("observation_masking_cost_dollars_total", **NAMED, state="unmasked"): 6,
        key("observation_masking_cost_dollars_total", **NAMED, state="sent"): 5.5,
        key("observation_masking_cost_input_tokens_total", **NAMED, state="sent"): 5.5,
        key("observation_masking_boundary_moves_total", **NAMED): 1,
        key("observation_masking_tool_results_total", reason="masked"): 2,
        key("observation_masking_tool_results_total", reason="in_window"): 8,
    }
    assert expected == {name: found[name] for name in expected}


def test_what_was_observed_only_counts_as_it_was_sent() -> None:
    tokens = {"request_tokens_before": 10, "request_tokens_after": 7, "masked": 2}
    found = scrape({**WHO, **bill(4, 3), **tokens, "masking": "observed"})
    assert 10 == found[key("observation_masking_prompt_tokens_total", **NAMED, state="sent")]
    assert 4 == found[key("observation_masking_cost_dollars_total", **NAMED, state="sent")]
    assert not [labels for _, labels in found if ("reason", "masked") in labels]


def test_what_prompts_are_composed_of_is_summed_by_part() -> None:
    parts = {"tools": 4, "results": 6}
    observed = {"composition": {"tools": 4, "placeholders": 1}, "masking": "observed"}
    found = scrape({"composition": parts}, {**observed, "request_tokens_before": 10}, {})
    told = {dict(labels)["part"]: n for (name, labels), n in found.items() if "part" in name}
    assert {"tools": 8, "results": 12} == told


def test_rereads_and_requests_that_fit_only_masked_are_counted() -> None:
    found = scrape(
        {**WHO, "rereads": 2, "fits_unmasked": False},
        {**WHO, "rereads": 0, "fits_unmasked": True},
        {**WHO, "rereads": 3, "fits_unmasked": False, "masking": "observed"},
        {**WHO, "fits_unmasked": False, "masking": "off"},
    )
    assert (2, 1) == (
        found[key("observation_masking_rereads_total", **NAMED)],
        found[key("observation_masking_requests_fitting_only_masked_total", **NAMED)],
    )


def test_requests_that_were_sent_once_more_are_counted_by_the_answer() -> None:
    found = scrape({**WHO, "resent": "accepted"}, {**WHO, "resent": "refused"}, WHO)
    name = "observation_masking_requests_resent_total"
    assert {"accepted": 1, "refused": 1} == {
        dict(labels)["answer"]: count for (each, labels), count in found.items() if each == name
    }


def test_a_plans_quota_is_as_it_was_told_last() -> None:
    windows = [QuotaWindow("5h", used, 1_795_826_742, 300) for used in (0.2, 0.43)]
    found = scrape(*({"quota": (window,), "quota_account": "1a9a"} for window in windows), {})
    labels = {"account": "1a9a", "window": "5h"}
    assert 0.43 == found[key("observation_masking_quota_used_ratio", **labels)]
    assert (
        1_795_826_742 == found[key("observation_masking_quota_resets_timestamp_seconds", **labels)]
    )


def test_of_many_combinations_the_first_thousand_are_told_apart() -> None:
    found = scrape(
        *({"model": f"m{n % 50}", "client": f"c{n // 50}"} for n in range(1_500)), {"model": "m0"}
    )
    told = {
        labels: value
        for (name, labels), value in found.items()
        if name == "observation_masking_requests_total"
    }
    other = dict.fromkeys(("host", "model", "client", "label"), "other")
    assert (1_001, 501) == (len(told), told[frozenset({**other, "outcome": "unchanged"}.items())])


def test_token_usage_has_the_names_of_the_conventions() -> None:
    found = scrape({**WHO, "prompt_tokens": 1_000, "completion_tokens": 64})
    usage = {
        "gen_ai_operation_name": "chat", "gen_ai_request_model": "m", "server_address": "h",
    }  # fmt: skip
    told = {**usage, "gen_ai_token_type": "input"}
    name = "gen_ai_client_token_usage"
    assert [0, 1, 1] == [
        found[key(f"{name}_bucket", **told, le=bound)] for bound in ("256.0", "1024.0", "+Inf")
    ]
    assert (1, 1_000) == (found[key(f"{name}_count", **told)], found[key(f"{name}_sum", **told)])
    output = {**usage, "gen_ai_token_type": "output"}
    assert 1 == found[key(f"{name}_bucket", **output, le="64.0")], "a bound counts as within"


def test_waits_are_in_seconds() -> None:
    found = scrape({"hook_us": 2_500, "first_chunk_seconds": 100.0})
    assert 0.0025 == found[key("observation_masking_hook_seconds_sum")]
    assert 1 == found[key("observation_masking_hook_seconds_bucket", le="0.0025")]
    assert 0 == found[key("observation_masking_first_chunk_seconds_bucket", host="h", le="80.0")]
    assert 1 == found[key("observation_masking_first_chunk_seconds_bucket", host="h", le="+Inf")]


def test_replayed_requests_and_amounts_that_cannot_be_are_not_counted() -> None:
    assert not any(scrape({"replay": True}).values())
    found = scrape({"request_tokens_before": 5, "request_tokens_after": 9, "prompt_tokens": -1})
    assert not [name for name, labels in found if ("state", "not_sent") in labels]
    assert not [name for name, _ in found if name.startswith("gen_ai")]


def test_of_many_values_the_first_fifty_are_told_apart() -> None:
    found = scrape(*({"model": f"model-{n}"} for n in range(120)))
    models = {
        dict(labels)["model"]: value
        for (name, labels), value in found.items()
        if name == "observation_masking_requests_total"
    }
    assert 51 == len(models)
    assert 70 == models["other"]


def test_a_value_that_is_known_stays_so_when_there_are_too_many() -> None:
    values = LabelValues(1)
    assert ["a", "other", "a", ""] == [values.take(each) for each in ("a", "b", "a", None)]


def test_a_hostile_name_is_one_value_on_one_line() -> None:
    counters = Counters()
    counters.add(record(model='a"} 1\nevil_total{x="', client="\\"))
    told = expose(counters, "")[0].decode()
    assert not re.search(r"^evil", told, re.MULTILINE)


def test_a_scraper_that_asks_for_it_gets_openmetrics() -> None:
    told, kind = expose(Counters(), "application/openmetrics-text;version=1.0.0")
    assert (b"# EOF\n", True) == (told[-6:], kind.startswith("application/openmetrics-text"))


def test_the_example_dashboard_asks_for_what_there_is() -> None:
    board = (ROOT / "docs" / "grafana.json").read_text(encoding="utf-8")
    asked = {
        name
        for panel in json.loads(board)["panels"]
        for target in panel["targets"]
        for name in re.findall(r"(?:observation_masking|gen_ai)_\w+", target["expr"])
        if not name.startswith("gen_ai_token_type")
    }
    counters = Counters()
    names = {metric.name for metric in counters.metrics.registry.collect()}
    assert asked, "it asks for something"
    assert set() == {re.sub("_(?:total|bucket|sum|count)$", "", name) for name in asked} - names


def test_what_arrival_left_out_and_saved_is_summed() -> None:
    fields = {
        **WHO, **bill(9, 5), "shortened": 2, "left_out_tokens": 70, "arrival_saved_tokens": 3.0,
        "arrival_saved_dollars": 0.5, "arrival_rereads": 1, "arrival_quotes": 2,
    }  # fmt: skip
    found = scrape(fields, fields, {**fields, "masking": "observed"})
    sums = {
        "shortened_results": 4, "left_out_tokens": 140, "arrival_saved_input_tokens": 6.0,
        "arrival_saved_dollars": 1.0, "arrival_rereads": 2, "arrival_quotes": 4,
    }  # fmt: skip
    assert sums == {name: found[key(f"observation_masking_{name}_total", **NAMED)] for name in sums}
    assert "masked" == find_outcome(record(shortened=1))
