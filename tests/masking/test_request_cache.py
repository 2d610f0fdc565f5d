"""What is remembered of requests changes nothing but the time that the next one takes."""

import gc
import json
import tracemalloc
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from itertools import chain
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from masking.accounting.prompt import read_prompt
from masking.conversation import Conversation, Request, find_answers
from masking.errors import WireError
from masking.history import History
from masking.memory import BoundaryMemory, digest_answers
from masking.model import Edits, Replacement
from masking.redaction import RedactionPolicy
from masking.reduction import ReductionOptions
from masking.request_cache import (
    CachedElement,
    CachedList,
    RequestCache,
)
from masking.rewrite import Rewrite, Strategies, read_request
from masking.tokens import TokenCounter
from masking.window import MaskPolicy, lay_out
from masking.window.boundary import Candidate, RequestSize
from masking.wire.chat import CHAT
from masking.wire.format import follow
from masking.wire.gemini import GEMINI
from tests.masking.test_every_format_invariants import REAL, requests
from tests.support.arrivals import SHORTENS, Remembering
from tests.support.builders import MASK_ALL, OLD, Spelling, examples, policies, policy, spellings
from tests.support.images import png
from tests.support.marks import as_one_test, thorough
from tests.support.priced import find_boundary, rewrite_request
from tests.support.wire_conversations import (
    IN_EVERY_FORMAT,
    IN_TWO_FORMATS,
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
    turns,
)

SLIDING = policy(MASK_ALL, window_turns=2)
PRICED = policy(SLIDING, cache_read_ratio=0.5, cache_write_ratio=1.0)
KEEPING = policy(
    PRICED, keep_last_k_per_tool=1, keep_latest_turns=5, mask_images=True, keep_rereads=True
)
POLICIES = {"sliding": SLIDING, "priced": PRICED, "keeping": KEEPING}
NAMES = ["sliding", thorough("priced"), "keeping"]
"""One that is priced and keeps more does all that one that is priced does."""

TEXT = "A line of output.\n" * 40

NOTHING = RequestCache(max_bytes=0)
"""Remembers no request."""


def outcome(
    body: bytes, writer: Writer, strategies: Strategies, table: RequestCache | None
) -> Rewrite | str:
    """Return what becomes of a request, or why it goes out as it came."""
    try:
        found = (table or NOTHING).read(body, writer.wire, writer.path)
        return rewrite_request(found, strategies)
    except WireError as error:
        return f"{error.path}: {error.problem}"


def is_remembered(request: Request) -> bool:
    """Whether its elements are known by their bytes."""
    return any(isinstance(each, CachedElement) for each in request.read_list()[2])


def is_cached(cache: RequestCache, body: bytes) -> bool:
    """Whether the cache reads the elements of a body one by one, and remembers them."""
    try:
        return is_remembered(cache.decode(body, CHAT))
    except WireError:
        return False


def grow(writer: Writer) -> Iterator[Told]:
    """Yield requests of a session in which much is said that agents and clients do.

    Each has two elements more than the one before, so that some end with a result and some with a
    call.
    """
    listed = (TEXT, "two") if writer.has_lists else TEXT
    said: list[Step] = [User("Mend it.")]
    said += [step for n in range(4) for step in turn(f"a_{n}", f"{n} {TEXT}", "read")]
    said += [
        Model((Ask("p", "read", {"path": "a.py"}), Ask("q", "shell"))),
        Tools((Give("q", listed, "shell"), Give("p", TEXT, "read"))),
        Model((), "So far."),
        User("Go on, é 😀."),
        Model((Ask("p", "read", {"path": "a.py"}),), thought="Hm."),
        Tools((Give("p", TEXT, "read", images=(png(800, 600),) if writer.has_images else ()),)),
        Model((Ask("f", "shell"),)),
        Tools((Give("f", f"Error: {TEXT}", "shell", fails=writer.tells_errors),)),
        *turns(3),
    ]
    whole = writer.tell(*said)
    for end in (*range(1, len(whole.items), 2), len(whole.items)):
        yield whole.until(end)


@IN_EVERY_FORMAT
@pytest.mark.parametrize("name", NAMES)
def test_a_session_is_masked_as_by_a_process_that_remembers_nothing(
    writer: Writer, name: str
) -> None:
    table, strategies = RequestCache(), Strategies(schema1=POLICIES[name])
    masked = 0
    for told in grow(writer):
        found = outcome(told.body, writer, strategies, table)
        assert outcome(told.body, writer, strategies, None) == found
        masked = max(masked, len(found.masked) if isinstance(found, Rewrite) else 0)
    assert masked >= 2


