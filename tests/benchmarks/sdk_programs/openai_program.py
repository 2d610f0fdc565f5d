"""Chat Completions and Responses by the openai client; `plays.py` says what it reads and prints."""

from typing import Any

from openai import OpenAI

from tests.benchmarks.sdk_programs.plays import Json, Step, main

TOOL: Json = {"name": "shell", "parameters": {"type": "object", "properties": {}}}


class Chat:
    name = "chat"

    def __init__(self, url: str) -> None:
        self._create = OpenAI(api_key="k", base_url=f"{url}/v1").chat.completions.create
        self._stream = OpenAI(api_key="k", base_url=f"{url}/v1").chat.completions.stream

    def begin(self, text: str, image: str) -> list[Any]:
        shown = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{image}"}}
        content = [{"type": "text", "text": text}, shown] if image else text
        return [{"role": "user", "content": content}]

    def ask(self, items: list[Any], *, stream: bool) -> Step:
        tools = [{"type": "function", "function": TOOL}]
        asked: Json = {"model": "gpt-4o", "messages": items, "tools": tools}
        if stream:
            with self._stream(**asked, stream_options={"include_usage": True}) as events:
                returned: list[Any] = [event.to_dict() for event in events]
                answer: Any = events.get_final_completion()
            returned.append(answer.to_dict())
        else:
            answer = self._create(**asked)
            returned = [answer.to_dict()]
        message = answer.choices[0].message
        spelled = message.to_dict()
        spelled.pop("parsed", None)
        return Step(returned, [spelled], [call.id for call in message.tool_calls or ()])

    def give(self, calls: list[str], text: str, image: str) -> list[Any]:
        return [{"role": "tool", "tool_call_id": each, "content": text} for each in calls]


class Responses:
    name = "responses"

    def __init__(self, url: str) -> None:
        self._responses = OpenAI(api_key="k", base_url=f"{url}/v1").responses

    def begin(self, text: str, image: str) -> list[Any]:
        content: list[Json] = [{"type": "input_text", "text": text}]
        return [{"role": "user", "content": content + show(image)}]

    def ask(self, items: list[Any], *, stream: bool) -> Step:
        tool = {"type": "function", **TOOL, "strict": False}
        asked: Json = {"model": "gpt-5.5", "input": items, "tools": [tool], "store": False}
        if stream:
            with self._responses.stream(**asked) as events:
                returned: list[Any] = [event.to_dict() for event in events]
                answer: Any = events.get_final_response()
            returned.append(answer.to_dict())
        else:
            answer = self._responses.create(**asked)
            returned = [answer.to_dict()]
        calls = [each.call_id for each in answer.output if each.type == "function_call"]
        return Step(returned, [strip(each.to_dict()) for each in answer.output], calls)

    def give(self, calls: list[str], text: str, image: str) -> list[Any]:
        parts = [{"type": "input_text", "text": text}, *show(image)]
        output = parts if image else text
        return [{"type": "function_call_output", "call_id": c, "output": output} for c in calls]


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
    main(Chat, Responses)
