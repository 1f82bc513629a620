"""Shell: rounds of all arms against one server, interleaved."""

from __future__ import annotations

import contextlib
import os
import platform
from typing import TYPE_CHECKING, Any, NamedTuple

import pymongo

from benchmarks.arms import ARMS, POOL_SIZE
from benchmarks.documents import COLLECTION, DATABASE, DOCUMENTS, SIZES, document, numbers_of, sized
from benchmarks.figures import Round
from benchmarks.processes import Arms, say
from benchmarks.speed.targets import EARLIER, SUBJECT
from benchmarks.speed.workloads import MANY, MANY_DOCUMENTS, WORKLOADS, WRITTEN

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from benchmarks.arms import Arm

WARM_UP_OPERATIONS = 10_000
GRACE = 120.0  # seconds that an arm may exceed its round before it is killed
MODULE = "benchmarks.speed.worker"


class Loaded(NamedTuple):
    """A server with the documents for a run."""

    version: str
    # Removes what earlier rounds have written.
    clean: Callable[[], None]
    # The processor seconds that the server has used since its start; None if it does not say, or has other members.
    cpu: Callable[[], float | None]


class Run(Arms):
    """The arms, one of which may be motorlite from another checkout, and their rounds so far."""

    def __init__(
        self,
        arms: Sequence[str],
        uri: str,
        loaded: Loaded,
        before: Path | None = None,
        *,
        copies: int = 1,
    ) -> None:
        earlier = {} if before is None else {EARLIER: (MODULE, SUBJECT, uri, str(before))}
        super().__init__({**{arm: (MODULE, arm, uri) for arm in arms}, **earlier}, copies)
        self._loaded = loaded

    def warm_up(self, tasks: int, operations: int = WARM_UP_OPERATIONS) -> None:
        """Run discarded operations on each arm, at the highest concurrency so that its pool is full."""
        for arm in self.turns(0):
            self.ask(arm, GRACE, operation="find_one", tasks=tasks, operations=operations)

    def measure(self, plan: Sequence[tuple[str, int]], rounds: int, **extent: float) -> None:
        """Run the rounds of all operations, each at its number of tasks; `extent` is `seconds` or `operations`."""
        for number in range(rounds):
            for operation, tasks in plan:
                self.once(operation, tasks, number, extent)
            say(f"round {number + 1} of {rounds} done")

    def once(
        self,
        operation: str,
        tasks: int,
        number: int,
        extent: Mapping[str, float],
        *,
        title: str = "",
        copies: int = 1,
    ) -> None:
        """Run a round of each arm, with so many of its processes; `title` is the operation's name in the results."""
        if WORKLOADS[operation].is_write:
            self._loaded.clean()  # for all arms together: a server is slow after a drop
        for arm in self.turns(number):
            limit = extent.get("seconds", 0) + GRACE
            before = self._loaded.cpu()
            if figures := self.ask(arm, limit, copies, operation=operation, tasks=tasks, **extent):
                after = self._loaded.cpu()
                used = None if before is None or after is None else after - before
                self.results.append(
                    Round(title or operation, arm, tasks, number + 1, **figures, server_cpu_seconds=used)
                )


def present(arms: Sequence[str], known: Mapping[str, Arm] = ARMS) -> tuple[list[str], dict[str, str]]:
    """The arms that can be measured, and what the others lack."""
    lacking = {arm: ", ".join(known[arm].missing()) for arm in arms}
    found = {arm: f"{what} cannot be imported" for arm, what in lacking.items() if what}
    for arm, why in found.items():
        say(f"{arm} is not measured: {why}")
    return [arm for arm in arms if arm not in found], found


def facts(arms: Sequence[str], version: str, busy: float, known: Mapping[str, Arm] = ARMS) -> dict[str, Any]:
    """What the figures depend on: the machine and its load before, the server, the drivers."""
    return {
        "python": platform.python_version(),
        "platform": platform.platform(),
        "cores": os.cpu_count(),
        "load_before": busy,
        "server": version,
        "pool_size": POOL_SIZE,
        "arms": {arm: known[arm].about for arm in arms},
    }


@contextlib.contextmanager
def server(uri: str | None) -> Iterator[str]:
    """The server that was named, or one of our own."""
    if uri is not None:
        yield uri
        return
    from motorlite.testing import LocalServer

    with LocalServer.start(topology="standalone") as started:
        yield started.uri


@contextlib.contextmanager
def documents(uri: str, *, many: bool = False, all_sizes: bool = False) -> Iterator[Loaded]:
    """Insert the documents for the run; if `many` those of long cursors too, if `all_sizes` those of `SIZES`."""
    with pymongo.MongoClient[dict[str, Any]](uri) as client:
        database = client[DATABASE]

        def empty() -> None:
            database[WRITTEN].drop()
            database.create_collection(WRITTEN)

        def cpu() -> float | None:
            used = client.admin.command("serverStatus")["extra_info"]
            if len(client.nodes) > 1 or "user_time_us" not in used:
                return None
            return float(used["user_time_us"] + used["system_time_us"]) / 1e6

        client.drop_database(DATABASE)
        database[COLLECTION].insert_many(document(number) for number in range(DOCUMENTS))
        if all_sizes:
            database[COLLECTION].insert_many(sized(size, number) for size in SIZES for number in numbers_of(size))
        if many:
            database[MANY].insert_many((document(number) for number in range(MANY_DOCUMENTS)), ordered=False)
        try:
            yield Loaded(str(client.server_info()["version"]), empty, cpu)
        finally:
            client.drop_database(DATABASE)
