"""opencode: the database `~/.local/share/opencode/opencode.db`; before it, the folder `storage`.

A session has messages, and a message has parts: texts, reasoning, tool calls with their results.
Each step of an answer is a request to the model. What opencode makes of them is in
packages/opencode/src/session (message-v2.ts, compaction.ts) in github.com/anomalyco/opencode; the
AI SDK then writes them in the format of the provider (github.com/vercel/ai). Since 2.0 the database
has other tables (see `opencode2`), perhaps beside those of before, which then stay as they were.

After a compaction the messages before it are sent no longer, but for a tail. When opencode prunes,
it notes in old results when it cleared them. It logs no request for a title; of the request for a
summary it logs the usage. Each of these is a conversation of its own here, without elements: it has
another system prompt and no tools, and newer versions send the history in it as one text.
"""

import os
import re
import sqlite3
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from addon.replay.disk import is_inside, read_bounded
from addon.replay.logs.entries import (
    Entry,
    decode,
    last_name,
    read_document,
    read_head,
    read_time,
    take_count,
    take_object,
    take_objects,
    take_text,
    try_decode,
    write_json,
)
from addon.replay.logs.log import (
    LogFile,
    LoggedConversation,
    LoggedRequest,
    LogKind,
    describe_file,
)
from addon.replay.logs.opencode2 import Message, Row, read_answer, read_rows
from addon.replay.logs.turns import (
    PATHS,
    PROVIDERS,
    UNKNOWN,
    Call,
    Media,
    Provider,
    Result,
    Text,
    Thought,
    Turn,
    TurnWriter,
)
from masking.wire import GEMINI, MESSAGES, RESPONSES, Usage, WireFormat

_AGENT = "opencode"

CLEARED = "[Old tool result content cleared]"
"""What opencode sends in place of a result that it pruned."""

_INTERRUPTED = "[Tool execution was interrupted]"
_ASKS_SUMMARY = "What did we do so far?"
_RAN_TOOL = "The following tool was executed by the user"

_IN_PROMPT = frozenset(("text", "reasoning", "tool", "file", "compaction", "subtask"))
_NOT_SENT = frozenset(("step-start", "step-finish", "patch", "snapshot", "agent", "retry"))

_EXPORT = re.compile(rb'\A\s*\{\s*"info"\s*:\s*\{(?=.*"ses_)', re.DOTALL)
_IS_SQLITE = b"SQLite format 3\0"
_MESSAGE_BYTES = 10_000
"""About how much a message takes with its parts, which lie in files of their own."""


_PROVIDERS = PROVIDERS | {
    "google-vertex-anthropic": PROVIDERS["google-vertex"]._replace(wire=MESSAGES),
    "azure": Provider(None, RESPONSES),
    "xai": PROVIDERS["xai"]._replace(wire=RESPONSES),
}
"""The providers whose host or format is known, by opencode's names (https://models.dev)."""

_BY_MODEL = (
    ("opencode", re.compile("claude"), MESSAGES),
    ("opencode", re.compile("gpt-"), RESPONSES),
    ("opencode", re.compile("gemini"), GEMINI),
    ("github-copilot", re.compile("gpt-5"), RESPONSES),
    ("amazon-bedrock", re.compile("claude"), MESSAGES),
)
"""Providers that speak other formats for some models."""


# Finding sessions


def _search(path: Path) -> Iterator[LogFile]:
    found = list(_find_in_file(path) if path.is_file() else _walk(path))
    # opencode took the sessions of `storage` into its database, and left the files.
    kept = {log.session for log in found if log.path.suffix == ".db"}
    yield from (log for log in found if log.path.suffix == ".db" or log.session not in kept)


def _walk(folder: Path) -> Iterator[LogFile]:
    root = folder.resolve()
    for parent, folders, names in os.walk(folder):
        if {"session", "message", "part"} <= {*folders}:
            folders[:] = ["session"]
        elif {"info", "message", "part"} <= {*folders}:  # versions of 2025
            folders[:] = ["info"]
        for name in names:
            if name.endswith((".db", ".json")) and is_inside(Path(parent, name), root):
                yield from _find_in_file(Path(parent, name))


