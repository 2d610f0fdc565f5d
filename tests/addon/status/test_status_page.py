"""`obsmask status` in a terminal: what the requests came to, and a row for each group."""

import io
import re
from collections.abc import Iterable, Mapping
from pathlib import Path

import pytest
from rich.console import Console

from addon.commands.status_groups import count_groups
from addon.commands.status_table import ASCII_MARKS, MARKS, render_groups
from addon.metrics.record import RequestRecord
from tests.made_up_records import (
    LEAST,
    REQUEST,
    UNPRICED,
    bill,
    describe,
    read_json,
    status,
    write_records,
)

_TO_ASCII = str.maketrans("\N{FULL BLOCK}\N{LIGHT SHADE}\N{BOX DRAWINGS LIGHT HORIZONTAL}", "#-=")


def test_the_page_tells_what_the_requests_came_to(
    capsys: pytest.CaptureFixture[str], records: Path
) -> None:
    write_records(
        records,
        REQUEST | bill(3, 2, 0.25, subscription=True, conversation_id="a", boundary_moved=True,
                       first_chunk_seconds=2.0),
        REQUEST | bill(1, 1, conversation_id="a", boundary_moved=False, first_chunk_seconds=0.5),
        REQUEST | {"time": "2020-03-05T12:00:00Z", "masking": "off", "status": 500},
        REQUEST | {"passed_through": "signed (cch)", "status": 429},
        REQUEST | {"replay": True},
    )  # fmt: skip
    shown = [line.translate(_TO_ASCII) for line in status(capsys)]
    assert shown == [
        "Requests since Wed 01 Jan 2020 00:00 (UTC)",
        f"from {records}",
        "",
        "Requests          4 in 1 conversation",
        "Tokens            900 sent, 300 not sent (-25%)",
        "Prompts           $1.0000 of $4.0000 saved (25% ±6, at API prices)",
        "                  unmasked they would have cost $4.0000 ±$0.2500, which is estimated",
        "Failed            masking on  1 of 3 requests (33.3%): 1 x 429",
        "                  masking off 1 of 1 request (100.0%): 1 x 500",
        "Dearest request   $2.0000, unmasked $3.0000",
        "                  Wed 04 Mar 2020 12:00, m at h, 300 tokens",
        "Answer begins     after 0.50 s in 1 answer",
        "                  where the boundary moved, after 2.00 s in 1 answer",
        "Passed untouched  1 request: claude-code signs what it sends; "
        "obsmask run -- claude changes that",
        "",
        "",
        "                               tokens   not",
        " day         requests  failed    sent  sent         saved  # sent - not",
        f" {'=' * 98}",
        f" Wed 04 Mar         3       1     600   25%  $1.0000 +25%  {'#' * 30}{'-' * 10}",
        f" Thu 05 Mar         1       1     300   25%                {'#' * 15}{'-' * 5}",
        "",
        "1 request of recordings left out: see --replayed.",
    ]