@IN_TWO_FORMATS
@pytest.mark.parametrize("name", NAMES)
def test_so_it_is_where_its_past_is_remembered(writer: Writer, name: str) -> None:
    def play(table: RequestCache | None) -> Iterator[Rewrite]:
        memory = BoundaryMemory()
        for now, told in enumerate(grow(writer)):
            request = (table or NOTHING).read(told.body, writer.wire, writer.path)
            seen = memory.lookup(request, 400.0 * now if now > 10 else now, 300.0)
            chosen = POLICIES[name] if now % 5 else policy(POLICIES[name], min_chars=9)
            strategies = Strategies(schema1=chosen)
            found = rewrite_request(request, strategies, context=seen.context)
            memory.store(seen, found.past)
            yield found

    assert [*play(None)] == [*play(RequestCache())]


@IN_TWO_FORMATS
@pytest.mark.parametrize(
    "strategies",
    [
        pytest.param(Strategies(redaction=RedactionPolicy(True, ("read",))), id="redaction"),
        pytest.param(
            Strategies(reduction=ReductionOptions(enabled=True, max_input_chars=2_000)),
            id="reduction",
        ),
        pytest.param(
            Strategies(
                redaction=RedactionPolicy(True, ("shell",)),
                schema1=PRICED,
                reduction=ReductionOptions(enabled=True, max_input_chars=4_000),
            ),
            id="all three",
        ),
    ],
)
def test_so_it_is_with_the_other_strategies(writer: Writer, strategies: Strategies) -> None:
    table = RequestCache()
    for told in grow(writer):
        found = outcome(told.body, writer, strategies, table)
        assert outcome(told.body, writer, strategies, None) == found


