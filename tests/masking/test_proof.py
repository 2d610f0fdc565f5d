"""The proof by itself: what it lets leave, and what it stops, whoever got it wrong."""

import json
import re
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from masking.arrival import ArrivalPolicy
from masking.errors import ProofError, WireError
from masking.model import Call, ToolResult
from masking.proof import Prover, Terms
from masking.redaction import RedactionPolicy
from masking.reduction import ReductionOptions
from masking.rewrite import Step as RequestStep
from masking.rewrite import Strategies, read_request
from masking.wire import CHAT, CONVERSE, GEMINI, MESSAGES, OLLAMA, Added, WireFormat
from masking.written import Wording, is_shortened
from tests.support.builders import OLD, TEMPLATE
from tests.support.images import png
from tests.support.marks import as_one_test
from tests.support.priced import PricedPolicy, prices_of
from tests.support.wire_conversations import (
    WRITERS,
    Ask,
    Give,
    Model,
    Step,
    Tools,
    User,
    Writer,
    turn,
)

LONG = "a line of it\n" * 1_000

TALK: Sequence[Step] = (
    User("Fix the build, {original_chars}."),
    Model((Ask("a", "read", {"path": "a.py"}), Ask("b", "shell", {"cmd": 'make "all" ' * 40}))),
    Tools((Give("a", f"é {OLD}", "read"), Give("b", f"two {OLD}", images=(png(),)))),
    *turn("c", LONG),
    Model((Ask("d"),), "Now this."),
    Tools((Give("d", {"code": 0, "out": OLD}),)),
    User("And then?"),
    *(step for number in range(4) for step in turn(f"e{number}", f"{number} {OLD}")),
    Model((), "Done."),
    *turn("f", OLD),
)

WINDOW = PricedPolicy(
    True, 2, placeholder_template="[{tool_name} {tool_call_id} {arguments}: {original_chars} chars]"
)
COSTLY = PricedPolicy(
    True,
    2,
    placeholder_template="{original_tokens} {recall} {arguments}",
    mask_images=True,
    keep_last_images=0,
)
STRATEGIES = {
    "window": Strategies(schema1=WINDOW),
    "costly": Strategies(schema1=COSTLY),
    "arrival": Strategies(schema1=WINDOW, arrival=ArrivalPolicy(enabled=True)),
    "redaction": Strategies(
        schema1=WINDOW, redaction=RedactionPolicy(enabled=True, tool_names=("shell",))
    ),
    "masking": Strategies(reduction=ReductionOptions(enabled=True, max_input_chars=14_000)),
    "summary": Strategies(
        reduction=ReductionOptions(enabled=True, max_input_chars=900, summary_max_chars=200)
    ),
    "fallback": Strategies(
        reduction=ReductionOptions(enabled=True, max_input_chars=300, summary_max_chars=0)
    ),
}


class Case(NamedTuple):
    """A request as its client wrote it and as it leaves, and what it must keep to."""

    client: bytes
    sent: bytes
    wire: WireFormat
    terms: Terms

    def prove(self, sent: bytes) -> None:
        Prover().prove(self.client, sent, self.wire, self.terms)


class Watching(Prover):
    """A prover that keeps what it was asked."""

    def __init__(self) -> None:
        super().__init__()
        self.cases: list[Case] = []

    def prove(
        self, client: bytes, sent: bytes, wire: WireFormat, terms: Terms, conversation: bytes = b""
    ) -> None:
        super().prove(client, sent, wire, terms, conversation)
        self.cases.append(Case(client, sent, wire, terms))


def leave(writer: Writer, strategies: Strategies, steps: Sequence[Step] = TALK) -> Case:
    """Return a request as it leaves."""
    prover = Watching()
    client = read_request(writer.tell(*steps).body, writer.wire, writer.path)
    step = RequestStep(client, strategies, prices_of(strategies.schema1), prover=prover)
    assert step.rewrite().body != client.request.body
    (case,) = prover.cases
    return case


CASES = [leave(writer, strategies) for writer in WRITERS for strategies in STRATEGIES.values()]


