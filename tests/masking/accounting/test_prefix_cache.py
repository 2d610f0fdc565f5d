import dataclasses
from collections.abc import Iterable, Sequence
from itertools import accumulate
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from masking.accounting.prefix_cache import (
    CachePoints,
    PrefixCache,
    cache_points,
    count_writable,
)
from masking.conversation import Piece
from masking.prices import CacheRules
from masking.prices.cache_rules import OPENAI, find_cache_rules
from tests.support.marks import as_one_test

ANTHROPIC, DEEPSEEK = find_cache_rules("anthropic"), find_cache_rules("deepseek")


@as_one_test
@pytest.mark.parametrize(
    ("rules", "tokens", "expected"),
    [
        pytest.param(OPENAI, 0, 0, id="OpenAI: nothing in common"),
        pytest.param(OPENAI, 1_023, 0, id="OpenAI: below the least"),
        pytest.param(OPENAI, 1_023.9, 0, id="OpenAI: a hair below the least"),
        pytest.param(OPENAI, 1_024, 1_024, id="OpenAI: the least"),
        pytest.param(OPENAI, 1_151, 1_024, id="OpenAI: a token short of the next block"),
        pytest.param(OPENAI, 1_151.9, 1_024, id="OpenAI: a hair short of the next block"),
        pytest.param(OPENAI, 1_152, 1_152, id="OpenAI: the next block"),
        pytest.param(OPENAI, 100_000, 99_968, id="OpenAI: a long prompt"),
        pytest.param(ANTHROPIC, 1_023, 0, id="Anthropic: below the least"),
        pytest.param(ANTHROPIC, 1_024, 1_024, id="Anthropic: the least"),
        pytest.param(ANTHROPIC, 1_025.5, 1_025, id="Anthropic: token by token"),
        pytest.param(DEEPSEEK, 63, 0, id="DeepSeek: below the least"),
        pytest.param(DEEPSEEK, 64, 64, id="DeepSeek: the least"),
        pytest.param(DEEPSEEK, 127, 64, id="DeepSeek: a token short of the next block"),
        pytest.param(DEEPSEEK, 128, 128, id="DeepSeek: the next block"),
    ],
)
def test_a_common_prefix_counts_in_whole_blocks_from_a_least_size_on(
    rules: CacheRules, tokens: float, expected: int
) -> None:
    assert expected == rules.round(tokens)


@as_one_test
@pytest.mark.parametrize("provider", [None, "", "openai", "x-ai", "no such"])
def test_other_providers_are_taken_to_match_as_openai_does(provider: str | None) -> None:
    rules = find_cache_rules(provider)
    assert (OPENAI.minimum, OPENAI.block) == (rules.minimum, rules.block)
    assert "any prefix" == rules.reads_at


@as_one_test
@pytest.mark.parametrize(
    ("provider", "model", "expected"),
    [
        pytest.param("anthropic", "claude-opus-4-8", ("marks", 1_024), id="Claude"),
        pytest.param("anthropic", None, ("marks", 1_024), id="Anthropic, an unknown model"),
        pytest.param("anthropic", "claude-opus-5", ("marks", 512), id="Opus 5"),
        pytest.param("anthropic", "claude-opus-5-5", ("marks", 512), id="Opus 5.5"),
        pytest.param("anthropic", "claude-fable-5-1", ("marks", 512), id="Fable 5.1"),
        pytest.param("anthropic", "claude-sonnet-5", ("marks", 1_024), id="Sonnet 5"),
        pytest.param("anthropic", "claude-sonnet-5-5", ("marks", 512), id="Sonnet 5.5"),
        pytest.param("anthropic", "claude-opus-4-7", ("marks", 2_048), id="Opus 4.7"),
        pytest.param("anthropic", "claude-opus-4-6", ("marks", 4_096), id="Opus 4.6"),
        pytest.param("anthropic", "claude-haiku-4-5-20251001", ("marks", 4_096), id="Haiku 4.5"),
        pytest.param("anthropic", "claude-4-5-opus", ("marks", 4_096), id="in another order"),
        pytest.param("openrouter", "anthropic/claude-opus-4.6", ("marks", 4_096), id="OpenRouter"),
        pytest.param("aws", "us.anthropic.claude-opus-4-6-v1", ("marks", 4_096), id="Bedrock"),
        pytest.param("openai", "gpt-5.5", ("any prefix", 1_024), id="OpenAI before GPT-5.6"),
        pytest.param("openai", "gpt-5-2025-08-07", ("any prefix", 1_024), id="a date"),
        pytest.param("azure", "gpt-35-turbo", ("any prefix", 1_024), id="an old name at Azure"),
        pytest.param("openai", "gpt-5.6-sol", ("request ends", 1_024), id="GPT-5.6"),
        pytest.param("openai", "gpt-5-6-terra", ("request ends", 1_024), id="GPT-5.6, hyphens"),
        pytest.param("openai", "gpt-6.1-sol", ("request ends", 1_024), id="GPT-6.1"),
        pytest.param("azure", "gpt-6-astra", ("request ends", 1_024), id="GPT-6 at Azure"),
        pytest.param("google", "gemini-2.5-pro", ("any prefix", 2_048), id="Gemini 2.5"),
        pytest.param("google", "gemini-3.8-flash", ("any prefix", 4_096), id="Gemini 3"),
        pytest.param("x-ai", "grok-4", ("any prefix", 1_024), id="another provider"),
    ],
)
def test_where_a_prompt_is_read_from_depends_on_the_model(
    provider: str, model: str | None, expected: tuple[str, int]
) -> None:
    rules = find_cache_rules(provider, model)
    assert expected == (rules.reads_at, rules.minimum)
    assert {"marks": 20, "request ends": 80, "any prefix": None}[rules.reads_at] == rules.lookback