@IN_EVERY_FORMAT
def test_so_it_is_where_a_user_goes_back_or_something_in_the_middle_changes(
    writer: Writer,
) -> None:
    table, strategies = RequestCache(), Strategies(schema1=PRICED)
    whole = [*grow(writer)]
    half, full = whole[len(whole) // 2], whole[-1]
    other = half.then(*turn("other", f"other {TEXT}"), *turns(3, "again"))
    items = [*full.items]
    del items[2:4]
    cut = full._replace(items=items)
    for told in (full, half, other, full, cut, full, other, cut, cut):
        found = outcome(told.body, writer, strategies, table)
        assert outcome(told.body, writer, strategies, None) == found


@in_each(REAL)
@examples(0.5)
@given(sent=st.data(), spelling=spellings, chosen=policies, begins=st.sampled_from(["", "\ufeff"]))
def test_so_it_is_with_any_request_however_odd(
    writer: Writer, sent: st.DataObject, spelling: Spelling, chosen: MaskPolicy, begins: str
) -> None:
    table, strategies = RequestCache(), Strategies(schema1=chosen)
    document = sent.draw(requests(writer))
    bodies = [f"{begins}{spelling.spell(each)}".encode() for each in _grow(writer, document)]
    for body in (*bodies, bodies[0]):
        found = outcome(body, writer, strategies, table)
        assert outcome(body, writer, strategies, None) == found


def _grow(writer: Writer, document: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield a request with one half of its list, then with all of it."""
    for path in writer.wire.list_paths:
        holder = follow(document, path[:-1])
        if isinstance(holder, dict) and isinstance(items := holder.get(path[-1]), list):
            holder[path[-1]] = items[: len(items) // 2]
            yield document
            holder[path[-1]] = items
    yield document


def chat(*messages: object, **fields: object) -> bytes:
    return json.dumps({**fields, "messages": messages}).encode()


USER = {"role": "user", "content": "Hi."}
CALL = {"id": "a", "type": "function", "function": {"name": "shell", "arguments": "{}"}}
TURN = ({"role": "assistant", "tool_calls": [CALL]}, {"role": "tool", "tool_call_id": "a"})
DEEP = b'{"role":"user","content":"Hi.","x":%b1%b}'

ODD = {
    "a list of that name in another place": b'{"a": {"messages": [{}]}, "b": [{"role":"user"}]}',
    "a byte-order mark": b"\xef\xbb\xbf" + chat(USER),
    "no UTF-8": chat(USER).replace(b"Hi", b"\xff"),
    "a number that is none": chat(USER).replace(b'"Hi."', b"NaN"),
    "a lone surrogate": chat(USER).replace(b"Hi", b"\\ud800"),
    "text behind the document": chat(USER) + b" x",
    "an end in the middle": chat(USER, *TURN)[:-30],
    "an end within the list": b'{"messages": [',
    "an end behind an element": b'{"messages": [{"role":"user"}',
    "an end behind a comma": b'{"messages": [{"role":"user"},',
    "a comma behind the last element": b'{"messages": [{"role":"user"},]}',
    "no comma between elements": b'{"messages": [{"role":"user"} {"role":"user"}]}',
    "a text among the elements": chat(USER, "Hi.", USER),
    "a text first": chat("Hi.", USER),
    "a list among the elements": chat(USER, [USER]),
    "a deep element": chat(USER).replace(b'"Hi."', b"[" * 300 + b"]" * 300),
    "an element too deep": chat(USER).replace(b'"Hi."', b"[" * 9_000 + b"]" * 9_000),
    "a deep element of objects": b'{"messages": [%b]}' % (DEEP % (b'{"a":' * 300, b"}" * 300)),
    "no list but an empty one in another place": b'{"a": {"messages": []}}',
    "many lists of that name": b'{"a": [%b {}], "messages": []}' % (b'{"messages": [1]},' * 9),
    "a list that is none": b'{"messages": {"a": [{"role":"user"}]}}',
    "null for a list": b'{"messages": null}',
    "no element": b'{"messages": []}',
    "no element but blanks": b'{"messages": [ \n ]\n}',
    "a key that occurs again behind the list": b'{"messages": [{"role":"user"}], "messages": []}',
    "no list": b'{"model": "m"}',
    "no object": b'["messages"]',
    "nothing": b"",
}

READ = {
    "a deep field beside the list": chat(USER)[:-1] + b',"x":' + b"[" * 300 + b"]" * 300 + b"}",
    "blanks in all places": b' { "messages" : [ {"role":"user"} , \n {"role":"user"}\t] } ',
    "the key before the list, too": b'{"messages": [1], "messages": [{"role":"user"}]}',
    "the key in another object": b'{"a": {"messages": [1]}, "messages": [{"role":"user"}]}',
    "the key as a text": b'{"a": "\\"messages\\": [", "messages": [{"role":"user"}]}',
    "elements alike": chat(USER, USER, USER, *TURN, *TURN),
    "a key twice in an element": b'{"messages": [{"role":"tool","role":"user","content":"Hi."}]}',
    "a huge number": chat({"role": "user", "content": 10**30}),
    "a number that rounds": chat(USER, temperature=0.1).replace(b"0.1", b"0.1000000000000000055"),
    "brackets in a text": chat({"role": "user", "content": "[{" * 500}),
    "many flat lists": chat({"role": "user", "content": [[]] * 500}),
}


@as_one_test
@pytest.mark.parametrize("case", [*ODD, *READ])
def test_any_body_is_read_as_by_a_process_that_remembers_nothing(case: str) -> None:
    table, strategies = RequestCache(), Strategies(schema1=PRICED)
    body = {**ODD, **READ}[case]
    before = [chat(USER), chat(USER, *TURN), b'{"messages": [{"role":"user"}]}']
    for each in (*before, body, body, *before, body):
        found = outcome(each, WRITERS[0], strategies, table)
        assert outcome(each, WRITERS[0], strategies, None) == found


@as_one_test
@pytest.mark.parametrize("case", ODD)
def test_an_odd_body_is_not_remembered(case: str) -> None:
    table = RequestCache()
    table.decode(chat(USER), CHAT)
    assert not is_cached(table, ODD[case])


@as_one_test
@pytest.mark.parametrize("case", READ)
def test_all_others_are(case: str) -> None:
    table = RequestCache()
    first, second = table.decode(READ[case], CHAT), table.decode(READ[case], CHAT)
    assert first.document == second.document == orjson.loads(READ[case])
    assert is_remembered(first)
    assert is_remembered(second)
    assert [*map(id, first.read_list()[2])] == [*map(id, second.read_list()[2])]


@as_one_test
@IN_EVERY_FORMAT
def test_what_is_known_of_an_element_is_the_same_object_in_later_requests(writer: Writer) -> None:
    table = RequestCache()
    before: Conversation | None = None
    for told in grow(writer):
        request = table.read(told.body, writer.wire, writer.path)
        assert [*request.items] == [each.item for each in request.parsed]
        assert [*request.elements] == [each.element for each in request.parsed]
        if before is not None:
            assert [*map(id, before.parsed)] == [*map(id, request.parsed[: len(before.parsed)])]
        before = request


def test_an_element_is_known_wherever_it_stood_before() -> None:
    table = RequestCache()
    first = table.read(chat(USER, *TURN), CHAT)
    second = table.read(chat({"role": "system"}, *TURN, USER), CHAT)
    assert [id(first.parsed[n]) for n in (1, 2, 0)] == [*map(id, second.parsed[1:])]


@pytest.mark.parametrize(
    "spelled", ['{"model":"%s","messages":%s}', '{"messages":%s,"model":"%s"}']
)
def test_what_stands_around_a_list_is_read_anew_where_it_changes(spelled: str) -> None:
    table, listed = RequestCache(), json.dumps([USER, *TURN, USER, *TURN, USER])
    for model in ("one", "two", "two"):
        parts = (model, listed) if spelled.startswith('{"model"') else (listed, model)
        body = (spelled % parts).encode()
        request = table.decode(body, CHAT)
        assert is_remembered(request)
        assert request.document == json.loads(body)
    assert 1 == len(table._lists)


def test_formats_do_not_share_elements() -> None:
    table = RequestCache()
    for writer in WRITERS:
        told = writer.tell(User("Hi."), *turn())
        found = table.read(told.body, writer.wire, writer.path)
        assert told.read() == found


@as_one_test
@in_each(REAL)
def test_what_elements_tell_of_a_request_does_not_depend_on_what_is_remembered(
    writer: Writer,
) -> None:
    mark = {"cache_control": {"type": "ephemeral", "ttl": "1h"}}
    marked = [
        {"role": "user", "content": [{"type": "text", "text": "Hi.", **mark}]},
        {"role": "user", "content": [{"cachePoint": {"type": "default", "ttl": "1h"}}]},
        {"role": "user", "content": "Hi.", **mark},
        {"role": "assistant", "content": "Hi.", "thinking_blocks": [{"type": "thinking"}]},
        {"type": "message", "role": "user", "content": [{"prompt_cache_breakpoint": True}]},
        {"type": "reasoning", "encrypted_content": "abc"},
    ]
    for each in marked:
        told = writer.tell(User("One."), User("Two."))
        body = told._replace(items=[told.items[0], each, told.items[1]]).body
        warm = RequestCache().read(body, writer.wire, writer.path)
        cold = read_request(body, writer.wire, writer.path)
        for model in (cold.model, "claude-opus-5-5"):
            cold.request.name_model(model)
            warm.request.name_model(model)
            assert (cold.marks, cold.binding) == (warm.marks, warm.binding)


def test_an_item_that_refers_to_the_provider_is_found() -> None:
    writer = next(each for each in WRITERS if each.name == "responses")
    told = writer.tell(User("Hi."))
    body = told._replace(items=[*told.items, {"type": "item_reference", "id": "x"}]).body
    problem = "body: the provider holds a part of the history (item_reference)"
    assert problem == outcome(body, writer, Strategies(), RequestCache())


def test_lists_are_forgotten_beyond_a_bound_the_longest_unused_first() -> None:
    table = RequestCache(max_bytes=100_000)
    talks = [chat({"role": "user", "content": f"{n} " + "x" * 10_000}, *TURN) for n in range(9)]
    known = [table.read(each, CHAT).parsed[0].item for each in talks[:2]]
    for each in talks[2:]:
        table.read(each, CHAT)
        table.read(talks[0], CHAT)
    assert known[0] is table.read(talks[0], CHAT).parsed[0].item
    assert known[1] == table.read(talks[1], CHAT).parsed[0].item
    assert known[1] is not table.read(talks[1], CHAT).parsed[0].item


def test_what_is_larger_than_the_bound_is_not_remembered() -> None:
    assert not is_cached(RequestCache(), chat({"content": "x" * (33 << 20)}))
    assert not is_cached(RequestCache(max_bytes=1_000), chat({"content": "x" * 600}))
    assert is_cached(RequestCache(max_bytes=1_000), chat({"content": "x" * 300}))


WEIGHED = {
    "empty objects": "{},",
    "empty lists": "[],",
    "objects in objects": '{"a":{}},',
    "lists in lists": "[[[[]]]],",
    "fractions": "1.5,",
    "long numbers": "123456789012,",
    "short numbers": "7,",
    "short texts": '"%d",',
    "texts beyond ASCII": '"é漢😀",',
    "accents": '"éééééééééééééééé",',
    "ideographs": '"漢漢漢漢漢漢漢漢漢漢漢漢漢漢漢漢",',
    "a long text": None,
    "a long text with an emoji": None,
    "names": None,
    "long names": None,
}
"""What a body may hold many of; None for what is no list."""


def spell_many(kind: str, size: int, mark: int) -> str:
    """Return JSON of about so many characters, other JSON for each mark."""
    unit = WEIGHED[kind]
    if unit is not None:
        each = [unit % at if "%d" in unit else unit for at in range(size // len(unit))]
        return f"[{''.join(each)}{mark}]"
    if kind.startswith("a long text"):
        return json.dumps(f"{mark} {'word ' * (size // 5)}{'😀' * ('emoji' in kind)}")
    length = 2_000 if kind == "long names" else 6
    names = [f"{at:0{length}}" for at in range(max(1, size // (length + 5)))]
    return json.dumps({**dict.fromkeys(names, 1), "mark": mark})


GEMINI_WRITER = next(each for each in WRITERS if each.name == "gemini")

AROUND = "what stands around the list"

WEIGHED_IN: Mapping[str, Callable[[str], str]] = {
    "a result": lambda value: (
        '{"contents": [{"role": "user", "parts": [{"functionResponse": '
        f'{{"name": "t", "response": {{"result": {value}}}}}}}]}}]}}'
    ),
    "arguments": lambda value: (
        '{"contents": [{"role": "model", "parts": [{"functionCall": '
        f'{{"name": "t", "args": {{"a": {value}}}}}}}]}}]}}'
    ),
    AROUND: lambda value: (
        f'{{"contents": [{{"role": "user", "parts": [{{"text": "Hi."}}]}}], "tools": {value}}}'
    ),
}
"""Places of a value in a Gemini request, of which each is decoded, and some also spelled."""


SHORT, LONG = (100, 40), (10_000, 6)
"""How long a body is, and how many of them there are."""


@pytest.mark.parametrize("place", ["a result", thorough("arguments"), thorough(AROUND)])
@pytest.mark.parametrize(
    ("kind", "bodies"),
    [
        *(pytest.param(kind, LONG, id=f"long, {kind}") for kind in WEIGHED),
        pytest.param("names", SHORT, id="short, names"),
        *(thorough(kind, SHORT) for kind in WEIGHED if kind != "names"),
    ],
)
def test_a_table_holds_at_most_half_as_much_again_as_it_weighs(
    kind: str, place: str, bodies: tuple[int, int]
) -> None:
    """What Python counts is held by everybody: threads of earlier tests may let go meanwhile."""
    measured: list[tuple[int, int]] = []
    while len(measured) < 3 and not any(0 < held <= 1.5 * weight for held, weight in measured):
        measured.append(measure_table(kind, place, *bodies))
    held, weight = measured[-1]
    assert 0 < held <= 1.5 * weight, measured


def measure_table(kind: str, place: str, size: int, count: int) -> tuple[int, int]:
    """Return the bytes that a table of such requests holds, and those that it says it weighs."""
    table: RequestCache | None = RequestCache()
    assert table is not None
    counter = TokenCounter(1)
    bodies = [WEIGHED_IN[place](spell_many(kind, size, n)).encode() for n in range(count)]
    tracemalloc.start()
    try:
        for body in bodies:
            request = table.read(body, GEMINI, GEMINI_WRITER.path)
            assert is_remembered(request.request)
            read_prompt(rewrite_request(request, Strategies(schema1=SLIDING)), counter)
            del request
        weight = table._bytes
        gc.collect()
        held = tracemalloc.get_traced_memory()[0]
        table = None
        gc.collect()
        return held - tracemalloc.get_traced_memory()[0], weight
    finally:
        tracemalloc.stop()


def test_what_was_edited_of_an_element_weighs_as_well() -> None:
    """A long text beside results that are masked stands in the element as it is sent, too."""
    writer = next(each for each in WRITERS if each.name == "messages")
    table, sent = RequestCache(), 0
    for number in range(4):
        told = writer.tell(*(step for n in range(5) for step in turn(f"c{n}", f"{number} {OLD}")))
        items = [json.loads(json.dumps(item)) for item in told.items]
        for item in items:
            if item["role"] == "user":
                item["content"].append({"type": "text", "text": f"{number} " + "漢" * 9_000})
        body = json.dumps(writer.wrap(items)).encode()
        request = table.read(body, writer.wire, writer.path)
        assert is_remembered(request.request)
        sent += len(rewrite_request(request, Strategies(schema1=SLIDING)).body)
    decoded = 4 * 5 * 2 * 9_000
    assert table._bytes > 2 * sent + decoded - 3 * len(body)


@pytest.mark.parametrize("odd", ["1", "[]", "null", '"{"'])
def test_a_list_with_something_else_in_it_costs_no_more_than_to_cut_it(odd: str) -> None:
    table = RequestCache()
    body = b'{"messages": [{"role": "user"}, {"role": "assistant"}, %b]}' % odd.encode()
    assert not is_cached(table, body)
    assert 0 == len(table._known[CHAT.name])


def test_a_list_that_is_too_heavy_alone_is_not_remembered() -> None:
    table = RequestCache(max_bytes=20_000_000)
    light, heavy = (chat({"role": "user", "content": [{}] * n}) for n in (200_000, 400_000))
    for body, is_remembered in ((light, True), (heavy, False), (light, True)):
        assert is_cached(table, body)
        assert is_remembered == (len(table._lists) == 1)


def test_a_table_weighs_as_much_as_the_lists_in_it() -> None:
    table = RequestCache(max_bytes=300_000)
    for writer in WRITERS:
        for told in grow(writer):
            for body in (told.body, told.body.replace(b'"Mend it."', b'"Mend all."')):
                table.read(body, writer.wire, writer.path)
                lists = [*table._lists]
                weights = [
                    4_000 + each.frame.weight + sum(k.weight for k in each.elements)
                    for each in lists
                ]
                assert weights == [each.weight for each in lists]
                assert sum(weights) == table._bytes


def test_elements_are_known_wherever_they_stood_however_many_there_were() -> None:
    table = RequestCache(max_bytes=20_000_000)
    for start in range(0, 24_000, 2_000):
        messages = [{"role": "user", "content": str(start + n)} for n in range(2_000)]
        known = table.read(chat(*messages), CHAT).parsed
        turned = table.read(chat(*messages[::-1]), CHAT).parsed
        assert [*map(id, known)] == [*map(id, turned[::-1])]


def test_a_list_that_parts_from_another_leaves_that_one_known() -> None:
    table = RequestCache()
    opening = [USER, *(message for _ in range(6) for message in TURN)]
    one, two = ([*opening, {"role": "user", "content": text}, *TURN] for text in ("1", "2"))
    first = table.read(chat(*one), CHAT).parsed
    for _ in range(3):
        table.read(chat(*two), CHAT)
    assert [*map(id, first)] == [*map(id, table.read(chat(*one), CHAT).parsed)]


def test_more_conversations_may_part_after_one_element_than_are_kept_there() -> None:
    table = RequestCache()
    for _ in range(2):
        for n in range(300):
            body = chat(USER, {"role": "user", "content": str(n)})
            assert json.loads(body) == table.read(body, CHAT).document


def test_conversations_that_begin_alike_go_on_each_with_its_own_history() -> None:
    table, histories = RequestCache(), dict[str, list[History]]()
    system = {"role": "system", "content": TEXT}
    for turns_ in range(9):
        for name in ("one", "two", "three"):
            said = [[TURN[0], {**TURN[1], "content": f"{name} {n}"}] for n in range(turns_)]
            told = chat(system, {"role": "user", "content": name}, *chain.from_iterable(said))
            histories.setdefault(name, []).append(table.read(told, CHAT).history)
    one, two, three = (frozenset(map(id, each)) for each in histories.values())
    assert (1, 1, 1) == (len(one), len(two), len(three))
    assert 3 == len(one | two | three) == len(table._lists)


def test_a_mark_that_moves_on_leaves_the_rest_known() -> None:
    """As it is with claude-code: the last message has the mark, and has it no more."""
    writer = next(each for each in WRITERS if each.name == "messages")
    table, mark = RequestCache(), {"cache_control": {"type": "ephemeral"}}
    strategies = Strategies(schema1=PRICED)
    known = 0
    for told in grow(writer):
        items = [*told.items]
        items[-1] = {"role": "user", "content": [{"type": "text", "text": "Hi.", **mark}]}
        body = told._replace(items=items).body
        found = outcome(body, writer, strategies, table)
        assert outcome(body, writer, strategies, None) == found
        assert isinstance(found, Rewrite)
        request = found.conversation
        assert request.marks.in_list
        assert sum(each.size is not None for each in request.parsed) >= known
        known = len(request.parsed) - 1


@IN_EVERY_FORMAT
def test_the_answers_and_sizes_of_a_session_are_those_of_each_of_its_requests(
    writer: Writer,
) -> None:
    table = RequestCache()
    for told in grow(writer):
        warm = table.read(told.body, writer.wire, writer.path)
        cold = told.read()
        assert lay_out(cold) == lay_out(warm)
        expected, found = digest_answers(cold), digest_answers(warm)
        answers = find_answers(cold.elements, in_runs=writer.wire.answers_in_runs)
        assert len([*answers]) == len(expected.answers)
        assert expected == found


def test_what_is_worked_out_is_kept_once_however_often_settings_and_head_change() -> None:
    table, messages = RequestCache(), [USER, *TURN, {"role": "tool", "tool_call_id": "a"}]
    kept = []
    for n in range(9):
        body = chat(*messages, tools=[{"name": "x" * 50 * n}])
        request = table.read(body, CHAT, WRITERS[0].path)
        strategies = Strategies(schema1=policy(PRICED, window_turns=n + 1))
        assert outcome(body, WRITERS[0], strategies, None) == rewrite_request(request, strategies)
        kept.append(len(request.history))
    assert [kept[0]] * 9 == kept


def test_threads_share_a_table() -> None:
    table, strategies = RequestCache(max_bytes=200_000), Strategies(schema1=PRICED)
    told = [told for writer in WRITERS[:4] for told in grow(writer)]
    found = [outcome(each.body, each.writer, strategies, None) for each in told]
    with ThreadPoolExecutor(4) as pool:
        plays = [
            pool.map(lambda each: outcome(each.body, each.writer, strategies, table), told)
            for _ in range(4)
        ]
        assert [found] * 4 == [[*play] for play in plays]


def test_one_thread_at_a_time_changes_what_a_table_holds() -> None:
    """Its weight is a sum of many, and two lists that change at once would make it wrong."""
    table, is_locked = RequestCache(max_bytes=20_000), list[bool]()

    class Lists(OrderedDict[CachedList, int]):
        def __setitem__(self, key: CachedList, value: int) -> None:
            is_locked.append(table._lock.locked())
            super().__setitem__(key, value)

    table._lists = Lists()
    for told in grow(WRITERS[0]):
        table.read(told.body, CHAT, WRITERS[0].path)
    assert {True} == {*is_locked}
    assert len(is_locked) == len([*grow(WRITERS[0])])


def test_elements_are_edited_in_any_order() -> None:
    result = {**TURN[1], "content": OLD}
    request = RequestCache().decode(chat(USER, TURN[0], result, result), CHAT)
    new = (Replacement(("content",), OLD, "new"),)
    in_order = request.edit(Edits({2: new, 3: new}))
    assert in_order == request.edit(Edits({3: new, 2: new}))


def test_what_an_element_became_is_known_wherever_it_stood_before() -> None:
    table, result = RequestCache(), {**TURN[1], "content": OLD}
    new = (Replacement(("content",), OLD, "new"),)
    first = table.decode(chat(USER, TURN[0], result), CHAT)
    first.edit(Edits({2: new}))
    second = table.decode(chat({"role": "system"}, USER, TURN[0], result), CHAT)
    second.edit(Edits({3: new}))
    one, other = first.read_list()[2][2], second.read_list()[2][3]
    assert one.edited is other.edited
    assert one.edited is not None


def test_a_boundary_is_not_gone_on_with_from_other_results() -> None:
    requests = [RequestSize(1_000.0 * n, n, n) for n in range(30)]
    history = History()
    for saving in (100.0, 900.0):
        results = [Candidate(n, 1_000.0 * n + 50, saving, None) for n in range(30)]
        found = find_boundary(requests, results, PRICED, history=history)
        assert find_boundary(requests, results, PRICED) == found


@pytest.mark.parametrize("name", ["sliding", "priced"])
@pytest.mark.parametrize(
    ("before", "now"),
    [
        pytest.param('{"n": 1}', '{"n": true}', id="a number and a boolean"),
        pytest.param('{"n": 1}', '{"n": 1.0}', id="a number in two spellings"),
        pytest.param('{"n": 1, "m": 2}', '{"m": 2, "n": 1}', id="keys in another order"),
    ],
)
def test_a_branch_with_equal_arguments_has_its_own_spelling_in_placeholders(
    name: str, before: str, now: str
) -> None:
    writer = next(each for each in WRITERS if each.name == "messages")
    template = "[{arguments}]"
    strategies = Strategies(schema1=policy(POLICIES[name], placeholder_template=template))

    def spell(arguments: str, later: int) -> bytes:
        asked = Model((Ask("n", "read", {"n": "here"}),))
        said = [*turns(4, "early"), asked, Tools((Give("n", TEXT),)), *turns(later)]
        return writer.tell(User(), *said).body.replace(b'{"n" : "here"}', arguments.encode())

    table = RequestCache()
    outcome(spell(before, 2), writer, strategies, table)
    found = outcome(spell(now, 9), writer, strategies, table)
    assert isinstance(found, Rewrite)
    assert json.dumps(f"[{now}]").encode() in found.body
    assert outcome(spell(now, 9), writer, strategies, None) == found


@as_one_test
@IN_EVERY_FORMAT
@pytest.mark.parametrize("last", ["A lone \ud83d.", "Two: \ud83d \ud83d"])
def test_a_lone_surrogate_changes_nothing_of_what_precedes_it(writer: Writer, last: str) -> None:
    arguments = {"n": 1, "x": [1.0, -2e3, {"y": 10**30}], "path": "a.py"}
    asked, given = Model((Ask("n", "read", arguments),)), Tools((Give("n", TEXT, "read"),))
    told = [writer.tell(User(), asked, given, *turns(3), User(text)) for text in ("Go on.", last)]
    strategies = Strategies(schema1=policy(SLIDING, placeholder_template="[{arguments}]"))
    plain, odd = (outcome(each.body, writer, strategies, None) for each in told)
    assert isinstance(plain, Rewrite)
    assert isinstance(odd, Rewrite)
    assert plain.body != told[0].body
    assert plain.edits == odd.edits
    assert lay_out(plain.conversation).offsets == lay_out(odd.conversation).offsets
    assert digest_answers(plain.conversation).answers == digest_answers(odd.conversation).answers


def test_a_text_that_occurs_twice_is_replaced_where_it_was_given() -> None:
    """In the element itself the text stands before the result, as an id."""
    long = "x" * 400
    told = [{**TURN[0], "tool_calls": [{**CALL, "id": long}]}]
    told += [{"role": "tool", "tool_call_id": long, "content": long}]
    body = chat({"role": "user", "content": long}, *told, *TURN, *TURN)
    strategies = Strategies(schema1=SLIDING)
    table = RequestCache()
    for _ in range(2):
        found = outcome(body, WRITERS[0], strategies, table)
        assert isinstance(found, Rewrite)
        assert outcome(body, WRITERS[0], strategies, None) == found
        assert found.body != body


def test_old_texts_are_escaped_to_ascii_as_long_as_the_whole_body_is() -> None:
    messages = [USER, *TURN[:1], {**TURN[1], "content": OLD * 9}, *TURN, *TURN]
    strategies, table = (
        Strategies(schema1=policy(SLIDING, placeholder_template="é")),
        RequestCache(),
    )
    ascii_only = outcome(chat(*messages), WRITERS[0], strategies, table)
    assert isinstance(ascii_only, Rewrite)
    assert ascii_only.body.isascii()
    body = json.dumps({"messages": [*messages, {"content": "é"}]}, ensure_ascii=False).encode()
    other = outcome(body, WRITERS[0], strategies, table)
    assert isinstance(other, Rewrite)
    assert 2 <= other.body.count("é".encode())
    assert outcome(body, WRITERS[0], strategies, None) == other


def test_new_texts_are_spelled_as_the_client_spells_even_where_its_last_letter_is_cut() -> None:
    """Only the middle of a long result is not ASCII, and that is left out at arrival."""
    lines = "a line\n" * 200
    long = f"{lines}é{lines}"
    messages = [USER, TURN[0], {**TURN[1], "content": long}, *TURN, *TURN]
    bodies = [
        json.dumps({"messages": messages[:end]}, ensure_ascii=False).encode()
        for end in (3, len(messages))
    ]
    window = policy(SLIDING, window_turns=1, placeholder_template="ö")
    strategies = Strategies(arrival=SHORTENS, schema1=window)
    for table in (RequestCache(), NOTHING):
        process = Remembering()
        sent = [process.send(table.read(body, CHAT), strategies).body for body in bodies]
        assert ["left out" in body.decode() for body in sent] == [True, False]
        assert "ö".encode() in sent[1]
