"""Lines that a call takes over from what a conversation has shown."""

import pytest

from addon.replay.reread import LEAST_QUOTED_CHARS, find_quoted_lines, find_shown_lines

LINE = "return parse(tokens)"


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        pytest.param("", [], id="nothing"),
        pytest.param(LINE, [LINE], id="a line"),
        pytest.param(f"\t  {LINE}  \r\n{LINE}!", [LINE, LINE + "!"], id="without blanks around it"),
        pytest.param("x" * LEAST_QUOTED_CHARS, ["x" * LEAST_QUOTED_CHARS], id="the least length"),
        pytest.param(" " + "x" * (LEAST_QUOTED_CHARS - 1) + " ", [], id="blanks do not count"),
    ],
)
def test_lines_are_long_enough(text: str, lines: list[str]) -> None:
    assert lines == [*find_shown_lines([text])]
    assert lines == [*find_quoted_lines([text])]


@pytest.mark.parametrize("number", ["12\t", "    12→", "12:", "7-", "  3|"])
def test_a_numbered_line_is_shown_without_its_number(number: str) -> None:
    assert [f"{number}{LINE}".strip(), LINE] == [*find_shown_lines([f"{number}{LINE}"])]


def test_a_line_that_begins_with_a_number_is_not_cut() -> None:
    assert ["12 return parse(tokens)"] == [*find_shown_lines(["12 return parse(tokens)"])]


@pytest.mark.parametrize("sign", "-+")
def test_a_patch_quotes_without_its_sign(sign: str) -> None:
    assert [f"{sign}    {LINE}", LINE] == [*find_quoted_lines([f"{sign}    {LINE}"])]
    assert [f"{sign}{LINE}"] == [*find_shown_lines([f"{sign}{LINE}"])]
