"""From two snapshots to the sections on the screen."""

from __future__ import annotations

import json
from typing import Any

import pytest

from motorlite._execution.watching import BOUNDS, Followed, Watch
from motorlite.errors import ConnectionFailure
from motorlite.exporters._snapshots import VERSION, client_snapshot, program_snapshot
from motorlite.stats import BreakerStats, ClientStats, QueueStats, RateLimitStats
from motorlite.top._model import (
    MOST_ROWS,
    Row,
    Section,
    VersionError,
    check_version,
    clients,
    duration,
    number,
    percentile,
    sections,
)
from tests.unit.exporters import snapshots


def ended(watch: Watch, name: str, seconds: float, count: int = 1, error: BaseException | None = None) -> None:
    """Let operations begin at 0 and end."""
    for _ in range(count):
        followed = Followed(watch, name, "shop", "orders", 0.0)
        if error is None:
            followed.succeeded(seconds)
        else:
            followed.failed(error, seconds)


def lines(stats: ClientStats, watch: Watch, time: float = 10.0) -> dict[str, Any]:
    snapshot = program_snapshot({"pid": 1}, time, [client_snapshot(1, "shop", stats, watch.report(time))])
    found: dict[str, Any] = json.loads(snapshot)
    return found


def shown(older: dict[str, Any] | None, newer: dict[str, Any]) -> dict[str, Section]:
    ((title, found),) = clients(older, newer)
    assert title == "client 1: shop"
    return {section.title: section for section in found}


def test_operations_by_kind() -> None:
    watch, stats = Watch(), snapshots.client()
    ended(watch, "find", 0.004, 100)
    older = lines(stats, watch, 10.0)
    ended(watch, "find", 0.004, 19)
    ended(watch, "find", 0.04)
    ended(watch, "insert", 0.002, 4, ConnectionFailure("x"))
    ended(watch, "insert", 0.002, 2, KeyboardInterrupt())
    section = shown(older, lines(stats, watch, 12.0))["operations per second"]
    assert section.columns == ("operation", "ok", "failed", "cancelled", "mean", "p95")
    assert section.rows == (
        Row(("find", "10", "", "", "5.8 ms", "≤ 5.0 ms")),
        Row(("insert", "", "2", "1", "2.0 ms", "≤ 2.5 ms"), "bad"),
    )
    # Without an older snapshot there are no rates.
    assert shown(None, older)["operations per second"].rows == (Row(("find", "", "", "", "4.0 ms", "≤ 5.0 ms")),)


def test_counters_that_began_anew() -> None:
    """Another reader was the last one in between."""
    before, after, stats = Watch(), Watch(), snapshots.client()
    ended(before, "find", 0.001, 100)
    ended(after, "find", 0.001, 3)
    found = shown(lines(stats, before, 1.0), lines(stats, after, 2.0))
    assert found["operations per second"].rows[0].cells[1] == "3"


def test_phases_and_lost_time() -> None:
    watch, stats = Watch(), snapshots.client()
    older = lines(stats, watch, 10.0)
    watch.lose("queue", 5.0)
    watch.lose("backoff", 0.2)
    section = shown(older, lines(stats, watch, 12.0))["phases"]
    assert section.rows == (
        Row(("backoff", "", "100 ms")),
        Row(("queue", "", "2.5 s"), "warning"),
        Row(("all", "", "2.6 s")),
    )


def test_servers() -> None:
    breaker = BreakerStats("open", 4, 4, 1, 9, 0.5)
    stats = snapshots.client(
        servers={
            ("a.example", 27017): snapshots.server(
                round_trip_time=0.002, in_use=1, idle=2, connecting=3, pending=4, waiting=5, attempts=300
            ),
            ("b.example", 27017): snapshots.server(server_type="Unknown", breaker=breaker, concurrency_limit=7),
        }
    )
    before = snapshots.client(servers={("a.example", 27017): snapshots.server(attempts=100)})
    section = shown(lines(before, Watch(), 10.0), lines(stats, Watch(), 12.0))["servers and their pools"]
    assert section.rows == (
        Row(("a.example:27017", "RSPrimary", "2.0 ms", "1", "2", "3", "4", "5", "100", "", ""), "warning"),
        Row(("b.example:27017", "Unknown", "", "", "", "", "", "", "", "open", "7"), "bad"),
    )