@given(st.data())
def test_no_byte_of_what_leaves_can_be_another(data: st.DataObject) -> None:
    case = data.draw(st.sampled_from(CASES))
    sent = case.sent
    at = data.draw(st.integers(0, len(sent) - 1))
    end = data.draw(st.integers(at, min(len(sent), at + 40)))
    copied = data.draw(st.integers(0, len(sent) - 1))
    put = data.draw(
        st.sampled_from((b"", b" ", b"x", b"0", b'"', sent[copied : copied + end - at]))
    )
    corrupted = sent[:at] + put + sent[end:]
    assume(corrupted != sent)
    # The message of a summary is whatever it says.
    assume(not (case.terms.order and None in case.terms.order))
    with pytest.raises(WireError):
        case.prove(corrupted)


# Each thing that must not change, by itself. A reader is to see what is stopped, and why.

CHAT_CASE = leave(WRITERS[0], STRATEGIES["window"])
PLACEHOLDER = b'[read a {\\"path\\": \\"a.py\\"}: 332 chars]'

Change = Callable[[Any], object]


def spelled(case: Case, change: Change) -> bytes:
    """Return what leaves after a change of the decoded request, spelled as before."""
    document = json.loads(case.sent)
    change(document)
    return json.dumps(document, separators=(" ,", " : "), ensure_ascii=False).encode()


def message(at: int, **fields: object) -> Change:
    return lambda document: document["messages"][at].update(fields)


def call(**fields: object) -> Change:
    return lambda document: document["messages"][1]["tool_calls"][0]["function"].update(fields)


def test_what_a_test_changes_is_spelled_as_before() -> None:
    assert CHAT_CASE.sent == spelled(CHAT_CASE, lambda _: None)
    assert PLACEHOLDER in CHAT_CASE.sent


@as_one_test
@pytest.mark.parametrize(
    ("doubt", "change"),
    [
        ("something else changes", lambda document: document.update(model="gpt-5")),
        ("something else changes", lambda document: document.update(tools=[])),
        ("there are not as many elements", lambda document: document["messages"].pop()),
        ("there are not as many elements", lambda document: document["messages"].insert(0, {})),
        ("more of an element changes", lambda document: document["messages"].reverse()),
        ("more of an element changes", message(0, content="Break the build.")),
        ("more of an element changes", message(0, name="me")),
        ("more of an element changes", message(2, role="user")),
        ("more of an element changes", message(2, tool_call_id="b")),
        ("more of an element changes", call(name="write")),
        ("more of an element changes", call(arguments='{"path":"a.py"}')),
        ("a text is none any more", message(2, content=[])),
        ("an element changes its form", lambda document: document["messages"][2].pop("content")),
        ("a text is no template's", message(2, content="")),
        ("a text is no template's", message(2, content=OLD)),
        ("a text is no template's", message(2, content='[read a {"path": "a.py"}: 333 chars]')),
        ("a text is no template's", message(2, content='[shell a {"path": "a.py"}: 332 chars]')),
        ("a text is no template's", message(2, content='[read b {"path": "a.py"}: 332 chars]')),
        ("a text is no template's", message(2, content='[read a {"path": "b.py"}: 332 chars]')),
        ("a text is no template's", message(2, content=TEMPLATE)),
        ("a result is masked unread", message(-1, content=f"[shell f {{}}: {len(OLD)} chars]")),
    ],
)
def test_what_must_not_change_does_not_leave(doubt: str, change: Change) -> None:
    with pytest.raises(ProofError) as error:
        CHAT_CASE.prove(spelled(CHAT_CASE, change))
    assert f"not proven: {doubt}" == error.value.problem


@as_one_test
@pytest.mark.parametrize(
    ("doubt", "was", "now"),
    [
        ("something between elements changes", b"} ,{", b"},{"),
        ("spelling changes", b'"role" : "tool"', b'"role": "tool"'),
        ("spelling changes", b'"role" : "user"', b'"role" : "us\\u0065r"'),
        ("something else changes", b'"gpt-4o"', b'"gpt\\u002d4o"'),
    ],
)
def test_each_byte_counts(doubt: str, was: bytes, now: bytes) -> None:
    with pytest.raises(ProofError) as error:
        CHAT_CASE.prove(CHAT_CASE.sent.replace(was, now, 1))
    assert f"not proven: {doubt}" == error.value.problem


# A reduction.

REDUCED = {name: leave(WRITERS[0], STRATEGIES[name]) for name in ("masking", "summary", "fallback")}


