"""`parts` is an `AsyncCollection` with three documents, such as `{"_id": 1, "name": "bolt", "stock": 10}`."""

from __future__ import annotations

from motorlite import AsyncCollection


async def aggregate(parts: AsyncCollection) -> None:
    match = {"$match": {"stock": {"$gt": 15}}}
    async for row in parts.aggregate([match, {"$group": {"_id": None, "total": {"$sum": "$stock"}}}]):
        print(row)
        # > {'_id': None, 'total': 50}


async def aggregate_raw_batches(parts: AsyncCollection) -> None:
    import bson

    async for batch in parts.aggregate_raw_batches([{"$sort": {"_id": 1}}]):
        print(len(bson.decode_all(batch)))
        # > 3


async def bulk_write(parts: AsyncCollection) -> None:
    from motorlite import DeleteOne, InsertOne, UpdateMany

    result = await parts.bulk_write(
        [
            InsertOne({"_id": 4, "name": "washer", "stock": 0}),
            UpdateMany({"stock": {"$lt": 15}}, {"$inc": {"stock": 100}}),
            DeleteOne({"_id": 3}),
        ]
    )
    print(result.inserted_count, result.modified_count, result.deleted_count)
    # > 1 2 1


async def count_documents(parts: AsyncCollection) -> None:
    print(await parts.count_documents({"stock": {"$gt": 15}}))
    # > 2


async def create_index(parts: AsyncCollection) -> None:
    print(await parts.create_index([("name", 1), ("stock", -1)], unique=True))
    # > name_1_stock_-1


async def create_indexes(parts: AsyncCollection) -> None:
    from motorlite import IndexModel

    print(await parts.create_indexes([IndexModel("name"), IndexModel([("stock", -1)])]))
    # > ['name_1', 'stock_-1']


async def create_search_index(parts: AsyncCollection) -> None:
    print(await parts.create_search_index({"name": "by_name", "definition": {"mappings": {"dynamic": True}}}))
    # > by_name


async def create_search_indexes(parts: AsyncCollection) -> None:
    from motorlite.operations import SearchIndexModel

    print(await parts.create_search_indexes([SearchIndexModel({"mappings": {"dynamic": True}}, name="by_name")]))
    # > ['by_name']


async def delete_many(parts: AsyncCollection) -> None:
    result = await parts.delete_many({"stock": {"$lt": 25}})
    print(result.deleted_count)
    # > 2


async def delete_one(parts: AsyncCollection) -> None:
    result = await parts.delete_one({"_id": 1})
    print(result.deleted_count)
    # > 1


async def distinct(parts: AsyncCollection) -> None:
    print(await parts.distinct("name", {"stock": {"$lt": 25}}))
    # > ['bolt', 'nut']


async def drop(parts: AsyncCollection) -> None:
    await parts.drop()
    print(await parts.count_documents({}))
    # > 0


async def drop_index(parts: AsyncCollection) -> None:
    name = await parts.create_index("stock")
    await parts.drop_index(name)


async def drop_indexes(parts: AsyncCollection) -> None:
    await parts.create_index("stock")
    await parts.drop_indexes()
    print(list(await parts.index_information()))
    # > ['_id_']


async def drop_search_index(parts: AsyncCollection) -> None:
    await parts.drop_search_index("by_name")


async def estimated_document_count(parts: AsyncCollection) -> None:
    print(await parts.estimated_document_count())  # from metadata: fast, and without a filter
    # > 3


async def find(parts: AsyncCollection) -> None:
    async for part in parts.find({"stock": {"$gt": 15}}, {"_id": False}).sort("stock"):
        print(part)
        # > {'name': 'nut', 'stock': 20}
        # > {'name': 'screw', 'stock': 30}


async def find_one(parts: AsyncCollection) -> None:
    print(await parts.find_one({"name": "nut"}))
    # > {'_id': 2, 'name': 'nut', 'stock': 20}
    print(await parts.find_one({"name": "gear"}))
    # > None


