"""The fields of a record that say whether a request would fit its model without masking."""

from collections.abc import Mapping

from addon.stages import Answered
from masking.prices import fits_window


def describe_window(answered: Answered) -> Mapping[str, object]:
    """Return the model's window, and whether the request would fit it unmasked.

    What the provider counted of the prompt that was sent tells how many tokens the model makes.
    """
    rewritten, measured = answered.rewritten, answered.measured
    priced, received = rewritten.priced, rewritten.received
    window = priced.pricing.window if priced else None
    fields: dict[str, object] = {"model_window_tokens": window}
    if window is None or measured is None:
        return fields
    sizes, counted = measured.sizes, answered.usage and answered.usage.prompt
    whole = sizes.request_tokens_before
    if whole is None:
        return fields
    is_whole = rewritten.observed or not received.answers_masked
    sent = whole if is_whole else sizes.request_tokens_after
    if counted and sent:
        fits = fits_window(whole * counted / sent, window, counted=True)
    else:
        fits = fits_window(whole, window)
    return {**fields, "fits_unmasked": fits}
