"""What public objects show of themselves: more than where they are in memory, no secrets, no wrong constructors."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from enum import Enum
from math import inf
from typing import Any, Final, Protocol, is_typeddict

import pytest
from bson.timestamp import Timestamp

import motorlite
from motorlite import (
    AsyncMongoClient,
    auth_oidc,
    client_options,
    gridfs,
    operations,
    overload,
    read_preferences,
    results,
    retry,
    stats,
    topology_description,
)
from motorlite.exporters.prometheus import PrometheusCollector
from motorlite.testing import ProxyCounts
from tests.support.fake_core import ADDRESS, FakeServer, FakeTopology, batch, fake_client
from tests.support.public_names import public_classes

SECRET: Final = "correct-horse"
# What objects have whose class says nothing.
NONE: Final = inspect.getattr_static(object, "__repr__")


@dataclass
class Strategy(retry.RetryStrategy):
    """An application's strategy, which has a repr of its own."""


def backoff(retries: int) -> float:
    """An application's backoff."""
    return retries * 1.0


class Callback(auth_oidc.OIDCCallback):
    """An application's callback, with a secret."""

    def __init__(self) -> None:
        self.token = SECRET

    def fetch(self, context: auth_oidc.OIDCCallbackContext) -> auth_oidc.OIDCCallbackResult:
        return auth_oidc.OIDCCallbackResult(self.token)


def is_a_namespace(cls: type) -> bool:
    """Whether a class only holds constants, so that it has no instances."""
    own = {name: value for name, value in vars(cls).items() if not name.startswith("__")}
    return bool(own) and not any(callable(getattr(value, "__get__", None)) for value in own.values())


def shows_itself(cls: type) -> bool:
    return issubclass(cls, BaseException) or inspect.getattr_static(cls, "__repr__") != NONE


def test_every_public_class_has_a_repr() -> None:
    silent = [
        name
        for name, cls in public_classes().items()
        if not (shows_itself(cls) or is_a_namespace(cls) or is_typeddict(cls) or cls is Protocol)
    ]
    assert silent == []


def test_namespaces_are_found() -> None:
    assert is_a_namespace(motorlite.CursorType)
    assert not is_a_namespace(motorlite.AsyncCursor)
    assert not is_a_namespace(type("Empty", (), {}))


# --- constructors ---

UPDATE = operations.UpdateOne({}, {"$set": {"a": 1}}, True, {"locale": "en"}, [{"a": 1}], "a_1", namespace="d.c")
DURATIONS = stats.Durations(2, 0.25, {0.1: 1})
CONSTRUCTED: Final[list[Any]] = [
    motorlite.Collation("en", strength=2),
    motorlite.DriverInfo("odm", "1"),
    motorlite.IndexModel([("a", 1)], unique=True),
    motorlite.OverloadRetry(max_retries=2),
    motorlite.OverloadRetry.revision_2026_07(),
    motorlite.ReadConcern("majority"),
    motorlite.ReadConcern(),
    motorlite.SearchIndexModel({"mappings": {}}, "a", "search"),
    motorlite.ServerApi("1", strict=True),
    motorlite.SessionOptions(snapshot=True, snapshot_time=Timestamp(1, 2), defaultTimeoutMS=5),
    motorlite.TransactionOptions(motorlite.ReadConcern("local"), motorlite.WriteConcern(1), read_preferences.Primary()),
    motorlite.WriteConcern("majority", 5, True),
    motorlite.timeout(5),
    auth_oidc.OIDCIdPInfo("https://issuer", "id", ["a"]),
    client_options.TracingOptions(enabled=True),
    operations.DeleteMany({}, hint="a_1"),
    operations.DeleteOne({"a": 1}),
    operations.InsertOne({"a": 1}, "d.c"),
    operations.ReplaceOne({}, {"a": 1}, upsert=True),
    operations.UpdateMany({}, {"$set": {"a": 1}}),
    UPDATE,
    overload.CircuitBreaker(open_for=1.5),
    overload.ConcurrencyLimit(initial=7),
    overload.RateLimit(rate=0.5),
    overload.WaitQueue("queue", 5),
    read_preferences.Nearest([{"a": "b"}], 120),
    read_preferences.Primary(),
    read_preferences.PrimaryPreferred(),
    read_preferences.Secondary([{"a": "b"}, {}]),
    read_preferences.SecondaryPreferred(max_staleness=90),
    results.BulkWriteResult({"nInserted": 1}, True),
    results.ClientBulkWriteResult({"nInserted": 1}, True, False),
    results.DeleteResult({"n": 1}, True),
    results.InsertManyResult([1, 2], True),
    results.InsertOneResult(1, False),
    results.UpdateResult({"n": 1}, True),
    retry.FailFast(),
    retry.BestEffort(give_up_after=None, budget=None),
    retry.RetryAction(1.5),
    retry.RetryRequest(
        command_name="find",
        namespace="d.c",
        idempotent=True,
        retry_attempts=0,
        retry_reasons=frozenset(),
        elapsed=0.5,
        remaining=None,
        address=ADDRESS,
        server_hint=None,
        error_labels=frozenset({"a"}),
        jitter=0.5,
        context={},
    ),
    retry.SpecificationRetry(),
    stats.BreakerStats("open", 1, 1, 1, 0, 0.5),
    stats.QueueStats("queue", 1, 0, {"timeout": 1}, 1, DURATIONS, DURATIONS, {}, False),
    stats.RateLimitStats(0.5, 1, 2),
    DURATIONS,
    ProxyCounts(1, 2, 3, 4, 5),
]


