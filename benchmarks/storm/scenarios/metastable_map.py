"""The map of metastability: how long the trigger lasts, and how busy the server is."""

from __future__ import annotations

from benchmarks.storm.scenario import Change, Load, Scenario, Server

CAPACITY = 100.0

SCENARIOS = tuple(
    Scenario(
        name=f"metastable-map-{round(100 * load)}-{seconds:g}",
        question="From which load and duration on does a loss of half the capacity outlast itself?",
        load=Load(rate=load * CAPACITY, clients=10, patience=0.5),
        seconds=seconds + 15.0,
        servers=(Server(work=CAPACITY, mode="queue"),),
        changes=(Change(2.0, 2.0 + seconds, capacity=0.5),),
        arms=("default", "small-pool", "adaptive", "pymongo"),
        quick_seconds=seconds + 8.0,
        family="metastable-map",
        point=(("load", load), ("seconds", seconds)),
    )
    for load in (0.8, 0.85, 0.9, 0.95)
    for seconds in (1.0, 2.0, 5.0, 10.0, 20.0)
)
