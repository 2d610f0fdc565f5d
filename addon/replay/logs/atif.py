"""ATIF, the Agent Trajectory Interchange Format: what many agents' sessions are written in.

A trajectory is a JSON document of steps, which the user, the agent, or neither of them took. What
precedes an agent's step is a request; the step has the answer, its usage, the calls and, as an
observation, their results. Sub-agents are embedded, or a file of their own that an observation
names. The format is told in rfcs/0001-trajectory-format.md of github.com/laude-institute/harbor. It
gains and loses fields with its versions, and writers add their own, so what is not known is passed
over. Before 1.2 it was open whether `prompt_tokens` has what was read from a cache.

A trajectory tells neither what stands before the first step nor in what format, and no signatures,
often not even that a model reasoned. A model is taken to have, in each answer, where its provider
wants the reasoning back: nothing that may be bound to it is then said to be saved.
"""

import base64
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import NamedTuple

import orjson

from addon.agents import AGENTS
from addon.replay.disk import find_files, find_inside, open_regular, read_bounded
from addon.replay.logs.entries import (
    Entry,
    begins,
    last_name,
    read_document,
    read_head,
    read_time,
    take_count,
    take_object,
    take_objects,
    take_text,
    write_json,
)
from addon.replay.logs.litellm import find_host, find_model
from addon.replay.logs.log import (
    AnswerKey,
    LogFile,
    LoggedConversation,
    LoggedRequest,
    LogKind,
    describe_file,
)
from addon.replay.logs.turns import (
    PATHS,
    Call,
    Media,
    Provider,
    Result,
    Text,
    Thought,
    Turn,
    TurnWriter,
)
from addon.vendors import VENDORS
from masking.errors import printable
from masking.wire import CHAT, MESSAGES, Usage, find_claude_binding, find_usage

_FORMAT = "atif"

_SIGN = re.compile(rb'\A\s*\{(?=.*"schema_version"\s*:\s*"ATIF-v\d)', re.DOTALL)
_SIGN_BYTES = 1_000_000
"""Where keys are sorted, the agent's tools stand before the sign."""

_SESSION = re.compile(rb'"session_id"\s*:\s*"([\w.-]+)"')
_VERSION = re.compile(r"ATIF-v1\.(?:[2-9]|\d\d+)\b")

_REFERENCE = re.compile(rb'"trajectory_path"\s*:\s*("(?:[^"\\]|\\.)*")')

_MADE_UP = re.compile(r"call_\d+_(?:\d+|task_complete)")
"""How Harbor names calls that it made of an answer's text, as of Terminus' and SWE-agent's.

They are sent as text, and their results as what the user says: there is nothing to mask.
"""

_NAMES = {"qwen-coder": "qwen-code", "copilot-cli": "copilot", "cline-cli": "cline"} | {
    name: each.name for each in AGENTS for name in (each.name, each.title, each.client) if name
}
"""Agents by the names that writers have for them."""

_WIRES = {each.host: each.wire for each in VENDORS}

_NO_MODEL = "<synthetic>"
"""Stands for the model where Claude Code itself has answered."""

_CONTINUES = "This session is being continued from a previous conversation"
"""How Claude Code begins what it sends in place of all before a compaction; its writers do not mark
that."""

_UNLOGGED = "not logged"
"""Stands for the signature of reasoning."""

_MOST_CALLS = 100
"""A step that says that it took more requests is taken to be one."""

_IMAGE_BYTES = 30_000_000


# Finding


def _search(path: Path) -> Iterator[LogFile]:
    for file in _follow(path) if path.is_file() else find_files(path, (".json",)):
        head = read_head(file, _SIGN_BYTES)
        named = _SESSION.search(head)
        log = describe_file(_FORMAT, file, named[1].decode() if named else "")
        if _SIGN.match(head) and log is not None:
            yield log


def _follow(path: Path) -> Sequence[Path]:
    """Return a file and the trajectories in its folder that it names, and those that they name."""
    is_log, files, at = begins(_SIGN, _SIGN_BYTES), [path], 0
    while at < len(files):
        each, at = files[at], at + 1
        if is_log(each):
            with suppress(OSError, ValueError):
                names = map(orjson.loads, _REFERENCE.findall(read_bounded(each)))
                others = {find_inside(path.parent, str(name)) for name in names}
                files += sorted(other for other in others if other and other not in files)
    return files


