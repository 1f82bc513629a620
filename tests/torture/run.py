"""Net: a run of the torture: the plan and the load against a replica set, and then the account of what is there."""

from __future__ import annotations

import heapq
import itertools
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from motorlite.testing import LocalServer, findings
from motorlite.testing.account import judge
from motorlite.testing.journal import OBSERVATIONS, operations, read
from tests.torture import reading
from tests.torture.faults import Injector
from tests.torture.plan import plan
from tests.torture.process import LoadProcess
from tests.torture.workload import DATABASE

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from tests.torture.plan import Fault

# Seconds between two looks at members and load.
LOOK: Final = 0.5
# A full disk must not need much memory, but what a long run writes has to fit.
DISK_MB: Final = 640
# Seconds until the load has finished: all its waits of `RECOVERY` and `REST`, and more.
FINISH: Final = 600.0


@dataclass(slots=True)
class Report:
    """What came of a run.

    Attributes:
        injected: Faults by kind.
        missed: Faults that could not happen, by kind.
        starts: How many processes the load had.
        outcomes: Operations by kind and outcome.
        errors: The errors of operations, by class and code.
        observed: What was observed: above all, what change streams did.
        retries: The retries of the last process, by reason.
        notes: What members said before they ended by themselves.
        findings: What contradicts a promise.
    """

    injected: Counter[str] = field(default_factory=Counter)
    missed: Counter[str] = field(default_factory=Counter)
    starts: int = 0
    outcomes: Counter[str] = field(default_factory=Counter)
    errors: Counter[str] = field(default_factory=Counter)
    observed: Counter[str] = field(default_factory=Counter)
    retries: Counter[str] = field(default_factory=Counter)
    notes: list[str] = field(default_factory=list)
    findings: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        lines = [f"{self.starts} processes of the load"]
        for title, counts in (
            ("operations", self.outcomes),
            ("faults", self.injected),
            ("faults that could not happen", self.missed),
            ("errors", self.errors),
            ("observations", self.observed),
            ("retries of the last process", self.retries),
        ):
            lines += [f"{title}: {sum(counts.values())}", *(f"{counts[what]:8} {what}" for what in sorted(counts))]
        lines += [f"note: {each}" for each in self.notes]
        lines += [f"{len(self.findings)} findings" if self.findings else "nothing is wrong", *self.findings]
        return "\n".join(lines)


def torture(
    seed: int,
    seconds: float,
    *,
    backend: str,
    tasks: int,
    folder: Path,
    bug: str | None = None,
    say: Callable[[str], None] = lambda _: None,
) -> Report:
    """Run the plan of a seed against a load on a new replica set, and judge what is there afterwards.

    Args:
        seed: Of the plan and of what the tasks do.
        seconds: How long faults happen.
        backend: One of ``BACKENDS`` of `tests.torture.load`.
        tasks: How many tasks there are.
        folder: For the journal.
        bug: The bug to plant in the driver, which has to be found; see `tests.simulation.bugs`.
        say: Called with each fault when it begins.
    """
    server, can_fill_disks = _start()
    with server:
        load = LoadProcess(server.uri, folder, seed=seed, backend=backend, tasks=tasks, bug=bug)
        try:
            load.start()
            load.wait_for("ready")
            injector = Injector(server, load)
            faults = [fault for fault in plan(seed, seconds) if can_fill_disks or fault.kind != "full disk"]
            _carry_out(faults, injector, load, say)
            injector.repair()
            say("all faults are over")
            load.order(order="finish")
            try:
                last = load.wait_for("finished", FINISH)
            except RuntimeError as error:
                last = {"retries": {}, "problems": [str(error)]}
        finally:
            load.kill()
        report = Report(injector.injected, injector.missed, load.starts, notes=injector.deaths)
        if not can_fill_disks:
            report.notes.append("no disk was filled: the system permits no mounts of our own")
        report.retries.update(last["retries"])
        report.findings += [*load.problems, *last["problems"]]
        _judge(server, load.journal, report)
        return report


def _start() -> tuple[LocalServer, bool]:
    """A replica set of three members, and whether its disks can be filled."""
    options: dict[str, Any] = {"nodes": 3, "proxied": True, "auth": True}
    try:
        return LocalServer.start("replicaset", **options, disk_mb=DISK_MB), True
    except OSError:
        return LocalServer.start("replicaset", **options), False


def _carry_out(faults: Sequence[Fault], injector: Injector, load: LoadProcess, say: Callable[[str], None]) -> None:
    order = itertools.count()
    agenda: list[tuple[float, int, Callable[[Fault], None], Fault]] = []
    for fault in faults:
        heapq.heappush(agenda, (fault.at, next(order), injector.begin, fault))
        heapq.heappush(agenda, (fault.until, next(order), injector.end, fault))
    started = time.monotonic()
    while agenda:
        at, _, act, fault = heapq.heappop(agenda)
        while (left := started + at - time.monotonic()) > 0:
            time.sleep(min(left, LOOK))
            injector.watch()
            load.check()
        if act == injector.begin:
            say(str(fault))
        act(fault)


def _judge(server: LocalServer, journal: Path, report: Report) -> None:
    """Compare what is there with the journal, independently of the driver."""
    entries = read(journal)
    report.findings += [findings.report([each]) for each in judge(entries, reading.read(server.uri, DATABASE))]
    for operation in operations(entries):
        if operation.kind in OBSERVATIONS:
            report.observed[operation.kind] += 1
            continue
        report.outcomes[f"{operation.kind} {operation.outcome}"] += 1
        if error := operation.result.get("error"):
            report.errors[error] += 1
