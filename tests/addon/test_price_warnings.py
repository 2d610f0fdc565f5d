"""What the log says of prices: once for each host, whatever the order of its requests."""

from addon.metrics.advice import Advice
from addon.metrics.ledger_fields import describe_pricing
from addon.metrics.price_warnings import PriceWarnings
from addon.metrics.record import RequestRecord
from masking.prices import PriceSettings, find_pricing


def answered(
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


def warn(*records: RequestRecord, max_hosts: int = 1_000) -> list[list[str]]:
    """Return the first words of each warning, for each of these requests in turn."""
    warnings = PriceWarnings(max_hosts)
    return [[each.split(":")[0] for each in warnings.find(record, Advice())] for record in records]


def tell(record: RequestRecord) -> list[str]:
    return PriceWarnings().find(record, Advice())


def assumed(host: str, model: str) -> list[str]:
    return [f"no price of cached tokens is known for {model} at {host}"]


def test_what_is_assumed_is_said_once_for_each_host() -> None:
    one, other = (answered(1, host=host) for host in ("a.example", "b.example"))
    first, second = assumed("a.example", "gpt-4o"), assumed("b.example", "gpt-4o")
    assert [first, [], second, []] == warn(one, one, other, one)


def test_it_says_what_is_assumed_why_and_which_command_sets_it() -> None:
    (known,) = tell(answered(1, host="a.example", model="gpt-4o-mini-x"))
    assert (
        "0.5 of a plain token's, and 1 for a written one, as OpenAI charges for gpt-4o-mini."
        in known
    )
    command = """obsmask config add 'prices={ host = "a.example", read = 0.5, write = 1.0 }'"""
    assert known.endswith(f"If that is wrong, set your own, with other numbers: {command}")
    (unknown,) = tell(answered(1, host="a.example", model=None))
    assert "for a request without a model at a.example: assumed" in unknown
    assert "assumed 0.1 of a plain token's, and 1.25 for a written one. If" in unknown


def test_what_is_known_is_no_news() -> None:
    given = PriceSettings((0.1, 1.0))
    assert [[], []] == warn(answered(1), answered(1, host="a.example", settings=given))
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
    assert [20] == count_until(*[answered()] * 60)


def test_a_cached_token_begins_the_count_anew() -> None:
    assert [40] == count_until(*[answered()] * 19, answered(1), *[answered()] * 20)


def test_what_says_nothing_of_the_cache_is_not_counted() -> None:
    unreported, short, replayed = answered(None), answered(predicted=1_999), answered(replay=True)
    refused = answered(predicted=None)
    told = answered(settings=PriceSettings(uncached=("api.openai.com",)))
    for record in (unreported, short, replayed, refused, told):
        assert [] == count_until(*[record] * 30)
        assert [21] == count_until(*[answered()] * 19, record, answered())


def test_hosts_are_counted_apart_and_forgotten_when_there_are_too_many() -> None:
    others = [answered(1, host=f"{n}.example") for n in range(3)]
    mine = [answered()] * 19
    assert [] != warn(*mine, others[0], answered(), max_hosts=2)[-1]
    assert [] == warn(*mine, *others, answered(), max_hosts=2)[-1]
