"""Shell: tasks that write, and keep a journal of what they asked for and what they were promised.

Each task does one kind of operation, again and again, with pauses. An operation that fails has one of two outcomes:
``unknown`` if the error says that it may have been executed, else ``failed``, which the account takes literally:
nothing of it may be there. That is what `may_have_been_executed` promises. An operation that is cancelled is unknown,
unless it is certain that nothing can come of it: a transaction without a commit, an upload that was cleaned up.
"""

from __future__ import annotations

import hashlib
import random
import time
import traceback
from collections import Counter
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import anyio

import motorlite
from motorlite import DeleteOne, InsertOne, ReplaceOne, ReturnDocument, UpdateOne
from motorlite.errors import BulkWriteError, InvalidOperation, ProtocolError, PyMongoError
from motorlite.gridfs import AsyncGridFSBucket, NoFile
from motorlite.read_concern import ReadConcern
from motorlite.write_concern import WriteConcern
from tests.torture.cancelling import Cancellable

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from motorlite import AsyncClientSession
    from motorlite.testing.journal import Journal, Outcome
    from tests.support.clients import Client

DATABASE: Final = "torture"
ACCOUNTS, BALANCE, COUNTERS, REGISTERS = 40, 100, 4, 6
# Lists that are appended to at the same time, and for how many seconds.
LISTS, PERIOD = 6, 10
MAJORITY: Final = WriteConcern("majority")
SNAPSHOT: Final[dict[str, Any]] = {"read_concern": ReadConcern("snapshot"), "write_concern": MAJORITY}
LINEARIZABLE: Final = ReadConcern("linearizable")
CHUNK: Final = 2048
# Seconds between two operations of a task.
PAUSES: Final = (0.0, 0.6)
# The share of operations with a time limit of their own, and the limit in seconds.
LIMITED, LIMITS = 0.1, (0.02, 3.0)
# Errors that say that the driver, or this program, is wrong.
WRONG: Final = (InvalidOperation, ProtocolError)
# The driver waits this long for a server; the longest of all waits for one that is gone.
OPTIONS: Final[dict[str, Any]] = {
    "w": "majority",
    "readConcernLevel": "majority",
    "serverSelectionTimeoutMS": 10_000,
    "connectTimeoutMS": 2_000,
    "heartbeatFrequencyMS": 1_000,
}


@dataclass(slots=True)
class Tally:
    """What happened in this process.

    Attributes:
        rounds: How often each task has succeeded.
        problems: What must not happen under any fault.
    """

    rounds: Counter[int] = field(default_factory=Counter)
    problems: list[str] = field(default_factory=list)

    def note(self, error: BaseException) -> None:
        """Keep an error that should not occur."""
        if isinstance(error, WRONG) or not isinstance(error, PyMongoError):
            self.problems.append("".join(traceback.format_exception(error)))


@dataclass(slots=True)
class Attempt:
    """One operation in progress.

    Attributes:
        is_harmless: Whether nothing can come of the operation if it ends now.
        outcome: What it ends with, if it ends with an error and knows better than the error.
        result: The details that it ends with.
    """

    is_harmless: bool = False
    outcome: Outcome | None = None
    result: dict[str, Any] = field(default_factory=dict)


