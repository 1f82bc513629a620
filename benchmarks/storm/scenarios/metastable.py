"""A server that does not shed load, and whose capacity halves for a while."""

from __future__ import annotations

from benchmarks.storm.scenario import Change, Load, Scenario, Server

SCENARIO = Scenario(
    name="metastable",
    question="Does a server without load shedding recover after its capacity was halved, and when?",
    load=Load(rate=450, clients=2, patience=0.3),
    seconds=3.4,
    servers=(Server(work=500, mode="queue"),),
    changes=(Change(0.4, 1.6, capacity=0.5),),
    arms=("no-retry", "default", "small-pool", "queue", "adaptive", "pymongo", "motor", "mongojet"),
    quick_seconds=3.4,
    tags=frozenset({"standard"}),
)
