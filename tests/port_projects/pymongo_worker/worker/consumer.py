"""Follows the accounts' changes, and books them."""

from __future__ import annotations

import typing as t

import pymongo.errors as mongo_errors
from pymongo import ReturnDocument
from pymongo.asynchronous.client_session import AsyncClientSession
from pymongo.asynchronous.database import AsyncDatabase

if t.TYPE_CHECKING:
    from pymongo.asynchronous.change_stream import AsyncCollectionChangeStream
    from pymongo.asynchronous.cursor import AsyncCursor

T = t.TypeVar("T", bound="AsyncDatabase")


class Consumer(t.Generic[T]):
    stream: AsyncCollectionChangeStream[dict]

    def __init__(self, database: T) -> None:
        self.database = database
        self.token: t.Any = None

    async def run(self, count: int) -> int:
        """Book so many changes."""
        booked = 0
        async with await self.database.accounts.watch(
            [{"$match": {"operationType": "update"}}],
            full_document="updateLookup",
            resume_after=self.token,
        ) as stream:
            async for change in stream:
                await self.book(change)
                self.token = stream.resume_token
                booked += 1
                if booked == count:
                    break
        return booked

    async def book(self, change: dict) -> None:
        async with self.database.client.start_session() as session:
            await session.with_transaction(lambda s: self._book(s, change))

    async def _book(self, session: AsyncClientSession, change: dict) -> None:
        number = await self.database.counters.find_one_and_update(
            {"_id": "ledger"},
            {"$inc": {"next": 1}},
            upsert=True,
            return_document=ReturnDocument.AFTER,
            session=session,
        )
        entry = {"_id": number["next"], "account": change["documentKey"]["_id"], "balance": change["fullDocument"]["balance"]}
        await self.database.ledger.insert_one(entry, session=session)


async def transfer(database: AsyncDatabase, source: str, target: str, amount: int) -> bool:
    async with database.client.start_session() as session:
        try:
            async with await session.start_transaction():
                taken = await database.accounts.update_one(
                    {"_id": source, "balance": {"$gte": amount}}, {"$inc": {"balance": -amount}}, session=session
                )
                if not taken.modified_count:
                    await session.abort_transaction()
                    return False
                await database.accounts.update_one({"_id": target}, {"$inc": {"balance": amount}}, session=session)
        except (mongo_errors.ConnectionFailure, mongo_errors.OperationFailure):
            return False
    return True


async def report(database: AsyncDatabase) -> list[dict]:
    entries: AsyncCursor[dict] = database.ledger.find({}, sort=[("_id", 1)])
    totals = await database.ledger.aggregate([{"$group": {"_id": "$account", "last": {"$max": "$_id"}}}, {"$sort": {"_id": 1}}])
    return [*await entries.to_list(), *await totals.to_list(None)]
