import re
from collections.abc import Iterable
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from addon.proxy.mcp import EventStream
from tests.support.marks import as_one_test

BOM = b"\xef\xbb\xbf"
KEEP_ALIVE = b": still here\r\n\r\n"


def edit(data: bytes) -> bytes:
    return data.replace(b"long", b"cut")


def transform(chunks: Iterable[bytes], max_bytes: int = 10_000, min_bytes: int = 0) -> bytes:
    stream = EventStream(edit, min_bytes=min_bytes, max_bytes=max_bytes)
    return b"".join([*map(stream.feed, chunks), stream.end()])


def bytewise(source: bytes) -> list[bytes]:
    return [source[i : i + 1] for i in range(len(source))]


class Case(NamedTuple):
    case: str
    source: bytes
    expected: bytes


def stays(case: str, source: bytes) -> Case:
    return Case(case, source, source)


CASES = [
    Case("line feeds", b"data: long\n\n", b"data: cut\n\n"),
    Case("carriage returns", b"data: long\r\r", b"data: cut\r\r"),
    Case("both", b"data: long\r\n\r\n", b"data: cut\r\n\r\n"),
    Case("each", b"data: long\r\n\ndata: long\n\rdata: long\r\r\ndata: long\n\r\n",
         b"data: cut\r\n\ndata: cut\n\rdata: cut\r\r\ndata: cut\n\r\n"),
    Case("no space", b"data:long\n\n", b"data:cut\n\n"),
    Case("two spaces", b"data:  long\n\n", b"data:  cut\n\n"),
    Case("several lines", b"data: {\ndata:long,\r\ndata\ndata: \rdata: long}\n\n",
         b"data: {\ndata:cut,\r\ndata\ndata: \rdata: cut}\n\n"),
    Case("other fields", b"event: long\nid: long\nretry: 10\ndata: long\nevent: long\n\n",
         b"event: long\nid: long\nretry: 10\ndata: cut\nevent: long\n\n"),
    Case("comments", b":long\n\n:\r\ndata: long\n: long\ndata: long\n\n",
         b":long\n\n:\r\ndata: cut\n: long\ndata: cut\n\n"),
    Case("a mark", BOM + b"data: long\n\n", BOM + b"data: cut\n\n"),
    Case("a mark and a field", BOM + b"id: 1\ndata: long\n\n", BOM + b"id: 1\ndata: cut\n\n"),
    stays("two marks", BOM + BOM + b"data: long\n\n"),
    stays("a mark later", b"id: 1\n" + BOM + b"data: long\n\n"),
    stays("a mark inside of a line", b": x" + BOM + b"data: long\n\n"),
    stays("nothing but a mark", BOM),
    stays("half a mark", BOM[:2]),
    stays("nothing", b""),
    stays("blank lines", b"\n\r\n\r\n\n"),
    Case("blank lines before", b"\r\n\ndata: long\n\n", b"\r\n\ndata: cut\n\n"),
    stays("another field", b"database: long\n\n"),
    stays("another field alone", b"datalong\n\n"),
    stays("capitals", b"DATA: long\n\n"),
    stays("a space before", b" data: long\n\n"),
    stays("a space behind", b"data : long\n\n"),
    Case("another field before", b"datax: long\ndata: long\n\n", b"datax: long\ndata: cut\n\n"),
    stays("data inside of a line", b"id: data: long\n\n"),
    Case("no UTF-8", b"data: \xff\xc3long\n\n", b"data: \xff\xc3cut\n\n"),
    Case("a line separator of Unicode is none", "data: \u2028\x0b\x85long\n\n".encode(),
         "data: \u2028\x0b\x85cut\n\n".encode()),
    Case("two events", b"data: long\n\nevent: e\ndata: no\n\ndata: long\n\n",
         b"data: cut\n\nevent: e\ndata: no\n\ndata: cut\n\n"),
    stays("an event that is not complete", b"data: long\n"),
    stays("a line that is not complete", b"data: long"),
    stays("the beginning of data", b"\nda"),
    Case("one complete, one not", b"data: long\n\ndata: long\r\n", b"data: cut\n\ndata: long\r\n"),
]  # fmt: skip


@as_one_test
@pytest.mark.parametrize("given", CASES, ids=lambda given: given.case)
def test_data_is_edited_and_nothing_else(given: Case) -> None:
    assert given.expected == transform([given.source])
    assert given.expected == transform(bytewise(given.source))
    assert given.expected == transform([b"", given.source, b""])


@as_one_test
@pytest.mark.parametrize("given", CASES, ids=lambda given: given.case)
def test_what_follows_changes_nothing(given: Case) -> None:
    """Each case is closed by blank lines, and an event comes behind it."""
    closed = given.source + b"\n\n"
    expected = transform([closed])
    assert expected + b"data: cut\n\n" == transform([closed + b"data: long\n\n"])
    assert expected + b"data: cut\n\n" == transform(bytewise(closed + b"data: long\n\n"))


