"""The thread that looks at the configuration: it reports edits, holds up nobody, and ends."""

import threading
from pathlib import Path
from queue import SimpleQueue

from addon.shared.config_file import Change, ConfigFile
from addon.shared.config_watch import ConfigWatch
from tests.live.harness import OFF, ON, SECONDS, eventually


def find_threads() -> set[threading.Thread]:
    return {each for each in threading.enumerate() if each.name == "configuration"}


def test_an_edit_is_reported_until_the_watch_ends(tmp_path: Path) -> None:
    path, changes, others = tmp_path / "mine.toml", SimpleQueue[Change](), find_threads()
    path.write_bytes(ON)
    file = ConfigFile(path)
    watch = ConfigWatch(file, changes.put)
    path.write_bytes(OFF)
    assert Change(("schema1.enabled",)) == changes.get(timeout=SECONDS)
    assert not file.settings.policy.enabled
    (thread,) = find_threads() - others
    watch.close()
    thread.join(SECONDS)
    assert not thread.is_alive()


class Hanging(ConfigFile):
    """A file on a mount that answers when it is told to."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.was_asked, self.answer = threading.Event(), threading.Event()

    def look(self) -> Change | None:
        self.was_asked.set()
        assert self.answer.wait(SECONDS)
        return Change()


def test_a_mount_that_hangs_does_not_hold_up_the_end(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_bytes(ON)
    file, changes, others = Hanging(tmp_path / "mine.toml"), SimpleQueue[Change](), find_threads()
    watch = ConfigWatch(file, changes.put)
    assert file.was_asked.wait(SECONDS)
    (thread,) = find_threads() - others
    watch.close()
    assert thread.is_alive()
    assert thread.daemon
    file.answer.set()
    eventually(lambda: None if thread.is_alive() else True)
    assert changes.empty()  # an edit that is found after the end is nobody's
