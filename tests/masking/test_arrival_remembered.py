"""What was sent shortened or whole stays so, whatever happens to settings, process and agent."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from masking.arrival import arrive
from masking.memory import BoundaryMemory, Remembered, digest_opening
from masking.request_cache import RequestCache
from masking.rewrite import Rewrite, Strategies, read_request
from masking.window import MaskPolicy
from masking.wire.messages import MESSAGES
from tests.support.arrivals import (
    OFF,
    SHORTENS,
    Remembering,
    shorten_lines,
    write_lines,
)
from tests.support.bound_thinking import forget_thinking, is_taken, sign
from tests.support.builders import MASK_ALL, examples, policy
from tests.support.marks import as_one_test
from tests.support.priced import PricedPolicy
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
    turn,
)

ON = Strategies(arrival=SHORTENS, schema1=OFF)
STOPPED = replace(ON, arrival=replace(SHORTENS, enabled=False))
OTHER = replace(
    ON,
    arrival=replace(
        SHORTENS, max_chars=800, head_chars=99, tail_chars=300, marker_template="\n[{recall}]\n"
    ),
)
EVEN_READS = replace(ON, arrival=replace(SHORTENS, file_arguments=(), max_chars=1_400))
SLIDING = policy(MASK_ALL, window_turns=2, placeholder_template="<{original_chars}>")
PRICED = policy(SLIDING, window_turns=3, cache_read_ratio=0.1, cache_write_ratio=1.25, max_loss=1.0)
TASK = User("Repair it.")


def texts_of(rewrite: Rewrite) -> list[str]:
    return [result.text for result in rewrite.conversation.results]


# A conversation that goes on.


class Event(NamedTuple):
    """A request: what its newest turn gave, and what happens before it is sent.

    gives: the lengths of its results, in lines of 50 characters; parallel where there are several.
    back: by how many turns the user goes back.
    """

    gives: tuple[int, ...] = (40,)
    reads: bool = False
    strategies: Strategies = ON
    way: Literal["proxy", "direct"] = "proxy"
    restarts: bool = False
    twice: bool = False
    back: int = 0


@dataclass
class Talk:
    """An agent in any format, and a proxy.

    sent: by the place of an element, its JSON as it was last sent, and whether by the proxy.
    """

    writer: Writer
    proxy: Remembering = field(default_factory=Remembering)
    cache: RequestCache = field(default_factory=RequestCache)
    items: list[Any] = field(default_factory=list)
    turns: list[int] = field(default_factory=list)
    sent: list[str] = field(default_factory=list)
    count: int = 0
    forks: int = 0

    def __post_init__(self) -> None:
        self.items += self.writer.tell(TASK).items

    def take(self, event: Event) -> None:
        if event.back:
            self.turns = self.turns[: max(0, len(self.turns) - event.back)]
            del self.items[self.turns[-1] if self.turns else 1 :]
            del self.sent[len(self.items) :]
            self.forks += 1
        calls, results = [], []
        for length in event.gives:
            self.count += 1
            call_id, tool = f"c{self.count}", "read" if event.reads else "shell"
            arguments = {"path" if event.reads else "command": f"{self.count % 3}"}
            calls.append(Ask(call_id, tool, arguments))
            results.append(Give(call_id, write_lines(f"{self.count}", length), tool))
        self.items += self.writer.tell(Model((*calls,)), Tools((*results,))).items
        self.turns.append(len(self.items))
        if event.restarts:
            self.proxy.restart()
        for _ in range(1 + event.twice):
            self.send(event)

    def send(self, event: Event) -> None:
        told = Told(self.writer, self.items)
        if event.way == "direct":
            return
        conversation = self.cache.read(told.body, self.writer.wire, self.writer.path)
        known = len(self.sent)
        rewrite = self.proxy.send(conversation, event.strategies, prices_of(event.strategies))
        elements = list_elements(rewrite, rewrite.body)
        whole = list_elements(rewrite, told.body)
        first_new = 1 + max(
            (at for at, each in enumerate(conversation.elements) if each.speaker == "assistant")
        )
        masked = {conversation.results[place].element for place in rewrite.masked}
        for at, element in enumerate(elements):
            if at in masked:
                continue
            if at < known:
                assert self.sent[at] in (element, "masked")
            elif at < first_new:
                assert whole[at] == element
        # What is masked by now is not told apart any more.
        self.sent = ["masked" if at in masked else each for at, each in enumerate(elements)]


def prices_of(strategies: Strategies) -> Any:  # noqa: ANN401 - of the policy, or none
    chosen = strategies.schema1
    return chosen.prices if isinstance(chosen, PricedPolicy) else SLIDING.prices


def list_elements(rewrite: Rewrite, body: bytes) -> list[str]:
    value = json.loads(body)
    for step in rewrite.conversation.list_path:
        value = value[step]
    return [json.dumps(each) for each in value]


lengths = st.lists(st.sampled_from([1, 18, 25, 40]), min_size=1, max_size=2).map(tuple)
events = st.builds(
    Event,
    lengths,
    st.sampled_from([False, False, True]),
    st.sampled_from([ON, ON, STOPPED, OTHER, EVEN_READS]),
    st.sampled_from(["proxy", "proxy", "proxy", "direct"]),
    st.booleans(),
    st.booleans(),
    st.sampled_from([0, 0, 0, 0, 1, 3]),
)


@IN_TWO_FORMATS
@examples(0.15)
@given(st.lists(events, min_size=2, max_size=10))
def test_each_request_begins_as_the_one_before(writer: Writer, given_events: list[Event]) -> None:
    """Where nothing is masked. What was not sent by us stays whole, but for what is new."""
    talk = Talk(writer)
    for event in given_events:
        talk.take(event)


@IN_TWO_FORMATS
@examples(0.15)
@given(st.lists(events, min_size=4, max_size=12), st.sampled_from([SLIDING, PRICED]))
def test_they_differ_only_in_what_the_window_masks(
    writer: Writer, given_events: list[Event], window: MaskPolicy
) -> None:
    talk = Talk(writer)
    for event in given_events:
        changed = replace(event.strategies, schema1=window)
        talk.take(event._replace(strategies=changed, back=0, restarts=event.restarts))


def test_the_generated_conversations_do_shorten() -> None:
    """So that the tests above are about something."""
    talk = Talk(WRITERS[0])
    for strategies in (ON, OTHER, STOPPED, ON):
        talk.take(Event(strategies=strategies))
    found = [json.loads(each)["content"] for each in talk.sent if '"role": "tool"' in each]
    # The last call asks again for what the first one was to give, and gets it whole.
    assert [SHORT, 50 + len(f"\n[{16 * '0'}]\n") + 300, WHOLE, WHOLE] == [*map(len, found)]


# Told one by one.


def requests(writer: Writer, count: int) -> Sequence[Told]:
    said: list[Step] = [TASK]
    made = []
    for number in range(count):
        call = Ask(f"c{number}", "shell", {"n": number})
        said += Model((call,)), Tools((Give(f"c{number}", write_lines(f"{number}")),))
        made.append(writer.tell(*said))
    return made


SHORT, WHOLE = len(shorten_lines(write_lines("0"))), 2_000


def lengths_of(rewrite: Rewrite) -> list[int]:
    return [*map(len, texts_of(rewrite))]


@as_one_test
@IN_EVERY_FORMAT
@pytest.mark.parametrize("restarts", [False, True], ids=["", "after a restart"])
@pytest.mark.parametrize(
    "later", [pytest.param(STOPPED, id="stopped"), pytest.param(OTHER, id="other words")]
)
def test_what_was_sent_shortened_stays_so_in_the_same_words(
    writer: Writer, later: Strategies, restarts: bool
) -> None:
    proxy, (first, second, *_) = Remembering(), requests(writer, 2)
    before = proxy.send(first.read(), ON)
    if restarts:
        proxy.restart()
    assert before.body == proxy.send(first.read(), later).body
    after = proxy.send(second.read(), later)
    assert texts_of(before) == texts_of(after)[:1]
    assert WHOLE == lengths_of(proxy.send(second.read(), later))[1] or later is OTHER


@as_one_test
@IN_EVERY_FORMAT
def test_what_was_sent_whole_stays_so(writer: Writer) -> None:
    proxy, made = Remembering(), requests(writer, 3)
    assert [WHOLE] == lengths_of(proxy.send(made[0].read(), STOPPED))
    assert [WHOLE] == lengths_of(proxy.send(made[0].read(), ON))  # a second try
    assert [WHOLE, SHORT] == lengths_of(proxy.send(made[1].read(), ON))
    found = proxy.send(made[2].read(), ON)
    kinds = [each.outcome for each in found.arrived.long_results]
    assert ["sent_whole", "shortened", "shortened"] == kinds


@as_one_test
@IN_EVERY_FORMAT
def test_what_stood_in_a_conversation_at_first_sight_stays_whole(writer: Writer) -> None:
    proxy, made = Remembering(), requests(writer, 4)
    assert [WHOLE, WHOLE, SHORT] == lengths_of(proxy.send(made[2].read(), ON))
    proxy.restart()
    assert [WHOLE, WHOLE, SHORT, SHORT] == lengths_of(proxy.send(made[3].read(), ON))


@as_one_test
@IN_EVERY_FORMAT
def test_where_the_window_is_switched_off_all_goes_whole_and_is_forgotten(writer: Writer) -> None:
    proxy, made = Remembering(), requests(writer, 3)
    off = replace(ON, schema1=replace(OFF, enabled=False))
    assert [SHORT] == lengths_of(proxy.send(made[0].read(), ON))
    assert [WHOLE, WHOLE] == lengths_of(proxy.send(made[1].read(), off))
    assert [WHOLE, WHOLE, SHORT] == lengths_of(proxy.send(made[2].read(), ON))


@as_one_test
@IN_EVERY_FORMAT
def test_so_it_is_of_shortened_results_that_were_masked(writer: Writer) -> None:
    """A result is known as its client sends it, whatever was made of it."""
    proxy, made = Remembering(), requests(writer, 6)
    both = replace(ON, schema1=SLIDING)
    sent = [proxy.send(told.read(), both, SLIDING.prices) for told in made[:5]]
    assert frozenset({0, 1, 2}) == sent[-1].masked
    assert proxy.memory._known
    proxy.send(made[5].read(), replace(both, schema1=replace(SLIDING, enabled=False)))
    assert not proxy.memory._known


@as_one_test
@IN_EVERY_FORMAT
def test_who_goes_back_finds_what_was_sent_then(writer: Writer) -> None:
    proxy, made = Remembering(), requests(writer, 3)
    for number, strategies in enumerate((STOPPED, ON, OTHER)):
        sent = proxy.send(made[number].read(), strategies)
    other = made[1].then(*turn("x", write_lines("x")))
    assert texts_of(sent)[:2] == texts_of(proxy.send(other.read(), STOPPED))[:2]


@as_one_test
@IN_EVERY_FORMAT
def test_another_result_at_its_place_is_another_result(writer: Writer) -> None:
    proxy = Remembering()
    told, other = (writer.tell(TASK, *turn("a", write_lines(name))) for name in "xy")
    assert [SHORT] == lengths_of(proxy.send(told.read(), ON))
    assert [WHOLE] == lengths_of(proxy.send(other.read(), STOPPED))


@as_one_test
@IN_EVERY_FORMAT
def test_results_that_are_forgotten_are_those_of_the_request(writer: Writer) -> None:
    proxy, made = Remembering(), requests(writer, 2)
    other = writer.tell(TASK, *turn("x", write_lines("x")))
    never = writer.tell(User("Something else."), *turn("x", write_lines("x")))
    proxy.memory.forget(never.read(), "all")
    for told in (*made, other):
        proxy.send(told.read(), ON)
    proxy.memory.forget(never.read(), "all")
    proxy.memory.forget(writer.tell(TASK).read(), "all")
    proxy.memory.forget(made[0].read(), "all")
    proxy.restart()
    assert [WHOLE, SHORT] == lengths_of(proxy.send(made[1].read(), STOPPED))
    assert [SHORT] == lengths_of(proxy.send(other.read(), STOPPED))


def test_what_is_shortened_counts_as_what_is_remembered_and_is_bounded() -> None:
    forgotten: list[bytes] = []

    def note(opening: bytes, known: Remembered) -> None:
        if known.is_nothing:
            forgotten.append(opening)

    memory = BoundaryMemory(note, max_results=3)
    talks = [WRITERS[0].tell(User(f"{n}"), *turn("a", write_lines(f"{n}"))) for n in range(4)]
    for told in talks:
        known = memory.lookup(told.read(), 0.0, 300.0)
        memory.store(known, None, arrive(told.read(), SHORTENS, known.sent))
    assert [digest_opening(talks[0].read())] == forgotten
    memory.load([(b"1", Remembered(shortened={b"k": SHORTENS.words}))])
    assert Remembered(shortened={b"k": SHORTENS.words}).size == 1


def test_what_is_read_late_is_joined_with_what_was_shortened_since() -> None:
    told = WRITERS[0].tell(TASK, *turn("a", write_lines("a")))
    proxy = Remembering()
    proxy.send(told.read(), ON)
    opening = digest_opening(told.read())
    before = proxy._file[opening]
    proxy.memory.load([(opening, Remembered(shortened={b"12345678": OTHER.arrival.words}))])
    both = proxy.memory._known[opening].shortened
    assert {SHORTENS.words, OTHER.arrival.words} == {*both.values()}
    assert before != proxy._file[opening]


# Reasoning that is bound to all before it.

BINDS = "claude-opus-5-5"


class Asked(NamedTuple):
    """One request of an agent that thinks: as in `tests.masking.test_bound`."""

    thinks: bool = True
    way: Literal["proxy", "direct"] = "proxy"
    restarts: bool = False
    strategies: Strategies = ON
    lines: int = 40
    says: str = ""


@dataclass
class Agent:
    """An agent, the proxy, and a provider that refuses reasoning bound to something else."""

    proxy: Remembering = field(default_factory=Remembering)
    messages: list[dict[str, Any]] = field(
        default_factory=lambda: [{"role": "user", "content": "Repair it."}]
    )
    refused: list[Asked] = field(default_factory=list)

    def take(self, asked: Asked) -> list[int]:
        """Send the conversation so far, and return the lengths of its results as they were sent."""
        if asked.restarts:
            self.proxy.restart()
        sent = self.send(asked)
        if not is_taken(sent):
            self.refused.append(asked)
            forget_thinking(self.messages)  # as claude-code does
            sent = self.send(asked)
            assert is_taken(sent)
        number = len(self.messages)
        thought = {"type": "thinking", "thinking": "Hm.", "signature": sign(sent["messages"])}
        call = {"type": "tool_use", "id": f"c{number}", "name": "shell", "input": {"n": number}}
        content: list[Any] = [
            {
                "type": "tool_result",
                "tool_use_id": f"c{number}",
                "content": write_lines(f"{number}", asked.lines),
            }
        ]
        if asked.says:
            content.append({"type": "text", "text": asked.says})
        self.messages += [
            {"role": "assistant", "content": [*([thought] if asked.thinks else []), call]},
            {"role": "user", "content": content},
        ]
        results = (block for message in sent["messages"][1:] for block in message["content"])
        return [len(each["content"]) for each in results if each["type"] == "tool_result"]

    def send(self, asked: Asked) -> dict[str, Any]:
        body = json.dumps({"model": BINDS, "messages": self.messages}).encode()
        if asked.way == "proxy":
            conversation = read_request(body, MESSAGES)
            prices = prices_of(asked.strategies)
            body = self.proxy.send(conversation, asked.strategies, prices).body
        sent: dict[str, Any] = json.loads(body)
        return sent


WINDOWS = [pytest.param(OFF, id="without a window"), pytest.param(SLIDING, id="with a window")]


@pytest.mark.parametrize("window", WINDOWS)
def test_before_bound_reasoning_it_goes_on_and_no_request_is_refused(window: MaskPolicy) -> None:
    agent = Agent()
    for _ in range(5):
        sent = agent.take(Asked(strategies=replace(ON, schema1=window)))
    assert [] == agent.refused
    assert [SHORT] * 4 == sent


@as_one_test
@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize("passed_by", [1, 2])
@pytest.mark.parametrize("restarts", [False, True], ids=["", "and it was started anew"])
def test_a_proxy_that_was_passed_by_sends_whole_what_went_whole(
    window: MaskPolicy, passed_by: int, restarts: bool
) -> None:
    """The agent answered a refusal by leaving out its reasoning; the new one is bound anew."""
    agent, strategies = Agent(), replace(ON, schema1=window)
    asked = Asked(strategies=strategies)
    for _ in range(3):
        agent.take(asked)
    for _ in range(passed_by):
        agent.take(asked._replace(way="direct"))
    assert 1 == len(agent.refused)
    agent.take(asked._replace(restarts=restarts))
    for _ in range(3):
        sent = agent.take(asked)
    assert 1 == len(agent.refused)
    # All that the reasoning made past the proxy has seen is whole; what is new since is not.
    assert [WHOLE] * (1 + passed_by) == sent[: 1 + passed_by]
    assert [SHORT] * 3 == sent[-3:]


asked_steps = st.builds(
    Asked,
    st.booleans(),
    st.sampled_from(["proxy", "proxy", "proxy", "direct"]),
    st.booleans(),
    st.builds(
        lambda arrival, window: Strategies(arrival=arrival, schema1=window),
        st.sampled_from([ON.arrival, ON.arrival, STOPPED.arrival, OTHER.arrival]),
        st.sampled_from([SLIDING, PRICED]),
    ),
    st.sampled_from([1, 25, 40]),
)


@given(st.lists(asked_steps, min_size=4, max_size=20))
def test_no_request_through_the_proxy_is_refused(steps: list[Asked]) -> None:
    """Unless the agent itself went past the proxy meanwhile, with reasoning made behind it.

    Who switches the window off gets all of it whole, also before reasoning that saw it masked.
    """
    agent = Agent()
    for asked in steps:
        agent.take(asked)
    assert all(asked.way == "direct" for asked in agent.refused)


@given(st.lists(asked_steps, min_size=4, max_size=20))
def test_nor_where_the_window_stays_off(steps: list[Asked]) -> None:
    agent = Agent()
    for asked in steps:
        agent.take(asked._replace(strategies=replace(asked.strategies, schema1=OFF)))
    assert all(asked.way == "direct" for asked in agent.refused)


def test_the_answer_to_a_request_for_a_summary_is_bound_to_what_was_shortened() -> None:
    """The window leaves that request whole; arrival does not."""
    agent, strategies = Agent(), replace(ON, schema1=SLIDING)
    summary = "CRITICAL: Respond with TEXT ONLY. Do NOT call any tools."
    steps = [Asked(False, strategies=strategies)] * 3
    steps += [Asked(False, strategies=strategies, says=summary)]
    steps += [Asked(True, strategies=strategies)] * 4
    for asked in steps:
        agent.take(asked)
    assert [] == agent.refused
