"""The wire formats that the scripted provider speaks: one row each.

A dialect is a file of plain functions and a row here; the server (`provider.py`) knows the rows
alone. All functions but those of a cache are pure, without a clock or random ids, so the same
conversation gets the same bytes.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple, Protocol

from tests.tools.provider import completions, gemini, messages, ollama, responses
from tests.tools.provider.script import JsonDict, Received, Reply, Said, Spell


class Cache(Protocol):
    """A prompt cache as a vendor keeps it; it remembers the prompts that it has seen."""

    def usage(self, received: Received, reply: Reply) -> JsonDict:
        """Return the usage of a request in the vendor's spelling, and remember its prompt."""


class Dialect(NamedTuple):
    """How a provider reads and writes one wire format.

    path: a regular expression for the whole path of a request that wants an answer.
    read_said: what the model said so far, in order, so that a script finds its place.
    offers_tools: whether the request lets the model call tools.
    streams: whether the answer is to be a stream.
    check: why the real provider would refuse the request with a 400; None if it would not.
    make_cache: a new, empty cache.
    answer: the body of an answer, with its usage.
    events: the pieces of a streamed answer, each as bytes.
    error: the body for a status; without a message it has one of its own.
    stream_type: the content type of a stream of this request's.
    others: requests for something else (a count of tokens, a list of models), by a regular
        expression for the path: what each is answered with.
    history_key: the list that a request may leave to the provider; empty where it cannot.
    find_previous: the answer that a request names in place of the history, and all else in it;
        None if it names none.
    say_again: an answer as the next request repeats it.
    """

    name: str
    path: str
    read_said: Callable[[JsonDict], Iterator[Said]]
    offers_tools: Callable[[JsonDict], bool]
    streams: Callable[[Received], bool]
    check: Callable[[Received], str | None]
    make_cache: Callable[[Spell], Cache]
    answer: Callable[[Received, Reply, JsonDict], JsonDict]
    events: Callable[[Received, Reply, JsonDict], Iterator[bytes]]
    error: Callable[[int, str | None], JsonDict]
    stream_type: Callable[[Received], str] = lambda _: "text/event-stream; charset=utf-8"
    others: Mapping[str, Callable[[Received], JsonDict]] = {}
    history_key: str = ""
    find_previous: Callable[[JsonDict], tuple[str, JsonDict] | None] = lambda _: None
    say_again: Callable[[JsonDict], list[JsonDict]] = lambda _: []

    def receive(
        self,
        request: JsonDict,
        path: str,
        headers: Iterable[tuple[str, str]],
        body: bytes,
        query: str = "",
    ) -> Received:
        """Return a request with what the dialect reads in it."""
        return Received(
            request=request,
            path=path,
            query=query,
            headers=tuple(headers),
            body=body,
            dialect=self.name,
            said=tuple(self.read_said(request)),
            offers_tools=self.offers_tools(request),
        )


COMPLETIONS = Dialect(
    name="completions",
    path=r".*/chat/completions",
    read_said=completions.read_said,
    offers_tools=lambda request: bool(request.get("tools")),
    streams=lambda received: bool(received.request.get("stream")),
    check=completions.check,
    make_cache=completions.PromptCache,
    answer=completions.completion,
    events=completions.events,
    error=completions.error,
    others={r".*/models": completions.models},
)

MESSAGES = Dialect(
    name="messages",
    path=r".*/v1/messages|.*:(?:rawPredict|streamRawPredict)|.*/invoke(?:-with-response-stream)?",
    read_said=messages.read_said,
    offers_tools=lambda request: bool(request.get("tools")),
    streams=messages.streams,
    check=messages.check,
    make_cache=messages.PromptCache,
    answer=messages.message,
    events=messages.events,
    error=messages.error,
    others={r".*/v1/messages/count_tokens": messages.count_tokens},
    history_key="messages",
    find_previous=messages.find_previous,
    say_again=messages.say_again,
)

RESPONSES = Dialect(
    name="responses",
    path=r".*/responses",
    read_said=responses.read_said,
    offers_tools=responses.offers_tools,
    streams=responses.streams,
    check=responses.check,
    make_cache=responses.PromptCache,
    answer=responses.answer,
    events=responses.events,
    error=responses.error,
    others={
        r".*/responses/compact": responses.compact,
        r".*/responses/input_tokens": responses.count_tokens,
        r"/backend-api/wham/accounts/check": responses.find_accounts,
    },
    history_key="input",
    find_previous=responses.find_previous,
    say_again=responses.say_again,
)

GEMINI = Dialect(
    name="gemini",
    path=r".*:(?:generateContent|streamGenerateContent)",
    read_said=gemini.read_said,
    offers_tools=gemini.offers_tools,
    streams=gemini.streams,
    check=gemini.check,
    make_cache=gemini.PromptCache,
    answer=gemini.answer,
    events=gemini.events,
    error=gemini.error,
    stream_type=gemini.stream_type,
    others={
        r".*:countTokens": gemini.count_tokens,
        r"/v1internal:(?:loadCodeAssist|onboardUser)": gemini.code_assist_user,
        r"/v1internal:(?!generateContent|streamGenerateContent)\w+": gemini.nothing,
    },
)

OLLAMA = Dialect(
    name="ollama",
    path=r".*/api/chat",
    read_said=ollama.read_said,
    offers_tools=lambda request: bool(request.get("tools")),
    streams=ollama.streams,
    check=ollama.check,
    make_cache=ollama.PromptCache,
    answer=ollama.answer,
    events=ollama.events,
    error=ollama.error,
    stream_type=lambda _: "application/x-ndjson",
)

DIALECTS = (COMPLETIONS, MESSAGES, RESPONSES, GEMINI, OLLAMA)
"""All of them; the first whose path matches reads a request."""
