"""Where the command looks for records, and when its user lives, while it is tested."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.made_up_records import SetZone


@pytest.fixture(autouse=True)
def set_zone() -> Iterator[SetZone]:
    """Return what sets the user's time zone, which is UTC until then."""
    with pytest.MonkeyPatch.context() as patch:

        def set_to(name: str) -> None:
            patch.setenv("TZ", name)
            time.tzset()

        set_to("UTC")
        yield set_to
    time.tzset()


@pytest.fixture(autouse=True)
def records(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Return where the records are; there are none yet."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.delenv("OBSMASK_CONFIG", raising=False)
    monkeypatch.setenv("COLUMNS", "160")
    return tmp_path / "state" / "observation-masking" / "requests.jsonl"
