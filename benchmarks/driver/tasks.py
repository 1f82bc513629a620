"""Pure: the tasks of the public benchmark: their names and sizes, and the scores of what was measured."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import fmean
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence


# The sizes of the source files in bytes.
HELLO, TWEET, SMALL, LARGE = 13, 1622, 275, 2_731_089
LARGE_FILE, TEXT_FILE, BINARY_FILE = 52_428_800, 5_650_000, 5_242_880
DOCUMENTS_PER_FILE: Final = 5000
# `Client::bulkWrite` needs MongoDB 8.0.
CLIENT_BULK_WIRE_VERSION: Final = 25


@dataclass(frozen=True, slots=True)
class Scale:
    """How much of each task is done: scores are per megabyte, so that they stay comparable."""

    operations: int = 10_000
    large_operations: int = 10
    text_files: int = 100
    binary_files: int = 50


@dataclass(frozen=True, slots=True)
class Task:
    """One micro-benchmark."""

    name: str
    title: str
    group: str  # "single", "multi" or "parallel"
    kind: str  # "read", "write" or "" (in neither of the two composites)
    unit: int  # bytes
    count: str  # the field of `Scale` that says how many units, or "" for one
    needs_client_bulk: bool = False

    def megabytes(self, scale: Scale) -> float:
        return self.unit * (getattr(scale, self.count) if self.count else 1) / 1e6


_MANY, _FEW = "operations", "large_operations"
TASKS: Final = {
    task.name: task
    for task in (
        Task("run_command", "Run command", "single", "", HELLO, _MANY),
        Task("find_one", "Find one by ID", "single", "read", TWEET, _MANY),
        Task("small_insert_one", "Small doc insertOne", "single", "write", SMALL, _MANY),
        Task("large_insert_one", "Large doc insertOne", "single", "write", LARGE, _FEW),
        Task("find_many", "Find many and empty the cursor", "multi", "read", TWEET, _MANY),
        Task("small_insert_many", "Small doc bulk insert", "multi", "write", SMALL, _MANY),
        Task("large_insert_many", "Large doc bulk insert", "multi", "write", LARGE, _FEW),
        Task("small_bulk_write", "Small doc Collection BulkWrite insert", "multi", "write", SMALL, _MANY),
        Task("large_bulk_write", "Large doc Collection BulkWrite insert", "multi", "write", LARGE, _FEW),
        Task("small_client_bulk_write", "Small doc Client BulkWrite insert", "multi", "write", SMALL, _MANY, True),
        Task("large_client_bulk_write", "Large doc Client BulkWrite insert", "multi", "write", LARGE, _FEW, True),
        # A mixed task inserts and replaces each document; only these two count.
        Task("mixed_client_bulk_write", "Client BulkWrite Mixed Operations", "multi", "write", 2 * SMALL, _MANY, True),
        Task("mixed_bulk_write", "Collection BulkWrite Mixed Operations", "multi", "write", 2 * SMALL, _MANY),
        Task("upload", "GridFS upload", "multi", "write", LARGE_FILE, ""),
        Task("download", "GridFS download", "multi", "read", LARGE_FILE, ""),
        Task("import", "LDJSON multi-file import", "parallel", "write", TEXT_FILE, "text_files"),
        Task("export", "LDJSON multi-file export", "parallel", "read", TEXT_FILE, "text_files"),
        Task("multi_upload", "GridFS multi-file upload", "parallel", "write", BINARY_FILE, "binary_files"),
        Task("multi_download", "GridFS multi-file download", "parallel", "read", BINARY_FILE, "binary_files"),
    )
}
COMPOSITES: Final = {
    "SingleBench": [task.name for task in TASKS.values() if task.group == "single" and task.kind],
    "MultiBench": [task.name for task in TASKS.values() if task.group == "multi"],
    "ParallelBench": [task.name for task in TASKS.values() if task.group == "parallel"],
    "ReadBench": [task.name for task in TASKS.values() if task.kind == "read"],
    "WriteBench": [task.name for task in TASKS.values() if task.kind == "write"],
}


# --- scores ---


SUBJECT: Final = "motorlite"
BASELINE: Final = "pymongo"
# No task may be slower than with one of these.
PYTHON_PEERS: Final = ("pymongo", "pymongo-sync", "motor")
PERCENTILES: Final = (10, 25, 50, 75, 90, 95, 98, 99)


@dataclass(frozen=True, slots=True)
class Iteration:
    """One timed iteration; seconds."""

    task: str
    arm: str
    seconds: float
    cpu_seconds: float


def percentile(ordered: Sequence[float], percent: int) -> float:
    """The specification's nearest rank: `int(N * p / 100) - 1`, and never before the first."""
    return ordered[max(0, int(len(ordered) * percent / 100) - 1)]


def times_of(iterations: Sequence[Iteration]) -> dict[tuple[str, str], list[float]]:
    """The seconds of all iterations by task and arm, in order of length."""
    times: dict[tuple[str, str], list[float]] = {}
    for one in sorted(iterations, key=lambda one: one.seconds):
        times.setdefault((one.task, one.arm), []).append(one.seconds)
    return times


def scores(iterations: Sequence[Iteration], scale: Scale) -> dict[tuple[str, str], float]:
    """Megabytes per second by task and arm: the size of the task over the median time."""
    return {
        (task, arm): TASKS[task].megabytes(scale) / percentile(seconds, 50)
        for (task, arm), seconds in times_of(iterations).items()
    }


def composites(found: Mapping[tuple[str, str], float], arm: str, tasks: Collection[str]) -> dict[str, float]:
    """The composite scores of an arm from the measured tasks; without those for which it lacks one."""
    values: dict[str, float] = {}
    for name, members in COMPOSITES.items():
        measured = [member for member in members if member in tasks]
        if measured and all((member, arm) in found for member in measured):
            values[name] = fmean(found[member, arm] for member in measured)
    if "ReadBench" in values and "WriteBench" in values:
        values["DriverBench"] = fmean((values["ReadBench"], values["WriteBench"]))
    return values


def verdict(found: Mapping[tuple[str, str], float]) -> list[tuple[str, bool]]:
    """For each task with a Python peer: its title, and whether motorlite on asyncio is at least as fast as all."""
    conditions = []
    for task in TASKS.values():
        subject = found.get((task.name, SUBJECT))
        peers = {peer: found[task.name, peer] for peer in PYTHON_PEERS if (task.name, peer) in found}
        if subject is not None and peers:
            best = max(peers, key=lambda peer: peers[peer])
            conditions.append((f"{task.title} ({subject / peers[best]:.2f} times {best})", subject >= peers[best]))
    return conditions
