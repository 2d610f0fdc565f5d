import json
import subprocess
import sys
import tracemalloc
from concurrent.futures import ThreadPoolExecutor
from operator import mul

import pytest
from hypothesis import given
from hypothesis import strategies as st

from masking.tokens import TokenCounter, TokenEstimator, estimate_tokens
from masking.tokens.estimate import UNIT, compute_cost
from tests.support.kinds import KINDS, make_text
from tests.support.marks import as_one_test, thorough
from tests.support.places import CONVERSATIONS, ROOT
from tests.support.plain_cost import compute_cost_plainly, count_matches
from tests.tools.benchmarks.token_estimate import make_texts, measure_errors, read_texts

SHORT = [
    ("", 0),
    ("a", 1),
    (" ", 1),
    ("\n", 1),
    ("hello world", 2),
    ("read_file", 3),
    ('{"path":"src/app.py","line":12}', 12),
    ("\ud800", 1),
    ("é", 2),
    ("日本語", 3),
    ("Привет, мир", 3),
    ("=" * 80, 2),
    (" " * 80, 1),
    ("0123456789", 4),
    ("\x00", 2),
    ("🙂", 3),
]

MADE = {
    "English prose": (134, 1079, 9208),
    "French prose": (158, 1229, 10071),
    "Russian": (160, 1200, 10000),
    "Arabic": (174, 1308, 10915),
    "Hindi": (229, 1709, 14224),
    "Thai": (274, 2056, 17139),
    "Chinese": (426, 3221, 27127),
    "Japanese": (464, 3536, 29260),
    "Korean": (382, 2863, 23807),
    "padded table": (31, 303, 2628),
    "table in boxes": (142, 1061, 8905),
    "JSON, compact": (250, 1980, 15747),
    "JSON, indented": (196, 1335, 12652),
    "tool schemas": (150, 1127, 9371),
    "base64 in one line": (535, 3932, 33117),
    "base64 in lines": (524, 3750, 33057),
    "hexadecimal in one line": (494, 3714, 29923),
    "hexadecimal dump": (446, 3363, 26985),
    "hashes": (443, 3317, 28136),
    "UUIDs": (520, 4099, 33375),
    "Python": (189, 1428, 12285),
    "Python with line numbers": (221, 1709, 13773),
    "minified JavaScript": (268, 1956, 17199),
    "log with timestamps": (279, 2062, 17804),
    "ls -l": (366, 2720, 22728),
    "paths": (267, 1985, 16144),
    "ANSI colours": (428, 3008, 26208),
    "CSV of decimals": (441, 3274, 27229),
    "integers": (414, 3098, 26053),
    "diff": (242, 1767, 14762),
    "HTML": (240, 1798, 15236),
    "emoji": (233, 1605, 13886),
    "rules": (77, 628, 5105),
    "progress bar": (198, 1724, 14952),
}
"""Estimates of the first 800, 6,000 and 50,000 characters of a kind."""

LENGTHS = (800, 6_000, 50_000)

OFF_BY = {"Hindi": 0.22, "Thai": 0.22}
"""How far the estimates of a kind may be off, all together, where that is more than 0.15."""


@as_one_test
@pytest.mark.parametrize(("text", "expected"), SHORT, ids=[ascii(text)[:20] for text, _ in SHORT])
def test_a_text_has_this_estimate_on_every_platform(text: str, expected: int) -> None:
    assert expected == estimate_tokens(text)


@as_one_test
@pytest.mark.parametrize("kind", KINDS)
def test_a_made_up_text_has_this_estimate_on_every_platform(kind: str) -> None:
    found = tuple(TokenEstimator().estimate(make_text(kind, chars)) for chars in LENGTHS)
    assert MADE[kind] == found


def test_another_process_with_other_hashes_estimates_the_same() -> None:
    script = (
        "import json; from tests.support.kinds import KINDS, make_text;"
        "from masking.tokens import estimate_tokens as estimate;"
        f"print(json.dumps([[estimate(make_text(k, n)) for n in {LENGTHS}] for k in KINDS]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        check=True,
        cwd=ROOT,
        env={"PYTHONHASHSEED": "7", "PYTHONPATH": "."},
    )
    assert [list(MADE[kind]) for kind in KINDS] == json.loads(done.stdout)


@pytest.mark.parametrize("kind", KINDS)
def test_no_kind_of_text_is_far_off(kind: str) -> None:
    errors = measure_errors(make_texts(kind, (300, 1_000, 3_000, 9_000, 27_000)), TokenCounter())
    assert abs(errors.total) <= OFF_BY.get(kind, 0.15)
    assert errors.worst <= 0.35


def test_a_table_padded_with_blanks_is_not_taken_for_prose() -> None:
    table = make_text("padded table", 30_545)
    exact = TokenCounter().count(table)
    assert 0.85 * exact <= estimate_tokens(table) <= 1.15 * exact < len(table) / 10


