"""More callers than connections, with a queue in front of them that is bounded, or is not."""

from __future__ import annotations

from benchmarks.storm.scenario import Change, Load, Scenario, Server

SCENARIO = Scenario(
    name="bounded-queue",
    question="What is a limit on the client's queue good for while a server cannot keep up?",
    load=Load(rate=350, clients=4, patience=1.0),
    seconds=12.0,
    servers=(Server(work=500, mode="queue"),),
    changes=(Change(3.0, 8.0, load=3 / 0.7),),
    arms=("small-pool", "small-pool-queue", "small-pool-newest", "default", "queue"),
)
