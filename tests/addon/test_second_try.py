"""A request that is sent a second time: it has an end, whatever the server does."""

import asyncio

import pytest
from mitmproxy import http
from mitmproxy.addons.proxyserver import Proxyserver
from mitmproxy.connection import Server
from mitmproxy.test import taddons, tflow

from addon.proxy.resend import SecondTries, SecondTry
from addon.request import name_betas
from tests.support.marks import as_one_test


def make_flow(port: int) -> http.HTTPFlow:
    flow = tflow.tflow(server_conn=Server(address=("127.0.0.1", port)))
    flow.request.headers["content-length"] = "5"
    return flow


async def send(answer: bytes | None, seconds: float = 600.0) -> tuple[int | None, bytes | None]:
    """Send a request to a server that says this and hangs up, or says nothing.

    Returns the status and the body of its answer.
    """
    left = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"own bytes")
        writer.write(answer or b"")
        if answer is None:
            await reader.read()
        writer.close()
        left.set()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    with taddons.context(Proxyserver()) as context:
        tried = SecondTry(make_flow(port), b"own bytes", context.options)
        response = await tried.send(seconds)
    await left.wait()
    server.close()
    return tried.status, response.raw_content if response else None


HEAD = b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\n"


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        pytest.param(HEAD + b"Yes.", (200, b"Yes."), id="an answer"),
        pytest.param(HEAD + b"Ye", (200, None), id="an answer that is cut off"),
        pytest.param(b"", (None, None), id="a server that hangs up"),
        pytest.param(b"nonsense\r\n\r\n", (None, None), id="a server that says nonsense"),
    ],
)
def test_what_comes_of_it(answer: bytes, expected: tuple[int | None, bytes | None]) -> None:
    assert expected == asyncio.run(send(answer))


@as_one_test
@pytest.mark.parametrize(
    ("status", "sent"),
    [
        pytest.param(200, b"own bytes", id="taken"),
        pytest.param(204, b"own bytes", id="taken, with nothing to say"),
        pytest.param(302, b"masked", id="sent elsewhere"),
        pytest.param(400, b"masked", id="refused"),
        pytest.param(503, b"masked", id="failed"),
    ],
)
def test_a_flow_has_the_body_that_was_taken(status: int, sent: bytes) -> None:
    async def send_again() -> http.HTTPFlow:
        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readuntil(b"own bytes")
            writer.write(b"HTTP/1.1 %d Said\r\ncontent-length: 0\r\n\r\n" % status)
            writer.close()

        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        flow = make_flow(server.sockets[0].getsockname()[1])
        flow.request.raw_content = b"masked"
        with taddons.context(Proxyserver()):
            assert status == await SecondTries().send(flow, b"own bytes", is_own=True)
        server.close()
        return flow

    flow = asyncio.run(send_again())
    assert flow.response is not None
    assert (status, sent) == (flow.response.status_code, flow.request.raw_content)


def test_a_server_that_says_nothing_is_not_waited_for_without_end() -> None:
    assert (None, None) == asyncio.run(send(None, seconds=0.2))


def test_nobody_may_be_there() -> None:
    async def send_to_nobody() -> http.Response | None:
        with taddons.context(Proxyserver()) as context:
            return await SecondTry(make_flow(1), b"own bytes", context.options).send()

    assert asyncio.run(send_to_nobody()) is None


def test_a_fault_of_mitmproxy_ends_it(caplog: pytest.LogCaptureFixture) -> None:
    async def send_without_options() -> http.Response | None:
        with taddons.context() as context:
            return await SecondTry(make_flow(1), b"own bytes", context.options).send()

    assert asyncio.run(send_without_options()) is None
    assert "mitmproxy has crashed" in caplog.text


@pytest.mark.parametrize("betas", [("one", "two"), ()])
def test_it_goes_out_with_the_betas_that_the_client_has_named(betas: tuple[str, ...]) -> None:
    async def receive() -> bytes:
        received = asyncio.Queue[bytes]()

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            received.put_nowait(await reader.readuntil(b"own bytes"))
            writer.write(HEAD + b"Yes.")
            writer.close()

        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        flow = make_flow(server.sockets[0].getsockname()[1])
        flow.request.headers["anthropic-beta"] = "one,ours"
        with taddons.context(Proxyserver()) as context:
            await SecondTry(flow, b"own bytes", context.options, betas).send()
        server.close()
        return await received.get()

    head, body = asyncio.run(receive()).split(b"\r\n\r\n")
    named = [line for line in head.split(b"\r\n") if line.startswith(b"anthropic-beta")]
    assert [f"anthropic-beta: {beta}".encode() for beta in betas] == named
    assert b"content-length: 9" in head.split(b"\r\n")
    assert b"own bytes" == body


@as_one_test
@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param([], ["new"], id="none"),
        pytest.param(["a,b"], ["a,b,new"], id="some"),
        pytest.param(["a", "b"], ["a", "b,new"], id="in two fields"),
        pytest.param(["a, new ,b"], ["a, new ,b"], id="it is there"),
        pytest.param([""], ["new"], id="an empty one"),
    ],
)
def test_a_beta_is_named_once(before: list[str], after: list[str]) -> None:
    assert after == [*name_betas(before, ["new"])]
