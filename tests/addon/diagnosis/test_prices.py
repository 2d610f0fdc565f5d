"""Where the prices of hosts and models come from."""

from datetime import date

import pytest

from addon.commands.diagnosis.prices import check_list, check_prices, check_uncached
from addon.metrics.advice import Advice
from masking.config import Settings, parse_settings
from tests.findings import levels, record


@pytest.mark.parametrize(
    ("today", "expected"),
    [(date(2026, 11, 23), "ok"), (date(2030, 1, 1), "note")],
    ids=["new", "old"],
)
def test_the_price_list_has_an_age(today: date, expected: str) -> None:
    assert [expected] == levels(check_list(Settings(), today))


OWN = b'[[observation_masking.prices]]\nhost = "own.example"\nread = 0.5\nwrite = 1\n'


def test_it_says_where_each_price_comes_from() -> None:
    settings = parse_settings(OWN)
    assert settings is not None
    hosts = ["api.openai.com", "own.example", "elsewhere.example"]
    found = list(check_prices(settings, [record(host=host) for host in hosts], Advice()))
    assert ["ok", "ok", "note"] == levels(found)
    expected = (
        """'prices={ host = "elsewhere.example", model = "gpt-5", read = 0.1, write = 1.0 }'"""
    )
    assert f"obsmask config add {expected}" == found[2].mend


def test_many_models_are_not_all_named() -> None:
    found = list(check_prices(Settings(), [record(model=f"gpt-{n}") for n in range(20)], Advice()))
    (more,) = [each for each in found if "more models" in each.says]
    assert more.says.startswith("8 more models")


def test_a_host_without_cached_tokens_is_told() -> None:
    found_none = {"cached_tokens": 0, "predicted_cached_tokens": 9_000, "price_read_ratio": 0.1}
    told = record(host="elsewhere.example", **found_none)
    (found,) = check_uncached(Settings(), [told] * 20, Advice())
    assert "obsmask config add hosts.uncached=elsewhere.example" == found.mend
    assert [] == [*check_uncached(Settings(), [told] * 19, Advice())]
    (price,) = check_prices(Settings(), [told] * 20, Advice())
    assert ("note", None) == (price.level, price.mend)  # one remedy, not two that differ
    listed = parse_settings(f"[observation_masking.hosts]\nuncached = ['{told.host}']".encode())
    assert listed is not None
    assert [] == [*check_uncached(listed, [told] * 20, Advice())]
