"""A burst that finds small pools, which have to grow while the server is busy."""

from __future__ import annotations

from benchmarks.storm.scenario import Change, Load, Scenario

SCENARIO = Scenario(
    name="cold-pools",
    question="What does it cost that pools grow while the server is overloaded?",
    load=Load(rate=350, clients=40, patience=1.0, warm=3),
    seconds=12.0,
    changes=(Change(2.0, 6.0, load=3 / 0.7),),
    arms=("no-retry", "default", "small-budget", "small-pool", "adaptive", "pymongo"),
)