@pytest.mark.parametrize(
    ("lines", "label", "expected"),
    [
        pytest.param(
            [REQUEST | bill(5_000, 4_000, 100) | UNPRICED],
            "Prompts",
            ["1 request of no known price: 1,000 of 5,000 input tokens saved (20% ±2)"],
            id="no known price",
        ),
        pytest.param(
            [REQUEST | bill(4, 3, 0.25, masking="observed")],
            "Observed",
            [
                "1 request: masking would have left out 100 of 400 tokens (-25%) and saved $1.0000 "
                "of $4.0000 (25% ±6)"
            ],
            id="what masking would have done",
        ),
        pytest.param(
            [REQUEST | {"masking": "observed", "status": 500}, REQUEST],
            "Failed",
            [
                "masking on       0 of 1 request",
                "masking observed 1 of 1 request (100.0%): 1 x 500",
            ],
            id="failures of what was masked and of what was observed",
        ),
        pytest.param(
            [REQUEST | bill(4, 3, 0.25, masking="observed")],
            "Prompts",
            ["cost $4.0000", "nothing masked, because masking is only observed"],
            id="what was observed cost what it costs unmasked",
        ),
        pytest.param(
            [REQUEST | bill(4, 5, 0.25)],
            "Prompts",
            [
                "$1.0000 lost on $4.0000 (25% ±6)",
                "unmasked they would have cost $4.0000 ±$0.2500, which is estimated",
            ],
            id="a loss",
        ),
        pytest.param(
            [REQUEST | bill(4, 3.9, 0.25)],
            "Prompts",
            [
                "cost $3.9000, about as unmasked",
                "unmasked they would have cost $4.0000 ±$0.2500, which is estimated",
            ],
            id="about 0",
        ),
        pytest.param(
            [REQUEST | bill(90, 70) | UNPRICED],
            "Dearest request",
            ["70, unmasked 90 input tokens", "Wed 04 Mar 2020 12:00, m at h, 300 tokens"],
            id="the dearest, without a price",
        ),
        pytest.param(
            [{**REQUEST, **bill(7, 7), **UNPRICED, "model": None, "request_tokens_after": None}],
            "Dearest request",
            ["7 input tokens", "Wed 04 Mar 2020 12:00, ? at h"],
            id="the dearest, of which little is known",
        ),
        pytest.param(
            [REQUEST | {"prompt_tokens": 200, "cached_tokens": 150}],
            "Tokens",
            ["300 sent, 100 not sent (-25%)", "200 as the providers counted, 75% of them cached"],
            id="what the providers counted",
        ),
        pytest.param(
            [REQUEST | {"request_tokens_after": 400}, {}],
            "Tokens",
            ["400 sent", "not counted in 1 request"],
            id="what was not counted",
        ),
        pytest.param(
            [REQUEST | {"redacted": 3, "redaction_scenarios": [2, 1, 0, 0, 1]}],
            "Redacted",
            [
                "3 of 9 tool results sent (33%)",
                "by what follows a named tool's result: an answer 2, calls 1, calls and an answer "
                "1",
            ],
            id="redaction",
        ),
        pytest.param(
            [REQUEST | {"redacted": 0, "redaction_scenarios": [0, 0, 0, 0, 0]}],
            "Redacted",
            [
                "0 of 9 tool results sent (0%)",
                "by what follows a named tool's result: none was sent",
            ],
            id="redaction of tools that were not called",
        ),
        pytest.param(
            [REQUEST | {"reduction_stage": stage} for stage in ("masking", "masking", "fallback")],
            "Reduced",
            ["2 requests by masking, 1 request by fallback"],
            id="reduction",
        ),
        pytest.param(
            [REQUEST, REQUEST | {"binding": "refuses", "kept": {"bound": 3}}],
            "Kept results",
            ["1 request: the model binds its reasoning to all that precedes it"],
            id="bound reasoning",
        ),
        pytest.param(
            [REQUEST | {"masked": 0, "kept": {"summary": 9}}] * 2,
            "Summaries",
            ["2 requests for a summary left whole"],
            id="requests for a summary",
        ),
        pytest.param(
            [REQUEST | {"conversation_id": each, "fits_unmasked": False} for each in "aab"],
            "Model's window",
            [
                "2 conversations no longer fit their model without masking: switch it off only "
                "after the agent has made a summary (/compact)",
                "m at h",
                "m at h",
            ],
            id="conversations that need masking",
        ),
        pytest.param(
            [REQUEST | {"resent": "accepted"}],
            "Sent again",
            ["1 request sent again whole after a 400 (1 accepted)"],
            id="a request that was sent again",
        ),
        pytest.param(
            [REQUEST, REQUEST | {"passed_through": "streamed past the addon"}],
            "Passed untouched",
            ["1 request: streamed past the addon"],
            id="why a request passed",
        ),
        pytest.param(
            [REQUEST | {"boundary_moved": False, "first_chunk_seconds": n / 4} for n in range(11)],
            "Answer begins",
            ["within 1.25 s in half of 11 answers, within 2.25 s in 9 of 10"],
            id="how long answers took to begin",
        ),
        pytest.param(
            [REQUEST | bill(1, 1, price_source="assumed", host="\x1b]0;evil")],
            "Prices assumed",
            ["\ufffd]0;evil in 1 request: obsmask prices \ufffd]0;evil"],
            id="a host that is a trick on the terminal",
        ),
    ],
)
def test_a_row_tells(
    capsys: pytest.CaptureFixture[str],
    records: Path,
    lines: list[Mapping[str, object]],
    label: str,
    expected: list[str],
) -> None:
    write_records(records, *lines)
    assert expected == describe(status(capsys))[label]


def test_it_is_told_why_nothing_was_masked(
    capsys: pytest.CaptureFixture[str], records: Path
) -> None:
    write_records(records, REQUEST | {"masked": 0, "kept": {"held": 2, "in_window": 7}})
    assert "nothing masked, because moving the boundary does not pay yet" in "\n".join(
        status(capsys)
    )


