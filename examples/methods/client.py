"""`client` is an open `AsyncMongoClient`."""

from __future__ import annotations

from motorlite import AsyncMongoClient


async def aconnect(client: AsyncMongoClient) -> None:
    await client.aconnect()  # begins to look for the servers, before the first operation does


async def append_metadata(client: AsyncMongoClient) -> None:
    from motorlite.driver_info import DriverInfo

    client.append_metadata(DriverInfo("my-mapper", "1.2"))  # the server's log shows who is connected


async def bulk_write(client: AsyncMongoClient) -> None:
    from motorlite import InsertOne, UpdateOne

    result = await client.bulk_write(
        [
            InsertOne({"_id": 4, "name": "washer"}, namespace="shop.parts"),
            UpdateOne({"_id": "visits"}, {"$inc": {"n": 1}}, upsert=True, namespace="shop.counters"),
        ]
    )
    print(result.inserted_count, result.upserted_count)
    # > 1 1


async def close(client: AsyncMongoClient) -> None:
    client = AsyncMongoClient("mongodb://localhost:27017")
    try:
        await client.admin.command("ping")
    finally:
        await client.close()  # `async with client:` does the same


async def drop_database(client: AsyncMongoClient) -> None:
    await client.drop_database("old_shop")


async def get_database(client: AsyncMongoClient) -> None:
    shop = client.get_database("shop", timeoutMS=500)  # as client.shop, with options of its own
    print(await shop.parts.count_documents({}))
    # > 3


async def get_default_database(client: AsyncMongoClient) -> None:
    async with AsyncMongoClient("mongodb://localhost:27017/shop") as client:
        print(client.get_default_database().name)
        # > shop


async def list_database_names(client: AsyncMongoClient) -> None:
    print("shop" in await client.list_database_names())
    # > True


async def list_databases(client: AsyncMongoClient) -> None:
    async for database in client.list_databases():
        if database["name"] == "shop":
            print(database["sizeOnDisk"] > 0)
            # > True


async def server_info(client: AsyncMongoClient) -> None:
    info = await client.server_info()
    print(info["versionArray"][0] >= 4)
    # > True


async def set_default_max_time(client: AsyncMongoClient) -> None:
    client.set_default_max_time(2.0)  # seconds on the server, for operations without a limit of their own
    print(client.default_max_time)
    # > 2.0


async def start_session(client: AsyncMongoClient) -> None:
    async with client.start_session() as session:
        await client.shop.parts.insert_one({"_id": 4, "name": "washer"}, session=session)
        # A session reads its own writes, also from a secondary.
        print(await client.shop.parts.find_one({"_id": 4}, session=session))
        # > {'_id': 4, 'name': 'washer'}


async def stats(client: AsyncMongoClient) -> None:
    stats = client.stats()
    print(stats.tokens)  # what is left of the budget for retries
    # > 1000.0
    for server in stats.servers.values():
        print(server.in_use, "connections in use")
        # > 0 connections in use


async def watch(client: AsyncMongoClient) -> None:
    async with await client.watch() as stream:
        await client.shop.orders.insert_one({"_id": 1})
        change = await stream.next()
        print(change["ns"], change["operationType"])
        # > {'db': 'shop', 'coll': 'orders'} insert
