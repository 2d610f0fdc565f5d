"""A small coding agent on LangChain with Anthropic's models.

    python langchain_agent.py [--cache] TASK

With `--cache` LangChain's own middleware marks what is to be cached.
"""

import argparse

from langchain.agents import create_agent  # type: ignore[import-not-found, unused-ignore]
from langchain_anthropic import ChatAnthropic  # type: ignore[import-not-found, unused-ignore]
from langchain_anthropic.middleware import (  # type: ignore[import-not-found, unused-ignore]
    AnthropicPromptCachingMiddleware,
)
from langchain_core.tools import StructuredTool  # type: ignore[import-not-found, unused-ignore]

from tests.tools.studio.agents.shell_tools import PURPOSES, SYSTEM, TOOLS

MODEL = "claude-sonnet-4-5"
MOST_STEPS = 1_000


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--cache", action="store_true")
    parser.add_argument("task")
    options = parser.parse_args()
    agent = create_agent(
        ChatAnthropic(model=MODEL, max_tokens=4096),
        [
            StructuredTool.from_function(function, name=name, description=PURPOSES[name][0])
            for name, function in TOOLS.items()
        ],
        system_prompt=SYSTEM,
        middleware=[AnthropicPromptCachingMiddleware()] if options.cache else [],
    )
    task = {"messages": [{"role": "user", "content": options.task}]}
    print(agent.invoke(task, {"recursion_limit": MOST_STEPS})["messages"][-1].text)


if __name__ == "__main__":
    main()
