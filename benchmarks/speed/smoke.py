"""Shell: `python -m benchmarks smoke`: the processor time of one find_one, next to the bare protocol.

It is a part of `make test`, and fails when a find_one has become much more expensive. It compares processor time, not
durations, and each round with the bare protocol's next to it, so that other load on the machine hardly matters.
"""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING

from benchmarks.arms import arm_uri
from benchmarks.figures import judge
from benchmarks.speed.rounds import Run, documents, server
from benchmarks.speed.targets import FLOOR, SUBJECT

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from benchmarks.figures import Round

TASKS, ROUNDS = 50, 7
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
    if len(found) < ROUNDS:
        return f"only {len(found)} of {ROUNDS} rounds were measured", False
    ratio = median(found)
    spread = f"median of {len(found)} rounds, {min(found):.2f} to {max(found):.2f}"
    wanted = f"client CPU per find_one is at most {limit:g} times the bare protocol's"
    return f"{wanted} ({ratio:.2f}; {spread})", ratio <= limit


def run(arguments: argparse.Namespace) -> int:
    with server(None) as uri, documents(uri) as loaded, Run((FLOOR, SUBJECT), arm_uri(uri), loaded) as measured:
        measured.warm_up(TASKS)
        measured.measure([("find_one", TASKS)], ROUNDS, operations=OPERATIONS)
    return judge([verdict(ratios(measured.results), arguments.limit)])


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--limit", type=float, default=LIMIT, help=f"default: {LIMIT}")
