"""Shell: the application: sends its requests when they are due, and records what became of them.

A request is due at a time that does not depend on earlier ones, and its latency counts from then. A generator that
sends late, because its event loop was busy, so adds to the latency instead of leaving the wait out. How late it was is
part of the result.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass, field
from math import inf
from random import Random
from typing import TYPE_CHECKING, Final

from benchmarks.storm.drivers import DOCUMENTS
from benchmarks.storm.results import STEP, Request
from benchmarks.storm.timeline import arrivals

if TYPE_CHECKING:
    from collections.abc import Callable

    from benchmarks.storm.drivers import Driver
    from benchmarks.storm.scenario import Scenario

GRACE: Final = 5.0
"""Seconds after the end of a run in which requests without patience may still end."""
# How often operations are cancelled that are still running at the end.
_CANCELLATIONS: Final = 5
# A request that begins later than this was not sent on time (seconds).
LATE: Final = 0.05


@dataclass(slots=True)
class Record:
    """What the application has seen.

    Attributes:
        requests: All requests that have ended.
        counts: Their outcomes, and "offered".
        late: Requests that were sent more than `LATE` after they were due.
        latest: The longest such delay, in seconds.
        values: Values of each step, by series.
    """

    requests: list[Request] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    late: int = 0
    latest: float = 0.0
    values: dict[str, list[float]] = field(default_factory=dict)


class Application:
    """All callers of all clients of one process.

    `start` is the beginning of the run, by the event loop's clock, which on sockets is the system's monotonic one.
    """

    def __init__(self, scenario: Scenario, seed: int, driver: Driver, start: float) -> None:
        self.record: Record = Record()
        self._scenario = scenario
        self._seed = seed
        self._driver = driver
        self._start = start
        self._clock = asyncio.get_running_loop().time
        self._documents = Random(f"documents {seed}")
        # The tasks of requests that have not ended, and when they were due.
        self._open: dict[asyncio.Task[None], float] = {}
        self._is_over = False

    async def run(self, on_step: Callable[[int, dict[str, float]], None]) -> Record:
        """Send everything, wait for the last outcomes, and return the record.

        `on_step` is called after each step with its number and the values of its series.
        """
        watch = asyncio.create_task(self._watch(on_step))
        for arrival in arrivals(self._scenario, self._seed):
            if arrival.due > self._now():
                await self._until(arrival.due)
            self._spawn(arrival.due, arrival.client, arrival.cancelled_after)
        await self._until(self._scenario.seconds)
        patience = self._scenario.load.patience
        if self._open:
            await asyncio.wait(self._open, timeout=GRACE if patience is None else patience)
        self._is_over = True
        await self._abandon()
        await watch
        self.record.requests.sort(key=lambda request: request.due)
        return self.record

    async def _abandon(self) -> None:
        """Cancel what has not ended. A driver may swallow a cancellation; its operation then counts as timed out."""
        for _ in range(_CANCELLATIONS):
            if not self._open:
                return
            for task in self._open:
                task.cancel()
            await asyncio.wait(self._open, timeout=0.1)
        for due in self._open.values():
            self._ended(due, "timed_out")

    def _now(self) -> float:
        return self._clock() - self._start

    async def _until(self, time: float) -> None:
        await asyncio.sleep(max(0.0, time - self._now()))

    def _spawn(self, due: float, client: int, after: float) -> None:
        self.record.counts["offered"] += 1
        task = asyncio.create_task(self._request(due, client))
        self._open[task] = due
        task.add_done_callback(self._open.pop)
        if after != inf:
            timer = asyncio.get_running_loop().call_later(max(0.0, due + after - self._now()), task.cancel)
            task.add_done_callback(lambda _: timer.cancel())

    async def _request(self, due: float, client: int) -> None:
        late = self._now() - due
        self.record.latest = max(self.record.latest, late)
        self.record.late += late > LATE
        try:
            outcome = await self._outcome(due, client)
        except asyncio.CancelledError:
            # Nothing awaits this task but the end of the run.
            outcome = "timed_out" if self._is_over else "cancelled"
        self._ended(due, outcome)

    async def _outcome(self, due: float, client: int) -> str:
        """Send a request, with the retries of the application, and return what became of it."""
        load, outcome = self._scenario.load, "failed"
        patience = inf if load.patience is None else load.patience
        for _ in range(1 + load.application_retries):
            try:
                await self._driver.find(client, self._documents.randrange(DOCUMENTS))
            except Exception as error:  # each driver has its own; unknown ones are surprises
                outcome = self._driver.outcome(error)
            else:
                # An answer that comes after the application has given up is of no use.
                return "ok" if self._now() - due <= patience else "timed_out"
            if self._now() - due >= patience:
                return outcome
        return outcome

    def _ended(self, due: float, outcome: str) -> None:
        self.record.counts[outcome] += 1
        self.record.requests.append(Request(due, max(due, self._now()), outcome))

    async def _watch(self, on_step: Callable[[int, dict[str, float]], None]) -> None:
        before: Counter[str] = Counter()
        for step in range(round(self._scenario.seconds / STEP)):
            await self._until((step + 1) * STEP)
            counts = Counter(self.record.counts)
            new, before = counts - before, counts
            values = {name: float(new[name]) for name in ("offered", "timed_out", "cancelled")}
            values |= {"goodput": float(new["ok"]), "failed": float(new["failed"] + new["rejected"])}
            shown = self._driver.figures()
            for name, value in shown.items():
                self.record.values.setdefault(name, []).append(value)
            on_step(step, {**values, **shown})
