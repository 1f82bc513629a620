"""`session` is an open `AsyncClientSession`, of `async with client.start_session() as session`. Transactions need a
replica set or a sharded cluster.
"""

from __future__ import annotations

from motorlite import AsyncClientSession


async def abort_transaction(session: AsyncClientSession) -> None:
    parts = session.client.shop.parts
    await session.start_transaction()
    await parts.delete_many({}, session=session)
    await session.abort_transaction()
    print(await parts.count_documents({}))
    # > 3


async def advance_cluster_time(session: AsyncClientSession) -> None:
    async with session.client.start_session() as other:
        await session.client.shop.parts.find_one(session=session)
        # Together: what `other` reads is no older than what `session` has read.
        other.advance_cluster_time(session.cluster_time)
        other.advance_operation_time(session.operation_time)


async def advance_operation_time(session: AsyncClientSession) -> None:
    await session.client.shop.parts.insert_one({"_id": 4}, session=session)
    async with session.client.start_session() as other:
        other.advance_cluster_time(session.cluster_time)
        other.advance_operation_time(session.operation_time)
        print(await session.client.shop.parts.find_one({"_id": 4}, session=other))
        # > {'_id': 4}


async def bind(session: AsyncClientSession) -> None:
    parts = session.client.shop.parts
    async with session.bind(end_session=False):
        await parts.insert_one({"_id": 4})  # in the session, without naming it
    print(session.operation_time is not None)
    # > True


async def commit_transaction(session: AsyncClientSession) -> None:
    shop = session.client.shop
    await session.start_transaction()
    await shop.parts.update_one({"_id": 1}, {"$inc": {"stock": -1}}, session=session)
    await shop.orders.insert_one({"part": 1}, session=session)
    await session.commit_transaction()


async def end_session(session: AsyncClientSession) -> None:
    await session.end_session()  # `async with session:` does the same
    print(session.has_ended)
    # > True


async def start_transaction(session: AsyncClientSession) -> None:
    parts = session.client.shop.parts
    async with await session.start_transaction():  # commits at the end, or aborts after an exception
        await parts.update_one({"_id": 1}, {"$inc": {"stock": -1}}, session=session)
        await parts.update_one({"_id": 2}, {"$inc": {"stock": 1}}, session=session)


async def with_transaction(session: AsyncClientSession) -> None:
    async def move(session: AsyncClientSession) -> str:
        parts = session.client.shop.parts
        await parts.update_one({"_id": 1}, {"$inc": {"stock": -1}}, session=session)
        await parts.update_one({"_id": 2}, {"$inc": {"stock": 1}}, session=session)
        return "moved"

    print(await session.with_transaction(move))  # runs `move` again after a transient error
    # > moved
