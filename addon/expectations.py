"""What replaying a recording must yield: one JSON file beside each, made by a real mitmdump."""

import hashlib
import json
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from addon.config_file import NAME
from addon.flows import read_flows
from addon.launch import ADDON, MITMDUMP
from addon.shipped import shipped

_VOLATILE = ("time", "hook_us")


def expectation_file(recording: Path) -> Path:
    """Return where the expectation of a recording lies."""
    return recording.with_suffix(".json")


def replay_recording(recording: Path) -> list[dict[str, Any]]:
    """Replay a recording through mitmdump and the shipped configuration.

    Returns, request by request, its record and the SHA-256 of the body it would have left with.
    Raises ValueError where the file is no recording, RuntimeError, with mitmdump's log, where
    mitmdump fails.
    """
    for _ in read_flows(recording):
        pass
    with tempfile.TemporaryDirectory(prefix="obsmask-") as name:
        folder = Path(name)
        config = write_config(folder)
        done = subprocess.run(  # noqa: S603 - our own interpreter
            [
                *(*MITMDUMP, "-n", "-r", str(recording.resolve()), "-w", str(folder / "out.flow")),
                *("-s", str(ADDON), "--set", f"mask_config={config}"),
                *("--set", f"confdir={folder}"),
            ],
            capture_output=True,
            text=True,
            check=False,
            cwd=folder,
            stdin=subprocess.DEVNULL,
        )
        if done.returncode:
            raise RuntimeError(f"{recording}: {done.stdout[-2000:]}{done.stderr[-2000:]}")
        bodies = [flow.request.content or b"" for flow in read_flows(folder / "out.flow")]
        records = read_records(folder / "requests.jsonl")
    return [
        {key: value for key, value in record.items() if key not in _VOLATILE}
        | {"sha256": hashlib.sha256(body).hexdigest()}
        for record, body in zip(records, bodies, strict=True)
    ]


def write_config(folder: Path, pricing: str = '"auto"') -> Path:
    """Write the shipped configuration into a folder, with the records going there, too."""
    records = json.dumps(str(folder / "requests.jsonl"))
    text = (
        shipped(NAME).read_text(encoding="utf-8").replace('\npath = ""\n', f"\npath = {records}\n")
    )
    config = folder / NAME
    text = text.replace('\ncache_pricing = "auto"\n', f"\ncache_pricing = {pricing}\n")
    config.write_text(text, encoding="utf-8")
    return config


def read_records(path: Path) -> list[dict[str, Any]]:
    """Read a file of records, one JSON object per line."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
