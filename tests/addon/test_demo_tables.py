"""What `obsmask demo` picks as an example, and how it shows it."""

from collections.abc import Sequence

import pytest
from rich.console import Console

from addon.commands.demo_tables import Example, PlayedRequest, find_example, render_example
from masking.wire.usage import Usage


def played(written: Sequence[str], sent: Sequence[str]) -> PlayedRequest:
    """Return a request with tool results of these texts, before and after."""
    return PlayedRequest(
        written,
        sent,
        cost_written=0.0,
        cost_sent=0.0,
        usage_written=Usage(),
        usage_sent=Usage(),
        record={},
    )


WHOLE = played(["task", "long result"], ["task", "long result"])
MASKED = played(["task", "result", "long result"], ["task", "[1]", "[2]"])
DROPPED = played(["task", "the longest of all results"], ["task"])


@pytest.mark.parametrize(
    ("requests", "expected"),
    [
        pytest.param([WHOLE, MASKED, MASKED], Example(2, "long result", "[2]"), id="the longest"),
        pytest.param([DROPPED, MASKED], Example(2, "long result", "[2]"), id="results lost"),
        pytest.param([WHOLE], None, id="no text was replaced"),
        pytest.param([], None, id="nothing was played"),
    ],
)
def test_the_example_is_the_longest_result_where_it_was_replaced_first(
    requests: list[PlayedRequest], expected: Example | None
) -> None:
    assert expected == find_example(requests)


@pytest.mark.parametrize(
    ("after", "shown"),
    [
        pytest.param("[shell: 9 chars masked]", "    [shell: 9 chars masked]", id="like markup"),
        pytest.param("x" * 400, " ...", id="too long to show"),
    ],
)
def test_a_placeholder_is_shown_as_it_is(after: str, shown: str) -> None:
    console = Console(width=80)
    with console.capture() as capture:
        console.print(render_example(Example(14, "x" * 9_505, after)), highlight=False)
    lines = [line.rstrip() for line in capture.get().splitlines()]
    assert "characters the model reads" in " ".join(lines)
    assert any(line.endswith(shown) for line in lines)
