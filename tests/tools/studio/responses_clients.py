"""The clients that can be recorded and speak OpenAI's Responses."""

from dataclasses import replace

from tests.tools.studio.client import (
    AGENT_FOLDER,
    COMMAND,
    FAKE_KEY,
    REMINDER,
    ROOT,
    TOUR,
    Client,
    Tool,
    opencode,
    pi,
)

_SDK = Client(
    registry="pypi",
    packages=("openai==2.54.0",),
    command=("{package}/bin/python", str(AGENT_FOLDER / "responses_agent.py"), "{task}"),
    environment=ROOT,
    shell=Tool("shell", COMMAND),
    read=Tool("read_file", {"path": "{what}"}),
    scenario=TOUR,
)

_ID = "[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"

_CODEX = Client(
    registry="npm",
    packages=("@openai/codex@0.169.0",),
    command=(
        *("{package}/node_modules/.bin/codex", "exec", "--skip-git-repo-check"),
        *("--dangerously-bypass-approvals-and-sandbox", "-m", "gpt-5.5", "{task}"),
    ),
    environment={"CODEX_API_KEY": FAKE_KEY},
    shell=Tool("exec_command", {"cmd": "{what}"}),
    volatile={
        _ID: "00000000-0000-7000-8000-000000000000",
        r'"create_time":[\d.]+': '"create_time":1735689600.5',
        r"Chunk ID: [0-9a-f]{6}": "Chunk ID: 000000",
        r"(Wall time:?) [\d.]+ seconds": r"\1 0.1 seconds",
    },
    scenario=TOUR,
)

RESPONSES_CLIENTS: dict[str, Client] = {
    "openai-responses": _SDK,
    "openai-responses-stream": replace(_SDK, command=(*_SDK.command[:2], "--stream", "{task}")),
    "openai-responses-shell": replace(
        _SDK,
        command=(*_SDK.command[:2], "--shell", "{task}"),
        shell=Tool("shell", {"commands": ["{what}"]}),
        read=None,
    ),
    "codex": _CODEX,
    "codex-websocket": replace(_CODEX, websockets=True),
    "codex-code-mode": replace(
        _CODEX,
        command=tuple("gpt-5.6-sol" if part == "gpt-5.5" else part for part in _CODEX.command),
        shell=Tool(
            "exec", 'const done = await tools.exec_command({cmd: "{what}"});\ntext(done.output);\n'
        ),
    ),
    "cline": Client(
        registry="npm",
        packages=("cline@3.0.65",),
        command=(
            "{package}/node_modules/.bin/cline",
            *("--provider", "openai-native", "--key", FAKE_KEY, "--model", "gpt-5.5", "{task}"),
        ),
        shell=Tool("run_commands", {"commands": ["{what}"]}),
        read=Tool("read_files", {"files": [{"path": "{work}/{what}"}]}),
        scenario=TOUR,
    ),
    "opencode-openai": replace(opencode("openai/gpt-5.5"), foreign=(REMINDER,), scenario=TOUR),
    "pi-openai": pi("openai", "gpt-5.5"),
}
