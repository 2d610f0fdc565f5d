"""Whatever a template has in it, a long text takes time in proportion to its length."""

import time
from collections.abc import Callable, Iterator
from itertools import product

import pytest

from masking.window.placeholder import parse_marker, parse_template
from tests.support.marks import as_one_test

_FIELDS = (
    "{tool_call_id}",
    "{tool_name}",
    "{original_chars}",
    "{original_tokens}",
    "{arguments}",
    "{recall}",
)
_MARKER_FIELDS = ("{left_out_chars}", "{original_chars}", "{arguments}", "{recall}")
_AROUND = ("{}{}", "{}: {} left out", "0{}0{}0")

_SIZES = (1_000, 12_000, 144_000)
_NOISE = 0.005
"""In seconds: what is faster is measured as this."""


def templates(fields: tuple[str, ...]) -> Iterator[str]:
    """Yield each field by itself, and each pair of fields, beside one another and apart."""
    yield from fields
    for around, first, second in product(_AROUND, fields, fields):
        yield around.format(first, second)


def hostile_texts(template: str, length: int) -> Iterator[str]:
    """Yield texts in which much of a template is found again and again, but not all in its order.

    What is missing stands at the end, so that no look for it tells.
    """
    literals = [piece.partition("}")[2] for piece in template.split("{")]
    end = f"x{template.partition('{')[0]}".join(reversed(literals))
    for unit in ("x", "1", "a", "0a", ": ", "{", *literals, "".join(f"{p}1" for p in literals)):
        if unit:
            yield (unit * length)[:length] + end


def grows_as_its_texts(work: Callable[[str], object], template: str) -> bool:
    """Whether the time grows at most four times as fast as the length, from one size to the next.

    As its square, it grows twelve times as fast. The small sizes come first, so that this is seen
    before a long text takes hours.
    """
    times: list[float] = []
    for size in _SIZES:
        texts = [*hostile_texts(template, size)]
        start = time.thread_time()
        for text in texts:
            work(text)
        times.append(max(_NOISE, time.thread_time() - start))
        if len(times) > 1 and times[-1] > 4 * times[-2] * size / _SIZES[len(times) - 2]:
            return False
    return True


_FIRST_TO_THIRD = range(3)
"""What else the machine does may disturb the first time, and the second."""


@as_one_test
@pytest.mark.parametrize("template", [*templates(_MARKER_FIELDS)])
def test_a_marker_is_looked_for_in_linear_time(template: str) -> None:
    marker = parse_marker(template)
    assert any(
        grows_as_its_texts(lambda text: marker.is_in(text, "x"), template) for _ in _FIRST_TO_THIRD
    )


@as_one_test
@pytest.mark.parametrize("template", [*templates(_FIELDS)])
def test_a_placeholder_is_rendered_and_recognized_in_linear_time(template: str) -> None:
    parsed = parse_template(template)

    def work(text: str) -> None:
        placeholder = parsed.render(text, text, text, text)
        assert parsed.could_have_rendered(placeholder, text, text, text)
        parsed.could_have_rendered(text, text, text, {text: text})

    assert any(grows_as_its_texts(work, template) for _ in _FIRST_TO_THIRD)
