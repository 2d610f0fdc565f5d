"""Requests to models in formats that are not masked are named once, and counted."""

from pathlib import Path

import pytest
from mitmproxy import http
from mitmproxy.test import tutils

from addon.proxy.unserved import Unserved, find_unserved_format
from tests.live.harness import OFF, ON, running_addon, running_upstream


def request(path: str, method: str = "POST") -> http.Request:
    return tutils.treq(method=method.encode(), path=path.encode())


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


def test_each_host_and_format_is_named_once_and_every_request_is_counted(
    caplog: pytest.LogCaptureFixture,
) -> None:
    unserved = Unserved()
    for name, host in [("Interactions", "a"), ("Another", "a"), ("Interactions", "b")]:
        for _ in range(3):
            unserved.note(name, host)
    unserved.note("Interactions", "a")
    named = [message.partition(" requests are not masked")[0] for message in caplog.messages]
    assert named == ["a: Interactions", "a: Another", "b: Interactions"]
    assert (
        unserved.render_total() == "; not masked for their format: "
        "4 Interactions to a, 3 Another to a, 3 Interactions to b"
    )


def test_of_many_hosts_only_some_are_told_apart(caplog: pytest.LogCaptureFixture) -> None:
    unserved = Unserved()
    for n in range(1_005):
        unserved.note("Interactions", f"{n}.example")
    assert len(caplog.messages) == 1_000
    assert unserved.render_total().endswith(", 991 more")
    assert unserved.counts.total() == 1_005


def test_nothing_is_said_where_there_was_none() -> None:
    assert Unserved().render_total() == ""


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
