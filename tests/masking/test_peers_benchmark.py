"""The benchmark beside the peers: what differs outside of tool results, the bill, the tables."""

import json
from datetime import UTC, datetime

import pytest

from addon.replay.replay import RecordedRequest
from masking.tokens import TokenCounter
from tests.support.builders import assistant, call, result
from tests.support.marks import as_one_test
from tests.support.pages import fill_tables
from tests.tools.benchmarks.peers.bill import Arrived, bill
from tests.tools.benchmarks.peers.outside import Difference, blank, compare, count_changed, sum_up
from tests.tools.benchmarks.peers.processes import Target
from tests.tools.benchmarks.peers.sides import DIRECT, OURS
from tests.tools.benchmarks.peers.tables import show_bills, show_requests
from tests.tools.benchmarks.peers.tally import Tally
from tests.tools.benchmarks.peers.traffic import locate

ASKED = {"role": "user", "content": "List the files."}
MESSAGES = [ASKED, assistant(call("call_1")), result("call_1", "a.txt b.txt")]
RESULT = {"type": "tool_result", "tool_use_id": "toolu_1", "content": "a.txt b.txt"}


def write(*messages: object, **more: object) -> bytes:
    return json.dumps({"model": "m", "messages": messages, **more}).encode()


def measure(message: object) -> int:
    return len(json.dumps(message, sort_keys=True))


SENT = write(*MESSAGES)
ANTHROPIC = write(ASKED, {"role": "user", "content": [RESULT]})
ADDED = len(json.dumps("abc"))


@as_one_test
@pytest.mark.parametrize(
    ("sent", "arrived", "difference"),
    [
        pytest.param(SENT, SENT, Difference(), id="the same bytes"),
        pytest.param(SENT, SENT + b" ", Difference(is_respelled=True), id="other blanks"),
        pytest.param(
            SENT, write(*MESSAGES[:2], result("call_1", "masked")), Difference(0, 1), id="a result"
        ),
        pytest.param(
            SENT, write(*MESSAGES[:2], result("call_2", "masked")), Difference(1), id="its call"
        ),
        pytest.param(
            SENT, write(*MESSAGES, prompt_cache_key="abc"), Difference(ADDED), id="a field more"
        ),
        pytest.param(
            write(*MESSAGES, prompt_cache_key="abc"), SENT, Difference(ADDED), id="a field less"
        ),
        pytest.param(
            SENT,
            write({**ASKED, "content": "List some files."}, *MESSAGES[1:]),
            Difference(len("som")),
            id="a word of the user's",
        ),
        pytest.param(
            SENT,
            write(ASKED, *MESSAGES),
            Difference(measure(ASKED)),
            id="a message more",
        ),
        pytest.param(
            ANTHROPIC,
            write(ASKED, {"role": "user", "content": [{**RESULT, "content": []}]}),
            Difference(0, 1),
            id="a result between blocks",
        ),
        pytest.param(
            SENT, write(), Difference(sum(measure(blank(m)) for m in MESSAGES)), id="no messages"
        ),
    ],
)
def test_what_differs(sent: bytes, arrived: bytes, difference: Difference) -> None:
    assert difference == compare(sent, arrived)


def test_bytes_that_differ_are_those_between_a_common_beginning_and_end() -> None:
    cases = {(b"abcd", b"abcd"): 0, (b"abcd", b"abXd"): 1, (b"ad", b"abcd"): 2, (b"", b"abc"): 3}
    assert list(cases.values()) == [count_changed(*each) for each in cases]
    assert list(cases.values()) == [count_changed(other, one) for one, other in cases]


def test_a_body_that_is_no_object_is_refused() -> None:
    with pytest.raises(ValueError, match="no JSON object"):
        compare(SENT, b"[]")


@pytest.mark.parametrize("value", [None, "text", {"role": "user", "content": "text"}])
def test_what_holds_no_result_stays_as_it_is(value: object) -> None:
    assert value == blank(value)


def test_differences_are_summed_up() -> None:
    differences = [Difference(), Difference(5, 1), Difference(2), Difference(is_respelled=True)]
    assert {"outside": 2, "bytes": 7, "respelled": 1} == sum_up(differences)


def record(*messages: object) -> RecordedRequest:
    return RecordedRequest(body=write(*messages), when=datetime.now(UTC))


def test_the_bill_is_lower_by_what_was_cached_and_higher_where_a_prefix_broke() -> None:
    long = result("call_1", "file.txt " * 500)
    first = [ASKED, assistant(call("call_1")), long]
    whole = Arrived("whole", [record(*first), record(*first, assistant())])
    broken = Arrived("broken", [record(*first), record({**ASKED, "content": "?"}, *first[1:])])
    counter = TokenCounter()
    plain, kept, lost = bill(whole, counter)[0], bill(whole, counter)[3], bill(broken, counter)[3]
    assert kept < 0.6 * plain
    assert lost > 1.7 * kept


def test_bills_are_shown_relative_to_sending_everything() -> None:
    tallies = {DIRECT: Tally(costs=[10.0] * 6), OURS: Tally(costs=[5.0] * 6)}
    rows = list(show_bills(tallies))
    assert f"| {OURS} |{' 0.500 |' * 6}  |  |" == rows[-1]


def test_a_page_is_filled_between_its_marks() -> None:
    page = "# Peers\n\n<!-- peers: chat bills -->\n\nold\n\n<!-- end -->\n\nEnd.\n"
    filled = "# Peers\n\n<!-- peers: chat bills -->\n\na\nb\n\n<!-- end -->\n\nEnd.\n"
    assert filled == fill_tables(page, "peers", {"chat bills": ["a", "b"], "other": ["c"]})


@pytest.mark.parametrize(
    ("target", "path"),
    [
        pytest.param(Target(1), "/v1/chat/completions", id="a base URL"),
        pytest.param(
            Target(1, takes_urls=True),
            "http://api.openai.com/v1/chat/completions",
            id="a forward proxy",
        ),
        pytest.param(
            Target(1, bases={"chat": "/l/1", "messages": "/l/2"}),
            "/l/1/v1/chat/completions",
            id="a base URL for each wire format",
        ),
    ],
)
def test_where_a_request_is_sent(target: Target, path: str) -> None:
    assert locate(target, record(ASKED)) == ("api.openai.com", path)


def test_bad_ends_are_shown() -> None:
    tally = Tally(requests=3, refused=1, lost=1, added=[1.0, 2.0, 9.0], cpu=[(6.0, 2), (9.0, 1)])
    tally.failed["502"] += 2
    row = "| peer | 3 | 0 | 0 | 0 | 1 | 2 of 502, 1 of nothing sent on | 5 (3 to 9) | 2 (1 to 9) |"
    assert row == list(show_requests({"peer": tally}))[-1]