def _find_in_file(path: Path) -> Iterator[LogFile]:
    """Yield the sessions of a database, of a file in `storage`, or of `opencode export`."""
    head = read_head(path)
    if head.startswith(_IS_SQLITE):
        yield from _find_in_database(path)
    elif path.suffix == ".json" and _EXPORT.match(head):
        if (log := describe_file(_AGENT, path, path.stem)) is not None:
            yield log
    elif path.name.startswith("ses_") and path.suffix == ".json":
        messages = _find_messages(path)
        try:
            about, number = decode(read_bounded(path)), sum(1 for _ in messages.iterdir())
        except (OSError, ValueError):
            return
        updated = read_time(take_object(about.get("time")).get("updated"))
        changed = updated or datetime.fromtimestamp(path.stat().st_mtime, UTC)
        if number:
            size, folder = number * _MESSAGE_BYTES, messages.parents[1]
            yield LogFile(_AGENT, path, size, changed, session=path.stem, folder=folder)


def _find_messages(path: Path) -> Path:
    """Return the folder of the messages of a session, given as the file that describes it."""
    folder = path.parents[0] if path.parent.name == "info" else path.parents[1]
    return folder.parent / "message" / path.stem


def _connect(path: Path) -> closing[sqlite3.Connection]:
    """Open a database for reading, also while opencode writes to it."""
    uri = path.absolute().as_uri() + "?mode=ro"
    if not os.access(path.parent, os.W_OK) and not path.with_name(f"{path.name}-wal").exists():
        uri += "&immutable=1"  # SQLite could not make the files by which processes agree
    connection = sqlite3.connect(uri, uri=True)
    connection.text_factory = lambda data: data.decode("utf-8", "replace")
    return closing(connection)


_OLD = frozenset(("session", "message", "part"))
_NEW = frozenset(("session_v2", "session_message"))
_NEXT = re.compile(r"session_v(?!2$)\d+")
"""Tables of layouts that are still to come, as far as can be guessed."""


def _find_in_database(path: Path) -> Iterator[LogFile]:
    """Yield the sessions of a database.

    One that is opencode's by its name, and cannot be read, is a log, too: reading it says why.
    """
    updated: dict[str, object] = {}
    sizes: dict[str, int] = {}
    copied: dict[str, frozenset[str]] = {}
    try:
        with _connect(path) as database:
            tables = _list_tables(database)
            if tables >= _OLD:
                updated |= dict(database.execute("SELECT id, time_updated FROM session"))
                sizes |= dict(
                    database.execute("SELECT session_id, count(*) FROM part GROUP BY session_id")
                )
                copied |= _find_copies(_yield_answers(database))
            if tables >= _NEW:
                # opencode took the older sessions over, and left them where they were.
                updated |= dict(database.execute("SELECT id, time_updated FROM session_v2"))
                sizes |= dict(
                    database.execute(
                        "SELECT session_id, count(*) FROM session_message "
                        "WHERE type = 'assistant' GROUP BY session_id"
                    )
                )
                copied |= _find_copies(_yield_new_answers(database))
            is_read = (tables >= _OLD or tables >= _NEW) and not any(map(_NEXT.match, tables))
    except sqlite3.Error:
        is_read = False
    share = path.stat().st_size / max(1, sum(sizes.values()))
    for session in updated.keys() & sizes.keys():
        when = read_time(updated[session])
        if when is not None:
            size, known = round(sizes[session] * share), copied.get(session, frozenset())
            yield LogFile(_AGENT, path, size, when, known, session=session)
    log = describe_file(_AGENT, path)
    if not is_read and path.name.startswith(_AGENT) and log is not None:
        yield log


def _list_tables(database: sqlite3.Connection) -> set[str]:
    return {name for (name,) in database.execute("SELECT name FROM sqlite_master")}


def _yield_answers(database: sqlite3.Connection) -> Iterator[tuple[str, Entry]]:
    """Yield the messages of sessions if any is a fork, those of the oldest session first."""
    forks = "SELECT 1 FROM session WHERE title LIKE '%(fork #%' LIMIT 1"
    if database.execute(forks).fetchone() is None:
        return
    rows = database.execute(
        "SELECT m.session_id, m.data FROM message m JOIN session s ON s.id = m.session_id "
        "ORDER BY s.time_created, s.id, m.time_created, m.id"
    )
    for session, data in rows:
        with suppress(ValueError):
            yield session, decode(data)