@pytest.mark.parametrize("value", CONSTRUCTED, ids=repr)
def test_what_looks_like_a_constructor_makes_the_same(value: Any) -> None:
    """Made from its repr, with the names of all public classes, an object has the same repr."""
    names = {cls.__name__: cls for cls in public_classes().values()}
    made = eval(repr(value), {"motorlite": motorlite, "Timestamp": Timestamp, **names})
    assert type(made) is type(value)
    assert repr(made) == repr(value)
    if inspect.getattr_static(type(value), "__eq__") != inspect.getattr_static(object, "__eq__"):
        assert made == value


# --- what has no constructor in its repr ---


def handles() -> list[Any]:
    client, core = fake_client(f"mongodb://app:{SECRET}@db.example/app?maxPoolSize=5&timeoutMS=1500")
    things = client.app.things
    session = client.start_session()
    collector = PrometheusCollector()
    collector.add(client, "orders")
    core.topology_description = topology = FakeTopology("Single", FakeServer(ADDRESS, "Standalone"))
    cursor = things.find({"password": SECRET})
    uploads = gridfs.AsyncGridFSBucket(client.app)
    upload = gridfs.AsyncGridIn(client.app.fs, filename="report")
    file = {"_id": 1, "length": 7, "chunkSize": 4, "filename": "report"}
    return [
        client,
        client.app,
        things,
        cursor,
        things.aggregate([{"$match": {"password": SECRET}}]),
        things.watch(),
        things.find_raw_batches({}),
        things.aggregate_raw_batches([]),
        cursor.batches(),
        session,
        session.bind(),
        session.start_transaction(),
        collector,
        topology,
        *topology.server_descriptions().values(),
        uploads,
        gridfs.AsyncGridFS(client.app),
        upload,
        gridfs.AsyncGridOut(client.app.fs, 1),
        gridfs.AsyncGridOut(client.app.fs, file_document=file),
        uploads.find({}),
    ]


SHOWN: Final = [
    "AsyncMongoClient('db.example:27017', maxPoolSize=5, timeoutMS=1500, ...)",
    "AsyncDatabase({client}, 'app')",
    "AsyncCollection(AsyncDatabase({client}, 'app'), 'things')",
    "<AsyncCursor of app.things, not started>",
    "<AsyncCommandCursor not started>",
    "<AsyncChangeStream not started>",
    "<AsyncRawBatchCursor of app.things, not started>",
    "<AsyncRawBatchCommandCursor not started>",
    "<Batches of <AsyncCursor of app.things, not started>>",
    "<AsyncClientSession of {client}, in a transaction>",
    "<BoundSession of <AsyncClientSession of {client}, in a transaction>>",
    "<TransactionContext of <AsyncClientSession of {client}, in a transaction>>",
    "<PrometheusCollector of ['orders']>",
    "<FakeTopology topology_type: Single, servers: [<FakeServer ('db.example', 27017) server_type: Standalone>]>",
    "<FakeServer ('db.example', 27017) server_type: Standalone>",
    "<AsyncGridFSBucket 'app.fs'>",
    "<AsyncGridFS 'app.fs'>",
    "<AsyncGridIn 'report', open>",
    "<AsyncGridOut, not read yet>",
    "<AsyncGridOut 'report', 7 bytes>",
    "<AsyncGridOutCursor of app.fs.files, not started>",
]


def test_handles_say_what_they_are() -> None:
    found = list(map(repr, handles()))
    assert found == [text.replace("{client}", SHOWN[0]) for text in SHOWN]


