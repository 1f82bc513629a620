"""Three times the capacity for one second."""

from __future__ import annotations

from benchmarks.storm.scenario import Change, Load, Scenario, Server

SCENARIO = Scenario(
    name="burst",
    question="How many requests does a burst of one second cost, and how long does it linger?",
    load=Load(rate=210, clients=1, patience=1.0),
    seconds=2.6,
    servers=(Server(work=450, admission_rate=300),),
    changes=(Change(0.3, 1.3, load=3 / 0.7),),
    arms=("no-retry", "immediate", "revision", "default", "small-budget", "pymongo", "motor", "mongojet"),
    quick_seconds=2.6,
    tags=frozenset({"standard"}),
)
