"""A few plays of the fuzzer, and that its oracle sees what is wrong; the rest is a command."""

import json
from copy import copy
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any, cast

import pytest

from masking.mcp import McpSettings
from masking.redaction import RedactionPolicy
from masking.reduction import ReductionOptions
from masking.rewrite import Rewrite, Strategies, read_request
from masking.window import MaskPolicy
from tests.support.builders import MASK_ALL, OLD, policy
from tests.support.marks import as_one_test
from tests.support.places import ROOT
from tests.support.priced import rewrite_request
from tests.support.wire_conversations import (
    WRITERS,
    Ask,
    Give,
    Model,
    Told,
    Tools,
    User,
    turn,
    turns,
)
from tests.tools.fuzz import mcp
from tests.tools.fuzz.billing import Piece, Prompt, find_worst
from tests.tools.fuzz.findings import Finding, dump_answer, dump_play, find, replay, write
from tests.tools.fuzz.json_nodes import Difference, find_changes
from tests.tools.fuzz.oracle import Remembered, find_fault
from tests.tools.fuzz.play import Processes, check, play
from tests.tools.fuzz.process import Sent, compare
from tests.tools.fuzz.reduced import find_reduction_fault

CHAT = WRITERS[0]
STRATEGIES = Strategies(schema1=policy(MASK_ALL, window_turns=2))
CORPUS = sorted((ROOT / "tests" / "corpus").glob("*.json"))


def test_plays_have_no_findings() -> None:
    assert [] == [*find(14, range(12, 14))]


@as_one_test
@pytest.mark.parametrize("file", CORPUS, ids=lambda file: file.stem)
def test_what_was_found_once_is_right(file: Path) -> None:
    assert replay(file) is None


def test_plays_mask_and_fail_and_are_the_same_again() -> None:
    sent = [(each, outcome) for number in range(2) for each, outcome, _ in play(14, number)]
    again = [each for each, _, _ in play(14, 0)]
    assert [each for each, _ in sent][: len(again)] == again
    assert any(isinstance(each, Rewrite) and each.masked for _, each in sent)
    assert any(isinstance(each, str) for _, each in sent)


def tell() -> Told:
    first = Model((Ask("old", "read", {"path": "a.py"}),)), Tools((Give("old", OLD, "read"),))
    return CHAT.tell(User("Mend it."), *first, *turn("short", "ok"), Model((), "So."), *turns(3))


def rewritten(strategies: Strategies = STRATEGIES) -> tuple[bytes, Rewrite]:
    body = tell().body
    return body, rewrite_request(read_request(body), strategies)


def test_the_oracle_finds_nothing_in_what_is_right() -> None:
    body, right = rewritten()
    assert right.body != body
    assert find_fault("chat", body, right, STRATEGIES) is None


@as_one_test
@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        pytest.param('"gpt-4o"', '"gpt-4x"', "changed no content of a result", id="another text"),
        pytest.param('"later_2"', '"later_x"', "changed no content of a result", id="an id"),
        pytest.param(' ,"messages"', ',"messages"', "changed: bytes between values", id="a blank"),
        pytest.param("]}", "] }", "changed: bytes at the end", id="a blank at the end"),
        pytest.param("}", "} ", "changed: bytes around the document", id="a blank behind it"),
        pytest.param('"ok"', '"no"', "put another text in place", id="a result of the window"),
        pytest.param('"role" : "user"', '"role" : 1', "changed no content", id="another kind"),
    ],
)
def test_the_oracle_finds_what_is_wrong(old: str, new: str, says: str) -> None:
    body, right = rewritten()
    at = right.body.decode().rindex(old)
    text = right.body.decode()
    wrong = replace(right, body=(text[:at] + new + text[at + len(old) :]).encode())
    assert says in str(find_fault("chat", body, wrong, STRATEGIES))


