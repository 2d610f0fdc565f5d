"""Golden files: what replaying a recording yields, by a real mitmdump.

`session.json` lies beside `session.flow` and belongs to the shipped configuration;
`session.NAME.json` belongs to the configuration `session.NAME.toml`. It has a line for each
request: the SHA-256 of the body, the counts that tell most, and a digest of the record, so that
every field is compared but those of `VARYING`. One file for each wire format (`WHOLE`) has the
record of its last request in full, too.

`python -m tests.tools.golden` compares all of them, `--write` writes them anew, and `--diff` shows
which fields of the records differ from those of the last commit.
"""

import hashlib
import io
import json
import os
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import click
from mitmproxy import http
from rich.console import Console
from rich.progress import Progress

from addon.commands.demo import RECORDS, write_config
from addon.proxy.server import ADDON, MITMDUMP
from addon.recordings.flows import find_exchanges, name_of, read_flows, write_flows
from masking.config import REDACTION_VARIABLE
from tests.support.places import ROOT, recordings

Record = Mapping[str, Any]
"""The record of a request, or {} where none is written, with the digest of a body as `sha256`."""

Replay = Callable[[Path, Path | None], list[Record]]
"""What replays a recording under a configuration; None is the shipped one."""

VARYING = (
    *("run", "time", "hook_us", "first_chunk_seconds"),
    *("software_version", "config_digest"),
)
"""Fields that no golden file holds: they differ from run to run, or with every release and
setting, whatever becomes of a request."""

COUNTS = (
    *("passed_through", "tool_turns", "tool_results", "masked", "redacted", "reduced", "dropped"),
    *("kept", "redaction_scenarios", "reduction_stage", "dropped_messages"),
    *("request_tokens_before", "request_tokens_after", "cut_strings"),
)
"""Fields that each request's line holds, unless they are null, 0 or empty."""

WHOLE = (
    *("openai-questions.all", "anthropic-tour", "codex-tour", "codex-websocket-tour"),
    *("google-genai-tour", "ollama-tour", "mcp-files.mcp"),
)
"""The golden files, by their stems, that have the last record in full: one for each format."""


# Replaying


def find_configs(recording: Path) -> list[Path | None]:
    """Return the configurations that a recording is replayed under; None is the shipped one."""
    beside = sorted(recording.parent.glob("*.toml"))
    return [None, *(each for each in beside if each.stem.rpartition(".")[0] == name_of(recording))]


def golden_file(recording: Path, config: Path | None = None) -> Path:
    """Return the golden file of a recording under a configuration."""
    stem = config.stem if config else name_of(recording)
    return recording.with_name(f"{stem}.json")


