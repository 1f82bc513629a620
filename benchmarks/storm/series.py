"""Pure: the orders of a run for the ingress, the series that come of it, and whether the run is valid."""

from __future__ import annotations

from dataclasses import asdict
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

from benchmarks.storm.load import LATE
from benchmarks.storm.results import STEP
from benchmarks.storm.timeline import capacity_at, condition, times_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from benchmarks.storm.load import Record
    from benchmarks.storm.scenario import Scenario

MARGIN: Final = 0.75
"""A run in which the ingress is busier than this share of its ceiling, for a second, is not valid."""
LATE_SHARE: Final = 0.1
"""The share of requests that may be sent late: a driver that keeps its event loop busy delays them too."""
STARVED: Final = 0.1
"""Seconds by which a report of the ingress may be late."""
SLOW: Final = 0.02
"""Seconds that the server may take for a request, in the mean. What is measured is the ingress, not the server."""
_COUNTED: Final = ("attempts", "rejected", "connections")
# Where the series of an outcome has another name.
_SERIES_OF: Final = {"ok": "goodput", "rejected": "failed"}


def schedule(scenario: Scenario, seed: int) -> list[tuple[float, dict[str, Any]]]:
    """The orders for the ingress, with their times: the limits begin with the run."""
    found: list[tuple[float, dict[str, Any]]] = [
        (0.0, {"order": "reset", "servers": [asdict(server) for server in scenario.servers], "seed": seed})
    ]
    for index, server in enumerate(scenario.servers):
        was_down = False
        for time in times_of(scenario):
            now = condition(scenario, index, time)
            if now.is_down != was_down:
                found.append((time, {"order": "down" if now.is_down else "up", "server": index}))
            was_down = now.is_down
            if now != (1.0, server.failure_rate, now.is_down, False) or time:
                change = {"capacity": now.capacity, "failure_rate": now.failure_rate, "unreachable": now.is_unreachable}
                found.append((time, {"order": "change", "server": index, **change}))
    return sorted(found, key=lambda entry: entry[0])


def series(scenario: Scenario, record: Record, reports: Sequence[Mapping[str, Any]]) -> dict[str, list[float]]:
    """All series; `reports` are the totals of the ingress at the end of each step, after those at the start."""
    steps = round(scenario.seconds / STEP)
    found: dict[str, list[float]] = {
        name: [0.0] * steps for name in ("offered", "goodput", "timed_out", "failed", "cancelled")
    }
    for request in record.requests:
        _count(found["offered"], request.due)
        _count(found[_SERIES_OF.get(request.outcome, request.outcome)], request.ended)
    each = [live(before, after) for before, after in pairwise(reports)]
    for name in (*_COUNTED, "server_queue"):
        found[name] = [values[name] for values in each]
    for name in ("client_queue", "tokens"):
        found[name] = record.values.get(name, [])
    found["capacity"] = [capacity_at(scenario, (step + 0.5) * STEP) * STEP for step in range(steps)]
    return found


def _count(values: list[float], time: float) -> None:
    step = int(time / STEP)
    if step < len(values):
        values[step] += 1


def live(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, float]:
    """The values of one step, from two reports of the ingress."""
    values = {
        name: sum(a[name] for a in after["figures"]) - sum(b[name] for b in before["figures"])
        for name in (*_COUNTED, "backlog")
    }
    return {**values, "server_queue": values.pop("backlog") / STEP}


def invalid(
    record: Record, reports: Sequence[Mapping[str, Any]], surprises: Mapping[str, int], cores: float = 0.0
) -> list[str]:
    """The reasons why a run must not be used; `cores` are CPU seconds per second of the clients' process."""
    found: list[str] = []
    busiest = _busiest([report["cpu"] for report in reports])
    if busiest > MARGIN:
        found.append(f"the ingress was busy for {busiest:.0%} of a second, which is too near its own ceiling")
    latest = max(report["late"] for report in reports)
    if latest > STARVED:
        found.append(f"the ingress was {latest * 1000:.0f} ms late: the machine was busy with something else")
    if record.late > LATE_SHARE * len(record.requests):
        found.append(
            f"{record.late} of {len(record.requests)} requests were sent more than {LATE * 1000:.0f} ms late "
            f"(at most {record.latest * 1000:.0f} ms); the clients' process used {cores:.0%} of a core"
        )
    last = reports[-1]["figures"]
    answered = sum(server["answered"] for server in last)
    took = sum(server["answer_seconds"] for server in last) / max(1, answered)
    if took > SLOW:
        found.append(f"the server behind the ingress took {took * 1000:.0f} ms for a request")
    found += [f"{count} requests ended with an unexpected error: {text}" for text, count in surprises.items()]
    return found


def _busiest(seconds: Sequence[float]) -> float:
    """The most CPU time in one second, from the totals at each step."""
    span = round(1 / STEP)
    if len(seconds) <= span:
        return (seconds[-1] - seconds[0]) / (STEP * max(1, len(seconds) - 1))
    return max(after - before for before, after in zip(seconds, seconds[span:], strict=False))
