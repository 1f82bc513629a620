"""A consumer of a change stream that counts each event once, through failovers and restarts.

    python -m examples.change_stream_consumer "mongodb://localhost:27017/?replicaSet=rs0"

It adds up in ``shop.totals`` what is inserted into ``shop.sales``. Three things make that exact:

- The driver reopens the stream at the last event after a failover; the loop below notices nothing.
- The position in the stream (the resume token) is stored in the same transaction as the effect of the event. Either
  both are there or none, wherever the consumer ends.
- Started again, the consumer continues at the stored position. The server keeps events for as long as its oplog
  reaches back.

SIGTERM ends it at once: a transaction that has not been committed is aborted, and its event comes again.
"""

from __future__ import annotations

import asyncio
import logging
import signal
import sys
from typing import Any

from motorlite import AsyncClientSession, AsyncDatabase, AsyncMongoClient

Document = dict[str, Any]

CONSUMER = "totals"  # consumers with other names have positions of their own
INSERTS = [{"$match": {"operationType": "insert"}}]

log = logging.getLogger("consumer")


async def consume(shop: AsyncDatabase[Document]) -> None:
    """Follow the sales for ever."""
    position = await shop.positions.find_one({"_id": CONSUMER})
    async with await shop.sales.watch(INSERTS, resume_after=position and position["token"]) as stream:
        if position is None:
            # What is sold from now on counts, even if the consumer ends before the first event.
            await shop.positions.insert_one({"_id": CONSUMER, "token": stream.resume_token})
        log.info("ready")
        async for event in stream:
            await apply(shop, event)


async def apply(shop: AsyncDatabase[Document], event: Document) -> None:
    """Add one sale to the totals and store the position after it, or neither."""
    sale = event["fullDocument"]

    async def both(session: AsyncClientSession) -> None:
        await shop.totals.update_one(
            {"_id": sale["part"]}, {"$inc": {"sold": sale["count"]}}, upsert=True, session=session
        )
        await shop.positions.update_one({"_id": CONSUMER}, {"$set": {"token": event["_id"]}}, session=session)

    async with shop.client.start_session() as session:
        # Begins anew when the primary fails, and asks again whether a commit succeeded whose reply was lost.
        await session.with_transaction(both)


async def main(uri: str) -> None:
    task = asyncio.current_task()
    assert task is not None
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, task.cancel)
    try:
        async with AsyncMongoClient[Document](uri, w="majority") as client:
            await consume(client.shop)
    except asyncio.CancelledError:
        log.info("stopped")


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stdout)
    asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else "mongodb://localhost:27017"))
