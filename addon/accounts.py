"""Which accounts take a request in which a text before bound reasoning has changed.

Some models refuse such a request on some accounts alone (`masking.wire.parts`), and nothing that is
sent says on which. So one request is tried masked, and its answer tells. This is what was learned,
by host, model and account, and which tries are under way. It lies in a small SQLite database of the
state folder, so that a restart asks nothing again.

An account is known by its id where a request has one: claude-code with a subscription names its
account, whose tokens live for hours. Else it is known by its credential. Both are digested with a
secret that the file keeps, and mean nothing without it.
"""

import logging
import os
import re
import secrets
import sqlite3
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from datetime import timedelta
from hashlib import blake2b
from pathlib import Path
from typing import Literal, NamedTuple, cast, get_args

from addon.once import Once
from addon.places import make_folder, open_private
from addon.threads import Worker
from addon.vendors import ANTHROPIC

logger = logging.getLogger("observation_masking")

FILE = "accounts.sqlite3"

TRIED_HOST = ANTHROPIC.host
"""The only host that is tried: what a gateway does with a refusal, nobody can know."""

REFUSAL_HOLDS = timedelta(days=30)
"""How long an account that has refused is left alone."""

_NEXT_TRY_SECONDS = 3_600.0
"""How long the next try waits after one whose refusal had another cause."""

_LONGEST_TRY_SECONDS = 1_800.0
"""A try that has not ended by then never will: whoever sent it is gone."""

Verdict = Literal["takes", "refuses", "refuses_drop"]
"""Whether an account takes a request in which a text before bound reasoning has changed, or refuses
it, or refuses it although the request has that reasoning dropped."""

_REFUSES = ("refuses", "refuses_drop")

_ENDED = "ended"
"""Stands in the file for a verdict that has ended; earlier versions pass over it."""

_TABLES = (
    "CREATE TABLE IF NOT EXISTS secret (id INTEGER PRIMARY KEY CHECK (id = 1), bytes BLOB)",
    "CREATE TABLE IF NOT EXISTS accounts (account BLOB PRIMARY KEY, host TEXT NOT NULL, "
    "model TEXT NOT NULL, verdict TEXT NOT NULL, learned REAL NOT NULL) WITHOUT ROWID",
)
_READ = "SELECT account, host, model, verdict, learned FROM accounts ORDER BY learned"
_READ_ONE = "SELECT account, host, model, verdict, learned FROM accounts WHERE account = ?"
_WRITE = """INSERT INTO accounts VALUES (?, ?, ?, ?, ?) ON CONFLICT (account) DO UPDATE
SET verdict = excluded.verdict, learned = excluded.learned"""

_LOCKED_SECONDS = 0.5

_NAMED_ACCOUNT = re.compile(
    r'(?:_account_|"account_uuid"\s*:\s*")([0-9a-f]{8}(?:-[0-9a-f]{4,12}){4})'
)
"""In `metadata.user_id` of claude-code: `user_…_account_UUID_session_…`, later a JSON object."""

_TAG_CHARS = 4


class Account(NamedTuple):
    """An account at a model of a host; `digest` tells it apart from all others."""

    digest: bytes
    host: str
    model: str


class Learned(NamedTuple):
    """What was learned of an account, and when, in seconds since 1970.

    verdict: None where the last one has ended, and no other was learned since.
    """

    account: Account
    verdict: Verdict | None
    learned: float

    def holds(self, now: float) -> bool:
        """Whether it still counts: an account may come to take what it has refused."""
        if self.verdict in _REFUSES:
            return now - self.learned < REFUSAL_HOLDS.total_seconds()
        return self.verdict is not None


def find_user(body: Mapping[str, object]) -> str | None:
    """Return what a request says of its user; None if it says nothing."""
    metadata = body.get("metadata")
    user = metadata.get("user_id") if isinstance(metadata, dict) else None
    return user if isinstance(user, str) else None


def _find_who(credential: bytes, user: str | None) -> bytes:
    named = _NAMED_ACCOUNT.search(user) if user else None
    return named[1].encode() if named else credential


def find_learned(folder: Callable[[], Path]) -> Verdict | None:
    """Return what was learned of all accounts alike; None if nothing was, or they differ."""
    try:
        if not (folder() / FILE).exists():
            return None
    except (OSError, RuntimeError):  # the user has no home
        return None
    learned = Accounts(folder).list_learned()
    verdicts: set[Verdict | None] = {
        "refuses" if each.verdict in _REFUSES else each.verdict for each in learned
    }
    return verdicts.pop() if len(verdicts) == 1 else None


