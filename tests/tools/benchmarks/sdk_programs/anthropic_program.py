"""Messages by the anthropic clients; `plays.py` says what it reads and prints."""

from typing import Any

from anthropic import (  # type: ignore[import-not-found, unused-ignore]
    Anthropic,
    AsyncAnthropic,
)

from tests.tools.benchmarks.sdk_programs.plays import Answer, Json, Step, main


class Messages:
    name = "messages"
    client: Any = Anthropic

    def __init__(self, url: str) -> None:
        self._messages = self.client(api_key="k", base_url=url).messages

    def begin(self, text: str, image: str) -> list[Any]:
        return [{"role": "user", "content": [{"type": "text", "text": text}, *show(image)]}]

    def ask(self, items: list[Any], *, stream: bool) -> Answer:
        asked = spell(items)
        if stream:
            with self._messages.stream(**asked, max_tokens=999) as events:
                returned = [event.to_dict() for event in events]
                answer = events.get_final_message()
        else:
            counted = self._messages.count_tokens(**asked)
            returned = [{"usage": counted.to_dict()}]
            answer = self._messages.create(**asked, max_tokens=999)
        return read(returned, answer)

    def give(self, calls: list[str], text: str, image: str) -> list[Any]:
        content: Any = [{"type": "text", "text": text}, *show(image)] if image else text
        results = [{"type": "tool_result", "tool_use_id": c, "content": content} for c in calls]
        return [{"role": "user", "content": results}] if results else []


class AsyncMessages(Messages):
    name = "async_messages"
    client = AsyncAnthropic

    async def ask(self, items: list[Any], *, stream: bool) -> Step:
        asked = spell(items)
        if stream:
            async with self._messages.stream(**asked, max_tokens=999) as events:
                returned = [event.to_dict() async for event in events]
                answer = await events.get_final_message()
        else:
            counted = await self._messages.count_tokens(**asked)
            returned = [{"usage": counted.to_dict()}]
            answer = await self._messages.create(**asked, max_tokens=999)
        return read(returned, answer)


def spell(items: list[Any]) -> Json:
    tools = [{"name": "shell", "input_schema": {"type": "object"}}]
    return {"model": "claude-sonnet-4-5", "messages": items, "tools": tools}


def read(returned: list[Any], answer: Any) -> Step:  # noqa: ANN401 - the client's own type
    content = [strip(each.to_dict()) for each in answer.content]
    calls = [each.id for each in answer.content if each.type == "tool_use"]
    said = {"role": "assistant", "content": content}
    return Step([*returned, answer.to_dict()], [said], calls)


def show(image: str) -> list[Json]:
    source = {"type": "base64", "media_type": "image/png", "data": image}
    return [{"type": "image", "source": source}] if image else []


def strip(block: Json) -> Json:
    return {key: value for key, value in block.items() if key not in ("parsed_output", "caller")}


if __name__ == "__main__":
    main(Messages, AsyncMessages)
