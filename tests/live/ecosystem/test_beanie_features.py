"""Beanie's documented features beyond its tutorial, and the ones that docs/ecosystem.md names as not working."""

# For type checkers, links and fields are what they are after fetching.
# mypy: disable-error-code="arg-type, attr-defined"

from __future__ import annotations

import textwrap
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Protocol

import pytest
from pydantic import BaseModel, Field, create_model

from motorlite import compat
from motorlite.errors import DuplicateKeyError, InvalidOperation
from tests.support.clients import make_client

pytest.importorskip("beanie", reason="no release of Beanie permits Python 3.14 or later")
from beanie import (
    BackLink,
    Document,
    DocumentWithSoftDelete,
    Indexed,
    Insert,
    Link,
    Replace,
    TimeSeriesConfig,
    UnionDoc,
    UpdateResponse,
    WriteRules,
    after_event,
    before_event,
    init_beanie,
    operators,
)
from beanie.exceptions import RevisionIdWasChanged
from beanie.migrations.database import DBHandler
from beanie.migrations.models import RunningDirections, RunningMode
from beanie.migrations.runner import MigrationNode

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from pathlib import Path

    from motorlite.testing import LocalServer
    from tests.support.clients import Client

pytestmark = pytest.mark.anyio


class Window(Document):
    width: int
    height: int = 10


class Door(Document):
    material: str
    window: Link[Window] | None = None


class House(Document):
    name: Annotated[str, Indexed(unique=True)]
    door: Link[Door]
    windows: list[Link[Window]] = Field(default=[])


class Residence(Document):
    name: str
    people: list[BackLink[Person]] = Field(json_schema_extra={"original_field": "houses"}, default=[])


class Person(Document):
    name: str
    houses: list[Link[Residence]] = Field(default=[])


# Beanie finds no links in a model that is not complete, whatever the driver.
Residence.model_rebuild()


class Counter(Document):
    number: int = 0
    label: str = ""
    events: ClassVar[list[str]] = []

    class Settings:
        use_state_management = True
        use_revision = True

    @before_event(Insert)
    def capitalize(self) -> None:
        self.label = self.label.upper()

    @after_event(Insert, Replace)
    async def record(self) -> None:
        self.events.append(self.label)


class Vehicle(Document):
    color: str

    class Settings:
        is_root = True


class Car(Vehicle):
    doors: int


class Bus(Vehicle):
    seats: int


class Pets(UnionDoc):
    class Settings:
        name = "pets"
        class_id = "_class_id"


class Hamster(Document):
    name: str

    class Settings:
        union_doc = Pets


class Fish(Document):
    species: str

    class Settings:
        union_doc = Pets


class Reading(Document):
    at: datetime
    sensor: str
    value: float

    class Settings:
        timeseries = TimeSeriesConfig(time_field="at", meta_field="sensor", expire_after_seconds=3600)


class Note(DocumentWithSoftDelete):
    text: str


class Cached(Document):
    value: int

    class Settings:
        use_cache = True
        cache_expiration_time = timedelta(seconds=600)


class OnlyName(BaseModel):
    name: str


set_: Any = operators.Set


@pytest.fixture
def anyio_backend() -> str:
    """Beanie itself gathers tasks of asyncio."""
    return "asyncio"


@pytest.fixture
async def client(replica_set: LocalServer) -> AsyncIterator[Client]:
    async with make_client(replica_set) as made:
        yield made


class Begin(Protocol):
    """Calls `init_beanie` for some models."""

    async def __call__(self, *models: Any) -> None: ...


@pytest.fixture
def begin(client: Client, database_name: str) -> Begin:
    async def initialize(*models: Any) -> None:
        database: Any = client[database_name]  # typed for PyMongo's
        await init_beanie(database=database, document_models=models)

    return initialize


@pytest.fixture
def installed() -> Iterator[None]:
    compat.install()
    yield
    compat.uninstall()


async def make_house(session: Any = None) -> House:
    door: Any = Door(material="oak", window=Window(width=1))
    windows: list[Any] = [Window(width=5), Window(width=7)]
    house = House(name="cottage", door=door, windows=windows)
    return await house.insert(link_rule=WriteRules.WRITE, session=session)


