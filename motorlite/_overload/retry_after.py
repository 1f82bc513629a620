"""Pure: after how many seconds an operation that was refused may be tried again.

An estimate counts what is in flight now, and not only what has ended: on a server that was fast and then hangs,
nothing ends. An operation that has run for longer than the mean is expected to run as long again, since nothing better
is known. So a caller that obeys an estimate which proves wrong is told twice as long a time when it returns.

Who returns is not known: a web service tries again in another task. So the advice is the pool's. When somebody is
refused after the newest advice has run out, it was too short, and the next one is at least twice as long, until
refusals end.

Callers that are refused together must not return together: the pool would serve a few of them at once, and refuse and
send away for twice as long all others, while it has nothing to do. So each is told a little more than the one before.
"""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, Final

from motorlite._overload.backoff import DEFAULT_RETRY_AFTER

if TYPE_CHECKING:
    from collections.abc import Iterable

# Seconds. Estimates are not longer: nothing is known about a later time.
_LONGEST_ESTIMATE: Final = 60.0
# Seconds. Doubling ends here, as the recommended backoff of clients does.
_LONGEST_BACKOFF: Final = 30.0


def next_turn(ages: Iterable[float], mean: float, ahead: int, capacity: int) -> float:
    """Return after how many seconds a connection is probably free for a caller behind `ahead` others.

    Args:
        ages: For how long the operations in flight have been running, in seconds.
        mean: The mean duration of recent operations in seconds; 0.0: unknown. Then it is a second at least.
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
    """What the callers of one pool were told, and whether they came back too early."""

    __slots__ = ("_due", "_least", "_newest", "_told")

    def __init__(self) -> None:
        # The newest advice that began a step, and the loop time when it runs out.
        self._newest = 0.0
        self._due = -inf
        # Twice the advice that proved too short; 0.0: none did.
        self._least = 0.0
        # How many callers were refused in this step.
        self._told = 0

    def give(self, estimate: float, now: float, pace: float = 0.0) -> float:
        """Return the seconds that a caller is told now.

        `pace`: the seconds in which one connection of the pool becomes free, as a rule.
        """
        if now < self._due:
            least = max(estimate, self._least)
            advised = min(least + self._told * pace, max(least, _LONGEST_ESTIMATE))
            self._told += 1
            return advised
        # Nobody came for as long as they were told to wait, and then for that long again: the refusals had ended.
        is_back = now - self._due <= self._newest
        self._least = min(2 * self._newest, _LONGEST_BACKOFF) if is_back else 0.0
        self._newest = max(estimate, self._least)
        self._due = now + self._newest
        self._told = 1
        return self._newest
