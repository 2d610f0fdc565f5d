"""`resend_on_400` behind a real mitmdump, before a provider that refuses masked requests."""

import concurrent.futures
import contextlib
import gzip
import json
import re
import ssl
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import pytest

from addon.network import read_address
from addon.proxy.base_urls import Server, behind
from addon.proxy.server import running_proxy
from addon.recordings.flows import open_recording, read_flows
from tests.live.harness import (
    HOST,
    ON,
    Answer,
    Live,
    Upstream,
    answer,
    conversation,
    encoded,
    environment,
    eventually,
    masked,
    running_addon,
    ssl_context,
    waits_for_records,
)
from tests.support.ports import hold_port
from tests.tools.provider.script import Received, Reply, Script

RESEND = ON + b"resend_on_400 = true\n"
CHAT = "/v1/chat/completions"
TEXT = "a line of output, and nothing went wrong\n" * 20
ANSWER = "Taken as it was written."
PLACEHOLDER = "<call_0 shell "
"""What that of the first tool result begins with."""

SHORT, LONG = 5, 7
"""Tool turns of a request, and of a later one of its conversation."""


def reply(received: Received) -> Reply:
    """Refuse what is masked; answer what is whole as its task says."""
    task = received.request["messages"][0]["content"]
    if PLACEHOLDER in json.dumps(received.request):
        return Reply(status=400)
    statuses = {"400": 400, "429": 429, "503": 503}
    status = next((each for name, each in statuses.items() if name in task), 200)
    dies_after = 0 if "dies" in task else None
    return Reply(content=ANSWER, status=status, gzip="gzip" in task, dies_after=dies_after)


@pytest.fixture(scope="module")
def script() -> Script:
    return reply


class Ways(NamedTuple):
    """The proxy with the addon, and the addresses at which it serves in other modes."""

    live: Live
    reverse: str
    chained: str
    beyond: str


@pytest.fixture(scope="module")
def ways(tmp_path_factory: pytest.TempPathFactory, upstream: Upstream) -> Iterator[Ways]:
    """Run the addon in three modes of one proxy; another proxy is beyond one of them."""
    folder, beyond_folder = tmp_path_factory.mktemp("near"), tmp_path_factory.mktemp("beyond")
    reverse, chained, beyond = hold_port(), hold_port(), hold_port()
    target = f"reverse:https://localhost:{upstream.provider.port}"
    beyond_arguments = (
        *("--mode", "regular", "--mode", f"{target}@{beyond}"),
        *("--set", f"ssl_verify_upstream_trusted_ca={upstream.ca}"),
    )
    with running_proxy(beyond_folder, *beyond_arguments, env=environment(beyond_folder)) as other:
        arguments = (
            *("--mode", "regular"),
            *("--mode", f"{target}@{reverse}"),
            *("--mode", f"upstream:{other.url}@{chained}"),
        )
        with running_addon(folder, upstream, *arguments, config=RESEND, trust=(other.ca,)) as live:
            yield Ways(
                live,
                f"https://localhost:{reverse}{CHAT}",
                f"http://127.0.0.1:{chained}",
                f"https://localhost:{beyond}{CHAT}",
            )


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory, upstream: Upstream) -> Iterator[Live]:
    """Run the addon alone, which is all that most tests need."""
    with running_addon(tmp_path_factory.mktemp("alone"), upstream, config=RESEND) as running:
        yield running


def ask(task: str, turns: int = SHORT, text: str = TEXT, **fields: object) -> bytes:
    request = conversation(turns, text, **fields)
    request["messages"][0]["content"] = task
    return encoded(request)


def send(live: Live, task: str, body: bytes, **headers: str) -> httpx.Response:
    named = {"user-agent": name_client(task), **headers}
    with live.client() as client:
        return client.post(
            url_of(live),
            content=body,
            headers={name.replace("_", "-"): value for name, value in named.items()},
        )


def url_of(live: Live) -> str:
    return f"https://localhost:{live.upstream.provider.port}{CHAT}"


def find_arrived(live: Live, task: str) -> list[bytes]:
    """Return the bodies of the requests with a task, as they arrived."""
    told = live.upstream.provider.requests
    return [each.body for each in told if each.request["messages"][0]["content"] == task]


def find_records(live: Live, task: str, count: int) -> list[dict[str, Any]]:
    """Return the records of the requests with a task, once there are so many."""
    name = name_client(task)
    return eventually(
        lambda: (
            found
            if len(found := [r for r in live.records() if r["client"] == name]) == count
            else None
        )
    )


def name_client(task: str) -> str:
    return re.sub(r"\W+", "-", task)


def find_outcome(record: dict[str, Any]) -> tuple[object, ...]:
    return record["status"], record["resent"], record["masked"], record["kept"]


WHOLE = (200, "accepted", 0, {"refused": SHORT})
WHOLE_LATER = (200, None, 0, {"refused": LONG})


