"""Shell: looks for planted bugs: how many seeds the simulation needs until it finds one."""

from __future__ import annotations

import asyncio
from contextlib import ExitStack
from math import inf
from random import Random
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeGuard

from tests.simulation.bugs import planted
from tests.simulation.invariants import Invariants, watching
from tests.simulation.run import Simulation

if TYPE_CHECKING:
    from collections.abc import Iterable

    from motorlite._client.core import Core
    from tests.simulation.run import Outcome

MOST_SEEDS: Final = 1000
"""The simulation is too weak if a bug needs more."""

# Steps in which a cancellation waits for its moment.
_PATIENCE: Final = 20
# The share of cancellations that hit an operation which waits.
_WAITING: Final = 0.3


class Search(NamedTuple):
    """The result of a search.

    Attributes:
        seeds: How many seeds were run.
        finding: What the last of them found; None: nothing was wrong in any.
    """

    seeds: int
    finding: str | None


def watched(seed: int, *, bug: str | None = None, **arguments: Any) -> Outcome:
    """Run one seed with the invariants of its clients checked at every step.

    Args:
        seed: The seed.
        bug: The bug to plant in the driver.
        **arguments: Of `Simulation`.
    """
    clients: list[Invariants] = []

    def observe(core: Core) -> Invariants:
        clients.append(_Watch(core, simulation))
        return clients[-1]

    simulation = Simulation(seed, observe=observe, **arguments)
    with ExitStack() as stack:
        if bug is not None:
            stack.enter_context(planted(bug))
        stack.enter_context(watching(clients))
        return simulation.run()


class _Watch(Invariants):
    """Invariants in a simulation, which also cancel a task between two of its steps.

    The cancellations of a plan come at random times. Few of them hit the moment between an event and the step of the
    task that waits for it, since no time passes there.
    """

    def __init__(self, core: Core, simulation: Simulation) -> None:
        super().__init__(core, now=asyncio.get_running_loop().time)
        self._simulation = simulation
        self._chance = Random(f"steps {simulation.seed} {len(simulation.world.observers)}")
        # Some runs have many cancellations, others none.
        self._mean = self._chance.choice((50, 200, 1000, inf))
        self._left = self._draw()
        # Whether the next cancellation hits an operation that waits, for a reply or for the time of its retry.
        self._is_waiting = False

    def _draw(self) -> float:
        return self._mean * self._chance.uniform(0, 2) if self._mean < inf else inf

    def step(self) -> None:
        super().step()
        self._left -= 1
        if self._left <= 0 and self._cancel():
            self._left = self._draw()
            self._is_waiting = self._chance.random() < _WAITING

    def _cancel(self) -> bool:
        """Cancel an operation that is about to go on, or one that waits, or after a while any.

        Returns:
            Whether there was one.
        """
        if any(each.is_over for each in self._simulation.tasks):
            return True  # from now on everything must work
        of_tasks = {each.running._cancel: each for each in self._simulation.tasks}
        found = [each for task in self._by_task if task is not None and (each := of_tasks.get(task.cancel)) is not None]
        ready = [each for task in self._by_task if _is_ready(task) and (each := of_tasks.get(task.cancel)) is not None]
        wanted = [each for each in found if each not in ready] if self._is_waiting else ready
        if wanted or (found and self._left < -_PATIENCE):
            self._chance.choice(wanted or found).running.cancel()
            return True
        return False


def _is_ready(task: asyncio.Task[Any] | None) -> TypeGuard[asyncio.Task[Any]]:
    """Whether what a task waits for has happened, and the task has not run since."""
    awaited = getattr(task, "_fut_waiter", None)
    return task is not None and (awaited is None or awaited.done())


def search(bug: str, seeds: Iterable[int], *, seconds: float, routers: bool = False) -> Search:
    """Run seeds with a planted bug until one finds something wrong, which it does not find without the bug.

    Args:
        bug: Its name.
        seeds: The seeds, in this order.
        seconds: How long each workload runs, in virtual seconds.
        routers: Whether there are routers.
    """
    count = 0
    for seed in seeds:
        count += 1
        outcome = watched(seed, seconds=seconds, routers=routers, bug=bug)
        if outcome.findings and not watched(seed, seconds=seconds, routers=routers).findings:
            return Search(count, outcome.findings[0].strip().splitlines()[-1])
    return Search(count, None)
