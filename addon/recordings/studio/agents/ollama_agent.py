"""A small coding agent on the real ollama client: a shell tool, and a loop around it.

    python ollama_agent.py [--stream] TASK...

It works in the current folder until the model answers without a tool call, prints that answer, and
goes on with the next task in the same conversation. It is run as a script, and needs the ollama
package alone.
"""

import argparse
import subprocess
from typing import Any

import ollama

MODEL = "qwen3-coder"
SYSTEM = "You work in the current folder by running shell commands, until the task is done."


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
                output = shell(**call.function.arguments)
                name = call.function.name
                messages.append({"role": "tool", "tool_name": name, "content": output})
        print(message.content)


def shell(command: str) -> str:
    """Runs a command and gives back both of its outputs, and its exit code if that is not 0.

    Args:
        command: What to run.
    """
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


def _ask(messages: list[Any]) -> ollama.Message:
    return ollama.chat(model=MODEL, messages=messages, tools=[shell]).message


def _ask_in_pieces(messages: list[Any]) -> ollama.Message:
    """Put the answer together from its pieces, as every streaming client has to."""
    whole = ollama.Message(role="assistant")
    for chunk in ollama.chat(model=MODEL, messages=messages, tools=[shell], stream=True):
        piece = chunk.message
        whole.content = (whole.content or "") + (piece.content or "")
        whole.tool_calls = [*(whole.tool_calls or ()), *(piece.tool_calls or ())] or None
    return whole


if __name__ == "__main__":
    main()
