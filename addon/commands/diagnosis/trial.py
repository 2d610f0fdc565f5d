"""Has a runtime ask a URL through the proxy, and so shows whether it trusts what the proxy says.

Nothing of the user's is started: the runtime gets a few lines of ours, in an empty folder.
"""

import subprocess
import tempfile
from collections.abc import Mapping
from importlib.resources import files
from typing import Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from addon.commands.diagnosis.program import Interpreter, Runtime

Outcome = Literal["trusted", "untrusted", "unreached", "failed"]
"""`unreached`: it looked for the host itself, past the proxy. `failed`: for another reason."""

_SECONDS = 120.0

_SCRIPTS: Mapping[Runtime, tuple[tuple[str, ...], str]] = {
    "node": (("--input-type=module", "-e"), "trial.js"),
    "bun": (("-e",), "trial.js"),
    "deno": (("eval",), "trial.js"),
    "python": (("-c",), "trial.py"),
}
"""How a runtime is given a script, and which."""


class Attempt(BaseModel):
    """What became of one of the ways in which a client of a runtime may ask."""

    model_config = ConfigDict(frozen=True)

    way: str
    outcome: Outcome
    detail: str


def try_interpreter(
    interpreter: Interpreter, url: str, environment: Mapping[str, str]
) -> list[Attempt]:
    """Return what becomes of each way to ask in this environment; none if it cannot be started."""
    options, name = _SCRIPTS[interpreter.runtime]
    script = (files("addon.commands.diagnosis") / "trials" / name).read_text(encoding="utf-8")
    with tempfile.TemporaryDirectory() as folder:
        try:
            done = subprocess.run(  # noqa: S603 - the runtime that the user would start
                [interpreter.path, *options, script, url],
                env=dict(environment),
                cwd=folder,
                timeout=_SECONDS,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired):
            return []
    return [found for found in map(_read_line, done.stdout.splitlines()) if found]


def _read_line(line: bytes) -> Attempt | None:
    """Return what the script told; None for a line that somebody else printed."""
    try:
        return Attempt.model_validate_json(line)
    except ValidationError:
        return None
