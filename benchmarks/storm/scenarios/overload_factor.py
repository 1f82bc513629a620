"""Sustained overload from one and a half times to five times the capacity, for half a minute."""

from __future__ import annotations

from benchmarks.storm.scenario import Change, Load, Scenario, Server

CAPACITY = 60.0

SCENARIOS = tuple(
    Scenario(
        name=f"overload-factor-{factor:g}",
        question="How does the amplification of a policy depend on the size of an overload that lasts?",
        load=Load(rate=0.7 * CAPACITY, clients=1, patience=2.0),
        seconds=40.0,
        servers=(Server(work=1.5 * CAPACITY, admission_rate=CAPACITY),),
        changes=(Change(2.0, 35.0, load=factor / 0.7),),
        arms=("no-retry", "fixed", "default", "small-budget"),
        quick_seconds=20.0,
        family="overload-factor",
        point=(("factor", factor),),
    )
    for factor in (1.5, 2.0, 3.0, 4.0, 5.0)
)
