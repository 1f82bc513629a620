"""Pure: a scenario in another length, or in the shape of the user's own deployment."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from benchmarks.storm.scenario import Scenario


def shortened(scenario: Scenario, seconds: float) -> Scenario:
    """Return the same scenario in `seconds`; its changes come earlier and are shorter in proportion."""
    part = seconds / scenario.seconds
    changes = tuple(replace(change, start=change.start * part, end=change.end * part) for change in scenario.changes)
    return replace(scenario, seconds=seconds, changes=changes)


def reshaped(
    scenario: Scenario, *, capacity: float | None = None, clients: int | None = None, rate: float | None = None
) -> Scenario:
    """Return the scenario for another deployment.

    Args:
        scenario: The scenario.
        capacity: Requests per second of each server. The load grows or shrinks with it, unless `rate` is set.
        clients: The number of clients. The workers of a closed loop are per client.
        rate: Requests per second of an open loop outside of the overload.

    Raises:
        ValueError: The scenario is a closed loop, which has no rate, or a number is not positive.
    """
    for name, number in (("capacity", capacity), ("clients", clients), ("rate", rate)):
        if number is not None and not number > 0:
            raise ValueError(f"{name} must be positive, not {number}")
    load, servers = scenario.load, scenario.servers
    if capacity is not None:
        part = capacity / servers[0].capacity
        servers = tuple(
            replace(server, work=server.work * part, admission_rate=server.admission_rate * part) for server in servers
        )
        if load.rate is not None:
            load = replace(load, rate=load.rate * part)
    if rate is not None:
        if load.rate is None:
            raise ValueError(f"{scenario.name} is a closed loop: its callers send as fast as they get answers")
        load = replace(load, rate=rate)
    if clients is not None:
        load = replace(load, clients=clients)
    return replace(scenario, load=load, servers=servers)
