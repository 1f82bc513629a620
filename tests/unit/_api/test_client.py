"""Clients: their life, what they know and what they execute."""

from __future__ import annotations

import copy
import pickle
import weakref
from collections import OrderedDict
from math import inf
from typing import TYPE_CHECKING, Any
from unittest import mock

import pytest
from bson.codec_options import CodecOptions

from motorlite import AsyncMongoClient, ClientStats, DriverInfo, OverloadRetry, WriteConcern
from motorlite._net import kerberos
from motorlite.errors import ConfigurationError, InvalidOperation
from motorlite.gridfs import AsyncGridFSBucket
from tests.support.clients import scripted_client
from tests.support.core import replica_set
from tests.support.fake_core import FakeServer, FakeTopology, fake_client

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.support.fake_core import FakeCore

pytestmark = pytest.mark.anyio


def test_arguments() -> None:
    client = AsyncMongoClient(
        ["a.example", "b.example:3"], 7, OrderedDict, True, False, maxPoolSize=3, retryWrites=False
    )
    assert client.options.seeds == (("a.example", 7), ("b.example", 3))
    assert client.options.max_pool_size == 3
    assert client.codec_options.document_class is OrderedDict
    assert client.codec_options.tz_aware
    assert repr(client).startswith("AsyncMongoClient('a.example:7,b.example:3', ")


def test_wrong_arguments() -> None:
    with pytest.raises(ConfigurationError, match="maxPoolSise"):
        AsyncMongoClient(maxPoolSise=3)  # type: ignore[call-arg]  # what is tested


async def test_its_life() -> None:
    client, core = fake_client()
    async with client as entered:
        assert entered is client
        assert core.entered == 1
    assert core.is_closed
    with pytest.raises(InvalidOperation):
        await client.app.things.find_one()
    client, core = fake_client()
    await client.close()
    assert core.is_closed


@pytest.mark.parametrize(
    ("options", "tokens"),
    [
        ({}, 1000),
        ({"retry_budget": 2.5}, 2.5),
        ({"retry_budget": False}, inf),
        ({"overload_policy": OverloadRetry.revision_2026_07()}, inf),
        ({"overload_policy": OverloadRetry.revision_2026_07(), "retry_budget": True}, 1000),
    ],
)
def test_stats_of_a_client_that_was_never_used(options: dict[str, Any], tokens: float) -> None:
    # The budget is there from the beginning, and full.
    assert AsyncMongoClient(**options).stats() == ClientStats({}, tokens, tokens, {}, {}, 0)


def test_append_metadata(client: AsyncMongoClient, core: FakeCore) -> None:
    client.append_metadata(DriverInfo("odm", "1.2"))
    assert core.driver_infos == [("odm", "1.2", None)]
    assert core.entered == 0


async def test_aconnect(client: AsyncMongoClient, core: FakeCore) -> None:
    await client.aconnect(timeoutMS=40)
    assert core.executor.sent == []
    assert [deadline.timeout for deadline in core.connected] == [0.04]


async def test_server_info(client: AsyncMongoClient, core: FakeCore) -> None:
    core.reply({"ok": 1, "version": "6.0.5"})
    assert (await client.server_info())["version"] == "6.0.5"
    assert core.last.command == {"buildInfo": 1}
    assert core.last.operation.database == "admin"


async def test_list_databases(client: AsyncMongoClient, core: FakeCore) -> None:
    reply = {"ok": 1, "databases": [{"name": "a"}, {"name": "b"}]}
    core.reply(reply, reply, reply)
    cursor = client.list_databases(comment="c", filter={"name": "a"}, authorizedDatabases=True, maxTimeMS=5)
    assert [found["name"] async for found in cursor] == ["a", "b"]
    assert core.last.command == {
        "listDatabases": 1,
        "filter": {"name": "a"},
        "authorizedDatabases": True,
        "comment": "c",
        "maxTimeMS": 5,
    }
    assert await client.list_database_names() == ["a", "b"]
    assert core.last.command == {"listDatabases": 1, "nameOnly": True}
    await client.list_databases(maxTimeMS=5, timeoutMS=40)
    assert core.last.command == {"listDatabases": 1}


async def test_drop_database() -> None:
    client, core = fake_client("mongodb://h/?w=2")
    await client.drop_database("a", comment="c")
    assert core.last.command == {"dropDatabase": 1, "comment": "c", "writeConcern": {"w": 2}}
    await client.drop_database(client.b)
    assert core.last.operation.database == "b"