class Task:
    """Does operations, one after another, as a process of the journal.

    Args:
        client: The client, which all tasks share.
        journal: The journal, likewise.
        tally: What happened, likewise.
        name: Unique in the run: part of the ids of what is written.
        number: Of the task, from 0; those of one kind follow each other.
    """

    # The share of steps with a time limit of their own.
    limited = LIMITED

    def __init__(self, client: Client, journal: Journal, tally: Tally, name: str, number: int) -> None:
        self.client = client
        self.database = client[DATABASE]
        self.journal = journal
        self.tally = tally
        self.name = name
        self.number = number
        self.process = journal.new_process()
        self.chance = random.Random(name)
        self.running = Cancellable(is_native=bool(number % 2))
        self.is_over = False
        self.has_ended = True
        self._done = 0

    async def run(self) -> None:
        """Go on until `is_over`."""
        self.has_ended = False
        while not self.is_over:
            self._done += 1
            limit = self.chance.uniform(*LIMITS) if self.chance.random() < self.limited else None
            try:
                await self.running.run(self._limited(limit, self.chance.random() < 0.5))
            except Exception as error:
                self.tally.note(error)
            await anyio.sleep(self.chance.uniform(*PAUSES))
        self.has_ended = True

    def _limited(self, limit: float | None, by_scope: bool) -> Callable[[], Awaitable[None]]:
        """One operation, sometimes with a time limit: that of the driver, or a cancel scope."""

        async def step() -> None:
            if limit is None:
                await self.step()
            elif by_scope:
                with anyio.move_on_after(limit):
                    await self.step()
            else:
                with motorlite.timeout(limit):
                    await self.step()

        return step

    async def step(self) -> None:
        """Do one operation."""
        raise NotImplementedError

    def new_id(self) -> str:
        """An `_id` that nothing else has."""
        self._done += 1
        return f"{self.name}-{self._done}"

    async def attempt(self, kind: str, work: Callable[[Attempt], Awaitable[None]], **details: Any) -> Outcome:
        """Do an operation, and write down what became of it."""
        operation = self.journal.begin(self.process, kind, **details)
        attempt = Attempt()
        outcome: Outcome = "unknown"
        try:
            await work(attempt)
            outcome = "ok"
            self.tally.rounds[self.number] += 1
        except PyMongoError as error:
            self.tally.note(error)
            outcome = "unknown" if error.may_have_been_executed and not attempt.is_harmless else "failed"
            outcome = attempt.outcome or outcome
            code = getattr(error, "code", None)
            attempt.result["error"] = type(error).__name__ if code is None else f"{type(error).__name__} {code}"
        except BaseException:
            outcome = attempt.outcome or ("failed" if attempt.is_harmless else "unknown")
            raise
        finally:
            self.journal.end(operation, outcome, **attempt.result)
            if outcome == "unknown":
                self.process = self.journal.new_process()
        return outcome


class Transfers(Task):
    """Move money between accounts in transactions: with `with_transaction`, or step by step."""

    async def step(self) -> None:
        source, target = self.chance.sample(range(ACCOUNTS), 2)
        amount, name = self.chance.randint(1, 9), self.new_id()
        is_convenient = self.chance.random() < 0.5
        transfer = {"_id": name, "source": source, "target": target, "amount": amount}

        async def move(session: AsyncClientSession) -> None:
            await self.database.transfers.insert_one(transfer, session=session)
            await self.database.accounts.update_one({"_id": source}, {"$inc": {"balance": -amount}}, session=session)
            await self.database.accounts.update_one({"_id": target}, {"$inc": {"balance": amount}}, session=session)

        async def work(attempt: Attempt) -> None:
            async with self.client.start_session() as session:
                if is_convenient:
                    await session.with_transaction(move, **SNAPSHOT)
                    return
                attempt.is_harmless = True
                async with session.start_transaction(**SNAPSHOT):
                    await move(session)
                    attempt.is_harmless = False

        await self.attempt("transfer", work, source=source, target=target, amount=amount, id=name)


class Inserts(Task):
    """Insert documents, one or several."""

    async def step(self) -> None:
        ids = [self.new_id() for _ in range(self.chance.choice((1, 1, 1, 5)))]
        is_ordered = self.chance.random() < 0.5

        async def work(attempt: Attempt) -> None:
            if len(ids) == 1:
                await self.database.inserts.insert_one({"_id": ids[0]})
                return
            try:
                await self.database.inserts.insert_many([{"_id": each} for each in ids], ordered=is_ordered)
            except BulkWriteError as error:
                _settle(attempt, error, is_ordered, len(ids))
                if "applied" in attempt.result:
                    attempt.result["applied"] = [ids[position] for position in attempt.result["applied"]]
                raise

        await self.attempt("insert", work, collection="inserts", ids=ids)


class Counts(Task):
    """Count with find_one_and_update."""

    async def step(self) -> None:
        counter = self.chance.randrange(COUNTERS)

        async def work(attempt: Attempt) -> None:
            after = await self.database.counters.find_one_and_update(
                {"_id": counter}, {"$inc": {"n": 1}}, return_document=ReturnDocument.AFTER
            )
            assert after is not None
            attempt.result["value"] = after["n"]

        await self.attempt("count", work, counter=counter)