def _yield_new_answers(database: sqlite3.Connection) -> Iterator[tuple[str, Entry]]:
    """Yield the same since 2.0. A fork has copies of its parent's rows, under other ids."""
    columns = {row[1] for row in database.execute("PRAGMA table_info(session_v2)")}
    forks = "SELECT 1 FROM session_v2 WHERE fork_session_id IS NOT NULL LIMIT 1"
    if "fork_session_id" not in columns or database.execute(forks).fetchone() is None:
        return
    rows = database.execute(
        "SELECT m.session_id, m.data FROM session_message m JOIN session_v2 s "
        "ON s.id = m.session_id WHERE m.type IN ('assistant', 'compaction') "
        "ORDER BY s.time_created, s.id, m.seq"
    )
    for session, data in rows:
        with suppress(ValueError):
            yield session, read_answer(decode(data))


def _find_copies(answers: Iterable[tuple[str, Entry]]) -> dict[str, frozenset[str]]:
    """Return the keys of requests that an earlier session has, by session.

    A fork begins with copies of another session's messages, which keep their times and usage.
    """
    copied: defaultdict[str, set[str]] = defaultdict(set)
    known: dict[str, str] = {}
    for session, answer in answers:
        key = _write_key(answer)
        if known.setdefault(key, session) != session:
            copied[session] |= {f"{key}/{step}" for step in range(100)}
    return {name: frozenset(keys) for name, keys in copied.items()}


def _write_key(message: Entry) -> str:
    """Return what a message and its copies in forks have in common, and no others."""
    return write_json([message.get(name) for name in ("time", "modelID", "tokens")])


# Reading a session


def _load(log: LogFile, unread: set[str]) -> tuple[Entry, Sequence[Message]]:
    """Return what is known of a session, and its messages.

    Raises OSError, and ValueError with the file if it cannot be read.
    """
    about: Entry
    if log.path.suffix == ".db" or read_head(log.path).startswith(_IS_SQLITE):
        if not log.session:
            raise ValueError(f"{log.path}: a layout of opencode's database that is not known")
        try:
            with _connect(log.path) as database:
                new = _load_new_rows(database, log.session, unread)
                if new is not None:
                    return new
                about, infos, parts = _load_rows(database, log.session, unread)
        except sqlite3.Error as error:
            raise ValueError(f"{log.path}: session {log.session}: {error}") from None
    else:
        about = read_document(log.path, "a session of opencode")
        if "messages" in about:
            entries = take_objects(about["messages"])
            about = take_object(about.get("info"))
            infos = [take_object(entry.get("info")) for entry in entries]
            parts = {
                str(take_object(entry.get("info")).get("id")): take_objects(entry.get("parts"))
                for entry in entries
            }
        else:
            infos, parts = _load_files(log.path, unread)
    unread |= {
        f"part {part.get('type')}"
        for each in parts.values()
        for part in each
        if part.get("type") not in _IN_PROMPT | _NOT_SENT
    }
    messages = [Message(info, parts.get(str(info.get("id")), ())) for info in infos]
    messages.sort(key=lambda message: (message.created, str(message.info.get("id"))))
    return about, messages


_Infos = Sequence[Entry]
_Parts = Mapping[str, Sequence[Entry]]


def _load_rows(
    database: sqlite3.Connection, session: str, unread: set[str]
) -> tuple[Entry, _Infos, _Parts]:
    row = database.execute(
        "SELECT title, directory, parent_id FROM session WHERE id = ?", (session,)
    ).fetchone()
    about = dict(zip(("title", "directory", "parentID"), row or (), strict=False))
    rows = database.execute("SELECT id, data FROM message WHERE session_id = ?", (session,))
    infos = [
        {**info, "id": key} for key, data in rows if (info := try_decode(data, unread)) is not None
    ]
    parts: defaultdict[str, list[Entry]] = defaultdict(list)
    for message, data in database.execute(
        "SELECT message_id, data FROM part WHERE session_id = ? ORDER BY message_id, id", (session,)
    ):
        if (part := try_decode(data, unread)) is not None:
            parts[message].append(part)
    return {"id": session, **about}, infos, parts


def _load_new_rows(
    database: sqlite3.Connection, session: str, unread: set[str]
) -> tuple[Entry, Sequence[Message]] | None:
    """Return a session as it is kept since 2.0, in order; None if no answer of it is."""
    if not _list_tables(database) >= _NEW:
        return None
    stored = database.execute(
        "SELECT id, type, data FROM session_message WHERE session_id = ? ORDER BY seq", (session,)
    )
    rows = [
        Row(name, kind, each) for name, kind, data in stored if (each := try_decode(data, unread))
    ]
    if not any(row.kind == "assistant" for row in rows):
        return None
    told = database.execute(
        "SELECT title, directory, parent_id FROM session_v2 WHERE id = ?", (session,)
    ).fetchone()
    about = dict(zip(("title", "directory", "parentID"), told or (), strict=False))
    return {"id": session, **about}, [*read_rows(rows, unread)]


