"""Three times the capacity, for longer than a small budget of retries lasts."""

from __future__ import annotations

from benchmarks.storm.scenario import Change, Load, Scenario

SCENARIO = Scenario(
    name="sustained",
    question="What is left of the goodput while three times the capacity is asked for?",
    load=Load(rate=350, clients=2, patience=1.0),
    seconds=4.5,
    changes=(Change(0.4, 3.3, load=3 / 0.7),),
    arms=("no-retry", "immediate", "revision", "seed", "small-budget", "pymongo", "motor", "mongojet"),
    quick_seconds=4.5,
    tags=frozenset({"standard"}),
)
