"""Pure: what a scenario and an arm are, in words for a reader."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from benchmarks.storm.scenario import Change, Load, Scenario, Server


def describe(scenario: Scenario) -> list[tuple[str, str]]:
    """The conditions of an experiment as pairs of name and text."""
    rows = [("load", _load(scenario.load))]
    kinds: dict[Server, int] = {}
    for server in scenario.servers:
        kinds[server] = kinds.get(server, 0) + 1
    for server, number in kinds.items():
        rows.append(("server" if number == 1 else f"{number} servers", _server(server)))
    if len(scenario.servers) > 1:
        rows.append(("read preference", scenario.read_preference))
    rows += [(f"{change.start:g} to {change.end:g} s", _change(change)) for change in scenario.changes]
    rows.append(("duration", f"{scenario.seconds:g} s"))
    return rows


def _load(load: Load) -> str:
    if load.rate is None:
        text = f"closed loop: {load.workers} callers in each of {load.clients} clients"
        text += f", who pause for {load.think * 1e3:g} ms" if load.think else ""
    else:
        clients = "1 client" if load.clients == 1 else f"{load.clients} clients"
        text = f"open loop (Poisson): {load.rate:g} requests per second of {clients}"
    if load.patience is not None:
        text += f"; timeoutMS {load.patience * 1e3:g}"
    if load.application_retries:
        text += f"; the application retries {load.application_retries} times at once"
    if load.cancelled:
        text += f"; the application cancels {load.cancelled:.0%} of the requests"
    return text


def _server(server: Server) -> str:
    parts = [f"works through {server.work:g} units per second"]
    if server.mode == "shed":
        parts.append(
            f"admits {server.admission_rate:g} requests per second (burst {server.admission_burst:g} s) and rejects "
            "others with code 462"
        )
    else:
        parts.append("rejects nothing: requests queue")
    if server.connection_rate is not None:
        parts.append(
            f"accepts {server.connection_rate:g} connections per second, of which {server.connection_queue} may wait"
        )
    if server.base_backoff is not None:
        parts.append(f"baseBackoffMS {server.base_backoff * 1e3:g}")
    parts.append(f"a rejection costs {server.rejection_cost:g}, a handshake {server.handshake_cost:g} units")
    parts.append(f"latency {server.latency * 1e3:g} ms")
    if server.failure_rate:
        parts.append(f"{server.failure_rate:.0%} of the admitted requests fail at random")
    return "; ".join(parts)


def _change(change: Change) -> str:
    parts = []
    if change.load != 1:
        parts.append(f"{change.load:g} times the load")
    if change.capacity != 1:
        parts.append(f"{change.capacity:g} times the capacity")
    if change.failure_rate is not None:
        parts.append(f"{change.failure_rate:.0%} of the admitted requests fail at random")
    if change.down:
        parts.append("down")
    if change.unreachable:
        parts.append('answers every request with "host unreachable" (code 6)')
    where = f" (servers {', '.join(str(number + 1) for number in change.servers)})" if change.servers else ""
    return (", ".join(parts) or "nothing changes") + where


def changed_fields(scenario: Scenario, other: Scenario) -> list[str]:
    """The names of the fields in which two scenarios differ."""
    return [field.name for field in fields(scenario) if getattr(scenario, field.name) != getattr(other, field.name)]
