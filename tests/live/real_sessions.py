"""What real agents do in a test: a long session, and a provider with a tokenizer of its own."""

import hashlib

from masking.tokens import TokenCounter
from tests.tools.studio.scenario import PROJECTS, Action, Scenario, Task, Turn

_CHARS_PER_TOKEN = 4
"""The provider's: it counts characters."""

_LINES = 90


def read_project() -> Scenario:
    """Return a session that reads a project piece by piece, and runs its tests now and then."""
    turns: list[Turn] = []
    for file in sorted((PROJECTS / "cells").rglob("*.*")):
        if file.suffix not in (".py", ".md", ".csv", ".txt"):
            continue
        name = file.relative_to(PROJECTS / "cells")
        for first in range(1, len(file.read_text().splitlines()) + 1, _LINES):
            turns.append((Action("shell", f"sed -n '{first},{first + _LINES - 1}p' {name}"),))
            if len(turns) % 7 == 0:
                turns.append((Action("shell", "python3 run_tests.py"), Action("shell", "false")))
    thoughts = {at: f"Number {at} may explain what fails." for at in range(0, len(turns), 5)}
    return Scenario("cells", (Task("Find out what is broken.", tuple(turns), "All.", thoughts),))


class Tokenizer:
    """Has a provider that counts characters count tokens: it gives a text that is so long."""

    def __init__(self, scale: float) -> None:
        """Have it count so many tokens for one of o200k."""
        self._counter, self._scale = TokenCounter(), scale

    def __call__(self, text: str) -> str:
        said = text.replace("\\n", "\n").replace('\\"', '"')  # as the model gets it, not as JSON
        chars = round(_CHARS_PER_TOKEN * self._scale * self._counter.count(said))
        return hashlib.sha256(text.encode()).hexdigest()[: max(16, chars)].ljust(chars, ".")
