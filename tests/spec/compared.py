"""Compares the fast road with the reference over one made-up conversation."""

import copy
import json
from random import Random
from typing import Any, NamedTuple

from masking.messages_api import mask_old_tool_results
from masking.prices import PriceStep
from masking.rewrite import rewrite_request
from masking.tokens import estimate_tokens
from masking.wire.format import WireFormat
from tests.spec import boundary, reference
from tests.spec.readers import Where
from tests.support.priced import PricedPolicy
from tests.support.wire_conversations import WRITERS, Ask, Give, Model, Step, Tools, User, Writer

FORMATS = [writer for writer in WRITERS if writer.name != "made up"]
"""Those that the reference reads."""

_IDS = ("call_0", "call_0", "call_0", "a", "b", "c" * 70)
_TOOLS = ("read", "read", "shell", "edit", "")
_ARGUMENTS: tuple[dict[str, object], ...] = (
    {},
    {"path": "a.py"},
    {"path": "b.py", "n": 1},
    {"command": "make\n  test"},
)
_TEXTS = (
    "A line of output.\n" * 30,
    "other output, " * 300,
    "words " * 2_000,
    "Error: it failed",
    "Traceback (most recent call last):\n" + "  x\n" * 40,
    "pad\n" * 600 + "exit code 1",
    "a timeout is mentioned here, " * 90,
    '{"output": "one", "exit_code": 0, "error": null}',
    '{"output": "%s", "exit_code": 2}' % ("three " * 400),
    '{"error": "no such file", "output": "%s"}' % ("one " * 200),
    '{"status": "Error", "output": "%s"}' % ("two " * 200),
    '[{"success": false}, {"output": "%s"}]' % ("four " * 200),
    json.dumps([{"success": False}, *["five " * 90] * 7]),
    json.dumps([{"success": False}, *["six " * 90] * 8]),
    '{"output": "%s", "timeout": false}' % ("seven " * 90),
    "errors were found in none of the files\n" * 9,
    "<call_0|shell|540>",
    "ok",
    "",
)
_TEMPLATES = (
    "<{tool_call_id}|{tool_name}|{original_chars}>",
    "[{tool_call_id} {arguments}]",
    "[{original_tokens} tokens, {recall}]",
    "[masked]",
    "A placeholder that is longer than most of the short results are. " * 3,
)


def make_steps(random: Random) -> list[Step]:
    """Return what is said: answers with calls, results at once, late, early, twice or never."""
    steps: list[Step] = [User("Mend it.")]
    late: list[Give] = []
    for _ in range(random.choice((2, 4, 8, 14, 24))):
        kind = random.randrange(12)
        if kind == 0:
            steps.append(User("Wait."))
        if kind == 1:
            steps.append(Model((), "So far."))
            continue
        asked = [
            Ask(random.choice((*_IDS, f"id_{random.randrange(30)}")), random.choice(_TOOLS), each)
            for each in random.choices(_ARGUMENTS, k=random.choice((1, 1, 1, 2, 3)))
        ]
        given = [_answer(each, random) for each in asked]
        if kind == 2:
            late.append(given.pop())
        if kind == 3:
            given.append(_answer(random.choice(asked), random))
        if kind == 4:
            given.append(_answer(Ask("nowhere"), random))
        if kind == 5 and late:
            given.append(late.pop())
        random.shuffle(given)
        said: list[Step] = [Model((*asked,)), *([Tools((*given,))] if given else [])]
        if kind == 6:
            said.reverse()
        steps += said
    if random.randrange(3) == 0:
        steps.append(Model((), "Done."))
    if late and random.randrange(2):
        steps.append(Tools((*late,)))
    return steps


def _answer(asked: Ask, random: Random) -> Give:
    text = f"{random.randrange(9)} {random.choice(_TEXTS[:3])}"
    if random.randrange(3) == 0:
        text = random.choice(_TEXTS)
    is_list = random.randrange(6) == 0
    content = (text, random.choice(_TEXTS)) if is_list else text
    return Give(asked.call_id, content, asked.tool, fails=random.randrange(12) == 0)


