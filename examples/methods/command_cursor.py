"""`parts` is an `AsyncCollection` with three documents, such as `{"_id": 1, "name": "bolt", "stock": 10}`."""

from __future__ import annotations

from motorlite import AsyncCollection


async def batch_size(parts: AsyncCollection) -> None:
    cursor = parts.aggregate([{"$sort": {"_id": 1}}]).batch_size(100)
    print(len(await cursor.to_list()))
    # > 3


async def batches(parts: AsyncCollection) -> None:
    async for batch in parts.aggregate([{"$sort": {"_id": 1}}], batchSize=2).batches():
        print(len(batch))
        # > 2
        # > 1


async def next(parts: AsyncCollection) -> None:
    cursor = parts.aggregate([{"$group": {"_id": None, "stock": {"$sum": "$stock"}}}])
    print(await cursor.next())
    # > {'_id': None, 'stock': 60}


async def to_list(parts: AsyncCollection) -> None:
    print(await parts.aggregate([{"$count": "n"}]).to_list())
    # > [{'n': 3}]


async def try_next(parts: AsyncCollection) -> None:
    cursor = parts.aggregate([{"$match": {"stock": {"$gt": 100}}}])
    print(await cursor.try_next())  # None instead of waiting or raising
    # > None
