"""What is learned of accounts: its file, and sessions on accounts of both kinds."""

import asyncio
import json
import sqlite3
import stat
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from datetime import timedelta
from itertools import pairwise
from pathlib import Path
from threading import Event
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from addon.accounts import (
    REFUSAL_HOLDS,
    TABLES,
    TRIED_HOST,
    Account,
    Accounts,
    Learned,
    find_learned,
)
from addon.config import ConfigFile
from addon.engine import Engine
from addon.memory import open_memory
from addon.places import MEMORY_FILE
from addon.request import HeaderFields, PlainMessage, find_wire_format
from tests.addon.test_engine import Request
from tests.support.clock import Clock
from tests.support.made_up_requests import Carrier
from tests.support.marks import thorough
from tests.tools.provider.messages import CLEARING_BETA, check, edit, sign
from tests.tools.provider.script import Received

DAY = timedelta(days=1).total_seconds()
HOST, MODEL = TRIED_HOST, "claude-opus-5-5"


@pytest.fixture
def clock() -> Clock:
    return Clock(1_800_000_000.0)


@pytest.fixture
def accounts(tmp_path: Path, clock: Clock) -> Iterator[Accounts]:
    with opened(tmp_path / "state", clock) as made:
        yield made


@contextmanager
def opened(folder: Path, clock: Clock) -> Iterator[Accounts]:
    with closing(open_memory(lambda: folder)) as store, closing(Accounts(store, clock)) as accounts:
        yield accounts


def read_learned(folder: Path, now: Callable[[], float] = time.time) -> list[Learned]:
    with closing(open_memory(lambda: folder)) as store:
        return find_learned(store, now)


def identify(accounts: Accounts, credential: bytes = b"a", user: str | None = None) -> Account:
    return accounts.identify(HOST, MODEL, credential, user)


def test_what_was_learned_is_there_after_a_restart(
    accounts: Accounts, tmp_path: Path, clock: Clock
) -> None:
    accounts.learn(identify(accounts), "takes")
    accounts.close()
    with opened(tmp_path / "state", clock) as again:
        assert "takes" == again.find_verdict(identify(again))
        assert None is again.find_verdict(identify(again, b"b"))
    (learned,) = read_learned(tmp_path / "state")
    assert (HOST, MODEL, clock.now) == (
        learned.account.host,
        learned.account.model,
        learned.learned,
    )


def test_the_file_is_private_and_holds_no_credential(accounts: Accounts, tmp_path: Path) -> None:
    accounts.learn(identify(accounts, b"digest of a key", "user_1_account_none"), "refuses")
    accounts.close()
    file = tmp_path / "state" / MEMORY_FILE
    assert 0o600 == stat.S_IMODE(file.stat().st_mode)
    assert b"digest of a key" not in file.read_bytes()


def test_a_refusal_holds_for_thirty_days(accounts: Accounts, tmp_path: Path, clock: Clock) -> None:
    account = identify(accounts)
    accounts.learn(account, "refuses")
    clock.now += REFUSAL_HOLDS.total_seconds() - 1
    assert ("refuses", False) == (accounts.find_verdict(account), accounts.begin_try(account))
    clock.now += 2
    assert (None, True) == (accounts.find_verdict(account), accounts.begin_try(account))
    accounts.close()
    assert [] == read_learned(tmp_path / "state", clock)


def test_what_is_taken_holds_for_good(accounts: Accounts, clock: Clock) -> None:
    accounts.learn(identify(accounts), "takes")
    clock.now += 1_000 * DAY
    assert "takes" == accounts.find_verdict(identify(accounts))


def test_there_is_one_try_at_a_time_and_one_that_tells_nothing_is_waited_for(
    accounts: Accounts, clock: Clock
) -> None:
    account, other = identify(accounts), identify(accounts, b"other")
    assert [True, False, True] == [*map(accounts.begin_try, (account, account, other))]
    accounts.end_try(account)
    assert accounts.begin_try(account)
    accounts.end_try(account, waits=True)
    assert not accounts.begin_try(account)
    clock.now += 3_601
    assert accounts.begin_try(account)


def test_a_try_that_never_ends_is_given_up(accounts: Accounts, clock: Clock) -> None:
    assert accounts.begin_try(identify(accounts))
    clock.now += 3_601
    assert accounts.begin_try(identify(accounts))


def test_what_another_process_has_learned_is_not_tried_again(
    accounts: Accounts, tmp_path: Path, clock: Clock
) -> None:
    account = identify(accounts)
    with opened(tmp_path / "state", clock) as other:
        other.learn(identify(other), "takes")
    assert None is accounts.find_verdict(account)
    assert not accounts.begin_try(account)
    assert "takes" == accounts.find_verdict(account)