class BulkWrites(Task):
    """Insert, change and delete documents of this task in bulk writes of their collection.

    A document is changed only while it is certain what it holds.
    """

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._known: list[str] = []

    async def step(self) -> None:
        is_ordered = self.chance.random() < 0.5
        self.chance.shuffle(self._known)
        changed, self._known = self._known[:4], self._known[4:]
        new = [self.new_id() for _ in range(self.chance.randint(1, 4))]
        # One kind of change in each bulk write, so that the result counts it.
        change = self.chance.choice(("update", "replace", "increment"))
        writes = [{"op": "insert", "collection": "bulk", "id": each, "value": self.number} for each in new]
        writes += [self._change(change if self.chance.random() < 0.7 else "delete", each) for each in changed]
        models = [_model(write) for write in writes]

        async def work(attempt: Attempt) -> None:
            try:
                result = await self.database.bulk.bulk_write(models, ordered=is_ordered)
            except BulkWriteError as error:
                _settle(attempt, error, is_ordered, len(writes))
                raise
            past = {"update": "updated", "replace": "replaced", "increment": "incremented"}[change]
            attempt.result |= {"inserted": result.inserted_count, "deleted": result.deleted_count}
            attempt.result[past] = result.matched_count

        if await self.attempt("bulk", work, writes=writes) == "ok":
            gone = {write["id"] for write in writes if write["op"] == "delete"}
            self._known += [each for each in (*new, *changed) if each not in gone]

    def _change(self, change: str, name: str) -> dict[str, Any]:
        write = {"op": change, "collection": "bulk", "id": name}
        return write if change in ("delete", "increment") else {**write, "value": self.chance.randrange(1000)}


class Files(Task):
    """Upload and delete files of GridFS."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._bucket = AsyncGridFSBucket(self.database)
        self._stored: list[str] = []

    async def step(self) -> None:
        if self._stored and self.chance.random() < 0.4:
            await self._delete(self._stored.pop())
        else:
            await self._upload()

    async def _upload(self) -> None:
        name, data = self.new_id(), self.chance.randbytes(self.chance.randrange(5 * CHUNK))
        digest = hashlib.sha256(data).hexdigest()

        async def work(attempt: Attempt) -> None:
            stream = self._bucket.open_upload_stream_with_id(name, name, chunk_size_bytes=CHUNK)
            try:
                async with stream:
                    half = len(data) // 2
                    await stream.write(data[:half])
                    await stream.write(data[half:])
            except PyMongoError as error:
                if isinstance(error, NoFile):
                    self.tally.problems.append(f"{name} is gone without a deletion: {error}")
                attempt.outcome = "unknown"
                await stream.abort()
                # A connection that got a stray reply is closed: what it has sent may be executed after the deletion.
                attempt.outcome = "unknown" if isinstance(error, ProtocolError) else "failed"
                raise
            except BaseException as error:
                # Without a note, the driver has deleted everything.
                attempt.outcome = "unknown" if getattr(error, "__notes__", None) else "failed"
                raise

        if await self.attempt("upload", work, file=name, length=len(data), digest=digest) == "ok":
            self._stored.append(name)

    async def _delete(self, name: str) -> None:
        async def work(attempt: Attempt) -> None:
            try:
                await self._bucket.delete(name)
            except Exception:
                raise
            except BaseException as error:
                # Without a note, a cancelled deletion leaves no chunks of a file that is gone.
                attempt.result["is_whole"] = not getattr(error, "__notes__", None)
                raise

        await self.attempt("delete_file", work, file=name)


class Registers(Task):
    """Read, write, and compare and swap values of which each is written once."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        # The last value read, by key.
        self._seen: dict[int, Any] = {}

    async def step(self) -> None:
        key = self.chance.randrange(REGISTERS)
        value = self.new_id()
        match self.chance.choice(("read", "read", "write", "cas")):
            case "read":
                await self.attempt("register", self._read(key), op="read", key=key)
            case "write":
                await self.attempt("register", self._write(key, value), op="write", key=key, value=value)
            case _:
                expected = self._seen.get(key)
                work = self._swap(key, expected, value)
                await self.attempt("register", work, op="cas", key=key, expected=expected, value=value)

    def _read(self, key: int) -> Callable[[Attempt], Awaitable[None]]:
        async def work(attempt: Attempt) -> None:
            registers = self.database.registers.with_options(read_concern=LINEARIZABLE)
            found = await registers.find_one({"_id": key})
            assert found is not None
            attempt.result["value"] = self._seen[key] = found["value"]

        return work

    def _write(self, key: int, value: str) -> Callable[[Attempt], Awaitable[None]]:
        async def work(_: Attempt) -> None:
            result = await self.database.registers.update_one({"_id": key}, {"$set": {"value": value}})
            assert result.matched_count == 1

        return work

    def _swap(self, key: int, expected: Any, value: str) -> Callable[[Attempt], Awaitable[None]]:
        async def work(attempt: Attempt) -> None:
            registers = self.database.registers
            result = await registers.update_one({"_id": key, "value": expected}, {"$set": {"value": value}})
            attempt.result["swapped"] = result.matched_count == 1

        return work


