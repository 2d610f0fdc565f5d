"""Where requests go: by the proxy's own base URLs, and by way of a proxy behind ours."""

import asyncio
from collections.abc import Callable
from typing import cast

import orjson
import pytest
from mitmproxy import http
from mitmproxy.addons.proxyserver import Proxyserver
from mitmproxy.proxy.mode_specs import ProxyMode
from mitmproxy.test import taddons, tflow

from addon.proxy.routes import BaseUrlRouter, UpstreamRoutes
from addon.proxy.upstream import Upstream, read_upstream

# Who may use the proxy's own base URLs, and what becomes of the request.


PATH = "/to/https/[2001:db8::1]:8443/v1?x=y"


def lead(
    change: Callable[[http.HTTPFlow], None],
    mode: str = "regular",
    hook: Callable[[BaseUrlRouter, http.HTTPFlow], None] = BaseUrlRouter.requestheaders,
) -> http.HTTPFlow:
    """Return a request to a base URL of a proxy that listens, after the hook."""

    async def ask() -> http.HTTPFlow:
        server = Proxyserver()
        with taddons.context(server) as context:
            context.configure(server, listen_host="127.0.0.1", listen_port=0, server=True)
            assert await server.setup_servers()
            _, port = server.listen_addrs()[0][:2]
            flow = tflow.tflow(req=http.Request.make("GET", f"http://127.0.0.1:{port}{PATH}"))
            flow.server_conn.address = None
            flow.client_conn.sockname = ("127.0.0.1", port)
            flow.client_conn.proxy_mode = ProxyMode.parse(mode)
            change(flow)
            hook(BaseUrlRouter(), flow)
            await server.servers.update([])
            return flow

    return asyncio.run(ask())


@pytest.mark.parametrize("name", ["127.0.0.1", "localhost", "LOCALHOST.", "::1", "127.0.0.9"])
def test_a_request_becomes_one_to_the_server(name: str) -> None:
    flow = lead(lambda flow: setattr(flow.request, "host", name))
    request = flow.request
    assert flow.response is None
    assert ("https", "2001:db8::1", 8443, "/v1?x=y") == (
        *(request.scheme, request.host, request.port, request.path),
    )
    assert ("[2001:db8::1]:8443", "relative") == (request.host_header, request.first_line_format)


@pytest.mark.parametrize(("is_through_one", "status"), [(False, 200), (True, 400)])
def test_a_tunnel_to_our_own_port_is_opened_at_once_and_none_through_it(
    is_through_one: bool, status: int
) -> None:
    """Hundreds, one within the other, would fill the log and the stack."""

    def come(flow: http.HTTPFlow) -> None:
        if is_through_one:
            flow.server_conn.address = ("127.0.0.1", flow.request.port)

    response = lead(come, hook=BaseUrlRouter.http_connect).response
    assert response is not None
    assert status == response.status_code


ELSEWHERE: dict[str, Callable[[http.HTTPFlow], None]] = {
    "another host": lambda flow: setattr(flow.request, "host", "192.0.2.1"),
    "another name": lambda flow: setattr(flow.request, "host", "localhost.test"),
    "another port": lambda flow: setattr(flow.request, "port", flow.request.port - 1),
    "in reverse mode": lambda flow: setattr(
        flow.client_conn, "proxy_mode", ProxyMode.parse("reverse:http://127.0.0.1:1")
    ),
}


@pytest.mark.parametrize("change", ELSEWHERE.values(), ids=ELSEWHERE)
def test_what_is_asked_for_elsewhere_is_left_alone(
    change: Callable[[http.HTTPFlow], None],
) -> None:
    flow = lead(change)
    assert (None, PATH) == (flow.response, flow.request.path)


def test_a_client_of_another_machine_is_refused() -> None:
    flow = lead(lambda flow: setattr(flow.client_conn, "sockname", ("192.0.2.1", 8080)))
    response = cast(http.Response, flow.response)
    error = orjson.loads(response.content or b"")["error"]
    assert (403, "permission_error") == (response.status_code, error["type"])
    assert error["message"].endswith("this is for clients on this machine")


# The ways of requests that follow each other on one connection of a client.


VIA = ("http", ("corp", 3128))


@pytest.fixture
def upstream() -> Upstream:
    found = read_upstream({"https_proxy": "me:pw@corp:3128", "no_proxy": "near", "http_proxy": "x"})
    assert found is not None
    return found


def ask(url: str, flow: http.HTTPFlow | None = None) -> http.HTTPFlow:
    """Return a plain request as it arrives at the proxy, on the connection of another if given."""
    asked = tflow.tflow(
        req=http.Request.make("GET", url), client_conn=flow.client_conn if flow else None
    )
    asked.client_conn.tls = False
    asked.client_conn.proxy_mode = ProxyMode.parse("upstream:http://corp:3128")
    asked.request.authority = f"{asked.request.host}:{asked.request.port}"
    if flow is not None:
        asked.server_conn = flow.server_conn
    else:
        asked.server_conn.state = asked.server_conn.state.CLOSED
    return asked


def test_each_request_on_a_connection_goes_its_own_way(upstream: Upstream) -> None:
    routes, flow, ways = UpstreamRoutes(upstream), None, []
    for host in ("near", "far", "near", "far"):
        flow = ask(f"http://{host}/v1", flow)
        routes.requestheaders(flow)
        is_told = "Proxy-Authorization" in flow.request.headers
        ways.append((flow.server_conn.via, flow.request.first_line_format, is_told))
    direct, behind = (None, "relative", False), (VIA, "absolute", True)
    assert [direct, behind, direct, behind] == ways


def test_a_request_in_a_tunnel_goes_where_the_tunnel_does(upstream: Upstream) -> None:
    for is_tls in (True, False):
        flow = ask("http://far/v1")
        flow.client_conn.tls = is_tls
        if not is_tls:
            flow.request.authority = ""
        flow.server_conn.via = None
        UpstreamRoutes(upstream).requestheaders(flow)
        assert flow.server_conn.via is None
        assert "Proxy-Authorization" not in flow.request.headers


def test_in_another_mode_nothing_is_changed(upstream: Upstream) -> None:
    flow = ask("http://near/v1")
    flow.client_conn.proxy_mode = ProxyMode.parse("regular")
    UpstreamRoutes(upstream).requestheaders(flow)
    assert "absolute" == flow.request.first_line_format
