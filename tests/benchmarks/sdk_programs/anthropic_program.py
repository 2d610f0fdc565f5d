"""Messages by the anthropic client; `plays.py` says what it reads and prints."""

from typing import Any

from anthropic import Anthropic  # type: ignore[import-not-found, unused-ignore]

from tests.benchmarks.sdk_programs.plays import Json, Step, main


class Messages:
    name = "messages"

    def __init__(self, url: str) -> None:
        self._messages = Anthropic(api_key="k", base_url=url).messages

    def begin(self, text: str, image: str) -> list[Any]:
        return [{"role": "user", "content": [{"type": "text", "text": text}, *show(image)]}]

    def ask(self, items: list[Any], *, stream: bool) -> Step:
        tools = [{"name": "shell", "input_schema": {"type": "object"}}]
        asked: Json = {"model": "claude-sonnet-4-5", "messages": items, "tools": tools}
        returned: list[Any] = []
        if stream:
            with self._messages.stream(**asked, max_tokens=999) as events:
                returned += [event.to_dict() for event in events]
                answer: Any = events.get_final_message()
        else:
            counted = self._messages.count_tokens(**asked)
            returned.append({"usage": counted.to_dict()})
            answer = self._messages.create(**asked, max_tokens=999)
        returned.append(answer.to_dict())
        content = [strip(each.to_dict()) for each in answer.content]
        calls = [each.id for each in answer.content if each.type == "tool_use"]
        return Step(returned, [{"role": "assistant", "content": content}], calls)

    def give(self, calls: list[str], text: str, image: str) -> list[Any]:
        content: Any = [{"type": "text", "text": text}, *show(image)] if image else text
        results = [{"type": "tool_result", "tool_use_id": c, "content": content} for c in calls]
        return [{"role": "user", "content": results}] if results else []


def show(image: str) -> list[Json]:
    source = {"type": "base64", "media_type": "image/png", "data": image}
    return [{"type": "image", "source": source}] if image else []


def strip(block: Json) -> Json:
    return {key: value for key, value in block.items() if key not in ("parsed_output", "caller")}


if __name__ == "__main__":
    main(Messages)
