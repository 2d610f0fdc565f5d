"""A scenario as a client is told it: the provider's replies, in calls of the client's own tools."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from tests.tools.provider.script import Call, Reply, ScriptedReplies, call
from tests.tools.studio.client import Client, Tool
from tests.tools.studio.scenario import Action, Task

_FIELD = re.compile(r"\{(?:work|what|old|new)\}")


def script_replies(client: Client, work: Path) -> ScriptedReplies:
    """Return the scenario as calls of the client's own tools.

    The ids start from `call_0` again in every turn.
    """
    tasks = client.scenario.tasks
    return ScriptedReplies(tuple(reply for t in tasks for reply in _script_task(client, t, work)))


def _script_task(client: Client, task: Task, work: Path) -> Iterator[Reply]:
    for index, turn in enumerate(task.turns):
        yield Reply(calls=tuple(_calls(client, turn, work)), thinking=task.thoughts.get(index))
    last = () if client.last_command is None else (Action("shell", client.last_command),)
    yield Reply(content=task.answer, calls=tuple(_calls(client, last, work)))


def _calls(client: Client, actions: Sequence[Action], work: Path) -> Iterator[Call]:
    tools = client.tools
    for number, action in enumerate(actions):
        possible = action if action.kind in tools else _by_command(action)
        yield _call(tools[possible.kind], f"call_{number}", possible, work)


def _by_command(action: Action) -> Action:
    """Return the action for a client whose only tool is a shell."""
    if action.kind != "read":
        raise ValueError(f"the client has no tool to {action.kind} {action.what}")
    return Action("shell", f"cat {action.what}")


def _call(tool: Tool, call_id: str, action: Action, work: Path) -> Call:
    texts = {
        "{work}": str(work),
        "{what}": action.what,
        "{old}": action.old,
        "{new}": action.new,
    }
    if isinstance(tool.arguments, str):
        text = _FIELD.sub(lambda found: json.dumps(texts[found[0]])[1:-1], tool.arguments)
        return Call(id=call_id, tool=tool.name, arguments=text)
    filled = {name: _fill(value, texts) for name, value in tool.arguments.items()}
    return call(call_id, tool.name, **filled)


def _fill(template: object, texts: Mapping[str, str]) -> object:
    match template:
        case str():
            return _FIELD.sub(lambda found: texts[found[0]], template)
        case list():
            return [_fill(each, texts) for each in template]
        case dict():
            return {name: _fill(each, texts) for name, each in template.items()}
    return template
