"""What is known of those who sell a model's answers: a row each, from which all others draw.

What a token costs there is in the price list (`masking.prices`).
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from masking.wire import CHAT, GEMINI, MESSAGES, RESPONSES, WireFormat


class Vendor(NamedTuple):
    """A vendor, or one of its services.

    host: where it is reached.
    names: what agents call it in their logs.
    litellm: what LiteLLM calls it.
    varies: whether each user has a host of his own; `host` then stands for all of them.
    wire: the format in which agents speak to it.
    subscription: the path below which it serves subscribers alone; empty if it does not.
    family: the hosts that serve them, where there are several, as a pattern.
    variables: the variables that lead clients to another base URL, each with the path that they
        expect in it.
    answers: how the ids of its answers begin in the format of Messages.
    is_usual: whether clients ask it if they are not told whom to ask.
    quota: the header fields of an answer that tell a subscriber's quota, as a pattern: the `window`
        and the `field` of it.
    """

    host: str
    names: tuple[str, ...] = ()
    litellm: tuple[str, ...] = ()
    varies: bool = False
    wire: WireFormat = CHAT
    subscription: str = ""
    family: str = ""
    variables: Mapping[str, str] = MappingProxyType({})
    answers: str = ""
    is_usual: bool = False
    quota: str = ""


ANTHROPIC = Vendor(
    "api.anthropic.com",
    ("anthropic",),
    ("anthropic",),
    wire=MESSAGES,
    variables={"ANTHROPIC_BASE_URL": ""},
    answers="msg_",
    is_usual=True,
    quota=r"anthropic-ratelimit-unified-(?P<window>.+)-(?P<field>utilization|reset)",
)
OPENAI = Vendor(
    "api.openai.com",
    ("openai",),
    ("openai",),
    wire=RESPONSES,
    variables={"OPENAI_BASE_URL": "/v1", "OPENAI_API_BASE": "/v1"},
    is_usual=True,
)
CHATGPT = Vendor(
    "chatgpt.com",
    ("openai-codex",),
    ("chatgpt",),
    subscription="/",
    is_usual=True,
    quota=r"x-codex-(?P<window>(?:.+-)?(?:primary|secondary))"
    r"-(?P<field>used-percent|window-minutes|reset-at|reset-after-seconds)",
)

VENDORS: tuple[Vendor, ...] = (
    OPENAI,
    ANTHROPIC,
    Vendor(
        "generativelanguage.googleapis.com",
        ("google",),
        ("gemini",),
        wire=GEMINI,
        variables={"GOOGLE_GEMINI_BASE_URL": ""},
        is_usual=True,
    ),
    CHATGPT,
    Vendor(
        "cloudcode-pa.googleapis.com",
        ("google-gemini-cli",),
        subscription="/",
        is_usual=True,
    ),
    Vendor("openrouter.ai", ("openrouter",), ("openrouter",), is_usual=True),
    Vendor(
        "api.githubcopilot.com",
        ("github-copilot",),
        ("github_copilot",),
        subscription="/",
        family="*.githubcopilot.com",
    ),
    Vendor(
        "bedrock-runtime.us-east-1.amazonaws.com",
        litellm=("bedrock", "bedrock_converse"),
        varies=True,
        answers="msg_bdrk_",
    ),
    Vendor(
        "aiplatform.googleapis.com",
        ("google-vertex",),
        ("vertex_ai",),
        wire=GEMINI,
        answers="msg_vrtx_",
    ),
    Vendor("services.ai.azure.com", litellm=("azure_ai",), varies=True),
    Vendor("api.deepseek.com", ("deepseek",), ("deepseek",)),
    Vendor("api.x.ai", ("xai",), ("xai",)),
    Vendor("api.groq.com", ("groq",), ("groq",)),
    Vendor("api.mistral.ai", ("mistral",), ("mistral",)),
    Vendor("api.cerebras.ai", ("cerebras",), ("cerebras",)),
    Vendor("api.z.ai", ("zai", "zai-coding-plan"), ("zai",), subscription="/api/coding/"),
    Vendor("open.bigmodel.cn", subscription="/api/coding/"),
    Vendor("api.moonshot.ai", ("moonshotai",), ("moonshot",)),
    Vendor(
        "api.kimi.com",
        ("kimi-for-coding", "kimi-coding"),
        wire=MESSAGES,
        subscription="/coding/",
    ),
    Vendor("api.minimax.io", ("minimax",), ("minimax",), wire=MESSAGES),
    Vendor("api.together.xyz", ("togetherai",), ("together_ai",)),
    Vendor("api.fireworks.ai", ("fireworks-ai",), ("fireworks_ai",)),
    Vendor("opencode.ai", ("opencode",)),
    Vendor("portal.qwen.ai", subscription="/"),
    Vendor("api.portkey.ai", ("portkey",)),
    Vendor("router.requesty.ai", ("requesty",)),
    # Ollama, at home
    Vendor("localhost", varies=True, variables={"OLLAMA_HOST": "", "OLLAMA_API_BASE": ""}),
)
