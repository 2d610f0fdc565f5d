"""Context windows: how many tokens a model takes, and whether a prompt fits.

The price list says it, found by host and model as prices are, or else by the model's maker.
"""

from masking.measures.price_list_check import open_list
from masking.measures.price_settings import PriceSettings
from masking.measures.prices import list_names

_SHIPPED = PriceSettings()

_COUNTED = 2 / 3
"""The part of a window that a prompt may take, in the model's own tokens. The rest is the answer's:
GPT-5 takes 272,000 of 400,000 tokens, and agents ask Claude for 32,000 of 200,000."""

_ESTIMATED = 0.6
"""The same in tokens of o200k, of which other models make more: a quarter more is usual for code.
Where the answer has a sixth of the window, that may be 1.39 times as many."""


def find_window(
    host: str | None, model: str | None, settings: PriceSettings = _SHIPPED
) -> int | None:
    """Return the tokens of a model's context window, prompt and answer; None if it is not known.

    What the configuration says comes first, then what the list says about the host, then what it
    says about the model's maker. Raises ConfigError for a list that cannot be used, OSError for
    one that cannot be read.
    """
    own = (each.tokens for each in settings.windows if each.fits(host or "", model or ""))
    if (tokens := next(own, None)) is not None or not model:
        return tokens
    prices = open_list(settings.price_list)
    here = None if host is None else prices.find_window(host, model)
    names = () if here else dict.fromkeys(list_names(model))
    return here or next(filter(None, (prices.find_window(None, name) for name in names)), None)


def fits_window(tokens: float, window: int | None, *, counted: bool = False) -> bool:
    """Whether a prompt fits, with room for the answer; it does where the window is not known.

    `tokens` are o200k's, estimated or counted; if `counted`, they are the model's own.
    """
    return window is None or tokens <= window * (_COUNTED if counted else _ESTIMATED)
