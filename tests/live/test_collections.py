"""Collections and databases: made, listed, renamed, dropped; as PyMongo does it, on the same server."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from bson.codec_options import CodecOptions
from bson.dbref import DBRef

from motorlite import AsyncMongoClient, ReadConcern, ReadPreference, WriteConcern
from motorlite.errors import CollectionInvalid, InvalidName, InvalidOperation
from tests.live.oracle import Cases, same_outcome
from tests.support.clients import make_client
from tests.support.events import Recorder

if TYPE_CHECKING:
    from motorlite.testing import LocalServer
    from tests.live.oracle import Oracle

pytestmark = pytest.mark.anyio

CASES = Cases()


async def collections(db: Any) -> Any:
    found = await (await db.list_collections()).to_list()
    kept = [(each["name"], each["type"], each["options"]) for each in found]
    return sorted(kept, key=lambda each: str(each[0]))


@CASES.add
async def create_collection(db: Any, lib: Any) -> Any:
    made = await db.create_collection("plain")
    await db.create_collection("capped", capped=True, size=4096, max=5)
    await db.create_collection("checked", validator={"a": {"$gt": 1}}, validationLevel="moderate")
    await db.create_collection("folded", collation={"locale": "en", "strength": 2})
    await db.create_collection("view", viewOn="plain", pipeline=[{"$match": {"a": 1}}])
    await db.create_collection("times", timeseries={"timeField": "t"}, expireAfterSeconds=100)
    await db.create_collection("clustered", clusteredIndex={"key": {"_id": 1}, "unique": True})
    return [made.name, await collections(db)]


@CASES.add
async def create_twice(db: Any, lib: Any) -> Any:
    await db.create_collection("c")
    await db.create_collection("c")


@CASES.add
async def create_twice_unchecked(db: Any, lib: Any) -> Any:
    await db.create_collection("c")
    await db.create_collection("c", check_exists=False, capped=True, size=4096)


@CASES.add
async def lists(db: Any, lib: Any) -> Any:
    for name in ("a", "b", "ab"):
        await db.create_collection(name)
    await db.create_collection("v", viewOn="a", pipeline=[])
    filtered = await db.list_collections(filter={"type": "view"})
    return [
        sorted(await db.list_collection_names()),
        await db.list_collection_names(filter={"name": "a"}),
        sorted(await db.list_collection_names(filter={"name": {"$regex": "^a"}}, comment="x")),
        await db.list_collection_names(filter={"type": "view"}),
        [each["name"] for each in await filtered.to_list()],
        sorted(await db.list_collection_names(authorizedCollections=True)),
    ]


@CASES.add
async def databases(db: Any, lib: Any) -> Any:
    await db.c.insert_one({"_id": 1})
    client, name = db.client, db.name
    cursor = await client.list_databases(filter={"name": name})
    listed = [sorted(each) for each in await cursor.to_list()]
    names = [name in await client.list_database_names()]
    await client.drop_database(name)
    names.append(name in await client.list_database_names())
    return [listed, names, await client.drop_database(db)]


@CASES.add
async def options(db: Any, lib: Any) -> Any:
    await db.create_collection("c", capped=True, size=4096)
    return [await db.c.options(), await db.missing.options()]


@CASES.add
async def rename(db: Any, lib: Any) -> Any:
    await db.c.insert_one({"_id": 1})
    await db.d.insert_one({"_id": 2})
    found = [await db.c.rename("e"), await db.list_collection_names(filter={"name": {"$in": ["c", "e"]}})]
    found += [await db.e.rename("d", dropTarget=True), await db.d.find().to_list()]
    await db.d.rename("d")
    return found


@CASES.add
async def rename_onto_another(db: Any, lib: Any) -> Any:
    await db.c.insert_one({"_id": 1})
    await db.d.insert_one({"_id": 2})
    await db.c.rename("d")


@CASES.add
async def drop(db: Any, lib: Any) -> Any:
    await db.c.insert_one({})
    await db.d.insert_one({})
    found = [await db.c.drop(), await db.c.drop()]
    reply = await db.drop_collection("d")
    found += [reply["ok"], reply["nIndexesWas"], await db.list_collection_names()]
    return found


@CASES.add
async def validate_collection(db: Any, lib: Any) -> Any:
    await db.c.insert_many([{"_id": 1}, {"_id": 2}])
    report = await db.validate_collection("c", full=True)
    return [report["valid"], report["nrecords"], (await db.validate_collection(db.c))["errors"]]


@CASES.add
async def dereference(db: Any, lib: Any) -> Any:
    await db.c.insert_one({"_id": 1, "a": 2})
    return [
        await db.dereference(DBRef("c", 1)),
        await db.dereference(DBRef("c", 9)),
        await db.dereference(DBRef("c", 1, db.name)),
    ]


@pytest.mark.parametrize("name", CASES)
async def test_as_pymongo(name: str, deployment: LocalServer, database_name: str, oracle: Oracle) -> None:
    await same_outcome(CASES[name], deployment, database_name, oracle)


async def test_an_existing_collection_is_refused(deployment: LocalServer, database_name: str) -> None:
    async with make_client(deployment) as client:
        await client[database_name].create_collection("c")
        with pytest.raises(CollectionInvalid, match="'c' already exists"):
            await client[database_name].create_collection("c")


async def test_settings_come_down_and_can_be_replaced(deployment: LocalServer, database_name: str) -> None:
    record = Recorder()
    options: dict[str, Any] = {"w": 1, "readConcernLevel": "local", "read_preference": ReadPreference.NEAREST}
    async with make_client(deployment, event_listeners=[record], **options) as client:
        database = client[database_name]
        assert database.c.write_concern == WriteConcern(1)
        assert database.c.read_concern == ReadConcern("local")
        assert database.c.read_preference == ReadPreference.NEAREST
        await database.c.insert_one({"_id": 1})
        await database.c.find_one()
        codec_options: CodecOptions[dict[str, Any]] = CodecOptions(tz_aware=True)
        other = database.with_options(
            codec_options=codec_options,
            write_concern=WriteConcern("majority"),
            read_concern=ReadConcern("majority"),
        ).c
        await other.insert_one({"_id": 2})
        await other.find_one()
        inserts, finds = record.commands("insert"), record.commands("find")
        assert [command["writeConcern"] for command in inserts] == [{"w": 1}, {"w": "majority"}]
        assert [command["readConcern"] for command in finds] == [{"level": "local"}, {"level": "majority"}]


async def test_the_default_database(deployment: LocalServer, database_name: str) -> None:
    separator = "/" if deployment.uri.count("/") == 2 else ""
    uri = f"{deployment.uri}{separator}".replace("/?", f"/{database_name}?")
    if database_name not in uri:
        uri += database_name
    async with make_client(uri) as client:
        assert client.get_default_database().name == database_name
        assert client.get_database().name == database_name
        await client.get_default_database().c.insert_one({"_id": 1})
        assert await client[database_name].c.find_one() == {"_id": 1}


def test_names_and_handles() -> None:
    client: AsyncMongoClient[dict[str, Any]] = AsyncMongoClient()
    assert client.a.b.c.full_name == client["a"]["b"]["c"].full_name == "a.b.c"
    assert client.a.b == client["a"]["b"]
    assert client.a.b != client.a.c
    assert hash(client.a.b) == hash(client["a"]["b"])
    for wrong in ("", "a b", "a.b", "a$b", "a/b", "a\0b"):
        with pytest.raises(InvalidName):
            client[wrong]
    for wrong in ("", "..", "a..b", "$a", ".a", "a.", "a\0"):
        with pytest.raises(InvalidName):
            client.a[wrong]
    with pytest.raises(NotImplementedError, match="None"):
        bool(client.a)
    with pytest.raises(TypeError, match="not callable"):
        client.a.b.no_such_method()  # type: ignore[operator]  # what is tested
    with pytest.raises(AttributeError, match="_private"):
        _ = client.a._private


async def test_a_closed_client_says_so(deployment: LocalServer, database_name: str) -> None:
    client = make_client(deployment)
    await client[database_name].c.find_one()
    await client.close()
    await client.close()
    with pytest.raises(InvalidOperation, match="closed"):
        await client[database_name].c.find_one()
    unused = make_client(deployment)
    await unused.close()
    with pytest.raises(InvalidOperation, match="closed"):
        await unused.admin.command("ping")
