"""Sessions on a plan, as their records tell of them, and what masking truly did to its quota.

They are generated: a conversation grows, its cache is lost in long pauses, and masking takes
results out, each time at the price of writing the rest anew. The plan, whose weights nobody knows,
counts each request (`tests.tools.provider.plan`), and what it tells is read as an answer's.
"""

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from math import exp, log

from addon.quota import read_quota
from addon.records.record import RequestRecord
from addon.request import HeaderFields
from tests.tools.provider.plan import Plan, Weights, Window
from tests.tools.provider.script import Received

PRICE, READ, WRITE, OUTPUT = 3e-6, 0.1, 1.25, 5.0
"""The API's: dollars for a plain token, and what the other kinds cost relative to it."""

_BEGIN = 1_800_000_000.0
_FIVE_HOURS = 18_000.0
_TTL = 300.0

_USUAL = 600.0
"""What a session uses in a second on average, in plain tokens."""
_RECEIVED = Received(request={}, headers=(("authorization", "Bearer sk-ant-oat01"),))

Other = Callable[[random.Random, float, float], float]
"""What another program uses meanwhile, in plain tokens: given the seconds, and what a session like
this one uses in them on average."""


def steadily(_: random.Random, seconds: float, usual: float) -> float:
    """Use about as much as a session, all the time."""
    return seconds * _USUAL


def more_and_more(_: random.Random, seconds: float, usual: float) -> float:
    """Use as much as the session has so far, which is more and more."""
    return seconds * usual


def in_bursts(rng: random.Random, seconds: float, usual: float) -> float:
    """Use as much as the session in few large requests."""
    return 25 * seconds * usual * rng.expovariate(1) if rng.random() < 0.04 else 0.0


@dataclass
class PlanSession:
    """A session of so many requests, with its records.

    kept: the part of the last window that masking truly kept free.
    """

    rng: random.Random
    weights: Weights = field(default_factory=Weights)
    step: float = 0.01
    requests: int = 200
    other: Other | None = None
    size_factor: float = 1.0
    records: list[RequestRecord] = field(default_factory=list)
    kept: float = 0.0

    def __post_init__(self) -> None:
        """Play it."""
        rng, now = self.rng, _BEGIN
        size = exp(rng.uniform(log(1e6), log(4e6))) * self.size_factor
        window = Window("5h", _FIVE_HOURS, size, used=0.0)
        window.add(rng.uniform(0, 0.2) * size, now)
        plan = Plan(
            self.weights, [window], self.step, lambda: rng.random() < 0.95, clock=lambda: now
        )
        head, result = rng.uniform(8e3, 25e3), exp(rng.uniform(log(600), log(3_000)))
        results: list[float] = []
        whole, removed, masked = head + 500, 0.0, 0
        cached = (0.0, 0.0)
        moves_every, usual = rng.randint(8, 25), _USUAL
        used, begun = 0.0, now
        for at in range(self.requests):
            output = exp(rng.gauss(log(350), 0.7))
            seconds = 3 + output / 60 + rng.expovariate(1 / 4)
            if rng.random() < 0.05:  # its user thinks
                seconds += rng.expovariate(1 / 200)
            now += seconds
            resets = window.resets
            if self.other is not None:
                plan.use(self.other(rng, seconds, usual))

            # What is masked, and what of both prompts is still in the cache.
            moves = at > 10 and at % moves_every == 0
            if moves:
                removed += sum(max(0.0, each - 40) for each in results[masked:-8])
                masked = len(results) - 8
            prompts = whole, whole - removed
            if seconds > _TTL:
                cached = (0.0, 0.0)
            elif moves:
                cached = (cached[0], head)
            kinds = [
                (2, round(min(read, prompt)) - 2, round(prompt) - round(min(read, prompt)))
                for prompt, read in zip(prompts, cached, strict=True)
            ]
            plan.add(_report(kinds[1], output))
            if window.resets != resets:
                self.kept = 0.0
            before, after = (self._weigh(each) for each in kinds)
            self.kept += (before - after) / size
            used += after + self.weights.output * output
            usual = used / (now - begun)
            self.records.append(_record(plan, now, kinds, output))
            cached = prompts

            # The model calls a tool.
            results.append(exp(rng.gauss(log(result), 1.0)) if rng.random() < 0.9 else 0.0)
            whole += output + results[-1]
            if whole > 170e3:  # the agent summarizes
                whole, removed, masked, results, cached = head + 3_500, 0.0, 0, [], (head, head)

    def _weigh(self, kinds: tuple[int, int, int]) -> float:
        uncached, read, written = kinds
        return uncached + self.weights.read * read + self.weights.written * written


def _report(kinds: tuple[int, int, int], output: float) -> dict[str, float]:
    uncached, read, written = kinds
    return {
        "input_tokens": uncached,
        "cache_read_input_tokens": read,
        "cache_creation_input_tokens": written,
        "output_tokens": round(output),
    }


def _record(
    plan: Plan, now: float, kinds: list[tuple[int, int, int]], output: float
) -> RequestRecord:
    when = datetime.fromtimestamp(now, UTC)
    costs = [uncached + READ * read + WRITE * written for uncached, read, written in kinds]
    return RequestRecord(
        time=when.isoformat(),
        host="api.anthropic.com",
        path="/v1/messages",
        masking="on",
        status=200,
        subscription=True,
        quota=read_quota(HeaderFields(plan.headers(_RECEIVED)), (), when) or None,
        quota_account="1a9a",
        learns_quota=True,
        price_read_ratio=READ,
        price_write_ratio=WRITE,
        tokens_by_kind_before=kinds[0],
        tokens_by_kind_after=kinds[1],
        cost_tokens_before=costs[0],
        cost_tokens_after=costs[1],
        cost_dollars_before=PRICE * costs[0],
        cost_dollars_after=PRICE * costs[1],
        answer_dollars=PRICE * OUTPUT * round(output),
    )