@as_one_test
@pytest.mark.parametrize("given", CASES, ids=lambda given: given.case)
def test_without_a_change_the_bytes_are_the_same(given: Case) -> None:
    stream = EventStream(bytes)
    assert given.source == b"".join([*map(stream.feed, bytewise(given.source)), stream.end()])


def test_the_edit_gets_the_data_of_one_event_after_the_other() -> None:
    seen: list[bytes] = []
    stream = EventStream(lambda data: seen.append(data) or data)  # type: ignore[func-returns-value]
    stream.feed(b"data: a\rdata:b\ndata\r\ndata: \ndata:  c\nid: 1\n\nid: 2\n\ndata: d\n\n")
    assert seen == [b"a\nb\n\n\n c", b"d"]


# What is held back


@as_one_test
@pytest.mark.parametrize(
    ("chunks", "expected"),
    [
        pytest.param(
            [b"id: 1\n", b"event: e\n", b"data: long\n", b"\n"],
            [b"id: 1\n", b"event: e\n", b"", b"data: cut\n\n"],
            id="data, until the blank line",
        ),
        pytest.param(
            [b": still here", b"\n", b"\n", b":\r\n", b"\r\n"],
            [b": still here", b"\n", b"\n", b":\r\n", b"\r\n"],
            id="a comment never",
        ),
        pytest.param(
            [b"data: long\r\n\r", b"\n", b"data: long\n\r", b"\n"],
            [b"data: cut\r\n\r", b"\n", b"data: cut\n\r", b"\n"],
            id="the second half of a line's end never",
        ),
        pytest.param(
            [b"data: long\r", b"\n", b"\n"],
            [b"", b"", b"data: cut\r\n\n"],
            id="a line's end in two halves is one",
        ),
        pytest.param(
            [b"d", b"a", b"t", b"e: 1", b"\nda", b"y\n", b"dat", b"a: long\n\n"],
            [b"", b"", b"", b"date: 1", b"\n", b"day\n", b"", b"data: cut\n\n"],
            id="what may become data, while it may",
        ),
        pytest.param(
            [BOM[:1], BOM[1:2], BOM[2:], b"da", b"ta: long\n\n"],
            [b"", b"", b"", b"", BOM + b"data: cut\n\n"],
            id="a mark at the beginning",
        ),
        pytest.param(
            [BOM[:2], b"x", BOM[:2], b"da"],
            [b"", BOM[:2] + b"x", BOM[:2], b"da"],
            id="half a mark, and none later on",
        ),
        pytest.param(
            [b"id", b": data", b": long\n\n"],
            [b"id", b": data", b": long\n\n"],
            id="no line that gives no data",
        ),
        pytest.param(
            [b"data: long\n\ndata: long\n\ndata: lo", b"ng\n\n"],
            [b"data: cut\n\ndata: cut\n\n", b"data: cut\n\n"],
            id="complete events never",
        ),
    ],
)
def test_only_an_event_that_is_not_complete_is_held_back(
    chunks: list[bytes], expected: list[bytes]
) -> None:
    stream = EventStream(edit)
    assert expected == [stream.feed(chunk) for chunk in chunks]
    assert stream.end() == b""


def test_an_end_that_is_not_the_last_loses_nothing() -> None:
    stream = EventStream(edit)
    pieces = []
    for chunk in (b"data: lo", b"ng\n\nda", b"ta: long\n\ndata: long\n\n", b"d"):
        pieces += [stream.feed(chunk), stream.end(), stream.end()]
    assert b"".join(pieces) == b"data: long\n\ndata: long\n\ndata: cut\n\nd"


# Its bound


def test_an_event_that_is_too_large_goes_by_untouched_and_the_next_one_does_not() -> None:
    stream = EventStream(edit, max_bytes=20)
    chunks = [b"data: long " + b"x" * 9, b"y", b"long\n", b"\r", b"\ndata: long\n\n"]
    released = [stream.feed(chunk) for chunk in chunks]
    assert released == [b"", chunks[0] + b"y", b"long\n", b"\r", b"\ndata: cut\n\n"]
    assert (stream.too_large, stream.failure) == (1, None)


@pytest.mark.parametrize("end", [b"\n\n", b"\r\r", b"\r\n\r\n", b"\r\n\r"])
def test_an_event_s_size_is_all_before_its_blank_line(end: bytes) -> None:
    source = b": a comment\ndata: long" + end
    size = len(b"data: long") + len(re.sub(rb"(\r\n?|\n)\Z", b"", end))
    for chunks in ([source], bytewise(source)):
        assert b": a comment\ndata: cut" + end == transform(chunks, max_bytes=size)
        assert source == transform(chunks, max_bytes=size - 1)


