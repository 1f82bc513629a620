"""Pure: the decisions at the door of one server: which requests and connections it admits, and what they cost.

Theory of operation. A request takes its token when it arrives. Whatever the answer, it then waits in one queue of work,
in order of arrival: an admitted request for one unit, a rejection and a handshake for their own costs. So a server that
is busy with rejections answers all requests late, and work for clients that have gone is work all the same.
"""

from __future__ import annotations

import enum
from collections import deque
from dataclasses import asdict, dataclass
from math import inf
from random import Random
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

if TYPE_CHECKING:
    from benchmarks.storm.scenario import Server

T = TypeVar("T")
REQUEST_COST: Final = 1.0
# Sums of floats are inexact: a difference that is less than this counts as none.
_NEARLY: Final = 1e-6


class TokenBucket:
    """A token bucket that begins full. Its capacity is at least one token."""

    def __init__(self, rate: float, burst_seconds: float, now: float) -> None:
        self.rate: float = rate
        self.capacity: float = max(1.0, rate * burst_seconds)
        self._tokens = self.capacity
        self._at = now

    def tokens(self, now: float) -> float:
        """The number of tokens; negative if some were borrowed."""
        return min(self.capacity, self._tokens + max(0.0, now - self._at) * self.rate)

    def take(self, now: float) -> bool:
        return self.borrow(now, at_most=0.0) is not None

    def borrow(self, now: float, at_most: float = inf) -> float | None:
        """Take a token now or in the future. Returns after how many seconds it is due, or None if that is too late."""
        tokens = self.tokens(now)
        missing = 1.0 - tokens
        wait = 0.0 if missing <= _NEARLY else missing / self.rate if self.rate > 0 else inf
        if wait > at_most or wait == inf:
            return None
        self._tokens, self._at = tokens - 1.0, now
        return wait

    def change(self, rate: float, burst_seconds: float, now: float) -> None:
        """Change the rate and the capacity; tokens that are there stay, as far as they fit."""
        tokens = self.tokens(now)
        self.rate, self.capacity = rate, max(1.0, rate * burst_seconds)
        self._tokens, self._at = min(self.capacity, tokens), now


class WorkQueue(Generic[T]):
    """Work that is done in order of arrival, at a speed that may change.

    Each item needs a number of units. Nothing is served twice or skipped: an item is done when the units of all items
    before it, and its own, have been worked off. The speed is in units per second; infinity does everything at once.
    """

    def __init__(self, speed: float, now: float) -> None:
        self.speed: float = speed
        # Units worked off so far, and those that will have been when the queue is empty.
        self._done = self._end = 0.0
        self._at = now
        # Each item with the value of `_done` at which it is finished.
        self._items: deque[tuple[float, T]] = deque()
        # The backlog, integrated over time.
        self._area = 0.0

    def push(self, item: T, units: float, now: float) -> None:
        self._advance(now)
        self._end += units
        self._items.append((self._end, item))

    def finished(self, now: float) -> list[T]:
        """Remove and return the items that are finished, in order."""
        self._advance(now)
        items, done, found = self._items, self._done + _NEARLY, []
        while items and items[0][0] <= done:
            found.append(items.popleft()[1])
        return found

    def next_at(self) -> float | None:
        """When the first item will be finished; None if there is none, or nothing is worked off."""
        if not self._items or self.speed <= 0:
            return None
        return self._at + max(0.0, self._items[0][0] - self._done) / self.speed

    def change(self, speed: float, now: float) -> None:
        """Work at another speed from now on, also on what is under way."""
        self._advance(now)
        self.speed = speed

    def drop(self, now: float) -> None:
        self._advance(now)
        self._items.clear()
        self._end = self._done

    def area(self, now: float) -> float:
        """The integral of the backlog since the start, in unit seconds. Its increase per second is the mean backlog."""
        self._advance(now)
        return self._area

    def _advance(self, now: float) -> None:
        seconds, self._at = max(0.0, now - self._at), max(now, self._at)
        left = self._end - self._done
        if left <= 0:
            return
        if self.speed == inf or self.speed * seconds >= left:
            self._done = self._end
            self._area += left * left / (2 * self.speed)
        else:
            self._done += self.speed * seconds
            self._area += seconds * (left + self._end - self._done) / 2


