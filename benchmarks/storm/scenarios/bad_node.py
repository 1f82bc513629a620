"""One of three servers has a tenth of its capacity."""

from __future__ import annotations

from benchmarks.storm.scenario import Change, Load, Scenario, Server

SCENARIO = Scenario(
    name="bad-node",
    question="Does one overloaded server of three take the others' requests down with it?",
    load=Load(rate=840, clients=10, patience=1.0, warm=30),
    seconds=15.0,
    servers=(Server(work=600, admission_rate=400),) * 3,
    read_preference="nearest",
    changes=(Change(3.0, 12.0, capacity=0.1, servers=(1,)),),
    arms=("no-retry", "no-retarget", "default", "per-server", "small-budget", "breaker", "adaptive", "pymongo"),
)
