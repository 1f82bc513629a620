"""What a listener measures, and that nothing of it grows without bound."""

from __future__ import annotations

import asyncio
from math import inf
from typing import Any

from motorlite import monitoring as events
from motorlite.errors import NetworkTimeout, OperationFailure
from motorlite.exporters._measurements import BOUNDS, MANY, OTHER, Bounded, Histogram, Measurements, measured
from motorlite.exporters._readings import MEASURED
from motorlite.stats import Durations

ADDRESS = ("a", 1)


def values(measurements: Measurements, name: str, *, has_queue: bool = False) -> dict[tuple[str, ...], Any]:
    found = list(measured(measurements, has_queue=has_queue))
    assert all(len(reading.labels) == len(MEASURED[reading.name].labels) for reading in found)
    return {reading.labels: reading.value for reading in found if reading.name == name}


def failed(error: BaseException, name: str = "find") -> events.OperationFailedEvent:
    return events.OperationFailedEvent(0.2, error, name, "db", "coll", 1)


def test_a_histogram_counts_what_is_not_longer() -> None:
    histogram = Histogram()
    for seconds in (0.0, 0.0005, 0.0006, 29.9, 30.0, 31.0, inf):
        histogram.add(seconds)
    found = histogram.durations()
    assert (found.count, found.total) == (7, inf)
    assert found.buckets[0.0005] == 2
    assert found.buckets[0.001] == 3
    assert found.buckets[30.0] == 5
    assert found.buckets[inf] == 7
    assert list(found.buckets) == [*BOUNDS, inf]


def test_an_empty_histogram() -> None:
    assert Histogram().durations() == Durations(0, 0.0, dict.fromkeys((*BOUNDS, inf), 0))


def test_labels_are_bounded() -> None:
    bounded = Bounded(2)
    assert [bounded(value) for value in ("a", "b", "a", "c", "b", "d")] == ["a", "b", "a", OTHER, "b", OTHER]


def test_operations() -> None:
    measurements = Measurements()
    measurements.operation_succeeded(events.OperationSucceededEvent(0.1, "find", "db", "coll", 1))
    measurements.operation_succeeded(events.OperationSucceededEvent(0.3, "find", "db", "coll", 2))
    measurements.operation_failed(failed(OperationFailure("no", 2)))
    measurements.operation_failed(failed(asyncio.CancelledError()))
    found = values(measurements, "operation_duration")
    assert {labels: (one.count, round(one.total, 3)) for labels, one in found.items()} == {
        ("find", "ok"): (2, 0.4),
        ("find", "error"): (1, 0.2),
        ("find", "cancelled"): (1, 0.2),
    }
    assert values(measurements, "operation_errors") == {("find", "OperationFailure"): 1}


def test_a_million_names_are_few_series() -> None:
    measurements = Measurements()
    for number in range(10_000):
        name = f"name {number}"
        measurements.operation_succeeded(events.OperationSucceededEvent(0.1, name, "db", None, number))
        measurements.operation_failed(failed(type(name, (Exception,), {})(), name))
    series = list(measured(measurements, has_queue=False))
    assert len(series) < 4 * MANY
    found = values(measurements, "operation_duration")
    assert found[OTHER, "ok"].count == 10_000 - MANY
    assert sum(one.count for one in found.values()) == 20_000


def test_pools() -> None:
    measurements = Measurements()
    measurements.pool_created(events.PoolCreatedEvent(ADDRESS, {}))
    measurements.connection_checked_out(events.ConnectionCheckedOutEvent(ADDRESS, 1, 0.0))
    measurements.connection_checked_out(events.ConnectionCheckedOutEvent(ADDRESS, 1, 0.5))
    for reason in ("timeout", "connectionError", "timeout"):
        error = NetworkTimeout("late")
        measurements.connection_check_out_failed(events.ConnectionCheckOutFailedEvent(ADDRESS, reason, 0.5, error))
    measurements.connection_ready(events.ConnectionReadyEvent(ADDRESS, 1, 0.25))
    for reason in ("idle", "error", "idle"):
        measurements.connection_closed(events.ConnectionClosedEvent(ADDRESS, 1, reason))
    assert values(measurements, "queue_wait_duration")["a:1",].count == 1
    assert values(measurements, "queue_timeout") == {("a:1",): 2}
    assert values(measurements, "connect_duration")["a:1",].total == 0.25
    assert values(measurements, "connections_closed") == {("a:1", "idle"): 2, ("a:1", "error"): 1}
    assert {reading.name for reading in measured(measurements, has_queue=True)} == {
        "connect_duration",
        "connections_closed",
    }


def test_a_server_that_leaves_is_forgotten() -> None:
    measurements = Measurements()
    for number in range(1000):
        address = ("host", number)
        measurements.pool_created(events.PoolCreatedEvent(address, {}))
        measurements.connection_checked_out(events.ConnectionCheckedOutEvent(address, 1, 0.5))
        measurements.connection_ready(events.ConnectionReadyEvent(address, 1, 0.5))
        measurements.connection_closed(events.ConnectionClosedEvent(address, 1, "error"))
        measurements.pool_closed(events.PoolClosedEvent(address))
        # A connection that was in use is closed, and an operation that waited gives up, after the pool was closed.
        measurements.connection_closed(events.ConnectionClosedEvent(address, 2, "poolClosed"))
        late = events.ConnectionCheckOutFailedEvent(address, "timeout", 0.5, NetworkTimeout("late"))
        measurements.connection_check_out_failed(late)
    assert list(measured(measurements, has_queue=False)) == []