async def test_links(begin: Begin) -> None:
    await begin(Window, Door, House)
    await make_house()
    found: Any = await House.find_one(House.name == "cottage", fetch_links=True)
    assert (found.door.material, found.door.window.width) == ("oak", 1)
    assert [window.width for window in found.windows] == [5, 7]
    lazy: Any = await House.find_one(House.name == "cottage")
    assert isinstance(lazy.door, Link)
    await lazy.fetch_link(House.door)
    assert lazy.door.material == "oak"
    await lazy.fetch_all_links()
    assert {window.width for window in lazy.windows} == {5, 7}
    (matching,) = await House.find(House.windows.width == 7, fetch_links=True).to_list()
    assert matching.name == "cottage"


async def test_back_links(begin: Begin) -> None:
    await begin(Residence, Person)
    home = await Residence(name="home").insert()
    for name in ("Ada", "Grace"):
        await Person(name=name, houses=[home]).insert()
    found: Any = await Residence.find_one(Residence.name == "home", fetch_links=True)
    assert sorted(person.name for person in found.people) == ["Ada", "Grace"]


async def test_a_transaction_is_committed_or_aborted(client: Client, begin: Begin) -> None:
    await begin(Window)
    session: Any
    async with client.start_session() as session:
        async with await session.start_transaction():
            await Window(width=1).insert(session=session)
            await Window.find_all(session=session).update(set_({Window.height: 3}))
            assert await Window.find_all().count() == 0
            assert await Window.find_all(session=session).count() == 1
        with suppress(ZeroDivisionError):
            async with await session.start_transaction():
                await Window(width=2).insert(session=session)
                raise ZeroDivisionError
    assert [(window.width, window.height) for window in await Window.find_all().to_list()] == [(1, 3)]


async def test_lists_of_links_are_not_written_in_a_transaction(client: Client, begin: Begin) -> None:
    await begin(Window, Door, House)
    # Beanie saves the documents of the list at the same time, which servers do not support within a transaction.
    session: Any
    async with client.start_session() as session:
        with pytest.raises(InvalidOperation, match="transaction"):
            async with await session.start_transaction():
                await make_house(session)
    # What docs/ecosystem.md says instead: one after the other.
    async with client.start_session() as session, await session.start_transaction():
        windows = [await Window(width=width).insert(session=session) for width in (5, 7)]
        door = await Door(material="oak").insert(session=session)
        await House(name="villa", door=door, windows=windows).insert(session=session)
    found: Any = await House.find_one(fetch_links=True)
    assert [window.width for window in found.windows] == [5, 7]


async def test_revisions(begin: Begin, installed: None) -> None:
    await begin(Counter)
    first = await Counter(label="a").insert()
    second: Any = await Counter.get(first.id)
    await first.set({Counter.number: 1})
    # An upsert that finds a duplicate key, which Beanie catches under PyMongo's name.
    with pytest.raises(RevisionIdWasChanged):
        await second.save()
    with pytest.raises(RevisionIdWasChanged):
        await second.set({Counter.number: 2})
    await second.save(ignore_revision=True)


async def test_revisions_without_compat(begin: Begin) -> None:
    await begin(Counter)
    first = await Counter(label="a").insert()
    second: Any = await Counter.get(first.id)
    await first.set({Counter.number: 1})
    with pytest.raises(DuplicateKeyError):
        await second.save()


async def test_actions_and_state(begin: Begin) -> None:
    await begin(Counter)
    Counter.events.clear()
    made = await Counter(label="a").insert()
    assert (made.label, Counter.events) == ("A", ["A"])
    made.number = 5
    assert made.is_changed
    assert made.get_changes() == {"number": 5}
    await made.save_changes()
    assert not made.is_changed
    made.number = 6
    made.rollback()
    assert made.number == 5
    found: Any = await Counter.get(made.id)
    assert found.number == 5


async def test_responses_of_updates(begin: Begin) -> None:
    await begin(Window)
    await Window(width=1).insert()
    old: Any = await Window.find_one(Window.width == 1).update(
        set_({Window.height: 5}), response_type=UpdateResponse.OLD_DOCUMENT
    )
    new: Any = await Window.find_one(Window.width == 1).update(
        set_({Window.height: 6}), response_type=UpdateResponse.NEW_DOCUMENT
    )
    result: Any = await Window.find(Window.width == 1).update(set_({Window.height: 7}))
    assert (old.height, new.height, result.matched_count, result.modified_count) == (10, 6, 1, 1)
    replaced: Any = await Window.find_one(Window.width == 1).replace_one(Window(width=8))
    assert replaced.modified_count == 1
    deleted: Any = await Window.find(Window.width == 8).delete()
    assert deleted.deleted_count == 1


