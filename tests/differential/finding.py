"""Shell: many programs, several at a time; each difference is confirmed, shrunk and explained, or reported."""

from __future__ import annotations

import asyncio
import textwrap
import traceback
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

from tests.differential import programs
from tests.differential.outcomes import Difference, Raised, signature
from tests.differential.reasons import compare
from tests.differential.running import TIMEOUT_SECONDS
from tests.differential.shrinking import simpler_steps, smaller

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tests.differential.programs import Program
    from tests.differential.running import Arena

# How many smaller programs are tried for one difference.
TRIES: Final = 400
# How long a step of a smaller program may take: one that lacks a step may wait for ever.
SECONDS: Final = 2.0
# How many programs may fail to run, or to be compared, before the search gives up: then it is more than the programs.
BROKEN: Final = 50


@dataclass(frozen=True)
class Found:
    """A difference without a reason, with the smallest program that shows it."""

    seed: int
    number: int
    program: Program
    difference: Difference

    def __str__(self) -> str:
        *others, last = self.program.steps[: self.difference.position + 1]
        lines = [
            f"# A {self.program.deployment}; python -m tests.differential --seed {self.seed} --case {self.number}",
            *others,
            f"return {last}",
            f"# PyMongo:   {_summary(self.difference, ours=False)}",
            f"# motorlite: {_summary(self.difference, ours=True)}",
        ]
        return "\n".join(lines)


def _summary(difference: Difference, *, ours: bool) -> str:
    """What one library did; of its commands, those that the other did not send."""
    side, other = (difference.ours, difference.theirs) if ours else (difference.theirs, difference.ours)
    commands = [each for each in side.commands if each not in other.commands] or len(side.commands)
    return textwrap.shorten(f"commands {commands}" if difference.is_of_wire else repr(side.outcome), 1500)


@dataclass
class Tally:
    """What came of many programs.

    Attributes:
        programs: How many ran.
        steps: How many steps they had.
        commands: How many commands PyMongo sent.
        refusals: How many steps raised, with both libraries.
        rows: The reasons of differences, and how often each applied.
        found: The differences without one, by the step that shows them.
        numbers: The programs that have these differences.
        unsteady: Differences that another run of the program did not show, by its number.
        broken: What the tool itself raised, by the number of the program.
    """

    programs: int = 0
    steps: int = 0
    commands: int = 0
    refusals: int = 0
    rows: Counter[str] = field(default_factory=Counter)
    found: dict[str, Found] = field(default_factory=dict)
    numbers: list[int] = field(default_factory=list)
    unsteady: dict[int, Found] = field(default_factory=dict)
    broken: dict[int, str] = field(default_factory=dict)

    @property
    def is_clean(self) -> bool:
        """Whether every program ran, and nothing differed without a reason."""
        return not (self.found or self.unsteady or self.broken)

    def lines(self) -> list[str]:
        """What there is to say of each difference, and of each program that did not run."""
        return [
            *(f"{each}" for each in self.found.values()),
            *(f"# Seen once.\n{each}" for each in self.unsteady.values()),
            *(f"# Program {number} did not run.\n{text}" for number, text in self.broken.items()),
        ]

    def __str__(self) -> str:
        facts = f"{self.programs} programs, {self.steps} steps, {self.commands} commands, {self.refusals} exceptions"
        rows = "".join(f"\n  {count:6} {row}" for row, count in self.rows.most_common())
        found = f"{len(self.found)} differences without a reason {_listed(self.numbers)}".rstrip()
        others = f"{len(self.unsteady)} seen once {_listed(self.unsteady)}".rstrip()
        return f"{facts}; {found}, {others}, {len(self.broken)} did not run {_listed(self.broken)}".rstrip() + rows


def _listed(numbers: Iterable[int]) -> str:
    return ",".join(map(str, sorted(numbers)))