def test_a_reduction_leaves_whole_pairs() -> None:
    case = REDUCED["fallback"]
    kept = [at for at in case.terms.order or () if at is not None]
    messages = json.loads(case.client)["messages"]
    assert [messages[at] for at in kept] == json.loads(case.sent)["messages"] != messages
    others: Sequence[tuple[Sequence[int | None], str]] = (
        ([*kept[:-1], None], "a pair is parted"),
        ([0, *kept[1:]], "a pair is parted"),
        ([*reversed(kept)], "the order changes"),
        ([kept[0], *kept], "the order changes"),
        ([None, None, *kept], "the order changes"),
        ([0, *kept], "there are not as many elements"),
    )
    for order, doubt in others:
        with pytest.raises(ProofError) as error:
            case._replace(terms=case.terms._replace(order=order)).prove(case.sent)
        assert f"not proven: {doubt}" == error.value.problem


def test_what_a_reduction_inserts_is_said_by_the_user() -> None:
    case = REDUCED["summary"]
    order = [*(case.terms.order or ())]
    at = order.index(None)
    for fields in ({"role": "assistant"}, {"role": "tool", "tool_call_id": "a"}):
        with pytest.raises(ProofError, match="what is inserted is no message of the user's"):
            case.prove(spelled(case, message(at, **fields)))
    said = json.dumps({"role": "user", "content": "é"}, separators=(",", ":"))
    plain = spelled(case, lambda document: document["messages"].__setitem__(at, ""))
    for new in (said, said.replace("\\u00e9", "é")):
        case.prove(plain.replace(b'""', new.encode(), 1))
    twice = said.replace("{", '{"role":"system",')
    with pytest.raises(ProofError, match="what is inserted is no message of the user's"):
        case.prove(plain.replace(b'""', twice.encode(), 1))


def test_a_line_of_a_reduction_has_the_dispatch_results_below_it() -> None:
    block = "BEGIN_DISPATCH_RESULT\nfine END\nEND_DISPATCH_RESULT"
    steps = (*turn("a", f"{LONG}{block} and {LONG}{block}"), *TALK)
    case = leave(WRITERS[0], STRATEGIES["masking"], steps)
    line = f"[dispatch output masked — {2 * len(LONG) + 5} chars]"
    [_, result, *_] = json.loads(case.sent)["messages"]
    assert f"{line}\n{block}\n{block}" == result["content"]
    for text in (line, f"{line}\n{block}", f"{line}\n{block}\n{block} ", f"{block}\n{block}"):
        with pytest.raises(ProofError, match="a text is no template's"):
            case.prove(spelled(case, message(1, content=text)))


SAYS = {"role": "assistant", "content": "x"}
ASKS = {"role": "assistant", "tool_calls": [{"id": "a", "function": {"name": "read"}}]}
GIVEN = {"role": "tool", "tool_call_id": "a", "content": OLD}
TOLD = {"role": "user", "content": "u"}
RULE = {"role": "system", "content": "s"}

REDUCES = Terms(line_chars=80)


def prove_order(
    messages: Sequence[object],
    order: Sequence[int | None],
    inserted: object = None,
    *,
    terms: Terms = REDUCES,
    blanks: str = "",
) -> None:
    """Prove that these messages leave in an order."""
    sent = [inserted if at is None else messages[at] for at in order]
    client, body = (
        json.dumps({"messages": each}, separators=(",", ":")) for each in (messages, sent)
    )
    body = body.replace("},{", f"}},{blanks}{{")
    Prover().prove(client.encode(), body.encode(), CHAT, terms._replace(order=order))


@as_one_test
@pytest.mark.parametrize(
    ("doubt", "messages", "order"),
    [
        ("what must stay is left out", [TOLD, ASKS, GIVEN], (0,)),
        ("what must stay is left out", [TOLD, SAYS, GIVEN], (0, 1)),
        ("what must stay is left out", [RULE, TOLD, SAYS], (1, 2)),
        ("what is inserted replaces nothing", [TOLD, SAYS], (0, 1, None)),
        ("what is inserted replaces nothing", [TOLD, SAYS, TOLD], (0, None, 2)),
        ("the order changes", [TOLD, ASKS, GIVEN, SAYS], (-2, -1)),
        ("the order changes", [TOLD, SAYS], (-1, 0)),
    ],
)
def test_what_a_reduction_must_not_leave_out_or_insert(
    doubt: str, messages: Sequence[object], order: Sequence[int | None]
) -> None:
    with pytest.raises(ProofError, match=doubt):
        prove_order(messages, order, TOLD)


