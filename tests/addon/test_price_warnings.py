"""What the log says of prices: once for each host, whatever the order of its requests."""

from addon.metrics.exchange import Exchange
from addon.metrics.price_warnings import PriceWarnings
from masking.accounting.cost import Bill, Cost
from masking.accounting.ledger import Entry, Savings
from masking.measures.price_settings import PriceSettings
from masking.measures.pricing import find_pricing
from masking.wire.usage import Usage

NOTHING = Bill(0.0, 0.0, 0.0, None)


def answered(
    cached: int | None = 0,
    *,
    host: str = "api.openai.com",
    model: str | None = "gpt-4o",
    predicted: int = 2_000,
    settings: PriceSettings | None = None,
    replay: bool = False,
) -> Exchange:
    """Return a request that was answered; the provider told `cached`."""
    cost = Cost(
        before=NOTHING, before_warm=NOTHING, after=NOTHING, predicted=predicted, share=1.0,
        basis="reported",
    )  # fmt: skip
    exchange = Exchange(host=host, path="/", masking="on", replay=replay, model=model)
    exchange.pricing = find_pricing(settings or PriceSettings(), host, model)
    exchange.usage = Usage(prompt=9_000, cached=cached)
    exchange.entry = Entry(
        cost=cost,
        conversation=1,
        savings=Savings(),
        total=Savings(),
        moved=False,
        held=False,
        tripped=False,
    )
    return exchange


def warn(*exchanges: Exchange, max_hosts: int = 1_000) -> list[list[str]]:
    """Return the first words of each warning, for each of these exchanges in turn."""
    warnings = PriceWarnings(max_hosts)
    return [
        [each.split(":")[0] for each in warnings.find(one, one.as_record())] for one in exchanges
    ]


def tell(exchange: Exchange) -> list[str]:
    return PriceWarnings().find(exchange, exchange.as_record())


def assumed(host: str, model: str) -> list[str]:
    return [f"no price of cached tokens is known for {model} at {host}"]


def test_what_is_assumed_is_said_once_for_each_host() -> None:
    one, other = (answered(1, host=host) for host in ("a.example", "b.example"))
    first, second = assumed("a.example", "gpt-4o"), assumed("b.example", "gpt-4o")
    assert [first, [], second, []] == warn(one, one, other, one)


def test_it_says_what_is_assumed_why_and_which_line_to_set() -> None:
    (known,) = tell(answered(1, host="a.example", model="gpt-4o-mini-x"))
    assert (
        "0.5 of a plain token's, and 1 for a written one, as OpenAI charges for gpt-4o-mini."
        in known
    )
    assert 'observation_masking.prices = [{ host = "a.example", read = 0.5, write = 1 }]' in known
    (unknown,) = tell(answered(1, host="a.example", model=None))
    assert "for a request without a model at a.example: assumed" in unknown
    assert "assumed 0.1 of a plain token's, and 1.25 for a written one. If" in unknown


def test_what_is_known_is_no_news() -> None:
    given = PriceSettings((0.1, 1.0))
    assert [[], []] == warn(answered(1), answered(1, host="a.example", settings=given))
    unpriced = Exchange(host="a.example", path="/", masking="on", replay=False)
    assert [[]] == warn(unpriced)


UNCACHED = ["api.openai.com has reported no cached tokens on 20 requests in a row that should have "
            "had them. If it sells none, masking saves more with this line in "
            "[observation_masking.hosts]"]  # fmt: skip


def count_until(*exchanges: Exchange) -> list[int]:
    """Return at which of these exchanges, counted from 1, it was said that nothing is cached."""
    return [n for n, said in enumerate(warn(*exchanges), 1) if said == UNCACHED]


def test_twenty_requests_without_a_cached_token_are_named_once() -> None:
    assert [20] == count_until(*[answered()] * 60)


def test_a_cached_token_begins_the_count_anew() -> None:
    assert [40] == count_until(*[answered()] * 19, answered(1), *[answered()] * 20)


def test_what_says_nothing_of_the_cache_is_not_counted() -> None:
    unreported, short, replayed = answered(None), answered(predicted=1_999), answered(replay=True)
    refused = answered()
    refused.entry = None
    told = answered(settings=PriceSettings(uncached=("api.openai.com",)))
    for exchange in (unreported, short, replayed, refused, told):
        assert [] == count_until(*[exchange] * 30)
        assert [21] == count_until(*[answered()] * 19, exchange, answered())


def test_hosts_are_counted_apart_and_forgotten_when_there_are_too_many() -> None:
    others = [answered(1, host=f"{n}.example") for n in range(3)]
    mine = [answered()] * 19
    assert [] != warn(*mine, others[0], answered(), max_hosts=2)[-1]
    assert [] == warn(*mine, *others, answered(), max_hosts=2)[-1]
