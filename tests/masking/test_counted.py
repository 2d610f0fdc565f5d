"""Elements are counted once, and what is remembered of them changes no number."""

import pytest

from masking.accounting.prompt import Prompt, Sizes, digest_elements, measure, read_prompt
from masking.redaction import RedactionPolicy
from masking.reduction import ReductionOptions
from masking.request_cache import RequestCache
from masking.rewrite import Rewrite, Strategies, read_request
from masking.tokens import TokenCounter
from masking.wire.chat import CHAT
from tests.builders import MASK_ALL, policy
from tests.masking.test_request_cache import POLICIES, grow, outcome
from tests.wire_conversations import IN_EVERY_FORMAT, WRITERS, Writer, turn, turns

WAYS = {
    **{name: Strategies(schema1=chosen) for name, chosen in POLICIES.items()},
    "all strategies": Strategies(
        redaction=RedactionPolicy(True, ("shell",)),
        schema1=MASK_ALL,
        reduction=ReductionOptions(enabled=True, max_input_chars=4_000),
    ),
}


OF_TEXTS = ("tool_chars_before", "tool_chars_after", "masked_images", "kept", "masked")
"""The sizes that need no tokens, and are the same without them."""


class _Counter(TokenCounter):
    """Counts tokens, and how often it is asked."""

    asked = 0

    def count(self, text: str) -> int:
        self.asked += 1
        return super().count(text)


def take(rewrite: Rewrite, body: bytes, counter: TokenCounter) -> tuple[Prompt, Sizes]:
    prompt = read_prompt(rewrite, counter)
    sizes, uncounted = measure(rewrite, body, prompt), measure(rewrite, body)
    assert {name: getattr(uncounted, name) for name in OF_TEXTS} == {
        name: getattr(sizes, name) for name in OF_TEXTS
    }
    return prompt, sizes


@IN_EVERY_FORMAT
@pytest.mark.parametrize("name", WAYS)
def test_a_session_is_counted_as_by_a_process_that_remembers_nothing(
    writer: Writer, name: str
) -> None:
    table, counter = RequestCache(), TokenCounter()
    for told in grow(writer):
        cold = outcome(told.body, writer, WAYS[name], None)
        warm = outcome(told.body, writer, WAYS[name], table)
        if isinstance(cold, Rewrite) and isinstance(warm, Rewrite):
            expected = take(cold, told.body, TokenCounter())
            assert expected == take(warm, told.body, counter)
            assert expected == take(warm, told.body, counter)


@IN_EVERY_FORMAT
def test_only_what_is_new_is_counted(writer: Writer) -> None:
    table, counter, strategies = RequestCache(), _Counter(), WAYS["sliding"]
    told = writer.tell(*(step for n in range(30) for step in turn(f"c_{n}", f"result {n}")))
    asked = []
    for end in (*range(len(told.items) - 6, len(told.items) + 1, 2), len(told.items)):
        found = outcome(told.until(end).body, writer, strategies, table)
        assert isinstance(found, Rewrite)
        read_prompt(found, counter)
        asked.append(counter.asked)
        counter.asked = 0
    assert asked[0] > 40
    assert max(asked[1:-1]) <= 20
    assert asked[-1] == 0


def test_other_placeholders_are_counted_anew() -> None:
    writer, table, counter = WRITERS[0], RequestCache(), TokenCounter()
    body = writer.tell(*turns(3), *turns(3, "b")).body
    for template in ("<{tool_call_id}>", "<masked>", "<{tool_call_id}>"):
        chosen = policy(MASK_ALL, placeholder_template=template, skip_if_not_shorter=False)
        strategies = Strategies(schema1=chosen)
        cold, warm = (outcome(body, writer, strategies, each) for each in (None, table))
        assert isinstance(cold, Rewrite)
        assert isinstance(warm, Rewrite)
        assert take(cold, body, TokenCounter()) == take(warm, body, counter)


def test_an_element_has_the_same_digest_before_it_is_counted_and_after() -> None:
    body = WRITERS[0].tell(*turns(3)).body
    request = read_request(body, CHAT)
    before = digest_elements(request)
    read_prompt(Rewrite(body=body, conversation=request, decisions=()), TokenCounter())
    assert all(known.counted for known in request.parsed)
    assert before == digest_elements(request)
