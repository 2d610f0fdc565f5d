"""What replaying a recording must yield: JSON files beside it, made by a real mitmdump.

`session.json` lies beside `session.flow` and belongs to the shipped configuration;
`session.NAME.json` belongs to the configuration `session.NAME.toml`.
"""

import hashlib
import json
import os
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import tomli
import tomlkit
from mitmproxy import http

from addon.config import CONFIG_NAME
from addon.places import shipped
from addon.proxy.server import ADDON, MITMDUMP
from addon.recordings.exchanges import find_exchanges
from addon.recordings.flows import name_of, read_flows, write_flows
from masking.config import REDACTION_VARIABLE, ROOT

_RECORDS = "requests.jsonl"
_VOLATILE = (
    *("run", "tag", "label", "time", "hook_us", "first_chunk_seconds"),
    *("record_schema", "software_version", "config_digest", "price_list_date", "price_entry"),
    *("net_unpriced", "group", "observed", "resent"),
    *("result_reasons", "composition", "move_price_tokens"),
    *("model_window_tokens", "fits_unmasked"),
)
"""Fields of a record that depend on the run and the software rather than on the recording.

The results are expected by their counts, and by the digests of the bodies, and so not by letters;
the prompt by its tokens, and so not by its parts, and moves by the bills.
"""


def find_configs(recording: Path) -> list[Path | None]:
    """Return the configurations that a recording is replayed under; None is the shipped one."""
    beside = sorted(recording.parent.glob("*.toml"))
    return [None, *(each for each in beside if each.stem.rpartition(".")[0] == name_of(recording))]


def expectation_file(recording: Path, config: Path | None = None) -> Path:
    """Return the file that says what a recording yields under a configuration."""
    stem = config.stem if config else name_of(recording)
    return recording.with_name(f"{stem}.json")


def replay_recording(recording: Path, config: Path | None = None) -> list[dict[str, Any]]:
    """Replay a recording through mitmdump and a configuration; None is the shipped one.

    Returns for each request its record, if records are written, and the SHA-256 of a body: of a
    request to a model, which may be a message on a WebSocket, the body that would have been sent,
    of any other the body that the client would have got. Raises ValueError if the file is not a
    recording, and RuntimeError, with mitmdump's log, if mitmdump fails.
    """
    with tempfile.TemporaryDirectory(prefix="obsmask-") as name:
        folder = Path(name)
        copy = write_config(folder, source=config)
        write_flows(folder / "in.flow", read_flows(recording))  # mitmdump reads no compressed ones
        done = subprocess.run(  # noqa: S603 - our own interpreter
            [
                *(*MITMDUMP, "-n", "-r", str(folder / "in.flow"), "-w", str(folder / "out.flow")),
                *("-s", str(ADDON), "--set", f"mask_config={copy}"),
                *("--set", f"confdir={folder}"),
            ],
            env={name: value for name, value in os.environ.items() if name != REDACTION_VARIABLE},
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
            cwd=folder,
            stdin=subprocess.DEVNULL,
        )
        if done.returncode:
            raise RuntimeError(f"{recording}: {done.stdout[-2000:]}{done.stderr[-2000:]}")
        bodies = [body for flow in read_flows(folder / "out.flow") for body in _find_bodies(flow)]
        written = folder / _RECORDS
        records = read_records(written) if written.exists() else [{}] * len(bodies)
    return [
        {key: value for key, value in record.items() if key not in _VOLATILE}
        | {"sha256": hashlib.sha256(body).hexdigest()}
        for record, body in zip(records, bodies, strict=True)
    ]


def write_config(
    folder: Path, pricing: str | Sequence[float] | None = None, source: Path | None = None
) -> Path:
    """Write a configuration into a folder; its records go there, too, and it has no memory.

    It is a copy of `source`, or else of the shipped one. `pricing` replaces its `cache_pricing`.
    """
    document = tomli.loads((source or shipped(CONFIG_NAME)).read_text(encoding="utf-8"))
    tables = document[ROOT]
    tables.setdefault("metrics", {})["path"] = str(folder / _RECORDS)
    tables["memory"] = {"enabled": False}
    if pricing is not None:
        tables.setdefault("schema1", {})["cache_pricing"] = pricing
    config = folder / CONFIG_NAME
    config.write_text(tomlkit.dumps(document), encoding="utf-8")
    return config


def _find_bodies(flow: http.HTTPFlow) -> Iterator[bytes]:
    """Yield the bodies that the addon may change: of requests to models, else of the answer."""
    sent = [exchange.sent or b"" for exchange in find_exchanges(flow)]
    yield from sent or [(flow.response.content if flow.response else None) or b""]


def read_records(path: Path) -> list[dict[str, Any]]:
    """Read a file of records, one JSON object per line."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
