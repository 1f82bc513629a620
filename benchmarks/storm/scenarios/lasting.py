"""Three times the capacity, for longer than any budget of retries lasts."""

from __future__ import annotations

from benchmarks.storm.scenario import Change, Load, Scenario, Server

SCENARIO = Scenario(
    name="lasting",
    question="What load does each policy of retries put on a server that stays overloaded for twenty seconds?",
    load=Load(rate=210, clients=1, patience=1.0),
    seconds=30.0,
    servers=(Server(work=450, admission_rate=300),),
    changes=(Change(4.0, 24.0, load=3 / 0.7),),
    arms=("no-retry", "immediate", "revision", "default", "small-budget", "pymongo"),
)
