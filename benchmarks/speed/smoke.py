"""Shell: `python -m benchmarks smoke`: fails when a find_one has become much more expensive. A part of `make test`.

It compares processor time, not durations, and each round with the bare protocol's next to it, so that other load on
the machine hardly matters.
"""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING

from benchmarks.arms import arm_uri
from benchmarks.speed.rounds import Run, documents, server
from benchmarks.speed.targets import FLOOR, SUBJECT

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from benchmarks.figures import Round

TASKS = 50
ROUNDS = 7
# A number and not a duration: on a busy machine a round takes longer, and is worth as much.
OPERATIONS = 8000
# Client CPU per find_one, to the bare protocol.
LIMIT = 2.2


def ratios(rounds: Sequence[Round]) -> list[float]:
    """The processor time of the driver to that of the bare protocol, for each round that has both."""
    cpu = {(one.arm, one.number): one.cpu for one in rounds}
    return [
        cpu[SUBJECT, number] / cpu[FLOOR, number] for arm, number in cpu if arm == SUBJECT and (FLOOR, number) in cpu
    ]


def verdict(found: Sequence[float], limit: float) -> tuple[str, bool]:
    """What was found, and whether it is good."""
    if len(found) < ROUNDS:
        return f"NOT MET: only {len(found)} of {ROUNDS} rounds were measured", False
    ratio = median(found)
    word = "met" if ratio <= limit else "NOT MET"
    spread = f"median of {len(found)} rounds, {min(found):.2f} to {max(found):.2f}"
    return f"{word}: client CPU per find_one is at most {limit:g} times the bare protocol's ({ratio:.2f}; {spread})", (
        ratio <= limit
    )


def run(arguments: argparse.Namespace) -> int:
    """Measure, print and judge; return the exit status."""
    with server(None) as uri, documents(uri, many=False):
        measured = Run((FLOOR, SUBJECT), arm_uri(uri))
        try:
            measured.warm_up(TASKS)
            measured.measure([("find_one", TASKS)], ROUNDS, operations=OPERATIONS)
        finally:
            measured.close()
    line, is_met = verdict(ratios(measured.rounds), arguments.limit)
    print(line)
    return 0 if is_met else 1


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    parser.add_argument("--limit", type=float, default=LIMIT, help=f"default: {LIMIT}")
