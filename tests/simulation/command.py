"""Shell: the command line of the simulation: one seed or many, and the trace of a run."""

from __future__ import annotations

import argparse
import sys
import time
from typing import TYPE_CHECKING

from tests.simulation.run import Simulation

if TYPE_CHECKING:
    from collections.abc import Sequence


def main(arguments: Sequence[str]) -> int:
    """Run what the arguments say; return the number of seeds that failed, at most 1."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulate", description="The driver in simulated worlds.")
    parser.add_argument("--seed", type=int, default=1, help="the seed of one run")
    parser.add_argument("--seeds", metavar="A-B", help="many runs instead, one for each of these seeds")
    parser.add_argument("--seconds", type=float, default=120.0, help="how long the workload runs, in virtual seconds")
    parser.add_argument("--trace", action="store_true", help="print all that happens")
    options = parser.parse_args(arguments)
    first, _, last = (options.seeds or f"{options.seed}-{options.seed}").partition("-")
    failed = 0
    began = time.perf_counter()
    for seed in range(int(first), int(last) + 1):
        outcome = Simulation(seed, seconds=options.seconds).run()
        if options.trace:
            sys.stdout.writelines(f"{line}\n" for line in outcome.trace)
        if outcome.findings:
            failed += 1
            print(f"seed {seed} failed:", *outcome.findings, sep="\n", flush=True)
    count = int(last) - int(first) + 1
    print(f"{count} seeds, {failed} failed, in {time.perf_counter() - began:.1f} s")
    return min(failed, 1)
