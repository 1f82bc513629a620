"""Shell: what the simulation's tasks do besides those of the torture, and the clients that they do it with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from motorlite import InsertOne
from motorlite.errors import ProtocolError, PyMongoError
from motorlite.retry import RetryBudget
from tests.simulation.changes import HISTORY_LOST, INVALIDATED
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
    Tally,
    Task,
    Transfers,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from random import Random


# The share of reads of a change stream that take several changes.
LISTED: Final = 0.3


@dataclass(slots=True)
class Excused(Tally):
    """What happened, but for what servers are to blame for.

    Attributes:
        may_lose_place: Whether a server may have told a change stream that its history is lost.
        may_be_unasked: Whether a server has sent a reply without a request.
    """

    may_lose_place: Callable[[], bool] = bool
    may_be_unasked: Callable[[], bool] = bool

    def note(self, error: BaseException) -> None:
        if not (isinstance(error, ProtocolError) and self.may_be_unasked()):
            super(Excused, self).note(error)


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


class Watcher(Reader):
    """A reader whose streams are also invalidated, and lose their history."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._lost = 0

    def place(self) -> dict[str, Any]:
        if self.token is not None and self.token["_data"].endswith(INVALIDATED):
            return {"start_after": self.token}
        return super().place()

    def lose_place(self, error: PyMongoError) -> None:
        # Here ends the stream, as far as the account is concerned. What is missing up to its last change was lost.
        assert isinstance(self.tally, Excused)
        if not self.tally.may_lose_place() or getattr(error, "code", None) != HISTORY_LOST:
            super().lose_place(error)
            return
        self._observe("stopped")
        self._lost += 1
        self.stream, self.token = f"stream-{self.number}-{self._lost}", None

    async def read_some(self, changes: Any, *, is_patient: bool) -> list[dict[str, Any]]:
        if self.chance.random() < LISTED:
            found: list[dict[str, Any]] = await changes.to_list(self.chance.randint(1, 4))
        else:
            found = await super().read_some(changes, is_patient=is_patient)
        if found and found[-1]["operationType"] == "invalidate":
            assert not changes.alive
            assert changes.resume_token == found[-1]["_id"]
            found.pop()
        return found


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
    *(BulkWrites, Files, Registers, Registers, Appends, Appends, Appends, Watcher, Watcher, Reads, Chores, Chores),
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