def test_no_more_is_held_than_the_bound() -> None:
    stream = EventStream(edit, max_bytes=1000)
    held = 0
    for _ in range(100):
        held += 64 - len(stream.feed(b"data: " + b"x" * 58))
        assert held <= 1000
    assert (held, stream.end(), stream.too_large) == (0, b"", 1)


# When something goes wrong


@pytest.mark.parametrize("end", [b"\n\n", b"\r\n\r\n", b"\r\r"])
def test_an_event_that_is_too_short_goes_by_untouched(end: bytes) -> None:
    short, long = b"data: long" + end, b"data: a long" + end
    source = short * 3 + KEEP_ALIVE + long + short
    expected = source.replace(b"a long", b"a cut")
    assert expected == transform([source], min_bytes=len(short))
    assert expected == transform(bytewise(source), min_bytes=len(short))


def test_once_an_edit_fails_everything_passes_unchanged() -> None:
    def fail_at_bad(data: bytes) -> bytes:
        if b"bad" in data:
            raise LookupError("s3cr3t")
        return edit(data)

    stream = EventStream(fail_at_bad)
    chunks = [
        b"data: long\n\ndata: bad long\n\ndata: long\n\ndata: lo",
        b"ng\n\n",
        b"data: long",
    ]
    released = [stream.feed(chunk) for chunk in chunks]
    assert released == [
        b"data: cut\n\ndata: bad long\n\ndata: long\n\n",
        b"data: long\n\n",
        b"data: long",
    ]
    assert (stream.end(), stream.failure) == (b"", "LookupError")


@as_one_test
@pytest.mark.parametrize(
    "edited", [b"", b"one", b"one\ntwo\nthree", b"one\rtwo\nthree", b"on\re\r\ntwo", b"one\r\ntwo"]
)
def test_an_edit_that_adds_or_removes_lines_fails(edited: bytes) -> None:
    stream = EventStream(lambda _: edited)
    source = b"data: first\ndata: second\n\n"
    assert source == stream.feed(source)
    assert stream.failure == "ValueError"


# Whatever the stream, however it comes

PIECES = [
    b"data",
    b"da",
    b"t",
    b"data: ",
    b":",
    b" ",
    b"long",
    b"x" * 9,
    b"id: 1",
    b"\xc3\xa9",
    BOM,
]
ENDS = [b"\n", b"\r", b"\r\n"]
STREAMS = st.lists(st.sampled_from(PIECES + ENDS * 3), max_size=30).map(b"".join)


@st.composite
def chunked(draw: st.DrawFn) -> tuple[bytes, list[bytes]]:
    source = draw(STREAMS)
    cuts = sorted(draw(st.lists(st.integers(0, len(source)), max_size=12)))
    return source, [source[a:b] for a, b in zip([0, *cuts], [*cuts, len(source)], strict=True)]


@given(chunked(), st.integers(0, 60), st.integers(0, 30))
def test_chunks_make_no_difference(
    given: tuple[bytes, list[bytes]], max_bytes: int, min_bytes: int
) -> None:
    source, chunks = given
    whole = transform([source], max_bytes, min_bytes)
    assert whole == transform(chunks, max_bytes, min_bytes)
    assert whole == transform(bytewise(source), max_bytes, min_bytes)


@given(chunked())
def test_a_client_sees_the_same_events_with_other_data(given: tuple[bytes, list[bytes]]) -> None:
    source, chunks = given
    expected = [(fields, edit(data)) for fields, data in read_events(source)]
    assert expected == read_events(transform(chunks))


@given(chunked(), st.integers(0, 60))
def test_what_comes_is_held_back_or_goes_on(
    given: tuple[bytes, list[bytes]], max_bytes: int
) -> None:
    source, chunks = given
    stream = EventStream(bytes, max_bytes=max_bytes)
    arrived = released = b""
    for chunk in chunks:
        arrived += chunk
        released += stream.feed(chunk)
        assert arrived.startswith(released)
        assert len(arrived) - len(released) <= max(max_bytes, len(BOM + b"dat"))
    assert source == released + stream.end()


def read_events(source: bytes) -> list[tuple[list[bytes], bytes]]:
    """Read a stream line by line as WHATWG HTML, 9.2.6, has it: other lines, and data."""
    events = []
    fields: list[bytes] = []
    data: list[bytes] = []
    lines = re.split(rb"\r\n|\r|\n", source.removeprefix(BOM))
    for line in lines[:-1]:
        name, _, value = line.partition(b":")
        if name == b"data":
            data.append(value.removeprefix(b" "))
        elif line:
            fields.append(line)
        else:
            events.append((fields, b"\n".join(data)))
            fields, data = [], []
    return events
