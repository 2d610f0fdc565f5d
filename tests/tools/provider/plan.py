"""A subscriber's plan, as Anthropic and ChatGPT tell of its quota with each answer.

How tokens become quota is not published: `weights` are this plan's own secret. The header fields
and the event are those that claude-code and codex read.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from tests.tools.provider.script import JsonDict, Received

HOUR, DAY = 3_600.0, 86_400.0

_CHATGPT = "/backend-api/"


@dataclass(frozen=True)
class Weights:
    """What the kinds of tokens count for, in plain input tokens."""

    read: float = 0.1
    written: float = 1.25
    output: float = 5.0


@dataclass
class Window:
    """A window of the quota.

    name: what Anthropic calls it; the first and the second are ChatGPT's primary and secondary.
    seconds: how long it is.
    size: the plain input tokens that fill it.
    resets: when it begins anew, in seconds since 1970.
    """

    name: str
    seconds: float
    size: float
    resets: float = 0.0
    used: float = 0.0

    def add(self, tokens: float, now: float) -> None:
        """Count tokens, after a reset if one is due; the first request begins a window."""
        if now >= self.resets:
            self.resets, self.used = now + self.seconds, 0.0
        self.used += tokens / self.size


def make_windows() -> list[Window]:
    """Return a window of five hours and one of a week."""
    return [Window("5h", 5 * HOUR, 2e6), Window("7d", 7 * DAY, 2e7)]


@dataclass
class Plan:
    """What an account has used of its quota, and how it is told.

    step: what is told is rounded to this part.
    tells: whether the next answer tells of it; not all do.
    clock: returns the time, in seconds since 1970.
    """

    weights: Weights = field(default_factory=Weights)
    windows: list[Window] = field(default_factory=make_windows)
    step: float = 0.01
    tells: Callable[[], bool] = lambda: True
    clock: Callable[[], float] = time.time

    def add(self, usage: JsonDict) -> None:
        """Count a request, by the usage that its answer reports, in the words of either vendor."""
        details = usage.get("input_tokens_details", {})
        read = usage.get("cache_read_input_tokens", 0)
        cached = details.get("cached_tokens", 0)
        written = usage.get("cache_creation_input_tokens", 0)
        plain = usage.get("input_tokens", 0) - cached
        tokens = plain + self.weights.read * (read + cached) + self.weights.written * written
        tokens += self.weights.output * usage.get("output_tokens", 0)
        self.use(tokens)

    def use(self, tokens: float) -> None:
        """Use so many plain input tokens, as another program of the account does."""
        for window in self.windows:
            window.add(tokens, self.clock())

    def headers(self, received: Received) -> Iterator[tuple[str, str]]:
        """Yield the header fields of an answer; none where no plan pays for the request."""
        if not self.tells():
            return
        if received.header("authorization").startswith("Bearer sk-ant-oat"):
            yield "anthropic-ratelimit-unified-status", "allowed"
            yield "anthropic-ratelimit-unified-representative-claim", "five_hour"
            for window in self.windows:
                start = f"anthropic-ratelimit-unified-{window.name}"
                yield f"{start}-utilization", f"{self._tell(window):g}"
                yield f"{start}-reset", f"{window.resets:.0f}"
                yield f"{start}-status", "allowed"
        elif received.path.startswith(_CHATGPT):
            yield "x-codex-active-limit", "codex"
            for name, told in self._by_rank():
                for key, value in told.items():
                    yield f"x-codex-{name}-{key.replace('_', '-')}", str(value)

    def event(self, received: Received) -> JsonDict | None:
        """Return the event that tells the same on a WebSocket; None where there is no plan."""
        if not received.path.startswith(_CHATGPT):
            return None
        return {
            "type": "codex.rate_limits",
            "plan_type": "plus",
            "rate_limits": dict(self._by_rank()),
        }

    def _by_rank(self) -> Iterator[tuple[str, Mapping[str, float]]]:
        for name, window in zip(("primary", "secondary"), self.windows, strict=False):
            yield (
                name,
                {
                    "used_percent": 100 * self._tell(window),
                    "window_minutes": int(window.seconds // 60),
                    "reset_at": int(window.resets),
                },
            )

    def _tell(self, window: Window) -> float:
        return round(window.used / self.step) * self.step
