"""Shell: one run: a world, a workload, faults, and the verdict."""

from __future__ import annotations

import asyncio
import traceback
from dataclasses import dataclass, field
from random import Random
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final
from unittest.mock import patch

from benchmarks.virtual import START
from motorlite.testing.journal import Journal
from tests.simulation.faults import Fault, Faults, draw
from tests.simulation.frozen import frozen
from tests.simulation.hanging import HungError, bounded
from tests.simulation.loop import SimulationLoop
from tests.simulation.verdict import judge
from tests.simulation.workload import KINDS, Excused, options
from tests.simulation.world import World, digest
from tests.torture import streams, workload
from tests.torture.streams import Reader
from tests.torture.workload import DATABASE, OPTIONS, Task, prepare

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from motorlite._client.core import Core
    from motorlite.testing.journal import Entry
    from tests.simulation.network import Observer
    from tests.support.clients import Client

# Seconds between two operations of a task: enough for all to meet, few enough for a run of a second.
PAUSES: Final = (0.0, 5.0)
# Few enough for reads to meet the writes of a primary that is about to lose them.
REGISTERS: Final = 2
# The share of reads of a change stream after which it is closed.
CLOSED: Final = 0.03
SECONDS: Final = 120.0
"""How long a workload runs unless something else is asked for, in virtual seconds."""
_CLIENTS: Final = 2
# Seconds until everything must work again: more than the keepalive of sockets needs; and until nothing may be left.
RECOVERY: Final = 180.0
# What a run may need at most: virtual seconds beside its workload, steps, steps for each second of its workload (some
# hundreds are usual), and seconds of CPU time, without and with the workload. More is a finding.
_END: Final = 4 * RECOVERY
_STEPS: Final = (200_000, 5_000)
_CPU: Final = (60.0, 1.0)


@dataclass(slots=True)
class Outcome:
    """What a run came to.

    Attributes:
        seed: Its seed.
        findings: What went wrong; empty if nothing did.
        digest: The hash of its trace.
        trace: The lines of its trace.
        entries: The journal.
        seconds: Virtual time.
        steps: Steps of the event loop.
    """

    seed: int
    findings: list[str] = field(default_factory=list)
    digest: str = ""
    trace: Sequence[str] = ()
    entries: Sequence[Entry] = ()
    seconds: float = 0.0
    steps: int = 0


