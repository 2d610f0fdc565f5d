"""What a conversation has shown so far, and where."""

from addon.replay.shown_texts import ShownTexts

WANTED = frozenset("abc")


def test_results_are_found_by_what_they_alone_show() -> None:
    shown = ShownTexts(WANTED)
    shown.show_result(0, "ax")
    shown.show_result(2, "ab")
    assert ((0, 2), (2,)) == shown.find_results(frozenset("abc"))
    assert ((2,),) == shown.find_results(frozenset("b"))
    assert () == shown.find_results(frozenset("cx"))


def test_what_two_words_have_in_common_is_found_once() -> None:
    shown = ShownTexts(WANTED)
    shown.show_result(1, "ab")
    assert ((1,),) == shown.find_results(frozenset("ab"))


def test_what_a_message_shows_is_in_no_result_alone() -> None:
    shown = ShownTexts(WANTED)
    shown.show_result(0, "ab")
    shown.show("bx")
    assert ((0,),) == shown.find_results(frozenset("ab"))
