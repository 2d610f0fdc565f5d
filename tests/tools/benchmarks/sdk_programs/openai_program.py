"""Chat Completions and Responses by openai; `plays.py` says what it reads and prints."""

from typing import Any

from openai import AsyncOpenAI, OpenAI

from tests.tools.benchmarks.sdk_programs.plays import Answer, Json, Step, main

TOOL: Json = {"name": "shell", "parameters": {"type": "object", "properties": {}}}
USAGE: Json = {"stream_options": {"include_usage": True}}


class Chat:
    name = "chat"
    client: Any = OpenAI

    def __init__(self, url: str) -> None:
        self._completions = self.client(api_key="k", base_url=f"{url}/v1").chat.completions

    def begin(self, text: str, image: str) -> list[Any]:
        shown = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{image}"}}
        content = [{"type": "text", "text": text}, shown] if image else text
        return [{"role": "user", "content": content}]

    def ask(self, items: list[Any], *, stream: bool) -> Answer:
        asked = spell_chat(items)
        returned: list[Any] = []
        if stream:
            with self._completions.stream(**asked, **USAGE) as events:
                returned = [event.to_dict() for event in events]
                answer = events.get_final_completion()
        else:
            answer = self._completions.create(**asked)
        return read_chat(returned, answer)

    def give(self, calls: list[str], text: str, image: str) -> list[Any]:
        return [{"role": "tool", "tool_call_id": each, "content": text} for each in calls]


class AsyncChat(Chat):
    name = "async_chat"
    client = AsyncOpenAI

    async def ask(self, items: list[Any], *, stream: bool) -> Step:
        asked = spell_chat(items)
        returned: list[Any] = []
        if stream:
            async with self._completions.stream(**asked, **USAGE) as events:
                returned = [event.to_dict() async for event in events]
                answer = await events.get_final_completion()
        else:
            answer = await self._completions.create(**asked)
        return read_chat(returned, answer)


def spell_chat(items: list[Any]) -> Json:
    tools = [{"type": "function", "function": TOOL}]
    return {"model": "gpt-4o", "messages": items, "tools": tools}


def read_chat(returned: list[Any], answer: Any) -> Step:  # noqa: ANN401 - the client's own type
    message = answer.choices[0].message
    spelled = message.to_dict()
    spelled.pop("parsed", None)
    calls = [call.id for call in message.tool_calls or ()]
    return Step([*returned, answer.to_dict()], [spelled], calls)


class Responses:
    name = "responses"
    client: Any = OpenAI

    def __init__(self, url: str) -> None:
        self._responses = self.client(api_key="k", base_url=f"{url}/v1").responses

    def begin(self, text: str, image: str) -> list[Any]:
        content: list[Json] = [{"type": "input_text", "text": text}]
        return [{"role": "user", "content": content + show(image)}]

    def ask(self, items: list[Any], *, stream: bool) -> Answer:
        asked = spell_response(items)
        returned: list[Any] = []
        if stream:
            with self._responses.stream(**asked) as events:
                returned = [event.to_dict() for event in events]
                answer = events.get_final_response()
        else:
            answer = self._responses.create(**asked)
        return read_response(returned, answer)

    def give(self, calls: list[str], text: str, image: str) -> list[Any]:
        parts = [{"type": "input_text", "text": text}, *show(image)]
        output = parts if image else text
        return [{"type": "function_call_output", "call_id": c, "output": output} for c in calls]


class AsyncResponses(Responses):
    name = "async_responses"
    client = AsyncOpenAI

    async def ask(self, items: list[Any], *, stream: bool) -> Step:
        asked = spell_response(items)
        returned: list[Any] = []
        if stream:
            async with self._responses.stream(**asked) as events:
                returned = [event.to_dict() async for event in events]
                answer = await events.get_final_response()
        else:
            answer = await self._responses.create(**asked)
        return read_response(returned, answer)


def spell_response(items: list[Any]) -> Json:
    tool = {"type": "function", **TOOL, "strict": False}
    return {"model": "gpt-5.5", "input": items, "tools": [tool], "store": False}


def read_response(returned: list[Any], answer: Any) -> Step:  # noqa: ANN401 - the client's own type
    calls = [each.call_id for each in answer.output if each.type == "function_call"]
    items = [strip(each.to_dict()) for each in answer.output]
    return Step([*returned, answer.to_dict()], items, calls)


def show(image: str) -> list[Json]:
    url = f"data:image/png;base64,{image}"
    return [{"type": "input_image", "detail": "auto", "image_url": url}] if image else []


def strip(item: Json) -> Json:
    """Return an item as it may be sent: without what the client has parsed in it."""
    item.pop("parsed_arguments", None)
    for part in item.get("content") or ():
        part.pop("parsed", None)
    return item


if __name__ == "__main__":
    main(Chat, Responses, AsyncChat, AsyncResponses)