@pytest.mark.smoke
def test_a_conversation_that_is_refused_masked_goes_out_whole_from_then_on(live: Live) -> None:
    task = "Go on."
    early, late = ask(task), ask(task, LONG)
    assert [ANSWER] * 2 == [read_answer(send(live, task, body)) for body in (early, late)]
    assert [masked(early), early, late] == find_arrived(live, task)
    first, second = find_records(live, task, 2)
    assert [WHOLE, WHOLE_LATER] == [find_outcome(first), find_outcome(second)]
    for record in (first, second):
        assert record["request_tokens_before"] == record["request_tokens_after"]
        assert record["cost_tokens_before"] == record["cost_tokens_after"] > 0
        assert record["bytes_before"] == record["bytes_after"]
    assert first["conversation"] == second["conversation"]
    eventually(lambda: "and took it as the agent wrote it" in live.proxy.log or None)


def read_answer(response: httpx.Response) -> str:
    return str(response.json()["choices"][0]["message"]["content"])


def test_switched_off_the_same_conversation_is_masked_again(live: Live) -> None:
    task = "Go on, then stop."
    send(live, task, ask(task))
    live.configure(ON)
    response = send(live, task, ask(task, LONG))
    live.configure(RESEND)
    assert (400, masked(ask(task, LONG))) == (response.status_code, find_arrived(live, task)[-1])


def test_another_credential_has_a_conversation_of_its_own(live: Live) -> None:
    task, body = "Go on, both of you.", ask("Go on, both of you.")
    for key in ("one", "other"):
        send(live, task, body, authorization=f"Bearer secret-{key}")
    assert [masked(body), body] * 2 == find_arrived(live, task)
    assert "secret-" not in f"{live.proxy.log}{find_records(live, task, 2)}"


def test_a_stream_is_answered_whole(live: Live) -> None:
    task = "Stream it."
    body = ask(task, stream=True, stream_options={"include_usage": True})
    response = send(live, task, body)
    said = [json.loads(line[6:]) for line in response.text.splitlines() if line[6:7] == "{"]
    assert ANSWER == "".join(
        each["choices"][0]["delta"].get("content") or "" for each in said if each["choices"]
    )
    assert "text/event-stream" in response.headers["content-type"]
    assert [masked(body), body] == find_arrived(live, task)
    (record,) = find_records(live, task, 1)
    assert (WHOLE, True) == (find_outcome(record), record["prompt_tokens"] is not None)


def test_what_is_compressed_is_sent_again_as_it_came(live: Live) -> None:
    task = "Use gzip."
    body = gzip.compress(ask(task), mtime=0)
    response = send(live, task, body, content_encoding="gzip")
    first, second = find_arrived(live, task)
    assert (ANSWER, body) == (read_answer(response), second)
    assert masked(ask(task)) == gzip.decompress(first)


@pytest.mark.parametrize(
    ("status", "tries"),
    [
        pytest.param(400, 1, id="a refusal is final"),
        pytest.param(429, 2, id="a limit says nothing of the request"),
        pytest.param(503, 2, id="nor does a provider that is down"),
    ],
)
def test_a_request_that_is_not_taken_whole_either(live: Live, status: int, tries: int) -> None:
    """The client gets what it would get without us, and masking goes on."""
    task = f"Answer {status}."
    early, late = ask(task), ask(task, LONG)
    responses = [send(live, task, body).status_code for body in (early, late)]
    assert [status, 400 if tries == 1 else status] == responses
    again = [late] if tries == 2 else []
    assert [masked(early), early, masked(late), *again] == find_arrived(live, task)
    first, second = find_records(live, task, 2)
    kept = {"in_window": 2}
    assert (status, "refused", SHORT - 2, kept) == find_outcome(first)
    assert (responses[1], "refused" if tries == 2 else None) == find_outcome(second)[:2]
    assert first["conversation"] is None


def test_a_provider_that_hangs_up_leaves_the_first_answer(live: Live) -> None:
    task = "It dies."
    directly = send_past(live, masked(ask(task)))
    response = send(live, task, ask(task))
    assert (400, directly.json()) == (response.status_code, response.json())
    (record,) = find_records(live, task, 1)
    assert (400, "refused") == find_outcome(record)[:2]


def send_past(live: Live, body: bytes) -> httpx.Response:
    with live.client(proxy=None) as client:
        return client.post(url_of(live), content=body)


Post = Callable[[Ways, bytes], httpx.Response]


def over_http2(ways: Ways, body: bytes) -> httpx.Response:
    with ways.live.client(http2=True) as client:
        return client.post(ways.beyond, content=body)


def to_a_reverse_proxy(ways: Ways, body: bytes) -> httpx.Response:
    with ways.live.client(proxy=None) as client:
        return client.post(ways.reverse, content=body)


def through_another_proxy(ways: Ways, body: bytes) -> httpx.Response:
    with ways.live.client(proxy=ways.chained) as client:
        return client.post(url_of(ways.live), content=body)


def by_a_base_url_through_another_proxy(ways: Ways, body: bytes) -> httpx.Response:
    server = Server("https", "localhost", ways.live.upstream.provider.port, CHAT)
    with ways.live.client(proxy=None) as client:
        return client.post(behind(read_address(ways.chained), server), content=body)


