import asyncio
import os

from worker import connected, ledger_of
from worker.consumer import Consumer, report, transfer


async def main() -> None:
    name = os.environ["MONGODB_DATABASE"]
    async with connected(os.environ["MONGODB_URI"]) as client:
        database = client[name]
        await database.accounts.insert_many([{"_id": "ann", "balance": 100}, {"_id": "bob", "balance": 0}])
        consumer = Consumer(database)
        running = asyncio.create_task(consumer.run(4))
        while consumer.token is None:
            # Until the stream is open, nothing is followed.
            assert await transfer(database, "ann", "bob", 1)
            await asyncio.sleep(0.05)
        assert not await transfer(database, "bob", "ann", 1000)
        while not running.done():
            assert await transfer(database, "ann", "bob", 1)
            await asyncio.sleep(0.05)
        print("booked:", await running, "entries:", await ledger_of(client, name).count_documents({}))
        print("accounts:", sorted(row["_id"] for row in await report(database) if "last" in row))


asyncio.run(main())