@pytest.mark.parametrize("chars", [3_000, 30_000, thorough(90_000)])
def test_a_text_that_changes_in_its_middle_is_near(chars: int) -> None:
    counter = TokenCounter()
    for first, second in zip(KINDS, [*KINDS][7:], strict=False):
        text = make_text(first, chars) + make_text(second, chars)
        assert abs(estimate_tokens(text) / counter.count(text) - 1) <= 0.35, (first, second)


@pytest.mark.thorough
@pytest.mark.skipif(not CONVERSATIONS.exists(), reason="no conversations at hand")
def test_conversations_are_estimated_within_a_few_percent() -> None:
    counter = TokenCounter()
    totals = [measure_errors(texts, counter).total for texts in read_texts(CONVERSATIONS)]
    assert sum(map(abs, totals)) / len(totals) <= 0.03
    assert max(map(abs, totals)) <= 0.10


@given(st.text(st.characters(), max_size=300), st.integers(0, 5_000))
def test_any_text_has_an_estimate(text: str, times: int) -> None:
    repeated = text * times
    estimate = estimate_tokens(repeated)
    assert estimate == TokenEstimator().estimate(repeated)
    assert bool(repeated) <= estimate <= 4 * len(repeated)


def test_a_longer_run_never_costs_less() -> None:
    costs = {
        char: [compute_cost(char * length) for length in (1, 16, 48, 240, 2_400)]
        for char in (*map(chr, range(256)), *"Ωжש中あ한กअ—─🙂\ud800")
    }
    assert {char: sorted(found) for char, found in costs.items()} == costs


@as_one_test
@pytest.mark.parametrize("kind", KINDS)
def test_a_made_up_text_costs_what_its_patterns_cost_one_by_one(kind: str) -> None:
    texts = [make_text(kind, chars) for chars in (1, 30, 700, 8_000)]
    assert [*map(compute_cost_plainly, texts)] == [*map(compute_cost, texts)]


def test_pages_and_sources_cost_what_their_patterns_cost_one_by_one() -> None:
    pages = [*ROOT.glob("docs/**/*.md"), *ROOT.glob("masking/**/*.py"), *ROOT.glob("addon/**/*.js")]
    texts = [page.read_text(encoding="utf-8") for page in pages]
    assert len(texts) > 50
    assert [*map(compute_cost_plainly, texts)] == [*map(compute_cost, texts)]


ONE_OF_EACH_CLASS = "aZ09 .=-_#\t\r\n\x00éßЖע中あ한ก—─🙂\ud800\uff21"
RUNS = st.tuples(st.sampled_from(ONE_OF_EACH_CLASS), st.sampled_from((1, 1, 1, 2, 3, 4, 16, 65)))


@given(st.lists(RUNS.map(lambda run: run[0] * run[1]), max_size=60).map("".join))
def test_any_text_costs_what_its_patterns_cost_one_by_one(text: str) -> None:
    assert compute_cost_plainly(text) == compute_cost(text)


def test_a_fit_to_what_the_shipped_costs_say_says_the_same() -> None:
    fitting = pytest.importorskip("tests.tools.benchmarks.token_fit", exc_type=ImportError)
    texts = [make_text(kind, 1_000, seed) for kind in KINDS for seed in range(20)]
    matches, costs = [*map(count_matches, texts)], [*map(compute_cost, texts)]
    fitted = fitting.fit(matches, [cost / UNIT for cost in costs])
    again = [sum(map(mul, fitted, found)) for found in matches]
    assert pytest.approx(costs, rel=0.001) == again


@given(
    st.sampled_from([*KINDS]),
    st.integers(1_000, 50_000),
    st.sampled_from([*KINDS]),
    st.integers(1, 20_000),
)
def test_appending_makes_no_estimate_shrink_by_much(
    kind: str, chars: int, other: str, more: int
) -> None:
    """The worst that was found are rules of 1,536 characters and 29 of prose, by 22%."""
    text = make_text(kind, chars)
    assert estimate_tokens(text + make_text(other, more)) >= 0.75 * estimate_tokens(text)


def test_what_is_remembered_stays_within_its_bound() -> None:
    estimator = TokenEstimator(max_bytes=1 << 18)
    texts = [make_text(kind, 9_000, n) for n in range(75) for kind in ("Python", "padded table")]
    tracemalloc.start()
    for text in texts:
        estimator.estimate(text)
    remembered, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert remembered <= 1.2 * (1 << 18)


def test_forgetting_changes_no_estimate() -> None:
    forgetful, texts = TokenEstimator(max_bytes=4_000), [make_text(k, 4_000) for k in KINDS]
    expected = [TokenEstimator().estimate(text) for text in texts]
    for _ in range(3):
        assert expected == [forgetful.estimate(text) for text in texts]
        assert expected[:2] * 2 == [forgetful.estimate(text) for text in texts[:2] * 2]


def test_threads_share_an_estimator() -> None:
    texts = [make_text(kind, chars) for kind in KINDS for chars in (600, 5_000)]
    expected = [TokenEstimator().estimate(text) for text in texts]
    shared = TokenEstimator(max_bytes=200_000)
    with ThreadPoolExecutor(8) as threads:
        found = [*threads.map(lambda _: [shared.estimate(text) for text in texts], range(24))]
    assert [expected] * 24 == found
