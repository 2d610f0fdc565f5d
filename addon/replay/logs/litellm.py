"""Where LiteLLM reaches a model, for agents that speak to their providers by it.

A model is named `PROVIDER/MODEL` there, and the request has the second part alone
(https://docs.litellm.ai/docs/providers).
"""

from urllib.parse import urlsplit

_HOSTS = {
    "openai": "api.openai.com",
    "anthropic": "api.anthropic.com",
    "gemini": "generativelanguage.googleapis.com",
    "vertex_ai": "aiplatform.googleapis.com",
    "openrouter": "openrouter.ai",
    "deepseek": "api.deepseek.com",
    "moonshot": "api.moonshot.ai",
    "minimax": "api.minimax.io",
    "zai": "api.z.ai",
    "xai": "api.x.ai",
    "mistral": "api.mistral.ai",
    "groq": "api.groq.com",
    "cerebras": "api.cerebras.ai",
    "together_ai": "api.together.xyz",
    "fireworks_ai": "api.fireworks.ai",
}
"""The hosts of LiteLLM's providers, by its names."""

_OTHERS = frozenset(
    ("azure", "bedrock", "ollama", "ollama_chat", "hosted_vllm", "litellm_proxy", "lm_studio")
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
