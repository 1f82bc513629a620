"""What is wrong gets a clear error at once, the pool stays healthy, and no acknowledged write is lost."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import anyio
import bson
import pytest
from bson.errors import InvalidBSON
from bson.raw_bson import RawBSONDocument

from motorlite import AsyncMongoClient, InsertOne, ReadPreference, UpdateOne, WriteConcern
from motorlite.errors import (
    ConfigurationError,
    DocumentTooLarge,
    InvalidName,
    InvalidOperation,
    InvalidURI,
    OperationFailure,
    PyMongoError,
)
from motorlite.testing import failpoints
from tests.support.clients import make_client

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from motorlite.testing import LocalServer
    from tests.live.conftest import Fail
    from tests.support.clients import Client

pytestmark = pytest.mark.anyio

MIB = 1024 * 1024


# --- the client ---


@pytest.mark.parametrize(
    ("uri", "message"),
    [
        ("http://localhost", "mongodb://"),
        ("mongodb://", "host"),
        ("mongodb://localhost:70000", "port"),
        ("mongodb://localhost:port", "port"),
        ("mongodb://user:p@ss@localhost", "escape|percent|@"),
        ("mongodb://user:p%zz@localhost", "percent|%"),
        ("mongodb://a,,b", "host"),
        ("mongodb://localhost/?w", "name=value"),
        ("mongodb://localhost/da$ta", r"da\$ta|name"),
    ],
)
def test_a_bad_uri(uri: str, message: str) -> None:
    with pytest.raises(InvalidURI, match=message) as caught:
        AsyncMongoClient(uri)
    assert "p@ss" not in str(caught.value)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"maxPoolSize": -1}, r"maxPoolSize must be .*not -1"),
        ({"maxPoolSize": "many"}, r"maxPoolSize must be .*not 'many'"),
        ({"timeoutMS": -5}, r"timeoutMS must be .*not -5"),
        ({"readPreference": "fastest"}, r"readPreference must be .*'fastest'"),
        ({"maxAdaptiveRetries": 1.5}, r"maxAdaptiveRetries must be .*1\.5"),
        ({"maxPoolSiez": 5}, r"maxPoolSiez.*maxPoolSize"),
        ({"event_listeners": ["none"]}, r"event_listeners must be"),
        ({"minPoolSize": 5, "maxPoolSize": 2}, r"minPoolSize.*maxPoolSize"),
        ({"directConnection": True, "host": ["a", "b"]}, r"directConnection"),
        ({"w": 0, "journal": True}, r"journal|w"),
    ],
)
def test_a_bad_option(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        AsyncMongoClient(**options)


def test_a_bad_option_in_a_uri_warns_and_is_ignored() -> None:
    with pytest.warns(UserWarning, match="maxPoolSize.*many"):
        client: AsyncMongoClient[Any] = AsyncMongoClient("mongodb://localhost/?maxPoolSize=many")
    assert client.options.max_pool_size == 100
    with pytest.warns(UserWarning, match="nonsense"):
        AsyncMongoClient("mongodb://localhost/?nonsense=1")


# --- operations ---

NESTED: dict[str, Any] = {}
for _ in range(300):
    NESTED = {"a": NESTED}
CYCLE: dict[str, Any] = {}
CYCLE["self"] = CYCLE

BAD_CALLS: dict[str, tuple[Callable[[Any], Awaitable[Any]], type[Exception] | tuple[type[Exception], ...], str]] = {
    "a type that BSON does not have": (lambda c: c.insert_one({"a": object()}), bson.errors.InvalidDocument, "object"),
    "the same in a batch": (
        lambda c: c.insert_many([{"_id": 5}, {"a": {1, 2}}]),
        bson.errors.InvalidDocument,
        "set",
    ),
    "the same in a filter": (lambda c: c.find_one({"a": object()}), bson.errors.InvalidDocument, "object"),
    "the same in an update": (
        lambda c: c.update_one({}, {"$set": {"a": object()}}),
        bson.errors.InvalidDocument,
        "object",
    ),
    "a key that is no string": (lambda c: c.insert_one({1: 1}), bson.errors.InvalidDocument, "keys"),
    "a key with a zero byte": (lambda c: c.insert_one({"a\0b": 1}), bson.errors.InvalidDocument, "NULL"),
    "a number that is too large": (lambda c: c.insert_one({"a": 2**64}), OverflowError, "8-byte"),
    "a document that contains itself": (lambda c: c.insert_one(CYCLE), RecursionError, "recursion|nested|Stack"),
    "a document that is nested too deep": (lambda c: c.insert_one({"_id": 1, **NESTED}), OperationFailure, "[Nn]est"),
    "no document": (lambda c: c.insert_one([1]), TypeError, "document"),
    "no list of documents": (lambda c: c.insert_many({"a": 1}), TypeError, "documents"),
    "documents that are none": (lambda c: c.insert_many([1, 2]), TypeError, "documents"),
    "no documents": (lambda c: c.insert_many([]), (InvalidOperation, TypeError), "document|request"),
    "17 MiB": (lambda c: c.insert_one({"a": "x" * 17 * MIB}), DocumentTooLarge, "16793600"),
    "17 MiB in a batch": (
        lambda c: c.bulk_write([InsertOne({"_id": "first"}), InsertOne({"a": "x" * 17 * MIB})]),
        DocumentTooLarge,
        "insert 1 .*16793600",
    ),
    "17 MiB in a filter": (lambda c: c.find_one({"a": "x" * 17 * MIB}), DocumentTooLarge, "16793600"),
    "60 MB": (lambda c: c.update_one({}, {"$set": {"a": "x" * 60 * MIB}}), DocumentTooLarge, "16793600"),
    "an update without operators": (lambda c: c.update_one({}, {"a": 1}), ValueError, r"\$"),
    "an empty update": (lambda c: c.update_one({}, {}), ValueError, "update"),
    "a replacement with operators": (lambda c: c.replace_one({}, {"$set": {"a": 1}}), ValueError, r"\$"),
    "no request": (lambda c: c.bulk_write([{"insert": 1}]), TypeError, "insert"),
    "an update without operators in a batch": (lambda c: c.bulk_write([UpdateOne({}, {"a": 1})]), ValueError, r"\$"),
    "an unknown operator": (lambda c: c.find_one({"$nonsense": 1}), OperationFailure, "nonsense"),
    "no filter": (lambda c: c.find("text").to_list(), TypeError, "filter"),
    "a negative skip": (lambda c: c.find(skip=-1).to_list(), ValueError, "skip"),
    "an unknown option": (lambda c: c.find(nonsense=1).to_list(), TypeError, "nonsense"),
    "a misspelt option": (lambda c: c.find_one({}, max_time_m=5), TypeError, "max_time_ms"),
    "a negative timeout": (lambda c: c.find_one({}, timeoutMS=-1), ValueError, "timeoutMS"),
    "a timeout that is no number": (lambda c: c.find_one({}, timeoutMS="1"), TypeError, "timeoutMS"),
    "no pipeline": (lambda c: c.aggregate("text").to_list(), TypeError, "pipeline"),
    "an unknown stage": (lambda c: c.aggregate([{"$nonsense": 1}]).to_list(), OperationFailure, "nonsense"),
    "an empty command": (lambda c: c.database.command({}), ValueError, "command"),
    "a command that is none": (lambda c: c.database.command(5), TypeError, "command"),
    "an unknown command": (lambda c: c.database.command("nonsense"), OperationFailure, "nonsense"),
    "a bad collation": (lambda c: c.find_one({}, collation="en"), TypeError, "collation"),
    "a read preference that is none": (lambda c: c.database.command("ping", read_preference=5), TypeError, "read_pref"),
}


async def check_health(client: Client, database_name: str, before: int) -> None:
    """No connection lost, none leaked, and every operation gets its own reply."""
    collection = client[database_name].healthy
    await collection.insert_one({"_id": "healthy"})
    async with anyio.create_task_group() as tasks:
        for _ in range(5):
            tasks.start_soon(collection.find_one)
    assert await collection.find_one() == {"_id": "healthy"}
    for server in client.stats().servers.values():
        assert (server.in_use, server.waiting, server.operations, server.generation) == (0, 0, 0, 0)
        assert server.connections_created <= before + 5


@pytest.mark.parametrize("name", BAD_CALLS)
async def test_a_bad_call(deployment: LocalServer, database_name: str, name: str) -> None:
    call, expected, message = BAD_CALLS[name]
    async with make_client(deployment) as client:
        collection = client[database_name].c
        await collection.insert_one({"_id": 0})
        created = max(server.connections_created for server in client.stats().servers.values())
        with pytest.raises(expected, match=message):
            await call(collection)
        # Nothing was broken: the same connection is still there.
        assert max(server.connections_created for server in client.stats().servers.values()) == created
        assert await collection.find_one({"_id": 0}) == {"_id": 0}
        await check_health(client, database_name, created)


async def test_names(deployment: LocalServer) -> None:
    async with make_client(deployment) as client:
        for wrong in ("", "$a", "a..b", ".a", "a."):
            with pytest.raises(InvalidName):
                client.motorlite_test_none[wrong]
            with pytest.raises(InvalidName):
                await client.motorlite_test_none.create_collection(wrong)
            with pytest.raises(InvalidName):
                await client.motorlite_test_none.c.rename(wrong)
        nothing: Any = None
        with pytest.raises(TypeError):
            client[nothing]
        with pytest.raises(InvalidName):
            client["a b"]


async def test_settings_of_the_wrong_type(deployment: LocalServer, database_name: str) -> None:
    async with make_client(deployment) as client:
        wrong: Any = "majority"
        for name in ("write_concern", "read_concern", "read_preference", "codec_options"):
            with pytest.raises(TypeError, match=name):
                client[database_name].c.with_options(**{name: wrong})
        with pytest.raises((ConfigurationError, TypeError, ValueError)):
            WriteConcern(w=-1)
        assert client[database_name].c.read_preference == ReadPreference.PRIMARY


async def test_a_document_that_cannot_be_decoded_is_an_error_of_its_reader_alone(
    deployment: LocalServer, database_name: str
) -> None:
    async with make_client(deployment) as client:
        collection = client[database_name].c
        # A string that is not UTF-8; the server does not look.
        raw = RawBSONDocument(b"\x17\0\0\0\x10_id\0\1\0\0\0\x02s\0\2\0\0\0\xff\0\0")
        await collection.insert_one(raw)
        await collection.insert_one({"_id": 2})
        for read in (lambda: collection.find_one({"_id": 1}), lambda: collection.find().to_list()):
            with pytest.raises(InvalidBSON, match="utf-8"):
                await read()
        assert await collection.find_one({"_id": 2}) == {"_id": 2}
        await check_health(client, database_name, 3)
    async with make_client(deployment, unicode_decode_error_handler="replace") as client:
        assert await client[database_name].c.find_one({"_id": 1}) == {"_id": 1, "s": "\ufffd"}


async def test_bad_and_good_calls_at_once(deployment: LocalServer, database_name: str) -> None:
    async with make_client(deployment, maxPoolSize=3) as client:
        collection = client[database_name].c
        acknowledged: list[int] = []

        async def good(number: int) -> None:
            await collection.insert_one({"_id": number})
            acknowledged.append(number)

        async def bad(number: int) -> None:
            wrong = ({"a": object()}, {"a": "x" * 17 * MIB}, {"_id": "twice"})[number % 3]
            with pytest.raises((bson.errors.InvalidDocument, PyMongoError)):
                await collection.insert_one(wrong)

        await collection.insert_one({"_id": "twice"})
        async with anyio.create_task_group() as tasks:
            for number in range(60):
                tasks.start_soon(good, number)
                if number % 4 == 0:
                    tasks.start_soon(bad, number)
        assert sorted(acknowledged) == list(range(60))
        assert sorted(await collection.distinct("_id", {"_id": {"$ne": "twice"}})) == list(range(60))
        await check_health(client, database_name, 3)


async def test_connections_that_are_lost_lose_no_acknowledged_write(
    replica_set: LocalServer, database_name: str, fail: Fail
) -> None:
    async with make_client(replica_set, maxPoolSize=4) as client:
        collection = client[database_name].c
        await collection.insert_one({"_id": -1})
        document = failpoints.fail_command(["insert"], close_connection=True, probability=0.2)
        fail(replica_set, document)
        acknowledged: list[int] = []
        failed: list[int] = []

        async def insert(number: int) -> None:
            try:
                await collection.insert_one({"_id": number})
            except PyMongoError as error:
                failed.append(error.attempts)
            else:
                acknowledged.append(number)

        for start in range(0, 40, 10):
            async with anyio.create_task_group() as tasks:
                for number in range(start, start + 10):
                    tasks.start_soon(insert, number)
        replica_set.command(failpoints.off())
        found = set(await collection.distinct("_id", {"_id": {"$gte": 0}}))
        assert found >= set(acknowledged)
        assert len(acknowledged) + len(failed) == 40
        assert set(failed) <= {2}
        (server,) = client.stats().servers.values()
        assert (server.in_use, server.waiting, server.operations) == (0, 0, 0)
        await collection.insert_one({"_id": "last"})
