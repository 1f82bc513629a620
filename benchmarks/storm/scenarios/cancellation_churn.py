"""An application that cancels a third of its requests."""

from __future__ import annotations

from benchmarks.storm.scenario import Load, Scenario, Server

SCENARIO = Scenario(
    name="cancellation-churn",
    question="What does it cost to close a connection for each request that the application cancels?",
    load=Load(rate=350, clients=10, cancelled=1 / 3, warm=20),
    seconds=10.0,
    servers=(Server(work=500, mode="queue", latency=0.02),),
    arms=("default", "adaptive", "pymongo"),
)
