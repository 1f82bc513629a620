"""ODMantic, an object mapper for Motor's client: its documented features, with motorlite's client."""

# ODMantic is typed for Motor's client, and its models for a plug-in of mypy.
# mypy: disable-error-code="arg-type, attr-defined, call-arg, operator, union-attr"

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any, ClassVar

import pymongo
import pymongo.errors
import pytest
from bson import ObjectId
from odmantic import AIOEngine, EmbeddedModel, Field, Index, Model, Reference, query
from odmantic.exceptions import DocumentNotFoundError, DuplicateKeyError

import motorlite.errors
from motorlite import compat
from tests.support.clients import make_client

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from motorlite.testing import LocalServer
    from tests.support.clients import Client

pytestmark = pytest.mark.anyio


class Capital(EmbeddedModel):
    name: str
    population: int


class Publisher(Model):
    name: str = Field(unique=True)
    founded: int = 2000
    capital: Capital = Capital(name="London", population=8_800_000)

    model_config: ClassVar[Any] = {
        "indexes": lambda: [
            Index(Publisher.founded, query.desc(Publisher.name), name="founded_name"),
            pymongo.IndexModel([("name", pymongo.TEXT)], name="words"),
        ]
    }


class Book(Model):
    title: str
    pages: int
    publisher: Publisher = Reference()


@pytest.fixture
def anyio_backend() -> str:
    """ODMantic yields to asyncio's loop itself."""
    return "asyncio"


@pytest.fixture
async def client(replica_set: LocalServer) -> AsyncIterator[Client]:
    async with make_client(replica_set) as made:
        yield made


@pytest.fixture
async def engine(client: Client, database_name: str) -> AIOEngine:
    made = AIOEngine(client=client, database=database_name)
    await made.configure_database([Publisher, Book])
    return made


@pytest.fixture
def installed() -> Iterator[None]:
    compat.install()
    yield
    compat.uninstall()


@pytest.fixture
async def books(engine: AIOEngine) -> list[Book]:
    hachette = Publisher(name="Hachette", founded=1826, capital=Capital(name="Paris", population=2_100_000))
    penguin = Publisher(name="Penguin", founded=1935)
    return await engine.save_all(
        [
            Book(title="They Didn't See Us Coming", pages=304, publisher=hachette),
            Book(title="This Isn't Happening", pages=256, publisher=hachette),
            Book(title="Hypatia", pages=120, publisher=penguin),
        ]
    )


async def test_indexes(engine: AIOEngine) -> None:
    found = await engine.get_collection(Publisher).index_information()
    assert found.keys() == {"_id_", "name_1", "founded_name", "words"}
    assert found["name_1"]["unique"]


async def test_find(engine: AIOEngine, books: list[Book]) -> None:
    assert [book.title async for book in engine.find(Book, Book.pages > 200, sort=Book.pages)] == [
        "This Isn't Happening",
        "They Didn't See Us Coming",
    ]
    assert await engine.find(Book, sort=query.desc(Book.pages), skip=1, limit=1) == [books[1]]
    found = await engine.find_one(Book, Book.title == "Hypatia")
    assert found is not None
    assert found.publisher.name == "Penguin"
    assert await engine.find_one(Publisher, Publisher.capital.name == "Paris") == books[0].publisher
    assert await engine.count(Book, query.or_(Book.pages < 200, Book.title.match("Coming"))) == 2
    assert await engine.find_one(Book, Book.id == ObjectId()) is None


async def test_save_and_delete(engine: AIOEngine, books: list[Book]) -> None:
    books[0].pages = 305
    books[0].publisher.founded = 1827
    await engine.save(books[0])
    found: Any = await engine.find_one(Book, Book.id == books[0].id)
    assert (found.pages, found.publisher.founded) == (305, 1827)
    found.model_update({"title": "New"})
    await engine.save(found)
    assert await engine.count(Book, Book.title == "New") == 1
    await engine.delete(found)
    with pytest.raises(DocumentNotFoundError):
        await engine.delete(found)
    assert await engine.remove(Book, Book.pages > 0, just_one=True) == 1
    assert await engine.remove(Book) == 1


async def test_raw_queries(engine: AIOEngine, books: list[Book]) -> None:
    collection = engine.get_collection(Book)
    pipeline = [{"$group": {"_id": None, "pages": {"$sum": f"${+Book.pages}"}}}]
    (total,) = await collection.aggregate(pipeline).to_list(length=None)
    assert total["pages"] == 680
    raw = await collection.find_one({+Book.title: "Hypatia"})
    assert raw is not None
    assert raw["publisher"] == books[2].publisher.id


async def test_sessions_and_transactions(engine: AIOEngine, books: list[Book]) -> None:
    async with engine.session() as session:
        found: Any = await session.find_one(Book, Book.title == "Hypatia")
        found.pages = 121
        await session.save(found)
    async with engine.transaction() as transaction:
        await transaction.remove(Book)
        assert await engine.count(Book) == 3
        await transaction.abort()
    assert await engine.count(Book) == 3
    async with engine.transaction() as transaction:
        found = await transaction.find_one(Book, Book.pages == 121)
        found.pages = 122
        await transaction.save(found)
        await transaction.commit()
    assert await engine.count(Book, Book.pages == 122) == 1
    with suppress(ZeroDivisionError):
        async with engine.transaction() as transaction:
            await transaction.remove(Book)
            raise ZeroDivisionError
    assert await engine.count(Book) == 3


async def test_duplicates(engine: AIOEngine, books: list[Book], installed: None) -> None:
    with pytest.raises(DuplicateKeyError) as caught:
        await engine.save(Publisher(name="Penguin"))
    error = caught.value.driver_error
    assert isinstance(error, pymongo.errors.DuplicateKeyError)
    assert isinstance(error, motorlite.errors.DuplicateKeyError)
    assert error.code == 11000


async def test_indexes_that_changed(engine: AIOEngine, installed: None) -> None:
    class Changed(Model):
        name: str = Field(index=True)

        model_config: ClassVar[Any] = {"collection": "publisher"}

    with pytest.raises(pymongo.errors.OperationFailure) as caught:
        await engine.configure_database([Changed])
    assert caught.value.code == 86
    # ODMantic catches the error under PyMongo's name, and reads its code.
    await engine.configure_database([Changed], update_existing_indexes=True)
    found = await engine.get_collection(Changed).index_information()
    assert "unique" not in found["name_1"]


async def test_without_compat_it_does_not_know_the_errors(engine: AIOEngine, books: list[Book]) -> None:
    with pytest.raises(motorlite.errors.DuplicateKeyError):
        await engine.save(Publisher(name="Penguin"))