@as_one_test
@pytest.mark.parametrize(
    ("sent_under", "says"),
    [
        pytest.param(policy(MASK_ALL, window_turns=3), "in_window, not masked", id="a window"),
        pytest.param(
            policy(MASK_ALL, window_turns=1), "masked, not in_window", id="a short window"
        ),
        pytest.param(
            policy(STRATEGIES.schema1, keep_tools=("read",)), "kept_tool, not masked", id="a tool"
        ),
        pytest.param(
            policy(STRATEGIES.schema1, keep_last_k_per_tool=1), "last_k, not masked", id="the last"
        ),
        pytest.param(
            policy(STRATEGIES.schema1, min_chars=9), "too_short, not masked", id="a short text"
        ),
        pytest.param(
            policy(STRATEGIES.schema1, placeholder_template="[{tool_name}]"),
            "put another text in place",
            id="other words",
        ),
        pytest.param(policy(STRATEGIES.schema1, window_turns=0), "off, not ", id="off"),
    ],
)
def test_the_oracle_finds_what_other_settings_would_do(sent_under: MaskPolicy, says: str) -> None:
    body, wrong = rewritten(Strategies(schema1=sent_under))
    assert says in str(find_fault("chat", body, wrong, STRATEGIES))


def test_the_oracle_finds_an_error_that_was_masked() -> None:
    told = CHAT.tell(User("Mend it."), *turn("old", OLD), *turns(3))
    items: list[Any] = [*told.items]
    items[2] = {**items[2], "is_error": True}
    told = told._replace(items=items)
    masks_errors = Strategies(schema1=policy(STRATEGIES.schema1, keep_errors=False))
    wrong = rewrite_request(told.read(), masks_errors)
    keeps = Strategies(schema1=policy(STRATEGIES.schema1, keep_errors=True))
    assert "masked, not error" in str(find_fault("chat", told.body, wrong, keeps))


def test_the_oracle_finds_a_redaction_too_much() -> None:
    redacts = Strategies(redaction=RedactionPolicy(True, ("read",)))
    body, wrong = rewritten(redacts)
    assert find_fault("chat", body, wrong, redacts) is None
    other = Strategies(redaction=RedactionPolicy(True, ("shell",)))
    assert "redacted, not other_tool" in str(find_fault("chat", body, wrong, other))


def test_the_oracle_finds_what_no_request_before_has_masked() -> None:
    """The words are neither those of the settings nor any that something was masked in before."""
    body, wrong = rewritten(Strategies(schema1=policy(MASK_ALL, placeholder_template="[gone]")))
    says = str(find_fault("chat", body, wrong, STRATEGIES, Remembered()))
    assert "masked because of what another result was" in says


def test_the_oracle_knows_in_which_words_a_result_was_masked() -> None:
    """Settings change after the first request; what the same result is called in changes, too."""
    named, gone = (
        Strategies(schema1=policy(STRATEGIES.schema1, placeholder_template=template))
        for template in ("[{tool_name}]", "[gone]")
    )
    # It answers another call than before, as the client has edited what precedes it.
    calls = Model((Ask("one", "read"), Ask("one", "show")))
    before, after = (
        CHAT.tell(User(), calls, Tools((Give(call_id), Give("one"))), *turns(3))
        for call_id in ("one", "other")
    )
    assert _play((before, named), (after, gone)) == ["[show]", "[read]"]

    # With redaction's words, the window masks it because they leave an equal call's result as it
    # is, for being longer: it was not asked for again. What is sent has redaction's words.
    redacting = Strategies(
        schema1=policy(named.schema1, keep_rereads=True, skip_if_not_shorter=True),
        redaction=RedactionPolicy(True, ("read",), "<this was redacted>"),
    )
    told = CHAT.tell(User(), *turn("one", "of no length", "read"), *turns(3))
    told = told.then(*turn("two", OLD, "read"), *turns(3), Model((), "So."))
    assert _play((told, redacting), (told, gone)) == ["<this was redacted>", "[read]"]

    # Nothing is redacted of a model that may bind its reasoning.
    binding = WRITERS[1]._replace(wrap=lambda items: {"model": "not-known", "messages": items})
    told = binding.tell(User(), *turn("one", "shorter than that", "read"), *turns(3))
    assert _play((told, redacting)) == ["[read]"]


def _play(*told: tuple[Told, Strategies]) -> list[str]:
    """Return what takes the place of the last long result, in requests that the oracle approves."""
    sent = [Sent(each.writer, each.body, strategies, 0.0) for each, strategies in told]
    texts = []
    for _, outcome, wrong in check(sent, Processes(9_000, remembers=True, bills=None)):
        assert wrong is None
        assert isinstance(outcome, Rewrite)
        long = [each for each in outcome.decisions if len(each.result.text) > len("ok")]
        texts.append(long[-1].replacements[0].placeholder)
    return texts


