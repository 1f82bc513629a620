"""Three times the capacity for one second."""
from __future__ import annotations

from benchmarks.storm.scenario import Change, Load, Scenario

SCENARIO = Scenario(
    name="burst",
    question="How many requests does a burst of one second cost, and how long does it linger?",
    load=Load(rate=350, patience=2.0),
    seconds=10.0,
    changes=(Change(3.0, 4.0, load=3 / 0.7),),
    arms=("no-retry", "immediate", "revision", "seed", "adaptive", "pymongo", "motor", "mongojet"),
    tags=frozenset({"standard"}),
)
