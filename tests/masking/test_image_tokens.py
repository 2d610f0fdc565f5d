"""The tokens of images, by the examples that vendors publish."""

import pytest

from masking.tokens import count_claude, count_openai
from tests.support.marks import as_one_test


@as_one_test
@pytest.mark.parametrize(
    ("width", "height", "claude", "openai"),
    [
        pytest.param(1024, 1024, 1369, 765, id="OpenAI's first example"),
        pytest.param(2048, 4096, 1568, 1105, id="OpenAI's second example"),
        pytest.param(1000, 1000, 1296, 765, id="Anthropic's example"),
        pytest.param(1280, 800, 46 * 29, 1105, id="a screenshot"),
        pytest.param(3840, 2160, 1568, 1105, id="a large screenshot"),
        pytest.param(128, 64, 5 * 3, 255, id="a small image"),
        pytest.param(1, 1, 1, 255, id="a dot"),
        pytest.param(1, 10**9, 56, 765, id="a line"),
    ],
)
def test_what_an_image_costs(width: int, height: int, claude: int, openai: int) -> None:
    assert (claude, openai) == (count_claude(width, height), count_openai(width, height))