def _load_files(path: Path, unread: set[str]) -> tuple[_Infos, _Parts]:
    folder = _find_messages(path)
    storage = folder.parents[1]

    def read(files: Iterable[Path]) -> Iterator[tuple[str, Entry]]:
        for file in files:
            if (entry := try_decode(read_bounded(file), unread)) is not None:
                yield file.stem, entry

    infos = [{**info, "id": name} for name, info in read(_list_files(folder, storage))]
    parts = {}
    for name in (str(info["id"]) for info in infos):
        places = storage / "part" / name, storage / "part" / path.stem / name
        files = sorted(each for place in places for each in _list_files(place, storage))
        parts[name] = [part for _, part in read(files)]
    return infos, parts


def _list_files(folder: Path, storage: Path) -> list[Path]:
    """Return what is in a folder of the storage, without what lies elsewhere."""
    root = storage.resolve()
    if not folder.resolve().is_relative_to(root):
        return []
    return sorted(each for each in folder.glob("*.json") if is_inside(each, root))


# The conversations of a session


def _read(log: LogFile) -> Iterator[LoggedConversation]:
    """Yield a conversation for each provider that a session speaks to, and for each summary."""
    unread = set[str]()
    about, messages = _load(log, unread)
    title = str(about.get("title") or about.get("id") or log.session)
    asked = [message for message in messages if not message.is_user and _count_requests(message)]

    def converse(
        provider: Provider, requests: Callable[[], Iterator[LoggedRequest]]
    ) -> LoggedConversation:
        return LoggedConversation(
            name=title,
            project=last_name(about.get("directory")),
            host=provider.host,
            wire=provider.wire,
            requests=requests,
            path=PATHS[provider.wire],
            is_side=bool(about.get("parentID")),
            unread=frozenset(unread),
        )

    own = (_find_provider(each.info) for each in asked if not each.info.get("summary"))
    for provider in dict.fromkeys(own):
        yield converse(provider, partial(_find_requests, messages, provider))
    for message in asked:
        if message.info.get("summary"):
            summary = converse(_find_provider(message.info), partial(_find_summary, message))
            yield summary._replace(name=f"{title}, summary", is_side=True, unread=frozenset())


def _find_provider(info: Entry) -> Provider:
    name, model = take_text(info.get("providerID")), take_text(info.get("modelID"))
    provider = _PROVIDERS.get(name, UNKNOWN)
    for seller, pattern, wire in _BY_MODEL:
        if seller == name and pattern.search(model):
            return provider._replace(wire=wire)
    return provider


def _count_requests(message: Message) -> int:
    """Return how many requests an answer took: its steps, or one where older versions note none."""
    steps = sum(part.get("type") == "step-start" for part in message.parts)
    return steps or int(_read_usage(message.info) is not None)


def _find_summary(message: Message) -> Iterator[LoggedRequest]:
    for step in range(_count_requests(message)):
        yield _make_request(message, step, (), message.created)


def _find_requests(messages: Sequence[Message], provider: Provider) -> Iterator[LoggedRequest]:
    """Yield the requests of a session to a provider, each with what was sent."""
    before: list[Message] = []
    shown: list[Message] = []
    history = _History(messages, provider.wire)
    for message in messages:
        if not message.is_user and message.info.get("summary"):
            before.append(message)
            shown.append(message)
            if not message.info.get("error"):
                shown = _compact(before)
            continue
        steps = _split(message.parts)
        is_asked = not message.is_user and _find_provider(message.info) == provider
        for step in range(_count_requests(message) if is_asked else 0):
            own = message._replace(parts=[part for each in steps[:step] for part in each])
            when = max([message.created, *map(_find_end, own.parts)])
            items = history.write(shown, own, when, message.info)
            yield _make_request(message, step, items, when)
        before.append(message)
        shown.append(message)


