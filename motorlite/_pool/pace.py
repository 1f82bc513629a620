"""Pure: what a pool learns of its server's pace and of its callers' patience.

Three figures, each from a few recent observations, so that decisions follow the load and not a constant:

- how long operations take, which says whether a reply that is still to come is overdue; and how long those take whose
  callers have about the same limit, which says whether a waiter has enough time left to make use of a connection.
  Callers set limits by what their operations take: without that difference, a look-up that must be done in half a
  second would count as hopeless on a server that others keep busy with reports of a second each;
- how long callers whose limit the driver cannot see (`asyncio.timeout`, a closed websocket) wait before they give up,
  while a good part of them does;
- how long a new connection takes, which is what closing a pending one costs.

Observations are made only while operations wait or replies are pending: a pool with idle connections pays nothing.
"""

from __future__ import annotations

from collections import deque
from math import inf, log2
from typing import Final

# An observation that is older says nothing about the load of now; seconds.
_RECENT: Final = 5.0
_KEPT: Final = 31
_SORTED_EVERY: Final = 4
# Patience is only considered while at least this fraction of the callers has given up recently.
_MANY: Final = 0.05
_WEIGHT: Final = 1 / 32
# Limits are not told apart below this one; seconds.
_SHORTEST: Final = 0.001
_MARGIN: Final = 1.1
# Until the first operation's duration is known, a pending reply is overdue after this many seconds.
_UNKNOWN_DURATION: Final = 0.1


def haste(limit: float) -> int | None:
    """The magnitude of a caller's limit (seconds), in half powers of two. None: no limit."""
    return None if limit == inf else round(2 * log2(max(limit, _SHORTEST)))


class RecentTimes:
    """The last few observations of a duration, and their quantiles."""

    __slots__ = ("_changed", "_latest", "_ordered", "_times")

    def __init__(self) -> None:
        self._times: deque[float] = deque(maxlen=_KEPT)
        self._ordered: list[float] = []
        # Observations since they were last put in order.
        self._changed = 0
        # When the newest was made, loop time.
        self._latest = -inf

    def add(self, seconds: float, now: float) -> None:
        """Learn that something took `seconds`."""
        if now - self._latest > _RECENT:
            self._times.clear()
            self._ordered = []
        self._times.append(seconds)
        self._latest = now
        self._changed += 1
        if self._changed >= _SORTED_EVERY or len(self._ordered) < _SORTED_EVERY:
            self._ordered = sorted(self._times)
            self._changed = 0

    def quantile(self, part: float, now: float) -> float | None:
        """The duration that `part` (below 1) of them stay under; None when there is no recent one."""
        ordered = self._ordered
        if not ordered or now - self._latest > _RECENT:
            return None
        return ordered[int(len(ordered) * part)]


class Pace:
    """The pace of one server and the patience of its callers."""

    __slots__ = ("_by_haste", "_connecting", "_durations", "_part_left", "_patience")

    def __init__(self) -> None:
        self._durations = RecentTimes()
        # The same by the magnitude of the callers' limits.
        self._by_haste: dict[int | None, RecentTimes] = {}
        self._patience = RecentTimes()
        self._connecting = RecentTimes()
        # Moving average: the fraction of callers that gave up, among those that waited or left a reply behind.
        self._part_left = 0.0

    def worked(self, seconds: float, now: float, its_haste: int | None) -> None:
        """A connection was in use for `seconds`; its last reply has arrived."""
        self._learn(seconds, now, its_haste)
        self._part_left -= self._part_left * _WEIGHT

    def drained(self, seconds: float, now: float, its_haste: int | None) -> None:
        """A late reply arrived `seconds` after its connection was checked out."""
        self._learn(seconds, now, its_haste)

    def _learn(self, seconds: float, now: float, its_haste: int | None) -> None:
        self._durations.add(seconds, now)
        times = self._by_haste.get(its_haste)
        if times is None:
            times = self._by_haste[its_haste] = RecentTimes()
        times.add(seconds, now)

    def left(self, seconds: float, now: float) -> None:
        """A caller without a visible limit gave up, `seconds` after it had asked for a connection."""
        self._patience.add(seconds, now)
        self._part_left += (1.0 - self._part_left) * _WEIGHT

    def connected(self, seconds: float, now: float) -> None:
        """A connection was established in `seconds`."""
        self._connecting.add(seconds, now)

    def needed(self, now: float, its_haste: int | None) -> float:
        """How much time a waiter should have left when it gets a connection; seconds. 0: not known, so it may try.

        A little more than most operations take: the oldest waiter that qualifies comes first, so those with just
        enough time are the rule, and what takes a moment longer would always be too late.
        """
        times = self._by_haste.get(its_haste)
        return _MARGIN * (times.quantile(0.75, now) or 0.0) if times is not None else 0.0

    def patience(self, now: float) -> float:
        """How long callers without a visible limit wait; infinity unless many of them gave up of late."""
        if self._part_left < _MANY:
            return inf
        return self._patience.quantile(0.25, now) or inf

    def overdue_after(self, now: float) -> float:
        """Seconds after check-out at which a pending reply is not expected soon any more.

        Twice what nearly all operations take: the load may just have grown. Then what a new connection takes, since to
        wait that much longer costs the server less.
        """
        usual = self._durations.quantile(0.9, now)
        if usual is None:
            return _UNKNOWN_DURATION
        return 2 * usual + (self._connecting.quantile(0.5, now) or 0.0)
