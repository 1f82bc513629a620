"""A primary that answers "host unreachable" for two seconds, to clients with a time limit."""

from __future__ import annotations

from benchmarks.storm.scenario import Change, Load, Scenario, Server

SCENARIO = Scenario(
    name="unreachable",
    question="What do retries until the time limit cost while the primary answers each at once with code 6?",
    load=Load(rate=100, clients=5, patience=5.0, warm=40),
    seconds=10.0,
    servers=(Server(work=1500, mode="queue", rejection_cost=0.5),),
    changes=(Change(2.0, 4.0, unreachable=True),),
    arms=("revision", "default", "small-budget", "pymongo", "motor"),
    quick_seconds=10.0,
)