@pytest.mark.parametrize(
    ("user", "is_named"),
    [
        ("user_0a1b_account_01234567-89ab-4cde-8f01-23456789abcd_session_x", True),
        ('{"device_id":"d","account_uuid":"01234567-89ab-4cde-8f01-23456789abcd"}', True),
        ("user_0a1b_account__session_01234567-89ab-4cde-8f01-23456789abcd", False),
        ('{"account_uuid":""}', False),
        ("somebody", False),
    ],
)
def test_an_account_is_known_by_its_id_where_there_is_one(
    accounts: Accounts, user: str, is_named: bool
) -> None:
    """The tokens of a subscription are renewed; its account stays."""
    one, other = identify(accounts, b"a", user), identify(accounts, b"b", user)
    assert is_named == (one == other)


def test_models_and_hosts_are_told_apart(accounts: Accounts) -> None:
    found = {
        accounts.identify(host, model, b"a", None).digest
        for host in (HOST, "example.org")
        for model in (MODEL, "claude-sonnet-5-5", "\ud800")
    }
    assert 6 == len(found)


@pytest.mark.parametrize("content", [b"no database" * 100, b""], ids=["damaged", "empty"])
def test_a_damaged_file_costs_a_try_and_a_line(
    tmp_path: Path, clock: Clock, caplog: pytest.LogCaptureFixture, content: bytes
) -> None:
    (tmp_path / MEMORY_FILE).write_bytes(content)
    with opened(tmp_path, clock) as accounts:
        account = identify(accounts)
        assert accounts.begin_try(account)
        accounts.learn(account, "takes")
    assert "takes" == accounts.find_verdict(account)
    assert [account] == [each.account for each in read_learned(tmp_path)]
    said = (
        f"{tmp_path / MEMORY_FILE} is damaged (file is not a database): renamed to "
        f"{MEMORY_FILE}.damaged, a new file is started"
    )
    assert ([said] if content else []) == caplog.messages


def test_a_row_that_makes_no_sense_is_passed_over(
    accounts: Accounts, tmp_path: Path, clock: Clock
) -> None:
    accounts.learn(identify(accounts), "takes")
    accounts.close()
    with sqlite3.connect(tmp_path / "state" / MEMORY_FILE) as database:
        database.execute("INSERT INTO accounts VALUES ('x', 'h', 'm', 'takes', 1.0)")
        database.execute("INSERT INTO accounts VALUES (x'00', 'h', 'm', 'perhaps', 1.0)")
    assert 1 == len(read_learned(tmp_path / "state"))


def test_what_an_earlier_version_has_learned_is_taken_over_with_its_secret(
    tmp_path: Path, clock: Clock
) -> None:
    """Records hold what the secret has digested."""
    folder = tmp_path / "state"
    with opened(folder, clock) as accounts:
        accounts.learn(identify(accounts), "takes")
        before = identify(accounts)
    with closing(sqlite3.connect(folder / "accounts.sqlite3")) as old, old:
        for table in TABLES:
            old.execute(table)
        with closing(sqlite3.connect(folder / MEMORY_FILE)) as new:
            for insert, query in (
                ("INSERT INTO secret VALUES (?, ?)", "SELECT * FROM secret"),
                ("INSERT INTO accounts VALUES (?, ?, ?, ?, ?)", "SELECT * FROM accounts"),
            ):
                old.executemany(insert, new.execute(query).fetchall())
    (folder / MEMORY_FILE).unlink()
    with opened(folder, clock) as accounts:
        assert (before, "takes") == (identify(accounts), accounts.find_verdict(before))
    assert [MEMORY_FILE] == [each.name for each in folder.iterdir()]


def test_a_new_file_gets_the_secret_of_a_process_that_runs(tmp_path: Path, clock: Clock) -> None:
    with opened(tmp_path, clock) as accounts:
        accounts.learn(identify(accounts), "takes")
        accounts.learn(identify(accounts, b"b"), "refuses")
        accounts.close()
    with opened(tmp_path, clock) as accounts:
        before = identify(accounts)
        (tmp_path / MEMORY_FILE).write_bytes(b"no database" * 1_000)
        accounts.learn(identify(accounts, b"c"), "takes")
    with opened(tmp_path, clock) as accounts:
        assert (before, "takes") == (
            identify(accounts),
            accounts.find_verdict(identify(accounts, b"c")),
        )


