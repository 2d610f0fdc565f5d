"""What is remembered of conversations that a provider refused masked."""

from addon.refusals import Clearings, Refusals

ONE, OTHER = b"one", b"other"


def test_a_conversation_is_tried_by_one_request() -> None:
    refusals = Refusals()
    assert [True, False, True] == [*map(refusals.begin, (ONE, ONE, OTHER))]
    assert not refusals.goes_unmasked(ONE)


def test_what_was_taken_goes_unmasked_and_what_was_refused_does_not() -> None:
    refusals = Refusals()
    refusals.begin(ONE)
    refusals.begin(OTHER)
    refusals.settle(ONE, "accepted")
    refusals.settle(OTHER, "refused")
    assert (True, False) == (refusals.goes_unmasked(ONE), refusals.goes_unmasked(OTHER))
    assert (False, False) == (refusals.begin(ONE), refusals.begin(OTHER))


def test_what_says_nothing_allows_another_try() -> None:
    refusals = Refusals()
    refusals.begin(ONE)
    refusals.settle(ONE, None)
    assert refusals.begin(ONE)


def test_what_was_refused_is_tried_again_once_a_masked_request_was_taken() -> None:
    """The cause of the one need not be that of a later one."""
    refusals = Refusals()
    for conversation in (ONE, OTHER):
        refusals.begin(conversation)
    refusals.settle(ONE, "refused")
    refusals.settle(OTHER, "accepted")
    for conversation in (ONE, OTHER):
        refusals.note_taken(conversation)
    assert [True, False] == [*map(refusals.begin, (ONE, OTHER))]
    refusals.note_taken(ONE)  # beside the one that is tried just now
    assert (False, True) == (refusals.begin(ONE), refusals.goes_unmasked(OTHER))


def test_the_longest_unused_is_forgotten() -> None:
    refusals = Refusals(max_conversations=1)
    for conversation in (ONE, OTHER):
        refusals.begin(conversation)
        refusals.settle(conversation, "accepted")
    assert (False, True) == (refusals.goes_unmasked(ONE), refusals.goes_unmasked(OTHER))


def test_a_conversation_asks_no_more_once_that_was_refused() -> None:
    clearings = Clearings()
    clearings.end(b"a")
    clearings.note(b"a", 9_000, is_cleared=False)
    assert [True, False] == [*map(clearings.has_ended, (b"a", b"b"))]


def test_a_conversation_asks_no_more_once_it_was_twice_in_vain() -> None:
    clearings = Clearings()
    told = [(9_000, False), (9_000, True), (9_000, False), (10, False), (9_000, False)]
    ended = []
    for tokens, is_cleared in told:
        clearings.note(b"a", tokens, is_cleared=is_cleared)
        ended.append(clearings.has_ended(b"a"))
    assert [False, False, False, False, True] == ended
