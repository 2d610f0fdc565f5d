"""What the fuzzer has found: a file that plays the requests again, and nothing but these.

A file holds the settings and the bodies of the fewest requests that show what is wrong. Kept in
`tests/corpus`, the suite replays it.
"""

import json
import traceback
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

from masking.mcp import McpSettings
from masking.prices import PriceStep
from masking.redaction import RedactionPolicy
from masking.reduction import ReductionOptions
from masking.rewrite import Strategies
from tests.support.priced import PricedPolicy
from tests.tools.fuzz.mcp import Answered, answer, find_fault
from tests.tools.fuzz.play import REQUESTS, Processes, check, prepare
from tests.tools.fuzz.process import Sent
from tests.tools.fuzz.talks import REAL


class Finding(NamedTuple):
    """What is wrong with a play: a sentence, its number, and what was sent, as JSON."""

    says: str
    play: int
    told: Mapping[str, Any]


def find(seed: int, numbers: Iterable[int]) -> Iterator[Finding]:
    """Yield what is wrong with these plays; a play ends at its first finding."""
    for number in numbers:
        found = _find_in_answers(seed, number) if number % 16 == 15 else _find(seed, number)
        if found is not None:
            yield found


def replay(file: Path) -> str | None:
    """Return what is wrong with the requests of a file; None if nothing is any more."""
    told = json.loads(file.read_text())
    if "answer" in told:
        return find_fault(_load_answer(told["answer"]), Random(told["play"]))
    writer = REAL[told["writer"]]._replace(path=told["path"])
    sent = [_load(writer, each) for each in told["requests"]]
    found = _play(sent, Processes(*told["processes"]))
    return found and found[0]


def write(folder: Path, seed: int, finding: Finding) -> Path:
    """Write a finding to a folder, and return the file."""
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f"{seed}-{finding.play}.json"
    again = f"python -m tests.tools.benchmarks.fuzz --seed {seed} --only {finding.play}"
    told = {"says": finding.says, "found by": again, "play": finding.play, **finding.told}
    file.write_text(f"{json.dumps(told, indent=1)}\n")
    return file


def dump_play(sent: Sequence[Sent], processes: Processes) -> dict[str, Any]:
    """Return requests, and what they are sent to, as JSON."""
    writer = sent[0].writer
    named = {"writer": writer.name, "path": writer.path, "processes": [*processes]}
    return {**named, "requests": [*map(_dump, sent)]}


def dump_answer(given: Answered) -> dict[str, Any]:
    """Return an answer of a server as JSON."""
    methods = [*given.methods.items()]
    fields = {"policy": asdict(given.policy), "methods": methods, "damaged": given.damaged}
    return {"answer": {"body": _show(given.body), **fields}}


def _find(seed: int, number: int) -> Finding | None:
    requests, processes = prepare(seed, number)
    sent = [*requests]
    found = _play(sent, processes)
    if found is None:
        return None
    wrong, count = found
    return Finding(wrong, number, dump_play(*_shorten(sent[:count], processes)))


def _find_in_answers(seed: int, number: int) -> Finding | None:
    for each in range(REQUESTS):
        random = Random(f"{seed}.{number}.{each}")
        given = answer(random)
        if wrong := find_fault(given, random):
            return Finding(wrong, number, dump_answer(given))
    return None


def _play(sent: Sequence[Sent], processes: Processes) -> tuple[str, int] | None:
    """Return what is wrong with a play, and after how many requests."""
    count = 0
    try:
        for count, (_, _, wrong) in enumerate(check(sent, processes), 1):
            if wrong is not None:
                return wrong, count
    except Exception:  # noqa: BLE001 - it is a finding, too, and others are to be found
        return f"the oracle fails: {traceback.format_exc(limit=-3)}", count + 1
    return None


def _shorten(sent: Sequence[Sent], processes: Processes) -> tuple[Sequence[Sent], Processes]:
    """Leave out what is not needed: all but the last request, or else one by one."""
    bills = 1 if processes.bills == len(sent) else None
    alone = processes._replace(bills=bills)
    if _play(sent[-1:], alone):
        return sent[-1:], alone
    if processes.bills is not None:
        return sent, processes
    left = [*sent]
    for each in sent[:-1]:
        fewer = [one for one in left if one is not each]
        if _play(fewer, processes):
            left = fewer
    return left, processes


def _dump(sent: Sent) -> dict[str, Any]:
    told: dict[str, Any] = {"strategies": asdict(sent.strategies), "now": sent.now}
    if sent.elements:
        return told | {
            "around": [*map(_show, sent.around)],
            "elements": [*map(_show, sent.elements)],
        }
    return told | {"body": _show(sent.body)}


def _load(writer: Any, told: Mapping[str, Any]) -> Sent:  # noqa: ANN401 - JSON
    strategies = _load_strategies(told["strategies"])
    if "body" in told:
        return Sent(writer, _read(told["body"]), strategies, told["now"])
    head, comma, tail = map(_read, told["around"])
    elements = (*map(_read, told["elements"]),)
    body = head + comma.join(elements) + tail
    return Sent(writer, body, strategies, told["now"], (head, comma, tail), elements)


def _load_strategies(told: Mapping[str, Any]) -> Strategies:
    policies = {name: _freeze(fields) for name, fields in told.items()}
    policies["schema1"]["price_steps"] = tuple(
        PriceStep(*step) for step in policies["schema1"]["price_steps"]
    )
    return Strategies(
        schema1=PricedPolicy(**policies["schema1"]),
        redaction=RedactionPolicy(**policies["redaction"]),
        reduction=ReductionOptions(**policies["reduction"]),
    )


def _freeze(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {key: (*v,) if isinstance(v, list) else v for key, v in fields.items()}


def _load_answer(told: Mapping[str, Any]) -> Answered:
    policy, methods = McpSettings(**told["policy"]), dict(told["methods"])
    return Answered(_read(told["body"]), policy, methods, told["damaged"])


def _show(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")


def _read(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")
