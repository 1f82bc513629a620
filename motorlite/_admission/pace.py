"""Pure: measures the pace of a pool's server and the patience of its callers.

Three figures, each from a few recent observations, so that decisions follow the load instead of a constant:

- The duration of operations. It shows whether a pending reply is overdue. The duration of operations whose callers have
  about the same limit shows whether a waiter has enough time left to use a connection. The distinction matters because
  callers set limits by the duration of their operations: without it, a look-up with a limit of half a second would
  count as hopeless on a server that other callers keep busy with reports of a second each.
- The time after which callers whose limit the driver cannot see (`asyncio.timeout`, a closed websocket) give up, as
  long as many of them do.
- The duration of establishing a connection, which is the cost of closing a pending one.

Observations are made only while operations wait or replies are pending: a pool with idle connections pays nothing.
"""

from __future__ import annotations

from collections import deque
from math import inf, log2
from typing import TYPE_CHECKING, Final, TypeAlias

from motorlite._retry.backoff import DEFAULT_RETRY_AFTER

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


# Seconds after which an observation says nothing about the current load.
_RECENT: Final = 5.0
_KEPT: Final = 31
_SORTED_EVERY: Final = 4
_MOST_UNREAD: Final = 64
# Patience is only considered while at least this fraction of callers gave up recently.
MANY: Final = 0.05
_WEIGHT: Final = 1 / 32
# Limits below this one are treated as equal; seconds.
_SHORTEST: Final = 0.001
_MARGIN: Final = 1.1
# A pending reply is overdue after this many seconds while no operation's duration is known.
_UNKNOWN_DURATION: Final = 0.1

# Seconds, loop time, and the magnitude of the caller's limit.
Observation: TypeAlias = tuple[float, float, int | None]


def urgency(limit: float) -> int | None:
    """Return the magnitude of a caller's limit (seconds) in half powers of two; None for no limit."""
    return None if limit == inf else round(2 * log2(max(limit, _SHORTEST)))


class RecentTimes:
    """The last few observations of a duration, and their quantiles."""

    __slots__ = ("_changed", "_latest", "_ordered", "_times")

    def __init__(self) -> None:
        self._times: deque[float] = deque(maxlen=_KEPT)
        self._ordered: list[float] = []
        # Number of observations since they were last sorted, which is only done when a quantile is asked for.
        self._changed = 0
        # Loop time of the newest observation.
        self._latest = -inf

    def add(self, seconds: float, now: float) -> None:
        """Record an observation of `seconds`."""
        if now - self._latest > _RECENT:
            self._times.clear()
            self._ordered = []
        self._times.append(seconds)
        self._latest = now
        self._changed += 1

    def add_all(self, observed: Sequence[Observation]) -> None:
        """Record observations, the oldest first."""
        oldest, newest = observed[0][1], observed[-1][1]
        if newest - min(oldest, self._latest) > _RECENT:
            for seconds, now, _ in observed:
                self.add(seconds, now)
        else:
            self._times.extend([seconds for seconds, _, _ in observed[-_KEPT:]])
            self._latest = newest
            self._changed += len(observed)

    def quantile(self, part: float, now: float) -> float | None:
        """Return the duration that the fraction `part` (below 1) stays under; None without recent observations."""
        if not self._times or now - self._latest > _RECENT:
            return None
        ordered = self._ordered
        if self._changed >= _SORTED_EVERY or (self._changed and len(ordered) < _SORTED_EVERY):
            self._ordered = ordered = sorted(self._times)
            self._changed = 0
        return ordered[int(len(ordered) * part)]

    def mean(self, now: float) -> float:
        """Return the mean of the durations; 0.0 without recent observations."""
        return sum(self._times) / len(self._times) if self._times and now - self._latest <= _RECENT else 0.0


