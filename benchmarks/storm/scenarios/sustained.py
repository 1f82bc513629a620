"""Three times the capacity, for longer than a small budget of retries lasts."""

from __future__ import annotations

from benchmarks.storm.scenario import Change, Load, Scenario, Server

SCENARIO = Scenario(
    name="sustained",
    question="What is left of the goodput while three times the capacity is asked for?",
    load=Load(rate=210, clients=1, patience=1.0),
    seconds=5.0,
    servers=(Server(work=450, admission_rate=300),),
    changes=(Change(0.4, 3.2, load=3 / 0.7),),
    arms=("no-retry", "immediate", "revision", "default", "small-budget", "pymongo", "motor", "mongojet"),
    quick_seconds=5.0,
    tags=frozenset({"standard"}),
)