@pytest.mark.parametrize(
    ("provider", "model", "expected"),
    [
        pytest.param("anthropic", "claude-opus-5", True, id="Anthropic"),
        pytest.param("aws", "us.anthropic.claude-opus-4-6-v1", True, id="Bedrock"),
        pytest.param("github-copilot", "claude-opus-5", False, id="one that may set its own"),
        pytest.param("google", "gemini-3.8-flash", False, id="one that needs none"),
    ],
)
def test_some_providers_keep_nothing_of_a_request_without_a_mark(
    provider: str, model: str, expected: bool
) -> None:
    assert expected == find_cache_rules(provider, model).needs_marks


def spell(names: str) -> list[Piece]:
    """Return a prompt with a piece for each letter; the n-th letter has n tokens."""
    return [Piece(name.encode() * 16, ord(name) - ord("a") + 1) for name in names]


def send(
    cache: PrefixCache,
    pieces: Sequence[Piece],
    now: float = 0.0,
    ttl: float | None = None,
    *,
    points: CachePoints | None = None,
    scope: bytes = b"scope",
) -> int:
    """Send a prompt; return how many of its tokens are cached."""
    cached = cache.send(scope, [piece.digest for piece in pieces], now, ttl, points=points)
    return sum(piece.tokens for piece in pieces[:cached])


@as_one_test
@pytest.mark.parametrize(
    ("sent", "prompt", "expected"),
    [
        pytest.param([], "abc", 0, id="the first prompt"),
        pytest.param(["abc"], "abc", 6, id="the same prompt again"),
        pytest.param(["abc"], "abcd", 6, id="a prompt that goes on"),
        pytest.param(["abcd"], "abc", 6, id="a prompt that was cut"),
        pytest.param(["abcd"], "abxd", 3, id="a piece in the middle changed"),
        pytest.param(["abc"], "xbc", 0, id="the first piece changed"),
        pytest.param(["abc"], "", 0, id="an empty prompt"),
        pytest.param(["ab", "ax"], "abc", 3, id="not the last prompt, but one before it"),
        pytest.param(["ab", "abcd", "a"], "abcx", 6, id="the longest of several"),
        pytest.param(["aab"], "aaab", 2, id="a piece that is repeated"),
    ],
)
def test_what_is_cached_is_the_longest_prefix_sent_before(
    sent: list[str], prompt: str, expected: int
) -> None:
    cache = PrefixCache()
    for earlier in sent:
        send(cache, spell(earlier))
    assert expected == send(cache, spell(prompt))


def mark(names: str, blocks: int = 1) -> list[Piece]:
    """Return such a prompt; a capital is marked, and `>` stands before an answer."""
    pieces: list[Piece] = []
    for name, before in zip(names, f" {names}", strict=False):
        if name != ">":
            (piece,) = spell(name.lower())
            pieces.append(piece._replace(
                blocks=blocks, is_marked=name.isupper(), begins_answer=before == ">"
            ))  # fmt: skip
    return pieces


