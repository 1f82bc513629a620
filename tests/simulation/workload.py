"""Shell: what the simulation's tasks do besides those of the torture, and the clients that they do it with."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from motorlite import InsertOne
from motorlite.errors import PyMongoError
from motorlite.retry import RetryBudget
from tests.simulation.chores import Chores
from tests.torture.streams import Reader
from tests.torture.workload import (
    ACCOUNTS,
    DATABASE,
    OPTIONS,
    Appends,
    Attempt,
    BulkWrites,
    Counts,
    Files,
    Inserts,
    Registers,
    Task,
    Transfers,
)

if TYPE_CHECKING:
    from random import Random


class ClientInserts(Task):
    """Insert documents into two collections with one bulk write of the client."""

    async def step(self) -> None:
        ids = [self.new_id() for _ in range(self.chance.randint(1, 6))]
        is_ordered, is_verbose = self.chance.random() < 0.5, self.chance.random() < 0.5

        async def work(_: Attempt) -> None:
            models = [InsertOne({"_id": each}, namespace=f"{DATABASE}.inserts") for each in ids]
            result = await self.client.bulk_write(models, ordered=is_ordered, verbose_results=is_verbose)
            assert result.inserted_count == len(ids)

        await self.attempt("insert", work, collection="inserts", ids=ids)


class Reads(Task):
    """Read all accounts in small batches, whose documents must be complete and in order."""

    async def step(self) -> None:
        cursor = self.database.accounts.find({}, sort={"_id": 1}, batch_size=self.chance.randint(2, 20))
        try:
            found = [document["_id"] async for document in cursor]
        except PyMongoError as error:
            self.tally.note(error)
            return
        finally:
            await cursor.close()
        if found != list(range(ACCOUNTS)):
            self.tally.problems.append(f"{self.name} has read the accounts {found}")


KINDS: Final[tuple[type[Task], ...]] = (
    *(Transfers, Transfers, Transfers, Inserts, Inserts, ClientInserts, Counts, Counts),
    *(BulkWrites, Files, Registers, Registers, Appends, Appends, Appends, Reader, Reader, Reads, Chores, Chores),
)
"""The tasks of a run; each works with one of the clients in turn."""


def options(chance: Random) -> dict[str, Any]:
    """The options of a client."""
    drawn = {
        "maxPoolSize": chance.choice((1, 2, 4, 100)),
        "maxConnecting": chance.choice((1, 2, 8)),
        "serverMonitoringMode": chance.choice(("auto", "poll", "stream")),
        "timeoutMS": chance.choice((None, None, 2000, 10_000)),
        "retry_budget": RetryBudget(chance.choice((2, 5, 1000))),
        "maxAdaptiveRetries": chance.choice((1, 5)),
        "retryReads": chance.random() < 0.9,
        "retryWrites": chance.random() < 0.9,
    }
    return {**OPTIONS, **{name: value for name, value in drawn.items() if value is not None}}
