"""Beanie, an object mapper for PyMongo's async API: its quick start and tutorial, with motorlite's client."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import pymongo
import pytest
from pydantic import BaseModel

from tests.support.clients import make_client

pytest.importorskip("beanie", reason="no release of Beanie permits Python 3.14 or later")
from beanie import (  # where it is installed
    BulkWriter,
    DeleteRules,
    Document,
    Indexed,
    Link,
    View,
    WriteRules,
    init_beanie,
    operators,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from motorlite.testing import LocalServer

pytestmark = pytest.mark.anyio


class Category(BaseModel):
    name: str
    description: str


class Product(Document):
    name: Annotated[str, Indexed(unique=True)]
    description: str | None = None
    price: Annotated[float, Indexed(index_type=pymongo.DESCENDING)]
    category: Category

    class Settings:
        indexes: ClassVar[list[Any]] = [
            [("category.name", pymongo.ASCENDING), ("price", pymongo.DESCENDING)],
            pymongo.IndexModel([("description", pymongo.TEXT)], name="words"),
        ]


class Shop(Document):
    name: str
    best: Link[Product]


class Prices(View):
    category: str
    total: float

    class Settings:
        source = Product
        pipeline: ClassVar[list[Any]] = [
            {"$group": {"_id": "$category.name", "total": {"$sum": "$price"}}},
            {"$project": {"_id": 0, "category": "$_id", "total": 1}},
        ]


class Total(BaseModel):
    total: float


# Without annotations.
set_: Any = operators.Set
inc: Any = operators.Inc

CHOCOLATE = Category(name="Chocolate", description="A preparation of roasted and ground cacao seeds.")


@pytest.fixture
def anyio_backend() -> str:
    """Beanie itself gathers tasks of asyncio."""
    return "asyncio"


@pytest.fixture
async def products(deployment: LocalServer, database_name: str) -> AsyncIterator[list[Product]]:
    async with make_client(deployment) as client:
        # Typed for PyMongo's database.
        database: Any = client[database_name]
        await init_beanie(database=database, document_models=[Product, Shop, Prices])
        made = [
            Product(name="Tony's", price=5.95, category=CHOCOLATE, description="caramel and sea salt"),
            Product(name="Mars", price=1, category=CHOCOLATE),
            Product(name="Snickers", price=2, category=CHOCOLATE),
        ]
        await made[0].insert()
        await Product.insert_many(made[1:])
        yield await Product.find(sort="_id").to_list()


async def test_indexes(products: list[Product]) -> None:
    names = set(await Product.get_pymongo_collection().index_information())
    assert names == {"_id_", "name_1", "price_-1", "category.name_1_price_-1", "words"}


async def test_quick_start(products: list[Product]) -> None:
    tonys, mars, _ = products
    found = await Product.find_one(Product.price < 1.5)
    assert found == mars
    await found.set({Product.name: "Gold bar"})
    assert [product.name async for product in Product.find(Product.category.name == "Chocolate").sort("-price")] == [
        "Tony's",
        "Snickers",
        "Gold bar",
    ]
    assert await Product.get(tonys.id) == tonys


async def test_queries(products: list[Product]) -> None:
    chocolate = Product.find(Product.category.name == "Chocolate")
    assert await chocolate.count() == 3
    assert await chocolate.avg(Product.price) == pytest.approx(8.95 / 3)
    assert await chocolate.aggregate(
        [{"$group": {"_id": None, "total": {"$sum": "$price"}}}], projection_model=Total
    ).to_list() == [Total(total=8.95)]
    assert await Product.find({"name": {"$in": ["Mars", "Twix"]}}).exists()
    assert [found.name for found in await Product.find(sort="name", limit=1, skip=1).to_list()] == ["Snickers"]
    assert await Product.distinct("name") == ["Mars", "Snickers", "Tony's"]
    assert [(found.category, found.total) for found in await Prices.find_all().to_list()] == [("Chocolate", 8.95)]


async def test_updates(products: list[Product]) -> None:
    tonys, mars, snickers = products
    await Product.find_one(Product.name == "Mars").update(set_({Product.price: 1.5}))
    await Product.find(Product.price < 3).inc({Product.price: 1})
    assert sorted([found.price async for found in Product.find_all()]) == [2.5, 3, 5.95]
    mars.price = 7
    await mars.replace()
    snickers.description = "peanuts"
    await snickers.save()  # the whole document, with its price of before
    await tonys.sync()
    await Product.find_one(Product.name == "Twix").upsert(
        set_({Product.price: 3}), on_insert=Product(name="Twix", price=3, category=CHOCOLATE)
    )
    assert {found.name: found.price async for found in Product.find_all()} == {
        "Tony's": 5.95,
        "Mars": 7,
        "Snickers": 2,
        "Twix": 3,
    }


async def test_bulk_writer(products: list[Product]) -> None:
    tonys, mars, snickers = products
    async with BulkWriter() as writer:
        await tonys.update(inc({Product.price: 1}), bulk_writer=writer)
        await Product.find(Product.price < 1.5).update(set_({Product.description: "cheap"}), bulk_writer=writer)
        mars.price = 4
        await mars.replace(bulk_writer=writer)
        await Product.insert_one(Product(name="Twix", price=3, category=CHOCOLATE), bulk_writer=writer)
        await snickers.delete(bulk_writer=writer)
        await Product.find(Product.name == "nothing").delete(bulk_writer=writer)
    found = {product.name: product.price async for product in Product.find_all()}
    assert found == {"Tony's": 6.95, "Mars": 4, "Twix": 3}


async def test_links_and_sessions(products: list[Product]) -> None:
    tonys = products[0]
    client: Any = Product.get_pymongo_collection().database.client
    async with client.start_session() as session:
        shop = Shop(name="Corner", best=tonys)
        await shop.insert(session=session, link_rule=WriteRules.WRITE)
        fetched = await Shop.find_one(Shop.name == "Corner", fetch_links=True, session=session)
    assert fetched is not None
    assert fetched.best == tonys
    await fetched.delete(link_rule=DeleteRules.DELETE_LINKS)
    assert await Product.get(tonys.id) is None
    await Product.delete_all()
    assert await Product.count() == 0