def test_retries_and_errors() -> None:
    watch = Watch()
    older = lines(snapshots.client(retries={"overload": 10}), watch, 10.0)
    ended(watch, "find", 1.0, 3, ConnectionFailure("x"))
    newer = snapshots.client(retries={"overload": 14}, refusals={"tokens": 1})
    section = shown(older, lines(newer, watch, 12.0))["retries and errors"]
    assert section.rows == (
        Row(("retried: overload", "2", "14"), "warning"),
        Row(("refused: tokens", "0.5", "1"), "warning"),
        Row(("raised: ConnectionFailure", "1.5", "3"), "bad"),
    )


def test_limits() -> None:
    queue = QueueStats(**{**{name: getattr(snapshots.QUEUE, name) for name in QueueStats.__slots__}, "depth": 4})
    stats = snapshots.client(
        tokens=50.0,
        token_capacity=1000.0,
        degraded=3,
        rate_limits={"shop": RateLimitStats(tokens=2.4, waiting=6, rejected=8)},
        servers={
            snapshots.ADDRESS: snapshots.server(queue=queue, breaker=snapshots.BREAKER, retry_tokens=12.0),
        },
    )
    assert shown(None, lines(stats, Watch()))["limits"].rows == (
        Row(("retry tokens", "50 of 1000", ""), "bad"),
        Row(("rate limit shop", "2 tokens, 6 waiting", "8"), "warning"),
        Row(("queue db.example:27017", "4 waiting, queue", "35"), "bad"),
        Row(("breaker db.example:27017", "half-open, 0 of 0 failed", "13"), "bad"),
        Row(("retry tokens db.example:27017", "12", "")),
        Row(("answered by a fallback", "3", "")),
    )
    assert shown(None, lines(snapshots.client(), Watch()))["limits"].rows == (), "no budget, no limits"


def test_slow_operations() -> None:
    watch = Watch()
    running = Followed(watch, "aggregate", "shop", None, 7.0)
    watch.running |= {running, Followed(watch, "find", "shop", "orders", 9.95)}
    slow = Followed(watch, "find", "shop", "orders", 5.0)
    slow.lost = {"queue": 3.0}
    slow.succeeded(9.0)
    failed = Followed(watch, "insert", "shop", "orders", 8.0)
    failed.failed(ConnectionFailure("x"), 8.5)
    section = shown(None, lines(snapshots.client(), watch))["slow operations"]
    assert section.rows == (
        Row(("find", "shop.orders", "4.0 s", "queue", "ok", "1", "")),
        Row(("aggregate", "shop", "3.0 s", "before sending", "running", "1", ""), "warning"),
        Row(("insert", "shop.orders", "500 ms", "reply", "ConnectionFailure", "1", ""), "bad"),
    )


def test_rows_that_do_not_fit_are_counted() -> None:
    watch = Watch()
    for index in range(MOST_ROWS + 3):
        ended(watch, f"command{index}", 0.001)
    section = shown(None, lines(snapshots.client(), watch))["operations per second"]
    assert (len(section.rows), section.left_out) == (MOST_ROWS, 3)


def test_everything_at_once() -> None:
    """Each value that a snapshot may have can be shown."""
    newer = lines(snapshots.FULL, Watch())
    found = list(sections(None, newer["clients"][0], 0.0))
    assert all(len(row.cells) == len(section.columns) for section in found for row in section.rows)


def test_another_version() -> None:
    check_version({"version": VERSION})
    with pytest.raises(VersionError, match=rf"have version 99, and this command reads {VERSION}.*1\.2\.3"):
        check_version({"version": 99, "motorlite": "1.2.3"})
    with pytest.raises(VersionError, match="of unknown version"):
        check_version({})


@pytest.mark.parametrize(
    ("value", "text"), [(0, ""), (0.0, ""), (3, "3"), (3.0, "3"), (2.25, "2.2"), (12.6, "13"), (12345, "12,345")]
)
def test_numbers(value: float, text: str) -> None:
    assert number(value) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.0, ""),
        (0.00004, ""),
        (0.0005, "0.5 ms"),
        (0.0123, "12 ms"),
        (0.9, "900 ms"),
        (1.25, "1.2 s"),
        (99.0, "99.0 s"),
        (1234.0, "1,234 s"),
    ],
)
def test_durations(seconds: float, text: str) -> None:
    assert duration(seconds) == text


def test_percentiles() -> None:
    nothing = [0.0] * (len(BOUNDS) + 1)
    assert percentile(BOUNDS, nothing, 0.95) == ""
    assert percentile(BOUNDS, [95.0, 5.0, *nothing[2:]], 0.95) == "≤ 0.5 ms"
    assert percentile(BOUNDS, [94.0, 6.0, *nothing[2:]], 0.95) == "≤ 1.0 ms"
    assert percentile(BOUNDS, [*nothing[:-1], 1.0], 0.95) == "> 30.0 s"