class Pace:
    """The pace of one server and the patience of its callers."""

    __slots__ = ("_by_urgency", "_connecting", "_durations", "_patience", "_unread", "part_left")

    def __init__(self) -> None:
        self._durations = RecentTimes()
        # The durations by the magnitude of the callers' limits.
        self._by_urgency: dict[int | None, RecentTimes] = {}
        self._patience = RecentTimes()
        self._connecting = RecentTimes()
        # Moving average: the fraction of callers that gave up among callers that waited or left a reply behind. What is
        # unread only makes it smaller.
        self.part_left: float = 0.0
        # What `worked` observed and no figure contains yet. A busy pool observes each operation, and reading many
        # observations at once takes a quarter of the time.
        self._unread: list[Observation] = []

    def worked(self, seconds: float, now: float, its_urgency: int | None) -> None:
        """Record that a connection was in use for `seconds` and its last reply arrived."""
        unread = self._unread
        unread.append((seconds, now, its_urgency))
        if len(unread) >= _MOST_UNREAD:
            self._read()

    def _read(self) -> None:
        """Put what `worked` observed into the figures."""
        unread, self._unread = self._unread, []
        self.part_left *= (1.0 - _WEIGHT) ** len(unread)
        if len(unread) < _SORTED_EVERY:
            for one in unread:
                self._add(*one)
        elif unread:
            self._durations.add_all(unread)
            for its_urgency in {its_urgency for _, _, its_urgency in unread}:
                self._of(its_urgency).add_all([one for one in unread if one[2] == its_urgency])

    def _add(self, seconds: float, now: float, its_urgency: int | None) -> None:
        self._durations.add(seconds, now)
        self._of(its_urgency).add(seconds, now)

    def _of(self, its_urgency: int | None) -> RecentTimes:
        """Return the durations of operations whose callers have limits of that magnitude."""
        times = self._by_urgency.get(its_urgency)
        if times is None:
            times = self._by_urgency[its_urgency] = RecentTimes()
        return times

    def drained(self, seconds: float, now: float, its_urgency: int | None) -> None:
        """Record that a late reply arrived `seconds` after its connection was checked out."""
        self._read()
        self._add(seconds, now, its_urgency)

    def left(self, seconds: float, now: float) -> None:
        """Record that a caller without a visible limit gave up `seconds` after it requested a connection."""
        self._read()
        self._patience.add(seconds, now)
        self.part_left += (1.0 - self.part_left) * _WEIGHT

    def connected(self, seconds: float, now: float) -> None:
        """Record that a connection was established in `seconds`."""
        self._connecting.add(seconds, now)

    def needed(self, now: float, its_urgency: int | None) -> float:
        """Return how many seconds a waiter should have left when it gets a connection; 0 if unknown, so it may try.

        This is slightly more than most operations take. The oldest waiter that qualifies is served first, so most
        waiters have just enough time left, and an operation that takes a moment longer would always be too late.
        """
        self._read()
        times = self._by_urgency.get(its_urgency)
        return _MARGIN * (times.quantile(0.75, now) or 0.0) if times is not None else 0.0

    def patience(self, now: float) -> float:
        """Return how long callers without a visible limit wait; infinity unless many of them gave up recently."""
        self._read()
        if self.part_left < MANY:
            return inf
        return self._patience.quantile(0.25, now) or inf

    def mean(self, now: float) -> float:
        """Return the mean duration of recent operations; 0.0 if unknown."""
        self._read()
        return self._durations.mean(now)

    def overdue_after(self, now: float) -> float:
        """Return the seconds after check-out from which a pending reply is no longer expected soon.

        This is twice the duration of nearly all operations, because the load may just have increased, plus the duration
        of establishing a connection, because waiting that much longer costs the server less.
        """
        self._read()
        usual = self._durations.quantile(0.9, now)
        if usual is None:
            return _UNKNOWN_DURATION
        return 2 * usual + (self._connecting.quantile(0.5, now) or 0.0)


# After how many seconds the caller of a refused operation may try again.
#
# An estimate counts the operations in flight, not only those that have ended: on a server that was fast and then hangs,
# none ends. An operation that has run for longer than the mean is expected to run as long again, since nothing better
# is known. So a caller that obeys an estimate and is refused again gets one twice as long.
#
# The driver cannot recognise a returning caller, since a web service tries again in another task. So the advice belongs
# to the pool. If a caller is refused after the newest advice has run out, that was too short, and the next one is at
# least twice as long, until refusals end.
#
# Callers that are refused together must not return together: the pool would serve a few of them at once, refuse the
# others, and send them away for twice as long while it has nothing to do. So each gets slightly longer advice than the
# one before.

# Seconds. Estimates are not longer: nothing is known about a later time.
_LONGEST_ESTIMATE: Final = 60.0
# Seconds. Doubling ends here, as the recommended backoff of clients does.
_LONGEST_BACKOFF: Final = 30.0


def next_turn(ages: Iterable[float], mean: float, ahead: int, capacity: int) -> float:
    """Return after how many seconds a connection is probably free for a caller behind `ahead` others.

    Args:
        ages: How long the operations in flight have been running, in seconds.
        mean: The mean duration of recent operations in seconds; 0.0: unknown, and then the result is at least a second.
        ahead: How many other callers wait.
        capacity: How many operations may run at once; 0: any number.
    """
    expected = sorted([max(mean, age) for age in ages])
    usual = expected[len(expected) // 2] if expected else mean
    rounds, place = divmod(ahead, max(capacity, 1))
    first = expected[place] if place < len(expected) else usual
    estimate = min(first + rounds * usual, max(_LONGEST_ESTIMATE, mean))
    return estimate if mean else max(estimate, DEFAULT_RETRY_AFTER)


class Advice:
    """The advice to the callers of one pool, which grows when it proves too short."""

    __slots__ = ("_due", "_least", "_newest", "_told")

    def __init__(self) -> None:
        # The newest advice that began a step, and the loop time when it runs out.
        self._newest = 0.0
        self._due = -inf
        # Twice the last advice that proved too short; 0.0: none has.
        self._least = 0.0
        # How many callers were refused in this step.
        self._told = 0

    def give(self, estimate: float, now: float, pace: float = 0.0) -> float:
        """Return the advice, in seconds, for a caller that is refused now.

        `pace`: the usual seconds between two connections of the pool that become free.
        """
        if now < self._due:
            least = max(estimate, self._least)
            advised = min(least + self._told * pace, max(least, _LONGEST_ESTIMATE))
            self._told += 1
            return advised
        # If no caller was refused during the advised time, nor for as long again, the refusals had ended.
        is_back = now - self._due <= self._newest
        self._least = min(2 * self._newest, _LONGEST_BACKOFF) if is_back else 0.0
        self._newest = max(estimate, self._least)
        self._due = now + self._newest
        self._told = 1
        return self._newest