def test_only_a_reduction_leaves_anything_out() -> None:
    prove_order([TOLD, SAYS, TOLD, SAYS], (None, 3), TOLD)
    with pytest.raises(ProofError, match="there is no reduction"):
        prove_order([TOLD, SAYS, TOLD, SAYS], (2, 3), terms=Terms())
    with pytest.raises(ProofError, match="something between elements changes"):
        prove_order([TOLD, SAYS, TOLD, SAYS], (2, 3), blanks="\n\n")


def test_calls_of_one_answer_in_two_elements_stay_with_their_results() -> None:
    def said(role: str, *parts: object) -> object:
        return {"role": role, "parts": parts}

    calls = [{"functionCall": {"name": name}} for name in ("read", "shell")]
    results = [
        {"functionResponse": {"name": name, "response": {"output": "x"}}}
        for name in ("read", "shell")
    ]
    contents = [
        said("user", {"text": "?"}),
        *(said("model", call) for call in calls),
        said("user", *results),
        said("model", {"text": "."}),
    ]
    for left_out in (1, 2):
        order = [at for at in range(len(contents)) if at != left_out]
        client, sent = (
            json.dumps({"contents": each}).encode()
            for each in (contents, [contents[at] for at in order])
        )
        with pytest.raises(ProofError, match="a pair is parted"):
            Prover().prove(client, sent, GEMINI, REDUCES._replace(order=order))


def test_an_object_stays_one() -> None:
    result = {"toolUseId": "a", "content": [{"json": {"a": 1}}]}
    messages = [
        {"role": "user", "content": [{"toolResult": result}]},
        {"role": "assistant", "content": [{"text": "."}]},
    ]
    client = json.dumps({"messages": messages})
    terms = Terms(placeholders=(Wording("-", 0),))

    def prove(new: str) -> None:
        sent = client.replace('{"a": 1}', new)
        Prover().prove(client.encode(), sent.encode(), CONVERSE, terms)

    prove('{"text":"-"}')
    for new in (
        '"-"',
        '{"text": "-"}',
        '{"text":"+","text":"-"}',
        '{"note": "-"}',
        '{"text": "-", "a": 1}',
        "{}",
        '["-"]',
    ):
        with pytest.raises(ProofError):
            prove(new)


# What is shortened at arrival.


def test_what_is_shortened_has_its_own_head_and_tail() -> None:
    for steps in ((User(), *turn("a", LONG)), (User(), *turn("a", LONG), Model((), "Read."))):
        case = leave(WRITERS[0], STRATEGIES["arrival"], steps)
        text = json.loads(case.sent)["messages"][2]["content"]
        head, marker, tail = re.split(r"(\n\[.*\]\n)", text)
        assert "\n[... 7020 of 13000 characters left out ...]\n" == marker
        for other in (
            head + marker.replace("7020", "7021") + tail,
            head[13:] + marker + tail,
            head.replace("it", "if", 1) + marker + tail,
            head + marker + tail[:-1],
            head + marker,
            head,
        ):
            with pytest.raises(ProofError, match="a text is no template's"):
                case.prove(spelled(case, message(2, content=other)))


def test_a_text_may_say_what_a_marker_says() -> None:
    template = "{left_out_chars}"
    wording = Wording(template, 0)
    text = "3" * 10 + "x" * 30 + "3" * 10

    def prove(new: str) -> None:
        client, sent = (
            json.dumps({"messages": [{"role": "tool", "tool_call_id": "a", "content": each}]})
            for each in (text, new)
        )
        Prover().prove(client.encode(), sent.encode(), CHAT, Terms(markers=(wording,)))

    prove("3" * 10 + "30" + "3" * 10)
    with pytest.raises(ProofError):
        prove("3" * 10 + "31" + "3" * 10)


def test_no_text_is_searched_forever() -> None:
    text, new = "a" + "9" * 300, "b" + "9" * 299
    result = ToolResult("a", "string", (text,), (("content",),))
    assert not is_shortened(Wording("9", 0), text, new, result, Call("a", "read", {}), {})
    assert is_shortened(Wording("9", 0), text, "a" + "9" * 299, result, Call("a", "read", {}), {})


# What a road adds.

