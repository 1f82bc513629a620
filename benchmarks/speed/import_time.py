"""Shell: `python -m benchmarks import-time`: how long a fresh interpreter needs to import the drivers."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from statistics import median
from typing import TYPE_CHECKING, Final

from benchmarks.figures import align, judge
from benchmarks.processes import ROOT

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

SUBJECT: Final = "motorlite"
MODULES: Final = ("motorlite", "pymongo", "motor.motor_asyncio", "mongojet", "asyncio", "bson")
TARGET: Final = 120.0  # milliseconds
MOST: Final = 20  # modules in the table
# What the import of a driver should not load before it is needed.
UNNEEDED: Final = ("dns", "ssl", "zlib", "trio", "uvloop", "socket", "logging", "inspect", "typing", "dataclasses")
TIMED: Final = (
    "import time; cpu, at = time.process_time(), time.perf_counter(); import {}; "
    "print(time.process_time() - cpu, time.perf_counter() - at)"
)
LISTED: Final = "import {}, sys; print(*sys.modules)"
LINE: Final = re.compile(r"^import time:\s+(\d+) \|\s+(\d+) \| +(\S+)$", re.MULTILINE)


def heaviest(text: str, count: int) -> list[tuple[str, str, str]]:
    """Of what `-X importtime` has printed: the modules that take longest themselves, and milliseconds."""
    found = [(name, int(own) / 1000, int(both) / 1000) for own, both, name in LINE.findall(text)]
    found.sort(key=lambda one: -one[1])
    return [(name, f"{own:.1f}", f"{both:.1f}") for name, own, both in found[:count]]


def run(arguments: argparse.Namespace) -> int:
    there = [module for module in MODULES if importlib.util.find_spec(module.partition(".")[0]) is not None]
    times: dict[str, list[tuple[float, float]]] = {module: [] for module in there}
    for _ in range(arguments.rounds + 1):
        for module in there:
            cpu, seconds = map(float, _python("-c", TIMED.format(module)).stdout.split())
            times[module].append((cpu * 1000, seconds * 1000))
    rows: list[Sequence[str]] = [("import of", "CPU ms", "ms", "least ms")]
    for module, every in times.items():
        measured = every[1:]  # the first may have written bytecode
        cpu, clock = (median(one[at] for one in measured) for at in (0, 1))
        rows.append((module, f"{cpu:.0f}", f"{clock:.0f}", f"{min(one[1] for one in measured):.0f}"))
    print(f"{arguments.rounds} fresh interpreters each, medians\n\n{align(rows)}\n")
    heavy = heaviest(_python("-X", "importtime", "-c", f"import {SUBJECT}").stderr, MOST)
    print(align([("module", "own ms", "with its imports"), *heavy]))
    loaded = set(_python("-c", LISTED.format(SUBJECT)).stdout.split())
    unneeded = ", ".join(module for module in UNNEEDED if module in loaded)
    print(f"\n{len(loaded)} modules are loaded; of {', '.join(UNNEEDED)}: {unneeded}")
    taken = median(one[1] for one in times[SUBJECT][1:])
    return judge([(f"{SUBJECT} is imported within {TARGET:g} ms ({taken:.0f} ms)", taken <= TARGET)])


def _python(*arguments: str) -> subprocess.CompletedProcess[str]:
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return subprocess.run([sys.executable, *arguments], cwd=ROOT, env=kept, capture_output=True, text=True, check=True)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--rounds", type=int, default=11, help="default: 11")