def _list_keys(log: LogFile) -> Iterator[AnswerKey]:
    """Yield the answers of a trajectory; one that another goes on from may have copies of them."""
    with suppress(OSError, ValueError):
        for conversation in _read(log):
            for request in conversation.requests():
                if request.key is not None:
                    yield AnswerKey(request.key)


# Reading a trajectory


class _Answer(NamedTuple):
    """What was said until the agent answered, and what the answer was.

    said: what was added to the conversation since the answer before; `is_anew` if in its place.
    asked: how many requests the answer took; `usage` is what they took together.
    answer: what the agent said, and the results of its calls.
    """

    said: Sequence[Turn]
    is_anew: bool
    asked: int
    answer: Sequence[Turn]
    when: datetime
    model: str | None
    provider: Provider
    usage: Usage | None
    tier: str | None
    key: str | None


def _read(log: LogFile) -> Iterator[LoggedConversation]:
    document = read_document(log.path, "a trajectory")
    version = take_text(document.get("schema_version"))
    if not _VERSION.match(version):
        found = printable(version) or "no version of its own"
        raise ValueError(f"{log.path}:1: expected ATIF-v1.2 or a later 1.x, got {found}")
    if not isinstance(document.get("steps"), list):
        raise ValueError(f"{log.path}:1: a trajectory without steps")
    trajectories: list[tuple[Entry, Entry, bool]] = [(document, {}, False)]
    for each, above, is_side in trajectories:
        # A sub-agent's trajectory may leave out what is as its parent's.
        agent = {**above, **take_object(each.get("agent"))}
        yield from _converse(each, agent, log, is_side=is_side)
        subs = take_objects(each.get("subagent_trajectories"))
        trajectories += [(sub, agent, True) for sub in subs]


def _converse(
    document: Entry, agent: Entry, log: LogFile, *, is_side: bool
) -> Iterator[LoggedConversation]:
    """Yield a conversation for each provider of a trajectory."""
    about, extra = take_object(agent.get("extra")), take_object(document.get("extra"))
    given = take_text(agent.get("name"))
    session = take_text(document.get("trajectory_id")) or take_text(document.get("session_id"))
    unread = set[str]()
    answers = _Reader(document, agent, log, unread).read()
    providers = dict.fromkeys(answer.provider for answer in answers if answer.asked)
    for provider in providers:
        yield LoggedConversation(
            agent=_NAMES.get(given) or printable(given)[:40] or _FORMAT,
            name=take_text(extra.get("title")) or session or log.path.stem,
            project=last_name(about.get("cwd") or extra.get("cwd")),
            host=provider.host,
            wire=provider.wire,
            requests=partial(_find_requests, answers, provider),
            path=PATHS[provider.wire],
            is_side=is_side,
            unread=frozenset(unread),
        )


def _find_requests(answers: Sequence[_Answer], provider: Provider) -> Iterator[LoggedRequest]:
    """Yield the requests to a provider, each with what was said before it."""
    writer = TurnWriter(provider.wire)
    turns: list[Turn] = []
    for answer in answers:
        turns = [*(() if answer.is_anew else turns), *answer.said]
        items = writer.write(turns) if answer.asked and answer.provider == provider else ()
        for number, usage in enumerate(_share(answer.usage, answer.asked) if items else ()):
            yield LoggedRequest(
                items=items,
                when=answer.when,
                model=answer.model,
                usage=usage,
                key=answer.key and f"{answer.key} {number}",
                tier=answer.tier,
            )
        turns += answer.answer


def _share(usage: Usage | None, count: int) -> Iterator[Usage | None]:
    """Yield the usage of each of several requests of which only the sum is known: equal shares."""
    for number in range(count):
        shares = {
            name: total and (total + number) // count
            for name, total in (asdict(usage) if usage else {}).items()
        }
        yield Usage(**shares) if usage else None


