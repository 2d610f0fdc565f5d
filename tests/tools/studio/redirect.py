"""A script for the recorders' own mitmdump: every request for the provider goes to loopback.

It is started with `--set provider=HOST:PORT --set connection_strategy=lazy`. Requests for the
vendors' hosts, or for the host in `provider_name`, go to the provider; others are refused. The
recording names the host that the client asked for.
"""

from mitmproxy import addonmanager, ctx, http

from tests.tools.provider.provider import VENDORS

_ASKED_FOR = "obsmask_asked_for"


class Redirect:
    def load(self, loader: addonmanager.Loader) -> None:
        loader.add_option("provider", str, "", "Where the provider listens.")
        loader.add_option("provider_name", str, "", "What clients call it, if it is no vendor.")

    def http_connect(self, flow: http.HTTPFlow) -> None:
        if flow.request.host not in (ctx.options.provider_name, *VENDORS):
            flow.response = http.Response.make(403, b"The recorder goes nowhere else.\n")

    def requestheaders(self, flow: http.HTTPFlow) -> None:
        # Another address in server_connect would open a new connection for every request, and
        # the sixth on one client connection would wait for ever.
        self.http_connect(flow)
        if flow.response is None:
            host, port = ctx.options.provider.rsplit(":", 1)
            flow.metadata[_ASKED_FOR] = flow.request.host, flow.request.port
            flow.request.host, flow.request.port = host, int(port)

    def response(self, flow: http.HTTPFlow) -> None:
        if _ASKED_FOR in flow.metadata:
            flow.request.host, flow.request.port = flow.metadata.pop(_ASKED_FOR)

    def error(self, flow: http.HTTPFlow) -> None:
        self.response(flow)


addons = [Redirect()]
