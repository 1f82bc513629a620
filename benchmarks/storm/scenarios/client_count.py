"""The same load from one client, and from a thousand."""

from __future__ import annotations

from benchmarks.storm.scenario import Change, Load, Scenario, Server

CAPACITY = 200.0

SCENARIOS = tuple(
    Scenario(
        name=f"client-count-{clients}",
        question="What does a budget of retries for each client allow when there are many clients?",
        load=Load(rate=0.7 * CAPACITY, clients=clients, patience=1.0, warm=max(2, 300 // clients)),
        seconds=12.0,
        # Handshakes for nothing: here only the budgets count.
        servers=(Server(work=1.5 * CAPACITY, admission_rate=CAPACITY, handshake_cost=0.0),),
        changes=(Change(1.0, 10.0, load=3 / 0.7),),
        arms=("fixed", "default", "shared", "small-budget"),
        quick_seconds=6.0,
        family="client-count",
        point=(("clients", float(clients)),),
    )
    for clients in (1, 10, 30, 100, 300, 1000)
)