def make_policy(random: Random) -> PricedPolicy:
    """Return a window's settings, and prices: half of them slide."""
    read, write = random.choice(
        ((1.0, 1.0), (1.0, 1.0), (0.5, 1.0), (0.25, 1.0), (0.1, 1.25), (0.02, 1.0))
    )
    choose = random.choice
    return PricedPolicy(
        random.randrange(20) > 0,
        choose((1, 1, 2, 3, 8, 0)),
        random.randrange(2) == 0,
        choose((None, None, 0, 1, 2)),
        choose(_TEMPLATES),
        skip_if_not_shorter=choose((True, False)),
        mask_text_parts=choose((True, True, False)),
        min_chars=choose((0, 0, 0, 40, 542)),
        error_words_max_chars=choose((2_000, 2_000, 0, 100_000)),
        max_loss=choose((0.1, 0.1, 0.0, 1.0, 100.0)),
        keep_latest_turns=choose((0, 0, 3, 9)),
        keep_tools=choose(((), (), ("re*",))),
        mask_tools=choose(((), (), (), ("read",))),
        keep_arguments=choose(((), (), ("a.*",))),
        keep_rereads=random.randrange(4) == 0,
        placeholder_arguments_chars=choose((0, 20, 120)),
        cache_read_ratio=read,
        cache_write_ratio=write,
        price_steps=choose(((), (), (PriceStep(2_000, 2.0),), (PriceStep(300, 1.5),))),
        shortest_prefix=choose((0, 0, 1_024, 2_048)),
        reads_at=choose(("any prefix", "any prefix", "marks", "request ends")),
    )


class Expected(NamedTuple):
    """What a request is to be: the reason of each result, and the document that is sent."""

    reasons: list[str]
    document: Any


def expect(
    wire: WireFormat,
    document: Any,  # noqa: ANN401 - JSON
    policy: PricedPolicy,
    contract: Any = reference,  # noqa: ANN401 - a module
) -> Expected:
    """Return what the reference, or a variation of it, wants of a request."""
    found = contract.read(wire.name, document)
    steps = tuple(boundary.Step(each.above, each.factor) for each in policy.price_steps)
    prices = contract.Prices(
        policy.cache_read_ratio,
        policy.cache_write_ratio,
        steps,
        policy.shortest_prefix,
        policy.reads_at,
    )
    told = contract.Reference(policy, prices, estimate_tokens)
    fates = told.decide(found, measure(wire, document, found.at))
    wanted = copy.deepcopy(document)
    for fate in fates:
        for path, value in fate.texts.items():
            holder = wanted
            for key in path[:-1]:
                holder = holder[key]
            holder[path[-1]] = value
    return Expected([fate.reason for fate in fates], wanted)


def measure(
    wire: WireFormat,
    document: Any,  # noqa: ANN401 - JSON
    at: Where,
) -> boundary.Sizes:
    """Return the sizes of a request, by the code's own estimate."""
    holder = document
    for key in at[:-1]:
        holder = holder[key]
    head = wire.measure_head(holder)
    return boundary.Sizes(head.total, head.marked, [*map(wire.measure_element, holder[at[-1]])])


def compare(
    writer: Writer,
    random: Random,
    contract: Any = reference,  # noqa: ANN401 - a module
) -> str | None:
    """Return in what a rewritten request differs from what the reference says; None if nowhere."""
    policy = make_policy(random)
    told = writer.tell(*make_steps(random))
    document = told.document
    if "model" in document:  # one that binds no reasoning
        document["model"] = "gpt-4o"
    body = json.dumps(document).encode()
    sent = rewrite_request(body, policy, writer.wire, writer.path, policy.prices)
    expected = expect(writer.wire, document, policy, contract)
    reasons = [each.reason for each in sent.decisions]
    if expected.reasons != reasons:
        return f"{reasons}, not {expected.reasons}"
    return None if expected.document == json.loads(sent.body) else "other texts"


def compare_messages(random: Random) -> str | None:
    """Return in what a list of messages is masked otherwise; None if it is not."""
    chat, policy = WRITERS[0], make_policy(random)
    messages: Any = [*chat.tell(*make_steps(random)).items]
    expected = expect(chat.wire, {"messages": messages}, policy)
    masked = mask_old_tool_results(messages, policy, policy.prices)
    if expected.document["messages"] == messages and masked is not messages:
        return "an equal list is another object"
    return None if expected.document["messages"] == masked else "other texts"
