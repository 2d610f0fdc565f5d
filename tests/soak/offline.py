"""What the core makes of a request, without a proxy, and without remembering anything."""

from dataclasses import replace

from addon.proxy.launch import HOST
from masking.config import Settings
from masking.prices import find_pricing
from masking.rewrite import change_request, decode_request, read_request
from masking.strategies.policy import apply_pricing
from tests.soak.talks import Kind


def mask(body: bytes, kind: Kind, settings: Settings) -> bytes:
    """Return a request as it is to leave for a provider on this machine."""
    wire, path, prices = kind.writer.wire, kind.path, settings.price_settings
    document = decode_request(body)
    marks, model = wire.find_marks(document), wire.find_model(document, path)
    lifetime = marks.last_lifetime
    pricing = find_pricing(prices, HOST, model, is_marked=marks.are_there, lifetime=lifetime)
    policy = apply_pricing(settings.policy, pricing, slides=prices.slides, marks=marks)
    strategies = replace(settings.strategies, schema1=policy)
    return change_request(body, read_request(body, wire, path), strategies).body