FIELD = Added(("thinking", "kind"), "drop")
ITEM = Added(("context", "edits"), {"type": "clear"}, in_list=True)


@as_one_test
@pytest.mark.parametrize(
    ("client", "sent", "added"),
    [
        ("", ',"thinking":{"kind":"drop"}', FIELD),
        (', "thinking": null', ', "thinking": {"kind":"drop"}', FIELD),
        (', "thinking": {}', ', "thinking": {"kind":"drop"}', FIELD),
        (', "thinking": { "a": 1 }', ', "thinking": { "a": 1 ,"kind":"drop"}', FIELD),
        (', "thinking": {"kind": null}', ', "thinking": {"kind": "drop"}', FIELD),
        ("", ',"context":{"edits":[{"type":"clear"}]}', ITEM),
        (', "context": null', ', "context": {"edits":[{"type":"clear"}]}', ITEM),
        (', "context": {"edits": null}', ', "context": {"edits": [{"type":"clear"}]}', ITEM),
        (', "context": {"edits": [1]}', ', "context": {"edits": [1,{"type":"clear"}]}', ITEM),
    ],
)
def test_a_road_adds_its_field_alone(client: str, sent: str, added: Added) -> None:
    before, after = (
        f'{{"b": true, "messages": [{{}}], "n": 1{each}}}'.encode() for each in (client, sent)
    )
    Prover().prove(before, after, CHAT, Terms(added=added))
    others = [before, *(after.replace(was, now) for was, now in ROUND_THE_LIST)]
    for other in others:
        if other != after:
            with pytest.raises(ProofError, match="something else changes"):
                Prover().prove(before, other, CHAT, Terms(added=added))


ROUND_THE_LIST = (
    (b'"n": 1', b'"n": 2'),
    (b'"n": 1', b'"n": 1.0'),
    (b'"n": 1', b'"n":1'),
    (b'"n": 1', b'"\\u006e": 1'),
    (b'"n": 1', b'"n": 2, "n": 1'),
    (b'"b": true, "messages": [{}]', b'"messages": [{}], "b": true'),
    (b'"messages": [{}]', b'"messages": [{"role": "user"}], "messages": [{}]'),
    (b"true", b"1"),
    (b"drop", b"keep"),
    (b'"kind"', b'"kind":"keep","kind"'),
)
"""What stands around the list, and what must not become of it, though a parser may see no more."""


@as_one_test
@pytest.mark.parametrize(
    ("client", "sent", "added"),
    [
        ('"thinking": {"kind": "keep"}', '"thinking": {"kind": "drop"}', FIELD),
        ('"thinking": {"kind": [1]}', '"thinking": {"kind": [1,"drop"]}', FIELD),
        ('"thinking": false', '"thinking": {"kind":"drop"}', FIELD),
        ('"thinking": {"a": 1}', '"thinking": {"a": 1},"thinking":{"kind":"drop"}', FIELD),
        ('"context": {"edits": {}}', '"context": {"edits": [{"type":"clear"}]}', ITEM),
        ('"context": {"edits": "a"}', '"context": {"edits": ["a",{"type":"clear"}]}', ITEM),
    ],
)
def test_a_road_overwrites_nothing(client: str, sent: str, added: Added) -> None:
    before, after = (f'{{"messages": [{{}}], {each}}}'.encode() for each in (client, sent))
    with pytest.raises(ProofError, match="something else changes"):
        Prover().prove(before, after, CHAT, Terms(added=added))


# Which call a result answers.


def written(
    calls: Sequence[str], named: str, *, far: int = 0, before: bool = True, results: int = 1
) -> None:
    """Prove a placeholder that names a tool, of a result that calls may stand far from."""
    result = {"role": "tool", "tool_call_id": "a", "content": OLD}
    asked = [
        {"role": "assistant", "tool_calls": [{"id": "a", "function": {"name": name}}]}
        for name in calls
    ]
    between = [{"role": "user", "content": "."}] * far
    given = [result] * results
    messages = [*asked, *between, *given] if before else [*given, *asked]
    bodies = [
        json.dumps({"messages": [*messages, {"role": "assistant"}]}).replace(OLD, text).encode()
        for text in (OLD, f"({named})")
    ]
    terms = Terms(placeholders=(Wording("({tool_name})", 0),))
    Prover().prove(bodies[0], bodies[1], CHAT, terms)