async def find_one_and_delete(parts: AsyncCollection) -> None:
    print(await parts.find_one_and_delete({"stock": {"$lt": 15}}))
    # > {'_id': 1, 'name': 'bolt', 'stock': 10}


async def find_one_and_replace(parts: AsyncCollection) -> None:
    from motorlite import ReturnDocument

    new = {"name": "hex bolt", "stock": 5}
    print(await parts.find_one_and_replace({"_id": 1}, new, return_document=ReturnDocument.AFTER))
    # > {'_id': 1, 'name': 'hex bolt', 'stock': 5}


async def find_one_and_update(parts: AsyncCollection) -> None:
    from motorlite import ReturnDocument

    part = await parts.find_one_and_update(
        {"_id": 1, "stock": {"$gte": 3}}, {"$inc": {"stock": -3}}, return_document=ReturnDocument.AFTER
    )
    print(part)  # None if there were fewer than three
    # > {'_id': 1, 'name': 'bolt', 'stock': 7}


async def find_raw_batches(parts: AsyncCollection) -> None:
    import bson

    async for batch in parts.find_raw_batches({"stock": {"$gt": 15}}):
        print([part["name"] for part in bson.decode_all(batch)])
        # > ['nut', 'screw']


async def index_information(parts: AsyncCollection) -> None:
    await parts.create_index("stock")
    for name, index in (await parts.index_information()).items():
        print(name, index["key"])
        # > _id_ [('_id', 1)]
        # > stock_1 [('stock', 1)]


async def insert_many(parts: AsyncCollection) -> None:
    result = await parts.insert_many([{"_id": n, "name": f"part {n}"} for n in range(4, 7)])
    print(result.inserted_ids)
    # > [4, 5, 6]


async def insert_one(parts: AsyncCollection) -> None:
    result = await parts.insert_one({"name": "washer", "stock": 40})
    print(await parts.find_one({"_id": result.inserted_id}, {"_id": False}))
    # > {'name': 'washer', 'stock': 40}


async def list_indexes(parts: AsyncCollection) -> None:
    async for index in await parts.list_indexes():
        print(index["name"])
        # > _id_


async def list_search_indexes(parts: AsyncCollection) -> None:
    async for index in await parts.list_search_indexes():
        print(index["name"], index["status"])
        # > by_name READY


async def options(parts: AsyncCollection) -> None:
    log = await parts.database.create_collection("log", capped=True, size=1_000_000)
    print((await log.options())["capped"])
    # > True


async def rename(parts: AsyncCollection) -> None:
    await parts.rename("old_parts")
    print(await parts.database.list_collection_names())
    # > ['old_parts']


async def replace_one(parts: AsyncCollection) -> None:
    result = await parts.replace_one({"_id": 4}, {"name": "washer"}, upsert=True)
    print(result.matched_count, result.upserted_id)
    # > 0 4


async def update_many(parts: AsyncCollection) -> None:
    result = await parts.update_many({"stock": {"$lt": 25}}, {"$set": {"scarce": True}})
    print(result.matched_count, result.modified_count)
    # > 2 2


async def update_one(parts: AsyncCollection) -> None:
    result = await parts.update_one({"_id": 1}, {"$inc": {"stock": -3}})
    print(result.modified_count)
    # > 1


async def update_search_index(parts: AsyncCollection) -> None:
    await parts.update_search_index("by_name", {"mappings": {"fields": {"name": {"type": "string"}}}})


async def watch(parts: AsyncCollection) -> None:
    async with await parts.watch([{"$match": {"operationType": "update"}}]) as stream:
        await parts.update_one({"_id": 1}, {"$inc": {"stock": -3}})
        change = await stream.next()
        print(change["updateDescription"]["updatedFields"])
        # > {'stock': 7}


async def with_options(parts: AsyncCollection) -> None:
    from motorlite import WriteConcern

    log = parts.with_options(write_concern=WriteConcern(w=0))  # does not wait for a reply
    print((await log.insert_one({"_id": 4})).acknowledged)
    # > False
