"""Price lists from outside: what is taken of genai-prices' published form, and what is refused."""

import json
from datetime import date
from typing import Any

import pytest

from masking.errors import ConfigError
from masking.prices import PriceStep, load_shipped, pack_list, read_list

TODAY = date(2026, 11, 22)


def publish(prices: object, **provider: object) -> list[dict[str, Any]]:
    """Return what genai-prices publishes of a shop with one model."""
    model = {"id": "m", "name": "M", "match": {"equals": "m"}, "prices": prices}
    return [
        {
            "id": "shop",
            "name": "Shop",
            "pricing_urls": ["https://shop.test/prices"],
            "api_pattern": r"https://shop\.test",
            "extractors": [],
            "models": [{**model, "context_window": 9, "description": "Good."}],
            **provider,
        }
    ]


def dumps(document: object) -> bytes:
    return json.dumps(document).encode()


def take(document: object) -> dict[str, Any]:
    """Return the one model that is kept of what is published."""
    packed = json.loads(pack_list(dumps(document), TODAY, "a test"))
    model: dict[str, Any] = packed["providers"][0]["models"][0]
    return model


@pytest.mark.parametrize(
    ("prices", "expected"),
    [
        pytest.param({"input_mtok": 2}, {"input": 2}, id="one price"),
        pytest.param(
            {"input_mtok": 2, "cache_read_mtok": 0.2, "cache_write_mtok": 2.5, "output_mtok": 9},
            {"input": 2, "cache_read": 0.2, "cache_write": 2.5},
            id="all that is needed",
        ),
        pytest.param({}, {}, id="none"),
        pytest.param({"input_mtok": None, "output_mtok": 9}, {}, id="none of any input"),
        pytest.param(
            {
                "input_mtok": {"base": 2, "tiers": [{"start": 9, "price": 8},
                                                    {"start": 5, "price": 4}]},
                "cache_read_mtok": {"base": 0.2, "tiers": [{"start": 5, "price": 0.4}]},
            },
            {"input": 2, "cache_read": 0.2, "steps": [[5, 4], [9, 8]]},
            id="price steps",
        ),
    ],
)  # fmt: skip
def test_of_a_models_prices_those_of_its_input_are_kept(
    prices: object, expected: dict[str, object]
) -> None:
    assert {"id": "m", "match": {"equals": "m"}, **expected, "window": 9} == take(publish(prices))


def when(plain: float, **constraint: str) -> dict[str, object]:
    return {"constraint": constraint or None, "prices": {"input_mtok": plain}}


@pytest.mark.parametrize(
    ("prices", "expected"),
    [
        pytest.param([when(1), when(2, start_date="2026-11-22")], 2, id="from today"),
        pytest.param([when(1), when(2, start_date="2026-11-23")], 1, id="from tomorrow"),
        pytest.param(
            [when(1), when(2, start_date="2026-01-01"), when(3, start_date="2026-02-01")], 3,
            id="the last that has begun",
        ),
        pytest.param([when(1, start_date="2030-01-01")], 1, id="the first where none has begun"),
        pytest.param(
            [when(1), when(2, start_time="12:00:00Z", end_time="13:00:00Z")], 2, id="from noon"
        ),
        pytest.param(
            [when(1), when(2, start_time="00:30:00Z", end_time="12:00:00Z")], 1, id="till noon"
        ),
        pytest.param(
            [when(1), when(2, start_time="16:30:00Z", end_time="12:30:00Z")], 2,
            id="over midnight, till after noon",
        ),
        pytest.param(
            [when(1), when(2, start_time="16:30:00Z", end_time="00:30:00Z")], 1, id="by night"
        ),
        pytest.param(
            [when(1), when(2, start_time="11:00:00Z", end_time="10:00:00Z")], 2,
            id="but for an hour in the morning",
        ),
        pytest.param([], None, id="no prices"),
    ],
)  # fmt: skip
def test_the_price_is_that_of_the_day_at_noon(prices: object, expected: float | None) -> None:
    assert expected == take(publish(prices)).get("input")


