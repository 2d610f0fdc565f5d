"""Claude Code asks for a summary of its history while its user is away.

From 2.1.286 on it may do so 54 minutes after the last answer, in a long conversation that is cached
for an hour. Nobody has published such a request. This one is made up from the descriptions: tools,
system prompt and history are as before, marked for an hour, and what is asked for comes last.
Whatever leaves is checked by the strict provider, and billed as Anthropic documents it.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import accumulate
from typing import Any

from masking import MaskPolicy
from masking.memory import BoundaryMemory, estimate_lifetime
from masking.prices import PriceSettings, find_pricing
from masking.rewrite import Rewrite, Strategies, read_request
from masking.tokens import TokenCounter
from masking.window import price_boundary
from masking.wire.format import render_json
from masking.wire.messages import MESSAGES
from tests.support.priced import rewrite_request
from tests.tools.provider.messages import check, list_content, read_blocks, sign
from tests.tools.provider.script import Received
from tests.tools.provider.vendor_caches import HOUR, AnthropicCache, Block, Prices

Json = dict[str, Any]

FREE, BINDS = "claude-sonnet-5", "claude-fable-5-2"
"""The second binds its reasoning to what precedes it, on every account."""

FOR_AN_HOUR = {"type": "ephemeral", "ttl": "1h"}
TOOLS = [{"name": "Bash", "input_schema": {"type": "object"}}]
BY_COMPACT = "CRITICAL: Respond with TEXT ONLY. Do NOT call any tools.\n\nYour task is to ..."
"""As `/compact` asks."""
AWAY = 54 * 60.0
TURNS, WINDOW = 60, 3


class Session:
    """Claude Code at work, and what goes out of its requests, with a memory of what was sent.

    asked, sent: each request as the client wrote it and as it left, with its time in seconds.
    """

    def __init__(self, model: str, max_loss: float = 0.1) -> None:
        self.model = model
        self.policy = MaskPolicy(True, WINDOW, max_loss=max_loss)
        self.messages = [say("user", text("Mend the parser."))]
        self.asked: list[tuple[float, Json]] = []
        self.sent: list[tuple[float, Json]] = []
        self._memory, self._now = BoundaryMemory(), 0.0

    def send(self, after: float = 20.0) -> Rewrite:
        """Send the messages so many seconds after the last request."""
        self._now += after
        *before, last = self.messages
        (block,) = last["content"]
        request = {
            "model": self.model,
            "max_tokens": 32_000,
            "system": [{**text("You are Claude Code. " * 400), "cache_control": FOR_AN_HOUR}],
            "tools": TOOLS,
            "messages": [*before, say(last["role"], {**block, "cache_control": FOR_AN_HOUR})],
        }
        rewrite = self._rewrite(json.dumps(request).encode())
        self.asked.append((self._now, request))
        self.sent.append((self._now, json.loads(rewrite.body)))
        return rewrite

    def work(self, thoughts: Sequence[str] = ()) -> Rewrite:
        """Work until the model is done; its last turns begin with these thoughts."""
        silent = [""] * (TURNS - len(thoughts))
        for number, thought in enumerate([*silent, *thoughts]):
            self.send()
            use_id = f"toolu_{number}"
            self.answer({"type": "tool_use", "id": use_id, "name": "Bash", "input": {}}, thought)
            printed = f"{number} line of a file\n" * 100
            result = {"type": "tool_result", "tool_use_id": use_id, "content": printed}
            self.messages.append(say("user", result))
        rewrite = self.send()
        self.answer(text("Done."))
        return rewrite

    def answer(self, block: Json, thought: str = "") -> None:
        """Let the model answer what arrived last."""
        blocks = [block]
        if thought:
            signature = sign(self.sent[-1][1], thought)
            blocks.insert(0, {"type": "thinking", "thinking": thought, "signature": signature})
        self.messages.append(say("assistant", *blocks))

    def ask(self, words: str, after: float) -> Rewrite:
        """Ask something in so many seconds."""
        self.messages.append(say("user", text(words)))
        return self.send(after)

    def _rewrite(self, body: bytes) -> Rewrite:
        conversation = read_request(body, MESSAGES, "/v1/messages")
        marks = conversation.marks
        pricing = find_pricing(
            PriceSettings(),
            "api.anthropic.com",
            self.model,
            is_marked=True,
            lifetime=marks.last_lifetime,
        )
        lifetime = estimate_lifetime(marks, pricing.cache.lifetime)
        known = self._memory.lookup(conversation, self._now, lifetime)
        strategies, prices = Strategies(schema1=self.policy), price_boundary(pricing, marks=marks)
        rewrite = rewrite_request(conversation, strategies, prices=prices, context=known.context)
        self._memory.store(known, rewrite.past)
        return rewrite


def say(role: str, *blocks: Json) -> Json:
    return {"role": role, "content": [*blocks]}


def text(said: str) -> Json:
    return {"type": "text", "text": said}


def refusals(requests: Sequence[tuple[float, Json]]) -> list[str]:
    """Return what the provider says of those of these requests that it refuses."""
    received = (Received(request=request, path="/v1/messages") for _, request in requests)
    return [problem for each in received if (problem := check(each)) is not None]


COUNTER = TokenCounter()


def count(block: Json) -> int:
    """Return the tokens of a block: those of its texts, or of all of it if it has none."""
    texts = [
        each["text"] for each in [block, *list_content(block.get("content"))] if "text" in each
    ]
    return sum(map(COUNTER.count, texts)) if texts else COUNTER.count(render_json(block))


def bill(requests: Sequence[tuple[float, Json]]) -> Iterator[float]:
    """Yield what each of these requests costs, in plain tokens."""
    cache = AnthropicCache(Prices(0.1, 1.25, 2.0, 1_024))
    for now, request in requests:
        blocks = [
            Block(each.spelling, count(each.content), HOUR if each.mark else 0.0)
            for each in read_blocks(request)
        ]
        yield cache.send(blocks, now).cost


def test_in_the_words_of_compact_it_goes_out_whole_within_the_promise() -> None:
    session = Session(FREE)
    assert session.work().masked
    asked = session.ask(BY_COMPACT, AWAY)
    assert asked.left_unmasked
    assert session.asked[-1] == session.sent[-1]
    assert [] == refusals(session.sent[-2:])
    paid, full = (list(accumulate(bill(each))) for each in (session.sent, session.asked))
    assert all(one <= 1.1 * other for one, other in zip(paid, full, strict=True))
    assert paid[-2] < 0.75 * full[-2]
    assert paid[-1] > full[-1], "it costs all that was saved"


def test_if_the_agent_goes_on_all_the_same_its_history_is_masked_again() -> None:
    session = Session(FREE)
    before = session.work().masked
    assert session.ask(BY_COMPACT, AWAY).left_unmasked
    session.messages.pop()
    # The masked history was sent 84 minutes ago. So it is cold, and the boundary moves for free.
    after = session.ask("Go on.", 30 * 60.0).masked
    assert before < after == frozenset(range(TURNS - WINDOW))


def test_it_stays_masked_in_other_words_and_where_it_would_be_too_dear() -> None:
    session = Session(FREE)
    before = session.work().masked
    assert before == session.ask("The user is away. Write down where we are.", AWAY).masked
    session.messages.pop()
    session.policy = replace(session.policy, max_loss=0.0)
    assert before == session.ask(BY_COMPACT, 0.0).masked
    assert [] == refusals(session.sent[-2:])


def test_what_later_thoughts_are_bound_to_stays_masked() -> None:
    session = Session(BINDS, max_loss=1.0)
    before = session.work(thoughts=["So it is the lexer.", "No, the parser."]).masked
    assert before
    assert before == session.ask(BY_COMPACT, AWAY).masked
    assert [] == refusals(session.sent[-1:])
    (refused,) = refusals(session.asked[-1:])
    assert "`thinking` block is bound to a different conversation" in refused
