"""What masking did to a plan's quota, learned from how that rises from answer to answer.

How tokens become quota is not published. What a cached token counts decides whether masking keeps
quota free: it saves tokens that are read from the cache, and adds some that are written to it. So
it is learned, for each account and each window, by a straight line through the readings:

    used = start + a * plain + r * read + w * written + o * output + c * seconds + rounding

`plain` is what the tokens cost that were not read from the cache, with the output, at API prices,
so that the prices of models compare; `read` is what the others would cost at the plain price; `w`
and `o` allow for the plan's own weight of what is written, and of the output; `c` is what other
programs use steadily. What they use in bursts fits no line, and then nothing is said.
"""

import math
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from math import fsum
from typing import NamedTuple

from addon.quota import QuotaWindow
from addon.records.record import RequestRecord

_MOST_REQUESTS = 600
"""Of an account, through whose readings a line is drawn; the last ones."""

_LONGEST_PAUSE = 900.0
"""In seconds. After a longer one the line starts anew: who knows what else was done meanwhile."""

_LEAST_READINGS, _LEAST_STEPS = 20, 8
"""How many readings, and how large a rise, in the smallest steps that are told, say anything."""

_MOST_NOISE_STEPS, _MOST_NOISE = 0.38, 0.001
"""How far readings may lie from the line: so many steps, or this part of a window. Rounding alone
makes .29 of a step. Beyond this, something else used the quota, or it is not counted like this."""

_DEVIATIONS = 2.0
"""Of a line's own error, on either side."""

_LEAST_ERROR = 0.05
"""Of an amount, as no plan counts exactly as a line does."""

_MOST_ERROR = 0.5
"""Of an amount; one that may be further off is not said."""

_AS_LIKELY = 1.1
"""A line counts as likely if it is at most this many times as far off as the best one."""

_EXPECTED = ((1, 0.35, 0.7), (2, 0.0, 0.25), (3, 0.0, 0.5))
"""What is expected of the weights of read, written and output, by their place: the mean, and how
far they may lie from it, in weights of a plain token. A cached token counts between 0 and 1. What
is written, and the output, count about as much as their prices: the line has what they count more.
"""

_TIMES, _TINY = 4, 1e-12

_Row = tuple[float, float, float, float, float, float]
"""A reading: what had been used before it, as in `_Request.used`; the time; the share it told."""

_LEARNED = 5
"""How many weights are learned: one for each column of a row but the last."""


@dataclass(frozen=True, slots=True)
class Kept:
    """The part of a window that masking kept free; below 0 it is what masking used up.

    error: by how much that may be off, either way. It is less than half of it.
    """

    share: float
    error: float


@dataclass(frozen=True, slots=True)
class _Request:
    """A request of an account.

    used: what it used, in dollars, in the order of the line above; None if nobody knows.
    kept: what it used less than without masking, of plain tokens, cached ones and written ones.
    error: by how much that may be off, as a plain cost.
    """

    when: datetime
    windows: Mapping[str, QuotaWindow]
    used: tuple[float, float, float, float] | None
    kept: tuple[float, float, float] = (0.0, 0.0, 0.0)
    error: float = 0.0


@dataclass(slots=True)
class _Present:
    """A window as it was read last, and what its requests used less than without masking."""

    window: QuotaWindow
    kept: tuple[float, float, float] = (0.0, 0.0, 0.0)
    error: float = 0.0

    def add(self, request: _Request) -> None:
        """Count a request; its answer may have been silent."""
        self.window = request.windows.get(self.window.name, self.window)
        plain, read, written = self.kept
        self.kept = plain + request.kept[0], read + request.kept[1], written + request.kept[2]
        self.error += request.error


