"""A small coding agent on the real google-genai client, which calls the tools itself.

    python google_agent.py [--stream] TASK...

It works in the current folder until the model answers without a function call, prints that answer,
and goes on with the next task in the same conversation.
"""

import argparse

from google import genai
from google.genai import types

from tests.tools.studio.agents import shell_tools

MODEL = "gemini-3-pro-preview"
MAX_CALLS = 1_000


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--stream", action="store_true")
    parser.add_argument("task", nargs="+")
    options = parser.parse_args()
    config = types.GenerateContentConfig(
        system_instruction=shell_tools.SYSTEM,
        tools=[shell, read_file],
        automatic_function_calling=types.AutomaticFunctionCallingConfig(
            maximum_remote_calls=MAX_CALLS
        ),
    )
    client = genai.Client()  # which closes its connections when it is forgotten
    chat = client.chats.create(model=MODEL, config=config)
    for task in options.task:
        if options.stream:
            print("".join(chunk.text or "" for chunk in chat.send_message_stream(task)))
        else:
            print(chat.send_message(task).text)


# The client makes its schemas of the names, the annotations and the docstrings.


def shell(command: str) -> str:
    """Runs a command and gives back its output."""
    return shell_tools.run_command(command)


def read_file(path: str) -> str:
    """Reads a file and gives back its text."""
    return shell_tools.read_file(path)


if __name__ == "__main__":
    main()