def _compact(messages: Sequence[Message]) -> list[Message]:
    """Return the messages that are sent after a compaction, whose summary is the last of them.

    It is the answer to a message that asks for it, and which names the first of the messages that
    are kept behind the summary, if any. Older versions sent the summary alone.
    """
    ids = [message.info.get("id") for message in messages]
    asked = messages[-1].info.get("parentID")
    at = ids.index(asked) if asked in ids else len(ids) - 1
    part = next((each for each in messages[at].parts if each.get("type") == "compaction"), None)
    if part is None:
        return [messages[-1]]
    tail = part.get("tail_start_id")
    kept = messages[ids.index(tail) : at] if tail in ids[:at] else ()
    return [*messages[at:], *kept]


def _make_request(
    message: Message, step: int, items: Sequence[Entry], when: float
) -> LoggedRequest:
    finished = [part for part in message.parts if part.get("type") == "step-finish"]
    is_alone = _count_requests(message) == 1
    usage = _read_usage(finished[step]) if step < len(finished) else None
    if usage is None and is_alone:
        usage = _read_usage(message.info)
    return LoggedRequest(
        items=items,
        when=read_time(when) or datetime.fromtimestamp(0, UTC),
        model=take_text(message.info.get("modelID")) or None,
        usage=usage,
        key=f"{_write_key(message.info)}/{step}",
    )


def _find_end(part: Entry) -> float:
    """Return when a tool had run, in milliseconds; 0 for other parts."""
    end = take_object(take_object(part.get("state")).get("time")).get("end")
    return end if isinstance(end, int | float) else 0


def _read_usage(entry: Entry) -> Usage | None:
    """Return the usage of a message or step; None if it has none.

    Newer versions note the total, and count the reasoning apart.
    """
    tokens = take_object(entry.get("tokens"))
    cache = take_object(tokens.get("cache"))
    cached, written = take_count(cache.get("read")), take_count(cache.get("write"))
    prompt = take_count(tokens.get("input")) + cached + written
    output, reasoning = take_count(tokens.get("output")), take_count(tokens.get("reasoning"))
    if not prompt:
        return None
    is_apart = "total" in tokens or reasoning > output
    return Usage(
        prompt=prompt,
        cached=cached,
        written=written,
        completion=output + reasoning if is_apart else output,
        reasoning=reasoning,
    )


def _split(parts: Sequence[Entry]) -> list[list[Entry]]:
    """Return the parts of each step of an answer."""
    steps: list[list[Entry]] = []
    for part in parts:
        if part.get("type") == "step-start" or not steps:
            steps.append([])
        steps[-1].append(part)
    return steps


# What is sent


class _History:
    """Turns messages into the elements of a request; what is as before is the same object."""

    def __init__(self, messages: Iterable[Message], wire: WireFormat) -> None:
        self._writer = TurnWriter(wire)
        self._clearings = sorted(
            when for message in messages for when in map(_find_clearing, message.parts) if when
        )
        self._made: dict[object, Sequence[Turn]] = {}
        self._before: Sequence[Message] = ()
        self._state: object = None
        self._turns: list[Turn] = []
        self._taken = 0

    def write(
        self, before: Sequence[Message], own: Message, when: float, info: Entry
    ) -> tuple[Entry, ...]:
        """Return the elements of a request, sent then to the model that answered so.

        before: the messages before the answer. It may be the same list as last, with more in it.
        own: the answer, with the parts that were there already.
        """
        state = bisect_right(self._clearings, when), *(info.get(name) for name in _MODEL)
        if before is not self._before or state != self._state:
            self._before, self._state, self._turns, self._taken = before, state, [], 0
        for message in before[self._taken :]:
            self._turns += self._take_turns(message, when, info)
        self._taken = len(before)
        return self._writer.write([*self._turns, *self._take_turns(own, when, info)])

    def _take_turns(self, message: Message, when: float, info: Entry) -> Sequence[Turn]:
        cleared = tuple(
            at for at, part in enumerate(message.parts) if 0 < _find_clearing(part) <= when
        )
        is_own = all(info.get(name) == message.info.get(name) for name in _MODEL)
        key = message.info.get("id"), len(message.parts), cleared, is_own
        turns = self._made.get(key)
        if turns is None:
            parts = [
                _clear(part) if at in cleared else part for at, part in enumerate(message.parts)
            ]
            turns = self._made[key] = [
                *(_say_user(parts) if message.is_user else _say_model(message, parts, is_own))
            ]
        return turns


_MODEL = ("providerID", "modelID")


