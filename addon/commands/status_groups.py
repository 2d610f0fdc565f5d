"""The records of `obsmask status`, counted: all of them, and in groups."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from addon.commands.status_period import find_day
from addon.metrics.holdout import Holdout
from addon.metrics.record import RequestRecord
from addon.metrics.tally import Tally


def _find_day(record: RequestRecord) -> str | None:
    day = find_day(record.time)
    return None if day is None else day.isoformat()


KEYS: Mapping[str, Callable[[RequestRecord], str | None]] = {
    "day": _find_day,
    "model": lambda record: record.model,
    "host": lambda record: record.host,
    "client": lambda record: record.client,
    "label": lambda record: record.label,
    "tag": lambda record: record.tag,
}
"""By what requests can be grouped; None is what is not known."""


@dataclass(slots=True)
class Groups:
    """The sums of all requests, and of each group.

    by: one of `KEYS`.
    replayed: whether the requests of recordings are summed up, or those that were sent.
    left_out: how many there were of the others.
    holdout: the conversations that were held out, and those that were masked meanwhile.
    """

    by: str
    replayed: bool = False
    total: Tally = field(default_factory=Tally)
    tallies: dict[str | None, Tally] = field(default_factory=dict)
    left_out: int = 0
    holdout: Holdout = field(default_factory=Holdout)

    def add(self, record: RequestRecord) -> None:
        """Count a request."""
        if record.replay != self.replayed:
            self.left_out += 1
            return
        self.total.add(record)
        self.holdout.add(record)
        self.tallies.setdefault(KEYS[self.by](record), Tally()).add(record)

    def sort(self) -> list[tuple[str | None, Tally]]:
        """Return the groups: days in their order, others by their requests, most first."""
        if self.by == "day":
            return sorted(self.tallies.items(), key=lambda item: item[0] or "")
        return sorted(self.tallies.items(), key=lambda item: (-item[1].count, item[0] or ""))


def count_groups(records: Iterable[RequestRecord], by: str, *, replayed: bool = False) -> Groups:
    """Return what records come to. They are read once, and none is kept but the dearest."""
    groups = Groups(by, replayed)
    for record in records:
        groups.add(record)
    return groups