class Search:
    """Runs programs and collects differences.

    Args:
        arena: Where they run.
        seed: What makes the programs, with their numbers.
    """

    def __init__(self, arena: Arena, seed: int) -> None:
        self.tally = Tally()
        self._arena = arena
        self._seed = seed

    async def run(self, numbers: Iterable[int]) -> None:
        """Run the programs with these numbers."""
        remaining = iter(numbers)
        async with asyncio.TaskGroup() as tasks:
            for worker in range(self._arena.workers):
                tasks.create_task(self._work(remaining, worker))

    async def _work(self, numbers: Iterable[int], worker: int) -> None:
        for number in numbers:
            try:
                await self.examine(number, programs.make(self._seed, number), worker)
            except Exception:
                # A mistake of the tool, or servers that are gone. One program does not stop the others.
                self.tally.broken[number] = traceback.format_exc()
                if len(self.tally.broken) >= BROKEN:
                    raise

    async def first(self, numbers: Iterable[int]) -> Found | None:
        """Run programs until one has a difference without a reason, and return that."""
        remaining = iter(numbers)

        async def work(worker: int) -> None:
            for number in remaining:
                await self.examine(number, programs.make(self._seed, number), worker)
                if self.tally.found:
                    return

        async with asyncio.TaskGroup() as tasks:
            for worker in range(self._arena.workers):
                tasks.create_task(work(worker))
        return next(iter(self.tally.found.values()), None)

    async def examine(self, number: int, program: Program, worker: int = 0) -> None:
        """Run a program; confirm and shrink what differs without a reason, and say so in the tally."""
        difference, rows = await self._difference(program, worker, counts=True)
        self.tally.rows.update(rows)
        if difference is not None:
            await self._judge(number, program, difference, worker)

    async def _difference(
        self, program: Program, worker: int, seconds: float = TIMEOUT_SECONDS, *, counts: bool = False
    ) -> tuple[Difference | None, list[str]]:
        theirs, ours = await self._arena.run(program, worker, seconds)
        if counts:
            self.tally.programs += 1
            self.tally.steps += len(theirs)
            self.tally.commands += sum(len(step.commands) for step in theirs)
            self.tally.refusals += sum(isinstance(step.outcome, Raised) for step in theirs)
        return compare(program.steps, theirs, ours)

    async def _judge(self, number: int, program: Program, difference: Difference, worker: int) -> None:
        again, _ = await self._difference(program, worker)
        if again is None or again.signature != difference.signature:
            self.tally.unsteady[number] = Found(self._seed, number, program, difference)
            return
        program, difference = await self._shrunk(program, again, worker)
        if await self._has_two_faults(program, difference, worker):
            self.tally.rows["two faults in one call: each library names another one"] += 1
            return
        self.tally.numbers.append(number)
        self.tally.found.setdefault(difference.step, Found(self._seed, number, program, difference))

    async def _shrunk(self, program: Program, difference: Difference, worker: int) -> tuple[Program, Difference]:
        """The smallest program with the same difference, and that."""
        tries = TRIES
        candidates = smaller(program)
        while tries and (candidate := next(candidates, None)) is not None:
            tries -= 1
            found, _ = await self._difference(candidate, worker, SECONDS)
            if found is not None and found.signature == difference.signature:
                program, difference = candidate, found
                candidates = smaller(program)
        return program, difference

    async def _has_two_faults(self, program: Program, difference: Difference, worker: int) -> bool:
        """Whether a call has two faults, each of which alone raises the same with both libraries."""
        outcomes = difference.theirs.outcome, difference.ours.outcome
        if difference.is_of_wire or not all(isinstance(each, Raised) for each in outcomes):
            return False
        # Errors with one code differ in what the server says.
        told = signature if signature(outcomes[0]) != signature(outcomes[1]) else _details
        found = [False, False]
        for text in simpler_steps(difference.step):
            steps = (*program.steps[: difference.position], text)
            sides = await self._arena.run(replace(program, steps=steps), worker, SECONDS)
            if compare(steps, *sides)[0] is None:
                for index, wanted in enumerate(outcomes):
                    found[index] |= told(sides[index][-1].outcome) == told(wanted)
        return all(found)


def _details(outcome: Any) -> tuple[Any, ...]:
    return (outcome.name, outcome.facts) if isinstance(outcome, Raised) else ("value",)