async def test_inheritance_and_unions(begin: Begin) -> None:
    await begin(Vehicle, Car, Bus, Pets, Hamster, Fish)
    await Vehicle(color="red").insert()
    await Vehicle.insert_many([Car(color="blue", doors=3), Bus(color="red", seats=50)])
    found = await Vehicle.find(Vehicle.color == "red", with_children=True).to_list()
    assert {type(each) for each in found} == {Vehicle, Bus}
    assert [bus.seats for bus in await Bus.find_all().to_list()] == [50]
    await Hamster(name="Ham").insert()
    await Fish(species="cod").insert()
    assert {type(each) for each in await Pets.all().to_list()} == {Hamster, Fish}
    (totals,) = await Pets.aggregate([{"$count": "pets"}]).to_list()
    assert totals == {"pets": 2}


async def test_time_series(begin: Begin) -> None:
    await begin(Reading)
    now = datetime.now(UTC)
    await Reading.insert_many([Reading(at=now, sensor="a", value=value) for value in (1.0, 2.0)])
    assert await Reading.find(Reading.sensor == "a").sum(Reading.value) == 3.0
    (info,) = await (
        await Reading.get_pymongo_collection().database.list_collections(filter={"name": Reading.get_collection_name()})
    ).to_list()
    assert info["type"] == "timeseries"
    assert info["options"]["expireAfterSeconds"] == 3600


async def test_soft_delete_lazy_parsing_projections_and_the_cache(begin: Begin) -> None:
    await begin(Note, Residence, Person, Cached)
    note = await Note(text="a").insert()
    await note.delete()
    assert await Note.get_pymongo_collection().count_documents({}) == 1
    assert await Note.find_many().to_list() == []
    assert len(await Note.find_many_in_all().to_list()) == 1
    other = await Note(text="b").insert()
    await other.hard_delete()
    assert [found.text for found in await Note.find_many_in_all().to_list()] == ["a"]

    await Residence(name="home").insert()
    (lazy,) = await Residence.find(Residence.name == "home", lazy_parse=True).to_list()
    assert lazy.name == "home"
    assert await Residence.find_all().project(OnlyName).to_list() == [OnlyName(name="home")]

    await Cached(value=1).insert()
    assert await Cached.find(Cached.value == 1).count() == 1
    first = await Cached.find(Cached.value == 1).to_list()
    await Cached.get_pymongo_collection().delete_many({})
    assert await Cached.find(Cached.value == 1).to_list() == first


async def test_indexes_that_changed(client: Client, begin: Begin, database_name: str) -> None:
    await begin(Window, Door, House)
    await make_house()
    changed: Any = create_model("House", __base__=Document, name=(Annotated[str, Indexed()], ...))
    changed.Settings = type("Settings", (), {"name": "House", "indexes": ["door"]})
    database: Any = client[database_name]
    await init_beanie(database=database, document_models=[changed], allow_index_dropping=True)
    information = await client[database_name]["House"].index_information()
    assert information.keys() == {"_id_", "name_1", "door_1"}
    assert "unique" not in information["name_1"]
    assert (await changed.inspect_collection()).status.value == "OK"


MIGRATION = """
from beanie import Document, iterative_migration, free_fall_migration

class OldNote(Document):
    name: str
    class Settings:
        name = "migrated"

class NewNote(Document):
    title: str
    class Settings:
        name = "migrated"

class Forward:
    @iterative_migration()
    async def name_to_title(self, input_document: OldNote, output_document: NewNote):
        output_document.title = input_document.name

    @free_fall_migration(document_models=[NewNote])
    async def then_add(self, session):
        await NewNote(title="added").insert(session=session)

class Backward:
    @iterative_migration()
    async def title_to_name(self, input_document: NewNote, output_document: OldNote):
        output_document.name = input_document.title
"""


async def test_migrations(client: Client, database_name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # The command line makes PyMongo's client; a program can pass its own.
    monkeypatch.setattr(DBHandler, "client", client, raising=False)
    monkeypatch.setattr(DBHandler, "database", client[database_name], raising=False)
    (tmp_path / "20260101000000_title.py").write_text(textwrap.dedent(MIGRATION), encoding="utf-8")
    migrated = client[database_name].migrated
    await migrated.insert_many([{"name": "a"}, {"name": "b"}])
    for direction in (RunningDirections.FORWARD, RunningDirections.BACKWARD):
        root = await MigrationNode.build(tmp_path)
        await root.run(RunningMode(direction=direction), allow_index_dropping=False, use_transaction=True)
        field = "title" if direction is RunningDirections.FORWARD else "name"
        assert sorted([found[field] async for found in migrated.find()]) == ["a", "added", "b"]
