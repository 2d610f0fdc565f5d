"""What redaction decided, in the log: each new redaction once, every decision at debug level."""

import json
import logging
from collections.abc import Callable

from addon.request import one_line
from masking.model import Decision
from masking.redaction import Redactions

logger = logging.getLogger("observation_masking")

_MAX_WARNINGS = 1_000


class RedactionTrace:
    """Remembers its warnings, because a conversation repeats its messages at every turn."""

    def __init__(self, log: Callable[[int, str], object]) -> None:
        self._log = log
        self._warned: set[str] = set()

    def log(self, redactions: Redactions, *, observed: bool = False) -> None:
        """Log what was decided for a request, never content."""
        done = "would have redacted" if observed else "redacted"
        for decision in redactions.decisions:
            if decision.is_new:
                self._log(logging.INFO, f"{done} {_render(decision)}")
            elif decision.scenario is not None:
                # Nobody but a developer reads these hundreds of lines: the loop is spared them.
                logger.debug(f"redaction: {_render(decision)}")
        if redactions.malformed:
            first, count = redactions.malformed[0], len(redactions.malformed)
            warning = (
                f"messages[{first}] has no known role and counts as an answer ({count} in all)"
            )
            if warning not in self._warned and len(self._warned) < _MAX_WARNINGS:
                self._warned.add(warning)
                self._log(logging.WARNING, warning)


def _render(decision: Decision) -> str:
    described = {
        "tool_call_id": decision.result.call_id,
        "tool": decision.result.tool,
        "position": decision.result.element,
        "scenario": decision.scenario,
        "reason": decision.reason,
        "chars_before": decision.chars_before,
        "chars_after": decision.chars_after,
    }
    return json.dumps({k: one_line(v) if isinstance(v, str) else v for k, v in described.items()})
