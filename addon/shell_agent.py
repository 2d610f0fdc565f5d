"""A small coding agent on the real openai client: one shell tool, and a loop around it.

    python shell_agent.py [--stream] TASK

It works in the current folder until the model answers without a tool call, and prints that
answer. Run as a script, so that it needs nothing but the openai package.
"""

import json
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

from openai import OpenAI

MODEL = "gpt-4o"
SYSTEM = "You work in the current folder by running shell commands, until the task is done."
SHELL: dict[str, Any] = {
    "type": "function",
    "function": {
        "name": "shell",
        "description": "Runs a command and gives back its output.",
        "parameters": {
            "type": "object",
            "properties": {"command": {"type": "string", "description": "What to run."}},
            "required": ["command"],
        },
    },
}

Message = dict[str, Any]


def main(arguments: list[str]) -> None:
    client = OpenAI()
    stream = arguments[:1] == ["--stream"]
    messages: list[Message] = [
        {"role": "system", "content": SYSTEM},
        {"role": "user", "content": arguments[-1]},
    ]
    while True:
        message = _streamed(client, messages) if stream else _whole(client, messages)
        messages.append(message)
        if not message.get("tool_calls"):
            print(message["content"])
            return
        messages.extend(_results(message["tool_calls"]))


def _whole(client: OpenAI, messages: list[Message]) -> Message:
    message = _ask(client, messages).choices[0].message
    answer: Message = message.model_dump(exclude_none=True)
    return answer


def _streamed(client: OpenAI, messages: list[Message]) -> Message:
    """Put the answer together from its pieces, as every streaming client has to."""
    content = ""
    calls: dict[int, dict[str, Any]] = {}
    for chunk in _ask(client, messages, stream=True, stream_options={"include_usage": True}):
        for choice in chunk.choices:
            content += choice.delta.content or ""
            for piece in choice.delta.tool_calls or ():
                call = calls.setdefault(piece.index, _call(piece.id, piece.function.name))
                call["function"]["arguments"] += piece.function.arguments or ""
    if not calls:
        return {"role": "assistant", "content": content}
    return {"role": "assistant", "content": content or None, "tool_calls": list(calls.values())}


def _ask(client: OpenAI, messages: list[Message], **options: object) -> Any:  # noqa: ANN401 - an answer, or its pieces
    create: Any = client.chat.completions.create
    return create(model=MODEL, messages=messages, tools=[SHELL], **options)


def _call(call_id: str, name: str) -> dict[str, Any]:
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": ""}}


def _results(calls: list[dict[str, Any]]) -> Iterator[Message]:
    for call in calls:
        command = json.loads(call["function"]["arguments"])["command"]
        yield {"role": "tool", "tool_call_id": call["id"], "content": _run(command)}


def _run(command: str) -> str:
    """Both outputs of the command, and its exit code where that is not 0."""
    done = subprocess.run(  # noqa: S602 - running what the model says is what an agent does
        command,
        shell=True,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    return done.stdout + (f"Exit code: {done.returncode}\n" if done.returncode else "")


if __name__ == "__main__":
    main(sys.argv[1:])