def replay_recording(recording: Path, config: Path | None = None) -> list[Record]:
    """Replay a recording through mitmdump and a configuration; None is the shipped one.

    Returns the record of each request without the fields that vary, and the SHA-256 of a body: of
    a request to a model, which may be a message on a WebSocket, the body that would have been sent,
    of any other request the body that the client would have got. Raises ValueError if the file is
    not a recording, and RuntimeError, with mitmdump's log, if mitmdump fails.
    """
    with tempfile.TemporaryDirectory(prefix="obsmask-") as name:
        folder = Path(name)
        copy = write_config(folder, source=config)
        write_flows(folder / "in.flow", read_flows(recording))  # mitmdump reads no compressed ones
        # Neither the user's price list nor the switch of the environment may change anything.
        environment = {k: value for k, value in os.environ.items() if k != REDACTION_VARIABLE}
        done = subprocess.run(
            [
                *(*MITMDUMP, "-n", "-r", str(folder / "in.flow"), "-w", str(folder / "out.flow")),
                *("-s", str(ADDON), "--set", f"mask_config={copy}"),
                *("--set", f"confdir={folder}"),
            ],
            env=environment | {"XDG_DATA_HOME": name, "XDG_CONFIG_HOME": name},
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
        records: list[dict[str, Any]] = [{}] * len(bodies)
        if (written := folder / RECORDS).exists():
            records = [json.loads(line) for line in written.read_text("utf-8").splitlines()]
    return [
        {key: value for key, value in record.items() if key not in VARYING}
        | {"sha256": hashlib.sha256(body).hexdigest()}
        for record, body in zip(records, bodies, strict=True)
    ]


def _find_bodies(flow: http.HTTPFlow) -> Iterator[bytes]:
    """Yield the bodies that the addon may change: of requests to models, else of the answer."""
    sent = [exchange.sent or b"" for exchange in find_exchanges(flow)]
    yield from sent or [(flow.response.content if flow.response else None) or b""]


# Comparing


def read_golden(recording: Path, config: Path | None = None) -> list[Record]:
    """Return what the golden file says of each request, with 0 for what its line leaves out."""
    document = json.loads(golden_file(recording, config).read_text(encoding="utf-8"))
    return [dict.fromkeys(COUNTS, 0) | line for line in document["requests"]]


def find_differences(recording: Path, records: Sequence[Record], config: Path | None) -> list[str]:
    """Return how the records of a replay differ from the golden file, a line for each request.

    The last line says how to see all fields.
    """
    golden = json.loads(golden_file(recording, config).read_text(encoding="utf-8"))
    expected, found = golden["requests"], [_summarize(record) for record in records]
    if "last" in golden and len(expected) == len(found):
        expected[-1], found[-1] = golden["last"], dict(records[-1])
    differences = compare_requests(expected, found)
    return differences and [
        *differences,
        f"all fields: python -m tests.tools.golden --diff {recording}",
    ]


def compare_requests(expected: Sequence[Record], found: Sequence[Record]) -> list[str]:
    """Return which requests differ and, as far as it is known, in which fields."""
    if len(expected) != len(found):
        return [f"{len(found)} requests, expected {len(expected)}"]
    differences = []
    for number, (one, other) in enumerate(zip(expected, found, strict=True), 1):
        named = [
            "the body" if name == "sha256" else f"{name} {after}, expected {before}"
            for name in dict.fromkeys((*one, *other))
            if (before := one.get(name, "none")) != (after := other.get(name, "none"))
            and name != "record"
        ]
        if one != other:
            named = named or ["fields that the golden file has only a digest of"]
            differences.append(f"request {number}: {'; '.join(named)}")
    return differences


def write_golden(recording: Path, records: Sequence[Record], config: Path | None) -> Path:
    """Write the golden file; return its path."""
    file = golden_file(recording, config)
    lines = ",\n  ".join(json.dumps(_summarize(record)) for record in records)
    last = ""
    if file.stem in WHOLE:
        whole = json.dumps(records[-1], indent=1, ensure_ascii=False).replace("\n", "\n ")
        last = f',\n "last": {whole}'
    file.write_text(f'{{\n "requests": [\n  {lines}\n ]{last}\n}}\n', encoding="utf-8")
    return file


def _summarize(record: Record) -> dict[str, Any]:
    """Return a request's line: its body's digest, what counts, and a digest of the record."""
    counts = {name: record[name] for name in COUNTS if record.get(name)}
    rest = json.dumps({**record, "sha256": ""}, sort_keys=True).encode()
    return {
        "sha256": record["sha256"],
        **counts,
        "record": hashlib.sha256(rest).hexdigest()[:16],
    }


def _replay_at(commit: str, recording: Path, config: Path | None) -> list[Record]:
    """Return what replaying yields with the sources of a commit. Raises RuntimeError."""
    archive = subprocess.run(
        ["git", "archive", commit, "addon", "masking", "tests", "config.toml"],
        cwd=ROOT,
        capture_output=True,
        check=False,
    )
    if archive.returncode:
        raise RuntimeError(archive.stderr.decode(errors="replace").strip())
    with tempfile.TemporaryDirectory(prefix="obsmask-") as folder:
        with tarfile.open(fileobj=io.BytesIO(archive.stdout)) as sources:
            sources.extractall(folder, filter="data")
        paths = [str(path.resolve()) for path in (recording, config) if path]
        done = subprocess.run(
            [sys.executable, "-c", _PRINT, *paths],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": folder},
            capture_output=True,
            text=True,
            check=False,
        )
    if done.returncode:
        raise RuntimeError(f"{commit}: {done.stderr[-2000:]}")
    records: list[Record] = json.loads(done.stdout)
    return records


_PRINT = """
import json, sys
from pathlib import Path
from tests.tools.golden import replay_recording
print(json.dumps(replay_recording(*map(Path, sys.argv[1:]))))
"""


# The command


@click.command()
@click.argument("paths", nargs=-1, metavar="[RECORDING]...", type=click.Path(path_type=Path))
@click.option("--write", is_flag=True, help="Write the golden files instead of comparing them.")
@click.option(
    "--diff", is_flag=True, help="Compare every field with a replay by the sources of a commit."
)
@click.option("--commit", default="HEAD", show_default=True, help="The commit for --diff.")
def command(paths: tuple[Path, ...], write: bool, diff: bool, commit: str) -> None:
    """Compare what replaying each RECORDING yields with the golden file beside it.

    Exit with 1 if anything differs. Without a RECORDING all of the repository's are replayed, which
    takes minutes. Only --write writes.
    """
    console, failed = Console(stderr=True), False
    cases = [(path, config) for path in paths or recordings() for config in find_configs(path)]
    with Progress(console=console, disable=not console.is_terminal, transient=True) as progress:
        for recording, config in progress.track(cases, description="replay"):
            file = golden_file(recording, config)
            try:
                records = replay_recording(recording, config)
                if write:
                    print(write_golden(recording, records, config))
                    continue
                if diff:
                    before = _replay_at(commit, recording, config)
                    differences = compare_requests(before, records)
                else:
                    differences = find_differences(recording, records, config)
            except (OSError, ValueError, RuntimeError) as error:
                raise click.ClickException(str(error)) from None
            failed |= bool(differences)
            for each in differences or ["as expected"]:
                print(f"{file}: {each}", file=sys.stderr)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    command()