MARKS = CacheRules(minimum=1, block=1, reads_at="marks", lookback=3)
ENDS = CacheRules(minimum=1, block=1, reads_at="request ends", lookback=2)


@as_one_test
@pytest.mark.parametrize(
    ("rules", "sent", "prompt", "expected"),
    [
        pytest.param(MARKS, ["abc"], "abC", (0, 6), id="no mark: nothing was written"),
        pytest.param(MARKS, ["abC"], "abcd", (0, 0), id="no mark: nothing is looked for"),
        pytest.param(MARKS, ["abC"], "abcD", (6, 10), id="the mark of the request before"),
        pytest.param(MARKS, ["abC"], "abcdE", (6, 15), id="as far back as a mark looks"),
        pytest.param(MARKS, ["abC"], "abcdeF", (0, 21), id="further back than a mark looks"),
        pytest.param(MARKS, ["AbcdE"], "AbcdefghI", (1, 45), id="each mark looks for itself"),
        pytest.param(MARKS, ["AbcdE"], "AbxdE", (1, 0), id="a change between two marks"),
        pytest.param(MARKS, ["abC"], "Abc", (0, 1), id="what was not marked then"),
        pytest.param(MARKS, ["abC", "abcD"], "abcdE", (10, 15), id="the longest of several"),
        pytest.param(ENDS, ["ab"], "ab>cd", (3, 10), id="the end of the request before"),
        pytest.param(ENDS, ["ab", "ab>cd"], "ab>cx", (3, 0), id="an earlier end"),
        pytest.param(ENDS, ["ab>cd"], "abx", (0, 0), id="no end within what is the same"),
        pytest.param(ENDS, ["ab>cd"], "ab", (0, 3), id="an end that no request had"),
        pytest.param(ENDS, ["ab", "ab>c"], "ab>x>d", (0, 0), id="only the latest are looked at"),
        pytest.param(ENDS, ["ab>cd"], "ab>cd", (10, 10), id="the same request again"),
    ],
)
def test_some_caches_are_read_at_certain_points_alone(
    rules: CacheRules, sent: list[str], prompt: str, expected: tuple[int, int]
) -> None:
    cache = PrefixCache()
    for earlier in sent:
        pieces = mark(earlier)
        send(cache, pieces, points=cache_points(pieces, rules))
    pieces = mark(prompt)
    points = cache_points(pieces, rules)
    assert expected[0] == send(cache, pieces, points=points)
    if expected[1]:
        sizes = [*accumulate((piece.tokens for piece in pieces), initial=0)]
        assert expected[1] == count_writable(sizes, points, rules)


def test_a_mark_looks_back_so_many_blocks_not_so_many_messages() -> None:
    assert CachePoints((3, 4), (4,)) == cache_points(mark("abcD", blocks=2), MARKS)
    assert CachePoints((4,), (4,)) == cache_points(mark("abcD", blocks=3), MARKS)


def test_what_is_too_short_is_not_written() -> None:
    rules = dataclasses.replace(MARKS, minimum=7)
    points = cache_points(mark("abCd"), rules)
    assert 0 == count_writable([0, 1, 3, 6, 10], points, rules)
    assert 6 == count_writable([0, 1, 3, 6, 10], points, MARKS)
    assert 0 == count_writable([0, 1], cache_points(mark("a"), MARKS), MARKS)
    assert None is count_writable([0, 1], cache_points(mark("a"), OPENAI), OPENAI)


def test_a_point_is_forgotten_like_any_prefix() -> None:
    cache, pieces = PrefixCache(), mark("aB")
    points = cache_points(pieces, MARKS)
    assert [0, 3, 3, 0] == [
        send(cache, pieces, now, ttl=10.0, points=points) for now in (0.0, 10.0, 20.0, 31.0)
    ]
    small = PrefixCache(max_prefixes=2)
    send(small, pieces, points=points)
    send(small, pieces, points=points, scope=b"another")
    assert 0 == send(small, pieces, points=points)


def test_seeds_have_nothing_in_common() -> None:
    cache = PrefixCache()
    send(cache, spell("abc"), scope=b"a model")
    assert 0 == send(cache, spell("abc"), scope=b"another")
    assert 6 == send(cache, spell("abc"), scope=b"a model")


