"""How long a prompt is taken to be remembered."""

import pytest

from masking.memory import estimate_lifetime
from tests.builders import read_body

HOUR = {"cache_control": {"type": "ephemeral", "ttl": "1h"}}
TEXT = {"type": "text", "text": "Go on."}


@pytest.mark.parametrize(
    ("body", "seconds"),
    [
        pytest.param({}, 300, id="the provider's own time"),
        pytest.param({"messages": [{"content": "Go on.", **HOUR}]}, 3_600, id="a message"),
        pytest.param({"messages": [{"content": [TEXT, {**TEXT, **HOUR}]}]}, 3_600, id="a part"),
        pytest.param({"tools": [{"type": "function", **HOUR}]}, 3_600, id="a tool"),
        pytest.param({"prompt_cache_retention": "24h"}, 86_400, id="the whole request"),
        pytest.param({"prompt_cache_retention": "in_memory"}, 300, id="nothing longer"),
        pytest.param({"prompt_cache_retention": 24}, 300, id="no text"),
        pytest.param({"messages": [{"cache_control": {"type": "ephemeral"}}]}, 300, id="no ttl"),
        pytest.param({"messages": [{"cache_control": "1h"}, 7, None]}, 300, id="no marker"),
        pytest.param({"tools": {"a": 1}}, 300, id="no lists"),
    ],
)
def test_it_is_the_longest_that_is_known_and_a_fifth_for_doubt(
    body: dict[str, object], seconds: float
) -> None:
    marks = read_body({"messages": [], **body}).marks
    assert estimate_lifetime(marks, 300.0) == pytest.approx(1.2 * seconds)
