"""The collector for Prometheus: names, weak references, threads."""

from __future__ import annotations

from typing import Any

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from motorlite import AsyncMongoClient
from motorlite import monitoring as events
from motorlite.exporters import _clients
from motorlite.exporters.prometheus import Measurements, PrometheusCollector
from tests.support.kept_errors import without_collector
from tests.unit.exporters.snapshots import FULL, Fixed


def collected(client: AsyncMongoClient[Any], measurements: Measurements | None = None) -> CollectorRegistry:
    collector, registry = PrometheusCollector(), CollectorRegistry()
    registry.register(collector)
    collector.add(client, "shop", measurements)
    return registry


def test_values_in_the_text_format() -> None:
    client = Fixed()
    text = generate_latest(collected(client)).decode()
    for line in (
        'motorlite_queue_depth{client="shop",level="server",server="db.example:27017"} 5.0',
        'motorlite_queue_depth{client="shop",level="client",server=""} 6.0',
        'motorlite_queue_wait_duration_seconds_bucket{client="shop",le="0.1",server="db.example:27017"} 1.0',
        'motorlite_queue_wait_duration_seconds_bucket{client="shop",le="+Inf",server="db.example:27017"} 3.0',
        'motorlite_queue_wait_duration_seconds_count{client="shop",server="db.example:27017"} 3.0',
        'motorlite_queue_wait_duration_seconds_sum{client="shop",server="db.example:27017"} 0.5',
        'motorlite_queue_rejected_total{client="shop",reason="queue_full",server="db.example:27017"} 5.0',
        'motorlite_queue_timeout_total{client="shop",server="db.example:27017"} 7.0',
        'motorlite_queue_memory_bytes{client="shop",server="db.example:27017"} 2048.0',
        (
            'motorlite_backpressure_total{client="shop",reason="concurrency_limit",server="db.example:27017",'
            'strategy="queue"} 35.0'
        ),
        'motorlite_retry_after_seconds_bucket{client="shop",le="+Inf",server="db.example:27017"} 4.0',
        'motorlite_retry_tokens{client="shop"} 998.5',
        "# TYPE motorlite_attempts_total counter",
    ):
        assert line in text.splitlines(), line


def test_measurements_are_collected_too() -> None:
    measurements = Measurements()
    measurements.operation_succeeded(events.OperationSucceededEvent(0.02, "find", "db", "coll", 1))
    # It was never used.
    client = AsyncMongoClient[Any]()
    registry = collected(client, measurements)
    labels = {"client": "shop", "operation": "find", "outcome": "ok"}
    assert registry.get_sample_value("motorlite_operation_duration_seconds_count", labels) == 1
    assert registry.get_sample_value("motorlite_operation_duration_seconds_bucket", {**labels, "le": "0.01"}) == 0
    assert registry.get_sample_value("motorlite_operation_duration_seconds_bucket", {**labels, "le": "0.025"}) == 1
    assert registry.get_sample_value("motorlite_queue_depth", {"client": "shop", "server": "", "level": "client"}) == 0


def test_the_metrics_of_a_dropped_client_vanish() -> None:
    collector, registry = PrometheusCollector(), CollectorRegistry()
    registry.register(collector)
    kept, dropped = Fixed(), Fixed()
    collector.add(kept, "kept")
    collector.add(dropped, "dropped", Measurements())
    for client, name in ((Fixed(), "kept"), (kept, "another")):
        with pytest.raises(ValueError, match="'kept'"):
            collector.add(client, name)
    assert b'client="dropped"' in generate_latest(registry)
    with without_collector():
        # Nothing but the test keeps it.
        del dropped
        text = generate_latest(registry)
    assert b'client="dropped"' not in text
    assert b'client="kept"' in text
    # Its name is free again.
    again = Fixed()
    collector.add(again, "dropped")
    assert b'client="dropped"' in generate_latest(registry)


def test_remove() -> None:
    collector, client = PrometheusCollector(), Fixed()
    collector.add(client, "shop")
    collector.remove(client)
    assert list(collector.collect()) == []
    with pytest.raises(ValueError, match="not added"):
        collector.remove(client)


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ((object(), "shop"), "client must be an AsyncMongoClient"),
        ((None, "shop"), "client must be an AsyncMongoClient"),
        ((Fixed(), 5), "name must be a string"),
        ((Fixed(), "shop", object()), "measurements must be the Measurements"),
    ],
)
def test_wrong_arguments(arguments: tuple[Any, ...], problem: str) -> None:
    with pytest.raises(TypeError, match=problem):
        PrometheusCollector().add(*arguments)


def test_a_registry_notices_two_collectors() -> None:
    registry = CollectorRegistry(auto_describe=True)
    registry.register(PrometheusCollector())
    with pytest.raises(ValueError, match="Duplicated"):
        registry.register(PrometheusCollector())


def test_a_dictionary_that_grows_meanwhile_is_read_again() -> None:
    assert _clients.snapshot(Fixed(RuntimeError("dictionary changed size during iteration"), FULL)) is FULL
    with pytest.raises(RuntimeError, match="again"):
        _clients.snapshot(Fixed(RuntimeError("again")))
