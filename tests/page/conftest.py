"""Pages that end at once."""

import pytest

from addon.page import web


@pytest.fixture(autouse=True)
def no_wait_at_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no test wait long for the last events of its page, nor for the first ones."""
    monkeypatch.setattr(web, "_SECONDS_BETWEEN_EVENTS", 0.01)
