"""Which programs refuse the proxy's certificate, and when each is tried again.

A refusal never holds for good. Programs are told apart by the TLS that they offer, so a program
without the CA must not switch masking off for a later one that offers the same TLS. The price is
that a program which still refuses fails once more at every trial. Its own retries mostly hide that,
the intervals between trials grow, and of several connections at once only one is a trial.
"""

import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeVar

from addon.proxy.handshake import Failure

FIRST_DELAY = 5.0
"""Seconds until the first trial after a refusal; each further refusal doubles them."""

LONGEST_DELAY = 3600.0

PAIR_SECONDS = 60.0
"""Two handshakes that end without an alert within this time are a refusal. A single one, or two
that are further apart, may be connections that were no longer wanted."""

_FORGET_SECONDS = 2 * LONGEST_DELAY
"""After this long without a refusal, the next one is treated as the first."""

_MAX_REMEMBERED = 1_000
_OTHER_HOSTS = "other hosts"


class Peer(NamedTuple):
    """A program, as far as it can be told from others, and the host it wants to reach."""

    address: str
    host: str
    program: tuple[object, ...]

    def is_same_program(self, other: "Peer") -> bool:
        """Whether both are the same program, whatever the host."""
        return (self.address, self.program) == (other.address, other.program)


@dataclass(slots=True)
class _Refusal:
    """A refusal by one program for one host. Times are in seconds on the clock.

    `due` is when the next trial comes by itself; `retry_at` is earlier if it was brought forward.
    A refusal is "on trial" from when a connection is opened until it is renewed or lifted. A
    lifted one is kept only for its delay.
    """

    since: float
    delay: float
    due: float
    retry_at: float
    is_brought_forward: bool = False
    state: Literal["stands", "on trial", "lifted"] = "stands"


class Trust:
    """The refusals of a run, in tables that forget their oldest entries.

    `passed` counts the connections that passed unopened for lack of trust, by host.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._refusals: dict[Peer, _Refusal] = {}
        self._failures: dict[Peer, float] = {}
        self.passed: Counter[str] = Counter()

    def opens_next(self, peer: Peer) -> bool:
        """Return whether to open a new connection of a peer; if not, count it."""
        refusal = self._refusals.get(peer)
        if refusal is None or refusal.state == "lifted":
            return True
        now = self._clock()
        if now < refusal.retry_at:
            self._count(peer.host)
            return False
        refusal.state = "on trial"
        refusal.is_brought_forward = now < refusal.due
        refusal.due = refusal.retry_at = now + refusal.delay
        return True

    def accept(self, peer: Peer) -> bool:
        """Note that a peer accepted the certificate; return whether that lifted a refusal."""
        self._failures.pop(peer, None)
        self._bring_forward(peer)
        refusal = self._refusals.get(peer)
        if refusal is None or refusal.state == "lifted":
            return False
        refusal.state = "lifted"
        return True

    def refuse(self, peer: Peer, failure: Failure) -> float | None:
        """Note a failed handshake of a peer.

        Returns the seconds until the next trial if this is a refusal, new or renewed; None if it
        says too little, or nothing new.
        """
        now, last = self._clock(), self._refusals.get(peer)
        if last is not None and last.state == "stands":
            return None  # this connection was opened before the refusal
        is_trial = last is not None and last.state == "on trial"
        if not is_trial and failure != "refused" and not self._is_second(peer, now):
            return None
        delay, is_brought_forward = FIRST_DELAY, False
        # A lifted refusal counts, too. Otherwise, of two programs that offer the same TLS, one
        # without the CA would fail each time that the other succeeds.
        if last is not None and now - last.since < _FORGET_SECONDS:
            delay, is_brought_forward = min(2 * last.delay, LONGEST_DELAY), last.is_brought_forward
        due = now + delay
        _remember(self._refusals, peer, _Refusal(now, delay, due, due, is_brought_forward))
        return delay

    def _bring_forward(self, peer: Peer) -> None:
        """Let the same program's refusals of other hosts be tried at once.

        This is done once for each trial that comes by itself. Otherwise a program that trusts the
        proxy, except for a host whose certificate it knows, would fail there after each success
        elsewhere.
        """
        for other, refusal in self._refusals.items():
            is_past = refusal.state == "lifted" or refusal.is_brought_forward
            if other != peer and other.is_same_program(peer) and not is_past:
                refusal.is_brought_forward = True
                refusal.retry_at = min(refusal.retry_at, self._clock())

    def _is_second(self, peer: Peer, now: float) -> bool:
        """Return whether this is the second failed handshake in a row; remember a first."""
        first = self._failures.pop(peer, None)
        if first is not None and now - first < PAIR_SECONDS:
            return True
        _remember(self._failures, peer, now)
        return False

    def _count(self, host: str) -> None:
        is_named = host in self.passed or len(self.passed) < _MAX_REMEMBERED
        self.passed[host if is_named else _OTHER_HOSTS] += 1


_Value = TypeVar("_Value")


def _remember(table: dict[Peer, _Value], peer: Peer, value: _Value) -> None:
    table[peer] = value
    if len(table) > _MAX_REMEMBERED:
        del table[next(iter(table))]
