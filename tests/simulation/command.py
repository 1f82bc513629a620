"""Shell: the command line of the simulation: one seed or many, the trace of a run, and the shortest plan that fails."""

from __future__ import annotations

import argparse
import re
import sys
import time
from typing import TYPE_CHECKING, Any, Final

from tests.simulation.bugs import BUGS
from tests.simulation.invariants import Violation
from tests.simulation.planting import MOST_SEEDS, search, watched
from tests.simulation.run import SECONDS, Simulation
from tests.simulation.shrinking import Case, shrink
from tests.simulation.workload import KINDS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.simulation.run import Outcome

_SHOWN = 3
_VIOLATION: Final = f"{Violation.__module__}.{Violation.__qualname__}: "
ALL: Final = "all"
"""The name of all planted bugs."""


def main(arguments: Sequence[str]) -> int:
    """Run what the arguments say; return 1 if a seed failed."""
    options = _parser().parse_args(arguments)
    if options.bug == ALL:
        return max([_plant(bug, options) for bug in BUGS])
    if options.bug is not None and options.seed is None and options.seeds is None:
        return _plant(options.bug, options)
    first, _, last = (options.seeds or str(options.seed or 1)).partition("-")
    began, failed, seconds, count = time.perf_counter(), 0, 0.0, 0
    for seed in range(int(first), int(last or first) + 1):
        case = Case(seed, options.only, options.tasks, options.seconds, options.routers, options.bug)
        outcome = _run(case)
        seconds, count = seconds + outcome.seconds, count + 1
        if options.trace:
            sys.stdout.writelines(f"{line}\n" for line in outcome.trace)
        if outcome.findings:
            failed += 1
            _show(case, outcome)
            if not options.keep:
                _show_shortest(case, _kinds(outcome)[0])
    wall = time.perf_counter() - began
    print(f"{count} seeds, {seconds / 3600:.2f} simulated hours, {failed} failed, in {wall:.1f} s")
    return min(failed, 1)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.simulate", description="The driver in simulated worlds.")
    parser.add_argument("--seed", type=int, help="the seed of one run; 1 if nothing else is said")
    parser.add_argument("--seeds", metavar="A-B", help="many runs instead, one for each of these seeds")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="how long the workload runs, in virtual seconds")
    parser.add_argument("--routers", action="store_true", help="two routers in front of the members")
    parser.add_argument("--trace", action="store_true", help="print all that happens")
    parser.add_argument("--only", type=_numbers, help="the faults of the plan that happen, by number: 3,7; none: -")
    parser.add_argument("--tasks", type=_numbers, help=f"the tasks that run, by number: 0 to {len(KINDS) - 1}")
    parser.add_argument("--keep", action="store_true", help="do not look for the shortest plan that fails")
    parser.add_argument(
        "--bug",
        choices=[*sorted(BUGS), ALL],
        help="plant this bug; without --seed and --seeds: count the seeds until it is noticed",
    )
    return parser


def _plant(bug: str, options: argparse.Namespace) -> int:
    """Print how many seeds a planted bug needs; return 1 if it needs too many."""
    began = time.process_time()
    found = search(bug, range(1, MOST_SEEDS + 1), seconds=options.seconds, routers=options.routers)
    seconds = time.process_time() - began
    print(f"{bug}: {BUGS[bug].breaks}")
    if found.finding is None:
        print(f"  not noticed in {found.seeds} seeds, in {seconds:.1f} s", flush=True)
        return 1
    print(f"  noticed with seed {found.seeds}, in {seconds:.1f} s: {found.finding}", flush=True)
    return 0


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(each) for each in text.split(",")) if text != "-" else ()


def _run(case: Case) -> Outcome:
    return watched(case.seed, bug=case.bug, **_arguments(case))


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


def _show_shortest(case: Case, kind: str) -> None:
    print("looking for the shortest plan that fails", flush=True)
    shortest = shrink(case, len(simulation(case).plan), len(KINDS), lambda one: kind in _kinds(_run(one)))
    _show(shortest, _run(shortest))


def _kinds(outcome: Outcome) -> list[str]:
    """What is wrong, without its details: a shorter plan must fail for the same reason as the whole one."""
    # The last line of a traceback, or the first one of what the account says.
    lines = [found.strip().splitlines()[-1 if "Traceback" in found else 0] for found in outcome.findings]
    return [re.split(" at |: | after |[0-9]", line.removeprefix(_VIOLATION))[0] for line in lines]
