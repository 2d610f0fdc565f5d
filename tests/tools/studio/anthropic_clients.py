"""The clients that speak Anthropic's Messages."""

from dataclasses import replace

from tests.tools.studio.client import (
    AGENT_FOLDER,
    COMMAND,
    FAKE_KEY,
    LONG,
    OPENCODE_EDIT,
    REMINDER,
    ROOT,
    TOUR,
    Client,
    Tool,
    opencode,
    pi,
)

_CLAUDE = "claude-sonnet-4-5"

_BINDS = "claude-opus-5-5"
"""A model that binds what it thinks to all that stands before it."""

_ANTHROPIC_KEY = {"ANTHROPIC_API_KEY": FAKE_KEY}

_MESSAGES_SDK = Client(
    registry="pypi",
    packages=("anthropic==2.12.0",),
    command=("{package}/bin/python", str(AGENT_FOLDER / "messages_agent.py"), "{task}"),
    environment=ROOT | _ANTHROPIC_KEY,
    shell=Tool("shell", COMMAND),
    read=Tool("read_file", {"path": "{what}"}),
    scenario=TOUR,
)

_LANGCHAIN = replace(
    _MESSAGES_SDK,
    packages=("langchain-anthropic==1.7.7", "langchain"),
    command=("{package}/bin/python", str(AGENT_FOLDER / "langchain_agent.py"), "{task}"),
)

_CLAUDE_CODE = Client(
    registry="npm",
    packages=("@anthropic-ai/claude-code@2.1.330",),
    command=(
        *("{package}/node_modules/.bin/claude", "--dangerously-skip-permissions"),
        *("--model", _CLAUDE, "-p", "{task}"),
    ),
    environment={
        **_ANTHROPIC_KEY,
        "IS_SANDBOX": "1",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "CLAUDE_CODE_ATTRIBUTION_HEADER": "0",
    },
    shell=Tool("Bash", {"command": "{what}", "description": "Runs a command"}),
    read=Tool("Read", {"file_path": "{work}/{what}"}),
    edit=Tool("Edit", {"file_path": "{work}/{what}", "old_string": "{old}", "new_string": "{new}"}),
    foreign=(REMINDER, r"has been updated successfully\. \((.*?)\)"),
    scenario=LONG,
)

MESSAGES_CLIENTS: dict[str, Client] = {
    "anthropic": _MESSAGES_SDK,
    "langchain-anthropic": _LANGCHAIN,
    "langchain-anthropic-cache": replace(
        _LANGCHAIN, command=(*_LANGCHAIN.command[:2], "--cache", "{task}")
    ),
    "litellm-anthropic": replace(
        _MESSAGES_SDK,
        packages=("litellm==1.106.2", "mcp"),
        command=("{package}/bin/python", str(AGENT_FOLDER / "litellm_agent.py"), "{task}"),
        environment=ROOT | _ANTHROPIC_KEY | {"LITELLM_LOCAL_MODEL_COST_MAP": "True"},
    ),
    "claude-code": _CLAUDE_CODE,
    "claude-code-bound": replace(
        _CLAUDE_CODE,
        command=(*_CLAUDE_CODE.command[:3], _BINDS, *_CLAUDE_CODE.command[4:]),
        scenario=TOUR,
    ),
    "opencode-anthropic": replace(
        opencode(f"anthropic/{_CLAUDE}", _ANTHROPIC_KEY),
        edit=OPENCODE_EDIT,
        foreign=(REMINDER,),
        scenario=LONG,
    ),
    "pi-anthropic": pi("anthropic", _CLAUDE, _ANTHROPIC_KEY),
}
"""Those that speak Anthropic's Messages."""
