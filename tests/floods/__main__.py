"""`python -m tests.floods [CASE ...] [--loops LOOP ...]`: many operations at once, against a server that fails.

It prints what they cost: memory for each operation, time, and the longest step of the event loop; and how they ended.
It exits with 1 if something is more than its bound, or an operation ends with an error that is not documented.
"""

from __future__ import annotations

import argparse
import sys
from typing import Final

from benchmarks.figures import align
from benchmarks.processes import ChildFailedError, ask, say
from tests.floods.bounds import complaints, uri_of
from tests.floods.child import CASES, LOOPS, Figures

OPERATIONS: Final = 10_000


def row(case: str, loop: str, operations: int, found: Figures) -> tuple[str, ...]:
    steps = (found.step, found.step_without_collector)
    return (
        case,
        loop,
        f"{found.memory:,.0f}",
        f"{found.seconds:.1f}",
        f"{found.cpu / operations * 1000:.2f}",
        *("-" if step < 0 else f"{step * 1000:.0f}" for step in steps),
        ", ".join(f"{number:,} {name}" for name, number in sorted(found.outcomes.items())),
    )


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.floods", description=__doc__)
    parser.add_argument("cases", nargs="*", default=list(CASES), metavar="CASE", help=", ".join(CASES))
    parser.add_argument("--loops", nargs="+", default=list(LOOPS), choices=LOOPS, metavar="LOOP")
    parser.add_argument("--operations", type=int, default=OPERATIONS, help=f"default: {OPERATIONS}")
    parser.add_argument("--limit", type=float, default=600.0, help="seconds for each; default: 600")
    arguments = parser.parse_args()
    head = ("server", "loop", "bytes each", "s", "CPU ms each", "longest step, ms", "without collector", "outcomes")
    table: list[tuple[str, ...]] = [head]
    wrong: list[str] = []
    for case in arguments.cases:
        for loop in arguments.loops:
            with uri_of(case) as uri:
                words = (case, loop, str(arguments.operations), uri)
                try:
                    found = Figures(**ask("tests.floods.child", *words, limit=arguments.limit))
                except ChildFailedError as error:
                    wrong.append(f"{case}, {loop}: {error}")
                    continue
            table.append(row(case, loop, arguments.operations, found))
            say("  ".join(table[-1]))
            wrong += [f"{case}, {loop}: {text}" for text in complaints(case, arguments.operations, found)]
    print(align(table))
    print("\n".join(wrong) or "every bound holds")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
