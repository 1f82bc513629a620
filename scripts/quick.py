"""The checks that a change needs before it is committed, in seconds: `make quick`.

    python -m scripts.quick                          # what differs from main, committed or not
    python -m scripts.quick motorlite/_pool/state.py # as if only these files had been changed

Style, types (by a mypy daemon, slow only the first time), the rules of the house, and the tests that mirror the
changed files, on asyncio. `make test` is what a change needs before it is merged.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

REPOSITORY: Final = Path(__file__).resolve().parents[1]
MAIN: Final = "main"
# What goes through every operation, option or public method: a new one must be in the tables of these tests.
REGISTRIES: Final = (
    "unit/_api/test_docstrings.py",
    "unit/_api/test_retries_document.py",
    "unit/_operations/test_facts.py",
    "unit/_options/test_table.py",
)
RETRIES: Final = (
    "sim/test_retryable_reads.py",
    "sim/test_retryable_writes.py",
    "sim/test_overload_rules.py",
    "sim/test_retry_strategies.py",
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
    "motorlite/monitoring.py": ("unit/_observe", *REGISTRIES),
    "motorlite/retry": ("unit/_execution", *RETRIES),
}
DAEMON_CRASHED: Final = "Daemon crashed"


def changed_files() -> list[str]:
    """What differs from the main branch: commits, changes that are not committed, and new files."""
    base = _git("merge-base", "HEAD", MAIN) or ["HEAD"]
    return [*_git("diff", "--name-only", base[0]), *_git("ls-files", "--others", "--exclude-standard")]


def _git(*arguments: str) -> list[str]:
    done = subprocess.run(["git", *arguments], cwd=REPOSITORY, capture_output=True, text=True, check=False)
    return done.stdout.split()


def mirrored(changed: Iterable[str], root: Path = REPOSITORY) -> list[str]:
    """The tests that the changed files need, without those that are in another of the answers; unit tests first."""
    found: set[Path] = set()
    for name in changed:
        path = Path(name)
        if path.suffix != ".py":
            continue
        if path.parts[0] == "tests":
            if path.name.startswith("test_") and path.parts[1] in ("unit", "sim") and (root / path).exists():
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
    folder = inner.parent
    while folder.parts:
        if (root / "tests/unit" / folder).is_dir():
            yield Path("tests/unit", folder)
            break
        folder = folder.parent
    for layer, tests in ALSO.items():
        if path.is_relative_to(layer):
            yield from (Path("tests", test) for test in tests)


def commands(tests: list[str]) -> dict[str, list[str]]:
    """The command lines by name, as arguments of `python -m`."""
    house = sorted(str(path.relative_to(REPOSITORY)) for path in (REPOSITORY / "tests").glob("test_*.py"))
    pytest = ["pytest", "-q", "-x", "-p", "no:cacheprovider", "-m", "not slow"]
    found = {
        "ruff": ["ruff", "check", "."],
        "format": ["ruff", "format", "--check", "."],
        "mypy": ["mypy.dmypy", "run", "--", "motorlite", "tests", "scripts"],
        "house": [*pytest, *house],
    }
    if tests:
        found["unit"] = [*pytest, *tests]
    return found


def perform(arguments: list[str]) -> subprocess.CompletedProcess[str]:
    """Run `python -m` with these arguments, on asyncio."""
    return subprocess.run(
        [sys.executable, "-m", *arguments],
        cwd=REPOSITORY,
        env=os.environ | {"MOTORLITE_TEST_BACKENDS": "asyncio"},
        capture_output=True,
        text=True,
        check=False,
    )


def run(name: str, arguments: list[str]) -> bool:
    """Run one command; its output is shown when it fails."""
    started = time.monotonic()
    done = perform(arguments)
    if name == "mypy" and DAEMON_CRASHED in done.stdout + done.stderr:
        done = perform(arguments)  # which starts another one
    # 5: pytest had nothing to run, because all tests of a changed file are slow.
    succeeded = done.returncode == 0 or (name == "unit" and done.returncode == 5)
    summary = (done.stdout.strip().splitlines() or [""])[-1] if name in ("house", "unit") else ""
    print(f"{name:7} {'ok' if succeeded else 'FAILED':6} {time.monotonic() - started:5.1f} s  {summary}", flush=True)
    if not succeeded:
        print(done.stdout + done.stderr, flush=True)
    return succeeded


def main() -> int:
    """Check the changes, or the files named on the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="*", metavar="file", help="what was changed; by default what differs from main")
    files = parser.parse_args().files or changed_files()
    started = time.monotonic()
    with ThreadPoolExecutor(2) as lanes:
        # The longest first.
        chosen = sorted(commands(mirrored(files)).items(), key=lambda each: each[0] not in ("mypy", "unit"))
        succeeded = all(list(lanes.map(lambda each: run(*each), chosen)))
    print(f"{'ok' if succeeded else 'FAILED'} in {time.monotonic() - started:.1f} s; `make test` runs everything")
    return 0 if succeeded else 1


if __name__ == "__main__":
    sys.exit(main())