@pytest.mark.anyio
async def test_a_cursor_says_how_far_it_is() -> None:
    client, core = fake_client()
    core.reply(batch([1], 7), {"ok": 1, "cursor": {"id": 0, "ns": "app.things", "nextBatch": []}})
    cursor = await client.app.things.find()
    assert repr(cursor) == "<AsyncCursor of app.things, open>"
    await cursor.to_list()
    assert repr(cursor) == "<AsyncCursor of app.things, exhausted>"
    await cursor.close()
    assert repr(cursor) == "<AsyncCursor of app.things, closed>"
    session = client.start_session()
    assert repr(session) == f"<AsyncClientSession of {client!r}, open>"
    await session.end_session()
    assert repr(session) == f"<AsyncClientSession of {client!r}, ended>"


def test_other_objects_say_what_they_are() -> None:
    assert repr(motorlite.monitoring.CommandListener()) == "<CommandListener>"
    assert repr(Callback()) == "<Callback>"
    assert repr(overload.CallBlock()) == "<CallBlock fallback=None, degraded=0>"
    assert repr(retry.RetryBudget(5)) == "<RetryBudget tokens=5, capacity=5, per_server=None>"
    assert repr(retry.BestEffort(backoff)) == f"BestEffort({backoff!r}, give_up_after=30.0, budget='client')"
    assert repr(AsyncMongoClient("mongodb+srv://db.example.org")) == "AsyncMongoClient('mongodb+srv://db.example.org')"
    assert repr(AsyncMongoClient("mongodb://a,b")) == "AsyncMongoClient('a:27017,b:27017')"


# --- secrets ---


def test_no_repr_shows_a_secret() -> None:
    options = AsyncMongoClient(
        f"mongodb://app:{SECRET}@db.example/",
        tlsCertificateKeyFilePassword=None,
        proxyHost="proxy",
        proxyUsername=SECRET,
        proxyPassword=SECRET,
    ).options
    told = [
        *handles(),
        options,
        options.credentials,
        options.proxy,
        client_options.TLSOptions(certificate_key_file_password=SECRET),
        client_options.Credentials("app", SECRET, "admin", "PLAIN", {"TOKEN": SECRET}),
        auth_oidc.OIDCCallbackResult(SECRET, refresh_token=SECRET),
        auth_oidc.OIDCCallbackContext(5.0, "app", 1, SECRET),
        Callback(),
    ]
    assert [repr(each) for each in told if SECRET in repr(each) + str(each)] == []


# --- numbers ---


def test_statistics_are_rounded_where_a_person_reads_them() -> None:
    server = stats.ServerStats("RSPrimary", 0.000123456789, 0.0, *range(10))
    found = stats.ClientStats({ADDRESS: server}, 999.9000000001, inf, {"overload": 3}, {}, 1)
    assert "round_trip_time=0.0001235, min_round_trip_time=0, in_use=0" in repr(found)
    assert "ClientStats(servers={('db.example', 27017): ServerStats(" in str(found)
    assert "tokens=999.9, token_capacity=inf, retries={'overload': 3}" in str(found)
    assert (found.tokens, server.round_trip_time) == (999.9000000001, 0.000123456789)
    assert repr(stats.Durations(9, 12345.678, {0.1: 1})) == "Durations(count=9, total=12346, buckets={0.1: 1})"


def test_every_other_kind_of_object_was_looked_at() -> None:
    """A class is in one of the lists above, or its objects are events, enumerations or exceptions."""
    made = {type(each) for each in (*CONSTRUCTED, *handles())}
    others = {
        "ClientStats",
        "ServerStats",
        "ClientOptions",
        "Credentials",
        "ProxyOptions",
        "TLSOptions",
        # Of encryption, without secrets: tests/unit/test_encryption_options.py and tests/live/test_encryption.py.
        "AsyncClientEncryption",
        "AutoEncryptionOpts",
        "KMSConnectContext",
        "RangeOpts",
        "RewrapManyDataKeyResult",
        "StringOpts",
        "OIDCCallbackResult",
        "OIDCCallbackContext",
        "OIDCCallback",
        "CallBlock",
        "RetryBudget",
        # Of a client, without secrets: tests/unit/_options has them.
        "PoolOptions",
        "SRV",
        # Base classes.
        "RetryStrategy",
        "ServerMode",
        # Of a socket: tests/unit/exporters has it.
        "Live",
        # pymongoarrow's.
        "Schema",
        # Of a server: tests/live has them.
        "FaultProxy",
        "LocalServer",
    }
    left = {
        cls.__name__
        for cls in public_classes().values()
        if not (cls in made or issubclass(cls, BaseException | Enum) or is_a_namespace(cls) or is_typeddict(cls))
        and not any(name in cls.__name__ for name in ("Listener", "Logger", "Measurements", "OpenTelemetryMetrics"))
        and not inspect.isabstract(cls)
        # Events are in the samples; what is left are their base classes.
        and not cls.__name__.endswith("Event")
        and cls not in (topology_description.ServerDescription, topology_description.TopologyDescription)
    }
    assert left <= others
