"""Shell: `python -m benchmarks import-time`: how long a new interpreter takes for the import and the first result."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from collections import Counter
from statistics import median
from typing import TYPE_CHECKING, Final

from benchmarks.arms import LIBRARIES
from benchmarks.figures import align, judge
from benchmarks.processes import ROOT
from benchmarks.speed.rounds import server

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping, Sequence

SUBJECT: Final = "motorlite"
MODULES: Final = ("motorlite", "pymongo", "motor.motor_asyncio", "mongojet", "asyncio", "bson")
TARGET: Final = 120.0  # milliseconds
MOST: Final = 20  # modules in the table
# What the import of a driver should not load before it is needed.
UNNEEDED: Final = ("dns", "ssl", "zlib", "trio", "uvloop", "socket", "logging", "inspect", "typing", "dataclasses")
TIMED: Final = (
    "import time; cpu, at = time.process_time(), time.perf_counter(); import {}; "
    "print(time.process_time() - cpu, time.perf_counter() - at, flush=True)"
)
# With the import of asyncio, which every such program needs.
FIRST: Final = """
import time
cpu, at = time.process_time(), time.perf_counter()
import asyncio
from {module} import {name} as connect

async def main():
    client = connect({uri!r})
    if hasattr(client, "__await__"):
        client = await client
    await client["db"]["coll"].find_one({{}})
    print(time.process_time() - cpu, time.perf_counter() - at, flush=True)
    closed = client.close()
    if hasattr(closed, "__await__"):
        await closed

asyncio.run(main())
"""
LISTED: Final = "import {}, sys; print(*sys.modules)"
LINE: Final = re.compile(r"^import time:\s+(\d+) \|\s+(\d+) \| +(\S+)$", re.MULTILINE)


def heaviest(text: str, count: int) -> list[tuple[str, str, str]]:
    """Of what `-X importtime` has printed: the modules that take longest themselves, and milliseconds."""
    found = [(name, int(own) / 1000, int(both) / 1000) for own, both, name in LINE.findall(text)]
    found.sort(key=lambda one: -one[1])
    return [(name, f"{own:.1f}", f"{both:.1f}") for name, own, both in found[:count]]


def run(arguments: argparse.Namespace) -> int:
    imports = {module: TIMED.format(module) for module in MODULES if _is_there(module)}
    times = measure(imports, arguments.rounds)
    print(f"{arguments.rounds} fresh interpreters each, medians\n\n{table('import of', times)}\n")
    with server(arguments.uri) as uri:
        connects = {name: library.client.split(":") for name, library in LIBRARIES.items() if _is_there(library.client)}
        first = {arm: FIRST.format(module=of, name=name, uri=uri) for arm, (of, name) in connects.items()}
        print(f"{table('first document with', measure(first, arguments.rounds))}\n")
    heavy = heaviest(_python("-X", "importtime", "-c", f"import {SUBJECT}").stderr, MOST)
    print(align([("module", "own ms", "with its imports"), *heavy]))
    loaded = set(_python("-c", LISTED.format(SUBJECT)).stdout.split())
    unneeded = ", ".join(module for module in UNNEEDED if module in loaded)
    print(f"\n{len(loaded)} modules are loaded; of {', '.join(UNNEEDED)}: {unneeded}")
    taken = median(clock for _, clock in times[SUBJECT])
    return judge([(f"{SUBJECT} is imported within {TARGET:g} ms ({taken:.0f} ms)", taken <= TARGET)])


def measure(programs: Mapping[str, str], rounds: int) -> dict[str, list[tuple[float, float]]]:
    """The milliseconds of CPU and of time that each program prints, in interpreters that take turns.

    Some peers abort at the end of the interpreter. A program that has printed its times is measured nevertheless.

    Raises:
        subprocess.CalledProcessError: A program failed before it printed anything.
    """
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in programs}
    failures: Counter[str] = Counter()
    for number in range(rounds + 1):
        for name, program in programs.items():
            ended = _python("-c", program, check=False)
            if not ended.stdout:
                ended.check_returncode()
            cpu, seconds = map(float, ended.stdout.split())
            if ended.returncode:
                failures[name] += 1
            if number:  # the first may have written bytecode
                times[name].append((cpu * 1000, seconds * 1000))
    for name, count in failures.items():
        print(f"{name}: {count} of {rounds + 1} interpreters failed after they had printed their times, which count\n")
    return times


def table(title: str, times: Mapping[str, Sequence[tuple[float, float]]]) -> str:
    """The medians of what `measure` found, and the least time."""
    rows: list[Sequence[str]] = [(title, "CPU ms", "ms", "least ms")]
    for name, every in times.items():
        cpu, clock = (median(one[at] for one in every) for at in (0, 1))
        rows.append((name, f"{cpu:.0f}", f"{clock:.0f}", f"{min(one[1] for one in every):.0f}"))
    return align(rows)


def _is_there(module: str) -> bool:
    return importlib.util.find_spec(module.partition(":")[0].partition(".")[0]) is not None


def _python(*arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return subprocess.run([sys.executable, *arguments], cwd=ROOT, env=kept, capture_output=True, text=True, check=check)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--rounds", type=int, default=11, help="default: 11")
    parser.add_argument("--uri", help="ask this deployment for the document instead of starting a mongod")
