"""Chapter 9: where a cached prefix is cheap, the boundary moves only when that pays.

A provider sells a prompt's cached prefix at a discount, which is lost from the first changed byte
on. So the boundary of what is masked stands still, and then moves to the edge of the window.

What this saves is measured over whole conversations, which takes longer than a test may:
`tests.tools.benchmarks.promise` (the promise in real tokens), `tests.tools.benchmarks.boundary`
(the rule beside the best possible schedule), `tests.tools.benchmarks.assumed` (wrong prices), and
`tests/masking/test_boundary.py` (invariants over made-up conversations).
"""

import functools
import json
from collections.abc import Iterator, Sequence
from dataclasses import replace

import pytest

from masking import MaskPolicy
from masking.config import parse_settings
from masking.prices import find_pricing
from masking.request_cache import RequestCache
from masking.rewrite import Rewrite
from masking.window import BoundaryPrices, price_boundary
from masking.wire import Marks
from tests.spec.talk import CACHED, CHAT, OUTPUT, SHORT, mask, reasons, requests
from tests.support.marks import as_one_test
from tests.support.priced import rewrite_request
from tests.support.wire_conversations import (
    IN_TWO_FORMATS,
    Model,
    Step,
    Told,
    User,
    Writer,
    turn,
)

FOUR = replace(SHORT, window_turns=4)
COUNT = 26
LARGE = OUTPUT * 10
MARKED = Marks(in_head=True, in_list=True)


@functools.cache
def send_all(writer: Writer, policy: MaskPolicy = FOUR) -> list[tuple[Told, Rewrite]]:
    """Return the requests of a conversation, and what becomes of each."""
    return [(told, mask(told, policy, CACHED)) for told in requests(writer, COUNT, LARGE)]


@IN_TWO_FORMATS
def test_what_is_old_enough_is_held_until_moving_pays(writer: Writer) -> None:
    (*_, tenth) = requests(writer, 10, LARGE)
    assert ["held"] * 5 + ["in_window"] * 4 == reasons(mask(tenth, FOUR, CACHED))
    _, last = send_all(writer)[-1]
    found = reasons(last)
    moved_to = found.count("masked")
    assert moved_to > 10
    assert ["masked"] * moved_to + ["held"] * (21 - moved_to) + ["in_window"] * 4 == found


@IN_TWO_FORMATS
@pytest.mark.parametrize(
    "policy",
    [
        pytest.param(FOUR, id="the window"),
        pytest.param(replace(FOUR, keep_last_k_per_tool=6), id="the last of a tool"),
    ],
)
def test_between_moves_the_earlier_bytes_stand_still(writer: Writer, policy: MaskPolicy) -> None:
    """The window, and the last K, are those of the request at which the boundary last moved."""
    moves = 0
    before: list[object] = []
    for told, rewritten in send_all(writer, policy):
        now = read_items(rewritten.body, told)
        moves += now[: len(before)] != before
        before = now
    assert 1 <= moves <= 2  # a sliding window would have moved 21 times


@IN_TWO_FORMATS
def test_the_boundary_never_goes_back(writer: Writer) -> None:
    masked = frozenset[int]()
    for _, rewritten in send_all(writer):
        assert masked <= rewritten.masked
        masked = rewritten.masked
    assert masked


@IN_TWO_FORMATS
def test_the_boundary_is_a_function_of_the_messages_alone(writer: Writer) -> None:
    """No state and no clock: a restart, a retry and a second replica send the same bytes."""
    cache = RequestCache()
    for told, alone in send_all(writer):
        for _ in range(2):
            known = cache.read(told.body, told.wire, writer.path)
            assert alone.body == rewrite_request(known, FOUR, prices=CACHED).body
    for told, alone in reversed(send_all(writer)):
        assert alone.body == mask(told, FOUR, CACHED).body


@IN_TWO_FORMATS
def test_a_retry_with_another_end_is_masked_alike(writer: Writer) -> None:
    """What follows the model's last answer has no part in the decision."""
    for told, rewritten in send_all(writer):
        other = told.then(User("Wait, " * 2_000))
        assert rewritten.masked == mask(other, FOUR, CACHED).masked


# The promise: at no request has the bill exceeded `1 + max_loss` times that of sending everything.


def test_by_default_a_tenth_may_be_lost() -> None:
    assert 0.10 == MaskPolicy().max_loss


def quiet_after(writer: Writer, large: int, quiet: int, times: int) -> Iterator[Told]:
    """Yield the requests of a conversation in which talk follows large outputs.

    Moving then pays in the long run; it would cost much if the conversation ended right after.
    """
    said: list[Step] = [User("Fix the build.")]
    for part in range(times):
        for number, size in enumerate((large, large, 1)):
            said += turn(f"call_{part}_{number}", OUTPUT * size)
            yield writer.tell(*said)
        for number in range(quiet):
            said += (Model(text=f"Step {number}."), User("Go on."))
            yield writer.tell(*said)


