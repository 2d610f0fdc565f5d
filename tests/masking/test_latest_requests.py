import pytest
from hypothesis import given
from hypothesis import strategies as st

from masking.accounting.ledger import Chains, Continued, LatestRequests, chain


def spell(names: str) -> list[bytes]:
    return chain(b"seed", [name.encode() for name in names])


@pytest.mark.parametrize(
    ("requests", "asked", "expected"),
    [
        pytest.param([], "ab", None, id="nothing is known"),
        pytest.param(["ab"], "abc", (0, 2), id="it goes on"),
        pytest.param(["ab"], "ab", (0, 2), id="the same request again"),
        pytest.param(["ab"], "a", None, id="it goes back"),
        pytest.param(["ab"], "xb", None, id="another beginning"),
        pytest.param(["a", "ab"], "abc", (0, 2), id="the latest request of one conversation"),
        pytest.param(["a", "ab"], "ax", None, id="not an earlier request of it"),
        pytest.param(["ab", "a"], "abc", (0, 2), id="the longest of two conversations"),
        pytest.param(["ab", "a"], "ax", (1, 1), id="the other of two"),
        pytest.param(["", ""], "", None, id="without messages"),
        pytest.param(["a", "b", "c", "d"], "ax", None, id="one that was forgotten"),
        pytest.param(["a", "b", "ax", "c", "d"], "ax", (0, 2), id="one that went on is kept"),
    ],
)
def test_a_request_continues_the_conversation_with_most_of_its_messages(
    requests: list[str], asked: str, expected: tuple[int, int] | None
) -> None:
    latest: LatestRequests[int] = LatestRequests(3)
    opened = 0
    for names in requests:
        continued = latest.find(spell(names))
        latest.replace(continued, spell(names), continued.conversation if continued else opened)
        opened += continued is None
    assert latest.find(spell(asked)) == (expected and Continued(*expected))


def test_without_a_bound_none_is_forgotten() -> None:
    latest: LatestRequests[int] = LatestRequests()
    names = [chr(ord("A") + number) for number in range(50)]
    for number, name in enumerate(names):
        latest.replace(None, spell(name), number)
    assert [Continued(number, 1) for number in range(50)] == [
        latest.find(spell(name + "x")) for name in names
    ]


digests = st.lists(st.sampled_from([b"a" * 16, b"b" * 16]), max_size=6)


@given(st.sampled_from([b"s", b"t"]), st.sampled_from([b"s", b"t"]), digests, digests)
def test_chains_are_equal_as_far_as_the_sequences_are(
    seed: bytes, other_seed: bytes, one: list[bytes], other: list[bytes]
) -> None:
    chained, other_chained = chain(seed, one), chain(other_seed, other)
    assert (len(one), len(other)) == (len(chained), len(other_chained))
    for end, (a, b) in enumerate(zip(chained, other_chained, strict=False), 1):
        assert (a == b) == (seed == other_seed and one[:end] == other[:end])


@pytest.mark.parametrize(
    "requests",
    [
        pytest.param(["a", "ab", "abcd"], id="it grows"),
        pytest.param(["abcd", "abcd"], id="it is sent again"),
        pytest.param(["abcd", "ab", "abx"], id="it goes back"),
        pytest.param(["abcd", "axcd", "abcd"], id="something in the middle changes"),
        pytest.param(["ab", "cd", "", "abc", "cde"], id="two take turns, and one is empty"),
        pytest.param(["ab", "cd", "ef", "gh", "abc"], id="one is forgotten"),
    ],
)
def test_prefixes_are_the_same_whatever_was_chained_before(requests: list[str]) -> None:
    chains = Chains(2)
    for names in requests:
        digests = [name.encode() for name in names]
        for seed in (b"seed", b"other"):
            assert chain(seed, digests) == chains.chain(seed, digests)
