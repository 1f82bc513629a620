"""`shop` is an `AsyncDatabase`: `client.shop`. Its collection `parts` has three documents, such as
`{"_id": 1, "name": "bolt", "stock": 10}`.
"""

from __future__ import annotations

from typing import Any

from motorlite import AsyncDatabase


async def aggregate(shop: AsyncDatabase) -> None:
    # For stages that need no collection.
    cursor = shop.aggregate([{"$documents": [{"n": 1}, {"n": 2}]}, {"$match": {"n": {"$gt": 1}}}])
    print(await cursor.to_list())
    # > [{'n': 2}]


async def command(shop: AsyncDatabase) -> None:
    reply = await shop.command("collStats", "parts")
    print(reply["count"])
    # > 3


async def create_collection(shop: AsyncDatabase) -> None:
    log = await shop.create_collection("log", capped=True, size=1_000_000)
    print((await log.options())["capped"])
    # > True


async def cursor_command(shop: AsyncDatabase) -> None:
    cursor = await shop.cursor_command({"find": "parts", "filter": {"stock": {"$gt": 15}}})
    print([part["name"] async for part in cursor])
    # > ['nut', 'screw']


async def dereference(shop: AsyncDatabase) -> None:
    from bson import DBRef

    print(await shop.dereference(DBRef("parts", 1)))
    # > {'_id': 1, 'name': 'bolt', 'stock': 10}


async def drop_collection(shop: AsyncDatabase) -> None:
    await shop.drop_collection("parts")
    print(await shop.list_collection_names())
    # > []


async def get_collection(shop: AsyncDatabase) -> None:
    from motorlite import WriteConcern

    parts = shop.get_collection("parts", write_concern=WriteConcern("majority"))  # as shop.parts, with options
    await parts.insert_one({"_id": 4, "name": "washer"})


async def list_collection_names(shop: AsyncDatabase) -> None:
    print(await shop.list_collection_names())
    # > ['parts']


async def list_collections(shop: AsyncDatabase) -> None:
    async for collection in await shop.list_collections():
        print(collection["name"], collection["type"])
        # > parts collection


async def validate_collection(shop: AsyncDatabase) -> None:
    report = await shop.validate_collection("parts")
    print(report["valid"], report["nrecords"])
    # > True 3


async def watch(shop: AsyncDatabase) -> None:
    async with await shop.watch([{"$match": {"operationType": "insert"}}]) as stream:
        await shop.orders.insert_one({"_id": 1, "part": "bolt"})
        print((await stream.next())["fullDocument"])
        # > {'_id': 1, 'part': 'bolt'}


async def with_options(shop: AsyncDatabase) -> None:
    from motorlite import ReadPreference

    reports: AsyncDatabase[Any] = shop.with_options(read_preference=ReadPreference.SECONDARY_PREFERRED)
    print(await reports.parts.count_documents({}))
    # > 3
