"""A small coding agent on the real ollama client: two tools, and a loop around it.

    python ollama_agent.py [--stream] TASK...

It works in the current folder until the model answers without a tool call, prints that answer, and
goes on with the next task in the same conversation. It is run as a script, and needs the ollama
package alone.
"""

import argparse
from typing import Any

import ollama

from tests.tools.studio.agents.shell_tools import PURPOSES, SYSTEM, TOOLS, describe_argument

MODEL = "qwen3-coder"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--stream", action="store_true")
    parser.add_argument("task", nargs="+")
    options = parser.parse_args()
    ask = _ask_in_pieces if options.stream else _ask
    messages: list[Any] = [{"role": "system", "content": SYSTEM}]
    for task in options.task:
        messages.append({"role": "user", "content": task})
        while True:
            message = ask(messages)
            messages.append(message)
            if not message.tool_calls:
                break
            for call in message.tool_calls:
                output = TOOLS[call.function.name](**call.function.arguments)
                name = call.function.name
                messages.append({"role": "tool", "tool_name": name, "content": output})
        print(message.content)


def _ask(messages: list[Any]) -> ollama.Message:
    return ollama.chat(model=MODEL, messages=messages, tools=_describe_tools()).message


def _ask_in_pieces(messages: list[Any]) -> ollama.Message:
    """Put the answer together from its pieces, as every streaming client has to."""
    whole = ollama.Message(role="assistant")
    for chunk in ollama.chat(model=MODEL, messages=messages, tools=_describe_tools(), stream=True):
        piece = chunk.message
        whole.content = (whole.content or "") + (piece.content or "")
        whole.tool_calls = [*(whole.tool_calls or ()), *(piece.tool_calls or ())] or None
    return whole


def _describe_tools() -> list[dict[str, Any]]:
    return [
        {
            "type": "function",
            "function": {
                "name": name,
                "description": purpose,
                "parameters": describe_argument(name),
            },
        }
        for name, (purpose, *_) in PURPOSES.items()
    ]


if __name__ == "__main__":
    main()
