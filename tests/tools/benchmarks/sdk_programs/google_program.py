"""Gemini by the google-genai clients; `plays.py` says what it reads and prints."""

import base64
from typing import Any

from google import genai
from google.genai import types

from tests.tools.benchmarks.sdk_programs.plays import Answer, Step, main

MODEL = "gemini-2.5-pro"


class Gemini:
    name = "gemini"

    def __init__(self, url: str) -> None:
        retry = types.HttpRetryOptions(attempts=3, initial_delay=0.1)
        options = types.HttpOptions(base_url=url, retry_options=retry)
        self._client = genai.Client(api_key="k", http_options=options)
        shell = types.FunctionDeclaration(name="shell", description="Runs a command.")
        self._config = types.GenerateContentConfig(
            tools=[types.Tool(function_declarations=[shell])],
            automatic_function_calling=types.AutomaticFunctionCallingConfig(disable=True),
        )

    def begin(self, text: str, image: str) -> list[Any]:
        parts = [types.Part.from_text(text=text)]
        if image:
            data = base64.b64decode(image)
            parts.append(types.Part.from_bytes(data=data, mime_type="image/png"))
        return [types.Content(role="user", parts=parts)]

    def ask(self, items: list[Any], *, stream: bool) -> Answer:
        models = self._client.models
        asked = {"model": MODEL, "contents": items, "config": self._config}
        if stream:
            return read([*models.generate_content_stream(**asked)])
        return read([models.generate_content(**asked)])

    def give(self, calls: list[str], text: str, image: str) -> list[Any]:
        given = [
            types.FunctionResponse(id=each, name="shell", response={"output": text})
            for each in calls
        ]
        parts = [types.Part(function_response=each) for each in given]
        return [types.Content(role="user", parts=parts)] if parts else []


class AsyncGemini(Gemini):
    name = "async_gemini"

    async def ask(self, items: list[Any], *, stream: bool) -> Step:
        models = self._client.aio.models
        asked = {"model": MODEL, "contents": items, "config": self._config}
        if stream:
            return read([each async for each in await models.generate_content_stream(**asked)])
        return read([await models.generate_content(**asked)])


def read(answers: list[Any]) -> Step:
    contents = [each.candidates[0].content for each in answers if each.candidates]
    parts = [part for each in contents for part in each.parts or ()]
    calls = [part.function_call.id for part in parts if part.function_call]
    left_out = {"sdk_http_response": {"headers": True}}
    shown = [each.model_dump(mode="json", exclude=left_out) for each in answers]
    return Step(shown, [types.Content(role="model", parts=parts)], calls)


if __name__ == "__main__":
    main(Gemini, AsyncGemini)
