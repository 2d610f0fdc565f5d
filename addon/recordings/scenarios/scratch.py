"""A scratch project to work on, and the story of a model that repairs it.

The project is a small Python package with two mistakes in it, its tests, a long log and a big
JSON file; everything is written by our own code, the same to the byte at every time and place. The
story says what to read and run, turn by turn, in words that no client has to share: `read` a
file or run a `shell` command. No command prints a time, a user or a host. Another story on the
same project is in `addon.recordings.scenarios.questions`.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from addon.recordings.scenarios import scratch_files as texts

TASK = (
    "The weekly report of this project is wrong: it stops on large amounts, and refunds make the "
    "totals larger instead of smaller. Find both mistakes, repair them, and show that all the "
    "tests pass."
)

ENDING = (
    "Both mistakes are repaired. Amounts such as 1,250.00 are read now, because the thousands "
    "separator is taken out before the digits are counted, and a refund is booked with a minus. "
    "All 12 tests pass and the weekly report adds up to the log's own total."
)


Kind = Literal["read", "edit", "shell"]


@dataclass(frozen=True, slots=True)
class Step:
    """One thing to do: `read` or `edit` the file, or run the `shell` command, that `what` names.

    An edit puts `new` in the place of `old`, which stands in the file once.
    """

    kind: Kind
    what: str
    old: str = ""
    new: str = ""


Turn = tuple[Step, ...]
"""What the model does at once; more than one step are parallel calls."""


@dataclass(frozen=True, slots=True)
class Act:
    """What the user asks, what the model does about it turn by turn, and what it says then."""

    task: str
    turns: tuple[Turn, ...]
    ending: str

    @property
    def texts(self) -> tuple[str, str]:
        """All prose in it: what the user says, and what the model."""
        return self.task, self.ending


def write_project(folder: Path) -> None:
    """Write the scratch project into `folder`, which is made where it is missing."""
    for name, text in _files().items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


def read(what: str) -> Step:
    """Return the step of reading a file."""
    return Step("read", what)


def shell(what: str) -> Step:
    """Return the step of running a command."""
    return Step("shell", what)


REPAIR_AMOUNTS = shell(
    "python3 -c \"import pathlib; p = pathlib.Path('tally/money.py'); p.write_text("
    "p.read_text().replace('text.strip()', 'text.strip().replace(\\',\\', \\'\\')'))\""
)

REPAIR_REFUNDS = shell(
    "python3 -c \"import pathlib; p = pathlib.Path('tally/ledger.py'); p.write_text("
    "p.read_text().replace('REFUND: 1', 'REFUND: -1'))\" && grep -n REFUND tally/ledger.py"
)

TURNS: tuple[Turn, ...] = (
    (shell("find README.md run_tests.py data logs tally tests -type f | sort"),),
    (read("README.md"), read("tally/ledger.py")),
    (shell("python3 run_tests.py"),),
    (
        read("tests/test_money.py"),
        read("tally/money.py"),
        shell("wc -c data/*.json logs/*.log"),
    ),
    (read("data/orders.json"),),
    (shell("cat tally/refunds.py"),),
    (shell("grep -rn refund --include=*.py . | sort"),),
    (read("logs/import.log"),),
    (shell("grep -c accepted logs/import.log"), shell("grep refused logs/import.log")),
    (read("tally/report.py"),),
    (shell("python3 -m tally.report data/orders.json"),),
    (REPAIR_AMOUNTS,),
    (shell("python3 run_tests.py"),),
    (read("tests/test_report.py"), shell("tail -n 40 logs/import.log")),
    (REPAIR_REFUNDS,),
    (shell("python3 run_tests.py"),),
    (shell("python3 -m tally.report data/orders.json"), shell("tail -n 1 logs/import.log")),
    (read("tally/ledger.py"),),
    (shell("python3 -m tally.report data/orders.json --item hinge"),),
    (
        shell("printf 'Refunds are booked with a minus.\\n' >> CHANGES.md && cat CHANGES.md"),
        shell("python3 run_tests.py --quiet"),
    ),
)
"""What the model does, turn by turn."""

ACTS = (Act(TASK, TURNS, ENDING),)


def _files() -> dict[str, str]:
    return {
        "README.md": texts.README,
        "run_tests.py": texts.RUN_TESTS,
        "tally/__init__.py": "",
        "tally/money.py": texts.MONEY,
        "tally/ledger.py": texts.LEDGER,
        "tally/report.py": texts.REPORT,
        "tests/test_money.py": texts.TEST_MONEY,
        "tests/test_report.py": texts.TEST_REPORT,
        "data/orders.json": json.dumps({"orders": list(_orders())}, indent=1) + "\n",
        "logs/import.log": "".join(f"{line}\n" for line in _log()),
    }


_ITEMS = ("brass hinge", "oak shelf", "door knob", "wall hook", "drawer rail", "lamp socket")


def _orders() -> Iterator[dict[str, object]]:
    """Orders with amounts as people write them; every seventh one is a refund."""
    for number in range(1, 61):
        cents = (number * 7919) % 260_000 + 495
        yield {
            "number": f"A-{number:04}",
            "kind": "refund" if number % 7 == 0 else "sale",
            "item": _ITEMS[number * 5 % len(_ITEMS)],
            "amount": f"{cents // 100:,}.{cents % 100:02}",
            "note": "paid by card" if number % 3 else "paid by invoice, 30 days",
        }


def _log() -> Iterator[str]:
    """What an import of the orders wrote, with its own total in the last line."""
    total = 0
    for step, order in enumerate(_orders(), 1):
        cents = int(str(order["amount"]).replace(",", "").replace(".", ""))
        total += -cents if order["kind"] == "refund" else cents
        tag, what = f"[{step:05}]", f"{order['kind']} {order['number']}"
        yield f"{tag} DEBUG reading {what} ({order['item']}, {order['amount']})"
        if step % 9 == 0:
            yield f"{tag} WARNING refused {what} at first: the item is unknown to the price list"
            yield f"{tag} INFO looked the item up again under its older name and found it"
        yield f"{tag} INFO accepted {what}, {len(str(order['note']))} characters of note kept"
    yield f"[{step + 1:05}] INFO import complete, total {total / 100:,.2f}"