def test_default_database() -> None:
    client = fake_client("mongodb://h/app")[0]
    assert client.get_default_database().name == "app"
    assert client.get_default_database("other").name == "app"
    assert client.get_database().name == "app"
    assert client.get_database("x").name == "x"
    options: CodecOptions[Any] = CodecOptions(tz_aware=True)
    assert client.get_default_database(codec_options=options).codec_options == options
    assert client.get_default_database(write_concern=WriteConcern(w=2)).write_concern == WriteConcern(w=2)
    client = fake_client("mongodb://h")[0]
    assert client.get_default_database("other").name == "other"
    for get in (client.get_default_database, client.get_database):
        with pytest.raises(ConfigurationError, match="default database"):
            get()


class TestTopology:
    async def test_a_replica_set(self, client: AsyncMongoClient, core: FakeCore) -> None:
        core.topology_description = FakeTopology(
            "ReplicaSetWithPrimary",
            FakeServer(("a", 1), "RSPrimary"),
            FakeServer(("b", 1), "RSSecondary"),
            FakeServer(("c", 1), "RSArbiter"),
        )
        assert await client.primary == await client.address == ("a", 1)
        assert await client.secondaries == {("b", 1)}
        assert await client.arbiters == {("c", 1)}
        assert client.nodes == {("a", 1), ("b", 1), ("c", 1)}
        assert await client.is_primary
        assert not await client.is_mongos
        assert client.topology_description is core.topology_description
        assert core.executor.sent == []

    async def test_a_cluster(self, client: AsyncMongoClient, core: FakeCore) -> None:
        one, other = FakeServer(("a", 1), "Mongos"), FakeServer(("b", 1), "Mongos")
        core.topology_description = FakeTopology("Sharded", one)
        assert await client.address == ("a", 1)
        assert await client.is_mongos
        assert await client.primary is None
        core.topology_description = FakeTopology("Sharded", one, other)
        with pytest.raises(InvalidOperation, match="nodes"):
            await client.address

    async def test_it_connects_if_necessary(self, client: AsyncMongoClient, core: FakeCore) -> None:
        core.discovered = FakeTopology("Single", FakeServer(("a", 1), "Standalone"))
        assert await client.address == ("a", 1)
        assert len(core.connected) == 1
        assert core.names == []


@pytest.mark.parametrize("option", ["tlsCAFile", "tlsCertificateKeyFile", "tlsCRLFile"])
def test_files_are_looked_at_when_the_client_is_made(option: str) -> None:
    with pytest.raises(ConfigurationError, match=f"{option} '/nowhere/at.all' cannot be used"):
        AsyncMongoClient(f"mongodb://a/?{option}=%2Fnowhere%2Fat.all")


def test_a_mechanism_without_its_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kerberos, "find_spec", lambda _: None)
    with pytest.raises(ConfigurationError, match=r"needs the package gssapi: pip install 'motorlite\[gssapi\]'"):
        AsyncMongoClient("mongodb://user@a/?authMechanism=GSSAPI")


@pytest.mark.parametrize("duplicate", [copy.deepcopy, pickle.dumps])
async def test_what_has_connections_cannot_be_pickled(duplicate: Callable[[Any], Any]) -> None:
    # Half an event loop, and a warning from its end, were left behind.
    async with scripted_client(replica_set()) as client:
        for one in (client, client.app, client.app.things):
            with pytest.raises(TypeError, match="create a client in each process"):
                duplicate(one)


async def test_a_method_of_one_object_can_be_replaced(client: AsyncMongoClient) -> None:
    database, session = client.shop, client.start_session()
    for target, name in (
        (client, "start_session"),
        (database, "command"),
        (database.parts, "find_one"),
        (session, "commit_transaction"),
        (AsyncGridFSBucket(database), "find"),
    ):
        with mock.patch.object(target, name, mock.AsyncMock(return_value=5)):
            assert await getattr(target, name)() == 5
        assert not isinstance(getattr(target, name), mock.AsyncMock)
    assert weakref.ref(session)() is session


def test_shallow_copies_are_equal() -> None:
    client = AsyncMongoClient[dict[str, Any]]()
    assert copy.copy(client.app) == client.app
    assert copy.copy(client.app.things) == client.app.things
    assert copy.copy(client).app.name == "app"


@pytest.mark.parametrize("name", ["client", "database", "collection", "query", "aggregation"])
def test_a_forgotten_async_or_find_is_no_endless_loop(name: str) -> None:
    client = AsyncMongoClient[dict[str, Any]]()
    things = client.app.things
    one: Any = {
        "client": client,
        "database": client.app,
        "collection": things,
        "query": things.find(),
        "aggregation": things.aggregate([]),
    }[name]
    with pytest.raises(TypeError, match="use `async for`"):
        iter(one)
    with pytest.raises(TypeError, match=r"is not (a container or )?iterable"):
        _ = 1 in one
