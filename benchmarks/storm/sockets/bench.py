"""Shell: runs of scenarios on real sockets, one at a time."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import asdict, dataclass
from itertools import cycle
from time import monotonic
from typing import TYPE_CHECKING, Any, Final, Self

from benchmarks.arms import BareClient
from benchmarks.storm import series
from benchmarks.storm.load import GRACE
from benchmarks.storm.results import STEP, Run
from benchmarks.storm.scenario import Server
from benchmarks.storm.series import MARGIN
from benchmarks.storm.sockets.processes import Clients, ClientsFailedError, Deployment, Done, Task
from motorlite.testing.server.local_commands import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable

    from benchmarks.storm.arms import Arm
    from benchmarks.storm.scenario import Scenario
    from benchmarks.storm.sockets.processes import Ingress

    Progress = Callable[[float, dict[str, float]], None]

SECONDS: Final = 1.0
CONNECTIONS: Final = 32
"""Of the measurement of the ceiling."""
LEAD: Final = 0.1
"""Seconds between the order to begin and the beginning."""
LOOK_SECONDS: Final = 0.02
SETTLED: Final = 0.5
"""Seconds without another connection, after which the clients have as many as their drivers open."""
READY_SECONDS: Final = 120.0
"""How long making and warming up the clients may take."""
CLOSE_SECONDS: Final = 10.0


class Bench:
    """Servers, the ingress and a process for each arm, started when a run needs them and kept for the next ones."""

    def __init__(self) -> None:
        self._deployment: Deployment | None = None
        self._members = 0
        self._clients: dict[str, Clients] = {}
        self._ceiling: Ceiling | None = None

    def run(self, scenario: Scenario, arm: Arm, seed: int = 1, on_progress: Progress | None = None) -> Run:
        """Run one arm: a policy of motorlite, or a peer. The requests are the same for all arms.

        `on_progress` is called after each step with its end in seconds and the values of its series. The run is not
        valid, and empty, if the clients' process failed, for example because the driver is not installed.

        Raises:
            ChildFailedError: The ingress failed.
        """
        deployment = self._deployment_for(len(scenario.servers))
        deployment.restore()
        try:
            return self._run(deployment, scenario, arm, seed, on_progress)
        except ClientsFailedError as error:
            self._drop(arm)
            return Run.of(scenario, arm, seed, "sockets", invalid=[str(error)])

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
        deployment.ingress.order("begin", at=start, seconds=scenario.seconds, schedule=series.schedule(scenario, seed))
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
        return Run.of(
            scenario,
            arm,
            seed,
            "sockets",
            series=series.series(scenario, done.record, reports),
            requests=done.record.requests,
            cpu={"client": done.cpu_seconds, "ingress": ingress_cpu, "mongod": after - before},
            versions={**done.versions, "mongod": deployment.version},
            invalid=series.invalid(done.record, reports, done.surprises, done.cpu_seconds / scenario.seconds),
        )

    def ceiling(self) -> Ceiling:
        """The most that the ingress can do on this machine; measured once."""
        if self._ceiling is None:
            self._ceiling = measure(self._deployment_for(self._members or 1).ingress)
        return self._ceiling

    def facts(self) -> dict[str, str]:
        """What the figures depend on beside the machine: the server's version, and the ingress' own limit."""
        return {
            "ingress": str(self.ceiling()),
            "mongod": self._deployment_for(self._members or 1).version,
        }

    def _drop(self, arm: Arm) -> None:
        clients = self._clients.pop(arm.name, None)
        if clients is not None:
            clients.kill()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc: object) -> None:
        for clients in self._clients.values():
            clients.close()
        self._clients.clear()
        self._end_deployment()

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


@dataclass(frozen=True, slots=True)
class Ceiling:
    """Requests, or rejections, per second that keep the ingress, which has one thread, busy.

    They are counted per second of its CPU time, so that other load on the machine does not change them.
    """

    forwarded: float
    rejected: float

    def __str__(self) -> str:
        return (
            f"the ingress passes at most {self.forwarded:,.0f} requests, or {self.rejected:,.0f} rejections, per "
            f"second on this machine; runs that keep it busy for over {MARGIN:.0%} of a second are not valid"
        )


def measure(ingress: Ingress, seconds: float = SECONDS) -> Ceiling:
    """Measure the ceiling with as many requests as the machine can make."""
    unlimited = asdict(Server(mode="queue", work=1e9, handshake_cost=0, latency=0))
    closed = asdict(Server(work=1e9, admission_rate=0, handshake_cost=0, latency=0))
    rates = []
    for server in (unlimited, closed):
        ingress.order("reset", servers=[server] * len(ingress.addresses))
        before = ingress.order("cpu")
        done = asyncio.run(_blast(*ingress.addresses[0], seconds))
        rates.append(done / (ingress.order("cpu") - before))
    ingress.order("reset")
    return Ceiling(*rates)


async def _blast(host: str, port: int | None, seconds: float) -> int:
    client = BareClient(host, port or 0, CONNECTIONS)
    numbers = cycle(range(1000))
    end = monotonic() + seconds

    async def ask() -> int:
        done = 0
        while monotonic() < end:
            with contextlib.suppress(KeyError):  # a rejection has no cursor
                await client.find_one({"_id": next(numbers)})
            done += 1
        return done

    try:
        return sum(await asyncio.gather(*(ask() for _ in range(CONNECTIONS))))
    finally:
        client.close()
