"""A small coding agent on the real anthropic client: two tools, and a loop around it.

    python messages_agent.py TASK...

It works in the current folder until the model answers without a tool call, prints that answer, and
goes on with the next task in the same conversation. It marks nothing for the prompt cache.
"""

import sys
from typing import Any

from anthropic import Anthropic  # type: ignore[import-not-found, unused-ignore]

from tests.tools.studio.agents.shell_tools import PURPOSES, SYSTEM, TOOLS, describe_argument

MODEL = "claude-sonnet-4-5"


def main() -> None:
    client, messages = Anthropic(), list[dict[str, Any]]()
    for task in sys.argv[1:]:
        messages.append({"role": "user", "content": task})
        print(_answer(client, messages))


def _answer(client: Any, messages: list[dict[str, Any]]) -> str:  # noqa: ANN401 - not installed here
    """Let the model call tools until it answers; add all of it to `messages`."""
    while True:
        answer = client.messages.create(
            model=MODEL, max_tokens=4096, system=SYSTEM, messages=messages, tools=_describe_tools()
        )
        messages.append({"role": "assistant", "content": answer.content})
        calls = [block for block in answer.content if block.type == "tool_use"]
        if not calls:
            return "".join(block.text for block in answer.content)
        results = [
            {
                "type": "tool_result",
                "tool_use_id": each.id,
                "content": TOOLS[each.name](**each.input),
            }
            for each in calls
        ]
        messages.append({"role": "user", "content": results})


def _describe_tools() -> list[dict[str, Any]]:
    return [
        {"name": name, "description": purpose, "input_schema": describe_argument(name)}
        for name, (purpose, *_) in PURPOSES.items()
    ]


if __name__ == "__main__":
    main()
