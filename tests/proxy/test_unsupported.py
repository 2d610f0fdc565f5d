"""What nobody reads streams by, and what may be for a model is named once, and counted."""

import re
from pathlib import Path

import pytest
from mitmproxy import http
from mitmproxy.test import tflow, tutils

from addon.proxy import unsupported
from addon.proxy.unsupported import UnsupportedTraffic, find_unserved_format
from masking.config import parse_settings
from tests.live.harness import OFF, ON, running_addon, running_upstream
from tests.proxy.engines import StandIn
from tests.support.marks import as_one_test


def request(path: str, method: str = "POST") -> http.Request:
    return tutils.treq(method=method.encode(), path=path.encode())


@as_one_test
@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/v1beta/interactions", "Interactions"),
        ("/v1beta/interactions/7", None),
        ("/v1/threads/thread_1/messages", None),
        ("/v1/responses", None),
        ("/v1beta/models/gemini-2.5-pro:generateContent?key=k", None),
        ("/v1beta/models/gemini-2.5-pro:countTokens", None),
        ("/v1/chat/completions", None),
    ],
)
def test_a_format_is_known_by_the_end_of_its_path(path: str, expected: str | None) -> None:
    assert find_unserved_format(request(path)) == expected
    assert find_unserved_format(request(path, "GET")) is None


def make(config: bytes = ON) -> UnsupportedTraffic:
    settings = parse_settings(config)
    assert settings
    return UnsupportedTraffic(StandIn(settings).as_engine)


def ask(addon: UnsupportedTraffic, host: str, path: str = "/v1beta/interactions") -> http.HTTPFlow:
    """Let a request pass."""
    flow = tflow.tflow(req=request(path))
    flow.request.host = host
    addon.request(flow)
    return flow


def test_each_host_and_format_is_named_once_and_every_request_is_counted(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(unsupported._FORMATS, "Another", re.compile("/another$"))
    counted = make()
    for path, host in [("/v1/interactions", "a"), ("/another", "a"), ("/v1/interactions", "b")]:
        for _ in range(3):
            ask(counted, host, path)
    ask(counted, "a")
    named = [message.partition(" requests are not masked")[0] for message in caplog.messages]
    assert named == ["a: Interactions", "a: Another", "b: Interactions"]
    assert (
        counted.render_total() == "; not masked for their format: "
        "4 Interactions to a, 3 Another to a, 3 Interactions to b"
    )


def test_of_many_hosts_only_some_are_told_apart(caplog: pytest.LogCaptureFixture) -> None:
    counted = make()
    for n in range(1_005):
        ask(counted, f"{n}.example")
    assert len(caplog.messages) == 1_000
    assert counted.render_total().endswith(", 991 more")
    assert counted.unserved.total() == 1_005


def test_nothing_is_said_where_there_was_none() -> None:
    assert make().render_total() == ""


# Raw TCP


@pytest.mark.parametrize(("config", "expected"), [(ON, 1), (OFF, 0)], ids=["on", "off"])
def test_a_connection_that_is_taken_for_raw_tcp_is_named_once(
    config: bytes, expected: int, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    addon = make(config=config)
    for _ in range(2):
        addon.tcp_start(tflow.ttcpflow())
    line = (
        "address: a connection does not begin like HTTP, so that mitmproxy passes it on as raw "
        "TCP: nothing on it is masked or recorded"
    )
    assert [line] * expected == caplog.messages


# What streams


UPLOADS = {
    "a file": ("/v1/files", "2000000", True),
    "a small one": ("/v1/files", "2000", False),
}


@pytest.mark.parametrize(("path", "size", "expected"), UPLOADS.values(), ids=UPLOADS)
def test_only_a_large_upload_goes_on_before_it_is_complete(
    path: str, size: str, expected: bool
) -> None:
    flow = tflow.tflow(req=request(path))
    flow.request.headers["content-length"] = size
    make().requestheaders(flow)
    assert bool(flow.request.stream) is expected


def test_an_upload_that_is_answered_already_does_not_stream() -> None:
    """mitmproxy can do only one of both."""
    flow = tflow.tflow(req=request("/v1/files"), resp=True)
    flow.request.headers["content-length"] = "2000000"
    make().requestheaders(flow)
    assert not flow.request.stream


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({"content-type": "text/event-stream", "content-length": "9"}, True),
        ({"content-length": "2000000"}, True),
        ({"content-length": "9"}, False),
    ],
)
def test_an_answer_streams_that_nobody_reads(headers: dict[str, str], expected: bool) -> None:
    flow = tflow.tflow(resp=True)
    assert flow.response is not None
    flow.response.headers.clear()
    flow.response.headers.update(headers)
    make().responseheaders(flow)
    assert flow.response.stream is expected


@pytest.mark.live
@pytest.mark.parametrize(("config", "expected"), [(ON, 1), (OFF, 0)], ids=["on", "off"])
def test_a_user_is_told_as_long_as_masking_is_on(
    tmp_path: Path, config: bytes, expected: int
) -> None:
    (tmp_path / "upstream").mkdir()
    body = b'{"messages": []}'
    with (
        running_upstream(tmp_path / "upstream") as upstream,
        running_addon(tmp_path, upstream, config=config) as live,
    ):
        arrived = [live.send("/v1beta/interactions", body).body for _ in range(3)]
    log = live.proxy.log
    assert arrived == [body] * 3
    assert log.count("localhost: Interactions requests are not masked: they pass") == expected
    assert log.count("; not masked for their format: 3 Interactions to localhost") == expected