@pytest.mark.parametrize(
    "post",
    [
        *(over_http2, to_a_reverse_proxy, through_another_proxy),
        by_a_base_url_through_another_proxy,
    ],
)
def test_a_request_is_sent_again_the_way_it_went(ways: Ways, post: Post) -> None:
    task = f"Go on, {post.__name__}."
    body = ask(task)
    assert ANSWER == read_answer(post(ways, body))
    assert [masked(body), body] == find_arrived(ways.live, task)


def test_only_what_was_masked_is_sent_again(live: Live) -> None:
    task = "Answer 400 to what is short."
    body = ask(task, 2)
    assert (400, [body]) == (send(live, task, body).status_code, find_arrived(live, task))


def test_what_does_not_fit_the_model_stays_masked(live: Live) -> None:
    task = "Too much to read."
    body = ask(task, text=TEXT * 15, model="gpt-3.5-turbo")
    assert (400, [masked(body)]) == (send(live, task, body).status_code, find_arrived(live, task))


class InTurn(list[bytes | threading.Event]):
    """An answer of the sink that is another at each request."""

    def __init__(self, *answers: Answer) -> None:
        super().__init__()
        self._answers = [*answers]

    def __iter__(self) -> Iterator[bytes | threading.Event]:
        return iter(self._answers.pop(0))


@contextlib.contextmanager
def asking(live: Live, path: str) -> Iterator[ssl.SSLSocket]:
    """Send a request to the sink that is refused, wait until it is sent again, and hang up."""
    body, target = ask(path), f"{HOST}:{live.sink.port}"
    head = f"POST {path} HTTP/1.1\r\nHost: {target}\r\nContent-Length: {len(body)}\r\n\r\n"
    with live.tunnel() as connection:
        tls = ssl_context(live.bundle).wrap_socket(connection, server_hostname=HOST)
        tls.sendall(head.encode() + body)
        sent = (masked(body), body)
        eventually(lambda: tuple(h.body for h in live.sink.heard if h.path == path) == sent or None)
        yield tls
        tls.close()


def test_a_request_beside_the_first_is_sent_again_once_that_was_taken(live: Live) -> None:
    path, first_was_taken = f"/beside{CHAT}", threading.Event()
    refused, taken = answer(status=400), answer(b'{"taken": 1}')
    live.sink.answers[path] = InTurn([first_was_taken, *refused], refused, taken, taken)
    body = ask("Both at once.")

    def post() -> httpx.Response:
        with live.client() as client:
            return client.post(live.sink.url(path), content=body)

    def find_heard() -> list[bytes]:
        return [heard.body for heard in live.sink.heard if heard.path == path]

    with concurrent.futures.ThreadPoolExecutor(1) as thread:
        slow = thread.submit(post)
        eventually(lambda: find_heard() or None)
        assert 200 == post().status_code
        first_was_taken.set()
        assert 200 == slow.result().status_code
    assert [masked(body), masked(body), body, body] == find_heard()


def test_a_client_that_leaves_ends_what_is_sent_again(live: Live) -> None:
    path, never = f"/leaves{CHAT}", threading.Event()
    live.sink.answers[path] = InTurn(answer(status=400), [never])
    with asking(live, path):
        assert count_open(live) > 0
    record = live.record(path)
    assert (400, "refused", None) == (record["status"], record["resent"], record["error"])
    eventually(lambda: None if count_open(live) else True)
    never.set()


def count_open(live: Live) -> int:
    """Return how many of the proxy's connections to servers are open."""
    log = live.proxy.log
    return log.count("server connect localhost") - log.count("server disconnect localhost")


def test_the_end_of_the_proxy_ends_what_is_sent_again(upstream: Upstream, tmp_path: Path) -> None:
    path, never = f"/ends{CHAT}", threading.Event()
    upstream.sink.answers[path] = InTurn(answer(status=400), [never])
    arguments = waits_for_records(tmp_path)
    with (
        contextlib.ExitStack() as clients,
        running_addon(tmp_path, upstream, *arguments, config=RESEND) as it,
    ):
        clients.enter_context(asking(it, path))
    never.set()
    (record,) = it.records()
    assert ("proxy ended", None) == (record["error"], record["resent"])
    assert "Traceback" not in it.proxy.log


def test_a_recording_holds_what_was_taken(upstream: Upstream, tmp_path: Path) -> None:
    recording = tmp_path / "session.flow"
    with running_addon(tmp_path, upstream, "-w", str(recording), config=RESEND) as live:
        taken, refused = ask("Record it."), ask("Record it, and answer 400.")
        for body in (taken, refused):
            send(live, "Record it.", body)
    flows = list(read_flows(recording))
    assert [taken, masked(refused)] == [flow.request.raw_content for flow in flows]
    assert "sent as the client wrote it, after a 400 to the masked request" == flows[0].comment
    first, second = open_recording(recording).requests()
    assert (taken, refused) == (first.body, second.body)
    assert (True, False) == (first.usage is not None, second.usage is not None)
    assert (None, "status 400") == (first.passed_over, second.passed_over)
