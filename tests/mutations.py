"""Ten faults that `tests/spec` must notice: `python -m tests.mutations [NAME ...]`.

Each is made in a copy of the tree, and the contract is run there until its first failure. Prints a
table; fails if a fault goes unnoticed, or if its old text is not, or not only once, in its file.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from tests.support.places import ROOT

COPIED = ("addon", "masking", "tests", "recordings", "docs", "config.toml", "pyproject.toml")

BOUNDARY = "masking/window/boundary.py"
DECIDE = "masking/window/decide.py"
MASKER = "addon/masker.py"


class Mutation(NamedTuple):
    name: str
    file: str
    old: str
    new: str


MUTATIONS = (
    Mutation(
        "the guard of the promise",
        BOUNDARY,
        "if flat > 0 and not (is_due and self._keeps_promise(flat)):",
        "if flat > 0 and not is_due:",
    ),
    Mutation(
        "the window's edge",
        BOUNDARY,
        "return max(0, turns - policy.window_turns)",
        "return max(0, turns - policy.window_turns + 1)",
    ),
    Mutation(
        "pairing of ids that are used again",
        "masking/conversation.py",
        "self._declared[call.call_id] = declaration",
        "self._declared.setdefault(call.call_id, declaration)",
    ),
    Mutation(
        "the proof of the splice",
        "masking/edit/splice.py",
        "if spliced is not None and _is_proven(spliced, document, edits, list_path):",
        "if spliced is not None:",
    ),
    Mutation(
        "idempotence",
        DECIDE,
        "if not is_placeholder(result, place, template)",
        "if text or not is_placeholder(result, place, template)",
    ),
    Mutation(
        "the rule for errors",
        "masking/window/signs.py",
        "len(text) <= words_max_chars",
        "len(text) < words_max_chars",
    ),
    Mutation(
        "the digest of a result in the memory",
        "masking/memory.py",
        'texts = (result.call_id or "", "".join(result.texts), *images)',
        'texts = (result.call_id or "", *images)',
    ),
    Mutation(
        "reasoning that is bound to what precedes it",
        DECIDE,
        "has_moved = not fresh or decisions[fresh[0]].result.element >= last_bound",
        "has_moved = True",
    ),
    Mutation(
        "the client's bytes after an exception",
        MASKER,
        "except Exception as error:",
        "except KeyError as error:",
    ),
    Mutation(
        "a secret in a log line",
        MASKER,
        'f"internal error ({type(error).__name__})"',
        'f"internal error ({error})"',
    ),
)


def apply(mutation: Mutation, tree: Path) -> None:
    """Make a fault; raises ValueError if it no longer applies."""
    path = tree / mutation.file
    source = path.read_text(encoding="utf-8") if path.exists() else ""
    if (found := source.count(mutation.old)) != 1:
        raise ValueError(
            f"{mutation.name}: {found} times in {mutation.file}, in place of once: {mutation.old}"
        )
    path.write_text(source.replace(mutation.old, mutation.new), encoding="utf-8")


def run_contract(tree: Path) -> tuple[int, str]:
    """Run `tests/spec` up to the first failure; pytest's exit code, and the test that failed."""
    done = subprocess.run(
        [
            *(sys.executable, "-m", "pytest", "-x", "-q", "-n", "0", "-p", "no:cacheprovider"),
            *("--no-header", "--tb=no", "-m", "", "tests/spec"),
        ],
        cwd=tree,
        # A file that changes twice in a second must not be read from its cached code.
        env={**os.environ, "PYTHONPATH": str(tree), "PYTHONDONTWRITEBYTECODE": "1"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    )
    failed = [line for line in done.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
    return done.returncode, failed[0].split(" ", 1)[1].split(" - ")[0] if failed else done.stdout[
        -500:
    ]


def main(names: list[str]) -> int:
    chosen = [each for each in MUTATIONS if not names or each.name in names]
    unnoticed = 0
    with tempfile.TemporaryDirectory(prefix="mutations-") as folder:
        tree = Path(folder)
        for name in COPIED:
            if (source := ROOT / name).is_dir():
                shutil.copytree(source, tree / name, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                shutil.copy(source, tree / name)
        code, failure = run_contract(tree)
        if code != 0:
            print(f"without any fault the contract fails: {failure}", file=sys.stderr)
            return 1
        for mutation in chosen:
            start = time.monotonic()
            before = (tree / mutation.file).read_bytes()
            apply(mutation, tree)
            code, failure = run_contract(tree)
            (tree / mutation.file).write_bytes(before)
            is_noticed = code == 1  # any other: nothing could be run
            unnoticed += not is_noticed
            outcome = failure if is_noticed else f"UNNOTICED ({code})"
            print(f"{time.monotonic() - start:5.1f} s  {mutation.name:45} {outcome}", flush=True)
    return int(unnoticed > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
