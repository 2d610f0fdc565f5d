"""The clients that can be recorded, by name; what each field means, `client.py` says."""

import json
from dataclasses import replace

from tests.tools.studio.anthropic_clients import MESSAGES_CLIENTS
from tests.tools.studio.client import (
    AGENT_FOLDER,
    COMMAND,
    FAKE_KEY,
    LONG,
    ROOT,
    TOUR,
    Client,
    Tool,
    opencode,
)
from tests.tools.studio.google_clients import GEMINI_CLIENTS, OLLAMA_CLIENTS
from tests.tools.studio.responses_clients import RESPONSES_CLIENTS
from tests.tools.studio.scenario import read_scenario

_LONG_MODEL = "gpt-5.5"
"""A session as long as real ones does not fit into the window of gpt-4o."""


_OPENCODE_CONFIG = {
    "$schema": "https://opencode.ai/config.json",
    "autoupdate": False,
    "share": "disabled",
    "provider": {
        "scripted": {
            "npm": "@ai-sdk/openai-compatible",
            "name": "Scripted",
            "options": {
                "baseURL": "https://api.openai.com/v1",
                "apiKey": "{env:OPENAI_API_KEY}",
            },
            "models": {"gpt-4o": {"name": "gpt-4o"}},
        }
    },
}

_QWEN_SETTINGS = {"model": {"generationConfig": {"contextWindowSize": 272_000}}}
"""Without this, qwen-code takes the window for 131,072 tokens, and makes a summary early."""

_QWEN = Client(
    registry="npm",
    packages=("@qwen-code/qwen-code@0.15.10",),
    command=(
        *("{package}/node_modules/.bin/qwen", "--auth-type", "openai"),
        *("--exclude-tools", "agent,monitor,send_message,skill,task_stop,todo_write,web_fetch"),
        *("--yolo", "-p", "{task}"),
    ),
    environment={
        "OPENAI_BASE_URL": "https://api.openai.com/v1",
        "OPENAI_MODEL": "gpt-4o",
    },
    shell=Tool("run_shell_command", {"command": "{what}", "is_background": False}),
    read=Tool("read_file", {"file_path": "{work}/{what}"}),
    edit=Tool("edit", {"file_path": "{work}/{what}", "old_string": "{old}", "new_string": "{new}"}),
    volatile={r"Process Group PGID: \d+": "Process Group PGID: 1000"},
)

_CONTINUE_CONFIG = {
    "name": "scripted",
    "version": "1.0.0",
    "schema": "v1",
    "models": [
        {
            "name": "gpt-4o",
            "provider": "openai",
            "model": "gpt-4o",
            "apiKey": FAKE_KEY,
            "apiBase": "https://api.openai.com/v1",
            "roles": ["chat"],
        }
    ],
}

CLIENTS: dict[str, Client] = {
    "openai": Client(
        registry="pypi",
        packages=("openai>=1.60,<3",),
        module="openai",
        command=("{package}/bin/python", str(AGENT_FOLDER / "shell_agent.py"), "{task}"),
        environment=ROOT,
        shell=Tool("shell", COMMAND),
    ),
    "openai-stream": Client(
        registry="pypi",
        packages=("openai>=1.60,<3",),
        module="openai",
        command=(
            "{package}/bin/python",
            str(AGENT_FOLDER / "shell_agent.py"),
            "--stream",
            "{task}",
        ),
        environment=ROOT,
        shell=Tool("shell", COMMAND),
    ),
    "openai-questions": Client(
        registry="pypi",
        packages=("openai>=1.60,<3",),
        module="openai",
        command=("{package}/bin/python", str(AGENT_FOLDER / "shell_agent.py"), "--files", "{task}"),
        environment=ROOT,
        shell=Tool("shell", COMMAND),
        read=Tool("read_file", {"path": "{what}"}),
        scenario=read_scenario("questions"),
    ),
    "mini-swe-agent": Client(
        registry="pypi",
        packages=("mini-swe-agent==2.4.6", "mcp"),
        command=(
            *("{package}/bin/mini", "-y", "--exit-immediately"),
            *("-m", "openai/gpt-4o", "-t", "{task}"),
        ),
        environment={
            "MSWEA_CONFIGURED": "true",
            "MSWEA_COST_TRACKING": "ignore_errors",
            "LITELLM_LOCAL_MODEL_COST_MAP": "True",
        },
        shell=Tool("bash", COMMAND),
        last_command="echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT",
    ),
    "qwen-code": _QWEN,
    "qwen-code-long": replace(
        _QWEN,
        environment={
            "OPENAI_BASE_URL": "https://api.openai.com/v1",
            "OPENAI_MODEL": _LONG_MODEL,
        },
        files={".qwen/settings.json": json.dumps(_QWEN_SETTINGS)},
        scenario=LONG,
    ),
    "opencode": replace(
        opencode("scripted/gpt-4o"),
        files={".config/opencode/opencode.json": json.dumps(_OPENCODE_CONFIG)},
    ),
    "copilot": Client(
        registry="npm",
        packages=("@github/copilot@1.0.102", "node@24"),
        command=(
            "{package}/node_modules/.bin/node",
            "{package}/node_modules/@github/copilot/npm-loader.js",
            *("--allow-all-tools", "--allow-all-paths", "--no-auto-update", "-p", "{task}"),
        ),
        environment={
            "COPILOT_PROVIDER_BASE_URL": "https://api.openai.com/v1",
            "COPILOT_PROVIDER_API_KEY": FAKE_KEY,
            "COPILOT_MODEL": "gpt-4o",
        },
        shell=Tool("bash", COMMAND | {"description": "Runs a command"}),
        read=Tool("view", {"path": "{work}/{what}"}),
        foreign=(
            r"(Output too large to read at once \([\d.]+ KB\)\. Saved to): ",
            r"\n(Consider using tools [^\n]*)\n",
            r"\n(Preview \(first \d+ chars\)):",
        ),
        volatile={
            r"/tmp/\d+-copilot-tool-output-[\w-]+\.txt": "/scratch/copilot-tool-output.txt",
        },
        scenario=TOUR,
    ),
    "continue": Client(
        registry="npm",
        packages=("@continuedev/cli@1.5.47", "node@24"),
        command=(
            "{package}/node_modules/.bin/node",
            "{package}/node_modules/@continuedev/cli/dist/cn.js",
            *("--auto", "-p", "{task}"),
        ),
        files={".continue/config.yaml": json.dumps(_CONTINUE_CONFIG)},
        shell=Tool("Bash", COMMAND),
        read=Tool("Read", {"filepath": "{work}/{what}"}),
        scenario=TOUR,
    ),
    "qwen-code-tour": replace(
        _QWEN,
        packages=("@qwen-code/qwen-code@0.24.4", "node@24"),
        command=(
            "{package}/node_modules/.bin/node",
            "{package}/node_modules/@qwen-code/qwen-code/cli-entry.js",
            *_QWEN.command[1:],
        ),
        scenario=TOUR,
    ),
    **MESSAGES_CLIENTS,
    **GEMINI_CLIENTS,
    **OLLAMA_CLIENTS,
    **RESPONSES_CLIENTS,
}
"""The agents that talk to a model, by name."""

MCP_FILES = "mcp-files"
"""The client of an MCP server, which talks to no model."""

AGENTS = (*CLIENTS, MCP_FILES)
"""All that can be recorded."""
