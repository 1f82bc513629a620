"""`parts` is an `AsyncCollection` with three documents, such as `{"_id": 1, "name": "bolt", "stock": 10}`. `find` sends
nothing, so a cursor can be refined until its first step.
"""

from __future__ import annotations

from motorlite import AsyncCollection


async def add_option(parts: AsyncCollection) -> None:
    cursor = await parts.find().add_option(16)  # the same as no_cursor_timeout=True
    print(len(await cursor.to_list()))
    # > 3


async def allow_disk_use(parts: AsyncCollection) -> None:
    cursor = parts.find().sort("name").allow_disk_use(True)
    print(len(await cursor.to_list()))
    # > 3


async def batch_size(parts: AsyncCollection) -> None:
    async for part in parts.find().batch_size(2):  # two documents in each reply of the server
        print(part["name"])
        # > bolt
        # > nut
        # > screw


async def batches(parts: AsyncCollection) -> None:
    async for batch in parts.find().batch_size(2).batches():
        print([part["name"] for part in batch])
        # > ['bolt', 'nut']
        # > ['screw']


async def clone(parts: AsyncCollection) -> None:
    cursor = parts.find({"stock": {"$gt": 15}})
    first = await cursor.to_list()
    again = await cursor.clone().to_list()
    print(first == again)
    # > True


async def close(parts: AsyncCollection) -> None:
    cursor = parts.find()
    print((await cursor.next())["name"])
    # > bolt
    await cursor.close()  # the server forgets the rest; `async with cursor:` does the same


async def collation(parts: AsyncCollection) -> None:
    cursor = parts.find({"name": "BOLT"}).collation({"locale": "en", "strength": 2})
    print((await cursor.next())["name"])
    # > bolt


async def comment(parts: AsyncCollection) -> None:
    cursor = parts.find().comment("nightly report")  # the server's log and profile show it
    print(len(await cursor.to_list()))
    # > 3


async def distinct(parts: AsyncCollection) -> None:
    print(await parts.find({"stock": {"$gt": 15}}).distinct("name"))
    # > ['nut', 'screw']


async def explain(parts: AsyncCollection) -> None:
    plan = await parts.find({"_id": 1}).explain()
    print(plan["executionStats"]["nReturned"])
    # > 1


async def hint(parts: AsyncCollection) -> None:
    await parts.create_index("stock")
    cursor = parts.find({"stock": {"$gt": 15}, "name": "nut"}).hint([("stock", 1)])
    print(len(await cursor.to_list()))
    # > 1


async def limit(parts: AsyncCollection) -> None:
    print([part["name"] for part in await parts.find().sort("_id").limit(2).to_list()])
    # > ['bolt', 'nut']


async def max(parts: AsyncCollection) -> None:
    cursor = parts.find().hint([("_id", 1)]).max([("_id", 3)])  # below 3
    print([part["name"] for part in await cursor.to_list()])
    # > ['bolt', 'nut']


async def max_await_time_ms(parts: AsyncCollection) -> None:
    from motorlite.cursor import CursorType

    log = await parts.database.create_collection("log", capped=True, size=100_000)
    await log.insert_one({"_id": 1})
    cursor = log.find(cursor_type=CursorType.TAILABLE_AWAIT).max_await_time_ms(100)
    print(await cursor.next())
    # > {'_id': 1}
    await cursor.close()


async def max_scan(parts: AsyncCollection) -> None:
    from motorlite.errors import OperationFailure

    try:
        await parts.find().max_scan(100).to_list()
    except OperationFailure:
        print("servers no longer know this option; use max_time_ms")
        # > servers no longer know this option; use max_time_ms


async def max_time_ms(parts: AsyncCollection) -> None:
    cursor = parts.find({"name": "nut"}).max_time_ms(500)  # the server gives up after half a second
    print(len(await cursor.to_list()))
    # > 1


async def min(parts: AsyncCollection) -> None:
    cursor = parts.find().hint([("_id", 1)]).min([("_id", 2)])  # 2 and above
    print([part["name"] for part in await cursor.to_list()])
    # > ['nut', 'screw']


async def next(parts: AsyncCollection) -> None:
    cursor = parts.find().sort("stock", -1)
    print(await cursor.next())
    # > {'_id': 3, 'name': 'screw', 'stock': 30}


async def remove_option(parts: AsyncCollection) -> None:
    cursor = parts.find(no_cursor_timeout=True).remove_option(16)
    print(len(await cursor.to_list()))
    # > 3


async def rewind(parts: AsyncCollection) -> None:
    cursor = parts.find().sort("_id")
    first = await cursor.next()
    await cursor.rewind()
    print(await cursor.next() == first)
    # > True


async def skip(parts: AsyncCollection) -> None:
    print([part["name"] for part in await parts.find().sort("_id").skip(1).to_list()])
    # > ['nut', 'screw']


async def sort(parts: AsyncCollection) -> None:
    cursor = parts.find().sort([("stock", -1), ("name", 1)])
    print([part["stock"] for part in await cursor.to_list()])
    # > [30, 20, 10]


async def to_list(parts: AsyncCollection) -> None:
    cursor = parts.find().sort("_id")
    print(len(await cursor.to_list(2)), len(await cursor.to_list()))  # at most two, then the rest
    # > 2 1


async def where(parts: AsyncCollection) -> None:
    cursor = parts.find().where("this.stock > 15")  # JavaScript on the server: slow, and off in many places
    print(len(await cursor.to_list()))
    # > 2