@dataclass(slots=True)
class QuotaUse:
    """The requests of each account, by what they used, and what their answers told of the quota.

    present: the windows that have not begun anew since, by the account and their names.
    """

    accounts: dict[str, deque[_Request]] = field(default_factory=dict)
    present: dict[tuple[str, str], _Present] = field(default_factory=dict)

    def add(self, record: RequestRecord) -> None:
        """Count a request that has ended, by the record of it as it was sent."""
        when = record.when
        if record.quota_account is None or when is None:
            return
        windows = {window.name: window for window in record.quota or ()}
        requests = self.accounts.setdefault(record.quota_account, deque(maxlen=_MOST_REQUESTS))
        request = _read_request(record, when, windows)
        requests.append(request)
        for name, window in windows.items():
            place = record.quota_account, name
            present = self.present.get(place)
            if present is None or not _is_same(window, present.window):
                self.present[place] = _Present(window)
        for (account, _), present in self.present.items():
            if account == record.quota_account:
                present.add(request)

    def find_kept(self, account: str, window: QuotaWindow) -> Kept | None:
        """Return what masking did to a window, as it was read last; None if that is not known."""
        requests = sorted(self.accounts.get(account, ()), key=lambda request: request.when)
        # Nobody knows whether what an answer tells has its own request in it already.
        both = (_divide(requests, window.name, has_own=has_own) for has_own in (True, False))
        lines = [line for runs in both if (line := _fit([*runs])) is not None]
        if not lines:
            return None
        best = min(line.noise for line in lines)
        # This is about the present window alone, and is said only where all likely lines agree.
        mine = self.present[account, window.name]
        likely = [line for line in lines if line.noise <= _AS_LIKELY * best]
        ranges = [line.price(mine.kept, mine.error) for line in likely]
        low, high = min(low for low, _ in ranges), max(high for _, high in ranges)
        share, off = (low + high) / 2, (high - low) / 2
        return Kept(share, off) if off <= _MOST_ERROR * abs(share) else None


def _read_request(
    record: RequestRecord, when: datetime, windows: Mapping[str, QuotaWindow]
) -> _Request:
    refused = (record.status or 0) >= 400
    if refused or record.purpose == "count":
        return _Request(when, windows, (0.0, 0.0, 0.0, 0.0))
    before, after = record.tokens_by_kind_before, record.tokens_by_kind_after
    cost, output = record.cost_dollars_after, record.answer_dollars
    if before is None or after is None or cost is None or output is None:
        return _Request(when, windows, None)
    write = record.price_write_ratio or 0.0
    uncached, read, written = after
    plain_tokens = uncached + read * (record.price_read_ratio or 0.0) + written * write
    price = cost / (plain_tokens or 1.0)
    paid = price * (uncached + write * written) + output
    saved = tuple(b - a for b, a in zip(before, after, strict=True))
    kept = price * (saved[0] + write * saved[2]), price * saved[1], price * write * saved[2]
    used = paid, price * read, price * write * written, output
    return _Request(when, windows, used, kept, price * record.saved_tokens_error)


def _is_same(window: QuotaWindow, other: QuotaWindow) -> bool:
    """Whether two readings are of a window that has not begun anew in between."""
    if window.resets is None or other.resets is None:
        return window.resets is other.resets
    return abs(window.resets - other.resets) < 60


# The line


def _divide(requests: Sequence[_Request], name: str, *, has_own: bool) -> Iterator[list[_Row]]:
    """Yield runs of readings of a window, which have a start in common.

    A run ends where the window begins anew, where nobody knows what a request used, and at a long
    pause. has_own: whether an answer's reading has its own request in it.
    """
    run: list[_Row] = []
    used = (0.0, 0.0, 0.0, 0.0)
    last: QuotaWindow | None = None
    latest = -math.inf
    for request in requests:
        reading, when = request.windows.get(name), request.when.timestamp()
        is_anew = reading is not None and last is not None and not _is_same(reading, last)
        if is_anew or (request.used is None and has_own) or when - latest > _LONGEST_PAUSE:
            yield run
            run, last = [], None
        before, own, latest = used, request.used or (0.0, 0.0, 0.0, 0.0), when
        used = (before[0] + own[0], before[1] + own[1], before[2] + own[2], before[3] + own[3])
        if reading is not None:
            run.append((*(used if has_own else before), when, reading.used))
            last = reading
        if request.used is None and not has_own:
            yield run
            run, last = [], None
    yield run


class _Line(NamedTuple):
    """The line that fits readings best.

    noise: how far they lie from it, by their standard deviation.
    weights, covariance: of what was learned.
    """

    noise: float
    weights: Sequence[float]
    covariance: Sequence[Sequence[float]]

    def price(self, kept: Sequence[float], error: float) -> tuple[float, float]:
        """Return between which parts of the window this is, that was used less; see `_Request`."""
        share = sum(weight * each for weight, each in zip(self.weights, kept, strict=False))
        variance = sum(
            self.covariance[row][column] * each * other
            for row, each in enumerate(kept)
            for column, other in enumerate(kept)
        )
        off = _DEVIATIONS * math.sqrt(max(0.0, variance))
        off += _LEAST_ERROR * abs(share) + abs(self.weights[0]) * error
        return share - off, share + off


