"""A small coding agent on litellm, which writes Anthropic's Messages for it.

python litellm_agent.py TASK
"""

import json
import sys
from typing import Any

import litellm  # type: ignore[import-not-found, unused-ignore]

from tests.tools.studio.agents.shell_tools import PURPOSES, SYSTEM, TOOLS, describe_argument

MODEL = "anthropic/claude-sonnet-4-5"


def main() -> None:
    messages: list[Any] = [
        {"role": "system", "content": SYSTEM},
        {"role": "user", "content": sys.argv[1]},
    ]
    tools = [
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
    while True:
        answer = litellm.completion(model=MODEL, messages=messages, tools=tools).choices[0].message
        messages.append(answer)
        if not answer.tool_calls:
            break
        for call in answer.tool_calls:
            output = TOOLS[call.function.name](**json.loads(call.function.arguments))
            messages.append({"role": "tool", "tool_call_id": call.id, "content": output})
    print(messages[-1].content)


if __name__ == "__main__":
    main()