def _find_clearing(part: Entry) -> float:
    """Return when opencode pruned a result, in milliseconds; 0 if it did not."""
    when = take_object(take_object(part.get("state")).get("time")).get("compacted")
    return when if isinstance(when, int | float) else 0


def _clear(part: Entry) -> Entry:
    return {
        **part,
        "state": {**take_object(part.get("state")), "output": CLEARED, "attachments": []},
    }


def _say_user(parts: Iterable[Entry]) -> Iterator[Turn]:
    said: list[Text | Media] = []
    for part in parts:
        kind = part.get("type")
        if kind == "text" and not part.get("ignored") and part.get("text"):
            said.append(Text(take_text(part["text"])))
        elif kind == "file" and part.get("mime") not in ("text/plain", "application/x-directory"):
            said += _find_media([part])
        elif kind in ("compaction", "subtask"):
            said.append(Text(_ASKS_SUMMARY if kind == "compaction" else _RAN_TOOL))
    if said:
        yield Turn("user", said)


def _say_model(message: Message, parts: Sequence[Entry], is_own: bool) -> Iterator[Turn]:
    """Yield the turns of an answer: in each step what the model said, and what its tools did.

    is_own: whether the model that is asked now has said it; others do not get its reasoning back
        with a signature.
    """
    error = take_object(message.info.get("error")).get("name")
    has_words = any(part.get("type") not in ("step-start", "reasoning") for part in parts)
    if message.info.get("error") and not (error == "MessageAbortedError" and has_words):
        return
    for step in _split(parts):
        said: list[Text | Thought | Call] = []
        results: list[Result] = []
        for part in step:
            kind, text = part.get("type"), take_text(part.get("text"))
            if kind == "tool":
                said.append(_read_call(part, is_own))
                results.append(_read_result(part))
            elif kind == "text":
                said.append(Text(text))
            elif kind == "reasoning":
                said.append(_read_thought(text, part, is_own))
        if said:
            yield Turn("assistant", said)
        if results:
            yield Turn("tool", results)


def _read_metadata(part: Entry, name: str) -> Entry:
    """Return what the AI SDK keeps with a part for a provider."""
    return take_object(take_object(part.get("metadata")).get(name))


def _read_thought(text: str, part: Entry, is_own: bool) -> Thought:
    if not is_own:
        return Thought(text)
    anthropic, openai, google = (
        _read_metadata(part, name) for name in ("anthropic", "openai", "google")
    )
    redacted = take_text(anthropic.get("redactedData"))
    signature = (
        redacted
        or take_text(anthropic.get("signature"))
        or take_text(openai.get("reasoningEncryptedContent"))
        or take_text(google.get("thoughtSignature"))
    )
    item = take_text(openai.get("itemId"))
    return Thought(text, signature or None, item or None, bool(redacted))


def _read_call(part: Entry, is_own: bool) -> Call:
    signature = take_text(_read_metadata(part, "google").get("thoughtSignature"))
    asked = take_object(part.get("state")).get("input") or {}
    name = take_text(part.get("tool"))
    return Call(_clean(part), name, asked, signature or None if is_own else None)


def _read_result(part: Entry) -> Result:
    state, name = take_object(part.get("state")), take_text(part.get("tool"))
    if state.get("status") == "completed":
        media = _find_media(take_objects(state.get("attachments")))
        return Result(_clean(part), name, take_text(state.get("output")), media=media)
    if state.get("status") != "error":
        return Result(_clean(part), name, _INTERRUPTED, is_error=True)
    more = take_object(state.get("metadata"))
    output = more.get("output") if more.get("interrupted") is True else None
    if isinstance(output, str):
        return Result(_clean(part), name, output)
    return Result(_clean(part), name, take_text(state.get("error")), is_error=True)


def _find_media(parts: Iterable[Entry]) -> list[Media]:
    """Return the images and documents that stand in a log themselves."""
    media = []
    for part in parts:
        head, _, data = take_text(part.get("url")).partition(",")
        if head.startswith("data:") and data:
            media.append(Media(take_text(part.get("mime")), data))
    return media


def _clean(call: Entry) -> str:
    """Return the id of a call without the signs that some providers refuse."""
    return re.sub(r"[^a-zA-Z0-9_-]", "_", take_text(call.get("callID")))


OPENCODE = LogKind(_AGENT, _read, search=_search)
"""The logs of opencode."""
