"""Shell: `python -m benchmarks instructions [COMMIT...]`, and its tables."""

from __future__ import annotations

import math
import platform
import shutil
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import mean, stdev
from typing import TYPE_CHECKING

from benchmarks.arms import names
from benchmarks.figures import align
from benchmarks.instructions.counting import Job, compile_driver
from benchmarks.instructions.marks import ORDER, without_marks
from benchmarks.instructions.workloads import ARMS, MANY, OPERATIONS
from benchmarks.processes import ROOT

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator, Mapping, Sequence

    from benchmarks.instructions.marks import Part


WORKING_TREE = "working tree"
# Arms that run none of motorlite's code are the same for all commits.
OTHERS = ("bare", "pymongo")


def run(arguments: argparse.Namespace) -> int:
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
        warm_up=20 + 10 * connections if is_many else 300 + 200 * connections,
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
    parser.add_argument("--arms", type=names(ARMS), default=["bare", "motorlite"], help=f"of {', '.join(ARMS)}")
    parser.add_argument(
        "--no-parts", dest="parts", action="store_false", help="only the totals, in a quarter of the time"
    )


# --- tables ---


BARE = "bare"


@dataclass(frozen=True, slots=True)
class Count:
    """What was counted for one arm of one version."""

    arm: str
    version: str
    samples: Sequence[float]  # instructions per operation
    parts: Mapping[str, Part]
    missing: Sequence[str]

    @property
    def total(self) -> float:
        """Instructions per operation: the mean of the samples, since each has its share of garbage collections."""
        return mean(self.samples)

    @property
    def error(self) -> float:
        """The standard error of the total, as a share of it."""
        return stdev(self.samples) / math.sqrt(len(self.samples)) / self.total


def render(counts: Sequence[Count]) -> str:
    """The totals, and below them the parts, side by side."""
    bare = next((count.total for count in counts if count.arm == BARE), None)
    rows = [("", "version", "total", "x bare", "error")]
    for count in counts:
        ratio = "-" if bare is None else f"{count.total / bare:.2f}"
        rows.append((count.arm, count.version or "-", f"{count.total / 1000:.2f}", ratio, f"{count.error * 100:.2f} %"))
    tables = [align(rows)]
    divided = [count for count in counts if count.parts]
    if divided:
        head = ("by part", *(f"{count.arm} {count.version}" for count in divided))
        shares = [without_marks(count.parts, count.total) for count in divided]
        body = [
            (part, *(f"{share.get(part, 0) / 1000:.1f}" for share in shares))
            for part in ORDER
            if any(part in share for share in shares)
        ]
        total = ("total", *(f"{count.total / 1000:.1f}" for count in divided))
        tables.append(align([head, *body, total]))
    for count in divided:
        tables += [f"{count.arm} {count.version} has no {path}: counted with its caller" for path in count.missing]
    return "\n\n".join(tables)
