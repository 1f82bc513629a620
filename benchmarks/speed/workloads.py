"""Net: what the drivers are measured with, each operation checked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from benchmarks.documents import COLLECTION, DOCUMENTS, SIZES, document, numbers_of

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from benchmarks.arms import Driver

    # Performs one operation; the number chooses the document.
    Perform = Callable[[int], Coroutine[Any, Any, None]]

# Beside `COLLECTION`: many documents to read, and a collection that is dropped before each round.
MANY, WRITTEN = "many", "written"
MANY_DOCUMENTS: Final = 100_000
FOUND, BULK, INSERTED = 10, 1000, 20_000
ALL_TASKS = (1, 8, 50, 500, 10_000)
# How many of twenty operations are which.
MIXTURE: Final = {"find_one": 14, "update_one": 3, "insert_one": 2, "find_10": 1}


@dataclass(frozen=True, slots=True)
class Workload:
    """An operation, and how many tasks `bench` measures it with; without any, only `scale` does."""

    name: str
    title: str
    tasks: tuple[int, ...] = ()
    is_write: bool = False

    def at(self, tasks: int) -> str:
        """The operation at a number of tasks, as a title."""
        return at(self.title, tasks)


def at(title: str, tasks: int) -> str:
    """An operation at a number of tasks, as a title."""
    return f"{title}, {tasks:,} task{'s' if tasks > 1 else ''}"


WORKLOADS: Final = {
    workload.name: workload
    for workload in (
        Workload("find_one", "find_one by _id", ALL_TASKS),
        Workload("find_10", f"find of {FOUND} documents", (1, 50, 500)),
        Workload("find_100k", f"find of {MANY_DOCUMENTS:,} documents, as a list", (1,)),
        Workload("aggregate_100k", f"aggregate of {MANY_DOCUMENTS:,} documents, as a list", (1,)),
        Workload("insert_one", "insert_one", ALL_TASKS, is_write=True),
        Workload("update_one", "update_one by _id", ALL_TASKS, is_write=True),
        Workload("replace_one", "replace_one by _id", (1, 50), is_write=True),
        Workload("bulk_write", f"bulk_write of {BULK} inserts", (1,), is_write=True),
        Workload("insert_many", f"insert_many of {INSERTED:,} documents", (1,), is_write=True),
        Workload("mixed", "mixed operations", is_write=True),
        *(Workload(f"reply_{size}", f"find_one, a reply of {size / 1000:g} KB") for size in SIZES),
    )
}


def performers(driver: Driver) -> dict[str, Perform]:
    """The workloads that a driver can do, by name."""

    async def find_one(number: int) -> None:
        found = await driver.find_one({"_id": number})
        if found is None or found["_id"] != number:
            raise ValueError(f"asked for document {number}, got {found!r}")

    def reply(size: int) -> Perform:
        numbers = numbers_of(size)

        async def perform(number: int) -> None:
            await find_one(numbers[number % len(numbers)])

        return perform

    found = {"find_one": find_one, **{f"reply_{size}": reply(size) for size in SIZES}}
    return found if driver.database is None else {**found, **_mixed({**found, **_others(driver)})}


def _mixed(known: dict[str, Perform]) -> dict[str, Perform]:
    """The workloads, and a mixture of some of them: each task performs all twenty in turn, scattered."""
    each = [known[name] for name, share in MIXTURE.items() for _ in range(share)]

    async def mixed(number: int) -> None:
        await each[number * 7 % len(each)](number)

    return {**known, "mixed": mixed}


def _others(driver: Driver) -> dict[str, Perform]:
    read_all, models = driver.read_all, driver.models
    chosen, many, written = (driver.database[name] for name in (COLLECTION, MANY, WRITTEN))
    samples = [{key: value for key, value in document(number).items() if key != "_id"} for number in range(INSERTED)]
    assert read_all is not None

    async def find_10(number: int) -> None:
        first = min(number, DOCUMENTS - FOUND)
        check(len(await read_all(chosen.find({"_id": {"$gte": first, "$lt": first + FOUND}}))), FOUND)

    async def find_100k(_number: int) -> None:
        check(len(await read_all(many.find({}))), MANY_DOCUMENTS)

    async def aggregate_100k(_number: int) -> None:
        check(len(await read_all(many.aggregate([{"$match": {}}]))), MANY_DOCUMENTS)

    async def insert_one(number: int) -> None:
        await written.insert_one({**samples[number]})

    async def update_one(number: int) -> None:
        check(_of(await chosen.update_one({"_id": number}, {"$inc": {"visits": 1}}), "matched_count"), 1)

    async def replace_one(number: int) -> None:
        check(_of(await chosen.replace_one({"_id": number}, samples[number]), "matched_count"), 1)

    async def insert_many(_number: int) -> None:
        result = await written.insert_many([{**sample} for sample in samples])
        check(len(_of(result, "inserted_ids")), INSERTED)

    async def bulk_write(_number: int) -> None:
        result = await written.bulk_write([models.InsertOne({**sample}) for sample in samples[:BULK]])
        check(result.inserted_count, BULK)

    found = [find_10, find_100k, aggregate_100k, insert_one, update_one, replace_one, insert_many]
    return {perform.__name__: perform for perform in (*found, *([] if models is None else [bulk_write]))}


def _of(result: Any, name: str) -> Any:
    return result[name] if isinstance(result, dict) else getattr(result, name)


def check(found: int, expected: int) -> None:
    """Fail a round that found something else."""
    if found != expected:
        raise ValueError(f"expected {expected:,}, got {found:,}")