def test_a_placeholder_names_a_call_of_the_results_id() -> None:
    written(["read"], "read")
    written(["read"], "read", far=100, results=2)
    written(["read"], "read", before=False)
    written(["shell", "read"], "shell")
    written([], "inconnu")
    for calls, named in ((["read"], "inconnu"), (["read"], "shell"), ([], "read")):
        with pytest.raises(ProofError, match="a text is no template's"):
            written(calls, named)


@pytest.mark.parametrize(("calls", "text"), [(100_001, OLD), (1_000, OLD * 20_000)])
def test_no_body_takes_forever(calls: int, text: str) -> None:
    call = {"id": "a", "function": {"name": "read"}}
    client = {
        "messages": [
            {"role": "assistant", "tool_calls": [call] * calls},
            {"role": "tool", "tool_call_id": "a", "content": text},
        ]
    }
    body = json.dumps(client).encode()
    with pytest.raises(ProofError, match="there are too many calls"):
        Prover().prove(
            body, body.replace(text.encode(), b"-"), CHAT, Terms(placeholders=(Wording("+", 0),))
        )


def test_pairs_that_go_by_order_stay_or_go_together() -> None:
    """One call is answered by its tool, one by its order, and one by nobody; two are orphans."""
    calls = [{"function": {"name": name}} for name in ("read", "shell", "edit")]
    results = [{"role": "tool", "tool_name": name, "content": ""} for name in ("shell", "read")]
    messages = [
        {"role": "tool", "content": ""},
        {"role": "assistant", "tool_calls": calls},
        *results,
        {"role": "tool", "tool_name": "write", "content": ""},
        {"role": "user", "content": ""},
        {"role": "assistant", "content": ""},
        {"role": "user", "content": ""},
    ]

    def prove(*order: int) -> None:
        client, sent = (
            json.dumps({"messages": each}).encode()
            for each in (messages, [messages[at] for at in order])
        )
        Prover().prove(client, sent, OLLAMA, Terms(line_chars=80, order=order))

    prove(1, 2, 3, 6, 7)
    prove(0, 4, 5, 6, 7)
    prove(0, 5, 6, 7)
    for parted in ((1, 2), (1, 3, 4), (2, 3), (0, 2)):
        with pytest.raises(ProofError, match="a pair is parted"):
            prove(*parted, 6, 7)


def test_a_result_that_names_no_call_is_in_no_pair() -> None:
    call = {"id": "b", "function": {"name": "read"}}
    messages = [
        {"role": "tool", "tool_call_id": "b", "content": ""},
        {"role": "assistant", "tool_calls": [{"function": {"name": "read"}}, call]},
        {"role": "tool", "content": ""},
        {"role": "assistant", "content": ""},
    ]
    right, wrong = (0, 1, 3), (1, 2, 3)
    prove_order(messages, right)
    with pytest.raises(ProofError, match="a pair is parted"):
        prove_order(messages, wrong)


@pytest.mark.parametrize("depth", [0, 19, 20, 400])
def test_arguments_are_written_alike_however_deep(depth: int) -> None:
    arguments: object = {"n": [1, None, True, 0.5, "é"], "empty": [{}, []]}
    for _ in range(depth):
        arguments = [arguments]
    call = {"type": "tool_use", "id": "a", "name": "read", "input": {"deep": arguments}}
    result = {"type": "tool_result", "tool_use_id": "a", "content": LONG}
    asked = [{"role": "assistant", "content": [call]}, {"role": "user", "content": [result]}]
    policy = PricedPolicy(
        True, 1, placeholder_template="{arguments}", placeholder_arguments_chars=1_000
    )
    request = read_request(json.dumps({"messages": asked * 3}).encode(), MESSAGES)
    step = RequestStep(request, Strategies(schema1=policy), prices_of(policy), prover=Prover())
    reasons = [each.reason for each in step.rewrite().decisions]
    assert ["masked", "masked", "in_window"] == reasons


# Odd bodies.


