"""The proxy's own name: `GET http://obsmask.test/health`, sent through it, says that it is there.

`.test` is a name that goes to nobody (RFC 6761): typed elsewhere, it leads nowhere. That a port is
listened on proves nothing, because mitmdump can run without the addon.
"""

from collections.abc import Mapping

import orjson
from mitmproxy import http

NAME = "obsmask.test"
PATH = "/health"


def is_for_proxy(request: http.Request) -> bool:
    """Whether a request is sent to the proxy itself. None of these is ever sent on.

    Whom it is sent to counts, whatever its `Host` says (RFC 9112, 3.2.2).
    """
    return request.host.lower().rstrip(".") == NAME


def answer(request: http.Request, health: Mapping[str, object]) -> http.Response:
    """Return the answer to such a request; only GET and HEAD of `PATH` have one.

    `/` leads to the page, which is elsewhere: mitmproxy would hold its events back.
    """
    headers = {
        "content-type": "application/json",
        "cache-control": "no-store",
        "x-content-type-options": "nosniff",
    }
    path, page = request.path.partition("?")[0], health["page"]
    if path == "/" and page is not None:
        return http.Response.make(307, b"", {**headers, "location": str(page)})
    if path != PATH:
        return http.Response.make(404, b'{"error": "not found"}', headers)
    if request.method not in ("GET", "HEAD"):
        return http.Response.make(405, b"", {**headers, "allow": "GET, HEAD"})
    body = b"" if request.method == "HEAD" else orjson.dumps(health)
    return http.Response.make(200, body, headers)
