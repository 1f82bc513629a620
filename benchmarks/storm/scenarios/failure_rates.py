"""Requests that fail at random, on a server with capacity to spare: the published comparison of token buckets."""

from __future__ import annotations

from benchmarks.storm.scenario import Load, Scenario, Server

SCENARIOS = tuple(
    Scenario(
        name=f"failure-rates-{rate:g}",
        question="What do retries add to the load, and to the share of successes, when a share of requests fails?",
        load=Load(rate=1000.0, clients=100, warm=4),
        seconds=10.0,
        servers=(Server(work=1e5, mode="queue", failure_rate=rate),),
        arms=("no-retry", "three", "published-bucket", "bucket", "retry-breaker"),
        quick_seconds=3.0,
        family="failure-rates",
        point=(("failure_rate", rate),),
    )
    for rate in (0.0, 0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5)
)
