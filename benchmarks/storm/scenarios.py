"""Shell: the scenarios, each a question and the experiment that answers it, and how they are found."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import TYPE_CHECKING, Final

from benchmarks.storm.scenario import Change, Load, Scenario, Server

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

STANDARD: Final = "standard"
"""The tag of the scenarios that `make storm` runs on sockets, and their name on the command line."""
ALL: Final = "all"

# Three times the capacity, where the load is usually seven tenths of it.
TRIPLE: Final = 3 / 0.7
SMALL: Final = Server(work=450, admission_rate=300)
PEERS: Final = ("pymongo", "motor", "mongojet")


def _single() -> Iterable[Scenario]:
    """Those that are no sweep."""
    yield Scenario(
        name="bad-node",
        question="Does one overloaded server of three take the others' requests down with it?",
        load=Load(rate=840, clients=10, patience=1.0, warm=30),
        seconds=15.0,
        servers=(Server(work=600, admission_rate=400),) * 3,
        read_preference="nearest",
        changes=(Change(3.0, 12.0, capacity=0.1, servers=(1,)),),
        arms=("no-retry", "no-retarget", "default", "per-server", "small-budget", "breaker", "adaptive", "pymongo"),
    )
    yield Scenario(
        name="bounded-queue",
        question="What is a limit on the client's queue good for while a server cannot keep up?",
        load=Load(rate=350, clients=4, patience=1.0),
        seconds=12.0,
        servers=(Server(work=500, mode="queue"),),
        changes=(Change(3.0, 8.0, load=TRIPLE),),
        arms=("small-pool", "small-pool-queue", "small-pool-newest", "default", "queue"),
    )
    yield Scenario(
        name="burst",
        question="How many requests does a burst of one second cost, and how long does it linger?",
        load=Load(rate=210, clients=1, patience=1.0),
        seconds=2.6,
        servers=(SMALL,),
        changes=(Change(0.3, 1.3, load=TRIPLE),),
        arms=("no-retry", "immediate", "revision", "default", "small-budget", *PEERS),
        quick_seconds=2.6,
        tags=frozenset({STANDARD}),
    )
    yield Scenario(
        name="cancellation-churn",
        question="What does it cost to close a connection for each request that the application cancels?",
        load=Load(rate=350, clients=10, cancelled=1 / 3, warm=20),
        seconds=10.0,
        servers=(Server(work=500, mode="queue", latency=0.02),),
        arms=("default", "adaptive", "pymongo"),
    )
    # Pools that have to grow while the server is busy.
    yield Scenario(
        name="cold-pools",
        question="What does it cost that pools grow while the server is overloaded?",
        load=Load(rate=350, clients=40, patience=1.0, warm=3),
        seconds=12.0,
        changes=(Change(2.0, 6.0, load=TRIPLE),),
        arms=("no-retry", "default", "small-budget", "small-pool", "adaptive", "pymongo"),
    )
    yield Scenario(
        name="failover",
        question="How many requests does a failover cost, and does the new primary survive its clients?",
        load=Load(rate=400, clients=10, patience=2.0, warm=20),
        seconds=15.0,
        servers=(Server(),) * 3,
        changes=(Change(3.0, 10.0, servers=(0,), down=True),),
        arms=("no-retry", "fixed", "default", "small-budget", "small-pool", "adaptive", "pymongo"),
    )
    # Longer than any budget of retries lasts.
    yield Scenario(
        name="lasting",
        question="What load does each policy of retries put on a server that stays overloaded for twenty seconds?",
        load=Load(rate=210, clients=1, patience=1.0),
        seconds=30.0,
        servers=(SMALL,),
        changes=(Change(4.0, 24.0, load=TRIPLE),),
        arms=("no-retry", "immediate", "revision", "default", "small-budget", "pymongo"),
    )
    # A server that does not shed load, and whose capacity halves for a while.
    yield Scenario(
        name="metastable",
        question="Does a server without load shedding recover after its capacity was halved, and when?",
        load=Load(rate=450, clients=2, patience=0.3),
        seconds=3.4,
        servers=(Server(work=500, mode="queue"),),
        changes=(Change(0.4, 1.6, capacity=0.5),),
        arms=("no-retry", "default", "small-pool", "queue", "adaptive", *PEERS),
        quick_seconds=3.4,
        tags=frozenset({STANDARD}),
    )
    # Longer than a small budget of retries lasts.
    yield Scenario(
        name="sustained",
        question="What is left of the goodput while three times the capacity is asked for?",
        load=Load(rate=210, clients=1, patience=1.0),
        seconds=5.0,
        servers=(SMALL,),
        changes=(Change(0.4, 3.2, load=TRIPLE),),
        arms=("no-retry", "immediate", "revision", "default", "small-budget", *PEERS),
        quick_seconds=5.0,
        tags=frozenset({STANDARD}),
    )
    yield Scenario(
        name="tight-loop",
        question="What can a driver still do when the application itself retries in a tight loop?",
        load=Load(rate=350, clients=10, patience=1.0, application_retries=20),
        seconds=10.0,
        changes=(Change(2.0, 6.0, load=1.5 / 0.7),),
        arms=("no-retry", "default", "small-budget", "breaker", "small-pool", "adaptive", "pymongo"),
    )
    # A time limit that the server's latency sometimes exceeds by a little.
    yield Scenario(
        name="timeout-churn",
        question="What does it cost to close a connection for each request that runs out of time?",
        load=Load(rate=400, clients=10, patience=0.06, warm=20),
        seconds=12.0,
        servers=(Server(work=500, mode="queue", latency=0.045),),
        changes=(Change(2.0, 6.0, capacity=0.85),),
        arms=("default", "adaptive", "pymongo"),
    )
    yield Scenario(
        name="unreachable",
        question="What do retries until the time limit cost while the primary answers each at once with code 6?",
        load=Load(rate=100, clients=5, patience=5.0, warm=40),
        seconds=10.0,
        servers=(Server(work=1500, mode="queue", rejection_cost=0.5),),
        changes=(Change(2.0, 4.0, unreachable=True),),
        arms=("revision", "default", "small-budget", "pymongo", "motor"),
        quick_seconds=10.0,
    )


def _sweeps() -> Iterable[Scenario]:
    """The same experiment with different values of one or two quantities."""
    for clients in (1, 10, 30, 100, 300, 1000):
        yield Scenario(
            name=f"client-count-{clients}",
            question="What does a budget of retries for each client allow when there are many clients?",
            load=Load(rate=140.0, clients=clients, patience=1.0, warm=max(2, 300 // clients)),
            seconds=12.0,
            # Handshakes for nothing: here only the budgets count.
            servers=(Server(work=300.0, admission_rate=200.0, handshake_cost=0.0),),
            changes=(Change(1.0, 10.0, load=TRIPLE),),
            arms=("fixed", "default", "shared", "small-budget"),
            quick_seconds=6.0,
            family="client-count",
            point=(("clients", float(clients)),),
        )
    # On a server with capacity to spare: the published comparison of token buckets.
    for rate in (0.0, 0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5):
        yield Scenario(
            name=f"failure-rates-{rate:g}",
            question="What do retries add to the load, and to the share of successes, when a share of requests fails?",
            load=Load(rate=1000.0, clients=100, warm=4),
            seconds=10.0,
            servers=(Server(work=1e5, mode="queue", failure_rate=rate),),
            arms=("no-retry", "three", "published-bucket", "bucket", "retry-breaker"),
            quick_seconds=3.0,
            family="failure-rates",
            point=(("failure_rate", rate),),
        )
    for load in (0.8, 0.85, 0.9, 0.95):
        for seconds in (1.0, 2.0, 5.0, 10.0, 20.0):
            yield Scenario(
                name=f"metastable-map-{round(100 * load)}-{seconds:g}",
                question="From which load and duration on does a loss of half the capacity outlast itself?",
                load=Load(rate=load * 100.0, clients=10, patience=0.5),
                seconds=seconds + 15.0,
                servers=(Server(work=100.0, mode="queue"),),
                changes=(Change(2.0, 2.0 + seconds, capacity=0.5),),
                arms=("default", "small-pool", "adaptive", "pymongo"),
                quick_seconds=seconds + 8.0,
                family="metastable-map",
                point=(("load", load), ("seconds", seconds)),
            )
    for factor in (1.5, 2.0, 3.0, 4.0, 5.0):
        yield Scenario(
            name=f"overload-factor-{factor:g}",
            question="How does the amplification of a policy depend on the size of an overload that lasts?",
            load=Load(rate=42.0, clients=1, patience=2.0),
            seconds=40.0,
            servers=(Server(work=90.0, admission_rate=60.0),),
            changes=(Change(2.0, 35.0, load=factor / 0.7),),
            arms=("no-retry", "fixed", "default", "small-budget"),
            quick_seconds=20.0,
            family="overload-factor",
            point=(("factor", factor),),
        )


def everything() -> dict[str, list[Scenario]]:
    """All shipped scenarios, by their own names or by those of their sweeps."""
    found: dict[str, list[Scenario]] = {}
    for scenario in (*_single(), *_sweeps()):
        found.setdefault(scenario.family or scenario.name, []).append(scenario)
    return dict(sorted(found.items()))


class NoScenarioError(Exception):
    """What the user named is no scenario."""


def load(path: Path) -> list[Scenario]:
    """The scenarios of a Python file: its `SCENARIO` or its `SCENARIOS`.

    Raises:
        NoScenarioError: The file cannot be read, or has neither.
    """
    if not path.is_file():
        raise NoScenarioError(f"{path} is no Python file")
    module = runpy.run_path(str(path))
    found = list(module.get("SCENARIOS", [module.get("SCENARIO")]))
    if not found or not all(isinstance(scenario, Scenario) for scenario in found):
        raise NoScenarioError(f"{path} defines neither SCENARIO nor SCENARIOS, as benchmarks.storm.scenario has them")
    return found


def find(names: Sequence[str]) -> list[Scenario]:
    """The scenarios with these names, in this order.

    A name is that of a scenario, of a sweep, "standard", "all", or the path of a file.

    Raises:
        NoScenarioError: There is no such scenario.
    """
    shipped = everything()
    flat = [scenario for group in shipped.values() for scenario in group]
    groups = {**shipped, STANDARD: [scenario for scenario in flat if STANDARD in scenario.tags], ALL: flat}
    groups.update({scenario.name: [scenario] for scenario in flat})
    found: list[Scenario] = []
    for name in names:
        if not name.endswith(".py") and name not in groups:
            known = ", ".join([STANDARD, ALL, *shipped])
            raise NoScenarioError(f"there is no scenario {name!r}; there are {known}, and any path to a .py file")
        found += groups[name] if name in groups else load(Path(name))
    return list({scenario.name: scenario for scenario in found}.values())
