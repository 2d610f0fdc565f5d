"""A script for the recorders' own mitmdump: every request for the provider goes to loopback.

It is started with `--set provider=HOST:PORT --set connection_strategy=lazy`. Requests for
api.openai.com, or for the host in `provider_name`, go to the provider; others are refused. The
recording names the host that the client asked for.
"""

from mitmproxy import addonmanager, ctx, http

PROVIDER = "api.openai.com"
_PORTS = {"http": 80, "https": 443}


class Redirect:
    def load(self, loader: addonmanager.Loader) -> None:
        loader.add_option("provider", str, "", "Where the provider listens.")
        loader.add_option("provider_name", str, PROVIDER, "What clients call it.")

    def http_connect(self, flow: http.HTTPFlow) -> None:
        if flow.request.host != ctx.options.provider_name:
            flow.response = http.Response.make(403, b"The recorder goes nowhere else.\n")

    def requestheaders(self, flow: http.HTTPFlow) -> None:
        # Another address in server_connect would open a new connection for every request, and
        # the sixth on one client connection would wait for ever.
        self.http_connect(flow)
        if flow.response is None:
            host, port = ctx.options.provider.rsplit(":", 1)
            flow.request.host, flow.request.port = host, int(port)

    def response(self, flow: http.HTTPFlow) -> None:
        if f"{flow.request.host}:{flow.request.port}" == ctx.options.provider:
            flow.request.host = ctx.options.provider_name
            flow.request.port = _PORTS[flow.request.scheme]

    def error(self, flow: http.HTTPFlow) -> None:
        self.response(flow)


addons = [Redirect()]