@pytest.mark.parametrize("form", ["the list alone", "with units beside it"])
def test_a_published_list_is_converted_to_our_form(form: str) -> None:
    published = publish(
        {"input_mtok": 3, "cache_read_mtok": 0.3},
        model_match={"or": [{"starts_with": "m"}]},
        fallback_model_providers=["shop"],
        provider_match=None,
    )
    document = published if form == "the list alone" else {"units": {}, "providers": published}
    packed = pack_list(dumps(document), TODAY, "a test")
    prices = read_list(packed)
    assert ("2026-11-22", "a test", 1) == (prices.date, prices.source, prices.models)
    found = prices.find("shop.test", "m")
    assert found == prices.find_maker("M")
    assert found is not None
    assert (3, (0.1, 1.0)) == (found.dollars_per_million, found.ratios)
    assert packed == pack_list(packed, date(2030, 1, 1), "another")
    assert b'\n{"id":"m",' in packed


def test_a_list_of_ours_keeps_its_steps() -> None:
    prices = read_list(dumps(ours(input=1, steps=[[5, 2]])))
    found = prices.find("shop.test", "m")
    assert found is not None
    assert (PriceStep(5, 2.0),) == found.steps


def ours(provider: dict[str, object] | None = None, /, **model: object) -> dict[str, Any]:
    """Return a valid list of our own form, with these changes."""
    entry = {"id": "m", "match": {"equals": "m"}, **model}
    shop = {"id": "shop", "name": "Shop", "api_pattern": r"https://shop\.test", "models": [entry]}
    return {"date": "2026-11-22", "source": "us", "providers": [{**shop, **(provider or {})}]}


def deep(levels: int) -> dict[str, object]:
    clause: dict[str, object] = {"equals": "m"}
    for _ in range(levels):
        clause = {"or": [clause]}
    return clause


MODEL = "providers[0].models[0]"