class Simulation:
    """One run.

    Args:
        seed: The seed of everything.
        seconds: How long the workload runs, in virtual seconds.
        only: The numbers of the faults of the seed's plan that happen; None: all.
        kinds: The numbers of the tasks in `KINDS` that run; None: all.
        routers: Whether there are two routers in front of the members.
        rules: Rules of servers that are broken on purpose.
        observe: Makes what looks at a client's connections, and at every step of the event loop.
    """

    def __init__(
        self,
        seed: int,
        *,
        seconds: float = SECONDS,
        only: Sequence[int] | None = None,
        kinds: Sequence[int] | None = None,
        routers: bool = False,
        rules: frozenset[str] = frozenset(),
        observe: Callable[[Core], Observer] | None = None,
    ) -> None:
        self.seed = seed
        self.seconds = seconds
        self.routers = routers
        self.rules = rules
        self.plan: list[Fault] = draw(Random(f"faults {seed}"), SECONDS)
        self.only = range(len(self.plan)) if only is None else only
        self.kinds = range(len(KINDS)) if kinds is None else kinds
        self.outcome = Outcome(seed)
        self.world: World
        self.clients: list[Client] = []
        self._plain: Client
        self.tasks: list[Task] = []
        self._observe = observe
        self.chance = Random(f"run {seed}")

    @property
    def chosen(self) -> list[tuple[int, Fault]]:
        """The faults that happen, with their numbers."""
        return [(number, self.plan[number]) for number in self.only]

    def run(self) -> Outcome:
        """Run it to its end. A run always ends: one that does not by itself is interrupted, which is a finding."""
        loop = SimulationLoop()
        loop.until = START + self.seconds + _END
        loop.most_steps = _STEPS[0] + _STEPS[1] * self.seconds
        try:
            with bounded(_CPU[0] + _CPU[1] * self.seconds):
                self._run_on(loop)
        except (Exception, HungError) as error:
            self._note(loop, {"exception": error})
        self._forget_clients()
        outcome = self.outcome
        outcome.trace = self.world.trace.lines()
        outcome.digest = digest(outcome.trace)
        outcome.seconds, outcome.steps = loop.time() - START, loop.steps
        return outcome

    def _run_on(self, loop: SimulationLoop) -> None:
        with asyncio.Runner(loop_factory=lambda: loop) as runner:
            runner.get_loop()
            loop.set_exception_handler(self._note)
            clock = SimpleNamespace(monotonic=loop.time)
            with (
                frozen(self.seed, loop.time),
                patch.object(workload, "PAUSES", PAUSES),
                patch.object(workload, "REGISTERS", REGISTERS),
                patch.object(streams, "CLOSED", CLOSED),
                patch.object(workload, "time", clock),
            ):
                self.world = World(loop, self.seed, routers=self.routers, rules=self.rules)
                if self._observe is not None:
                    loop.after_step, loop.before_time = self._step, self._quiet
                try:
                    runner.run(self._main())
                except (Exception, HungError) as error:
                    self._note(loop, {"exception": error})
                    self._give_up(loop)
                finally:
                    loop.after_step = loop.before_time = None

    def _give_up(self, loop: SimulationLoop) -> None:
        """Let what is still running end soon: the runner cancels it, and waits."""
        for task in self.tasks:
            task.is_over = True  # they survive their cancellation
        loop.until = loop.time() + RECOVERY
        loop.most_steps = loop.steps + _STEPS[0]

    def _forget_clients(self) -> None:
        """Let no client complain that it was not closed: a run that has failed cannot close them."""
        for client in self.clients:
            core = client._core
            core._is_closed, core._has_lost_loop = True, False

    def _step(self) -> None:
        for observer in self.world.observers:
            observer.step()

    def _quiet(self) -> None:
        for observer in self.world.observers:
            observer.quiet()

    def _note(self, _loop: object, context: dict[str, Any]) -> None:
        """The loop has an exception that no task takes."""
        error = context.get("exception")
        text = context["message"] if error is None else "".join(traceback.format_exception(error))
        self.outcome.findings.append(f"in the event loop: {text}")

    async def _main(self) -> None:
        world, journal = self.world, Journal(self.world.loop.time)
        world.start()
        # Of its own, as the options of the others may be too tight for a world that has just begun.
        self._plain = world.client(**OPTIONS)
        users = [world.client(self._observe, **options(self.chance)) for _ in range(_CLIENTS)]
        self.clients = [*users, self._plain]
        await prepare(self._plain, journal)
        tally = Excused(may_lose_place=lambda: world.has_lost_history, may_be_unasked=lambda: world.network.unasked > 0)
        self.tasks = [
            KINDS[number](users[number % _CLIENTS], journal, tally, f"{self.seed}-{number}", number)
            for number in self.kinds
        ]
        faults = Faults(world, [fault for _, fault in self.chosen], self._cancel)
        faults.start()
        running = [asyncio.create_task(task.run()) for task in self.tasks]
        await asyncio.sleep(self.seconds)
        faults.heal()
        await self._finish(journal)
        for task in running if self.outcome.findings else ():
            task.cancel()  # it does not end by itself, as is noted
        if running:
            await asyncio.wait(running)
        for each in self.clients:
            await each.close()
        await asyncio.sleep(1)
        for observer in world.observers:
            observer.closed()
        self.outcome.entries = journal.entries
        primary = world.primary
        assert primary is not None
        self.outcome.findings += judge(journal.entries, primary.replica.storage)
        self.outcome.findings += tally.problems

    def _cancel(self) -> None:
        self.world.chance.choice(self.tasks).running.cancel()

    async def _finish(self, journal: Journal) -> None:
        writers = [task for task in self.tasks if not isinstance(task, Reader)]
        readers = [task for task in self.tasks if isinstance(task, Reader)]
        for task in writers:
            task.is_over = True
        await self._expect(lambda: [task.name for task in writers if not task.has_ended], "these tasks do not end")
        streams = await self._read_up(readers, journal, f"{self.seed}-last")
        while streams != [reader.stream for reader in readers]:
            # One that lost its history has begun anew behind the last change.
            streams = await self._read_up(readers, journal, f"{self.seed}-last-{journal.new_process()}")
        for reader in readers:
            reader.is_over = True

    async def _read_up(self, readers: list[Reader], journal: Journal, last: str) -> list[str]:
        """Insert a last document, and wait until the streams that there are have seen it. Return these."""
        await self._expect(
            lambda: [reader.name for reader in readers if reader.token is None], "these streams do not begin"
        )
        streams = [reader.stream for reader in readers]
        operation = journal.begin(journal.new_process(), "insert", collection="inserts", ids=[last])
        await self._plain[DATABASE].inserts.insert_one({"_id": last})
        journal.end(operation, "ok")
        await self._expect(
            lambda: [
                reader.name
                for reader, stream in zip(readers, streams, strict=True)
                if reader.stream == stream and reader.last_key != last
            ],
            "these streams do not see the last change",
        )
        return streams

    async def _expect(self, wrong: Callable[[], list[Any]], what: str) -> None:
        end = self.world.loop.time() + RECOVERY
        while found := wrong():
            if self.world.loop.time() > end:
                self.outcome.findings.append(f"{what} after {RECOVERY:g} s: {found}")
                return
            await asyncio.sleep(0.05)
