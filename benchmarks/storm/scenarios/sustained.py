"""More load than the server can take, for longer than any budget lasts."""
from __future__ import annotations

from benchmarks.storm.scenario import Change, Load, Scenario

SCENARIO = Scenario(
    name="sustained",
    question="What is left of the goodput while three times the capacity is asked for?",
    load=Load(rate=350, patience=2.0),
    seconds=20.0,
    changes=(Change(3.0, 16.0, load=3 / 0.7),),
    arms=("no-retry", "immediate", "revision", "seed", "adaptive", "pymongo", "motor", "mongojet"),
    tags=frozenset({"standard"}),
)
