"""What the core makes of a request, without a proxy, and without remembering anything."""

from addon.proxy.server import HOST
from masking.config import Settings
from masking.rewrite import read_request
from masking.window import price_boundary, price_request
from tests.support.priced import rewrite_request
from tests.tools.soak.talks import Kind


def mask(body: bytes, kind: Kind, settings: Settings) -> bytes:
    """Return a request as it is to leave for a provider on this machine."""
    prices = settings.price_settings
    request = read_request(body, kind.writer.wire, kind.path)
    pricing = price_request(prices, HOST, request.model, request.request)
    boundary = price_boundary(pricing, slides=prices.slides, marks=request.marks)
    return rewrite_request(request, settings.strategies, prices=boundary).body
