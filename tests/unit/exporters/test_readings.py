"""What the metrics read in a snapshot."""

from __future__ import annotations

from collections import Counter

import pytest

from motorlite.exporters._readings import MEASURED, METRICS, Reading, label_of, readings
from tests.unit.exporters.metrics_document import FILE, document
from tests.unit.exporters.snapshots import FULL, RETRY_AFTER, TWICE_ADVISED, WAITS, client

FOUND = list(readings(FULL))
HOST = "db.example:27017"


def values(name: str) -> dict[tuple[str, ...], object]:
    return {reading.labels: reading.value for reading in FOUND if reading.name == name}


def test_every_metric_is_read_with_its_labels() -> None:
    assert {reading.name for reading in FOUND} == METRICS.keys()
    for reading in FOUND:
        assert len(reading.labels) == len(METRICS[reading.name].labels), reading
        assert all(type(label) is str for label in reading.labels), reading
    # No series is there twice.
    assert max(Counter((reading.name, reading.labels) for reading in FOUND).values()) == 1
    for name in METRICS.keys() & MEASURED.keys():
        assert METRICS[name] == MEASURED[name], "what is read in two ways is the same metric"


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("queue_depth", {(HOST, "server"): 5, ("/tmp/mongodb.sock", "server"): 1, ("", "client"): 6}),
        ("queue_wait_duration", {(HOST,): WAITS}),
        (
            "queue_rejected",
            {(HOST, "queue_full"): 5, (HOST, "memory_limit"): 6, (HOST, "timeout"): 7, (HOST, "standing_queue"): 8},
        ),
        ("queue_timeout", {(HOST,): 7}),
        ("queue_memory", {(HOST,): 2048}),
        (
            "backpressure",
            {
                (HOST, "queue", "concurrency_limit"): 35,
                (HOST, "reject", "circuit_breaker"): 13,
                ("", "reject", "rate_limit"): 7,
            },
        ),
        ("retry_after", {(HOST,): TWICE_ADVISED, ("",): RETRY_AFTER}),
        ("server_up", {(HOST, "RSPrimary"): 1.0, ("/tmp/mongodb.sock", "Unknown"): 0.0}),
        ("round_trip_time", {(HOST,): 0.002}),
        ("breaker_state", {(HOST, "closed"): 0.0, (HOST, "half-open"): 1.0, (HOST, "open"): 0.0}),
        ("queue_admitted", {(HOST, "50"): 11, (HOST, "100"): 12}),
        ("retries", {("overload",): 14}),
        ("retries_refused", {("tokens",): 15}),
        ("retry_tokens", {(): 998.5}),
        ("retry_server_tokens", {(HOST,): 21.5}),
        ("operation_failures", {(): 17}),
        ("degraded", {(): 18}),
        ("rate_limit_rejected", {("*",): 3, ("db.coll",): 4}),
    ],
)
def test_values(name: str, expected: dict[tuple[str, ...], object]) -> None:
    assert values(name) == expected


def test_what_is_not_configured_is_not_there() -> None:
    names = {reading.name for reading in readings(client())}
    assert not names & {
        "retry_tokens",
        "retry_server_tokens",
        "queue_memory",
        "breaker_state",
        "rate_limit_tokens",
        "backpressure",
    }
    assert Reading("queue_depth", ("", "client"), 0) in list(readings(client()))


@pytest.mark.parametrize(
    ("address", "label"),
    [(("a", 1), "a:1"), (("::1", 27017), "[::1]:27017"), (("/tmp/x.sock", None), "/tmp/x.sock")],
)
def test_labels_of_servers(address: tuple[str, int | None], label: str) -> None:
    assert label_of(address) == label


def test_the_tables_of_the_page_about_metrics_are_current() -> None:
    assert FILE.read_text(encoding="utf-8") == document(), "run python -m tests.unit.exporters.metrics_document"


def test_names_of_the_adr() -> None:
    names = {metric.prometheus_name for metric in METRICS.values()}
    assert names >= {
        "motorlite_queue_depth",
        "motorlite_queue_wait_duration_seconds",
        "motorlite_queue_rejected_total",
        "motorlite_queue_timeout_total",
        "motorlite_queue_memory_bytes",
        "motorlite_backpressure_total",
        "motorlite_retry_after_seconds",
    }