def test_a_secret_that_could_not_be_read_in_time_leaves_nothing_in_the_file(
    tmp_path: Path, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    with opened(tmp_path, clock) as accounts:
        accounts.learn(identify(accounts, b"b"), "takes")
    with opened(tmp_path, clock) as accounts:
        with closing(sqlite3.connect(tmp_path / MEMORY_FILE)) as holder:
            holder.execute("BEGIN EXCLUSIVE")
            account = identify(accounts)
        accounts.learn(account, "takes")
        assert (account, "takes") == (identify(accounts), accounts.find_verdict(account))
    (line,) = caplog.messages
    assert "is locked" in line
    assert 1 == len(read_learned(tmp_path))


# Sessions


class Step(NamedTuple):
    """A request: whether its answer thinks, and what happens to the proxy before or amid it.

    says: whether the agent has reported, and was told to go on, before it.
    """

    thinks: bool
    before: str | None = None
    amid: str | None = None
    says: bool = False


CONFIG = """
[observation_masking.schema1]
window_turns = 2
cache_pricing = {prices}
bound_reasoning = "{bound_reasoning}"
provider_clearing = {clears}

[observation_masking.redaction]
enabled = {redacts}
tool_names = ["shell"]
"""
OUTPUT = "a line of output, and nothing went wrong\n" * 40


class Session:
    """An agent on one account, the engine, and a provider with Anthropic's rules.

    It may refuse to clear, or clear nothing.
    """

    def __init__(
        self, folder: Path, *, is_old: bool, prices: str, clearing: str, redacts: bool = False
    ) -> None:
        self._folder, self.is_old, self._prices = folder, is_old, prices
        self._clearing, self._redacts = clearing, redacts
        self._messages: list[dict[str, Any]] = [{"role": "user", "content": "Repair it."}]
        self.refused = self.seen = self.refused_to_clear = self.starts = 0
        self.masked: list[frozenset[str]] = []
        self.drops = False
        self.configure("try")
        self.engine = self._start()

    def configure(self, setting: str) -> None:
        clears, setting = setting == "clear", "try" if setting == "clear" else setting
        values = {"prices": self._prices, "bound_reasoning": setting}
        switches = {"clears": clears, "redacts": self._redacts}
        text = CONFIG.format(**values, **{key: str(on).lower() for key, on in switches.items()})
        (self._folder / "config.toml").write_text(text)

    def _start(self) -> Engine:
        engine = Engine()
        engine.use(ConfigFile(self._folder / "config.toml"))
        self.starts += 1
        return engine

    def restart(self) -> None:
        self.engine.close()
        self.engine = self._start()

    def close(self) -> None:
        self.engine.close()

    def take(self, step: Step) -> None:
        if step.before is not None:
            if step.before != "restart":
                self.configure(step.before)
            self.restart()
        if step.says:
            said = [[{"type": "text", "text": text}] for text in ("Some is done.", "Go on.")]
            self._messages += [
                {"role": "assistant", "content": said[0]},
                {"role": "user", "content": said[1]},
            ]
        if step.amid == "killed":  # it has sent the request, and nobody hears the answer
            self._send(step, hears=False)
            self.restart()
        seen = self.seen
        thinks = self._send(step)
        if self.seen > seen:  # as claude-code does
            for message in self._messages[1::2]:
                message["content"] = [
                    each for each in message["content"] if each["type"] != "thinking"
                ]
            thinks = self._send(step)
        number = len(self._messages)
        call = {
            "type": "tool_use",
            "id": f"toolu_{number}",
            "name": "shell",
            "input": {"n": number},
        }
        result = {
            "type": "tool_result",
            "tool_use_id": f"toolu_{number}",
            "content": f"{number} {OUTPUT}",
        }
        self._messages += [
            {"role": "assistant", "content": [*thinks, call]},
            {"role": "user", "content": [result]},
        ]

    def _send(self, step: Step, *, hears: bool = True) -> list[dict[str, Any]]:
        body = json.dumps(
            {"model": MODEL, "max_tokens": 9, "tools": [{"name": "shell"}]}
            | {"messages": self._messages}
        ).encode()
        request = Request(HOST)
        request.path = "/v1/messages"
        request.headers = HeaderFields([("user-agent", "claude-cli/2.1"), ("x-api-key", "key")])
        match = find_wire_format(request)
        assert match is not None
        exchange, carrier = self.engine.open(request, match), Carrier(body)
        assert exchange is not None
        asyncio.run(exchange.mask(carrier))
        sent = carrier.body
        if not hears:
            return []
        status = self._answer(sent)
        exchange.begin_answer(status)
        if exchange.may_resend(status, sent) and (second := exchange.begin_second()):
            sent, status = second.body, self._answer(second.body)
            exchange.end_second(status, carrier)
        applied = edit(self._receive(sent)).applied
        answer: dict[str, Any] = {"usage": {"input_tokens": 1}}
        answer["context_management"] = {"applied_edits": applied}
        if self.drops:
            answer["input_transformations"] = [{"type": "thinking_dropped"}]
        exchange.finish(status, PlainMessage(json.dumps(answer).encode()))
        self.seen += status == 400
        self.masked.append(_find_masked(sent))
        if not step.thinks or status == 400:
            return []
        return [{"type": "thinking", "thinking": "Hm.", "signature": sign(json.loads(sent), "Hm.")}]

    def _answer(self, sent: bytes) -> int:
        refused = check(self._receive(sent))
        if refused and refused.startswith("context_management"):
            self.refused_to_clear += 1
        else:
            self.refused += refused is not None
        return 400 if refused else 200

    def _receive(self, sent: bytes) -> Received:
        return Received(
            request=json.loads(sent),
            path="/v1/messages",
            headers=(("anthropic-beta", CLEARING_BETA),),
            old_account=self.is_old,
            refuses_clearing=self._clearing == "refused",
            least_cleared=1_000_000 if self._clearing == "in vain" else 0,
        )


def _find_masked(sent: bytes) -> frozenset[str]:
    """Return the ids of the results that a request has masked."""
    blocks = (block for m in json.loads(sent)["messages"][1:] for block in m["content"])
    results = (block for block in blocks if block["type"] == "tool_result")
    return frozenset(each["tool_use_id"] for each in results if OUTPUT not in each["content"])


steps = st.builds(
    Step,
    st.booleans(),
    st.sampled_from([None] * 6 + ["restart", "keep", "try", "drop", "clear"]),
    st.sampled_from([None] * 6 + ["killed"]),
)


@given(
    st.lists(steps, min_size=5, max_size=14),
    st.booleans(),
    st.sampled_from(['"none"', "[0.1, 1.25]"]),
    st.sampled_from(["applied", "in vain", "refused"]),
)
def test_no_agent_sees_a_refusal_whatever_its_account_and_the_proxy_is_killed_amid_a_try(
    given_steps: list[Step], is_old: bool, prices: str, clearing: str
) -> None:
    with tempfile.TemporaryDirectory() as name, pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", name)
        session = Session(Path(name), is_old=is_old, prices=prices, clearing=clearing)
        for step in given_steps:
            session.take(step)
        session.close()
    assert 0 == session.seen
    assert session.refused <= (0 if is_old else 1)
    # A conversation asks no more once that was refused; a restart forgets it.
    assert session.refused_to_clear <= (session.starts if clearing == "refused" else 0)
    # What was masked in a request that was taken stays so.
    assert [] == [n for n, (one, other) in enumerate(pairwise(session.masked)) if not one <= other]


@pytest.mark.parametrize(
    "prices", ['"none"', thorough('"auto"'), thorough("[0.5, 1.0]"), "[0.1, 1.25]"]
)
@pytest.mark.parametrize("redacts", [False, True], ids=["window", "redaction"])
def test_an_agent_sees_one_refusal_at_most_of_an_account_that_begins_to_refuse(
    redacts: bool, prices: str
) -> None:
    """What it took changed is before reasoning for good, so the first one cannot be healed."""
    with tempfile.TemporaryDirectory() as name, pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", name)
        session = Session(
            Path(name), is_old=True, prices=prices, clearing="applied", redacts=redacts
        )
        for number in range(12):
            session.take(Step(True, says=redacts and number % 2 == 1))
        assert (0, 0) == (session.seen, session.refused)
        assert session.masked[-1]
        session.is_old = False
        for number in range(8):
            session.take(Step(True, before="restart" if number == 3 else None, says=redacts))
        session.close()
        (learned,) = read_learned(Path(name) / "observation-masking")
    assert "refuses" == learned.verdict
    assert session.seen <= 1


def test_what_the_last_answer_teaches_is_kept_though_it_is_read_as_the_process_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    session, may_read = Session(tmp_path, is_old=True, prices='"none"', clearing=""), Event()
    engine = session.engine
    for _ in range(12):
        session.take(Step(True))
    close = engine.recorder.close

    def close_once_it_may_read() -> None:
        may_read.set()
        close()

    monkeypatch.setattr(engine.recorder, "close", close_once_it_may_read)
    engine.recorder.sinks.append(lambda _: may_read.wait())
    session.take(Step(True))
    session.drops = True
    session.take(Step(True))
    session.close()
    (learned,) = read_learned(tmp_path / "observation-masking")
    assert "refuses" == learned.verdict


@pytest.mark.parametrize("number", range(1, 8))
def test_a_refusal_to_clear_is_answered_with_nothing_masked_that_nobody_remembers(
    number: int,
) -> None:
    """What no reasoning follows yet could be masked, but the next answer may be thought about."""
    with tempfile.TemporaryDirectory() as name, pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", name)
        session = Session(Path(name), is_old=False, prices='"none"', clearing="refused")
        session.take(Step(True, before="clear"))
        for place in range(1, 9):
            session.take(Step(place == number))
        session.close()
    assert (0, 0, 1) == (session.seen, session.refused, session.refused_to_clear)
