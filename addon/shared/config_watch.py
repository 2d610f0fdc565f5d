"""Looks at the configuration while the proxy runs, in a thread of its own.

The event loop never reads the file: a mount that hangs stops this thread alone.
"""

import threading
from collections.abc import Callable

from addon.shared.config_file import Change, ConfigFile

_SECONDS = 0.25
"""Between two looks. Two of them have to agree before a change is taken up."""


class ConfigWatch:
    """A running watch. `report` is called in its thread with each change that was taken up."""

    def __init__(self, config: ConfigFile, report: Callable[[Change], object]) -> None:
        self._config, self._report = config, report
        self._ending = threading.Event()
        threading.Thread(target=self._run, name="configuration", daemon=True).start()

    def close(self) -> None:
        """End the watch after a look that is under way; do not wait for that."""
        self._ending.set()

    def _run(self) -> None:
        while not self._ending.wait(_SECONDS):
            change = self._config.look()
            if change and not self._ending.is_set():
                self._report(change)