@as_one_test
@pytest.mark.parametrize(
    ("client", "sent"),
    [
        (r'{"a": [{}], "messages": [{}, %s, {"role": "assistant"}]}', None),
        (r'{"messages": [], "messages": [%s, {"role": "assistant"}]}', None),
        (r'{"messages": 1, "messages": [%s, {"role": "assistant"}]}', None),
        ('{"messages": [{"n": NaN}\n,\t%s, {"role": "assistant", "n": 1.0}]}', None),
        (r'{"messages": [%s, {"role": "assistant"}], "a": "\ud800"}', None),
        (r'{"old": [%s, {"role": "assistant"}, 1], "messages": [%s, {"role": "assistant"}]}', 1),
    ],
)
def test_odd_bodies_are_proven_as_well(client: str, sent: int | None) -> None:
    result = '{"role": "tool", "tool_call_id": "a", "content": "%s"}'
    texts = [OLD, OLD] if sent else [OLD]
    before = client % tuple(result % text for text in texts)
    after = client % tuple(result % text for text in (*texts[1:], "-"))
    terms = Terms(placeholders=(Wording("-", 0),))
    Prover().prove(before.encode(), after.encode(), CHAT, terms)
    with pytest.raises(ProofError):
        Prover().prove(before.encode(), after.replace('": "-"', '" : "-"').encode(), CHAT, terms)


@as_one_test
@pytest.mark.parametrize("spelling", [r"\/\/ \u0041", "\\u00e9\\t", r"\u007f é"])
def test_texts_are_found_however_a_client_spells_them(spelling: str) -> None:
    result = f'{{"role": "tool", "content": "{spelling}", "tool_call_id": "a"}}'
    client = f'{{"messages": [{result}, {{"role": "assistant"}}]}}'
    terms = Terms(placeholders=(Wording("é", 0),))
    for new in ("é", r"\u00e9"):
        Prover().prove(client.encode(), client.replace(spelling, new).encode(), CHAT, terms)


@as_one_test
@pytest.mark.parametrize(
    "sent",
    [
        b"",
        b"[]",
        b'{"messages": 1}',
        b'{"messages": [' + b"[" * 5_000 + b"]" * 5_000 + b"]}",
        b'{"messages": [' + b"[" * 1_010 + b"]" * 1_010 + b"]}",
        b'{"messages": [{"n": NaN}]',
        b'{"messages": [{"n": "\xff"}]}',
    ],
)
def test_what_is_no_request_does_not_leave(sent: bytes) -> None:
    with pytest.raises(WireError):
        Prover().prove(b'{"messages": [{}]}', sent, CHAT, Terms())


# What is remembered.


def test_what_was_proven_stays_proven_by_all_of_its_bytes() -> None:
    provers = Prover(), Prover(max_bytes=10)
    for prover in provers:
        prover.prove(*CHAT_CASE, conversation=b"a")
    # What is known is another's, in another format, by other templates, and by another call.
    client, sent = CHAT_CASE[:2]
    renamed = (b'"read"', b'"open"')
    for each in (
        CHAT_CASE._replace(wire=MESSAGES),
        CHAT_CASE._replace(terms=Terms()),
        CHAT_CASE._replace(sent=sent.replace(b"[shell c", b"[shell d")),
        CHAT_CASE._replace(client=client.replace(*renamed), sent=sent.replace(*renamed)),
    ):
        for prover in provers:
            with pytest.raises(ProofError):
                prover.prove(*each, conversation=b"a")


def test_what_was_proven_by_a_later_call_is_not_by_another() -> None:
    prover, terms = Prover(), Terms(placeholders=(Wording("({tool_name})", 0),))
    client, sent = (
        json.dumps({"messages": [{**GIVEN, "content": text}, ASKS]}).encode()
        for text in (OLD, "(read)")
    )
    prover.prove(client, sent, CHAT, terms)
    with pytest.raises(ProofError, match="a text is no template's"):
        prover.prove(
            client.replace(b"read", b"open"), sent.replace(b'"read"', b'"open"'), CHAT, terms
        )


def test_what_was_proven_is_not_where_the_model_has_not_read_it() -> None:
    """An agent goes back to before its model's answer."""
    prover = Prover()
    bodies = [
        json.dumps(
            {
                "messages": [
                    {"role": "tool", "tool_call_id": "a", "content": text},
                    {"role": "assistant"},
                ]
            }
        ).encode()
        for text in (OLD, "-")
    ]
    terms = Terms(placeholders=(Wording("-", 0),))
    prover.prove(bodies[0], bodies[1], CHAT, terms)
    back = [body.replace(b', {"role": "assistant"}', b"") for body in bodies]
    with pytest.raises(ProofError, match="a result is masked unread"):
        prover.prove(back[0], back[1], CHAT, terms)