@pytest.mark.parametrize(
    ("document", "path", "problem"),
    [
        pytest.param("x", "list", "expected dict, got str", id="a text"),
        pytest.param(None, "list", "got nothing", id="null"),
        pytest.param({"date": 1}, "date", "expected str, got int", id="an invalid date"),
        pytest.param({"date": "9999-99-99"}, "date", "a date", id="a day that never comes"),
        pytest.param({"date": "20261122"}, "date", "a date", id="a date in another form"),
        pytest.param({"date": "(a+)+$"}, "date", "a date", id="no date"),
        pytest.param({"date": "2026-11-22"}, "source", "got nothing", id="no source"),
        pytest.param(
            {"date": "2026-11-22", "source": "y"}, "providers", "got nothing", id="no providers"
        ),
        pytest.param(ours() | {"source": "\x1b]0;a\x07"}, "source", "printed", id="an escape"),
        pytest.param(ours({"id": "a\nb"}), "providers[0].id", "printed", id="two lines"),
        pytest.param(ours({"name": "\u202ea"}), "providers[0].name", "printed", id="right to left"),
        pytest.param(ours({"name": "a" * 201}), "providers[0].name", "200", id="a long name"),
        pytest.param(ours(id="\x1b[2Jm"), f"{MODEL}.id", "printed", id="a screen that is cleared"),
        pytest.param(
            ours({"fallback_model_providers": ["\x9b"]}),
            "providers[0].fallback_model_providers[0]", "printed", id="another control character",
        ),
        pytest.param({}, "providers", "got nothing", id="nothing in it"),
        pytest.param([1], "providers[0]", "expected dict, got int", id="published: no object"),
        pytest.param([{}], "providers[0].models", "got nothing", id="published: no models"),
        pytest.param(publish(1), f"{MODEL}.prices", "expected list", id="published: no prices"),
        pytest.param(publish([{}]), f"{MODEL}.prices[0].prices", "nothing", id="published: none"),
        pytest.param(
            publish([when(1), {"constraint": 1}]), f"{MODEL}.prices[1].constraint", "got int",
            id="published: an invalid constraint",
        ),
        pytest.param(
            publish({"input_mtok": {"base": 1, "tiers": 1}}), f"{MODEL}.prices.input_mtok.tiers",
            "expected list", id="published: invalid tiers",
        ),
        pytest.param(
            publish({"input_mtok": {"base": 1, "tiers": [{}]}}), f"{MODEL}.steps[0]", "expected",
            id="published: an empty tier",
        ),
        pytest.param(
            publish({"input_mtok": {"base": 1, "tiers": [{"start": 5}, {"start": "5"}]}}),
            f"{MODEL}.steps[0]", "expected", id="published: tiers that have no order",
        ),
        pytest.param(publish({"input_mtok": "1"}), f"{MODEL}.input", "number", id="a text"),
        pytest.param(ours({"id": None}), "providers[0].id", "got nothing", id="no id"),
        pytest.param(ours({"name": 1}), "providers[0].name", "got int", id="an invalid name"),
        pytest.param(
            ours({"api_pattern": "("}), "providers[0].api_pattern", "regular", id="no expression"
        ),
        pytest.param(
            ours({"model_match": {}}), "providers[0].model_match", "expected one of", id="no clause"
        ),
        pytest.param(
            ours({"fallback_model_providers": [1]}), "providers[0].fallback_model_providers[0]",
            "expected str", id="an invalid provider",
        ),
        pytest.param(ours(id=1), f"{MODEL}.id", "expected str", id="a model without a name"),
        pytest.param(ours(match=None), f"{MODEL}.match", "got nothing", id="no match"),
        pytest.param(ours(match={"is": "m"}), f"{MODEL}.match", "equals, starts", id="unknown"),
        pytest.param(
            ours(match={"equals": "m", "or": []}), f"{MODEL}.match", "one of", id="two clauses"
        ),
        pytest.param(ours(match={"equals": 1}), f"{MODEL}.match.equals", "str", id="no text"),
        pytest.param(ours(match={"regex": "["}), f"{MODEL}.match.regex", "regular", id="no regex"),
        pytest.param(
            ours(match={"or": [{"and": [1]}]}), f"{MODEL}.match.or[0].and[0]", "expected dict",
            id="a clause in a clause",
        ),
        pytest.param(ours(match=deep(20)), f"{MODEL}.match" + ".or[0]" * 9, "one of", id="deep"),
        pytest.param(ours(input=True), f"{MODEL}.input", "number from 0 up", id="a boolean"),
        pytest.param(ours(input=-1), f"{MODEL}.input", "number from 0 up", id="less than 0"),
        pytest.param(ours(input=1e6), f"{MODEL}.input", "below 1e+06", id="a million dollars"),
        pytest.param(ours(cache_read="x"), f"{MODEL}.cache_read", "number", id="no price"),
        pytest.param(ours(cache_write=[]), f"{MODEL}.cache_write", "number", id="no price, either"),
        pytest.param(ours(steps=1), f"{MODEL}.steps", "expected list", id="no steps"),
        pytest.param(ours(steps=[[1]]), f"{MODEL}.steps[0]", "[tokens, price]", id="half a step"),
        pytest.param(ours(steps=[[1.5, 1]]), f"{MODEL}.steps[0]", "[tokens", id="half a token"),
        pytest.param(ours(steps=[[5, "x"]]), f"{MODEL}.steps[0][1]", "number", id="no price there"),
        pytest.param(ours(steps=[[5, 1], [5, 2]]), f"{MODEL}.steps[1]", "more tokens", id="twice"),
        pytest.param(ours(steps=[[0, 1]]), f"{MODEL}.steps[0]", "more tokens", id="from 0 on"),
        pytest.param(ours(window=0), f"{MODEL}.window", "whole number", id="no window"),
        pytest.param(ours(window=1.5), f"{MODEL}.window", "whole number", id="half a token more"),
    ],
)  # fmt: skip
def test_a_mistake_is_reported_with_its_place(document: object, path: str, problem: str) -> None:
    with pytest.raises(ConfigError) as raised:
        pack_list(dumps(document), TODAY, "a test")
    assert path == raised.value.path
    assert problem in raised.value.problem


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        pytest.param(b"", "not JSON", id="nothing"),
        pytest.param(b"{", "not JSON", id="cut off"),
        pytest.param(b"\xff", "not JSON", id="no text"),
        pytest.param(b"[" * 5_000, "not JSON", id="without end"),
        pytest.param(b" " * 10_000_001, "larger than 10 MB", id="far too long"),
    ],
)
def test_what_is_not_json_is_refused(data: bytes, problem: str) -> None:
    for read in (read_list, lambda data: pack_list(data, TODAY, "a test")):
        with pytest.raises(ConfigError, match=problem):
            read(data)


# Patterns


def test_every_pattern_of_the_shipped_list_is_taken() -> None:
    """And there is room for eight times as many, as the list grows with every new model."""
    shipped = load_shipped()
    document = {"date": shipped.date, "source": shipped.source, "providers": shipped.providers * 8}
    assert 8 * shipped.models == read_list(dumps(document)).models


