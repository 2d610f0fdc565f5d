"""The page's model: what it keeps, and what it forgets first."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

import pytest

from addon.page.board import Board, Conversation
from addon.page.conversation import accumulate_savings
from addon.page.describe import describe_conversation, describe_row, describe_view
from addon.quota import QuotaWindow
from tests.support.made_up_records import LEAST, UNPRICED, bill, record
from tests.support.marks import as_one_test
from tests.support.page_parts import as_told, find_chart, find_table, list_texts, say


def filled(*requests: Mapping[str, object], conversations: int = 9, kept: int = 99) -> Board:
    board = Board(conversations, kept)
    for fields in requests:
        board.add(record(**fields))
    return board


def keys(board: Board, since: int = 0) -> list[str]:
    return [each.key for each in board.look(since).conversations]


def cells(conversation: Conversation) -> list[str]:
    return [say(cell) for cell in as_told(describe_row(conversation)["cells"])]


A, B, C = ({"conversation_id": name} for name in "abc")


def test_a_conversation_is_met_once_and_counted() -> None:
    board = filled(A, B, A)
    assert ["b", "a"] == keys(board)
    assert [2, 1] == [each.number for each in board.look().conversations]
    assert [1, 2] == [each.tally.count for each in board.look().conversations]


def test_requests_that_could_not_be_read_are_gathered_by_host() -> None:
    assert ["at-h"] == keys(filled({"passed_through": "not JSON"}, {"passed_through": "signed"}))


def test_replayed_requests_are_not_shown() -> None:
    assert [] == keys(filled({"replay": True}))


def test_what_has_changed_since_a_version_is_told_alone() -> None:
    board = filled(A, B)
    seen = board.version
    board.add(record(**A))
    assert (["a"], False) == (keys(board, seen), board.look(seen).is_whole)
    assert [] == keys(board, board.version)


def test_the_conversation_that_was_idle_for_longest_is_forgotten() -> None:
    board = filled(A, B, A, conversations=2)
    seen = board.version
    board.add(record(**C))
    assert ["a", "c"] == keys(board)
    assert board.look(seen).is_whole, "a reader must learn that one is gone"
    assert 4 == board.look().total.count
    assert board.find("b") is None


def test_of_too_many_requests_those_of_the_idlest_conversation_go() -> None:
    board = filled(A, A, B, B, kept=3)
    found = {each.key: (len(each.requests), each.forgotten) for each in board.look().conversations}
    assert {"a": (1, 1), "b": (2, 0)} == found


def test_a_forgotten_conversation_makes_room_for_requests() -> None:
    board = filled(A, A, B, C, conversations=2, kept=2)
    assert [(1, 0), (1, 0)] == [
        (len(each.requests), each.forgotten) for each in board.look().conversations
    ]


def test_a_reader_of_another_run_is_told_everything() -> None:
    assert filled(A).look(since=1_000).is_whole


@as_one_test
@pytest.mark.parametrize(
    ("requests", "unit", "saved"),
    [
        ([bill(4, 3), bill(4, 2)], "US dollars", ["$1.00", "$3.00"]),
        ([bill(4, 3), {**bill(4, 2), **UNPRICED}], "US dollars", ["$1.00", "$1.00"]),
        ([{**bill(4, 2), **UNPRICED}], "input tokens", ["2"]),
        ([bill(4, 5), {}], "US dollars", ["-$1.00", "-$1.00"]),
        ([{}], "input tokens", ["0"]),
    ],
    ids=[
        "all priced",
        "one without a price",
        "none with a price",
        "a request without a bill",
        "none with a bill",
    ],
)
def test_what_was_saved_is_told_request_by_request(
    requests: list[Mapping[str, object]], unit: str, saved: list[str]
) -> None:
    (found,) = filled(*({**A, **fields} for fields in requests)).look().conversations
    chart = find_chart(describe_conversation(found)["parts"], "Saved so far")
    assert (unit, saved) == (chart["unit"], chart["series"][0]["texts"])


OBSERVED = {"masking": "observed"}


@pytest.mark.parametrize(
    ("requests", "is_observed", "told", "saved"),
    [
        ([OBSERVED, OBSERVED], True, "$2.00 (25%)\nwould be saved", [1, 2]),
        ([OBSERVED, {}], False, "$1.00 (25%)", [0, 1]),
    ],
    ids=["all of them", "one of two"],
)
def test_what_was_observed_only_is_told_apart(
    requests: list[Mapping[str, object]], is_observed: bool, told: str, saved: list[float]
) -> None:
    board = filled(*({**A, **bill(4, 3), **fields} for fields in requests))
    (found,) = board.look().conversations
    assert (is_observed, told, saved) == (
        found.tally.is_observed_only, cells(found)[-1], accumulate_savings(found),
    )  # fmt: skip
    assert is_observed == ("observed only: what masking would do" in cells(found)[0])
    (warning,) = [
        each for each in describe_conversation(found)["parts"] if each.get("class") == "warning"
    ]
    assert warning["text"].startswith("These requests" if is_observed else "Of these, 1 request")


def test_a_move_is_told_with_its_price() -> None:
    moved = {"boundary_moved": True, "move_price_tokens": 2.0, "masked": 3}
    board = filled({**A, **bill(4, 4)}, {**A, **bill(4, 5), **moved}, {**A, **bill(4, 1)})
    parts = describe_conversation(board.look().conversations[0])["parts"]
    move, _ = find_table(parts, "Moves of the boundary")
    assert ["2", "3", "0", "$2.00", "3", "$4.00", "$2.00"] == move
    assert [1] == find_chart(parts, "Saved so far")["moves"]


def test_what_forgotten_requests_saved_is_in_the_sums() -> None:
    board = filled(*({**A, **bill(4, 3)} for _ in range(5)), kept=2)
    (found,) = board.look().conversations
    assert [4, 5] == accumulate_savings(found)
    assert "What follows is about the last 2 requests; 3 earlier ones are in the sums alone." in (
        list_texts(describe_conversation(found)["parts"])
    )


def test_a_row_names_client_model_and_host_and_why_nothing_is_masked() -> None:
    fields = {"client": "pi", "model": "m", "tool_results": 2, "kept": {"held": 2}}
    name, *_ = cells(filled({**A, **fields}).look().conversations[0])
    assert "1: pi\nm, h, \nnothing masked: masking doesn't pay yet" == name


def test_a_row_has_the_label_of_the_latest_request_and_the_rereads_of_all() -> None:
    board = filled({**A, "label": "web", "rereads": 1}, {**A, "label": "ops", "rereads": 1})
    name, *_ = cells(board.look().conversations[0])
    assert "label: ops\n2 calls repeated one whose result was masked\n" in name


UNFIT = {"model_window_tokens": 200_000, "fits_unmasked": False}


@as_one_test
@pytest.mark.parametrize(
    ("requests", "unfit"),
    [
        ([UNFIT], "without masking it would no longer fit its model, which takes 200,000 tokens"),
        (
            [UNFIT, {}],
            "without masking it would no longer fit its model, which takes 200,000 tokens",
        ),
        ([UNFIT, {**UNFIT, "fits_unmasked": True}], None),
        ([{**UNFIT, "masking": "observed"}], None),
        ([{**UNFIT, "masking": "off"}], None),
        ([{}], None),
    ],
    ids=["it would not", "a later one is unknown", "compacted since", "observed", "off", "unknown"],
)
def test_a_row_says_whether_its_last_request_would_fit_unmasked(
    requests: list[Mapping[str, object]], unfit: str | None
) -> None:
    board = filled(*({**A, **fields} for fields in requests))
    name, *_ = cells(board.look().conversations[0])
    assert (unfit is not None) == ("it would no longer fit" in name)
    assert (unfit or "") in name


@pytest.mark.parametrize(
    ("requests", "asked"),
    [
        pytest.param([3] * 2 + [0] * 3, 6, id="often"),
        pytest.param([4] + [0] * 19, 0, id="now and then"),
        pytest.param([9] + [0] * 20, 0, id="long ago"),
    ],
)
def test_an_agent_that_keeps_asking_for_what_was_masked_is_said_so(
    requests: list[int], asked: int
) -> None:
    observed = {**A, "masking": "observed", "rereads": 9}
    board = filled(*({**A, "masking": "on", "rereads": each} for each in requests), observed)
    notes = cells(board.look().conversations[0])[0].splitlines()
    sign = (
        f"in its last {len(requests)} requests, it asked {asked} times for what was masked: a "
        "larger window (schema1.window_turns) may be cheaper"
    )
    assert [sign] * (asked > 0) == [note for note in notes if "larger window" in note]


OUT = {"masking": "observed", "group": "holdout"}


def test_conversations_held_out_are_compared_with_the_others() -> None:
    view = filled({**A, "masked": 1}, {**B, **OUT, "masked": 1}, C).look()
    assert [
        "Cannot tell yet: 1 held-out conversation compared so far; it takes about 210 to see "
        "requests rise by half.",
        "Not compared: 1 with nothing to mask.",
    ] == list_texts(describe_view(view, {})["harm"])
    assert [] == describe_view(filled(A, B).look(), {})["harm"]


def test_enough_conversations_held_out_are_measured() -> None:
    requests = [
        {"conversation_id": f"{side}{at}", "masked": 1, **fields}
        for side, fields, least in (("m", {}, 40), ("h", OUT, 20))
        for at in range(12)
        for _ in range(least + at % 3)
    ]
    harm = describe_view(filled(*requests, kept=1).look(), {})["harm"]
    verdict, note = list_texts(harm)
    assert "Masked conversations took 95% more requests (84% to 108%)." == verdict
    assert "warning" == harm[0]["class"]
    assert ["requests", "41.0", "21.0", "+95% (+84% to +108%), more than chance"] == (
        find_table(harm, "Both groups")[0]
    )
    assert note.startswith("Means (geometric for requests) from where masking began")


def test_a_row_of_results_that_is_too_long_is_left_out() -> None:
    rows: list[list[tuple[int, str]]] = [[(1, "masked"), (1, "in_window")] * 251, [(3, "masked")]]
    board = filled(*({**A, "result_reasons": row} for row in rows))
    kept = [each.row for each in board.look().conversations[0].requests]
    assert [None, ((3, "masked"),)] == kept


@pytest.mark.parametrize(
    ("composition", "parts"),
    [
        ({"tools": 5, "results": 9}, (0, 5, 0, 0, 9, 0, 0)),
        ({}, (0,) * 7),
        (None, None),
    ],
    ids=["some", "an empty prompt", "not counted"],
)
def test_what_a_prompt_is_composed_of_is_told_part_by_part(
    composition: Mapping[str, int] | None, parts: tuple[int, ...] | None
) -> None:
    board = filled({**A, "composition": composition})
    assert parts == board.look().conversations[0].requests[0].parts


def test_a_failure_is_told() -> None:
    board = filled({**A, "status": 529}, {**A, "error": "provider failed"}, {**A, "status": 200})
    told = [each.failed for each in board.look().conversations[0].requests]
    assert ["529", "provider failed", None] == told


def test_a_row_says_when_it_began_and_what_its_answers_took() -> None:
    at = {"time": "2026-01-01T00:09:00.000+00:00", "conversation": 1, "folder": "api"}
    tokens = {"prompt_tokens": 10, "cached_tokens": 9}
    sizes = {"request_tokens_before": 100, "request_tokens_after": 60}
    board = filled({**A, **bill(4, 3), **sizes}, {**A, **at, **tokens, "first_chunk_seconds": 1.0})
    (found,) = board.look().conversations
    name, *others = as_told(describe_row(found)["cells"])
    assert {"text": "api, ", "times": [LEAST["time"], at["time"]]} == name["below"][0]
    assert ["2", "40%", "90%", "1.0 s"] == others[:4]
    assert "$3.00" == say(others[-2])


def test_a_plans_quota_is_told_as_it_is_and_as_it_grew() -> None:
    now = datetime.now(UTC)
    resets = int((now + timedelta(hours=2)).timestamp())

    def told(**used: float) -> dict[str, object]:
        minutes = {"5h": 300, "7d": 10_080}
        windows = [QuotaWindow(f"{n}", used[n], resets, minutes[n]) for n in used]
        return {**A, "time": now.isoformat(), "quota": windows, "quota_account": "1a9a"}

    board = filled(A, told(**{"5h": 0.3}), told(**{"5h": 0.4, "7d": 0.1}), A, told(**{"5h": 0.45}))
    (limit, week) = find_table(as_told(describe_view(board.look(), {})["plan"]), "Used of")
    assert ["5-hour limit", "45%", "75% by then"] == [*map(say, (limit[0], limit[1], limit[3]))]
    assert ["weekly limit", "10%"] == [*map(say, week[:2])]
    (found,) = board.look().conversations
    chart = find_chart(as_told(describe_conversation(found)["parts"]), "Used of the plan's quota")
    assert {"5-hour limit": ["30%", "30%", "40%", "40%", "45%"], "weekly limit": ["10%"] * 5} == {
        series["name"]: series["texts"] for series in chart["series"]
    }
    resets = int((now + timedelta(days=7)).timestamp())
    (early,) = describe_view(filled(told(**{"7d": 0.1})).look(), {})["plan"]
    assert ["Limit", "Used", "Resets"] == [heading for heading, _ in early["columns"]]
    assert [] == describe_view(filled(A).look(), {})["plan"]


def test_the_whole_is_told() -> None:
    texts = describe_view(filled({**A, **bill(4, 3), "masked": 1}, B).look(), {})["texts"]
    assert {
        "state": "",
        "warning": "",
        "command": "",
        "net": "$1.00 (25%) saved",
        "line": "2 requests; input of 1 request cost $3.00, without masking $4.00: saved $1.00 "
        "(25%).",
        "notes": "",
        "unfit": "",
        "counted": "2 conversations, the newest first.",
    } == texts


@as_one_test
@pytest.mark.parametrize(
    ("requests", "headline"),
    [
        pytest.param([{**bill(4, 3)}], "Nothing masked yet", id="nothing masked"),
        pytest.param([{**bill(4, 4), "masked": 1}], "Nothing saved yet", id="nothing"),
        pytest.param(
            [{**bill(4, 3, 2), "masked": 1}], "About nothing saved yet", id="in the margin"
        ),
        pytest.param([{**bill(4, 5), "masked": 1}], "$1.00 (25%) lost so far", id="a loss so far"),
        pytest.param(
            [{**bill(4, 3), "masked": 1, **OBSERVED}], "$1.00 (25%) would be saved", id="observed"
        ),
        pytest.param(
            [{**bill(4, 3), "masked": 1, "price_borrowed_from": "OpenAI"}],
            "About $1.00 (25%) saved",
            id="at the price of another",
        ),
    ],
)
def test_the_headline_says_what_the_run_came_to(
    requests: list[Mapping[str, object]], headline: str
) -> None:
    board = filled(*({**A, **fields} for fields in requests))
    assert headline == describe_view(board.look(), {})["texts"]["net"]


def test_how_the_proxy_is_and_where_is_told() -> None:
    run = {
        "name": "5eed", "tag": "x", "proxy": "127.0.0.1:8081", "state": "ON",
        "unopened": {"h": 1_000}, "unserved": 2,
    }  # fmt: skip
    assert {
        "state": "ON. This run is 5eed, tagged x.",
        "warning": "Connections passed undecrypted, as a certificate isn't trusted: 1,000 to h. "
        "2 requests used an unsupported API format. See obsmask doctor.",
        "command": "obsmask run --proxy 127.0.0.1:8081 -- claude",
    } == describe_view(filled().look(), run)["texts"]


def test_conversations_that_are_not_kept_are_counted() -> None:
    texts = describe_view(filled(A, B, C, conversations=2).look(), {})["texts"]
    assert "The last 2 of 3 conversations, the newest first." == texts["counted"]
