"""Shell: the processor time of one find_one, next to the bare protocol: `python -m benchmarks smoke` and `overhead`.

`smoke`, a part of `make test`, fails when it has become much more expensive. It compares processor time, not durations,
and each round with the bare protocol's next to it, so that other load on the machine hardly matters. `overhead` says
where the time goes.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING, Any

from benchmarks.arms import ARMS, arm_uri, names
from benchmarks.figures import align
from benchmarks.speed.rounds import Run, documents, server
from benchmarks.speed.targets import FLOOR, SUBJECT

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping, Sequence

    from benchmarks.figures import Round

ROUNDS = 5
SMOKE_TASKS, SMOKE_ROUNDS = 50, 7
# A number and not a duration: on a busy machine a round takes longer, and is worth as much.
SMOKE_OPERATIONS = 8000
# Client CPU per find_one, to the bare protocol.
LIMIT = 2.2


@dataclass(frozen=True, slots=True)
class Layers:
    """Where the time of one arm goes, in microseconds of processor time per operation."""

    arm: str
    total: float
    samples: Mapping[str, int]

    def of(self, layer: str) -> float:
        """The share of a layer."""
        return self.total * self.samples.get(layer, 0) / max(1, sum(self.samples.values()))


def run(arguments: argparse.Namespace) -> int:
    """Measure and print."""
    arms = list(dict.fromkeys((FLOOR, *arguments.arms)))
    with server(arguments.uri) as uri, documents(uri, many=False) as (version, _):
        measured = Run(arms, arm_uri(uri))
        try:
            measured.warm_up(arguments.tasks)
            cpu: dict[str, list[float]] = {arm: [] for arm in arms}
            samples: dict[str, Counter[str]] = {arm: Counter() for arm in arms}
            for _round in range(ROUNDS):
                for arm in arms:
                    request = {"operation": "find_one", "tasks": arguments.tasks, "operations": arguments.operations}
                    plain = measured.ask(arm, **request)
                    sampled = measured.ask(arm, sample=True, **request)
                    if plain and sampled:
                        cpu[arm].append(plain["cpu_seconds"] / plain["operations"] * 1e6)
                        samples[arm].update(sampled["layers"])
        finally:
            measured.close()
    found = [Layers(arm, median(cpu[arm]), samples[arm]) for arm in arms if cpu[arm]]
    print(
        f"find_one by _id at {arguments.tasks} task(s), MongoDB {version}: microseconds of client CPU per operation,"
        f" medians of {ROUNDS} interleaved rounds; by layer from samples\n\n{render(found)}"
    )
    return 1 if measured.failures else 0


def render(found: Sequence[Layers]) -> str:
    """One row for each layer, the most expensive of the last arm first; one column for each arm."""
    layers = dict.fromkeys(layer for one in found for layer in one.samples)
    ordered = sorted(layers, key=lambda layer: -found[-1].of(layer))
    rows: list[tuple[Any, ...]] = [("", *(one.arm for one in found))]
    rows += [(layer, *(f"{one.of(layer):.1f}" for one in found)) for layer in ordered]
    rows.append(("total", *(f"{one.total:.1f}" for one in found)))
    floor = next((one for one in found if one.arm == FLOOR), None)
    if floor is not None:
        rows.append((f"x {FLOOR}", *(f"{one.total / floor.total:.2f}" for one in found)))
    return align(rows)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    parser.add_argument("--tasks", type=int, default=50, help="default: 50")
    parser.add_argument("--operations", type=int, default=20_000, help="for each round (default: 20000)")
    parser.add_argument(
        "--arms", type=names(ARMS), default=["motorlite"], help=f"of {', '.join(ARMS)} (default: motorlite)"
    )
    parser.add_argument("--uri", help="measure against this deployment instead of starting a mongod")


# --- smoke ---


def ratios(rounds: Sequence[Round]) -> list[float]:
    """The processor time of the driver to that of the bare protocol, for each round that has both."""
    cpu = {(one.arm, one.number): one.cpu for one in rounds}
    return [
        cpu[SUBJECT, number] / cpu[FLOOR, number] for arm, number in cpu if arm == SUBJECT and (FLOOR, number) in cpu
    ]


def verdict(found: Sequence[float], limit: float) -> tuple[str, bool]:
    """What was found, and whether it is good."""
    if len(found) < SMOKE_ROUNDS:
        return f"NOT MET: only {len(found)} of {SMOKE_ROUNDS} rounds were measured", False
    ratio = median(found)
    word = "met" if ratio <= limit else "NOT MET"
    spread = f"median of {len(found)} rounds, {min(found):.2f} to {max(found):.2f}"
    return f"{word}: client CPU per find_one is at most {limit:g} times the bare protocol's ({ratio:.2f}; {spread})", (
        ratio <= limit
    )


def run_smoke(arguments: argparse.Namespace) -> int:
    """Measure, print and judge; return the exit status."""
    with server(None) as uri, documents(uri, many=False):
        measured = Run((FLOOR, SUBJECT), arm_uri(uri))
        try:
            measured.warm_up(SMOKE_TASKS)
            measured.measure([("find_one", SMOKE_TASKS)], SMOKE_ROUNDS, operations=SMOKE_OPERATIONS)
        finally:
            measured.close()
    line, is_met = verdict(ratios(measured.rounds), arguments.limit)
    print(line)
    return 0 if is_met else 1


def add_smoke(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    parser.add_argument("--limit", type=float, default=LIMIT, help=f"default: {LIMIT}")