@as_one_test
@pytest.mark.parametrize(
    ("sent", "prompt", "now", "expected"),
    [
        pytest.param([("ab", 0)], "abc", 300, 3, id="within its time"),
        pytest.param([("ab", 0)], "abc", 301, 0, id="after its time"),
        pytest.param([("abc", 999)], "abx", 1_000, 3, id="a part of what was used just now"),
        pytest.param([("ab", 0), ("abc", 200)], "abcd", 500, 6, id="its use keeps it"),
        pytest.param([("abc", 0), ("ab", 200)], "abc", 400, 3, id="its use keeps what was used"),
        pytest.param([("abc", 0), ("ax", 200)], "abc", 400, 1, id="another prompt keeps the rest"),
        pytest.param([("ab", 0), ("ab", 400)], "ab", 700, 3, id="what expired is written anew"),
        pytest.param([("ab", 10)], "ab", 5, 3, id="a clock that goes back"),
    ],
)
def test_what_is_not_used_for_long_is_forgotten(
    sent: list[tuple[str, float]], prompt: str, now: float, expected: int
) -> None:
    cache = PrefixCache()
    for earlier, when in sent:
        send(cache, spell(earlier), when, 300)
    assert expected == send(cache, spell(prompt), now, 300)


def test_without_a_time_to_live_nothing_expires() -> None:
    cache = PrefixCache()
    send(cache, spell("ab"), 0.0)
    assert 3 == send(cache, spell("ab"), 1e9)


def test_the_longest_unused_goes_first_and_its_end_before_its_beginning() -> None:
    cache = PrefixCache(max_prefixes=5)
    for names in ("abc", "ab", "xyz"):
        send(cache, spell(names))
    assert 3 == send(cache, spell("abc"))


def test_a_prompt_longer_than_the_cache_is_not_remembered() -> None:
    cache = PrefixCache(max_prefixes=2)
    send(cache, spell("abcd"))
    assert 0 == send(cache, spell("abcd"))


class Request(NamedTuple):
    seed: bytes
    names: str
    now: float


@st.composite
def histories(draw: st.DrawFn) -> list[Request]:
    """Requests whose prompts go on, are cut and branch off, at times that do not go back."""
    requests: list[Request] = []
    now = 0.0
    for _ in range(draw(st.integers(1, 12))):
        base = draw(st.sampled_from(["", *(request.names for request in requests)]))
        kept = base[: draw(st.integers(0, len(base)))] if draw(st.booleans()) else base
        names = kept + draw(st.text("abc", max_size=4))
        now += draw(st.sampled_from([0.0, 1.0, 5.0]))
        requests.append(Request(draw(st.sampled_from([b"s", b"s", b"t"])), names, now))
    return requests


def find_longest(request: Request, earlier: Iterable[Request], ttl: float | None) -> int:
    """Return what is cached, by comparing with every earlier prompt."""
    return max(
        (
            count_tokens(request.names[:length])
            for other in earlier
            if other.seed == request.seed and (ttl is None or request.now - other.now <= ttl)
            for length in range(len(request.names) + 1)
            if other.names.startswith(request.names[:length])
        ),
        default=0,
    )


def count_tokens(names: str) -> int:
    return sum(piece.tokens for piece in spell(names))


def play(
    requests: Sequence[Request], ttl: float | None, cache: PrefixCache
) -> list[tuple[int, int]]:
    """Return what the cache says to each request, and what comparing says."""
    return [
        (
            send(cache, spell(names), now, ttl, scope=seed),
            find_longest(request, requests[:number], ttl),
        )
        for number, request in enumerate(requests)
        for seed, names, now in [request]
    ]


ttls = st.sampled_from([None, 0.0, 1.0, 6.0])


@given(histories(), ttls)
def test_the_cache_says_what_comparing_with_every_earlier_prompt_says(
    requests: list[Request], ttl: float | None
) -> None:
    for said, compared in play(requests, ttl, PrefixCache()):
        assert compared == said


@given(histories(), ttls, st.integers(0, 12))
def test_a_small_cache_never_claims_more(
    requests: list[Request], ttl: float | None, max_prefixes: int
) -> None:
    cache = PrefixCache(max_prefixes)
    for said, compared in play(requests, ttl, cache):
        assert said <= compared
        assert len(cache) <= max_prefixes