class Appends(Task):
    """Read lists and append to them in transactions, as Elle wants it."""

    async def step(self) -> None:
        first = int(time.monotonic() // PERIOD) * LISTS
        ops: list[list[Any]] = []
        for _ in range(self.chance.randint(1, 4)):
            key = first + self.chance.randrange(LISTS)
            ops.append(["read", key, None] if self.chance.random() < 0.5 else ["append", key, self._new_value()])

        async def work(attempt: Attempt) -> None:
            async with self.client.start_session() as session:
                attempt.result["ops"] = await session.with_transaction(partial(self._carry_out, ops), **SNAPSHOT)

        await self.attempt("append", work, ops=ops)

    def _new_value(self) -> int:
        # Unique in the run, like the numbers of processes.
        self._done += 1
        return self.process * 1_000_000 + self._done

    async def _carry_out(self, ops: list[list[Any]], session: AsyncClientSession) -> list[list[Any]]:
        done: list[list[Any]] = []
        for op, key, value in ops:
            if op == "read":
                found = await self.database.lists.find_one({"_id": key}, session=session)
                done.append([op, key, found["values"] if found else []])
            else:
                await self.database.lists.update_one(
                    {"_id": key}, {"$push": {"values": value}}, upsert=True, session=session
                )
                done.append([op, key, value])
        return done


def _model(write: dict[str, Any]) -> Any:
    where = {"_id": write["id"]}
    match write["op"]:
        case "insert":
            return InsertOne({**where, "value": write["value"]})
        case "replace":
            return ReplaceOne(where, {"value": write["value"]})
        case "update":
            return UpdateOne(where, {"$set": {"value": write["value"]}})
        case "increment":
            return UpdateOne(where, {"$inc": {"n": 1}})
    return DeleteOne(where)


def _settle(attempt: Attempt, error: BulkWriteError, is_ordered: bool, count: int) -> None:
    """Say which writes happened, which the error of a bulk write knows unless a majority did not confirm them."""
    details = error.details or {}
    if details.get("writeConcernErrors"):
        attempt.outcome = "unknown"
        return
    refused = {each["index"] for each in details["writeErrors"]}
    end = min(refused) if is_ordered else count
    attempt.outcome = "failed"
    attempt.result["applied"] = [position for position in range(end) if position not in refused]


async def prepare(client: Client, journal: Journal) -> None:
    """Write what the tasks find at their start, once for a run."""
    database = client[DATABASE]
    for name in ("transfers", "inserts", "bulk", "lists", "fs.files", "fs.chunks"):
        await database.create_collection(name)
    await database.accounts.insert_many([{"_id": each, "balance": BALANCE} for each in range(ACCOUNTS)])
    await database.counters.insert_many([{"_id": each, "n": 0} for each in range(COUNTERS)])
    await database.registers.insert_many([{"_id": each, "value": None} for each in range(REGISTERS)])
    journal.observe(
        journal.new_process(),
        "start",
        accounts=[[each, BALANCE] for each in range(ACCOUNTS)],
        counters=[[each, 0] for each in range(COUNTERS)],
        registers=[[each, None] for each in range(REGISTERS)],
        lists=[],
    )
