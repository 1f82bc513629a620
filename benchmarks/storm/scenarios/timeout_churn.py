"""A time limit that the server's latency sometimes exceeds by a little."""

from __future__ import annotations

from benchmarks.storm.scenario import Change, Load, Scenario, Server

SCENARIO = Scenario(
    name="timeout-churn",
    question="What does it cost to close a connection for each request that runs out of time?",
    load=Load(rate=400, clients=10, patience=0.06, warm=20),
    seconds=12.0,
    servers=(Server(work=500, mode="queue", latency=0.045),),
    changes=(Change(2.0, 6.0, capacity=0.85),),
    arms=("default", "adaptive", "pymongo"),
)
