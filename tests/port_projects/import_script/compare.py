"""Compares both clients: a file that has to keep PyMongo."""
import asyncio
import os

import pymongo
from pymongo import AsyncMongoClient, MongoClient
from pymongo.errors import AutoReconnect


async def counts() -> tuple[int, int]:
    name = os.environ["MONGODB_DATABASE"]
    with pymongo.MongoClient(os.environ["MONGODB_URI"]) as blocking:
        first = blocking[name].measurements.count_documents({}, hint=[("_id", pymongo.ASCENDING)])
    async with AsyncMongoClient(os.environ["MONGODB_URI"]) as client:
        try:
            return first, await client[name].measurements.count_documents({})
        except AutoReconnect:
            return first, -1


if __name__ == "__main__":
    print(asyncio.run(counts()))
