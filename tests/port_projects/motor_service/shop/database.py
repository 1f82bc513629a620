"""The connection to MongoDB, shared by all requests."""
import asyncio
import logging
import os
from typing import Annotated, Optional

from fastapi import Depends
from motor.motor_asyncio import (
    AsyncIOMotorClient,
    AsyncIOMotorDatabase,  # one per process
    AsyncIOMotorGridFSBucket,
)
from pymongo import ASCENDING, DESCENDING, IndexModel
from pymongo.errors import ConnectionFailure

# The driver logs every command at DEBUG.
logging.getLogger("pymongo.command").setLevel(logging.WARNING)

INDEXES = [
    IndexModel([("sku", ASCENDING)], unique=True),
    IndexModel([("price", DESCENDING), ("name", ASCENDING)], name="by_price"),
]


class Mongo:
    client: Optional[AsyncIOMotorClient] = None


mongo = Mongo()


async def connect() -> None:
    mongo.client = AsyncIOMotorClient(
        os.environ["MONGODB_URI"],
        maxPoolSize=20,
        serverSelectionTimeoutMS=5000,
        io_loop=asyncio.get_event_loop(),  # so that tests can have a loop each
    )
    try:
        await mongo.client.admin.command("ping")
    except ConnectionFailure:
        logging.exception("no database")
        raise
    await get_database().products.create_indexes(INDEXES)


async def disconnect() -> None:
    mongo.client.close()


def get_database() -> AsyncIOMotorDatabase:
    return mongo.client[os.environ.get("MONGODB_DATABASE", "shop")]


def get_bucket(db: AsyncIOMotorDatabase = Depends(get_database)) -> AsyncIOMotorGridFSBucket:
    return AsyncIOMotorGridFSBucket(db, collection="pictures")


Database = Annotated[AsyncIOMotorDatabase, Depends(get_database)]
