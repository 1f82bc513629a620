"""Shell: rounds of all arms against one server, interleaved."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

import pymongo
import pymongo.database

from benchmarks.arms import ARMS
from benchmarks.documents import COLLECTION, DATABASE, DOCUMENTS, document
from benchmarks.figures import Round
from benchmarks.processes import ChildFailedError, Worker, say
from benchmarks.speed.targets import EARLIER, SUBJECT
from benchmarks.speed.workloads import MANY, MANY_DOCUMENTS, WORKLOADS, WRITTEN

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

WARM_UP_OPERATIONS = 10_000
GRACE = 120.0  # seconds that an arm may exceed its round before it is killed


class Run:
    """The arms' processes and their measurements so far."""

    def __init__(
        self, arms: Sequence[str], uri: str, before: Path | None = None, *, clean: Callable[[], None] = lambda: None
    ) -> None:
        self._workers = {arm: Worker(arm, uri) for arm in arms}
        if before is not None:
            self._workers[EARLIER] = Worker(SUBJECT, uri, before)
        # Removes what earlier rounds have written.
        self._clean = clean
        self.rounds: list[Round] = []
        self.failures: dict[str, str] = {}

    def warm_up(self, tasks: int, operations: int = WARM_UP_OPERATIONS) -> None:
        """Run discarded operations on each arm, at the highest concurrency so that its pool is full."""
        for arm in list(self._workers):
            self.ask(arm, operation="find_one", tasks=tasks, operations=operations)

    def measure(self, plan: Sequence[tuple[str, int]], rounds: int, **extent: float) -> None:
        """Run the rounds of all operations, each at its number of tasks; `extent` is `seconds` or `operations`."""
        for number in range(rounds):
            for operation, tasks in plan:
                if WORKLOADS[operation].is_write:
                    self._clean()  # for all arms together: a server is slow after a drop
                for arm in rotated(list(self._workers), number):
                    figures = self.ask(arm, operation=operation, tasks=tasks, **extent)
                    if figures:  # else the driver has no such operation
                        self.rounds.append(Round(operation, arm, tasks, number + 1, **figures))
            say(f"round {number + 1} of {rounds} done")

    def close(self) -> None:
        """End all processes."""
        for worker in self._workers.values():
            worker.close()

    def ask(self, arm: str, **request: Any) -> dict[str, Any] | None:
        """Run one round; None if the arm failed, and empty if it does not have the operation."""
        if arm not in self._workers:
            return None
        try:
            return self._workers[arm].run(limit=request.get("seconds", 0) + GRACE, **request)
        except ChildFailedError as error:
            say(f"{arm} failed and is left out: {error}")
            self.failures[arm] = str(error)
            self._workers.pop(arm).close()
            # The medians of an arm that failed midway are not comparable.
            self.rounds = [one for one in self.rounds if one.arm != arm]
            return None


def rotated(arms: list[str], by: int) -> list[str]:
    """The arms, rotated: a different arm starts each round."""
    at = by % len(arms) if arms else 0
    return arms[at:] + arms[:at]


def missing(arms: Sequence[str]) -> dict[str, str]:
    """The arms that cannot be measured, and what they lack."""
    lacking = {arm: ", ".join(ARMS[arm].missing()) for arm in arms}
    found = {arm: f"{what} cannot be imported" for arm, what in lacking.items() if what}
    for arm, why in found.items():
        say(f"{arm} is not measured: {why}")
    return found


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
def documents(uri: str, *, many: bool) -> Iterator[tuple[str, Callable[[], None]]]:
    """Insert the documents for the run; yield the server's version, and what removes the documents written by a round.

    Args:
        uri: The server.
        many: Whether long cursors are measured too.
    """
    with pymongo.MongoClient[dict[str, Any]](uri) as client:
        database = client[DATABASE]
        client.drop_database(DATABASE)
        database[COLLECTION].insert_many(document(number) for number in range(DOCUMENTS))
        if many:
            database[MANY].insert_many((document(number) for number in range(MANY_DOCUMENTS)), ordered=False)
        try:
            yield str(client.server_info()["version"]), lambda: _empty(database)
        finally:
            client.drop_database(DATABASE)


def _empty(database: pymongo.database.Database[dict[str, Any]]) -> None:
    database[WRITTEN].drop()
    database.create_collection(WRITTEN)
