"""Shell: what the ingress is ordered to do while it runs, and what it reports.

Each order is a line of JSON on standard input, ``{"order": "change", "server": 0, "capacity": 0.5}``, and is answered
by a line on standard output, ``{"value": ...}`` or ``{"error": "..."}``. Between a `begin` and its end there are also
lines ``{"step": 3, "figures": [...]}``, one for each step, with the totals of each server since `begin`.
"""

from __future__ import annotations

import asyncio
import json
import os
from dataclasses import replace
from math import inf
from typing import TYPE_CHECKING, Any, Final

from benchmarks.processes import cpu_seconds
from benchmarks.storm.results import STEP
from benchmarks.storm.scenario import Server

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterable, Mapping

    from benchmarks.storm.ingress.ports import Port

FIELDS: Final = {
    "ingressRequestAdmissionRatePerSec": "admission_rate",
    "ingressRequestAdmissionBurstCapacitySecs": "admission_burst",
    "ingressConnectionEstablishmentRatePerSec": "connection_rate",
    "ingressConnectionEstablishmentBurstCapacitySecs": "connection_burst",
    "ingressConnectionEstablishmentMaxQueueDepth": "connection_queue",
}
"""The parameters of the limiters of MongoDB 8.2, and the fields of `scenario.Server` that they set."""
REQUESTS_LIMITED: Final = "ingressRequestRateLimiterEnabled"
CONNECTIONS_LIMITED: Final = "ingressConnectionEstablishmentRateLimiterEnabled"
NAMES: Final = (*FIELDS, REQUESTS_LIMITED, CONNECTIONS_LIMITED)


class Orders:
    """The orders to the servers: each is a method, whose return value is the answer; `say` sends a line."""

    def __init__(self, ports: list[Port], say: Callable[[Mapping[str, Any]], None]) -> None:
        self._ports = ports
        self._say = say
        self._run: asyncio.Task[None] | None = None

    async def execute(self, line: bytes) -> None:
        try:
            order = json.loads(line)
            action: Callable[..., Coroutine[Any, Any, Any]] = getattr(self, f"order_{order.pop('order')}")
            value = await action(**order)
        except (ValueError, TypeError, LookupError, AttributeError, OSError) as error:
            self._say({"error": f"{type(error).__name__}: {error}"})
        else:
            self._say({"value": value})

    async def order_reset(self, servers: list[dict[str, Any]] | None = None, seed: int = 0) -> None:
        """Begin anew: buckets full, queues empty. None: without limits. Each server is a `scenario.Server` in JSON."""
        for index, port in enumerate(self._ports):
            await port.open()
            port.reset(None if servers is None else Server(**servers[index]), seed + index)

    async def order_begin(self, at: float, seconds: float, schedule: list[tuple[float, dict[str, Any]]]) -> None:
        """Report each step from `at` on, by the loop's clock, and execute the scheduled orders.

        They come with the seconds after `at` when they are due. On sockets the clock is the system's monotonic one.
        """
        await self.order_end()
        self._run = asyncio.create_task(self._report(at, seconds, schedule))

    async def order_end(self) -> None:
        if self._run is not None:
            self._run.cancel()
            await asyncio.wait([self._run])
            self._run = None

    async def order_change(
        self, server: int, capacity: float = 1.0, failure_rate: float | None = None, unreachable: bool = False
    ) -> None:
        """Change the capacity of a server, as a factor, and its share of failures by chance, or make it unreachable."""
        self._ports[server].change(capacity=capacity, failure_rate=failure_rate, unreachable=unreachable)

    async def order_set_parameter(self, server: int, **parameters: Any) -> None:
        """Set parameters of a server, by the names that MongoDB has for them. Its limiters begin anew."""
        port = self._ports[server]
        port.reset(with_parameters(port.gate.server or Server(), parameters), 0)

    async def order_down(self, server: int) -> None:
        """Let a server refuse and close all connections."""
        self._ports[server].close()

    async def order_up(self, server: int) -> None:
        await self._ports[server].open()

    async def order_hold(self) -> None:
        """Hold back all requests, so that each of them needs a connection of its own."""
        for port in self._ports:
            port.hold()

    async def order_held(self) -> int:
        return sum(len(port.held or ()) for port in self._ports)

    async def order_release(self) -> None:
        for port in self._ports:
            port.release()

    async def order_cpu(self) -> float:
        return cpu_seconds()

    async def order_figures(self) -> list[dict[str, float]]:
        return [port.gate.figures(port.now()) for port in self._ports]

    async def _report(self, at: float, seconds: float, schedule: Iterable[tuple[float, dict[str, Any]]]) -> None:
        """Do what is scheduled, and report, each at its time."""
        clock, steps = asyncio.get_running_loop().time, round(seconds / STEP)
        # The report of a step comes before what is scheduled for the same time.
        agenda: list[tuple[float, int, Any]] = [(step * STEP, 0, step) for step in range(steps + 1)]
        agenda += [(when, 1, order) for when, order in schedule]
        agenda.sort(key=lambda entry: entry[:2])
        for when, _, what in agenda:
            await asyncio.sleep(max(0.0, at + when - clock()))
            if isinstance(what, int):
                late = clock() - at - when
                self._say({"step": what, "figures": await self.order_figures(), "cpu": cpu_seconds(), "late": late})
            else:
                order = dict(what)
                await getattr(self, f"order_{order.pop('order')}")(**order)


def say(value: Mapping[str, Any]) -> None:
    os.write(1, json.dumps(value).encode() + b"\n")


# --- parameters ---


def with_parameters(server: Server, parameters: Mapping[str, Any]) -> Server:
    """`server` with other parameters.

    Raises:
        ValueError: The server has no such parameter, or the value is wrong.
    """
    changes: dict[str, Any] = {}
    for name, value in parameters.items():
        if name == REQUESTS_LIMITED:
            changes["mode"] = "shed" if _switch(name, value) else "queue"
        elif name == CONNECTIONS_LIMITED:
            changes |= {} if _switch(name, value) else {"connection_rate": None}
        elif name in FIELDS:
            changes[FIELDS[name]] = _number(name, value)
        else:
            raise ValueError(f"there is no parameter {name}; there are {', '.join(NAMES)}")
    return replace(server, **changes)


def _switch(name: str, value: Any) -> bool:
    text = str(value).lower()
    if text not in ("true", "false"):
        raise ValueError(f"{name} must be true or false, not {value!r}")
    return text == "true"


def _number(name: str, value: Any) -> float:
    number = float(value)
    if not 0 <= number < inf:
        raise ValueError(f"{name} must be a number of at least 0, not {value!r}")
    return int(number) if name.endswith("Depth") else number
