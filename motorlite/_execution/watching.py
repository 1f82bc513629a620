"""Pure: follows each operation of one client while somebody watches it (`motorlite.exporters.live`).

A watch costs a client without one nothing: the executor's only truth test is that of the publisher of operations, which
the watch replaces while it is attached (`Reports.follows`). The event loop's thread writes here; another one reads.

The time that an operation *lost* is what it spent on anything but the reply that it returns: waiting for a token of its
rate limit, for its session, a server or a connection, in attempts that another one repeated or whose time ran out, and
in backoff. The names of these phases are those of `PyMongoError.phase`, besides ``"failed attempt"``; ``"queue"``
includes the time in which a connection is established.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from heapq import nlargest, nsmallest
from math import inf
from typing import TYPE_CHECKING, Any, Final, Protocol

from motorlite._base.values import format_address
from motorlite.errors import PyMongoError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from motorlite._execution.run import Attempt, Run

# Upper bounds of the histogram of durations, in seconds.
BOUNDS: Final = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
# An operation that took as many seconds is remembered for as many more, with so many others.
SLOW: Final = 0.1
REMEMBERED_FOR: Final = 10.0
REMEMBERED: Final = 200
# As many of the oldest that run, and of the slowest that ended, are in a report.
SHOWN: Final = 20
# Different operations, or classes of errors, before all further ones count as `OTHER`.
MANY: Final = 100
OTHER: Final = "other"
# Phases of errors of operations that ended between two attempts.
_BETWEEN: Final = ("backoff", "retry delay")


class Published(Protocol):
    """An operation whose start was published, which publishes its end."""

    def succeeded(self, now: float) -> None:
        """Publish that the operation returns its result."""
        ...

    def failed(self, error: BaseException, now: float) -> None:
        """Publish that the operation raises `error`."""
        ...


class Counts:
    """The operations of one kind, for example ``"find"``, that have ended."""

    __slots__ = ("buckets", "cancelled", "failed", "seconds", "succeeded")

    def __init__(self) -> None:
        self.succeeded: int = 0
        self.failed: int = 0
        self.cancelled: int = 0
        self.seconds: float = 0.0
        self.buckets: list[int] = [0] * (len(BOUNDS) + 1)


class Watch:
    """What is known of the operations of one client that began since the watch was attached."""

    __slots__ = ("counts", "errors", "lost", "running", "several", "slow")

    def __init__(self) -> None:
        self.counts: dict[str, Counts] = {}
        # By class.
        self.errors: dict[str, int] = {}
        # Seconds by phase.
        self.lost: dict[str, float] = {}
        self.running: set[Followed] = set()
        # Operations of several commands, by their id.
        self.several: dict[int, Followed] = {}
        # Loop time of the end, and the report.
        self.slow: deque[tuple[float, dict[str, Any]]] = deque(maxlen=REMEMBERED)

    def started(self, run: Run, attempt: Attempt, now: float, published: Published | None) -> Followed:
        """Follow an operation from here on; `published` learns of its end too."""
        operation = run.operation
        followed = Followed(
            self, operation.operation_name or operation.name, operation.database, operation.collection_name, now
        )
        followed.run, followed.attempt, run.followed = run, attempt, followed
        if published is not None:
            followed.published = published
        self.running.add(followed)
        return followed

    def started_several(
        self, name: str, database: str, collection: str | None, operation_id: int, now: float
    ) -> Followed:
        """Follow an operation of several commands."""
        followed = self.several[operation_id] = Followed(self, name, database, collection, now)
        followed.operation_id = operation_id
        self.running.add(followed)
        return followed

    def started_part(self, operation_id: int, run: Run, attempt: Attempt, now: float) -> None:
        """Note the next command of an operation that began while the watch was attached."""
        followed = self.several.get(operation_id)
        if followed is not None:
            followed.waited(now)
            followed.run, run.followed = run, followed
            followed.attempt, followed.failed_at = attempt, None

    def counts_of(self, name: str) -> Counts:
        """Return the counts of one kind of operation."""
        return self.counts.setdefault(name if len(self.counts) < MANY else OTHER, Counts())

    def lose(self, phase: str, seconds: float) -> None:
        """Add to the time lost in one phase."""
        self.lost[phase] = self.lost.get(phase, 0.0) + seconds

    def report(self, now: float) -> dict[str, Any]:
        """Return everything, as values that JSON has. Call from any thread, again if it raises RuntimeError."""
        phases: dict[str, int] = {}
        running: list[Followed] = []
        for followed in tuple(self.running):  # at once, since the event loop goes on
            phase = followed.phase
            phases[phase] = phases.get(phase, 0) + 1
            if phase != "reply" or not followed.awaits_data:
                running.append(followed)
        slow = [report for ended, report in tuple(self.slow) if now - ended <= REMEMBERED_FOR]
        return {
            # Of the buckets; the last bucket has no bound.
            "bounds": list(BOUNDS),
            "operations": {
                name: {
                    "succeeded": counts.succeeded,
                    "failed": counts.failed,
                    "cancelled": counts.cancelled,
                    "seconds": counts.seconds,
                    "buckets": list(counts.buckets),
                }
                for name, counts in tuple(self.counts.items())
            },
            "errors": dict(self.errors),
            "lost": dict(self.lost),
            "in_flight": phases,
            "running": [followed.report(now) for followed in nsmallest(SHOWN, running, key=_started_at)],
            "slow": nlargest(SHOWN, slow, key=_seconds),
        }


class Followed:
    """An operation that is being followed. Has the methods of `Published`.

    As of an `Attempt`, what few operations set is only a default of the class: each operation pays for this object.
    """

    # Of several commands: the newest one.
    run: Run | None = None
    # The attempt under way; None between attempts.
    attempt: Attempt | None = None
    attempts: int = 1
    # Loop time at which the newest attempt failed, if no other one began.
    failed_at: float | None = None
    # Seconds by phase; None while none is lost.
    lost: dict[str, float] | None = None
    # Of several commands: their id.
    operation_id: int | None = None
    # Learns of the end, if there are listeners.
    published: Published | None = None

    def __init__(self, watch: Watch, name: str, database: str, collection: str | None, started_at: float) -> None:
        self.watch: Watch = watch
        self.name: str = name
        self.database: str = database
        self.collection: str | None = collection
        self.started_at: float = started_at

    # --- while it runs ---

    def attempt_failed(self, now: float) -> None:
        """Note that the attempt under way failed. Another one may follow."""
        self.waited(now)
        self.failed_at = now

    def attempt_again(self, attempt: Attempt, now: float) -> None:
        """Note that `attempt` takes the place of one that failed."""
        failed, since = self.attempt, self.failed_at
        if failed is not None and since is not None:
            if failed.sent_at is not None:
                self._lose("failed attempt", since - failed.sent_at)
            self._lose("backoff", now - since)
        self.attempt, self.failed_at = attempt, None
        self.attempts += 1

    def waited(self, now: float) -> None:
        """Count the waits of the newest attempt, unless they were counted when it failed."""
        attempt, run = self.attempt, self.run
        if attempt is None or self.failed_at is not None:
            return
        if run is not None and run.has_turn and self.attempts == 1:
            begun = attempt.sent_at if attempt.waited_from is None else attempt.waited_from
            self._lose("session", (now if begun is None else begun) - self.started_at)
        for phase, seconds in waits_of(attempt, now):
            self._lose(phase, seconds)

    def _lose(self, phase: str, seconds: float) -> None:
        if seconds > 0:
            if self.lost is None:
                self.lost = {}
            self.lost[phase] = self.lost.get(phase, 0.0) + seconds

    # --- its end ---

    def succeeded(self, now: float) -> None:
        """Note that the operation returns its result."""
        counts = self.watch.counts.get(self.name) or self.watch.counts_of(self.name)
        counts.succeeded += 1
        self._ended(counts, now, None)
        if self.published is not None:
            self.published.succeeded(now)

    def failed(self, error: BaseException, now: float) -> None:
        """Note that the operation raises `error`."""
        watch = self.watch
        counts = watch.counts.get(self.name) or watch.counts_of(self.name)
        name: str | None = None
        if isinstance(error, Exception):
            counts.failed += 1
            name = type(error).__name__
            name = name if name in watch.errors or len(watch.errors) < MANY else OTHER
            watch.errors[name] = watch.errors.get(name, 0) + 1
        else:
            counts.cancelled += 1
        attempt, since = self.attempt, self.failed_at
        if since is not None:
            ours = error if isinstance(error, PyMongoError) else None
            if name is None or (ours is not None and ours.phase in _BETWEEN):
                self._lose("backoff", now - since)
            if ours is not None and ours.timeout and attempt is not None and attempt.sent_at is not None:
                self._lose("reply", since - attempt.sent_at)
        self._ended(counts, now, name or "cancelled")
        if self.published is not None:
            self.published.failed(error, now)

    def _ended(self, counts: Counts, now: float, outcome: str | None) -> None:
        watch, attempt = self.watch, self.attempt
        watch.running.discard(self)
        seconds = now - self.started_at
        counts.seconds += seconds
        counts.buckets[bisect_left(BOUNDS, seconds)] += 1
        if attempt is not None and (attempt.waited_from is not None or (self.run is not None and self.run.has_turn)):
            self.waited(now)
        if self.lost is not None:
            for phase, lost in self.lost.items():
                watch.lose(phase, lost)
        if self.operation_id is not None:
            watch.several.pop(self.operation_id, None)
        if seconds >= SLOW:
            phase = self._longest(seconds)
            if outcome is not None or phase != "reply" or not self.awaits_data:
                watch.slow.append((now, {**self.report(now), "phase": phase, "outcome": outcome or "ok"}))
        if self.run is not None:
            # Errors may keep the run.
            self.run.followed = None

    @property
    def awaits_data(self) -> bool:
        """Whether the server may wait for data before it replies, as for a change stream. That wait is not slowness."""
        return self.run is not None and self.run.operation.is_await_data

    def _longest(self, seconds: float) -> str:
        """Return the phase that took most of the time."""
        phases = self.lost or {}
        useful = seconds - sum(phases.values())
        phase = max(phases, key=phases.__getitem__, default="reply")
        return phase if phases.get(phase, 0.0) > useful else "reply"

    def report(self, now: float) -> dict[str, Any]:
        """Return what it is doing, as values that JSON has."""
        attempt = self.attempt
        server = None if attempt is None else attempt.server
        return {
            "operation": self.name,
            "namespace": self.database if self.collection is None else f"{self.database}.{self.collection}",
            "seconds": now - self.started_at,
            "phase": self.phase,
            "attempts": self.attempts,
            "server": None if server is None else format_address(server.address),
        }

    @property
    def phase(self) -> str:
        """What it is waiting for at this moment."""
        attempt = self.attempt
        if self.failed_at is not None:
            return "backoff"
        if attempt is None:
            return "before sending"
        if attempt.sent_at is not None:
            return "reply"
        if attempt.server is not None:
            return "queue"
        if attempt.selection_until != inf:
            return "selection"
        if attempt.waited_from is not None:
            return "rate limit"
        # Between the awaits of a first attempt there is nothing to see but the wait for its turn.
        return "session"


def waits_of(attempt: Attempt, now: float) -> Iterator[tuple[str, float]]:
    """Yield the phases in which an attempt waited before it sent its command, and for how many seconds."""
    begun = attempt.waited_from
    if begun is None:
        return
    until = now if attempt.sent_at is None else attempt.sent_at
    if attempt.admitted_at is not None:
        yield "rate limit", attempt.admitted_at - begun
        begun = attempt.admitted_at
    elif attempt.server is None and attempt.selection_until == inf:
        yield "rate limit", until - begun
        return
    if attempt.selection_until != inf:
        selected = until if attempt.asked_at is None else attempt.asked_at
        yield "selection", selected - begun
        begun = selected
    yield "queue", until - begun


def _started_at(followed: Followed) -> float:
    return followed.started_at


def _seconds(report: dict[str, Any]) -> float:
    seconds: float = report["seconds"]
    return seconds