class Verdict(enum.Enum):
    """What becomes of a request."""

    ADMIT = "admit"
    REJECT = "reject"
    # Does its work and fails with an overload error, by chance.
    FAIL = "fail"
    UNREACHABLE = "host unreachable"


@dataclass(slots=True)
class Counts:
    """What has happened at the door since the start.

    Attributes:
        attempts: Requests that arrived, but for those that need no admission.
        rejected: Those that were rejected, that failed by chance, and that were answered with "host unreachable".
        connections: Connections of clients that were let in.
        refused: Connections that were closed before their handshake.
        answered: Requests that the server behind the ingress answered.
        answer_seconds: The sum of the times that it took for that.
    """

    attempts: int = 0
    rejected: int = 0
    connections: int = 0
    refused: int = 0
    answered: int = 0
    answer_seconds: float = 0.0


class Gate:
    """The limiters and the work of one server; `server` is None without limits and costs, `seed` for its failures."""

    def __init__(self, server: Server | None, seed: int, now: float) -> None:
        # The limits without the changes of the moment.
        self.server: Server | None = server
        self.counts: Counts = Counts()
        # What is to be done; the ingress knows how.
        self.queue: WorkQueue[Any] = WorkQueue(inf if server is None else server.work, now)
        self._dice = Random(f"failures {seed}")
        self._failure_rate = 0.0 if server is None else server.failure_rate
        # Whether every request is answered with "host unreachable".
        self._unreachable = False
        self._requests: TokenBucket | None = None
        self._connections: TokenBucket | None = None
        # Connections that wait for the limiter.
        self._waiting = 0
        if server is not None and server.mode == "shed":
            self._requests = TokenBucket(server.admission_rate, server.admission_burst, now)
        if server is not None and server.connection_rate is not None:
            self._connections = TokenBucket(server.connection_rate, server.connection_burst, now)

    # --- requests ---

    def request(self, now: float) -> Verdict:
        if self.server is None:
            return Verdict.ADMIT
        verdict = Verdict.ADMIT
        if self._unreachable:
            verdict = Verdict.UNREACHABLE
        elif self._requests is not None and not self._requests.take(now):
            verdict = Verdict.REJECT
        elif self._failure_rate and self._dice.random() < self._failure_rate:
            verdict = Verdict.FAIL
        self.counts.attempts += 1
        self.counts.rejected += verdict is not Verdict.ADMIT
        return verdict

    def cost(self, verdict: Verdict) -> float:
        if self.server is None:
            return 0.0
        is_refused = verdict in (Verdict.REJECT, Verdict.UNREACHABLE)
        return self.server.rejection_cost if is_refused else REQUEST_COST

    # --- connections ---

    def connect(self, now: float) -> float | None:
        """Decide about a new connection. Returns the seconds that it must wait, or None if it must be closed."""
        wait: float | None = 0.0
        if self._connections is not None and self.server is not None:
            has_room = self._waiting < self.server.connection_queue
            wait = self._connections.borrow(now, inf if has_room else 0.0)
        if wait is None:
            self.counts.refused += 1
        elif wait:
            self._waiting += 1
        elif self.server is not None:
            self.counts.connections += 1
        return wait

    def connected(self) -> None:
        """A connection has waited long enough."""
        self._waiting -= 1
        self.counts.connections += 1

    def gone(self) -> None:
        """A connection was closed by its client while it waited. The next ones keep their times."""
        self._waiting -= 1

    @property
    def handshake_cost(self) -> float:
        return 0.0 if self.server is None else self.server.handshake_cost

    # --- changes ---

    def change(
        self, now: float, *, capacity: float = 1.0, failure_rate: float | None = None, unreachable: bool = False
    ) -> None:
        """Multiply work and admission rate by `capacity`, and let that share of the requests fail (None: the usual).

        `unreachable`: answer every request with "host unreachable".
        """
        server = self.server
        if server is None:
            return
        self.queue.change(server.work * capacity, now)
        self._failure_rate = server.failure_rate if failure_rate is None else failure_rate
        self._unreachable = unreachable
        if self._requests is not None:
            self._requests.change(server.admission_rate * capacity, server.admission_burst, now)

    def figures(self, now: float) -> dict[str, float]:
        """All counts, and the integral of the backlog."""
        return {**asdict(self.counts), "backlog": self.queue.area(now)}
