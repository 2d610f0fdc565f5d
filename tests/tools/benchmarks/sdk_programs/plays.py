"""What the programs on the vendors' Python clients share: it plays cases, and prints what they got.

    python -m tests.tools.benchmarks.sdk_programs.PROGRAM BASE_URL < CASES

A case is a line of JSON: its `name`, which each request of it tells as `case: NAME.`, whether to
`stream`, and how long a result is, in `chars`; with `image`, in base64, requests hold images. For
each a line of JSON comes out: the name, and what the client returned or raised, in order. A program
is run by any Python that has the client, so it imports nothing else of this project.
"""

import asyncio
import json
import sys
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from inspect import iscoroutinefunction
from typing import Any, NamedTuple, Protocol

Json = dict[str, Any]


class Step(NamedTuple):
    """An answer: what the client returned, what goes back into the request, the calls' ids."""

    returned: Any
    items: list[Any]
    calls: list[str]


Answer = Step | Awaitable[Step]


class Api(Protocol):
    """How a client is asked."""

    name: str

    def begin(self, text: str, image: str) -> list[Any]:
        """Return a request's first elements."""

    def ask(self, items: list[Any], *, stream: bool) -> Answer:
        """Ask for an answer. A coroutine function if the client is asynchronous."""

    def give(self, calls: list[str], text: str, image: str) -> list[Any]:
        """Return the elements with the results of calls."""


def main(*apis: Callable[[str], Api]) -> None:
    """Play all cases on each interface; those that are named `many` all at once."""
    asyncio.run(play_all(apis))


async def play_all(apis: Sequence[Callable[[str], Api]]) -> None:
    cases = [json.loads(line) for line in sys.stdin]
    many = [case for case in cases if case["name"].startswith("many")]
    threads = ThreadPoolExecutor(max(1, len(many)))
    asyncio.get_running_loop().set_default_executor(threads)
    for make in apis:
        api = make(sys.argv[1])
        for case in cases:
            if case not in many:
                report(await play(api, case))
        for played in await asyncio.gather(*(play(api, case) for case in many)):
            report(played)


async def play(api: Api, case: Json) -> Json:
    """Let a model call tools until it answers, or something is raised."""
    returned: list[Any] = []
    name = f"{api.name} {case['name']}{' stream' if case['stream'] else ''}"
    image = case.get("image", "")
    items = api.begin(f"Look at all of it. case: {name}.", image)
    has_ended = False
    try:
        while not has_ended:
            step = await ask(api, items, stream=case["stream"])
            returned.append(step.returned)
            items = [*items, *step.items, *api.give(step.calls, text_of(case["chars"]), image)]
            has_ended = not step.calls
    except Exception as error:  # noqa: BLE001 - whatever it is, it is compared
        returned.append(describe(error))
    return {"case": name, "returned": returned}


async def ask(api: Api, items: list[Any], *, stream: bool) -> Step:
    """Ask for an answer: here if the client is asynchronous, else in a thread."""
    call: Any = api.ask
    if not iscoroutinefunction(call):
        call = partial(asyncio.to_thread, call)
    step: Step = await call(items, stream=stream)
    return step


def text_of(chars: int) -> str:
    return ("a line of output é, and nothing went wrong\n" * (1 + chars // 40))[:chars]


def describe(error: Exception) -> Json:
    """Return what a program can see of an error."""
    fields = (
        "status_code",
        "code",
        "status",
        "type",
        "body",
        "message",
        "details",
        "response_json",
    )
    seen = {field: repr(getattr(error, field, None)) for field in fields}
    return {"raised": type(error).__name__, "text": str(error), **seen}


def report(played: Json) -> None:
    print(json.dumps(played), flush=True)
