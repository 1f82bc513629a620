from __future__ import annotations

from typing import TYPE_CHECKING, Any, List

from bson import ObjectId
from pymongo import UpdateOne
from pymongo.collection import ReturnDocument
from pymongo.errors import BulkWriteError, DuplicateKeyError
from pymongo.results import DeleteResult

if TYPE_CHECKING:
    from motor.motor_asyncio import AsyncIOMotorCollection, AsyncIOMotorDatabase


class AlreadyThere(Exception):
    """There is such a product."""


class Products:
    """The products of the shop."""

    collection: AsyncIOMotorCollection

    def __init__(self, database: "AsyncIOMotorDatabase[dict[str, Any]]") -> None:
        self.database = database
        self.collection = database["products"]

    async def add(self, product: dict) -> ObjectId:
        try:
            result = await self.collection.insert_one(product)
        except DuplicateKeyError as error:
            raise AlreadyThere(product["sku"]) from error
        return result.inserted_id

    async def sell(self, sku: str, count: int) -> dict | None:
        return await self.collection.find_one_and_update(
            {"sku": sku, "stock": {"$gte": count}},
            {"$inc": {"stock": -count}},
            projection={"_id": False},
            return_document=ReturnDocument.AFTER,
        )

    async def restock(self, counts: dict[str, int]) -> int:
        try:
            result = await self.collection.bulk_write(
                [UpdateOne({"sku": sku}, {"$inc": {"stock": count}}) for sku, count in counts.items()],
                ordered=False,
            )
        except BulkWriteError as error:
            return error.details["nModified"]
        return result.modified_count

    async def cheapest(self, count: int) -> List[dict]:
        cursor = self.collection.find({}, {"_id": False}).sort("price", 1).limit(count)
        return await cursor.to_list(length=count)

    async def value(self) -> float:
        pipeline = [{"$group": {"_id": None, "total": {"$sum": {"$multiply": ["$price", "$stock"]}}}}]
        async for row in self.collection.aggregate(pipeline):
            return row["total"]
        return 0.0

    async def names(self) -> list[str]:
        names = []
        cursor = self.collection.find(None, None, 0, 100, False, 0, [("name", 1)])
        while await cursor.fetch_next:
            # Only those with a name.
            product = cursor.next_object()
            if "name" in product:
                names.append(product["name"])
        return names

    async def sold_out(self) -> list[str]:
        found = []
        cursor = self.collection.find({"stock": 0})
        while (await cursor.fetch_next):
            found.append(cursor.next_object()["sku"])
        return found

    async def remove(self, sku: str) -> DeleteResult:
        return await self.collection.delete_one({"sku": sku})

    async def node(self) -> str:
        client = self.database.client
        return "%s:%s" % client.address if client.is_primary else "a secondary"
