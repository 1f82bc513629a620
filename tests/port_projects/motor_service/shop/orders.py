import motor.motor_asyncio
from pymongo import errors, WriteConcern


async def order(client: motor.motor_asyncio.AsyncIOMotorClient, database: str, sku: str) -> bool:
    """Place an order, if the product is in stock."""
    db = client.get_database(database, write_concern=WriteConcern("majority"))

    async def place(session: motor.motor_asyncio.AsyncIOMotorClientSession) -> bool:
        taken = await db.products.update_one({"sku": sku, "stock": {"$gt": 0}}, {"$inc": {"stock": -1}}, session=session)
        if not taken.modified_count:
            return False
        await db.orders.insert_one({"sku": sku}, session=session)
        return True

    async with await client.start_session() as session:
        try:
            return await session.with_transaction(coro=place)
        except errors.OperationFailure as error:
            if error.has_error_label("TransientTransactionError"):
                return False
            raise
