"""A session whose shell commands print a lot: for the tests of what arrival leaves out."""

import json

from masking.arrival import ArrivalPolicy
from masking.model import ChatMessage

ARRIVAL = ArrivalPolicy(enabled=True)
"""On, with the shipped numbers."""

LINES = 400
"""The lines of a long result; the tenth is in its head, and the one in the middle is left out."""


def line_of(command: int, line: int) -> str:
    """Return a line that the long result of a command shows, and no other."""
    return f"test {command:02} line {line:03} of the log, all is well"


def run(command: str, text: str, call_id: str) -> list[ChatMessage]:
    """Return a call of the shell and its result."""
    function = {"name": "bash", "arguments": json.dumps({"command": command})}
    call = {"id": call_id, "type": "function", "function": function}
    return [
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": call_id, "content": text},
    ]


def run_tests(turns: int, long_every: int = 3) -> list[ChatMessage]:
    """Return a conversation of so many commands, of which every third prints a lot."""
    messages: list[ChatMessage] = [
        {"role": "system", "content": "Be brief. " * 300},
        {"role": "user", "content": "Make the tests pass."},
    ]
    for turn in range(turns):
        lines = LINES if turn % long_every == 0 else 20
        text = "".join(f"{line_of(turn, line)}\n" for line in range(lines))
        messages += run(f"make test-{turn}", text, f"run_{turn}")
    return messages
