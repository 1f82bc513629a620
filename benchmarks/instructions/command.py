"""Shell: `python -m benchmarks instructions [COMMIT...]`."""

from __future__ import annotations

import argparse
import platform
import shutil
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.instructions.counting import Job, compile_driver
from benchmarks.instructions.tables import Count, render
from benchmarks.instructions.workloads import ARMS, MANY, OPERATIONS
from benchmarks.processes import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator

WORKING_TREE = "working tree"
# Arms that run none of motorlite's code are the same for all commits.
OTHERS = ("bare", "bare-uvloop", "pymongo")


def run(arguments: argparse.Namespace) -> int:
    """Count, and print the tables; return the exit status."""
    for program in ("valgrind", "vgdb"):
        if shutil.which(program) is None:
            print(f"{program} is missing (apt install valgrind)", file=sys.stderr)
            return 1
    compile_driver(ROOT)
    ours = [arm for arm in arguments.arms if arm not in OTHERS]
    counts = [_count(arguments, arm, "", ROOT) for arm in arguments.arms if arm in OTHERS and _has(arm, arguments)]
    for name, root in _checkouts(arguments.commits):
        counts += [_count(arguments, arm, name, root) for arm in ours]
    what = f" of {arguments.documents} documents" if arguments.operation in MANY else ""
    tasks = f"{arguments.tasks} task{'s' if arguments.tasks > 1 else ''}"
    print(
        f"{arguments.operation}{what}, {tasks}: thousands of instructions per operation"
        f" (callgrind, Python {platform.python_version()}, {platform.machine()})\n"
    )
    print(render(counts))
    return 0


def _has(arm: str, arguments: argparse.Namespace) -> bool:
    return arguments.operation == "find_one" or not arm.startswith("bare")


def _count(arguments: argparse.Namespace, arm: str, name: str, root: Path) -> Count:
    print(f"counting {arm} {name}".rstrip(), file=sys.stderr, flush=True)
    job = job_for(arguments, arm, root)
    samples = job.count()
    if arm in OTHERS or not arguments.parts:
        return Count(arm, name, samples, {}, [])
    parts, missing = job.parts()
    return Count(arm, name, samples, parts, missing)


def job_for(arguments: argparse.Namespace, arm: str, root: Path) -> Job:
    """As many operations as make the pool full before, and the count steady."""
    connections = min(arguments.tasks, 100)
    is_many = arguments.operation in MANY
    return Job(
        arm=arm,
        operation=arguments.operation,
        tasks=arguments.tasks,
        documents=arguments.documents if is_many else 1,
        warm_up=20 + 10 * connections if is_many else 300 + 60 * connections,
        each=max(arguments.tasks, 3, 4000 // (20 + arguments.documents)) if is_many else max(200, arguments.tasks),
        samples=10 if is_many else 5,
        root=root,
    )


def _checkouts(commits: list[str]) -> Iterator[tuple[str, Path]]:
    for commit in commits:
        with checkout(commit) as root:
            yield commit, root
    yield WORKING_TREE, ROOT


@contextmanager
def checkout(commit: str) -> Iterator[Path]:
    """A temporary worktree of a commit, with its bytecode."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder, "checkout")
        git = ["git", "-C", str(ROOT), "worktree"]
        subprocess.run([*git, "add", "--quiet", "--detach", str(root), commit], check=True)
        try:
            compile_driver(root)
            yield root
        finally:
            subprocess.run([*git, "remove", "--force", str(root)], check=True)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("commits", nargs="*", metavar="COMMIT", help="count these too, not only the working tree")
    parser.add_argument("--operation", choices=OPERATIONS, default="find_one", help="default: find_one")
    parser.add_argument("--tasks", type=int, default=50, help="default: 50")
    parser.add_argument("--documents", type=int, default=10, help=f"for {', '.join(MANY)} (default: 10)")
    parser.add_argument("--arms", type=_arms, default=["bare", "motorlite"], help=f"of {', '.join(ARMS)}")
    parser.add_argument(
        "--no-parts", dest="parts", action="store_false", help="only the totals, in a quarter of the time"
    )


def _arms(text: str) -> list[str]:
    names = text.split(",")
    if unknown := [name for name in names if name not in ARMS]:
        raise argparse.ArgumentTypeError(f"unknown arms: {', '.join(unknown)}; choose from {', '.join(ARMS)}")
    return names
