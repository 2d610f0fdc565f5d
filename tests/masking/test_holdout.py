"""The hold-out: which conversations are observed only."""

import itertools
import random

import pytest

from masking.memory import is_held_out

OPENINGS = [random.Random(number).randbytes(16) for number in range(10_000)]


def choose(percent: float, salt: str = "") -> set[bytes]:
    return {opening for opening in OPENINGS if is_held_out(opening, percent, salt)}


@pytest.mark.parametrize("salt", ["", "spring", "é" * 100])
@pytest.mark.parametrize("percent", [1, 10, 12.5, 50, 99])
def test_about_as_many_are_held_out_as_are_asked_for(percent: float, salt: str) -> None:
    deviation = (len(OPENINGS) * percent / 100 * (1 - percent / 100)) ** 0.5
    assert abs(len(choose(percent, salt)) - len(OPENINGS) * percent / 100) < 4 * deviation


def test_none_and_all() -> None:
    assert set() == choose(0)
    assert set(OPENINGS) == choose(100)


def test_a_larger_percentage_only_adds_conversations() -> None:
    groups = [choose(percent) for percent in (0, 0.1, 5, 5.5, 20, 80, 100)]
    assert all(less < more for less, more in itertools.pairwise(groups))


def test_another_salt_chooses_others_independently_of_the_first() -> None:
    first, second = choose(20, "a"), choose(20, "b")
    assert abs(len(first & second) - 400) < 80


def test_the_choice_is_the_same_in_every_version() -> None:
    openings = [bytes([number] * 16) for number in range(16)]
    chosen = [number for number, each in enumerate(openings) if is_held_out(each, 25, "salt")]
    assert [7, 8, 15] == chosen