class _Reader:
    """Reads the steps of a trajectory.

    unread: gets the kinds of what is not understood.
    """

    def __init__(self, document: Entry, agent: Entry, log: LogFile, unread: set[str]) -> None:
        self._steps = take_objects(document.get("steps"))
        self._usages = _read_usages(self._steps, take_object(document.get("final_metrics")))
        self._session = take_text(document.get("session_id"))
        self._model = take_text(agent.get("model_name"))
        self._folder = log.path.parent
        self._when = log.changed
        self._unread = unread

    def read(self) -> Sequence[_Answer]:
        """Return the answers in order."""
        answers: list[_Answer] = []
        said: list[Turn] = []
        is_anew = False
        for group in self._group():
            source = group[0].get("source")
            if source == "agent":
                answers.append(self._read_answer(group, said, is_anew=is_anew))
                said, is_anew = [], False
            elif source == "user":
                parts = self._read_content(group[0].get("message"))
                if parts and isinstance(parts[0], Text) and parts[0].text.startswith(_CONTINUES):
                    said, is_anew = [], True
                said += [Turn("user", parts)] if parts else []
            elif source == "system":
                kind = take_object(take_object(group[0].get("extra")).get("context_management"))
                results = take_objects(take_object(group[0].get("observation")).get("results"))
                if kind.get("boundary") == "replace":
                    said, is_anew = [], True
                elif kind.get("boundary") == "truncate":  # to what is not said
                    self._unread.add("context truncate")
                contents = [each.get("content") for each in results]
                for content in contents or [group[0].get("message")]:
                    said += self._say(content)
            else:
                self._unread.add(f"step {source}")
        return answers

    def _group(self) -> Iterator[list[Entry]]:
        """Yield the steps, those together that are one answer.

        Some writers make a step of each part of an answer, and tell its usage with one of them. So
        where usage is told, a step without it goes on with the answer before.
        """
        group: list[Entry] = []
        for step in self._steps:
            goes_on = (
                self._usages
                and group
                and group[0].get("source") == step.get("source") == "agent"
                and step.get("llm_call_count") in (None, 1)
                and id(step) not in self._usages
                and step.get("model_name") != _NO_MODEL
                and bool(step.get("is_copied_context")) == bool(group[0].get("is_copied_context"))
            )
            if not goes_on and group:
                yield group
                group = []
            group.append(step)
        if group:
            yield group

    def _read_answer(
        self, group: Sequence[Entry], said: Sequence[Turn], *, is_anew: bool
    ) -> _Answer:
        first = group[0]
        count = first.get("llm_call_count")
        asked = count if type(count) is int and 0 <= count <= _MOST_CALLS else 1
        usage = self._usages.get(id(first))
        timestamp = take_text(first.get("timestamp"))
        self._when = read_time(timestamp) or self._when
        named = next((take_text(step.get("model_name")) for step in group), "") or self._model
        extra = take_object(take_object(first.get("metrics")).get("extra"))
        key = f"{self._session} {timestamp} {usage and (usage.prompt, usage.completion)}"
        return _Answer(
            said=[*said],
            is_anew=is_anew,
            asked=0 if first.get("is_copied_context") or named == _NO_MODEL else asked,
            answer=[*self._read_turns(group)],
            when=self._when,
            model=find_model(named),
            provider=_find_provider(named),
            usage=usage,
            tier="fast" if extra.get("speed") == "fast" else None,
            key=key if self._session and timestamp else None,
        )

    def _read_turns(self, group: Sequence[Entry]) -> Iterator[Turn]:
        """Yield what the agent said, then the results of its calls, then what else it was told."""
        thoughts = [take_text(step.get("reasoning_content")) for step in group]
        parts: list[Text | Media | Thought | Call] = [
            Thought("\n".join(filter(None, thoughts)), _UNLOGGED)
        ]
        open_calls: dict[str, Call] = {}
        for step in group:
            calls = [self._read_call(each) for each in take_objects(step.get("tool_calls"))]
            message = step.get("message")
            # Harbor writes so where a model said nothing beside its calls.
            named = {f"Executed {call.name}{end}" for call in calls for end in ("", f" {call.id}")}
            if not (isinstance(message, str) and message in named):
                parts += self._read_content(message)
            for call in calls:
                if _MADE_UP.fullmatch(call.id):
                    parts.append(Text(write_json(call.input)))
                else:
                    parts.append(call)
                    open_calls[call.id] = call
        yield Turn("assistant", parts)
        results: list[Result] = []
        others: list[object] = []
        for step in group:
            made = take_objects(step.get("tool_calls"))
            names = [take_text(each.get("tool_call_id")) for each in made]
            observed = take_objects(take_object(step.get("observation")).get("results"))
            for at, each in enumerate(observed):
                name = take_text(each.get("source_call_id"))
                if not name and len(names) == len(observed):  # it stands in its call's place
                    name = names[at]
                asked = open_calls.pop(name, None)
                if asked is None:
                    others.append(each.get("content"))
                else:
                    results.append(self._read_result(asked, each))
        if results:
            yield Turn("tool", results)
        for content in others:
            yield from self._say(content)

    def _read_call(self, call: Entry) -> Call:
        name, asked = take_text(call.get("function_name")), call.get("arguments")
        return Call(take_text(call.get("tool_call_id")), name, asked or {})

    def _read_result(self, call: Call, result: Entry) -> Result:
        extra = take_object(result.get("extra"))
        # Harbor puts into the text what Claude Code knows of a result, and beside it what was sent.
        raw = take_object(take_object(extra.get("tool_result_metadata")).get("raw_tool_result"))
        parts = self._read_content(raw.get("content") if raw else result.get("content"))
        return Result(
            call.id,
            call.name,
            "\n".join(part.text for part in parts if isinstance(part, Text)),
            is_error=True in (extra.get("is_error"), raw.get("is_error")),
            media=[part for part in parts if isinstance(part, Media)],
        )

    def _say(self, content: object) -> Iterator[Turn]:
        if parts := self._read_content(content):
            yield Turn("user", parts)

    def _read_content(self, content: object) -> list[Text | Media]:
        """Return a text, or parts; an image lies in a file beside the trajectory."""
        if isinstance(content, str):
            return [Text(content)] if content else []
        parts: list[Text | Media] = []
        for part in take_objects(content):
            kind, source = part.get("type"), take_object(part.get("source"))
            if kind == "text":
                parts.append(Text(take_text(part.get("text"))))
            elif kind == "image" and (data := self._load(source)):
                parts.append(Media(take_text(source.get("media_type")), data))
            else:
                self._unread.add(f"part {kind}")
        return parts

    def _load(self, source: Entry) -> str | None:
        """Return an image in base64; None if it is not there, or elsewhere."""
        name = take_text(source.get("path"))
        head, _, data = name.partition(",")
        if head.startswith("data:") or (data := take_text(source.get("data"))):
            return data
        path = find_inside(self._folder, name)
        try:
            if path is None:
                return None
            with open_regular(path) as file:
                return base64.b64encode(file.read(_IMAGE_BYTES)).decode()
        except OSError:
            return None


