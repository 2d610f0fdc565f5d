"""A small coding agent on the real openai client: a shell tool, and a loop around it.

    python shell_agent.py [--stream] [--files] TASK...

It works in the current folder until the model answers without a tool call, prints that answer, and
goes on with the next task in the same conversation. With `--files` it also has a tool that reads
files. It is run as a script, and needs the openai package and this one's folder alone.
"""

import argparse
import json
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from openai import OpenAI

from tests.tools.studio.agents.shell_tools import PURPOSES, SYSTEM, TOOLS, describe_argument

MODEL = "gpt-4o"

Message = dict[str, Any]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--stream", action="store_true")
    parser.add_argument("--files", action="store_true")
    parser.add_argument("task", nargs="+")
    options = parser.parse_args()
    tools = [SHELL, READ_FILE] if options.files else [SHELL]
    create = partial(OpenAI().chat.completions.create, model=MODEL, tools=tools)
    ask = partial(_streamed if options.stream else _whole, create)
    messages: list[Message] = [{"role": "system", "content": SYSTEM}]
    for task in options.task:
        messages.append({"role": "user", "content": task})
        print(_answer(ask, messages))


def _answer(ask: Callable[[list[Message]], Message], messages: list[Message]) -> str:
    """Let the model call tools until it answers; add all of it to `messages`."""
    while True:
        message = ask(messages)
        messages.append(message)
        if not message.get("tool_calls"):
            return str(message["content"])
        messages.extend(_results(message["tool_calls"]))


def _whole(create: Callable[..., Any], messages: list[Message]) -> Message:
    message = create(messages=messages).choices[0].message
    answer: Message = message.model_dump(exclude_none=True)
    return answer


def _streamed(create: Callable[..., Any], messages: list[Message]) -> Message:
    """Put the answer together from its pieces, as every streaming client has to."""
    content = ""
    calls: dict[int, dict[str, Any]] = {}
    for chunk in create(messages=messages, stream=True, stream_options={"include_usage": True}):
        for choice in chunk.choices:
            content += choice.delta.content or ""
            for piece in choice.delta.tool_calls or ():
                call = calls.setdefault(piece.index, _call(piece.id, piece.function.name))
                call["function"]["arguments"] += piece.function.arguments or ""
    if not calls:
        return {"role": "assistant", "content": content}
    return {"role": "assistant", "content": content or None, "tool_calls": list(calls.values())}


def _call(call_id: str, name: str) -> dict[str, Any]:
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": ""}}


def _results(calls: list[dict[str, Any]]) -> Iterator[Message]:
    for call in calls:
        function = call["function"]
        output = TOOLS[function["name"]](**json.loads(function["arguments"]))
        yield {"role": "tool", "tool_call_id": call["id"], "content": output}


def _describe(name: str) -> dict[str, Any]:
    function = {
        "name": name,
        "description": PURPOSES[name][0],
        "parameters": describe_argument(name),
    }
    return {"type": "function", "function": function}


SHELL, READ_FILE = _describe("shell"), _describe("read_file")

if __name__ == "__main__":
    main()
