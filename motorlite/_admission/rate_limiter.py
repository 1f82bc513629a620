"""Pure: token buckets that limit how many operations start per second, and the queues for their tokens.

Theory of operation. A bucket is kept as one time (the generic cell rate algorithm): when it will be full again. Each
token taken moves that time by the interval between two tokens. So nothing has to be refilled, and the wait for the next
token is one subtraction.

Each bucket has a line of waiting operations, with the rules of a wait queue (`admission`). Only one of them, the
watcher, wakes up when a token is due, and gives it to the operation that is next (`serve`). When the watcher leaves,
with a token or without, another one takes over. So if an operation is cancelled, the others move up at no cost. The
wait of a newcomer is known in advance, unless a later one overtakes it, so an operation that would wait too long is
refused when it arrives.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from motorlite._admission.bounded_queue import TIMEOUT, WaitingLine, order_of
from motorlite.errors import AdmissionError, RateLimitError
from motorlite.overload.rate_limit import EVERYTHING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from motorlite._admission.bounded_queue import ByAge
    from motorlite._net.runtime import Waiter
    from motorlite.overload.rate_limit import RateLimit


# A token may be taken this much before its time, in seconds: sums are inexact, and timers may fire a little early.
_EARLY: Final = 1e-6

NO_TOKEN: Final = "rate_limit"


@dataclass(slots=True, eq=False)
class Waiting:
    """An operation that waits for a token."""

    since: float
    turn: Waiter
    priority: int
    size: int
    entered: float = field(init=False)
    rank: tuple[float, int] = (0.0, 0)
    # What continues admitted work does not wait.
    is_admitted: bool = False
    # The outcome of the wait.
    has_token: bool = False
    error: AdmissionError | None = None

    def __post_init__(self) -> None:
        self.entered = self.since

    def refuse(self, error: AdmissionError) -> None:
        """End the wait with `error`."""
        self.error = error
        self.turn.offer(True)


class RateBucket(WaitingLine[Waiting]):
    """The tokens of one limit, and the operations that wait for one."""

    # All of them are refusals of the rate limit.
    _full = _too_large = _late = RateLimitError

    def __init__(self, name: str, limit: RateLimit) -> None:
        # The namespace, or "*".
        self.name: str = name
        self.limit: RateLimit = limit
        # Seconds between two tokens, and those that a full bucket's further tokens stand for.
        self._interval = 1.0 / limit.rate
        self._spread = (limit.capacity - 1) * self._interval
        # Loop time at which the bucket will be full, if nothing is taken until then.
        self._full_at = -float("inf")
        # The operation that wakes up when the next token is due.
        self._watcher: Waiting | None = None
        scope = "the client" if name == EVERYTHING else name
        self._scope = f"{scope} may start {limit.rate:g} operations per second (burst {limit.capacity})"
        self._ranked: ByAge[Waiting] = order_of(limit.wait_queue)
        goal, queue = f"a token of {scope}", f"{self._scope}, and its wait queue"
        super().__init__(limit.wait_queue, self._ranked, None, goal=goal, queue=queue)

    # --- its refusals ---

    def retry_after(self, waiting: int, now: float) -> float:
        return self.wait(now)

    def taken(self, depth: int, now: float) -> AdmissionError:
        capacity = self.limit.capacity
        return self._refused(RateLimitError(self._scope), NO_TOKEN, capacity, capacity, depth, now)

    def too_late(self, waiting: int, now: float, waited: float) -> AdmissionError:
        """Return the error of an operation whose token would come, or came, too late."""
        error = RateLimitError(self._scope)
        error.wait_time = waited
        reason = TIMEOUT if waited else NO_TOKEN
        return self._refused(error, reason, waiting, self.limit.capacity, waiting, now)

    # --- the tokens ---

    def tokens(self, now: float) -> float:
        """The number of tokens; negative after operations that took a token without asking."""
        return round(self.limit.capacity - max(0.0, self._full_at - now) / self._interval, 6)

    def wait(self, now: float, ahead: int | None = None) -> float:
        """The seconds until a token for an operation behind `ahead` others; None: behind all waiting ones."""
        left = self.due_at() - now
        return (left if left > _EARLY else 0.0) + (self.count if ahead is None else ahead) * self._interval

    def due_at(self) -> float:
        """The loop time of the next token."""
        return self._full_at - self._spread

    def is_due(self, now: float) -> bool:
        """Whether there is a token."""
        return self.due_at() - now <= _EARLY

    def take(self, now: float) -> None:
        """Take a token that is due."""
        self._full_at = max(self._full_at, now) + self._interval

    def charge(self, now: float) -> None:
        """Take a token without asking. The debt is at most one burst."""
        most = now + 2 * self.limit.capacity * self._interval
        self._full_at = max(self._full_at, min(max(self._full_at, now) + self._interval, most))

    def give_back(self, now: float) -> None:
        """Return the token of an operation that did not start: another one may be able to start now."""
        self._full_at -= self._interval
        self.serve(now)
        if self._watcher is not None:
            self._watcher.turn.offer(True)  # the next token comes earlier than it expects

    # --- the line ---

    def join(self, waiting: Waiting, until: float, now: float) -> AdmissionError | None:
        """Let an operation wait until the loop time `until`. Returns its error if it must not wait."""
        depth = self.count
        is_late = now + self.wait(now, self._ahead_of(waiting)) > until
        if not (is_late and self.must_drop(depth)):  # which would drop another operation for nothing
            error = self.ask(waiting, depth, now, is_full=True)
            if error is not None:
                return error
        if is_late:
            return self.too_late(depth, now, 0.0)
        self.push(waiting)
        self.let_in(waiting.priority, waiting.size)
        return None

    def _ahead_of(self, newcomer: Waiting) -> int:
        """Return how many operations would be served before `newcomer`, if it were let in."""
        order = self._ranked
        victim = order.victim(newcomer) if self.must_drop(self.count) else None
        order.push(newcomer)
        ahead = order.ahead_of(newcomer)
        is_dropped_ahead = victim is not None and order.ahead_of(victim) < ahead
        order.discard(newcomer)
        return ahead - is_dropped_ahead

    def wakes_at(self, waiting: Waiting, until: float) -> float:
        """The loop time at which a waiting operation wakes up by itself: for the watcher, that of the next token."""
        if self._watcher is None:
            self._watcher = waiting
        return min(until, self.due_at()) if self._watcher is waiting else until

    def serve(self, now: float) -> None:
        """Give the tokens that are due to the next operations."""
        while self.count and self.is_due(now):
            served = self.pop(now)
            self.take(now)
            served.has_token = True
            self.served(now - served.since)
            served.turn.offer(True)
        if self.count:
            self.drop_overdue(now, max(1, int(self.limit.rate * float(self.options.adaptive_interval))))

    def quit(self, waiting: Waiting) -> None:
        """Leave the line, with a token or without; if `waiting` was the watcher, another one takes over."""
        self.discard(waiting)
        if self._watcher is waiting:
            self._watcher = None
            following = next(iter(self), None)
            if following is not None:
                # An operation that has given up leaves the line itself, and then wakes the next one.
                self._watcher = following
                following.turn.offer(True)


class RateLimiter:
    """The rate limits of a client."""

    def __init__(self, limits: Mapping[str, RateLimit]) -> None:
        self.buckets: dict[str, RateBucket] = {name: RateBucket(name, limit) for name, limit in limits.items()}

    def concerning(self, database: str, collection: str | None) -> list[RateBucket]:
        """The buckets that an operation needs a token of, the narrowest first.

        In this order, an operation that waits for its collection's turn does not keep others from the client's tokens.
        """
        names = (f"{database}.{collection}", database, EVERYTHING)
        return [bucket for name in names if (bucket := self.buckets.get(name)) is not None]