@pytest.mark.parametrize(
    ("pattern", "names", "others"),
    [
        (r"^claude-opus-5[-@]\d{8}$", ["claude-opus-5@20260101"], ["claude-opus-5-1"]),
        (r"^(?!.*-tts(?:$|-))", ["gpt-5"], ["gpt-5-tts", "a-tts-1"]),
        (r"^(?![^/]+/)(?:mini|mix)stral", ["ministral"], ["a/ministral", "stral"]),
        (r"\.5\[fast=(true|false)\]$", ["grok-4.5[fast=true]"], ["grok-4.5"]),
        (r"^o[134](-mini)?$", ["o1", "o3-mini"], ["o2"]),
        (r"^a{2,3}b{1,}c{2}$", ["aabbcc"], ["abcc"]),
        (r"b.*c", ["a b d c"], ["acb", "b" + "a" * 300 + "c"]),
    ],
)
def test_a_simple_pattern_is_matched(pattern: str, names: list[str], others: list[str]) -> None:
    """A name that is longer than any real one is matched by none."""
    prices = read_list(dumps(ours({"model_match": {"regex": pattern}}, input=1, match={"or": [
        {"contains": ""}]})))  # fmt: skip
    assert [True] * len(names) == [prices.find_maker(name) is not None for name in names]
    assert [False] * len(others) == [prices.find_maker(name) is not None for name in others]


def test_a_host_that_is_longer_than_any_real_one_has_no_seller() -> None:
    prices = read_list(dumps(ours({"api_pattern": "https://a*"}, input=1)))
    assert prices.find("a" * 253, "m") is not None
    assert prices.find("a" * 300, "m") is None


NOT_SIMPLE = "expected a pattern of"
TOO_LONG = "may take too long to match"


@pytest.mark.parametrize(
    ("pattern", "problem"),
    [
        ("(a+)+$", NOT_SIMPLE),
        ("^(a|a)*$", NOT_SIMPLE),
        ("^(?:a?){40}$", NOT_SIMPLE),
        ("^(?:a|b|ab)*c$", NOT_SIMPLE),
        ("^(?=(a+)+b)", NOT_SIMPLE),
        (r"^(a+)\1$", NOT_SIMPLE),
        ("^(?P<a>a)$", NOT_SIMPLE),
        ("(?x)a", NOT_SIMPLE),
        ("a+?b", NOT_SIMPLE),
        ("[[]a", "not a regular expression"),
        ("[]a]*", NOT_SIMPLE),
        (r"a\Z", NOT_SIMPLE),
        ("a{b}", NOT_SIMPLE),
        ("^.*.*.*=x$", TOO_LONG),
        ("^(?!.*.*.*b)", TOO_LONG),
        ("^" + "a?" * 40 + "a" * 40, TOO_LONG),
        ("^" + "(?:a|a)" * 25 + "b", TOO_LONG),
        ("^" + "a{1,9}" * 9 + "b", TOO_LONG),
        ("a" * 201, "at most 200 characters"),
        ("(" * 90 + ")" * 89, "not a regular expression"),
        ("a{99999999999999999999}", "not a regular expression"),
    ],
)
@pytest.mark.parametrize("place", ["api_pattern", "model_match.regex", "models[0].match.regex"])
def test_a_pattern_that_may_not_end_is_refused(pattern: str, problem: str, place: str) -> None:
    documents = {
        "api_pattern": ours({"api_pattern": pattern}),
        "model_match.regex": ours({"model_match": {"regex": pattern}}),
        "models[0].match.regex": ours(match={"regex": pattern}),
    }
    with pytest.raises(ConfigError) as raised:
        read_list(dumps(documents[place]))
    assert f"providers[0].{place}" == raised.value.path
    assert problem in raised.value.problem


@pytest.mark.parametrize("pattern", [".*.*b", "^a|.*.*b", "a?" * 17 + "b|c"])
def test_a_pattern_that_is_tried_at_each_character_takes_longer(pattern: str) -> None:
    assert 1 == read_list(dumps(ours({"api_pattern": pattern}))).models  # tried at the first alone
    with pytest.raises(ConfigError, match=TOO_LONG):
        read_list(dumps(ours(match={"regex": pattern})))


@pytest.mark.parametrize(
    ("pattern", "count", "problem"),
    [("^.*b", 700, "a pattern that may take too long"), ("^a", 1_000, "at most 1,000 patterns")],
)
def test_patterns_are_bounded_together(pattern: str, count: int, problem: str) -> None:
    with pytest.raises(ConfigError, match=problem) as raised:
        read_list(dumps(ours(match={"or": [{"regex": pattern}] * count})))
    assert raised.value.path.startswith(f"{MODEL}.match.or[")


def test_a_published_list_is_not_in_our_form() -> None:
    with pytest.raises(ConfigError, match="expected dict, got list"):
        read_list(dumps(publish({})))
