"""Pure: what a listener measures that no snapshot contains: durations of operations, waits and handshakes."""

from __future__ import annotations

from bisect import bisect_left
from math import inf
from typing import TYPE_CHECKING, Final

from motorlite import monitoring as events
from motorlite.exporters._readings import Reading, label_of
from motorlite.stats import Durations

if TYPE_CHECKING:
    from collections.abc import Iterator

    from motorlite._base.values import Address

# Seconds. A look-up takes half a millisecond in one rack, and the default of serverSelectionTimeoutMS is 30 s.
BOUNDS: Final = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
OTHER: Final = "other"
# Different values of a label before all further ones count as `OTHER`.
MANY: Final = 100


class Histogram:
    """Durations in seconds. One thread adds, others may read at any moment."""

    __slots__ = ("_counts", "_total")

    def __init__(self) -> None:
        self._counts = [0] * (len(BOUNDS) + 1)
        self._total = 0.0

    def add(self, seconds: float) -> None:
        self._counts[bisect_left(BOUNDS, seconds)] += 1
        self._total += seconds

    def durations(self) -> Durations:
        """Return the durations so far."""
        total, counts = self._total, tuple(self._counts)
        buckets, count = {}, 0
        for bound, more in zip((*BOUNDS, inf), counts, strict=True):
            count += more
            buckets[bound] = count
        return Durations(count, total, buckets)


class Bounded:
    """Keeps the first values of a label, and replaces all further ones, so that no metric grows without bound."""

    __slots__ = ("_known", "_limit")

    def __init__(self, limit: int = MANY) -> None:
        self._known: set[str] = set()
        self._limit = limit

    def __call__(self, value: str) -> str:
        if value in self._known:
            return value
        if len(self._known) >= self._limit:
            return OTHER
        self._known.add(value)
        return value


class Measurements(events.OperationListener, events.ConnectionPoolListener):
    """A listener that measures one client: give each client its own in ``event_listeners=[...]``.

    It costs a few microseconds for each operation. Without it, an exporter reads `client.stats()` alone.
    """

    __module__ = "motorlite.exporters.prometheus"

    def __init__(self) -> None:
        self._operations: dict[tuple[str, str], Histogram] = {}
        self._errors: dict[tuple[str, str], int] = {}
        self._operation = Bounded()
        self._error = Bounded()
        # The servers with a pool. All that follows is kept by server until its pool closes. Connections in use at that
        # time are closed later.
        self._pools: set[Address] = set()
        self._waits: dict[Address, Histogram] = {}
        self._timeouts: dict[Address, int] = {}
        self._connects: dict[Address, Histogram] = {}
        self._closed: dict[Address, dict[str, int]] = {}

    # --- operations ---

    def operation_succeeded(self, event: events.OperationSucceededEvent) -> None:
        self._add(event.operation_name, "ok", event.duration)

    def operation_failed(self, event: events.OperationFailedEvent) -> None:
        error = event.failure
        if isinstance(error, Exception):
            self._add(event.operation_name, "error", event.duration)
            key = (self._operation(event.operation_name), self._error(type(error).__name__))
            self._errors[key] = self._errors.get(key, 0) + 1
        else:
            self._add(event.operation_name, "cancelled", event.duration)

    def _add(self, operation: str, outcome: str, seconds: float) -> None:
        key = (operation, outcome)
        found = self._operations.get(key)
        if found is None:
            key = (self._operation(operation), outcome)
            found = self._operations.setdefault(key, Histogram())
        found.add(seconds)

    # --- pools ---

    def pool_created(self, event: events.PoolCreatedEvent) -> None:
        self._pools.add(event.address)

    def connection_checked_out(self, event: events.ConnectionCheckedOutEvent) -> None:
        if event.duration and event.address in self._pools:  # otherwise the connection was idle, with no wait
            self._of(self._waits, event.address).add(event.duration)

    def connection_check_out_failed(self, event: events.ConnectionCheckOutFailedEvent) -> None:
        if event.reason == events.ConnectionCheckOutFailedReason.TIMEOUT and event.address in self._pools:
            self._timeouts[event.address] = self._timeouts.get(event.address, 0) + 1

    def connection_ready(self, event: events.ConnectionReadyEvent) -> None:
        if event.address in self._pools:
            self._of(self._connects, event.address).add(event.duration)

    def connection_closed(self, event: events.ConnectionClosedEvent) -> None:
        if event.address in self._pools:
            reasons = self._closed.setdefault(event.address, {})
            reasons[event.reason] = reasons.get(event.reason, 0) + 1

    def pool_closed(self, event: events.PoolClosedEvent) -> None:
        self._pools.discard(event.address)
        for measured in (self._waits, self._timeouts, self._connects, self._closed):
            measured.pop(event.address, None)

    @staticmethod
    def _of(histograms: dict[Address, Histogram], address: Address) -> Histogram:
        found = histograms.get(address)
        if found is None:
            found = histograms[address] = Histogram()
        return found


def measured(by: Measurements, *, has_queue: bool) -> Iterator[Reading]:
    """Yield what was measured; with `has_queue`, without what a configured wait queue measures itself."""
    for labels, histogram in tuple(by._operations.items()):
        yield Reading("operation_duration", labels, histogram.durations())
    for labels, count in tuple(by._errors.items()):
        yield Reading("operation_errors", labels, count)
    if not has_queue:
        for address, histogram in tuple(by._waits.items()):
            yield Reading("queue_wait_duration", (label_of(address),), histogram.durations())
        for address, count in tuple(by._timeouts.items()):
            yield Reading("queue_timeout", (label_of(address),), count)
    for address, histogram in tuple(by._connects.items()):
        yield Reading("connect_duration", (label_of(address),), histogram.durations())
    for address, reasons in tuple(by._closed.items()):
        for reason, count in tuple(reasons.items()):
            yield Reading("connections_closed", (label_of(address), reason), count)