def _find_provider(model: str) -> Provider:
    host = find_host(model)
    # Whatever path a model of Anthropic's is reached by, it wants its reasoning back.
    wire = MESSAGES if find_claude_binding(model) else _WIRES.get(host or "", CHAT)
    return Provider(host, wire)


def _read_usages(steps: Sequence[Entry], final: Entry) -> Mapping[int, Usage]:
    """Return the usage that steps tell, by the identity of the step.

    Harbor tells of OpenHands' steps what all of them took so far: then the last has the total.
    """
    told = {id(step): usage for step in steps if (usage := _read_usage(step)) is not None}
    prompts = [usage.prompt or 0 for usage in told.values()]
    is_sum = len(prompts) > 1 and prompts[-1] == final.get("total_prompt_tokens")
    if not is_sum or prompts != sorted(prompts):
        return told
    before = Usage()
    grown: dict[int, Usage] = {}
    for step, usage in told.items():
        if usage.prompt != before.prompt:
            counts = ((name, own, getattr(before, name)) for name, own in asdict(usage).items())
            grown[step] = Usage(**{name: own and own - (other or 0) for name, own, other in counts})
        before = usage
    return grown


def _read_usage(step: Entry) -> Usage | None:
    """Return the usage of a step's requests; what ATIF has no name for is as the provider names it.

    A total may be that of the whole session, and is left out.
    """
    metrics = take_object(step.get("metrics"))
    extra = take_object(metrics.get("extra"))
    named = {key: value for key, value in {**extra, **metrics}.items() if "total" not in key}
    usage = find_usage({"usage": named}) if take_count(metrics.get("prompt_tokens")) else None
    if usage is None or usage.reasoning is not None:
        return usage
    told = (take_count(extra.get(key)) for key in ("reasoning_tokens", "reasoning_output_tokens"))
    return replace(usage, reasoning=next(filter(None, told), None))


ATIF = LogKind(_FORMAT, _read, search=_search, list_keys=_list_keys, has_homes=False)
"""Trajectories in the interchange format, whoever wrote them."""