GROUPED = [
    REQUEST | {"model": "[bold]x", "host": "a", "client": None, "tag": "one", "label": "x"},
    REQUEST | {"model": "m", "host": "b", "client": "c", "tag": None},
    REQUEST | {"model": "m", "host": "b", "client": "c", "tag": "one"},
]


@pytest.mark.parametrize(
    ("by", "expected"),
    [
        ("day", [["Wed 04 Mar", "3"]]),
        ("model", [["m", "2"], ["[bold]x", "1"]]),
        ("host", [["b", "2"], ["a", "1"]]),
        ("client", [["c", "2"], ["not known", "1"]]),
        ("tag", [["one", "2"], ["not known", "1"]]),
        ("label", [["no label", "2"], ["x", "1"]]),
    ],
)
def test_requests_are_grouped(
    capsys: pytest.CaptureFixture[str], records: Path, by: str, expected: list[list[str]]
) -> None:
    write_records(records, *GROUPED)
    lines = status(capsys, "--by", by)
    (head,) = (place for place, line in enumerate(lines) if line.startswith(f" {by} "))
    cells = [[cell for cell in line.split("  ") if cell] for line in lines[head + 2 :] if line]
    assert expected == [[name.strip(), count.strip()] for name, count, *_ in cells]
    groups = read_json(capsys, "--by", by)["groups"]
    assert [count for _, count in expected] == [str(group["requests"]) for group in groups]


def test_a_tag_selects(capsys: pytest.CaptureFixture[str], records: Path) -> None:
    write_records(records, *GROUPED)
    lines = status(capsys, "--tag", "one")
    assert lines[0].endswith(", tagged one")
    assert ["2"] == describe(lines)["Requests"]
    assert 2 == len(status(capsys, "--tag", "one", "--jsonl"))


@pytest.mark.parametrize(("width", "has_bars"), [(62, False), (80, True), (160, True)])
@pytest.mark.parametrize("marks", [MARKS, ASCII_MARKS])
def test_bars_take_what_is_left(width: int, has_bars: bool, marks: tuple[str, str]) -> None:
    lines = render_table([REQUEST | bill(3, 2), REQUEST | UNPRICED], width, marks)
    assert has_bars is any(marks[1] * 3 in line for line in lines)
    assert width >= max(map(len, lines))


def test_a_model_of_a_long_name_is_whole_on_a_narrow_terminal() -> None:
    lines = render_table([REQUEST | {"model": "x" * 50}], 80, by="model")
    assert 50 == "".join(lines).count("x")


def render_table(
    lines: Iterable[Mapping[str, object]],
    width: int,
    marks: tuple[str, str] = MARKS,
    by: str = "day",
) -> list[str]:
    groups = count_groups((RequestRecord.model_validate({**LEAST, **each}) for each in lines), by)
    console = Console(width=width, file=io.StringIO())
    with console.capture() as shown:
        console.print(render_groups(groups, width, marks))
    return [line.rstrip() for line in shown.get().splitlines()]


def test_a_sum_that_is_not_of_all_requests_says_of_which_it_is(
    capsys: pytest.CaptureFixture[str], records: Path
) -> None:
    write_records(
        records,
        REQUEST | bill(4, 3, client="both"),
        *[REQUEST | bill(4, 3, client="both") | UNPRICED] * 2,
        *[
            REQUEST | bill(4, 3, client="looked at", masking=masking)
            for masking in ("on", "observed")
        ],
        REQUEST | bill(4, 3, client="plain"),
        REQUEST | bill(4, 3, client="unpriced") | UNPRICED,
    )
    lines = status(capsys, "--by", "client")
    assert ["3 requests of no known price: 3 of 12 input tokens saved (25%)"] == [
        line.removeprefix("Prompts").strip() for line in lines if "of no known price" in line
    ]
    assert "Prompts          4 requests of known prices: $3.00 of $16.00 saved (19%)" in lines
    rows = {line[:11].strip(): re.findall(r"\+\d+%\*?", line) for line in lines}
    assert [["+25%*"], ["+12%*"], ["+25%"], ["+25%"]] == [
        rows[name] for name in ("both", "looked at", "plain", "unpriced")
    ]
    assert [
        "* both: the amount is of 1 of 3 requests; no price is known for the others",
        "* looked at: 1 of 2 requests were only observed, and saved nothing",
    ] == [line for line in lines if line.startswith("*")]