def _fit(runs: Sequence[Sequence[_Row]]) -> _Line | None:
    """Return the line through readings, each run with its own start; None if they fit none."""
    runs = [run for run in runs if len(run) > 1]
    readings = sum(len(run) for run in runs)
    free = readings - len(runs) - _LEARNED
    step = _find_step([row[-1] for run in runs for row in run])
    rise = max((run[-1][-1] - run[0][-1] for run in runs), default=0.0)
    if readings < _LEAST_READINGS or free < 1 or rise < _LEAST_STEPS * step:
        return None

    # The sums of products of all columns. Taken from the mean of its run, a row needs no start.
    size = _LEARNED + 1
    products = [[0.0] * size for _ in range(size)]
    for run in runs:
        means = [fsum(column) / len(run) for column in zip(*run, strict=True)]
        for row in run:
            apart = [value - mean for value, mean in zip(row, means, strict=True)]
            for at, value in enumerate(apart):
                for other in range(at, size):
                    products[at][other] += value * apart[other]
    for at in range(size):
        for other in range(at):
            products[at][other] = products[other][at]
    told = products[-1]
    scales = [math.sqrt(products[at][at]) or 1.0 for at in range(size)]

    # Least squares, with what is expected of the weights as if it had been read, too: that is
    # known in units of the first weight, and counts as much as the noise lets it, so the weights
    # come from the second time on. Columns are scaled to a length of 1.
    rounding = step * step / 12
    weight, variance = scales[-1] / scales[0], rounding
    for _ in range(_TIMES):
        matrix = [
            [products[at][other] / scales[at] / scales[other] for other in range(_LEARNED)]
            for at in range(_LEARNED)
        ]
        right = [told[at] / scales[at] for at in range(_LEARNED)]
        for at, mean, spread in _EXPECTED:
            certain = variance / (spread * weight * scales[at]) ** 2
            matrix[at][at] += certain
            right[at] += certain * mean * weight * scales[at]
        inverse = _invert(matrix)
        weights = [
            sum(a * b for a, b in zip(row, right, strict=True)) / scale
            for row, scale in zip(inverse, scales, strict=False)
        ]
        left = told[-1] - 2 * sum(a * b for a, b in zip(weights, told, strict=False))
        left += sum(
            weights[at] * weights[other] * products[at][other]
            for at in range(_LEARNED)
            for other in range(_LEARNED)
        )
        noise = math.sqrt(max(0.0, left) / free)
        variance = max(rounding, noise * noise)
        weight = weights[0]
        if weight <= 0:  # what costs most does not count: that is no plan
            return None
    if noise > max(_MOST_NOISE_STEPS * step, _MOST_NOISE * min(1.0, rise)):
        return None
    covariance = [
        [variance * inverse[at][other] / scales[at] / scales[other] for other in range(_LEARNED)]
        for at in range(_LEARNED)
    ]
    return _Line(noise, weights, covariance)


def _find_step(used: Sequence[float]) -> float:
    """Return the smallest step in which readings are told: a hundredth, or a decimal of that."""
    for digits in range(2, 6):
        if all(math.isclose(round(each, digits), each, abs_tol=1e-9) for each in used):
            return 10.0**-digits
    return 10.0**-6


def _invert(matrix: Sequence[Sequence[float]]) -> list[list[float]]:
    """Return the inverse of a symmetric matrix, by elimination; a zero pivot counts as tiny."""
    size = len(matrix)
    rows = [[*row, *(float(at == other) for other in range(size))] for at, row in enumerate(matrix)]
    for at in range(size):
        pivot = max(range(at, size), key=lambda row: abs(rows[row][at]))
        rows[at], rows[pivot] = rows[pivot], rows[at]
        by = rows[at][at] or _TINY
        rows[at] = [value / by for value in rows[at]]
        for other in range(size):
            if other != at and (factor := rows[other][at]):
                rows[other] = [a - factor * b for a, b in zip(rows[other], rows[at], strict=True)]
    return [row[size:] for row in rows]
