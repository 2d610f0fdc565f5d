"""Which accounts take a request in which a text before bound reasoning has changed.

Some models refuse such a request on some accounts alone (`masking.wire.parts`), and nothing that is
sent says on which. So one request is tried masked, and its answer tells. This is what was learned,
by host, model and account, and which tries are under way. It is in the database of what requests
depend on (`addon/memory.py`), so that a restart asks nothing again.

An account is known by its id where a request has one: claude-code with a subscription names its
account, whose tokens live for hours. Else it is known by its credential. Both are digested with a
secret that the database keeps, and mean nothing without it.
"""

import re
import secrets
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from datetime import timedelta
from hashlib import blake2b
from typing import Literal, NamedTuple, cast, get_args

from addon.store import Database, Earlier, Rows, Store, StoreError
from addon.vendors import ANTHROPIC

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
"""Stands in the database for a verdict that has ended."""

TABLES = (
    "CREATE TABLE IF NOT EXISTS secret (id INTEGER PRIMARY KEY CHECK (id = 1), bytes BLOB)",
    "CREATE TABLE IF NOT EXISTS accounts (account BLOB PRIMARY KEY, host TEXT NOT NULL, "
    "model TEXT NOT NULL, verdict TEXT NOT NULL, learned REAL NOT NULL) WITHOUT ROWID",
)
_READ = "SELECT account, host, model, verdict, learned FROM accounts ORDER BY learned"
_READ_ONE = "SELECT account, host, model, verdict, learned FROM accounts WHERE account = ?"
_WRITE = """INSERT INTO accounts VALUES (?, ?, ?, ?, ?) ON CONFLICT (account) DO UPDATE
SET verdict = excluded.verdict, learned = excluded.learned"""
_READ_KEY = "SELECT bytes FROM secret"
_WRITE_KEY = "INSERT OR REPLACE INTO secret VALUES (1, ?)"

EARLIER = (
    Earlier("accounts.sqlite3", _READ_KEY, _WRITE_KEY),
    Earlier("accounts.sqlite3", _READ, "INSERT OR IGNORE INTO accounts VALUES (?, ?, ?, ?, ?)"),
)

_MOST = 1_000
"""Accounts of which rows wait if the database takes nothing."""

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


def find_learned(store: Store, now: Callable[[], float] = time.time) -> list[Learned]:
    """Return what was learned of accounts and still counts, the latest last.

    Nothing is made if nothing was kept. Raises StoreError.
    """
    found = store.find(_read_all) or {}
    return [each for each in found.values() if each.holds(now())]


class Accounts:
    """What was learned of accounts, and is kept in the database; threads may share it.

    If the database cannot be used, what is learned holds until the end.
    """

    def __init__(self, store: Store, now: Callable[[], float] = time.time) -> None:
        self._store, self._now = store, now
        self._secret: bytes | None = None
        self._learned: dict[bytes, Learned] = {}
        self._tries: dict[bytes, float] = {}
        self._waits: dict[bytes, float] = {}
        self._lock, self._reading = threading.Lock(), threading.Lock()
        self._rows: Rows[bytes, Learned] = Rows(
            store, "accounts", self._write, read=_read_all, load=self._load, most=_MOST
        )

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
        learned what this one does not know, so the database is asked first.
        """
        key = account.digest
        try:
            self._load(self._store.read(lambda database: _read(database, _READ_ONE, key)))
        except StoreError as error:
            self._store.warn(error)
        if self.find_verdict(account) is not None:
            return False
        now = self._now()
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

        None ends the verdict so far, in the database as well: the account is tried again.
        """
        learned = Learned(account, verdict, self._now())
        with self._lock:
            self._tries.pop(account.digest, None)
            self._learned[account.digest] = learned
        self._rows.put(account.digest, learned)

    def close(self) -> None:
        """Write what was learned."""
        self._rows.close()

    def _digest(self, parts: Iterable[bytes]) -> bytes:
        digest = blake2b(key=self._read_secret(), digest_size=16)
        for part in parts:
            digest.update(len(part).to_bytes(8, "big") + part)
        return digest.digest()

    def _read_secret(self) -> bytes:
        """Return the database's secret, and read what was learned with it; both happen once."""
        with self._reading:
            if self._secret is None:
                own = secrets.token_bytes(32)
                try:
                    self._secret = self._store.read(_find_secret) or self._store.write(
                        lambda database: _keep_secret(database, own)
                    )
                    self._load(self._store.read(_read_all))
                except StoreError as error:
                    self._store.warn(error)
                    self._secret = self._secret or own
            return self._secret

    def _load(self, found: Mapping[bytes, Learned]) -> None:
        """Take in what another process may have learned, unless this one knows better."""
        with self._lock:
            for key, learned in found.items():
                known = self._learned.get(key)
                if known is None or known.learned <= learned.learned:
                    self._learned[key] = learned

    def _write(self, database: Database, rows: Mapping[bytes, Learned]) -> None:
        # A secret that could not be read was made up: what it has digested means nothing there.
        if self._secret is None or _keep_secret(database, self._secret) != self._secret:
            raise StoreError("the secret of accounts could not be read in time")
        for account, verdict, learned in rows.values():
            database.execute(_WRITE, (*account, verdict or _ENDED, learned))


def _find_secret(database: Database) -> bytes | None:
    """Return the database's secret; None if there is none that can be one."""
    (found,) = database.execute(_READ_KEY).fetchone() or (None,)
    return found[:64] or None if isinstance(found, bytes) else None


def _keep_secret(database: Database, secret: bytes) -> bytes:
    """Return the database's secret, which is this one if there is none yet."""
    if found := _find_secret(database):
        return found
    database.execute(_WRITE_KEY, (secret,))
    return secret


def _read_all(database: Database) -> dict[bytes, Learned]:
    return _read(database, _READ)


def _read(database: Database, query: str, *values: bytes) -> dict[bytes, Learned]:
    """Return what rows say of accounts, the latest last; what makes no sense is passed over."""
    return {
        digest: Learned(
            Account(digest, str(host), str(model)),
            None if verdict == _ENDED else cast(Verdict, verdict),
            learned if isinstance(learned, float) else 0.0,
        )
        for digest, host, model, verdict, learned in database.execute(query, values)
        if isinstance(digest, bytes) and verdict in (*get_args(Verdict), _ENDED)
    }
