"""What a request says about the client that sent it, and about who pays for it."""

import re

from addon.metrics.names import printable
from addon.shared.http_message import Request
from masking.patterns import is_named

_MAX_CHARS = 64
_PRODUCT = re.compile(r"(?P<name>[^\s()]+?)(?:/v?\d[^\s()]*)?(?=[\s()]|$)")
"""A name up to its version. Libraries put their language in place of it: `OpenAI/Python 2.54.0`."""

_SUBSCRIPTION_HEADERS = (
    ("authorization", re.compile(r"Bearer\s+sk-ant-oat", re.IGNORECASE)),  # claude.ai
    ("chatgpt-account-id", re.compile(r".")),
)
"""Headers that a client sends with a subscription, and how their value begins."""

_SUBSCRIPTION_PLACES = (
    ("chatgpt.com", "/"),
    ("cloudcode-pa.googleapis.com", "/"),
    ("*.githubcopilot.com", "/"),
    ("portal.qwen.ai", "/"),
    ("api.kimi.com", "/coding/"),
    ("api.z.ai", "/api/coding/"),
    ("open.bigmodel.cn", "/api/coding/"),
)
"""Hosts that serve subscribers alone, or do so below a path."""


def find_client(request: Request) -> str | None:
    """Return the product that a request's User-Agent names first, without its version."""
    product = _PRODUCT.match(request.headers.get("user-agent", ""))
    return printable(product["name"][:_MAX_CHARS]) if product else None


def is_subscription(request: Request) -> bool:
    """Whether a request's credential is a subscription's, by its form or by where it goes."""
    by_place = any(
        request.path.startswith(path) and is_named(request.pretty_host, (host,))
        for host, path in _SUBSCRIPTION_PLACES
    )
    return by_place or any(
        sign.match(value)
        for name, sign in _SUBSCRIPTION_HEADERS
        for value in request.headers.get_all(name)
    )
