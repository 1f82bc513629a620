"""Shell: runs of scenarios on real sockets, one at a time."""

from __future__ import annotations

import platform
from dataclasses import asdict
from time import monotonic
from typing import TYPE_CHECKING, Any, Final, Self

from benchmarks.storm.results import SERIES, STEP, Run
from benchmarks.storm.sockets import ceiling, series
from benchmarks.storm.sockets.client import Done, Task
from benchmarks.storm.sockets.deployment import Deployment
from benchmarks.storm.sockets.load import GRACE
from benchmarks.storm.sockets.processes import Clients, ClientsFailedError
from benchmarks.storm.timeline import capacity_at, condition, times_of
from motorlite.testing.server.local_commands import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable

    from benchmarks.storm.arms import Arm
    from benchmarks.storm.scenario import Scenario
    from benchmarks.storm.sockets.ceiling import Ceiling

    Progress = Callable[[float, dict[str, float]], None]

LEAD: Final = 0.1
"""Seconds between the order to begin and the beginning."""
LOOK_SECONDS: Final = 0.02
SETTLED: Final = 0.5
"""Seconds without another connection, after which the clients have as many as their drivers open."""
READY_SECONDS: Final = 120.0
"""How long making and warming up the clients may take."""
CLOSE_SECONDS: Final = 10.0


class Bench:
    """Servers, the ingress and a process for each arm, started when a run needs them and kept for the next ones.

    Use it as a context manager. Not for use from several threads at once.
    """

    def __init__(self) -> None:
        self._deployment: Deployment | None = None
        self._members = 0
        self._clients: dict[str, Clients] = {}
        self._ceiling: Ceiling | None = None

    def run(
        self,
        scenario: Scenario,
        arm: Arm,
        seed: int = 1,
        on_progress: Callable[[float, dict[str, float]], None] | None = None,
    ) -> Run:
        """Run one arm.

        Args:
            scenario: The scenario.
            arm: A policy of motorlite, or a peer.
            seed: Of all random numbers. The requests of an open loop are the same for all arms.
            on_progress: Called after each step with its end in seconds and the values of its series.

        Returns:
            The run. It is not valid, and empty, if the clients' process failed, for example because the driver is not
            installed.

        Raises:
            ProcessFailedError: The ingress failed.
        """
        deployment = self._deployment_for(len(scenario.servers))
        deployment.restore()
        try:
            return self._run(deployment, scenario, arm, seed, on_progress)
        except ClientsFailedError as error:
            self._drop(arm)
            return Run(
                scenario=scenario.name,
                arm=arm.name,
                seed=seed,
                backend="sockets",
                seconds=scenario.seconds,
                overload=scenario.overload,
                capacity=capacity_at(scenario, 0.0),
                series={name: [] for name in SERIES},
                invalid=[str(error)],
            )

    def _run(
        self, deployment: Deployment, scenario: Scenario, arm: Arm, seed: int, on_progress: Progress | None
    ) -> Run:
        clients = self._clients.get(arm.name) or self._clients.setdefault(arm.name, Clients(arm.name))
        deployment.ingress.order("hold")
        clients.send(Task(scenario, arm, seed, deployment.uri))
        self._warm_up(deployment, clients, scenario.load.clients * min(scenario.load.warm, arm.max_pool_size))
        before = deployment.cpu_seconds()
        reports: list[dict[str, Any]] = []
        deployment.ingress.on_step = reports.append
        start = monotonic() + LEAD
        deployment.ingress.order("begin", at=start, seconds=scenario.seconds, schedule=schedule(scenario, seed))
        clients.send(start)
        done = self._follow(scenario, clients, reports, on_progress)
        wait_until(lambda: len(reports) > round(scenario.seconds / STEP), "the last report of the ingress")
        after = deployment.cpu_seconds()
        deployment.ingress.order("end")
        deployment.ingress.on_step = None
        # Without limits, so that nothing delays the clients, which end their sessions.
        deployment.ingress.order("reset")
        clients.send("close")
        try:
            clients.receive(CLOSE_SECONDS)  # "closed"
        except ClientsFailedError:
            # A driver whose operations were cancelled may never end. The next run gets a process of its own.
            self._drop(arm)
        ingress_cpu = reports[-1]["cpu"] - reports[0]["cpu"]
        return Run(
            scenario=scenario.name,
            arm=arm.name,
            seed=seed,
            backend="sockets",
            seconds=scenario.seconds,
            overload=scenario.overload,
            capacity=capacity_at(scenario, 0.0),
            series=series.series(scenario, done.record, reports),
            requests=done.record.requests,
            cpu={"client": done.cpu_seconds, "ingress": ingress_cpu, "mongod": after - before},
            versions={**done.versions, "mongod": deployment.version},
            invalid=series.invalid(done.record, reports, done.surprises, done.cpu_seconds / scenario.seconds),
        )

    def ceiling(self) -> Ceiling:
        """The most that the ingress can do on this machine; measured once."""
        if self._ceiling is None:
            self._ceiling = ceiling.measure(self._deployment_for(self._members or 1).ingress)
        return self._ceiling

    def facts(self) -> dict[str, str]:
        """What the figures depend on: versions, the machine, and the ingress' own limit."""
        return {
            "ingress": str(self.ceiling()),
            "mongod": self._deployment_for(self._members or 1).version,
            "python": platform.python_version(),
            "machine": f"{platform.system()} {platform.release()}, {platform.machine()}",
        }

    def _drop(self, arm: Arm) -> None:
        clients = self._clients.pop(arm.name, None)
        if clients is not None:
            clients.kill()

    def close(self) -> None:
        """End all processes."""
        for clients in self._clients.values():
            clients.close()
        self._clients.clear()
        self._end_deployment()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc: object) -> None:
        self.close()

    def _deployment_for(self, members: int) -> Deployment:
        # One at a time: idle members of a replica set talk to each other all the time.
        if self._deployment is None or self._members != members:
            self._end_deployment()
            self._deployment = Deployment(members)
            self._members = members
        return self._deployment

    def _end_deployment(self) -> None:
        if self._deployment is not None:
            self._deployment.close()
            self._deployment = None

    def _warm_up(self, deployment: Deployment, clients: Clients, connections: int) -> None:
        """Let all clients open their connections, of which a driver may allow fewer than is asked for."""
        held, since = 0, monotonic()
        while clients.is_silent(LOOK_SECONDS) and held < connections:
            now = deployment.ingress.order("held")
            if now > held:
                held, since = now, monotonic()
            elif held and monotonic() - since > SETTLED:
                break
        deployment.ingress.order("release")
        clients.receive(READY_SECONDS)  # "ready"

    def _follow(
        self, scenario: Scenario, clients: Clients, reports: list[dict[str, Any]], on_progress: Progress | None
    ) -> Done:
        """Pass on the progress until the clients have finished."""
        patience = scenario.load.patience
        limit = scenario.seconds + READY_SECONDS + (GRACE if patience is None else patience)
        while not isinstance(message := clients.receive(limit), Done):
            step, values = message
            if on_progress is not None and len(reports) > step + 1:
                on_progress((step + 1) * STEP, {**series.live(reports[step], reports[step + 1]), **values})
        return message


def schedule(scenario: Scenario, seed: int) -> list[tuple[float, dict[str, Any]]]:
    """Return the orders for the ingress, with their times: the limits begin with the run."""
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
