"""The metrics for OpenTelemetry: conventions, weak references, bounded attributes."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader

from motorlite import monitoring as events
from motorlite.errors import NetworkTimeout, OperationFailure
from motorlite.exporters._measurements import MANY, OTHER
from motorlite.exporters._readings import METRICS
from motorlite.exporters.opentelemetry import OpenTelemetryMetrics
from tests.support.kept_errors import without_collector
from tests.unit.exporters.snapshots import Fixed

ADDRESS = ("db.example", 27017)
POOL = "db.client.connection.pool.name"


class Exported:
    """Metrics, and what is exported of them."""

    def __init__(self, **options: Any) -> None:
        self._reader = InMemoryMetricReader()
        self._provider = MeterProvider([self._reader], shutdown_on_exit=False)
        self.metrics = OpenTelemetryMetrics(self._provider, **options)

    def export(self) -> dict[str, list[tuple[dict[str, Any], Any]]]:
        """Attributes and value (the count, of a histogram) of every point, by metric."""
        data = self._reader.get_metrics_data()
        found: dict[str, list[tuple[dict[str, Any], Any]]] = {}
        for resource in data.resource_metrics if data is not None else ():
            for scope in resource.scope_metrics:
                assert scope.scope.name == "motorlite"
                for metric in scope.metrics:
                    for point in metric.data.data_points:
                        value = getattr(point, "value", None)
                        value = getattr(point, "count", None) if value is None else value
                        found.setdefault(metric.name, []).append((dict(point.attributes or {}), value))
        return found

    def begin(self, name: str, collection: str | None = "coll") -> events.OperationSucceededEvent:
        event = events.OperationSucceededEvent(0.1, name, "db", collection, 1)
        self.metrics.operation_succeeded(event)
        return event


def test_durations_of_operations() -> None:
    exported = Exported()
    exported.begin("find")
    exported.begin("find")
    for error in (OperationFailure("no", 2), asyncio.CancelledError()):
        exported.metrics.operation_failed(events.OperationFailedEvent(0.1, error, "find", "db", "coll", 1))
    common = {"db.system.name": "mongodb", "db.operation.name": "find"}
    assert exported.export()["db.client.operation.duration"] == [
        (common, 2),
        ({**common, "error.type": "OperationFailure"}, 1),
        ({**common, "error.type": "CancelledError"}, 1),
    ]


def test_collections_are_attributes_when_asked_for() -> None:
    exported = Exported(collections=True)
    exported.begin("find", "a.b")
    exported.begin("runCommand", None)
    attributes = [attributes for attributes, _ in exported.export()["db.client.operation.duration"]]
    assert attributes[0] | {"db.namespace": "db", "db.collection.name": "a.b"} == attributes[0]
    assert attributes[1]["db.namespace"] == "db"
    assert "db.collection.name" not in attributes[1]


def test_a_million_collections_are_few_attributes() -> None:
    exported = Exported(collections=True)
    for number in range(1000):
        exported.begin("find", f"coll{number}")
    points = exported.export()["db.client.operation.duration"]
    assert len(points) == MANY + 1
    assert [value for attributes, value in points if attributes["db.namespace"] == OTHER] == [1000 - MANY]


def test_connections() -> None:
    exported = Exported()
    metrics = exported.metrics
    metrics.connection_checked_out(events.ConnectionCheckedOutEvent(ADDRESS, 1, 0.25))
    metrics.connection_ready(events.ConnectionReadyEvent(ADDRESS, 1, 0.25))
    for reason in ("timeout", "connectionError"):
        error = NetworkTimeout("late")
        metrics.connection_check_out_failed(events.ConnectionCheckOutFailedEvent(ADDRESS, reason, 0.5, error))
    found = exported.export()
    for name in ("wait_time", "create_time", "timeouts"):
        assert found[f"db.client.connection.{name}"] == [({POOL: "db.example:27017"}, 1)], name


def test_what_a_snapshot_contains() -> None:
    exported, client = Exported(), Fixed(maxPoolSize=7)
    exported.metrics.observe(client, "shop")
    found = exported.export()
    here = {POOL: "db.example:27017", "motorlite.client": "shop"}
    counts = found["db.client.connection.count"]
    assert ({**here, "db.client.connection.state": "used"}, 1) in counts
    assert ({**here, "db.client.connection.state": "idle"}, 2) in counts
    assert (here, 5) in found["db.client.connection.pending_requests"]
    assert (here, 7) in found["db.client.connection.max"]
    assert ({"motorlite.client": "shop", "motorlite.reason": "overload"}, 14) in found["motorlite.retries"]
    assert ({"motorlite.client": "shop"}, 998.5) in found["motorlite.retry_tokens"]
    # The conventions' own names, or prefixed ones.
    names = {name for points in found.values() for attributes, _ in points for name in attributes}
    assert {name for name in names if not name.startswith("motorlite.")} == {POOL, "db.client.connection.state"}
    assert {metric.opentelemetry_name for metric in METRICS.values() if metric.kind != "histogram"} <= found.keys()
    unlimited = Fixed(maxPoolSize=0)
    exported = Exported()
    exported.metrics.observe(unlimited, "shop")
    assert "db.client.connection.max" not in exported.export()


def test_the_metrics_of_a_dropped_client_vanish() -> None:
    exported, one, two = Exported(), Fixed(), Fixed()
    exported.metrics.observe(one, "one")
    exported.metrics.observe(two, "two")
    names = [attributes["motorlite.client"] for attributes, _ in exported.export()["motorlite.sessions"]]
    assert names == ["one", "two"]
    with pytest.raises(ValueError, match="'one'"):
        exported.metrics.observe(two, "one")
    with without_collector():
        # Nothing but the test keeps them.
        del one, two
        assert "motorlite.sessions" not in exported.export()
