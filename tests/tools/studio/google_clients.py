"""The clients that can be recorded and speak Gemini, Code Assist or Ollama's own API."""

import json
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

_GEMINI = "gemini-3-pro-preview"

_GEMINI_KEY = {"GEMINI_API_KEY": FAKE_KEY}

_SDK = Client(
    registry="pypi",
    packages=("google-genai==3.4.0",),
    command=("{package}/bin/python", str(AGENT_FOLDER / "google_agent.py"), "{task}"),
    environment=ROOT | _GEMINI_KEY,
    shell=Tool("shell", COMMAND),
    read=Tool("read_file", {"path": "{what}"}),
    scenario=TOUR,
)

_CLI = Client(
    registry="npm",
    packages=("@google/gemini-cli@0.61.0", "node@22"),
    command=(
        "{package}/node_modules/.bin/node",
        "{package}/node_modules/@google/gemini-cli/bundle/gemini.js",
        *("--yolo", "--model", _GEMINI, "-p", "{task}"),
    ),
    environment=_GEMINI_KEY | {"GEMINI_CLI_TRUST_WORKSPACE": "true"},
    files={
        ".gemini/settings.json": json.dumps(
            {
                "security": {"auth": {"selectedType": "gemini-api-key"}},
                # After 30 turns it would ask a model, again and again, whether it goes in circles.
                "model": {"disableLoopDetection": True},
            }
        )
    },
    shell=Tool("run_shell_command", COMMAND | {"description": "Runs a command"}),
    read=Tool("read_file", {"file_path": "{work}/{what}"}),
    edit=Tool(
        "replace",
        {
            "file_path": "{work}/{what}",
            "old_string": "{old}",
            "new_string": "{new}",
            "instruction": "Changes the file",
        },
    ),
    foreign=(
        r"(Successfully modified file): ",
        r"replacements\)\. (Here is the updated code):",
        r"(Command injection detected: [^\n]*)",
    ),
    volatile={r"Process Group PGID: \d+": "Process Group PGID: 1000"},
    scenario=LONG,
)

GEMINI_CLIENTS: dict[str, Client] = {
    "gemini-cli": _CLI,
    "gemini-cli-code-assist": replace(
        _CLI,
        scenario=TOUR,
        command=(*_CLI.command[:2], "--yolo", "--model", "gemini-3-flash", "-p", "{task}"),
        environment={
            "GEMINI_CLI_TRUST_WORKSPACE": "true",
            "GOOGLE_GENAI_USE_GCA": "true",
            "GOOGLE_CLOUD_ACCESS_TOKEN": FAKE_KEY,
        },
        files={
            ".gemini/settings.json": json.dumps(
                {"security": {"auth": {"selectedType": "oauth-personal"}}}
            )
        },
    ),
    "google-genai": _SDK,
    "google-genai-stream": replace(_SDK, command=(*_SDK.command[:2], "--stream", "{task}")),
    "opencode-google": replace(
        opencode("google/gemini-3.1-pro-preview", {"GOOGLE_GENERATIVE_AI_API_KEY": FAKE_KEY}),
        edit=OPENCODE_EDIT,
        foreign=(REMINDER,),
        scenario=LONG,
    ),
    "pi-google": pi("google", _GEMINI, _GEMINI_KEY),
}
"""Those that speak Gemini; Code Assist has it one level deeper."""

OLLAMA_CLIENTS: dict[str, Client] = {
    "ollama": Client(
        registry="pypi",
        packages=("ollama==0.6.3",),
        command=(
            "{package}/bin/python",
            str(AGENT_FOLDER / "ollama_agent.py"),
            "--stream",
            "{task}",
        ),
        environment=ROOT | {"OLLAMA_HOST": "https://ollama.com", "OLLAMA_API_KEY": FAKE_KEY},
        shell=Tool("shell", COMMAND),
        read=Tool("read_file", {"path": "{what}"}),
        scenario=TOUR,
    ),
}
"""Those that speak Ollama's own API, here to its servers."""
