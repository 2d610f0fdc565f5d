"""The ways of requests that follow each other on one connection of a client."""

import pytest
from mitmproxy import http
from mitmproxy.proxy.mode_specs import ProxyMode
from mitmproxy.test import tflow

from addon.proxy.upstream import Upstream, read_upstream
from addon.proxy.upstream_routes import UpstreamRoutes

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
