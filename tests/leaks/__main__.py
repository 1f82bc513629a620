"""`python -m tests.leaks [SCENARIO ...] [--ways WAY ...] [--share N]`: figures before and after; 1 if one is too large.

Each pair of a scenario and a way to run it has a process of its own: see tests/leaks/child.py.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from typing import Final

from benchmarks.figures import align
from benchmarks.processes import say, serving
from tests.leaks.child import WAYS, measured
from tests.leaks.figures import Figures, complaints
from tests.leaks.scenarios import SCENARIOS

SHOWN: Final = ("bytes", "objects", "descriptors", "sockets", "tasks", "timers", "threads")


def rows(scenario: str, way: str, number: int, before: Figures, after: Figures) -> list[tuple[str, ...]]:
    def shown(figures: Figures) -> list[str]:
        return [f"{getattr(figures, name):,}" for name in SHOWN]

    return [(scenario, way, "before", *shown(before)), ("", "", f"after {number:,}", *shown(after))]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.leaks", description=__doc__)
    parser.add_argument("scenarios", nargs="*", default=list(SCENARIOS), metavar="SCENARIO", help=", ".join(SCENARIOS))
    parser.add_argument("--ways", nargs="+", default=list(WAYS), choices=WAYS, metavar="WAY", help=", ".join(WAYS))
    parser.add_argument("--share", type=float, default=1.0, help="of the usual number of repetitions; default: 1")
    parser.add_argument("--limit", type=float, default=3600.0, help="seconds for each; default: 3600")
    arguments = parser.parse_args()
    table: list[tuple[str, ...]] = [("", "", "", *SHOWN)]
    wrong: list[str] = []
    for scenario in arguments.scenarios:
        for way in arguments.ways:
            number = max(1, round(SCENARIOS[scenario][1] * arguments.share))
            started = time.perf_counter()
            with serving("tests.support.faulty_server") as port:
                uri = f"mongodb://127.0.0.1:{port}/?replicaSet=rs"
                try:
                    before, after = measured(scenario, way, number, uri, arguments.limit)
                except subprocess.SubprocessError as error:
                    wrong.append(f"{scenario}, {way}: {error}")
                    continue
            table += rows(scenario, way, number, before, after)
            wrong += [f"{scenario}, {way}: {text}" for text in complaints(before, after, number)]
            say(f"{scenario}, {way}: {time.perf_counter() - started:.0f} s")
    print(align(table))
    print("\n".join(wrong) or "nothing leaks")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