@IN_TWO_FORMATS
@pytest.mark.parametrize(
    ("large", "quiet", "times", "max_loss"),
    [
        pytest.param(10, 24, 1, 0.0, id="a move would lose a sixth, and nothing may be lost"),
        pytest.param(10, 24, 1, 0.1, id="a move would lose a sixth, and a tenth may be lost"),
        pytest.param(10, 6, 3, 0.1, id="moves that pay"),
    ],
)
def test_the_bill_never_exceeds_the_promise(
    writer: Writer, large: int, quiet: int, times: int, max_loss: float
) -> None:
    policy = replace(SHORT, window_turns=2, max_loss=max_loss)
    told = [*quiet_after(writer, large, quiet, times)]
    sent = [mask(each, policy, CACHED).body for each in told]
    bills = zip(bill(sent, told), bill([each.body for each in told], told), strict=True)
    assert [] == [paid / whole for paid, whole in bills if paid > (1 + max_loss) * whole]


def test_where_moving_pays_the_bill_is_lower_in_the_end() -> None:
    told = [*requests(CHAT, 40, LARGE)]
    sent = [mask(each, FOUR, CACHED).body for each in told]
    slid = [mask(each, FOUR).body for each in told]
    whole = bill([each.body for each in told], told)[-1]
    assert bill(sent, told)[-1] < whole < bill(slid, told)[-1]


def bill(bodies: Sequence[bytes], told: Sequence[Told]) -> list[float]:
    """Return what is paid up to each request, if the cache holds the last one.

    In plain tokens, as the format estimates them: whatever the two have in common from the start is
    read, all else is written.
    """
    paid, paid_so_far = [], 0.0
    before: list[object] = []
    sizes: list[int] = []
    for body, each in zip(bodies, told, strict=True):
        now = read_items(body, each)
        shared = next(
            (n for n, (a, b) in enumerate(zip(before, now, strict=False)) if a != b), None
        )
        shared = min(len(before), len(now)) if shared is None else shared
        sizes[shared:] = [each.wire.measure_element(item).total for item in now[shared:]]
        paid_so_far += CACHED.read * sum(sizes[:shared]) + CACHED.write * sum(sizes[shared:])
        paid.append(paid_so_far)
        before = now
    return paid


def read_items(body: bytes, told: Told) -> list[object]:
    """Return the elements of a request's list."""
    found = json.loads(body)
    for step in told.read().list_path:
        found = found[step]
    return list(found)


# Which prices


def find_prices(settings: str, host: str, model: str, marks: Marks = MARKED) -> tuple[float, float]:
    """Return the prices of a cached and of a written token by which the boundary moves."""
    found = parse_settings(f"[observation_masking.schema1]\n{settings}".encode())
    assert found is not None
    own = found.price_settings
    pricing = find_pricing(own, host, model, is_marked=marks.are_there)
    prices = price_boundary(pricing, slides=own.slides, marks=marks)
    return prices.read, prices.write


@as_one_test
@pytest.mark.parametrize(
    ("settings", "host", "model", "expected"),
    [
        pytest.param("", "api.openai.com", "gpt-4o", (0.5, 1.0), id="of the price list"),
        pytest.param("", "api.anthropic.com", "claude-sonnet-4-5", (0.1, 1.25), id="of another"),
        pytest.param("", "proxy.example", "gpt-4o", (0.5, 1.0), id="of the model's maker"),
        pytest.param("", "proxy.example", "my-model", (0.1, 1.25), id="assumed"),
        pytest.param(
            "assumed_prices = [0.2, 1.0]", "proxy.example", "my-model", (0.2, 1.0), id="set"
        ),
        pytest.param('cache_pricing = "none"', "api.openai.com", "gpt-4o", (1.0, 1.0), id="none"),
        pytest.param(
            "cache_pricing = [0.3, 1.1]", "api.openai.com", "gpt-4o", (0.3, 1.1), id="one's own"
        ),
        pytest.param(
            '[observation_masking.hosts]\nuncached = ["proxy.*"]',
            "proxy.example",
            "my-model",
            (1.0, 1.0),
            id="of a host without a cache",
        ),
    ],
)
def test_the_prices_are_a_function_of_the_configuration_and_the_request(
    settings: str, host: str, model: str, expected: tuple[float, float]
) -> None:
    assert expected == find_prices(settings, host, model)


def test_without_cache_marks_nothing_is_cached_where_a_provider_asks_for_them() -> None:
    host, model = "api.anthropic.com", "claude-sonnet-4-5"
    assert (1.0, 1.0) == find_prices("", host, model, Marks())


def test_where_a_cached_token_costs_as_much_as_a_written_one_the_window_slides() -> None:
    assert (True, True, False) == (
        BoundaryPrices().slides,
        BoundaryPrices(0.5, 0.5).slides,
        CACHED.slides,
    )
