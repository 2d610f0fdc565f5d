"""The benchmark beside the peers: calls that re-read or quote what a side did not send."""

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from addon.replay.replay import RecordedRequest
from masking.wire.chat import CHAT
from masking.wire.format import WireFormat
from masking.wire.messages import MESSAGES
from tests.support.builders import call, result
from tests.support.marks import as_one_test
from tests.tools.benchmarks.peers.harm import Harm, count_harm, find_references
from tests.tools.benchmarks.peers.sides import DIRECT, OURS
from tests.tools.benchmarks.peers.tables import show_bills
from tests.tools.benchmarks.peers.tally import Tally

ASKED = {"role": "user", "content": "Mend it."}
LINE = "def read_all(folder):"
SHOWN = f"import os\n\n    {LINE}\n    return os.listdir(folder)\n"
PLACEHOLDER = "[masked]"
TOOLS = [{"type": "function", "function": {"name": "shell", "description": "Runs a command."}}]


def write(*messages: object, **more: object) -> bytes:
    return json.dumps({"model": "m", "messages": messages, **more}).encode()


def request(*messages: object, wire: WireFormat = CHAT) -> RecordedRequest:
    return RecordedRequest(body=write(*messages), when=datetime.now(UTC), wire=wire)


def ask(call_id: str, **arguments: object) -> dict[str, Any]:
    function = {"name": "shell", "arguments": json.dumps(arguments)}
    asked = {"id": call_id, "type": "function", "function": function}
    return {"role": "assistant", "content": None, "tool_calls": [asked]}


READ, AGAIN = ask("a", path="x.py"), ask("b", path="x.py")
EDIT = ask("b", old=f"    {LINE}\n    pass")
FIRST = (ASKED, READ, result("a", SHOWN))


def count(arrived: bytes | None, answer: object, *before: object) -> Harm:
    """Count the harm of what arrived of a client's request that was answered so."""
    messages = before or FIRST
    sent = [request(*messages), request(*messages, answer)]
    return count_harm(find_references(sent), [arrived, None])


@as_one_test
@pytest.mark.parametrize(
    ("arrived", "is_harm"),
    [
        pytest.param(write(*FIRST), False, id="whole"),
        pytest.param(write(ASKED, READ, result("a", PLACEHOLDER)), True, id="masked"),
        pytest.param(write(ASKED), True, id="removed"),
        pytest.param(write(ASKED, READ, result("a", "import os\n[...]\n")), True, id="shortened"),
        pytest.param(
            write(ASKED, READ, result("a", "\n".join(SHOWN.split("\n\n")))),
            False,
            id="other blanks",
        ),
        pytest.param(
            write(ASKED, READ, result("a", PLACEHOLDER), ask("b"), result("b", f"$ cat\n{SHOWN}")),
            False,
            id="shown elsewhere",
        ),
        pytest.param(
            write(ASKED, {"role": "user", "content": [{"type": "text", "text": SHOWN}]}),
            False,
            id="in another format",
        ),
        pytest.param(
            write(ASKED, ask("c", text=SHOWN)), False, id="in the arguments of another call"
        ),
    ],
)
def test_a_call_rereads_or_quotes_what_the_request_no_longer_shows(
    arrived: bytes, is_harm: bool
) -> None:
    assert Harm(1, is_harm, 0) == count(arrived, AGAIN)
    assert Harm(1, 0, is_harm) == count(arrived, EDIT)


def test_a_call_without_like_is_no_harm() -> None:
    masked = write(ASKED, READ, result("a", PLACEHOLDER))
    assert Harm(1, 0, 0) == count(masked, ask("b", path="y.py"))
    assert Harm(1, 0, 0) == count(masked, ask("b", old="return x"))  # a short line
    assert Harm(2, 0, 0) == count(masked, {"role": "assistant", "tool_calls": [call(), call("b")]})


def test_a_line_that_only_a_message_showed_is_no_quote() -> None:
    said = ({**ASKED, "content": SHOWN}, READ, result("a", "ok"))
    assert Harm(1, 0, 0) == count(write(ASKED), EDIT, *said)


def test_one_result_of_a_call_that_is_left_is_enough() -> None:
    twice = (*FIRST, AGAIN, result("b", "import sys\n"))
    newer = write(ASKED, READ, result("a", PLACEHOLDER), AGAIN, result("b", "import sys\n"))
    assert Harm(1, 0, 0) == count(newer, ask("c", path="x.py"), *twice)
    assert Harm(1, 1, 0) == count(write(ASKED), ask("c", path="x.py"), *twice)


def test_what_did_not_arrive_has_no_calls() -> None:
    assert Harm() == count(None, AGAIN)


def test_only_the_answer_to_a_request_counts_for_it() -> None:
    """A client's next request may have more than the answer; and another may come between."""
    later = (*FIRST, AGAIN, result("b", SHOWN), ask("c", path="x.py"))
    sent = [request(*FIRST), request({**ASKED, "content": "A title?"}), request(*later)]
    assert Harm(1, 1, 0) == count_harm(find_references(sent), [write(ASKED)] * 3)


def test_messages_are_read_alike_whatever_their_cache_marks() -> None:
    use = {"type": "tool_use", "id": "a", "name": "read", "input": {"path": "x.py"}}
    read = {"role": "assistant", "content": [use]}
    again = {"role": "assistant", "content": [{**use, "id": "b"}]}
    block = {"type": "tool_result", "tool_use_id": "a", "content": SHOWN}
    marked = {**block, "cache_control": {"type": "ephemeral"}}
    first = request(ASKED, read, {"role": "user", "content": [marked]}, wire=MESSAGES)
    second = request(ASKED, read, {"role": "user", "content": [block]}, again, wire=MESSAGES)
    translated = write(ASKED, READ, result("a", SHOWN), tools=TOOLS)
    references = find_references([first, second])
    assert Harm(1, 0, 0) == count_harm(references, [translated, None])
    assert Harm(1, 1, 0) == count_harm(references, [write(ASKED, tools=TOOLS), None])


def test_harm_is_shown_as_a_part_of_all_calls_and_as_a_range_where_prices_are_told() -> None:
    told = Tally(harms=[Harm(8, 0, 1)] * 5 + [Harm(8, 2, 1)])
    tallies = {DIRECT: Tally(harms=[Harm(8)] * 6), OURS: told, "peer": Tally()}
    rows = [row.rsplit(" | ", 2)[1:] for row in show_bills(tallies)]
    assert [["re-reads", "quotes |"], ["0.0%", "0.0% |"], ["0.0% to 25.0%", "12.5% |"]] == [
        rows[0],
        *rows[2:4],
    ]
    assert ["", " |"] == rows[4]
