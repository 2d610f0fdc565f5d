"""What a strategy makes of a request, the strict provider of its format still takes."""

import json
from collections.abc import Sequence

import pytest

from masking.redaction import RedactionPolicy
from masking.reduction import ReductionOptions
from masking.rewrite import Strategies, read_request
from masking.window import MaskPolicy
from tests.support.builders import OLD, TEMPLATE
from tests.support.marks import as_one_test
from tests.support.priced import rewrite_request
from tests.support.wire_conversations import (
    WRITERS,
    Ask,
    Give,
    Model,
    Step,
    Told,
    Tools,
    User,
    Writer,
    in_each,
    turn,
)
from tests.tools.provider.dialects import DIALECTS, Dialect

TURNS = 12
NAMES = {"chat": "completions"}
"""What a dialect is called, where its name is not that of the format."""


def find_dialect(writer: Writer) -> Dialect | None:
    name = NAMES.get(writer.wire.name, writer.wire.name)
    return next((dialect for dialect in DIALECTS if dialect.name == name), None)


SPOKEN = [writer for writer in WRITERS if find_dialect(writer)]
EVERY = in_each(SPOKEN)


def parallel(number: int) -> tuple[Step, Step]:
    first, second = Ask(f"a{number}", "read"), Ask(f"b{number}", "shell")
    given = (Give(first.call_id, OLD * 4, "read"), Give(second.call_id, OLD))
    return Model((first, second), "Let me look."), Tools(given)


def talk() -> list[Step]:
    """A session in which the user speaks twice, and the model does so, too."""
    steps: list[Step] = [User("Fix the build. Never touch the lock file.")]
    for number in range(TURNS):
        steps += turn(f"c{number}") if number % 2 else parallel(number)
        if number == TURNS // 2:
            steps += [Model(text="One half is done."), User("Go on, then.")]
    return steps


def refusal(told: Told, body: bytes) -> str | None:
    request = json.loads(body)
    dialect = find_dialect(told.writer)
    assert dialect is not None
    return dialect.check(dialect.receive(request, told.writer.path, (), body))


def change(told: Told, strategies: Strategies) -> bytes:
    return rewrite_request(told.read(), strategies).body


def reduce_to(budget: int, recent: int) -> ReductionOptions:
    return ReductionOptions(
        enabled=True,
        max_input_chars=budget,
        preserve_recent_raw_turns=recent,
        summary_max_chars=400,
    )


@as_one_test
@EVERY
@pytest.mark.parametrize(
    "ends", [(), (Model(text="Done."), User("Thanks."))], ids=["asked", "done"]
)
def test_a_masked_and_redacted_request_is_taken(writer: Writer, ends: Sequence[Step]) -> None:
    told = writer.tell(*talk(), *ends)
    assert None is refusal(told, told.body)
    strategies = Strategies(
        schema1=MaskPolicy(True, 3, False, None, TEMPLATE),
        redaction=RedactionPolicy(True, ("shell",), TEMPLATE),
    )
    changed = change(told, strategies)
    assert len(changed) < len(told.body) * 0.6
    assert None is refusal(told, changed)


@as_one_test
@EVERY
@pytest.mark.parametrize("recent", range(1, 8))
def test_a_reduced_request_is_taken(writer: Writer, recent: int) -> None:
    told = writer.tell(*talk(), Model(text="Done."), User("Thanks."))
    for budget in (10, 1_000, 2_500, 9_000):
        changed = change(told, Strategies(reduction=reduce_to(budget, recent)))
        assert changed != told.body
        assert (budget, None) == (budget, refusal(told, changed))
        first = read_request(changed, writer.wire, writer.path).elements[0]
        assert () == first.results
