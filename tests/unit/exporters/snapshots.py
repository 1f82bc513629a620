"""Snapshots of clients with every field set."""

from __future__ import annotations

from dataclasses import fields, replace
from math import inf
from typing import Any

from motorlite import AsyncMongoClient
from motorlite.stats import BreakerStats, ClientStats, Durations, QueueStats, RateLimitStats, ServerStats

ADDRESS = ("db.example", 27017)
WAITS = Durations(3, 0.5, {0.1: 1, 1.0: 3, inf: 3})
RETRY_AFTER = Durations(2, 3.0, {1.0: 1, 2.0: 2})
QUEUE = QueueStats(
    strategy="queue",
    depth=4,
    memory=2048,
    rejected={"queue_full": 5, "memory_limit": 6, "timeout": 7, "standing_queue": 8, "pool_full": 9},
    timeouts=7,
    waits=WAITS,
    retry_after=RETRY_AFTER,
    priorities={50: 11, 100: 12},
    is_standing=True,
)
BREAKER = BreakerStats(
    state="half-open", operations=0, failures=0, opened=2, refused=13, retry_after=0.5, advised=RETRY_AFTER
)
# Of the queue and of the breaker of one server.
TWICE_ADVISED = Durations(
    2 * RETRY_AFTER.count,
    2 * RETRY_AFTER.total,
    {bound: 2 * number for bound, number in RETRY_AFTER.buckets.items()},
)


def server(**changes: Any) -> ServerStats:
    values: dict[str, Any] = {field.name: 0 for field in fields(ServerStats)}
    values |= {
        "queue": None,
        "breaker": None,
        "concurrency_limit": None,
        "retry_tokens": None,
        "server_type": "RSPrimary",
    }
    return replace(ServerStats(**values), **changes)


def client(**changes: Any) -> ClientStats:
    empty = ClientStats(
        servers={ADDRESS: server()}, tokens=inf, token_capacity=inf, retries={}, refusals={}, sessions=0
    )
    return replace(empty, **changes)


class Fixed(AsyncMongoClient[Any]):
    """A client whose statistics are those of the test."""

    def __init__(self, *snapshots: ClientStats | Exception, **options: Any) -> None:
        super().__init__("mongodb://db.example", **options)
        # The last one is shown again and again.
        self.snapshots = list(snapshots) or [FULL]

    def stats(self) -> ClientStats:
        found = self.snapshots.pop(0) if len(self.snapshots) > 1 else self.snapshots[0]
        if isinstance(found, Exception):
            raise found
        return found


FULL = client(
    servers={
        ADDRESS: server(
            round_trip_time=0.002,
            in_use=1,
            idle=2,
            connecting=3,
            pending=4,
            waiting=5,
            connections_created=6,
            replies_drained=7,
            replies_given_up=8,
            generation=9,
            operations=10,
            attempts=11,
            queue=QUEUE,
            breaker=BREAKER,
            concurrency_limit=20,
            retry_tokens=21.5,
        ),
        ("/tmp/mongodb.sock", None): server(server_type="Unknown", waiting=1, round_trip_time=None),
    },
    tokens=998.5,
    token_capacity=1000.0,
    retries={"overload": 14},
    refusals={"tokens": 15},
    sessions=16,
    failures=17,
    degraded=18,
    rate_limits={"*": RateLimitStats(1.5, 2, 3, QUEUE), "db.coll": RateLimitStats(0.0, 0, 4)},
)
