"""At arrival: which results are shortened, to which bytes, and why others stay whole."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from masking.arrival import (
    OUTCOMES,
    ArrivalPolicy,
    Arrived,
    LongResult,
    LongResultOutcome,
    ShortenedWords,
    arrive,
    decide_arrivals,
    find_left_out,
    reads_file,
    shorten,
    shorten_text,
    shortened_texts,
    shortens_bound_prefix,
)
from masking.config import Settings, parse_settings
from masking.conversation import Conversation, read_conversation
from masking.errors import ConfigError, WireError
from masking.model import Element
from masking.redaction import RedactionPolicy
from masking.reduction import ReductionOptions
from masking.request_cache import RequestCache
from masking.rewrite import Strategies, read_request, rewrite_request
from masking.window import recall_id
from masking.window.placeholder import masked_texts, parse_marker
from masking.wire import CHAT
from masking.wire.converse import CONVERSE
from masking.wire.format import follow
from masking.wire.messages import MESSAGES
from tests.masking.test_every_format_invariants import EVERY, told
from tests.support.arrivals import OFF, SHORTENS, Remembering, shorten_lines, write_lines
from tests.support.builders import (
    MASK_ALL,
    Spelling,
    examples,
    list_replacements,
    policy,
    spellings,
)
from tests.support.made_up_format import change
from tests.support.marks import as_one_test, thorough
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
    spell,
    turn,
    turns,
)

LONG = write_lines("a")
STRATEGIES = Strategies(arrival=SHORTENS, schema1=OFF)
TASK = User("Fix the build.")


def called(
    given: Give, arguments: Mapping[str, object] | None = None, tool: str = "shell"
) -> tuple[Step, Step]:
    """Return an answer with a call, and what it gives."""
    return Model((Ask(given.call_id, tool, arguments or {}),)), Tools((given._replace(tool=tool),))


def outcomes(arrived: Arrived) -> list[tuple[int, str]]:
    return [(each.place, each.outcome) for each in arrived.long_results]


def texts_of(conversation: Conversation) -> list[tuple[str, ...]]:
    return [result.texts for result in conversation.results]


# What is left of a text.


class Cut(NamedTuple):
    case: str
    text: str
    expected: str
    """With `…` for the marker."""
    policy: ArrivalPolicy = SHORTENS


def of(line: str, count: int) -> str:
    return f"{line}\n" * count


CUTS = [
    Cut("no line ends: at a code point", "x" * 1_500, "x" * 300 + "…" + "x" * 200),
    Cut("of two units in UTF-16", "\U0001f600" * 1_001,
        "\U0001f600" * 300 + "…" + "\U0001f600" * 200),
    Cut("where lines end there already", of("a" * 49, 40), of("a" * 49, 6) + "…" + of("a" * 49, 4)),
    Cut("at the ends of lines before and behind", of("b" * 89, 20),
        of("b" * 89, 3) + "…" + of("b" * 89, 2)),
    Cut("at the very first and last of the reach", "c" * 99 + "\n" + "c" * 1_299 + "\n" + "c" * 100,
        "c" * 99 + "\n" + "c" * 200 + "…" + "c" * 100),
    Cut("a line end right behind the reach", "d" * 100 + "\n" + "d" * 1_200,
        "d" * 100 + "\n…" + "d" * 200),
    Cut("carriage returns stay with their lines", "e\r\n" * 500,
        "e\r\n" * 100 + "…" + "e\r\n" * 66),
    Cut("no tail", of("f" * 49, 40), of("f" * 49, 6) + "…", replace(SHORTENS, tail_chars=0)),
    Cut("no head", of("g" * 49, 40), "…" + of("g" * 49, 4), replace(SHORTENS, head_chars=0)),
    Cut("neither", "h" * 1_001, "…", replace(SHORTENS, head_chars=0, tail_chars=0)),
    Cut("the last line is long, and ends", of("i" * 1_499, 1), "i" * 300 + "…" + "i" * 199 + "\n"),
]  # fmt: skip


@as_one_test
@pytest.mark.parametrize("cut", [pytest.param(cut, id=cut.case) for cut in CUTS])
def test_what_is_left_of_a_text(cut: Cut) -> None:
    found = shorten_text(cut.text, cut.policy.words)
    assert found is not None
    head, tail = cut.expected.split("…")
    left_out = len(cut.text) - len(head) - len(tail)
    marker = f"\n[... {left_out} of {len(cut.text)} characters left out ...]\n"
    assert head + (marker if tail else marker.rstrip()) + tail == found


def test_a_text_that_is_not_longer_than_that_stays() -> None:
    assert shorten_text("x" * 1_000, SHORTENS.words) is None


def test_without_a_tail_it_is_known_as_shortened_too() -> None:
    headless = replace(SHORTENS, head_chars=0, tail_chars=0)
    found = shorten_text(LONG, headless.words)
    assert found is not None
    assert headless.marker.is_in(found, None)


def test_a_text_that_would_not_get_shorter_stays() -> None:
    """No policy allows that, but words that were written down may be anything."""
    words = ShortenedWords(10, 5, 4, "[... and so on ...]")
    assert shorten_text("x" * 11, words) is None


lines = st.one_of(
    st.text(st.characters(exclude_categories=()), max_size=30),
    st.sampled_from(["x" * 250, "\U0001f600" * 99, "<system-reminder>", "</system-reminder>"]),
)
policies = st.builds(
    lambda head, tail, more, template: ArrivalPolicy(
        enabled=True,
        head_chars=head,
        tail_chars=tail,
        max_chars=head + tail + parse_marker(template).longest + more,
        marker_template=template,
    ),
    st.integers(0, 400),
    st.integers(0, 400),
    st.integers(0, 100),
    st.sampled_from(
        ["\n[... {left_out_chars} of {original_chars} ...]\n", "…", "{recall}", " \n."]
    ),
)


@given(st.lists(lines, max_size=60).map("\n".join), policies)
def test_a_shortened_text_has_its_head_and_its_tail_and_is_not_long(
    text: str, chosen: ArrivalPolicy
) -> None:
    found = shorten_text(text, chosen.words)
    assert (found is not None) == (len(text) > chosen.max_chars)
    if found is None:
        return
    assert chosen.marker.is_in(found, None)
    assert len(found) <= chosen.max_chars < len(text)
    assert shorten_text(found, chosen.words) is None
    head, tail = max(0, chosen.head_chars - 200), max(0, chosen.tail_chars - 200)
    assert text[:head] == found[:head]
    assert text[len(text) - tail :] == found[len(found) - tail :]


# Which bytes change.


@as_one_test
@IN_EVERY_FORMAT
def test_no_other_byte_changes(writer: Writer) -> None:
    last = called(Give("c", write_lines("c")), {"n": 1})
    told = writer.tell(TASK, *turn("a", LONG), *turn("b", "ok"), *last)
    expected = told.body.decode()
    for text in (LONG, write_lines("c")):
        assert 1 == expected.count(spell(text))
        expected = expected.replace(spell(text), json.dumps(shorten_lines(text)))
    found = rewrite_request(told.body, STRATEGIES, writer.wire, writer.path)
    assert expected.encode() == found.body
    assert [(0, "shortened"), (2, "shortened")] == outcomes(found.arrived)
    assert [LONG, write_lines("c")] == [*shortened_texts(found.arrived)]


@EVERY
@examples(0.5)
@given(data=st.data(), spelling=spellings)
def test_whatever_is_in_a_request_only_texts_of_results_change(
    writer: Writer, data: st.DataObject, spelling: Spelling
) -> None:
    """And what they are by the JSON alone, with exactly these put in their places."""
    few = replace(SHORTENS, max_chars=150, head_chars=30, tail_chars=20, error_words_max_chars=9)
    body = spelling.spell(data.draw(told(writer)).document).encode("utf-8", "surrogatepass")
    try:
        client = read_request(body, writer.wire, writer.path)
        decided = decide_arrivals(client, few)
        arrived = shorten(client, decided)
    except WireError:
        return
    document: Any = json.loads(body)
    items: Any = follow(document, client.list_path)
    for each in arrived.shortened:
        for replacement in each.replacements:
            *parents, key = replacement.slot
            parent = items[client.results[each.place].element]
            for step in parents:
                parent = parent[step]
            assert parent[key] == replacement.text
            parent[key] = replacement.placeholder
    assert document == json.loads(arrived.conversation.request.body)
    assert (arrived.conversation is client) == (not arrived.shortened)
    if not arrived.shortened:
        assert arrived.conversation.request.body is body
    again = shorten(arrived.conversation, decide_arrivals(arrived.conversation, few))
    places = ({each.place for each in found.shortened} for found in (arrived, again))
    assert set() == set.intersection(*places)
    assert _parts_of(client) == _parts_of(arrived.conversation)


def _parts_of(conversation: Conversation) -> list[object]:
    """Return what arrival must not change: all but the texts of results."""
    bound = [
        (r.call_id, r.kind, r.slots, r.is_error, r.tails, r.tool, r.turn, r.images)
        for r in conversation.results
    ]
    return [*((e.speaker, e.texts, e.calls, e.is_bound) for e in conversation.elements), *bound]


@as_one_test
@IN_EVERY_FORMAT
def test_what_was_shortened_arrives_again_unchanged(writer: Writer) -> None:
    body = writer.tell(TASK, *turn("a", LONG)).body
    once = rewrite_request(body, STRATEGIES, writer.wire, writer.path).body
    assert once != body
    again = rewrite_request(once, STRATEGIES, writer.wire, writer.path)
    assert once is again.body
    smaller = replace(STRATEGIES, arrival=replace(SHORTENS, max_chars=600))
    found = rewrite_request(once, smaller, writer.wire, writer.path)
    assert [(0, "already_shortened")] * (len(shorten_lines(LONG)) > 600) == outcomes(found.arrived)


def test_one_of_ours_that_is_still_long_stays() -> None:
    larger = replace(SHORTENS, max_chars=1_600, head_chars=900, tail_chars=600)
    body = WRITERS[0].tell(TASK, *turn("a", LONG)).body
    once = rewrite_request(body, replace(STRATEGIES, arrival=larger)).body
    found = rewrite_request(once, STRATEGIES)
    assert (once, [(0, "already_shortened")]) == (found.body, outcomes(found.arrived))


# Which results stay whole, and why.


class Stays(NamedTuple):
    """The last result of a conversation, and what becomes of it."""

    outcome: LongResultOutcome | None
    case: str
    steps: Sequence[Step]
    policy: ArrivalPolicy = SHORTENS
    needs: str = ""


def reading(arguments: Mapping[str, object], tool: str = "read") -> Sequence[Step]:
    return called(Give("a", LONG), arguments, tool)


BLOCK = "BEGIN_DISPATCH_RESULT\n{}\nEND_DISPATCH_RESULT\n"
KEPT = {"keep_tools": (), "only_tools": (), "file_arguments": ()}
ALL = replace(SHORTENS, keep_tools=(), file_arguments=())
FAILED = f"Traceback (most recent call last):\n{LONG}"
TWICE = (*called(Give("a", LONG), {"n": 1}), *called(Give("b", write_lines("b")), {"n": 1}))
RECALLED = {"command": f"cat notes/{recall_id(LONG)}"}

STAYS = [
    Stays("shortened", "a long text", turn("a", LONG)),
    Stays(None, "a text of just the length", turn("a", LONG[:1_000])),
    Stays("shortened", "a longer one", turn("a", LONG[:1_001])),
    Stays("unknown_call", "of no call", [Model(text="Hm."), Tools((Give("a", LONG),))]),
    Stays("unknown_call", "of another call", [*turn("b", "ok"), Tools((Give("a", LONG),))]),
    Stays("kept_tool", "of a sub-agent", called(Give("a", LONG), tool="Task")),
    Stays("shortened", "none is kept", called(Give("a", LONG), tool="Task"), ALL),
    Stays("unlisted_tool", "of a tool that is not listed", turn("a", LONG),
          replace(SHORTENS, only_tools=("read", "sh?"))),
    Stays("shortened", "of one that is", turn("a", LONG), replace(SHORTENS, only_tools=("sh*",))),
    Stays("file", "of a call that names a file", reading({"file_path": "a.py", "limit": 9})),
    Stays("file", "by a path", reading({"path": "a.py"})),
    Stays("shortened", "a path that is searched", reading({"path": "src", "pattern": "def"})),
    Stays("shortened", "a path that is none", reading({"path": ["a.py"]})),
    Stays("shortened", "file reads are shortened, too", reading({"path": "a.py"}), ALL),
    Stays("file", "by a shell command", reading({"command": "cat a.py"}, "shell")),
    Stays("shortened", "a command that does more", reading({"command": "make; cat a.py"}, "shell")),
    Stays("recalled", "read back by our tool",
          reading({"id": recall_id("something else")}, "mcp__obsmask__recall")),
    Stays("recalled", "read back by our command",
          reading({"command": f"obsmask recall {recall_id(LONG)} | cat"}, "shell")),
    Stays("recalled", "read back in another way", reading(RECALLED, "shell"), ALL),
    Stays("shortened", "another text under an id",
          reading({"command": f"show {recall_id('something else')}"}, "shell")),
    Stays("asked_again", "of a call that was shortened before", TWICE),
    Stays("shortened", "of a call with other arguments",
          [*called(Give("a", LONG), {"n": 1}), *called(Give("b", LONG), {"n": 2})]),
    Stays("shortened", "asked for a third time",
          [*TWICE, *called(Give("c", write_lines("c")), {"n": 1})]),
    Stays("shortened", "of a call whose result was short",
          [*called(Give("a", "ok"), {"n": 1}), *called(Give("b", LONG), {"n": 1})]),
    Stays("error", "an error by its sign", turn("a", FAILED)),
    Stays("error", "an error by its flag", called(Give("a", LONG, fails=True)),
          needs="tells_errors"),
    Stays("error", "an error by its words", turn("a", LONG + "timeout"),
          replace(SHORTENS, error_words_max_chars=9_999)),
    Stays("shortened", "words do not make a long text one", turn("a", LONG + "timeout")),
    Stays("dispatch", "with a dispatch result", turn("a", LONG + BLOCK + LONG)),
    Stays("shortened", "with half a dispatch result", turn("a", BLOCK[:22] + LONG)),
    Stays("already_shortened", "with our marker in it",
          turn("a", f"{LONG}\n[... 7 of 9 characters left out ...]\n{LONG}")),
    Stays(None, "short parts of a long list",
          called(Give("a", (LONG[:900], LONG[:900]))), needs="has_lists"),
    Stays("shortened", "a long part of a list",
          called(Give("a", ("ok", LONG))), needs="has_lists"),
    Stays("error", "a list with an error in it",
          called(Give("a", (LONG, "\nTypeError: no\n"))), needs="has_lists"),
]  # fmt: skip


@as_one_test
@pytest.mark.parametrize("stays", STAYS, ids=lambda stays: stays.case)
def test_which_long_results_stay_whole(stays: Stays) -> None:
    for writer in WRITERS:
        if not all(getattr(writer, needed) for needed in stays.needs.split()):
            continue
        if not writer.has_ids and stays.case == "of another call":
            continue
        conversation = writer.tell(TASK, *stays.steps).read()
        arrived = arrive(conversation, stays.policy)
        last = len(conversation.results) - 1
        found = dict(outcomes(arrived)).get(last)
        assert (writer.name, stays.outcome) == (writer.name, found)
        before, after = conversation.results[last].texts, arrived.conversation.results[last].texts
        assert (stays.outcome == "shortened") == (before != after)
        if stays.outcome == "shortened":
            assert before == arrived.conversation.results[last].client_texts


def test_every_outcome_has_its_case() -> None:
    assert {*OUTCOMES} == {*get_args(LongResultOutcome)}
    tried = {stays.outcome for stays in STAYS if stays.outcome is not None}
    assert {*OUTCOMES} - {"sent_whole"} == tried


@as_one_test
@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        pytest.param({"command": "cat a.py"}, True, id="cat"),
        pytest.param({"command": "cd src && cat a.py b.py"}, True, id="after cd"),
        pytest.param({"command": "cd src; sed -n '1,9p' a.py"}, True, id="sed"),
        pytest.param({"command": "cat a.py | head -50"}, True, id="cut by head"),
        pytest.param({"command": "nl -ba a.py 2>/dev/null | sed -n 1,9p"}, True, id="numbered"),
        pytest.param({"command": "cat a.py && cat b.py\ntail c.py"}, True, id="several"),
        pytest.param({"command": ["bash", "-lc", "cat a.py"]}, True, id="a list"),
        pytest.param({"cmd": "cat a.py"}, True, id="by another name"),
        pytest.param({"command": []}, False, id="an empty list"),
        pytest.param({"command": [7]}, False, id="a list of a number"),
        pytest.param({"command": 7}, False, id="a number"),
        pytest.param({"command": ""}, False, id="nothing"),
        pytest.param({"command": "cat a.py | grep x"}, False, id="searched"),
        pytest.param({"command": "cat a.py > b.py"}, False, id="written"),
        pytest.param({"command": "cat a.py; make"}, False, id="and more"),
        pytest.param({"command": "sed -i s/a/b/ a.py"}, False, id="edited"),
        pytest.param({"command": "sed -n -i s/a/b/ a.py"}, False, id="edited without a word"),
        pytest.param({"command": "sed -n s/a/b/ -Ei.bak a.py"}, False, id="edited, and kept"),
        pytest.param({"command": "sed -n --in-place s/a/b/ a.py"}, False, id="edited by a name"),
        pytest.param({"command": "sed -n -e 1,9p in-place.py"}, True, id="sed with a script"),
        pytest.param({"command": "cats a.py"}, False, id="another command"),
        pytest.param({"command": "cat " + "a" * 2_000}, False, id="too long"),
        pytest.param({"filePath": "a.py", "query": "x"}, False, id="a query"),
        pytest.param({"absolute_path": "/a.py"}, True, id="an absolute path"),
        pytest.param({}, False, id="no arguments"),
    ],
)
def test_which_calls_read_files(arguments: Mapping[str, object], expected: bool) -> None:
    told = WRITERS[0].tell(*called(Give("a", LONG), arguments))
    (result,) = told.read().results
    assert expected == reads_file(result, ArrivalPolicy().file_arguments)


@as_one_test
@pytest.mark.parametrize("arguments", ["", "no JSON", "[]", None, 7])
def test_arguments_that_are_no_object_name_no_file(arguments: object) -> None:
    (result,) = WRITERS[0].tell(*turn()).read().results
    assert not reads_file(result._replace(arguments=arguments), ("path",))


# Parts, tails, and what is no text.


@as_one_test
@in_each([writer for writer in WRITERS if writer.has_lists])
def test_each_text_of_a_list_is_shortened_by_itself(writer: Writer) -> None:
    given_texts = ("ok", LONG, LONG[:999], write_lines("b"))
    told = writer.tell(TASK, *called(Give("a", given_texts)))
    arrived = arrive(told.read(), SHORTENS)
    expected = ("ok", shorten_lines(LONG), LONG[:999], shorten_lines(write_lines("b")))
    (result,) = arrived.conversation.results
    assert (expected, given_texts) == (result.texts, result.client_texts)
    assert [LONG, write_lines("b")] == [*shortened_texts(arrived)]
    gone = [text[300:-200] for text in (LONG, write_lines("b"))]
    assert gone == [*find_left_out(arrived, arrived.shortened[0])]


@as_one_test
@in_each([writer for writer in WRITERS if writer.has_images])
def test_images_beside_a_long_text_stay(writer: Writer) -> None:
    told = writer.tell(TASK, *called(Give("a", LONG, images=("iVBORw0KGgo=" * 200,))))
    before, after = told.read(), arrive(told.read(), SHORTENS).conversation
    assert shorten_lines(LONG) == after.results[0].texts[0]
    assert before.results[0].images == after.results[0].images


WORDS = "word " * 400 + "last"
REMINDERS = (
    "\n<system-reminder>\nBe brief.\n</system-reminder>\n\n<system-reminder>x</system-reminder>\n"
)


@as_one_test
@pytest.mark.parametrize("tail_chars", [200, 0])
@pytest.mark.parametrize("head_chars", [300, 0])
@pytest.mark.parametrize("ends", ["", " \n\t\n"], ids=["", "blanks before them"])
@pytest.mark.parametrize("in_list", [False, True], ids=["a string", "a list"])
def test_a_trailing_run_of_reminders_stays(
    head_chars: int, tail_chars: int, ends: str, in_list: bool
) -> None:
    chosen = replace(SHORTENS, head_chars=head_chars, tail_chars=tail_chars)
    content = (WORDS + ends + REMINDERS,)
    told = WRITERS[1].tell(TASK, *called(Give("a", content if in_list else content[0])))
    arrived = arrive(told.read(), chosen)
    assert [(0, "shortened")] == outcomes(arrived)
    (was,), (now,) = told.read().results, arrived.conversation.results
    assert ((WORDS,), (ends + REMINDERS,)) == (was.texts, was.tails)
    assert was.tails == now.tails
    assert was.texts == now.client_texts
    assert now.texts[0].startswith(WORDS[:head_chars])
    assert now.texts[0].endswith(WORDS[-200:] if tail_chars else "left out ...]")
    assert b"Be brief" in arrived.conversation.request.body


def test_an_element_that_would_be_read_otherwise_stays_whole() -> None:
    """A marker that ends in what looks like a reminder would be taken for one."""
    odd = replace(SHORTENS, tail_chars=0, marker_template="<system-reminder>cut</system-reminder>")
    told = WRITERS[1].tell(TASK, *turn("a", LONG))
    for conversation in (told.read(), RequestCache().read(told.body, MESSAGES, "/v1/messages")):
        arrived = arrive(conversation, odd)
        assert arrived.conversation is arrived.client
        assert () == arrived.shortened
        assert [(0, "sent_whole")] == outcomes(arrived)


def test_beside_one_that_is_shortened_it_stays_as_well() -> None:
    """Reminders follow the one text, and a marker that looks like one would join them."""
    odd = replace(SHORTENS, tail_chars=0, marker_template="cut <system-reminder>")
    text = LONG + "</system-reminder>"
    told = WRITERS[1].tell(TASK, *turn("a", write_lines("b")), *turn("b", text))
    for conversation in (told.read(), RequestCache().read(told.body, MESSAGES, "/v1/messages")):
        arrived = arrive(conversation, replace(odd, head_chars=0))
        places = {each.place for each in arrived.shortened}
        changed = {n for n, r in enumerate(arrived.conversation.results) if r.client_texts}
        assert places == changed
        assert 2 == len(arrived.long_results)


@pytest.mark.parametrize(
    "part",
    [
        pytest.param({"json": {"out": LONG}}, id="an object"),
        pytest.param({"document": {"name": LONG}}, id="a document"),
    ],
)
def test_in_converse_what_is_no_text_stays(part: object) -> None:
    told = WRITERS[2].tell(TASK, *turn("a", LONG))
    document: dict[str, Any] = json.loads(told.body)
    document["messages"][-1]["content"][0]["toolResult"]["content"] = [part]
    conversation = read_conversation(document, CONVERSE)
    assert Arrived(conversation, conversation) == arrive(conversation, SHORTENS)


def test_a_request_without_bytes_is_shortened_as_well() -> None:
    document = WRITERS[0].tell(TASK, *turn("a", LONG)).document
    arrived = arrive(read_conversation(document, CHAT), SHORTENS)
    assert [(shorten_lines(LONG),)] == texts_of(arrived.conversation)
    assert b"" == arrived.conversation.request.body


# The marker.


def test_a_marker_names_lengths_arguments_and_the_recall_id() -> None:
    template = "<{left_out_chars}/{original_chars} {arguments} {recall} 100%>"
    chosen = replace(SHORTENS, marker_template=template, arguments_chars=20)
    steps = called(Give("a", LONG), {"command": "make\tall  of it"})
    arrived = arrive(WRITERS[0].tell(TASK, *steps).read(), chosen)
    marker = f'<1500/2000 {{"command": "make... {recall_id(LONG)} 100%>'
    assert [(f"{LONG[:300]}{marker}{LONG[-200:]}",)] == texts_of(arrived.conversation)
    assert chosen.marker.names_recall
    assert not SHORTENS.marker.names_recall
    again = decide_arrivals(arrived.conversation, replace(chosen, max_chars=520, head_chars=200))
    assert ["already_shortened"] == [each.outcome for each in again]


@as_one_test
@pytest.mark.parametrize(
    ("template", "found", "expected"),
    [
        ("<{left_out_chars}>", "a <12> b", True),
        ("<{left_out_chars}>", "a <> b", False),
        ("<{left_out_chars}>", f"<{'1' * 21}>", False),
        ("{original_chars} of {left_out_chars}", "x12 of 7x", True),
        ("<{recall}>", "<0123456789abcdef>", True),
        ("<{recall}>", "<0123456789ABCDEF>", False),
        ("{arguments}: {left_out_chars} left out", '{"a": "{recall}"}: 5 left out', True),
        ("{arguments}: {left_out_chars} left out", '{"a": "ls"}: 5 left out', False),
        ("{arguments}: {left_out_chars} left out", "9: 5 left out", False),
        ("{arguments}", "x" * 99, False),
        (" \n.*\n ", "cut .* here", True),
        (".*", "anything", False),
    ],
)
def test_a_marker_is_recognized_by_its_own_call(template: str, found: str, expected: bool) -> None:
    assert expected is parse_marker(template).is_in(found, {"a": "{recall}"})


@as_one_test
@pytest.mark.parametrize(
    ("change", "key", "problem"),
    [
        ({"head_chars": -1}, "head_chars", "must be a number from 0 up"),
        ({"tail_chars": -1}, "tail_chars", "must be a number from 0 up"),
        ({"max_chars": 500}, "max_chars", "must be at least"),
        ({"max_chars": 0, "head_chars": 0, "tail_chars": 0}, "max_chars", "must be at least"),
        ({"marker_template": " \n"}, "marker_template", "must not be blank"),
        ({"marker_template": "{tool_name}"}, "marker_template", "unknown field {tool_name}"),
        ({"keep_tools": "Task"}, "keep_tools", "expected a list of names"),
        ({"only_tools": "shell"}, "only_tools", "expected a list of names"),
        ({"file_arguments": "path"}, "file_arguments", "expected a list of names"),
        ({"keep_tools": ("Task", "")}, "keep_tools[1]", ""),
    ],
)
def test_what_cannot_be_meant_names_its_key(
    change: dict[str, object], key: str, problem: str
) -> None:
    with pytest.raises(ConfigError) as raised:
        ArrivalPolicy(**{"enabled": True} | change)  # type: ignore[arg-type]
    assert key == raised.value.path
    assert problem in raised.value.problem


def test_the_least_length_is_that_of_head_tail_and_the_longest_marker() -> None:
    longest = SHORTENS.marker.longest
    assert len("\n[... ") + 20 + len(" of ") + 20 + len(" characters left out ...]\n") == longest
    replace(SHORTENS, max_chars=500 + longest)
    with pytest.raises(ConfigError, match=f"must be at least {500 + longest}"):
        replace(SHORTENS, max_chars=499 + longest)


@as_one_test
@pytest.mark.parametrize(
    ("lines", "key"),
    [
        pytest.param("max_chars = 10", "arrival.max_chars", id="too short"),
        pytest.param("head_chars = 1.5", "arrival.head_chars", id="no whole number"),
        pytest.param("longest = 9", "arrival.longest", id="unknown"),
        pytest.param('marker_template = "{x}"', "arrival.marker_template", id="a field"),
        pytest.param('marker_template = "{recall}"', "arrival.marker_template", id="recall is off"),
        pytest.param('marker_template = "{arguments}"\nmax_chars = 6100\n'
                     "[observation_masking.schema1]\nplaceholder_arguments_chars = 200",
                     "arrival.max_chars", id="as long as the window's settings make it"),
    ],
)  # fmt: skip
def test_mistakes_in_a_file_name_their_key(lines: str, key: str) -> None:
    with pytest.raises(ConfigError) as raised:
        parse_settings(f"[observation_masking.arrival]\nenabled = true\n{lines}\n".encode())
    assert f"observation_masking.{key}" == raised.value.path


def test_it_is_off_and_a_file_turns_it_on() -> None:
    assert not ArrivalPolicy().enabled
    found = parse_settings(b"[observation_masking.arrival]\nenabled = true\nmax_chars = 9000\n")
    assert isinstance(found, Settings)
    assert ArrivalPolicy(enabled=True, max_chars=9_000) == found.strategies.arrival


# When nothing is shortened at all.


@as_one_test
@IN_EVERY_FORMAT
@pytest.mark.parametrize(
    "strategies",
    [
        pytest.param(Strategies(schema1=OFF), id="off, as it is by default"),
        pytest.param(replace(STRATEGIES, schema1=replace(OFF, enabled=False)), id="the window off"),
    ],
)
def test_off_nothing_is_shortened(writer: Writer, strategies: Strategies) -> None:
    body = writer.tell(TASK, *turn("a", LONG)).body
    found = rewrite_request(body, strategies, writer.wire, writer.path)
    assert body is found.body
    assert not strategies.can_change
    assert () == found.arrived.long_results


def test_strategies_that_only_shorten_can_change_a_request() -> None:
    assert STRATEGIES.can_change


@pytest.mark.parametrize(("model", "expected"), [("claude-opus-5-5", 0), ("claude-opus-5", 1)])
def test_without_a_memory_it_is_off_where_the_model_binds_its_reasoning(
    model: str, expected: int
) -> None:
    """It might have seen these results whole."""
    document = WRITERS[1].tell(TASK, *turn("a", LONG)).document | {"model": model}
    body = json.dumps(document).encode()
    found = rewrite_request(body, STRATEGIES, MESSAGES)
    assert expected == len(found.arrived.shortened)
    assert (body is found.body) == (not expected)
    remembered = Remembering().send(read_request(body, MESSAGES), STRATEGIES)
    assert b"left out" in remembered.body


@as_one_test
@pytest.mark.parametrize(
    ("steps", "model", "expected"),
    [
        pytest.param([*turn("a", LONG), Model((), "Done.", "Hm.")], "claude-opus-5-5", True,
                     id="bound to what was shortened"),
        pytest.param([*turn("a", LONG), Model((), "Done.")], "claude-opus-5-5", False,
                     id="no reasoning"),
        pytest.param([Model((Ask("a"),), "I look.", "Hm."), Tools((Give("a", LONG),))],
                     "claude-opus-5-5", False, id="before it"),
        pytest.param([*turn("a"), Model((), "Done.", "Hm.")], "claude-opus-5-5", False,
                     id="nothing shortened"),
        pytest.param([*turn("a", LONG), Model((), "Done.", "Hm.")], "claude-opus-5", False,
                     id="bound to nothing"),
    ],
)  # fmt: skip
def test_whether_reasoning_is_bound_to_what_was_shortened(
    steps: Sequence[Step], model: str, expected: bool
) -> None:
    document = WRITERS[1].tell(TASK, *steps).document | {"model": model}
    client = read_conversation(document, MESSAGES)
    arrived = shorten(client, decide_arrivals(client, SHORTENS))
    assert expected == shortens_bound_prefix(arrived)


# What the strategies after it see.


@as_one_test
@IN_EVERY_FORMAT
def test_placeholders_of_the_window_give_the_clients_length(writer: Writer) -> None:
    chosen = policy(MASK_ALL, placeholder_template="<{original_chars} {recall}>")
    body = writer.tell(TASK, *turn("a", LONG), *turns(1)).body
    found = rewrite_request(body, Strategies(arrival=SHORTENS, schema1=chosen), writer.wire)
    assert ["masked", "in_window"] == [decision.reason for decision in found.decisions]
    assert f"<2000 {recall_id(LONG)}>".encode() in found.body
    assert [LONG] == [*masked_texts(found.decisions)]
    assert b"left out" not in found.body


@as_one_test
@IN_EVERY_FORMAT
def test_so_do_those_of_a_redaction(writer: Writer) -> None:
    redaction = RedactionPolicy(True, ("shell",), "<{original_chars}>")
    body = writer.tell(TASK, *turn("a", LONG), Model(text="Done."), User()).body
    strategies = replace(STRATEGIES, redaction=redaction)
    found = rewrite_request(body, strategies, writer.wire)
    assert b"<2000>" in found.body


@as_one_test
@IN_EVERY_FORMAT
@pytest.mark.parametrize("block", ["", BLOCK], ids=["", "in whose head is half a dispatch result"])
def test_so_do_those_of_a_reduction(writer: Writer, block: str) -> None:
    text = block[:22] + LONG
    reduction = ReductionOptions(enabled=True, max_input_chars=300, preserve_recent_raw_turns=1)
    body = writer.tell(TASK, *turn("a", text), Model(text="Done."), User()).body
    found = rewrite_request(body, replace(STRATEGIES, reduction=reduction), writer.wire)
    placeholders = [each.placeholder for each in list_replacements(found.decisions)]
    assert [f"[observation masked — {len(text)} chars]"] == placeholders


@as_one_test
@IN_EVERY_FORMAT
def test_after_a_redaction_a_reduction_still_gives_the_clients_length(writer: Writer) -> None:
    """Two results in one element, of which one is masked by now, and read again for that."""
    reduction = ReductionOptions(enabled=True, max_input_chars=300, preserve_recent_raw_turns=1)
    redaction = RedactionPolicy(True, ("read",), "<{original_chars}>")
    calls = Model((Ask("a", "read"), Ask("b", "shell")))
    results = Tools((Give("a", LONG, "read"), Give("b", LONG, "shell")))
    body = writer.tell(TASK, calls, results, Model(text="Done."), User()).body
    strategies = replace(STRATEGIES, redaction=redaction, reduction=reduction)
    found = rewrite_request(body, strategies, writer.wire)
    placeholders = [each.placeholder for each in list_replacements(found.decisions)]
    assert ["<2000>", "[observation masked — 2000 chars]"] == placeholders


@as_one_test
@IN_EVERY_FORMAT
@pytest.mark.parametrize(
    ("min_chars", "expected"), [(400, "masked"), (547, "too_short"), (2_000, "too_short")]
)
def test_the_window_sees_how_short_they_are(writer: Writer, min_chars: int, expected: str) -> None:
    chosen = policy(MASK_ALL, min_chars=min_chars)
    body = writer.tell(TASK, *turn("a", LONG), *turns(1)).body
    found = rewrite_request(body, Strategies(arrival=SHORTENS, schema1=chosen), writer.wire)
    assert expected == found.decisions[0].reason
    whole = rewrite_request(body, chosen, writer.wire)
    assert "masked" == whole.decisions[0].reason


def test_a_placeholder_must_be_shorter_than_what_is_left() -> None:
    chosen = policy(MASK_ALL, placeholder_template="gone " * 150, skip_if_not_shorter=True)
    body = WRITERS[0].tell(TASK, *turn("a", LONG), *turns(1)).body
    found = rewrite_request(body, Strategies(arrival=SHORTENS, schema1=chosen))
    assert "not_shorter" == found.decisions[0].reason
    assert "masked" == rewrite_request(body, chosen).decisions[0].reason


@as_one_test
@IN_EVERY_FORMAT
def test_the_window_decides_as_if_the_client_had_sent_them_short(writer: Writer) -> None:
    """So what it promises of a bill holds of a bill that is smaller at every request."""
    chosen = policy(
        MASK_ALL, window_turns=3, placeholder_template="<{tool_name}>",
        cache_read_ratio=0.1, cache_write_ratio=1.25,
    )  # fmt: skip
    steps = [step for n in range(20) for step in turn(f"c{n}", write_lines(f"{n}", 60))]
    whole = writer.tell(TASK, *steps)
    strategies = Strategies(arrival=SHORTENS, schema1=chosen)
    short = rewrite_request(whole.body, STRATEGIES, writer.wire, writer.path).body
    found = rewrite_request(whole.body, strategies, writer.wire, writer.path, chosen.prices)
    same = rewrite_request(short, chosen, writer.wire, writer.path, chosen.prices)
    assert found.masked
    assert (same.body, same.masked) == (found.body, found.masked)


# Asked again, and read back.


@as_one_test
@IN_EVERY_FORMAT
def test_who_asks_again_gets_it_whole_and_goes_in_no_circle(writer: Writer) -> None:
    """Nor does a recall: what it prints stays, however often it is asked for."""
    proxy, said = Remembering(), list[Step]([TASK])
    lengths = []
    for number in range(4):
        said += called(Give(f"c{number}", write_lines(f"{number}")), {"job": 1})
        found = proxy.send(writer.tell(*said).read(), STRATEGIES).conversation.results
        lengths.append([len(result.text) for result in found])
    short = len(shorten_lines(LONG))
    assert [[short], [short, 2_000], [short, 2_000, short], [short, 2_000, short, 2_000]] == lengths
    for number in range(3):
        recall = {"command": f"obsmask recall {recall_id(LONG)}"}
        said += called(Give(f"r{number}", LONG), recall)
        arrived = proxy.send(writer.tell(*said).read(), STRATEGIES).arrived
        assert arrived is not None
        assert "recalled" == arrived.long_results[-1].outcome


# As by a process that remembers nothing.


def grow(writer: Writer) -> Sequence[Told]:
    """Return the requests of a conversation with results of all kinds."""
    said: list[Step] = [TASK]
    requests = []
    for number in range(8):
        text = write_lines(f"{number}", 20 + 10 * (number % 3))
        given_text = FAILED if number == 4 else text
        if number % 3 == 1 and writer.has_lists:
            said += called(Give(f"c{number}", (text, "ok", text)), {"n": number % 2})
        else:
            said += called(Give(f"c{number}", given_text), {"n": number % 2})
        if number == 5:
            said += Model((Ask("x"), Ask("y"))), Tools((Give("x", LONG), Give("y", text)))
        requests.append(writer.tell(*said))
    return requests


@IN_TWO_FORMATS
@pytest.mark.parametrize(
    ("dense", "chars"),
    [(False, ""), (True, "é😀"), thorough(False, "é😀"), thorough(True, "")],
    ids=["as it is", "without blanks, not ASCII", "not ASCII", "without blanks"],
)
def test_a_cache_of_requests_changes_nothing(writer: Writer, dense: bool, chars: str) -> None:
    cache, cold, warm = RequestCache(), Remembering(), Remembering()
    chosen = policy(MASK_ALL, window_turns=4)
    for number, request in enumerate(grow(writer)):
        strategies = Strategies(
            arrival=replace(SHORTENS, enabled=number != 2, head_chars=300 - 50 * (number == 6)),
            schema1=chosen,
        )
        body = request.body.replace(b"wrong", f"wr{chars}ng".encode())
        if dense:
            body = json.dumps(json.loads(body), ensure_ascii=False, separators=(",", ":")).encode()
        for _ in range(2):  # a second try, too
            conversation = read_request(body, writer.wire, writer.path)
            one = cold.send(conversation, strategies)
            other = warm.send(cache.read(body, writer.wire, writer.path), strategies)
            assert one.body == other.body
            assert one.decisions == other.decisions
            assert one.arrived.long_results == other.arrived.long_results
            assert texts_of(one.conversation) == texts_of(other.conversation)
            assert one.conversation.elements == other.conversation.elements


def test_what_is_made_of_an_element_is_made_once() -> None:
    cache = RequestCache()
    first, second = grow(WRITERS[0])[-2:]
    found = [arrive(cache.read(each.body, CHAT), SHORTENS).conversation for each in (first, second)]
    assert any(result.client_texts for result in found[0].results)
    same = zip(found[0].parsed, found[1].parsed, strict=False)
    assert all(one is other for one, other in same)


def test_a_shortened_request_can_be_read_by_other_lengths() -> None:
    cache = RequestCache()
    told = grow(WRITERS[0])[-1]
    for head in (300, 200, 300):
        chosen = replace(SHORTENS, head_chars=head)
        found = arrive(cache.read(told.body, CHAT), chosen).conversation
        assert found.request.body == arrive(told.read(), chosen).conversation.request.body


def test_an_element_that_cannot_be_edited_by_itself_stays_whole(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(*_: object, **__: object) -> bytes:
        raise WireError("cannot be edited")

    told = WRITERS[0].tell(TASK, *turn("a", LONG))
    conversation = RequestCache().read(told.body, CHAT)
    monkeypatch.setattr("masking.conversation.splice", fail)
    arrived = arrive(conversation, SHORTENS)
    assert [(0, "sent_whole")] == outcomes(arrived)
    assert arrived.conversation is conversation


def test_a_format_that_reads_other_results_after_an_edit_keeps_its_element() -> None:
    def read(value: object) -> Element:
        element = CHAT.read_element(value)
        return element._replace(results=()) if "left out" in json.dumps(value) else element

    told = WRITERS[0].tell(TASK, *turn("a", LONG))
    wire = change(CHAT, read_element=staticmethod(read))
    arrived = arrive(read_request(told.body, wire), SHORTENS)
    assert [(0, "sent_whole")] == outcomes(arrived)


def test_nothing_is_left_out_of_a_result_that_is_whole() -> None:
    conversation = WRITERS[0].tell(TASK, *turn("a", LONG)).read()
    arrived = Arrived(conversation, conversation, (LongResult(0, "error"),))
    assert [] == [*find_left_out(arrived, arrived.long_results[0])]
    assert [] == [*shortened_texts(arrived)]
    assert [] == [*shortened_texts(None)]
