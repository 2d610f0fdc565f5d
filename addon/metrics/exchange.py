"""One request and what became of it, as far as a record may tell: no content, ever."""

from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Literal

from addon.metrics.account import describe_entry, describe_pricing
from masking.accounting.ledger import Entry
from masking.accounting.prompt import Prompt
from masking.accounting.sizes import Sizes
from masking.measures.price_settings import PriceSettings
from masking.measures.pricing import Pricing
from masking.measures.vocabulary import ENCODING_NAME, is_exact_for
from masking.memory.boundary_memory import PrefixState
from masking.wire.usage import Usage

Blame = Literal["client left", "provider failed", "proxy ended"]
"""Why an exchange came to no end."""

_MAX_NAME = 200
"""Characters of a model's name, host or path that a record keeps."""


@dataclass(slots=True, kw_only=True)
class Exchange:
    """A request on its way, filled in as it goes; its names are `printable`.

    `seed` tells its host, model and credential apart from others, in memory only; `masked` are
    the places of the tool results that were masked; `prefix` is what is remembered of the
    conversation, None where nothing ever is; `is_masked` is false where the provider's
    answer is one to the request before masking, as in a recording.
    """

    host: str
    path: str
    masking: Literal["on", "off"]
    replay: bool
    is_masked: bool = True
    price_settings: PriceSettings = field(default_factory=PriceSettings)
    pricing: Pricing | None = None
    seed: bytes = b""
    masked: frozenset[int] = frozenset()
    prefix: PrefixState | None = None
    prompt: Prompt | None = None
    entry: Entry | None = None
    cache_read_ratio: float = 1.0
    cache_write_ratio: float = 1.0
    time: datetime = field(default_factory=lambda: datetime.now(UTC))
    model: str | None = None
    stream: bool | None = None
    passed_through: str | None = None
    bytes_before: int | None = None
    bytes_after: int | None = None
    hook_us: int | None = None
    sizes: Sizes | None = None
    status: int | None = None
    error: Blame | None = None
    usage: Usage | None = None

    @property
    def failed(self) -> bool:
        """Whether the provider failed, by its answer or by the lack of one."""
        return self.error == "provider failed" or (self.status or 0) >= 400

    @property
    def answered(self) -> bool:
        """Whether the provider took the request, to its end or until the client left."""
        return self.error in (None, "client left") and 200 <= (self.status or 0) < 300

    def as_record(self) -> dict[str, object]:
        """Return the exchange as one flat JSON object; null is what is not known."""
        sizes = self.sizes
        counted = sizes is not None and sizes.request_tokens_before is not None
        return {
            "kind": "chat",
            "time": self.time.isoformat(timespec="milliseconds"),
            "host": self.host,
            "path": self.path,
            "model": self.model,
            "stream": self.stream,
            "masking": self.masking,
            "passed_through": self.passed_through,
            "replay": self.replay,
            "prefix": self.prefix,
            "cache_read_ratio": self.cache_read_ratio,
            "cache_write_ratio": self.cache_write_ratio,
            **describe_pricing(self.pricing),
            "status": self.status,
            "error": self.error,
            **{name: getattr(sizes, name, None) for name in _SIZE_FIELDS},
            "bytes_before": self.bytes_before,
            "bytes_after": self.bytes_after,
            "hook_us": self.hook_us,
            "tokenizer": ENCODING_NAME if counted else None,
            "tokenizer_exact": is_exact_for(self.model) if counted else None,
            **{f"{name}_tokens": getattr(self.usage, name, None) for name in _USAGE_FIELDS},
            **describe_entry(self.entry),
        }


_SIZE_FIELDS = tuple(Sizes.__dataclass_fields__)
_USAGE_FIELDS = ("prompt", "cached", "written", "completion")


def printable(text: str) -> str:
    """Return a name from the wire as it may stand in a log: short, and on one line."""
    return "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text[:_MAX_NAME])
