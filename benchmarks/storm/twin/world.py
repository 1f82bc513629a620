"""Pure: a simulated run: its servers, its clients, and what happens to them."""

from __future__ import annotations

import gc
import platform
from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING, Final

from benchmarks.storm.policies import client_options, shared_budget
from benchmarks.storm.results import STEP, Run
from benchmarks.storm.timeline import capacity_at, condition, elections, times_of
from benchmarks.storm.twin import errors
from benchmarks.storm.twin.application import Application
from benchmarks.storm.twin.client import Client
from benchmarks.storm.twin.clock import Clock
from benchmarks.storm.twin.deployment import Deployment
from benchmarks.storm.twin.recorder import Recorder
from benchmarks.storm.twin.server import SimulatedServer
from motorlite import __version__
from motorlite._base.values import Progress
from motorlite._client.settings import pool_options
from motorlite._options.options import client_options as parse_options

if TYPE_CHECKING:
    from collections.abc import Callable

    from benchmarks.storm.arms import Arm
    from benchmarks.storm.scenario import Scenario
    from benchmarks.storm.twin.call import Call
    from motorlite.retry import RetryBudget

GRACE: Final = 5.0
"""Seconds after the end of a run in which requests without patience may still end."""
DISCOVERY: Final = 0.5
"""Seconds within which a client finds out that a server is back (minHeartbeatFrequencyMS)."""


class World:
    """Everything in one run."""

    def __init__(self, scenario: Scenario, arm: Arm, seed: int) -> None:
        self.scenario: Scenario = scenario
        self.clock: Clock = Clock()
        self.recorder: Recorder = Recorder(scenario.seconds)
        self.jitter: Callable[[], float] = Random(f"jitter {seed}").random
        self.choices: Random = Random(f"servers {seed}")
        self.servers = [
            SimulatedServer(scenario, index, Random(f"failures {index} {seed}"), self.clock)
            for index in range(len(scenario.servers))
        ]
        self.rejections = [
            errors.failure(errors.rejection(spec.base_backoff), Progress.ANSWERED, server.address)
            for spec, server in zip(scenario.servers, self.servers, strict=True)
        ]
        addresses = [server.address for server in self.servers]
        self.deployment: Deployment = Deployment(addresses, scenario.read_preference, scenario.servers[0].latency)
        # Operations that wait for a connection.
        self.waiting: int = 0
        self.clients: list[Client] = self._make_clients(arm)
        # A shared budget counts once.
        budgets = {id(client.budget): client.budget for client in self.clients}
        self.budgets: list[RetryBudget] = [budget for budget in budgets.values() if budget is not None]
        self._application = Application(scenario, self.clients, self.clock, self.recorder, seed)
        self._plan()

    def _make_clients(self, arm: Arm) -> list[Client]:
        is_peer = arm.driver != "motorlite"
        if is_peer:
            arm = replace(arm, retries=2, backoff="revision", budget="none")
        shared = shared_budget(arm)
        options = parse_options(**client_options(arm, shared))
        pools = pool_options(options)
        made = []
        for number in range(self.scenario.load.clients):
            if number and arm.budget not in ("none", "shared"):
                options = replace(options, retry_budget=client_options(arm)["retry_budget"])
            made.append(Client(self, options, pools, is_peer=is_peer))
        return made

    # --- the course of events ---

    def _plan(self) -> None:
        clock, scenario = self.clock, self.scenario
        times = times_of(scenario)
        for index in range(len(self.servers)):
            was_down = False
            for time in times:
                is_down = condition(scenario, index, time).is_down
                if is_down != was_down:
                    clock.at(time, self._crash if is_down else self._recover, index)
                was_down = is_down
        for time, primary in elections(scenario)[1:]:
            if primary is not None:
                clock.at(time, self._elect, primary)

    def _crash(self, index: int) -> None:
        server = self.servers[index]
        server.is_down = True
        server.crash(self.clock.now)
        for client in self.clients:
            client.lost(index)
            self.clock.settle()

    def _recover(self, index: int) -> None:
        self.servers[index].is_down = False
        for client in self.clients:
            self.clock.at(self.clock.now + DISCOVERY * self.jitter(), client.found, index)

    def _elect(self, index: int) -> None:
        for client in self.clients:
            client.elected(index)
            self.clock.settle()

    def ended(self, call: Call, outcome: str) -> None:
        """An operation has ended."""
        self._application.ended(call, outcome)

    # --- measurement ---

    def run(self, on_progress: Callable[[float, dict[str, float]], None] | None) -> None:
        """Let it happen."""
        clock, recorder, scenario = self.clock, self.recorder, self.scenario
        steps = round(scenario.seconds / STEP)
        for step in range(steps):
            recorder.begin(step)
            clock.run((step + 1) * STEP)
            recorder.note(self._means((step + 0.5) * STEP))
            if on_progress is not None and (step + 1) % 10 == 0:
                on_progress((step + 1) * STEP, recorder.values(step))
        recorder.begin(steps)
        patience = scenario.load.patience
        clock.run(scenario.seconds + (GRACE if patience is None else patience))
        for call in self._application.open:
            recorder.ended(call.due, clock.now, "timed_out")

    def _means(self, middle: float) -> dict[str, float]:
        now = self.clock.now
        means = {
            "server_queue": sum(server.backlog(now) for server in self.servers),
            "client_queue": float(self.waiting),
            "capacity": capacity_at(self.scenario, middle) * STEP,
        }
        if self.budgets:
            means["tokens"] = sum(budget.tokens for budget in self.budgets) / len(self.budgets)
        return means


def simulate(
    scenario: Scenario,
    arm: Arm,
    seed: int = 1,
    on_progress: Callable[[float, dict[str, float]], None] | None = None,
) -> Run:
    """Simulate one run.

    Args:
        scenario: The scenario.
        arm: A motorlite arm, or one of PyMongo Async or Motor, whose policy and pools are imitated.
        seed: Of all random numbers. The requests of an open loop are the same for all arms.
        on_progress: Called with each simulated second, and the values of the newest step.

    Raises:
        ValueError: The driver of the arm is not modelled.
    """
    if arm.driver == "mongojet":
        raise ValueError("mongojet is not modelled: it runs on sockets only")
    # A run makes millions of small objects, and few of them in cycles.
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        world = World(scenario, arm, seed)
        world.run(on_progress)
        series = world.recorder.result()
        if not world.budgets:
            series["tokens"] = []
        return Run(
            scenario=scenario.name,
            arm=arm.name,
            seed=seed,
            backend="twin",
            seconds=scenario.seconds,
            overload=scenario.overload,
            capacity=capacity_at(scenario, 0.0),
            series=series,
            requests=world.recorder.requests(),
            versions={"motorlite": __version__, "python": platform.python_version()},
        )
    finally:
        if was_enabled:
            gc.enable()
