"""A small coding agent on the real google-genai client, which calls the tool itself.

    python google_agent.py [--stream] TASK...

It works in the current folder until the model answers without a function call, prints that answer,
and goes on with the next task in the same conversation. It is run as a script, and needs the
google-genai package alone.
"""

import argparse
import subprocess

from google import genai
from google.genai import types

MODEL = "gemini-3-pro-preview"
SYSTEM = "You work in the current folder by running shell commands, until the task is done."
MAX_CALLS = 1_000


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--stream", action="store_true")
    parser.add_argument("task", nargs="+")
    options = parser.parse_args()
    config = types.GenerateContentConfig(
        system_instruction=SYSTEM,
        tools=[shell],
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


if __name__ == "__main__":
    main()
