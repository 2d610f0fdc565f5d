"""A small coding agent on the real openai client, with Responses: two tools, and a loop around it.

    python responses_agent.py [--stream | --shell] TASK...

It works in the current folder until the model answers without a tool call, prints that answer, and
goes on with the next task in the same conversation. The provider keeps nothing: the whole history
is sent, with the model's encrypted reasoning. With `--shell` its tool is the one that OpenAI calls
`shell`.
"""

import argparse
import json
from typing import Any

from openai import OpenAI

from tests.tools.studio.agents.shell_tools import (
    PURPOSES,
    SYSTEM,
    TOOLS,
    describe_argument,
    run_command,
)

MODEL = "gpt-5.5"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--stream", action="store_true")
    parser.add_argument("--shell", action="store_true")
    parser.add_argument("task", nargs="+")
    options = parser.parse_args()
    settings: dict[str, Any] = {
        "model": MODEL,
        "instructions": SYSTEM,
        "tools": [_SHELL] if options.shell else _describe_tools(),
        "store": False,
        "include": ["reasoning.encrypted_content"],
    }
    items: list[Any] = []
    for task in options.task:
        items.append({"role": "user", "content": task})
        print(_answer(OpenAI(), settings, items, stream=options.stream))


def _answer(client: OpenAI, settings: dict[str, Any], items: list[Any], *, stream: bool) -> str:
    """Let the model call tools until it answers; add all of it to `items`."""
    while True:
        if stream:
            *_, last = client.responses.create(**settings, input=items, stream=True)
            answer = last.response
        else:
            answer = client.responses.create(**settings, input=items)
        items += [item.to_dict() for item in answer.output]
        calls = [item for item in answer.output if item.type in _RUN]
        if not calls:
            return str(answer.output_text)
        items += [_RUN[call.type](call) for call in calls]


def _run_function(call: Any) -> dict[str, Any]:  # noqa: ANN401 - one of many
    output = TOOLS[call.name](**json.loads(call.arguments))
    return {"type": "function_call_output", "call_id": call.call_id, "output": output}


def _run_shell(call: Any) -> dict[str, Any]:  # noqa: ANN401 - one of many
    output = [_run(command) for command in call.action.commands]
    return {"type": "shell_call_output", "call_id": call.call_id, "output": output}


def _run(command: str) -> dict[str, Any]:
    stdout, marker, code = run_command(command).rpartition("Exit code: ")
    outcome = {"type": "exit", "exit_code": int(code) if marker else 0}
    return {"stdout": stdout if marker else code, "stderr": "", "outcome": outcome}


_RUN = {"function_call": _run_function, "shell_call": _run_shell}

_SHELL = {"type": "shell", "environment": {"type": "local"}}


def _describe_tools() -> list[dict[str, Any]]:
    return [
        {
            "type": "function",
            "name": name,
            "description": purpose,
            "parameters": describe_argument(name),
            "strict": False,
        }
        for name, (purpose, *_) in PURPOSES.items()
    ]


if __name__ == "__main__":
    main()
