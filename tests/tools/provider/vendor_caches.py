"""What Anthropic and OpenAI bill for a sequence of requests, written from their documentation.

It shares nothing with the product, so that the product can be judged by it. A request is a list of
blocks in the order in which the provider renders them (tools, system, messages).

- Anthropic (platform.claude.com/docs/en/build-with-claude/prompt-caching): a prefix is kept where
  a block has `cache_control`, at most four times in a request. To read, each such block looks for
  an entry at its own place and at the 19 before it, and the longest prefix found is read. What
  follows it up to the last mark is written, what follows the last mark is plain. A prefix below the
  model's least size is neither written nor read. An entry lives for five minutes, or for an hour,
  from its last use on.
- OpenAI from gpt-5.6 on (developers.openai.com/api/docs/guides/prompt-caching): a prefix is kept at
  the end of each request, and the ends of the latest 80 requests of a conversation are looked at.
"""

from collections.abc import Hashable, Iterator, Sequence
from typing import NamedTuple

FIVE_MINUTES, HOUR = 300.0, 3_600.0
LOOKBACK = 20
MOST_MARKS = 4
LATEST_ENDS = 80


class Block(NamedTuple):
    """A block: what it is, its tokens, and for how many seconds a mark on it asks; 0 for no mark.

    ends: whether a request of the conversation ends with it.
    """

    content: Hashable
    tokens: int
    lifetime: float = 0.0
    ends: bool = False


class Prices(NamedTuple):
    """The prices of a token, relative to a plain one, and the least size that is cached.

    steps: the sizes above which every token of a prompt costs so many times as much.
    """

    read: float
    write: float
    write_for_an_hour: float
    least: int
    steps: Sequence[tuple[int, float]] = ()

    def factor_at(self, size: int) -> float:
        """Return how many times as much each token costs in a prompt of this size."""
        return max((factor for above, factor in self.steps if size > above), default=1.0)


class Bill(NamedTuple):
    """The tokens of a request, by how they are billed, and what they cost."""

    read: int
    written: int
    written_for_an_hour: int
    plain: int
    cost: float


class AnthropicCache:
    """The cache of one account at Anthropic."""

    def __init__(self, prices: Prices) -> None:
        self._prices = prices
        self._until: dict[Hashable, float] = {}

    def send(self, blocks: Sequence[Block], now: float) -> Bill:
        """Send a request; return its bill."""
        hashes, sizes = _hash(blocks), _measure(blocks)
        marks = [at for at, block in enumerate(blocks, 1) if block.lifetime]
        assert len(marks) <= MOST_MARKS, "the provider refuses a fifth mark"
        marks = [at for at in marks if sizes[at] >= self._prices.least]
        seen = [at for mark in marks for at in range(mark, max(0, mark - LOOKBACK), -1)]
        hits = [at for at in seen if self._until.get(hashes[at], -1.0) >= now]
        hit = max((at for at in hits if sizes[at] >= self._prices.least), default=0)
        read, last = sizes[hit], sizes[max(marks, default=0)]
        # Marks for an hour come first, and what is up to the last of them is written for an hour.
        hour = max((sizes[at] for at in marks if blocks[at - 1].lifetime == HOUR), default=0)
        for at in marks:
            lifetime = blocks[at - 1].lifetime
            self._until[hashes[at]] = max(self._until.get(hashes[at], 0.0), now + lifetime)
        if hit and hashes[hit] in self._until and hit not in marks:
            self._until[hashes[hit]] = max(self._until[hashes[hit]], now + FIVE_MINUTES)
        return self._bill(read, max(0, hour - read), max(0, last - max(read, hour)), sizes[-1])

    def _bill(self, read: int, long: int, short: int, total: int) -> Bill:
        plain = total - read - long - short
        prices = self._prices
        cost = read * prices.read + short * prices.write + long * prices.write_for_an_hour + plain
        return Bill(read, short, long, plain, cost * prices.factor_at(total))


class OpenAICache:
    """The cache of one account at OpenAI, for models from gpt-5.6 on."""

    def __init__(self, prices: Prices) -> None:
        self._prices = prices
        self._kept: set[Hashable] = set()

    def send(self, blocks: Sequence[Block], now: float) -> Bill:
        """Send a request; return its bill. Entries outlive the conversations of the tests."""
        hashes, sizes = _hash(blocks), _measure(blocks)
        ends = [at for at, block in enumerate(blocks, 1) if block.ends][-LATEST_ENDS:]
        hits = [at for at in ends if hashes[at] in self._kept and sizes[at] >= self._prices.least]
        read, total = sizes[max(hits, default=0)], sizes[-1]
        written = total - read if total >= self._prices.least else 0
        self._kept.add(hashes[-1])
        plain = total - read - written
        cost = read * self._prices.read + written * self._prices.write + plain
        return Bill(read, written, 0, plain, cost * self._prices.factor_at(total))


Cache = AnthropicCache | OpenAICache


def bill_all(
    cache: Cache, requests: Sequence[Sequence[Block]], pause: float = 20.0
) -> Iterator[float]:
    """Yield what each of these requests costs, so many seconds apart."""
    for number, blocks in enumerate(requests):
        yield cache.send(blocks, number * pause).cost


def find_worst(costs: Sequence[float], whole: Sequence[float]) -> float:
    """Return the highest bill so far at any request, relative to that of sending everything."""
    paid = everything = worst = 0.0
    for cost, full in zip(costs, whole, strict=True):
        paid, everything = paid + cost, everything + full
        worst = max(worst, paid / everything)
    return worst


class _Chain:
    """Numbers for sequences: two have the same one if and only if they are equal."""

    def __init__(self) -> None:
        self._numbers: dict[tuple[int, Hashable], int] = {}

    def extend(self, number: int, content: Hashable) -> int:
        return self._numbers.setdefault((number, content), len(self._numbers) + 1)


_CHAIN = _Chain()


def _hash(blocks: Sequence[Block]) -> list[int]:
    """Return a number for each prefix of the blocks, the empty one first."""
    hashes = [0]
    for block in blocks:
        hashes.append(_CHAIN.extend(hashes[-1], block.content))
    return hashes


def _measure(blocks: Sequence[Block]) -> list[int]:
    sizes = [0]
    for block in blocks:
        sizes.append(sizes[-1] + block.tokens)
    return sizes