@pytest.mark.parametrize(
    ("budget", "stage"),
    [
        pytest.param(500, "masking", id="the first stage is enough"),
        pytest.param(200, "summarization", id="the second"),
        pytest.param(20, "fallback", id="the third"),
    ],
)
def test_the_oracle_judges_a_reduction(budget: int, stage: str) -> None:
    told = CHAT.tell(User("Mend it. " * 30), *turn("a", OLD), *turn("b", "so " * 150), *turns(2))
    body, right = (
        told.body,
        ReductionOptions(
            enabled=True, max_input_chars=budget, preserve_recent_raw_turns=2, summary_max_chars=100
        ),
    )
    sent = rewrite_request(read_request(body), Strategies(reduction=right))
    assert sent.plan is not None
    assert sent.plan.stage == stage
    settled = [False] * len(sent.decisions)
    assert find_reduction_fault("chat", body, sent.body, settled, right) is None
    for wrong in (
        replace(right, preserve_recent_raw_turns=20),
        replace(right, max_input_chars=2_000),
    ):
        assert find_reduction_fault("chat", body, sent.body, settled, wrong) is not None
    assert find_reduction_fault("chat", body, body, settled, right) is not None


def test_a_bill_above_the_promise_is_found() -> None:
    priced = policy(MASK_ALL, cache_read_ratio=0.1, max_loss=0.1)
    head, old, short, new = (Piece(text, 100) for text in ("head", "old", "short", "new"))
    whole = [Prompt((head, old), 0), Prompt((head, old, new), 0)]
    assert find_worst(whole, whole, priced) == pytest.approx((-20.0, 200.0, 0))
    # What was read at a tenth of the price, 200 tokens, is 100 at the full price and 100 less.
    sent = [whole[0], Prompt((head, short, new), 0)]
    assert find_worst(whole, sent, priced) == pytest.approx((410 - 1.1 * 320, 320.0, 1))


@pytest.mark.parametrize(
    ("told", "says"),
    [
        pytest.param({"result": {"text": "x" * 900, "id": "y" * 900}}, None, id="right"),
        pytest.param({"result": {"wordId": "x" * 900}}, "against the contract", id="not cut"),
    ],
)
def test_an_answer_that_is_cut_otherwise_is_found(told: object, says: str | None) -> None:
    """A key that the oracle does not know for an id stands for one that the code takes for one."""
    body = json.dumps({"jsonrpc": "2.0", "id": 1, **cast(dict[str, object], told)}).encode()
    cuts = McpSettings(enabled=True, max_chars=200, head_chars=10, tail_chars=10)
    wrong = mcp.find_fault(mcp.Answered(body, cuts, {}, damaged=False), Random(0))
    assert wrong is None if says is None else says in str(wrong)


def test_a_finding_is_written_and_replayed(tmp_path: Path) -> None:
    told = tell()
    sent = Sent(CHAT, told.body, STRATEGIES, 0.0)
    played = dump_play([sent], Processes(9_000, remembers=False, bills=None))
    assert replay(write(tmp_path, 3, Finding("made up", 7, played))) is None
    answered = dump_answer(mcp.answer(Random(5)))
    assert replay(write(tmp_path, 3, Finding("made up", 8, answered))) is None
    assert ["3-7.json", "3-8.json"] == sorted(each.name for each in tmp_path.iterdir())


def test_outcomes_that_are_equal_in_python_alone_differ() -> None:
    _, one = rewritten()
    document = json.loads(json.dumps(one.conversation.document))
    requests = [copy(one.conversation.request) for _ in range(2)]
    for request, n in zip(requests, (1, True), strict=True):
        request.document = {**document, "n": n}
    first, second = (
        replace(one, conversation=replace(one.conversation, request=each)) for each in requests
    )
    assert first == second
    assert compare(first, second) == "cold and warm differ in document"
    assert compare("not JSON in 'body'", first) == "cold: not JSON in 'body'; warm: rewritten"


def test_of_a_key_that_occurs_twice_the_last_one_holds() -> None:
    before, after = '{"a": 1, "a": "x"}', '{"a": 2, "a": "x"}'
    with pytest.raises(Difference, match="a later key hides"):
        assert [] == [*find_changes(before, after)]
