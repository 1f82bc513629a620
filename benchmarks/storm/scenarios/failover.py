"""The primary goes down under load."""

from __future__ import annotations

from benchmarks.storm.scenario import Change, Load, Scenario, Server

SCENARIO = Scenario(
    name="failover",
    question="How many requests does a failover cost, and does the new primary survive its clients?",
    load=Load(rate=400, clients=10, patience=2.0, warm=20),
    seconds=15.0,
    servers=(Server(),) * 3,
    changes=(Change(3.0, 10.0, servers=(0,), down=True),),
    arms=("no-retry", "fixed", "default", "small-budget", "small-pool", "adaptive", "pymongo"),
)
