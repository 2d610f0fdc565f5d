"""A request as a step of its conversation: remembered, not remembered, or without its history."""

import json
from typing import Any

import pytest

from masking.arrival import ArrivalPolicy
from masking.errors import ProofError
from masking.memory import BoundaryMemory, Memories
from masking.proof import Prover, Terms
from masking.request_cache import decode_request
from masking.rewrite import Step, Strategies, read_request
from masking.server_history import ServerHistories
from masking.window import MaskPolicy
from masking.window.placeholder import SHIPPED_TEMPLATE
from masking.wire.chat import CHAT
from masking.wire.format import WireFormat
from masking.wire.messages import MESSAGES
from tests.support.builders import OLD
from tests.support.wire_conversations import WRITERS, User, turn

MASKS = Strategies(schema1=MaskPolicy(True, 1), arrival=ArrivalPolicy(enabled=True))


def write_body(turns: int, **fields: object) -> bytes:
    """Return a request of Chat Completions with so many tool turns."""
    messages: list[dict[str, Any]] = [{"role": "user", "content": "Mend it."}]
    for number in range(turns):
        call = {"id": f"c{number}", "function": {"name": "ls", "arguments": "{}"}}
        messages += [
            {"role": "assistant", "tool_calls": [call]},
            {"role": "tool", "tool_call_id": f"c{number}", "content": "a line\n" * 90},
        ]
    return json.dumps({"model": "gpt-4o", "messages": messages, **fields}).encode()


def take_step(turns: int, memories: Memories | None, *, observed: bool = False) -> Step:
    conversation = read_request(write_body(turns))
    return Step(
        conversation, MASKS, memories=memories, observed=observed, lifetime=300.0, prover=Prover()
    )


def test_without_a_memory_nothing_is_remembered_and_nothing_to_forget() -> None:
    step = take_step(4, None)
    rewrite = step.rewrite()
    step.remember(rewrite)
    step.forget("all")
    assert {0, 1, 2} == rewrite.masked
    assert (None, None) == (step.context, step.await_answer(b"place"))


def test_what_is_only_observed_is_remembered_where_there_is_a_memory_for_it() -> None:
    sent, observed = BoundaryMemory(), BoundaryMemory()
    for memories, expected in ((Memories(sent), "first met"), (Memories(sent, observed), "warm")):
        step = take_step(4, memories, observed=True)
        step.remember(step.rewrite())
        step = take_step(5, memories, observed=True)
        assert step.context is not None
        assert expected == step.context.state
    step = take_step(5, Memories(sent))
    assert step.context is not None
    assert "first met" == step.context.state


def test_what_was_masked_is_forgotten_once_that_was_refused() -> None:
    memories = Memories(BoundaryMemory())
    step = take_step(4, memories)
    step.remember(step.rewrite())
    step.forget("cleared")
    assert step.context is not None
    assert ("first met", "warm") == (step.context.state, _state(take_step(5, memories)))
    step.forget("all")
    assert "first met" == _state(take_step(5, memories))


def _state(step: Step) -> str | None:
    return step.context and step.context.state


def test_a_history_that_nobody_names_begins_with_the_request() -> None:
    histories = ServerHistories()

    def is_held(wire: WireFormat, **fields: object) -> bool:
        request = decode_request(write_body(0, **fields), wire, "")
        held = histories.read(b"place", request)
        assert held is None or held.continued.opening is not None
        return held is not None

    found = [is_held(CHAT), is_held(MESSAGES), is_held(MESSAGES, thread={})]
    assert [False, False, True] == found


class Doubting(Prover):
    """A prover that refuses a request with more placeholders than it allows."""

    most = 9

    def prove(
        self, client: bytes, sent: bytes, wire: WireFormat, terms: Terms, conversation: bytes = b""
    ) -> None:
        if sent.count(b"chars masked]") > self.most:
            raise ProofError("too many")
        super().prove(client, sent, wire, terms, conversation)


def test_on_doubt_bound_reasoning_gets_what_was_sent_before() -> None:
    """Where nothing is bound, the client's own request leaves, which is for the caller to do."""
    shipped = MaskPolicy(True, 1, placeholder_template=SHIPPED_TEMPLATE)
    for model, expected in (("claude-opus-5-5", 2), ("claude-opus-4-1", None)):
        prover, memories = Doubting(), Memories(BoundaryMemory())
        turns = [step for number in range(6) for step in turn(f"{number}", OLD)]
        for end in (3, 4):
            told = WRITERS[1].tell(User("Mend it."), *turns[: 2 * end])
            body = json.dumps({**told.document, "model": model}).encode()
            client = read_request(body, MESSAGES, "/v1/messages")
            step = Step(client, Strategies(schema1=shipped), memories=memories, prover=prover)
            assert (client.binding is None) == (expected is None)
            if expected is None and end == 4:
                with pytest.raises(ProofError):
                    step.rewrite(account_accepts_edits=True)
                continue
            rewrite = step.rewrite(account_accepts_edits=True)
            step.remember(rewrite)
            assert 2 == rewrite.body.count(b"chars masked]") == len(rewrite.masked)
            prover.most = 2
