"""Shell: the command line of the simulation: one seed or many, the trace of a run, and the shortest plan that fails."""

from __future__ import annotations

import argparse
import sys
import time
from typing import TYPE_CHECKING, Any

from tests.simulation.bugs import BUGS
from tests.simulation.planting import MOST_SEEDS, search, watched
from tests.simulation.run import SECONDS, Simulation
from tests.simulation.shrinking import Case, shrink
from tests.simulation.workload import KINDS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.simulation.run import Outcome

_SHOWN = 3


def main(arguments: Sequence[str]) -> int:
    """Run what the arguments say; return 1 if a seed failed."""
    options = _parser().parse_args(arguments)
    if options.bug is not None:
        return _plant(options.bug, options.seconds)
    first, _, last = (options.seeds or f"{options.seed}-{options.seed}").partition("-")
    began, failed, seconds, count = time.perf_counter(), 0, 0.0, 0
    for seed in range(int(first), int(last) + 1):
        case = Case(seed, options.only, options.tasks, options.seconds, options.routers)
        outcome = _run(case)
        seconds, count = seconds + outcome.seconds, count + 1
        if options.trace:
            sys.stdout.writelines(f"{line}\n" for line in outcome.trace)
        if outcome.findings:
            failed += 1
            _show(case, outcome)
            if not options.keep:
                _show_shortest(case)
    wall = time.perf_counter() - began
    print(f"{count} seeds, {seconds / 3600:.2f} simulated hours, {failed} failed, in {wall:.1f} s")
    return min(failed, 1)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.simulate", description="The driver in simulated worlds.")
    parser.add_argument("--seed", type=int, default=1, help="the seed of one run")
    parser.add_argument("--seeds", metavar="A-B", help="many runs instead, one for each of these seeds")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="how long the workload runs, in virtual seconds")
    parser.add_argument("--routers", action="store_true", help="two routers in front of the members")
    parser.add_argument("--trace", action="store_true", help="print all that happens")
    parser.add_argument("--only", type=_numbers, help="the faults of the plan that happen, by number: 3,7; none: -")
    parser.add_argument("--tasks", type=_numbers, help=f"the tasks that run, by number: 0 to {len(KINDS) - 1}")
    parser.add_argument("--keep", action="store_true", help="do not look for the shortest plan that fails")
    parser.add_argument("--bug", choices=sorted(BUGS), help="plant this bug, and count the seeds until it is noticed")
    return parser


def _plant(bug: str, seconds: float) -> int:
    """Print how many seeds a planted bug needs; return 1 if it needs too many."""
    began = time.perf_counter()
    found = search(bug, range(1, MOST_SEEDS + 1), seconds=seconds)
    wall = time.perf_counter() - began
    print(f"{bug}: {BUGS[bug].breaks}")
    if found.finding is None:
        print(f"not noticed in {found.seeds} seeds, in {wall:.1f} s")
        return 1
    print(f"noticed with seed {found.seeds}, in {wall:.1f} s: {found.finding}")
    return 0


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(each) for each in text.split(",")) if text != "-" else ()


def _run(case: Case) -> Outcome:
    return watched(case.seed, **_arguments(case))


def _arguments(case: Case) -> dict[str, Any]:
    return {"seconds": case.seconds, "only": case.faults, "kinds": case.tasks, "routers": case.routers}


def simulation(case: Case) -> Simulation:
    """The run that a case describes."""
    return Simulation(case.seed, **_arguments(case))


def _show(case: Case, outcome: Outcome) -> None:
    print(f"seed {case.seed} failed: {len(outcome.findings)} findings; replay it with", case, sep="\n  ")
    for number, fault in simulation(case).chosen:
        print(f"  fault {number:2}: {fault}")
    for finding in outcome.findings[:_SHOWN]:
        print(finding)
    sys.stdout.flush()


def _show_shortest(case: Case) -> None:
    print("looking for the shortest plan that fails", flush=True)
    known = simulation(case)
    shortest = shrink(case, len(known.plan), len(KINDS), lambda one: bool(_run(one).findings))
    _show(shortest, _run(shortest))
