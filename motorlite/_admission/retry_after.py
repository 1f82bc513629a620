"""Pure: after how many seconds the caller of a refused operation may try again.

An estimate counts the operations in flight, not only those that have ended: on a server that was fast and then hangs,
none ends. An operation that has run for longer than the mean is expected to run as long again, since nothing better is
known. So a caller that obeys an estimate and is refused again gets one twice as long.

The driver cannot recognise a returning caller, since a web service tries again in another task. So the advice belongs
to the pool. If a caller is refused after the newest advice has run out, that was too short, and the next one is at
least twice as long, until refusals end.

Callers that are refused together must not return together: the pool would serve a few of them at once, refuse the
others, and send them away for twice as long while it has nothing to do. So each gets slightly longer advice than the
one before.
"""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, Final

from motorlite._retry.backoff import DEFAULT_RETRY_AFTER

if TYPE_CHECKING:
    from collections.abc import Iterable


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
