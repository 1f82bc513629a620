"""An application that repeats what has failed, at once, up to twenty times."""

from __future__ import annotations

from benchmarks.storm.scenario import Change, Load, Scenario

SCENARIO = Scenario(
    name="tight-loop",
    question="What can a driver still do when the application itself retries in a tight loop?",
    load=Load(rate=350, clients=10, patience=1.0, application_retries=20),
    seconds=10.0,
    changes=(Change(2.0, 6.0, load=1.5 / 0.7),),
    arms=("no-retry", "default", "small-budget", "breaker", "small-pool", "adaptive", "pymongo"),
)