class Accounts:
    """What was learned of accounts, in `folder`; threads may share it.

    Whatever is wrong with the file is logged once; what is learned then holds until the end.
    """

    def __init__(self, folder: Callable[[], Path], now: Callable[[], float] = time.time) -> None:
        self._folder, self._now = folder, now
        self._secret: bytes | None = None
        self._learned: dict[bytes, Learned] = {}
        self._tries: dict[bytes, float] = {}
        self._waits: dict[bytes, float] = {}
        self._lock = threading.Lock()
        self._writer = Worker("accounts", problem="what was learned of an account is not kept")
        self._once = Once()

    def identify(self, host: str, model: str, credential: bytes, user: str | None) -> Account:
        """Return the account of a request.

        credential: a digest of the one that it is sent with.
        user: what it says of its user, as `find_user` returns it.
        """
        parts = host.encode(), model.encode("utf-8", "surrogatepass"), _find_who(credential, user)
        return Account(self._digest(parts), host, model)

    def tag(self, host: str, credential: bytes, user: str | None) -> str:
        """Return a short name for an account of a host, the same in every run on this machine."""
        return self._digest((host.encode(), _find_who(credential, user))).hex()[:_TAG_CHARS]

    def find_verdict(self, account: Account) -> Verdict | None:
        """Return what was learned of an account; None if that is nothing, or no longer counts."""
        with self._lock:
            found = self._learned.get(account.digest)
        return found.verdict if found and found.holds(self._now()) else None

    def begin_try(self, account: Account) -> bool:
        """Whether a request may be tried now; the caller then calls `end_try` or `learn`.

        It may not while another is, nor soon after one that told nothing. Another process may have
        learned what this one does not know, so its file is asked first.
        """
        self._read(account)
        if self.find_verdict(account) is not None:
            return False
        now, key = self._now(), account.digest
        with self._lock:
            if now < self._waits.get(key, 0.0) or now < self._tries.get(key, 0.0):
                return False
            self._tries[key] = now + _LONGEST_TRY_SECONDS
            return True

    def end_try(self, account: Account, *, waits: bool = False) -> None:
        """End a try that told nothing; the next one `waits` where it was refused all the same."""
        with self._lock:
            self._tries.pop(account.digest, None)
            if waits:
                self._waits[account.digest] = self._now() + _NEXT_TRY_SECONDS

    def learn(self, account: Account, verdict: Verdict | None) -> None:
        """Remember what an answer told of an account; a try of it ends.

        None ends the verdict so far, in the file as well: the account is tried again.
        """
        learned = Learned(account, verdict, self._now())
        with self._lock:
            self._tries.pop(account.digest, None)
            self._learned[account.digest] = learned
        self._writer.submit(lambda: self._write(learned), can_be_cancelled=False)

    def list_learned(self) -> list[Learned]:
        """Return what was learned and still counts, the latest last."""
        self._read_secret()
        now = self._now()
        with self._lock:
            found = sorted(self._learned.values(), key=lambda each: each.learned)
        return [each for each in found if each.holds(now)]

    def close(self) -> None:
        """Write what was learned."""
        self._writer.close(2 * _LOCKED_SECONDS)

    def _digest(self, parts: Iterable[bytes]) -> bytes:
        digest = blake2b(key=self._read_secret(), digest_size=16)
        for part in parts:
            digest.update(len(part).to_bytes(8, "big") + part)
        return digest.digest()

    # The file

    def _read_secret(self) -> bytes:
        """Return the file's secret, and read all of the file with it; both happen once."""
        with self._lock:
            if self._secret is None:
                self._secret = secrets.token_bytes(32)
                try:
                    with self._connect() as database:
                        insert = "INSERT OR IGNORE INTO secret VALUES (1, ?)"
                        database.execute(insert, (self._secret,))
                        (found,) = database.execute("SELECT bytes FROM secret").fetchone()
                        self._secret = bytes(found)[:64] or self._secret
                        self._take(database.execute(_READ).fetchall())
                except (OSError, RuntimeError, TypeError, sqlite3.Error) as error:
                    self._warn(error)
            return self._secret

    def _read(self, account: Account) -> None:
        """Read what the file says of an account."""
        try:
            with self._connect() as database:
                rows = database.execute(_READ_ONE, (account.digest,)).fetchall()
        except (OSError, RuntimeError, sqlite3.Error) as error:
            self._warn(error)
            return
        with self._lock:
            self._take(rows)

    def _take(self, rows: list[tuple[object, ...]]) -> None:
        for digest, host, model, verdict, learned in rows:
            if isinstance(digest, bytes) and verdict in (*get_args(Verdict), _ENDED):
                account = Account(digest, str(host), str(model))
                when = learned if isinstance(learned, float) else 0.0
                known = self._learned.get(digest)
                if known is None or known.learned <= when:
                    found = None if verdict == _ENDED else cast(Verdict, verdict)
                    self._learned[digest] = Learned(account, found, when)

    def _write(self, learned: Learned) -> None:
        try:
            with self._connect() as database:
                verdict = learned.verdict or _ENDED
                database.execute(_WRITE, (*learned.account, verdict, learned.learned))
        except (OSError, RuntimeError, sqlite3.Error) as error:
            self._warn(error)

    @contextmanager
    def _connect(self) -> Iterator[sqlite3.Connection]:
        """Open the file, with its tables, for one transaction."""
        path = self._folder() / FILE
        make_folder(path.parent)
        os.close(open_private(str(path), os.O_CREAT | os.O_RDWR))  # else SQLite makes a public one
        with closing(sqlite3.connect(path, timeout=_LOCKED_SECONDS)) as database, database:
            for table in _TABLES:
                database.execute(table)
            yield database

    def _warn(self, error: Exception) -> None:
        if self._once.is_first():
            logger.warning(f"what accounts take is kept in memory only: {error}")
