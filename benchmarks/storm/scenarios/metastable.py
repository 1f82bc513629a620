"""A server without load shedding whose capacity halves for a while."""
from __future__ import annotations

from benchmarks.storm.scenario import Change, Load, Scenario, Server

SCENARIO = Scenario(
    name="metastable",
    question="Does the service recover after its capacity was halved for three seconds, and when?",
    load=Load(rate=450, patience=1.0),
    seconds=20.0,
    servers=(Server(work=500, mode="queue"),),
    changes=(Change(3.0, 6.0, capacity=0.5),),
    arms=("no-retry", "immediate", "revision", "seed", "adaptive", "pymongo", "motor", "mongojet"),
    tags=frozenset({"standard"}),
)
