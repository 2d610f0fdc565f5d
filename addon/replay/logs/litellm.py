"""Where LiteLLM reaches a model, for agents that speak to their providers by it.

A model is named `PROVIDER/MODEL` there, and the request has the second part alone
(https://docs.litellm.ai/docs/providers).
"""

from urllib.parse import urlsplit

from addon.vendors import VENDORS

_HOSTS = {name: vendor.host for vendor in VENDORS if not vendor.varies for name in vendor.litellm}
"""The hosts of LiteLLM's providers, by its names."""

_OTHERS = frozenset(
    (
        *(name for vendor in VENDORS if vendor.varies for name in vendor.litellm),
        *("azure", "ollama", "ollama_chat", "hosted_vllm", "litellm_proxy", "lm_studio"),
    )
)
"""Providers whose host differs from user to user."""

_BY_MODEL = (
    (("gpt-", "o1", "o3", "o4-", "chatgpt-"), "openai"),
    (("claude-",), "anthropic"),
)
"""The provider of a model that is named without one, by how its name begins."""


def find_host(model: str, base: object = None) -> str | None:
    """Return the host that a model is reached at; None if it cannot be told.

    base: the address that the user has set for it, if there is one.
    """
    if isinstance(base, str) and base:
        try:
            return urlsplit(base).hostname
        except ValueError:
            return None
    provider, slash, _ = model.partition("/")
    if not slash:
        provider = next((name for starts, name in _BY_MODEL if model.startswith(starts)), "")
    return _HOSTS.get(provider)


def find_model(model: str) -> str | None:
    """Return a model's name as it is sent: without the provider's; None if there is none."""
    provider, _, name = model.partition("/")
    return (name if provider in _HOSTS or provider in _OTHERS else model) or None
