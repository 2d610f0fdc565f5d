"""A script for the recorder's own mitmdump: every request for the provider goes to loopback.

`mitmdump -s redirect.py --set provider=HOST:PORT --set connection_strategy=lazy` sends
api.openai.com to the scripted provider and keeps every other host out of reach. What it records
names api.openai.com.
"""

from mitmproxy import addonmanager, ctx, http

PROVIDER = "api.openai.com"


class Redirect:
    def load(self, loader: addonmanager.Loader) -> None:
        loader.add_option("provider", str, "", "Where the scripted provider listens.")

    def http_connect(self, flow: http.HTTPFlow) -> None:
        if flow.request.host != PROVIDER:
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
            flow.request.host, flow.request.port = PROVIDER, 443

    def error(self, flow: http.HTTPFlow) -> None:
        self.response(flow)


addons = [Redirect()]
