"""Bulk writes of a client, on a scripted server that implements the command of MongoDB 8.0."""

from __future__ import annotations

import copy
import pickle
import re
import uuid
import weakref
from typing import TYPE_CHECKING, Any

import anyio
import bson
import pymongo
import pytest
from bson.codec_options import TypeDecoder, TypeRegistry
from bson.errors import InvalidDocument
from bson.objectid import ObjectId
from bson.raw_bson import RawBSONDocument
from bson.son import SON

import motorlite
from motorlite._api import turns
from motorlite.errors import (
    AutoReconnect,
    ClientBulkWriteException,
    DocumentTooLarge,
    ExecutionTimeout,
    InvalidName,
    InvalidOperation,
    NetworkTimeout,
    OperationFailure,
    ProtocolError,
    ServerSelectionTimeoutError,
)
from motorlite.monitoring import (
    CommandFailedEvent,
    OperationFailedEvent,
    OperationStartedEvent,
    OperationSucceededEvent,
)
from motorlite.operations import DeleteMany, DeleteOne, InsertOne, ReplaceOne, UpdateMany, UpdateOne
from motorlite.testing.cancellation import cancel_at, count_await_points
from motorlite.testing.scripted import Close, Hang, Reply, ScriptedDeployment, failure, overloaded
from motorlite.write_concern import WriteConcern
from tests.support.bulk_write_server import BulkWriteServer
from tests.support.cancellation import settle
from tests.support.clients import scripted_client
from tests.support.events import Recorder
from tests.support.kept_errors import without_collector
from tests.support.transactions import REJECTED

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from motorlite.testing.scripted import Answer
    from tests.support.clients import Client

pytestmark = pytest.mark.anyio

SET = {"$set": {"x": 1}}
UNACKNOWLEDGED = WriteConcern(0)
EMPTY: dict[str, Any] = {"cursor": {"id": 0, "ns": "admin.$cmd.bulkWrite", "firstBatch": []}}
UPSERTED = {"ok": 1, "idx": 0, "n": 1, "nModified": 0, "upserted": {"_id": {"a": 1}}}


def slowly(answer: Callable[[dict[str, Any]], Answer], delay: float = 0.01) -> Callable[[dict[str, Any]], Answer]:
    """Answer the same a little later."""

    def later(command: dict[str, Any]) -> Answer:
        found = answer(command)
        assert isinstance(found, dict)
        return Reply(found, delay)

    return later


def carried_by(command: dict[str, Any]) -> dict[str, Any]:
    names = ("txnNumber", "startTransaction", "autocommit", "writeConcern")
    return {name: command[name] for name in names if name in command}


def session_ids(commands: list[dict[str, Any]]) -> set[bytes]:
    return {bytes(command["lsid"]["id"]) for command in commands}


class Scene:
    """A client, its server, and what the client published."""

    def __init__(self, client: Client, server: BulkWriteServer, recorder: Recorder) -> None:
        self.client = client
        self.server = server
        self.script = server.server
        self.recorder = recorder

    async def fails(self, *models: Any, **options: Any) -> ClientBulkWriteException:
        with pytest.raises(ClientBulkWriteException) as caught:
            await self.client.bulk_write(list(models), **options)
        return caught.value

    def names(self) -> list[str]:
        return [item.name for item in self.script.received]


@pytest.fixture
def options() -> dict[str, Any]:
    return {}


@pytest.fixture
def deployment() -> ScriptedDeployment:
    return ScriptedDeployment(["a:1"], replica_set="rs", wire_version=25)


@pytest.fixture
async def scene(deployment: ScriptedDeployment, options: dict[str, Any]) -> AsyncIterator[Scene]:
    recorder = Recorder()
    server = BulkWriteServer(deployment["a:1"])
    async with scripted_client(deployment, event_listeners=[recorder], **options) as client:
        yield Scene(client, server, recorder)


def inserts(*identifiers: Any, namespace: str = "d.c") -> list[InsertOne[Any]]:
    return [InsertOne({"_id": identifier}, namespace) for identifier in identifiers]


# --- commands and results ---


async def test_writes_to_several_collections(scene: Scene) -> None:
    result = await scene.client.bulk_write(
        [
            InsertOne({"_id": 1, "x": 0}, "d.a"),
            UpdateOne({"_id": 1}, SET, namespace="d.a"),
            UpdateOne({"_id": 2}, SET, upsert=True, namespace="e.b"),
            UpdateMany({"x": 1}, [{"$set": {"y": 2}}], namespace="e.b"),
            ReplaceOne({"_id": 1}, {"z": 3}, namespace="d.a"),
            DeleteMany({}, namespace="d.a"),
        ]
    )
    (command,) = scene.server.commands()
    assert command["nsInfo"] == [{"ns": "d.a"}, {"ns": "e.b"}]
    assert command["ops"][::2] == [
        {"insert": 0, "document": {"_id": 1, "x": 0}},
        {"update": 1, "filter": {"_id": 2}, "updateMods": SET, "multi": False, "upsert": True},
        {"update": 0, "filter": {"_id": 1}, "updateMods": {"z": 3}, "multi": False},
    ]
    fields = [command[name] for name in ("bulkWrite", "errorsOnly", "ordered", "$db")]
    assert fields == [1, True, True, "admin"]
    assert "writeConcern" not in command
    counts = (result.inserted_count, result.matched_count, result.modified_count, result.upserted_count)
    assert (*counts, result.deleted_count) == (1, 3, 3, 1, 1)
    assert result.acknowledged
    assert not result.has_verbose_results
    for name in ("insert_results", "update_results", "delete_results"):
        with pytest.raises(InvalidOperation, match="verbose_results was not true"):
            getattr(result, name)


async def test_all_options(scene: Scene) -> None:
    expected = {
        "errorsOnly": False,
        "ordered": False,
        "bypassDocumentValidation": True,
        "comment": {"why": 1},
        "let": {"a": 2},
        "writeConcern": {"w": "majority", "wtimeout": 5},
    }
    await scene.client.bulk_write(
        [DeleteOne({}, collation=motorlite.Collation("de"), hint=[("x", 1)], namespace="d.c")],
        ordered=False,
        verbose_results=True,
        bypass_document_validation=True,
        comment={"why": 1},
        let={"a": 2},
        write_concern=WriteConcern("majority", wtimeout=5),
    )
    (command,) = scene.server.commands()
    assert {name: command[name] for name in expected} == expected
    (operation,) = command["ops"]
    assert operation == {"delete": 0, "filter": {}, "multi": False, "collation": {"locale": "de"}, "hint": {"x": 1}}


async def test_verbose_results(scene: Scene) -> None:
    result = await scene.client.bulk_write(
        [
            InsertOne({"_id": 1}, "d.c"),
            UpdateOne({"_id": 1}, SET, namespace="d.c"),
            UpdateOne({"_id": None}, SET, upsert=True, namespace="d.c"),
            DeleteMany({}, namespace="d.c"),
        ],
        verbose_results=True,
    )
    assert result.has_verbose_results
    assert {index: each.inserted_id for index, each in result.insert_results.items()} == {0: 1}
    assert {
        index: (each.matched_count, each.modified_count, each.did_upsert, each.upserted_id)
        for index, each in result.update_results.items()
    } == {1: (1, 1, False, None), 2: (1, 0, True, None)}
    assert {index: each.deleted_count for index, each in result.delete_results.items()} == {3: 2}
    assert "has_verbose_results=True" in repr(result)


async def test_documents_get_an_id_which_comes_first(scene: Scene) -> None:
    documents: list[dict[str, Any]] = [{"x": 1}, {"x": 1, "_id": 5}]
    raw = RawBSONDocument(bson.encode({"_id": 7, "x": 1}))
    result = await scene.client.bulk_write(
        [InsertOne(document, "d.c") for document in (*documents, raw)], verbose_results=True
    )
    assert isinstance(documents[0]["_id"], ObjectId)
    sent = [operation["document"] for operation in scene.server.commands()[0]["ops"]]
    assert [list(document) for document in sent] == [["_id", "x"]] * 3
    assert [result.insert_results[index].inserted_id for index in range(3)] == [documents[0]["_id"], 5, 7]


async def test_the_list_may_change_meanwhile(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns, "TURN", 0.0)
    models = inserts(*range(1000))

    async def clear() -> None:
        models.clear()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(clear)
        result = await scene.client.bulk_write(models)
    assert not models
    assert result.inserted_count == 1000


async def test_pymongos_models(scene: Scene) -> None:
    models: list[Any] = [
        pymongo.InsertOne({"_id": 1}, "d.c"),
        pymongo.UpdateOne({"_id": 1}, SET, sort={"x": 1}, namespace="d.c"),
    ]
    result = await scene.client.bulk_write(models)
    assert (result.inserted_count, result.matched_count) == (1, 1)
    assert scene.server.commands()[0]["ops"][1]["sort"] == {"x": 1}


async def test_codec_options_of_the_client(deployment: ScriptedDeployment) -> None:
    """They encode the documents, and decode the ids of upserts."""
    server = BulkWriteServer(deployment["a:1"])
    async with scripted_client(deployment, document_class=SON, uuidRepresentation="standard") as client:
        identifier = uuid.UUID(int=5)
        await client.bulk_write([InsertOne({"_id": identifier}, "d.c")])
        (document,) = [operation["document"] for operation in server.commands()[0]["ops"]]
        assert document["_id"].as_uuid() == identifier
        deployment["a:1"].on("bulkWrite", {**EMPTY, "cursor": {"id": 0, "firstBatch": [UPSERTED]}})
        model = UpdateOne({"_id": {"a": 1}}, SET, upsert=True, namespace="d.c")
        result = await client.bulk_write([model], verbose_results=True)
        assert isinstance(result.update_results[0].upserted_id, SON)


class AsText(TypeDecoder):
    """A decoder of all integers."""

    bson_type = int

    def transform_bson(self, value: Any) -> Any:
        return f"decoded {value}"


async def test_decoders_see_only_the_ids_of_upserts(deployment: ScriptedDeployment) -> None:
    BulkWriteServer(deployment["a:1"], batch=1)
    async with scripted_client(deployment, type_registry=TypeRegistry([AsText()])) as client:
        models = [UpdateOne({"_id": number}, SET, upsert=True, namespace="d.c") for number in range(3)]
        result = await client.bulk_write(models, verbose_results=True)
    assert result.upserted_count == 3
    assert [each.upserted_id for each in result.update_results.values()] == ["decoded 0", "decoded 1", "decoded 2"]


@pytest.mark.parametrize("make", [WriteConcern, pymongo.WriteConcern])
async def test_the_write_concern_of_the_client_is_the_default(deployment: ScriptedDeployment, make: Any) -> None:
    server = BulkWriteServer(deployment["a:1"])
    async with scripted_client(deployment, w=1, journal=True) as client:
        await client.bulk_write(inserts(1))
        await client.bulk_write(inserts(2), write_concern=make(2))
    assert [command["writeConcern"] for command in server.commands()] == [{"w": 1, "j": True}, {"w": 2}]


# --- wrong arguments ---


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"models": []}, InvalidOperation, "models must contain at least one model"),
        ({"models": None}, TypeError, "models must be a list of write models, not None"),
        ({"models": InsertOne({}, "d.c")}, TypeError, "models must be a list of write models"),
        ({"models": [1]}, TypeError, "a write request must be .*, not 1"),
        ({"models": [InsertOne({})]}, InvalidOperation, r"needs a namespace, but one has none: InsertOne\(\{\}\)"),
        ({"models": [InsertOne({}, 5)]}, InvalidName, "must be 'database.collection', not '5'"),  # type: ignore[arg-type]
        ({"models": [InsertOne(5, "d.c")]}, TypeError, "document must be a dict"),  # type: ignore[arg-type]
        (
            {"models": [UpdateOne({}, {"x": 1}, namespace="d.c")]},
            ValueError,
            "update must begin with an update operator",
        ),
        ({"models": [UpdateMany({}, {}, namespace="d.c")]}, ValueError, "update must not be empty"),
        ({"models": [ReplaceOne({}, SET, namespace="d.c")]}, ValueError, "replacement must not begin with"),
        ({"ordered": 1}, TypeError, "ordered must be True or False, not 1"),
        ({"verbose_results": None}, TypeError, "verbose_results must be True or False"),
        ({"bypass_document_validation": "no"}, TypeError, "bypass_document_validation must be True or False"),
        ({"let": []}, TypeError, "let must be a mapping"),
        ({"write_concern": {"w": 1}}, TypeError, "write_concern must be a WriteConcern"),
        ({"timeoutMS": -1}, ValueError, "timeoutMS must be 0 for no limit, or a positive number, not -1"),
        (
            {"write_concern": UNACKNOWLEDGED},
            InvalidOperation,
            "Cannot request unacknowledged write concern and ordered writes",
        ),
        (
            {"write_concern": UNACKNOWLEDGED, "ordered": False, "verbose_results": True},
            InvalidOperation,
            "Cannot request unacknowledged write concern and verbose results",
        ),
    ],
)
async def test_wrong_arguments(scene: Scene, arguments: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        await scene.client.bulk_write(**{"models": inserts(1), **arguments})
    assert scene.script.received == []


@pytest.mark.parametrize("write_concern", [None, UNACKNOWLEDGED])
async def test_an_older_server(write_concern: WriteConcern | None) -> None:
    deployment = ScriptedDeployment(["a:1"], replica_set="rs", wire_version=21)
    async with scripted_client(deployment) as client:
        with pytest.raises(InvalidOperation, match=r"needs MongoDB 8\.0, but a:1 is MongoDB 7\.0 \(wire version 21\)"):
            await client.bulk_write(inserts(1), ordered=False, write_concern=write_concern)
    assert deployment["a:1"].received == []


# --- batches ---


async def test_as_many_operations_as_the_server_takes(scene: Scene) -> None:
    scene.script.hello["maxWriteBatchSize"] = 3
    models = [*inserts(1, 2, namespace="d.a"), *inserts(*range(5), namespace="d.b"), *inserts(9, namespace="d.a")]
    result = await scene.client.bulk_write(models, verbose_results=True, comment="c")
    assert result.inserted_count == 8
    assert sorted(result.insert_results) == list(range(8))
    commands = scene.server.commands()
    assert [[operation["insert"] for operation in command["ops"]] for command in commands] == [
        [0, 0, 1],
        [0, 0, 0],
        [0, 1],
    ]
    # Each command has the namespaces of its own operations.
    namespaces = [[each["ns"] for each in command["nsInfo"]] for command in commands]
    assert namespaces == [["d.a", "d.b"], ["d.b"], ["d.b", "d.a"]]
    # One session, and a transaction number for each command.
    assert len(session_ids(commands)) == 1
    assert [command["txnNumber"] for command in commands] == [1, 2, 3]
    assert len({event.operation_id for event in scene.recorder.started_events}) == 1
    operations = scene.recorder.of(OperationStartedEvent, OperationSucceededEvent)
    assert [(event.operation_name, event.database_name) for event in operations] == [("bulkWrite", "admin")] * 2


@pytest.mark.parametrize(
    ("document", "kind", "message"),
    [
        ({"_id": 9, "x": object()}, InvalidDocument, "in insert 0 of the bulk write"),
        ({"_id": 9, "x": "x" * 2500}, DocumentTooLarge, "insert 0 of the bulk write has 2.* bytes with its namespace"),
    ],
    ids=["of another type", "too large"],
)
async def test_a_document_that_cannot_be_sent(
    scene: Scene, document: dict[str, Any], kind: type[Exception], message: str
) -> None:
    scene.script.hello |= {"maxMessageSizeBytes": 3000, "maxWriteBatchSize": 2}
    bad = InsertOne(document, "d.c")
    with pytest.raises(kind) as caught:
        await scene.client.bulk_write([bad, *inserts(1)])
    assert re.search(message, "\n".join([str(caught.value), *getattr(caught.value, "__notes__", [])]))
    assert scene.names() == []
    error = await scene.fails(*inserts(1, 2, 3), bad)
    assert isinstance(error.error, kind)
    assert isinstance(error.__cause__, kind)
    assert error.partial_result.inserted_count == 3
    assert not error.partial_result.has_verbose_results


# --- in transactions ---


@pytest.mark.parametrize("is_bound", [False, True])
@pytest.mark.parametrize("options", [{"w": 2}, {"w": 0}])
async def test_batches_are_parts_of_the_transaction(scene: Scene, is_bound: bool) -> None:
    """Its commit has the write concern; w=0 is none for a commit."""
    scene.script.hello["maxWriteBatchSize"] = 2
    acknowledgement = WriteConcern(2)
    async with scene.client.start_session() as session:
        session.start_transaction(write_concern=acknowledgement)
        if is_bound:
            async with session.bind(end_session=False):
                result = await scene.client.bulk_write(inserts(1, 2, 3))
        else:
            result = await scene.client.bulk_write(inserts(1, 2, 3), session=session)
        await session.commit_transaction()
    assert result.inserted_count == 3
    assert [carried_by(command) for command in scene.server.commands()] == [
        {"txnNumber": 1, "startTransaction": True, "autocommit": False},
        {"txnNumber": 1, "autocommit": False},
    ]
    (commit,) = scene.script.commands("commitTransaction")
    assert carried_by(commit) == {"txnNumber": 1, "autocommit": False, "writeConcern": {"w": 2}}


async def test_no_write_concern_in_a_transaction(scene: Scene) -> None:
    async with scene.client.start_session() as session, session.bind(end_session=False):
        async with session.start_transaction():
            for given in (session, None):
                for write_concern in (WriteConcern(1), WriteConcern(0)):
                    with pytest.raises(InvalidOperation, match="Cannot set write concern after starting a transaction"):
                        await scene.client.bulk_write(
                            inserts(1), ordered=False, session=given, write_concern=write_concern
                        )
        assert scene.names() == []
        assert (await scene.client.bulk_write(inserts(1), write_concern=WriteConcern(1))).acknowledged


async def test_with_transaction_starts_again_after_a_failed_batch(scene: Scene) -> None:
    """The error of the bulk write has the labels of the error that ended it."""
    scene.script.hello["maxWriteBatchSize"] = 1
    scene.script.on("abortTransaction", {"ok": 1})
    scene.script.on("bulkWrite", scene.server.bulk_write, REJECTED, scene.server.bulk_write)
    found: list[Any] = []

    async def callback(session: motorlite.AsyncClientSession[Any]) -> None:
        first = 2 * len(found)
        try:
            await scene.client.bulk_write(inserts(first, first + 1), session=session)
        except ClientBulkWriteException as error:
            found.append(error.error_labels)
            raise

    async with scene.client.start_session() as session:
        await session.with_transaction(callback)
    assert [sorted(labels) for labels in found] == [["TransientTransactionError"]]
    assert scene.names() == [
        *("bulkWrite", "bulkWrite", "abortTransaction", "bulkWrite", "bulkWrite", "commitTransaction")
    ]
    assert [command["txnNumber"] for command in scene.server.commands()] == [1, 1, 2, 2]


# --- single errors ---


@pytest.mark.parametrize(
    ("ordered", "failed", "inserted", "commands"), [(True, [3], [0, 1, 2], 2), (False, [3, 5], [0, 1, 2, 4], 3)]
)
async def test_an_ordered_bulk_write_stops_at_its_first_error(
    scene: Scene, ordered: bool, failed: list[int], inserted: list[int], commands: int
) -> None:
    scene.script.hello["maxWriteBatchSize"] = 2
    error = await scene.fails(*inserts(1, 2, 3, 3, 4, 4), ordered=ordered, verbose_results=True)
    assert len(scene.server.commands()) == commands
    assert [found["idx"] for found in error.write_errors] == failed
    first = error.write_errors[0]
    assert (first["code"], first["errmsg"]) == (11000, "E11000 duplicate key error")
    assert first["op"] == {"insert": "d.c", "document": {"_id": 3}}
    assert error.error is None
    assert error.write_concern_errors == []
    assert sorted(error.partial_result.insert_results) == inserted
    assert (error.code, error.verbose, error.timeout) == (65, True, False)
    assert isinstance(error, OperationFailure)
    assert any(type(event) is OperationFailedEvent for event in scene.recorder.events)


async def test_write_concern_errors_of_all_batches(scene: Scene) -> None:
    scene.script.hello["maxWriteBatchSize"] = 1
    late = {"code": 64, "errmsg": "slow", "errInfo": {"wtimeout": True}}
    scene.server.extra = {"writeConcernError": late, "errorLabels": ["Strange"]}
    error = await scene.fails(*inserts(1, 2))
    assert error.write_concern_errors == [{**late, "errorLabels": ["Strange"]}] * 2
    assert error.partial_result.inserted_count == 2
    assert error.write_errors == []
    assert error.timeout
    assert error.has_error_label("Strange")


# --- errors of commands ---


async def test_a_command_that_fails(scene: Scene) -> None:
    scene.script.on("bulkWrite", failure(8, "Label", extra=1))
    error = await scene.fails(*inserts(1))
    assert isinstance(error.error, OperationFailure)
    assert error.error.code == 8
    assert error.error.details is not None
    assert error.error.details["extra"] == 1
    assert error.__cause__ is not None
    assert error.partial_result is None
    assert error.has_error_label("Label")
    assert (error.address, error.attempts) == (("a", 1), 1)
    assert [event.command_name for event in scene.recorder.of(CommandFailedEvent)] == ["bulkWrite"]
    for twin in (copy.copy(error), pickle.loads(pickle.dumps(error))):
        assert type(twin) is ClientBulkWriteException
        assert (twin.error.code, str(twin)) == (8, str(error))
        assert twin.error_labels == {"Label"}


@pytest.mark.parametrize("is_lost", [False, True])
async def test_a_later_command_that_fails(scene: Scene, is_lost: bool) -> None:
    scene.script.hello["maxWriteBatchSize"] = 2

    def then_down(command: dict[str, Any]) -> Any:
        scene.script.is_down = is_lost
        return scene.server.bulk_write(command)

    scene.script.on("bulkWrite", then_down, Close() if is_lost else failure(8))
    error = await scene.fails(*inserts(1, 1, 2, 3), ordered=False)
    assert isinstance(error.error, AutoReconnect) if is_lost else error.error.code == 8
    assert error.partial_result.inserted_count == 1
    assert [found["idx"] for found in error.write_errors] == [1]


async def test_an_error_before_anything_was_sent_is_raised_as_it_is(deployment: ScriptedDeployment) -> None:
    deployment["a:1"].is_down = True
    async with scripted_client(deployment, serverSelectionTimeoutMS=100) as client:
        with pytest.raises(ServerSelectionTimeoutError):
            await client.bulk_write(inserts(1))


# --- retries ---


@pytest.mark.parametrize("answer", [Close(), failure(6, "RetryableWriteError"), overloaded()])
async def test_a_batch_is_retried_with_its_number_and_its_operations(scene: Scene, answer: Any) -> None:
    scene.script.on("bulkWrite", answer, scene.server.bulk_write)
    result = await scene.client.bulk_write(inserts(1, 2))
    assert result.inserted_count == 2
    first, second = scene.server.commands()
    assert first["txnNumber"] == second["txnNumber"] == 1
    assert first["ops"] == second["ops"]
    assert first["lsid"] == second["lsid"]


@pytest.mark.parametrize("model", [UpdateMany({}, SET, namespace="d.c"), DeleteMany({}, namespace="d.c")])
async def test_a_batch_with_writes_to_many_documents_is_not_retried(scene: Scene, model: Any) -> None:
    scene.script.on("bulkWrite", Close(), scene.server.bulk_write)
    error = await scene.fails(*inserts(1), model)
    assert isinstance(error.error, AutoReconnect)
    (command,) = scene.server.commands()
    assert "txnNumber" not in command
    # An overloaded server did not execute it.
    scene.script.on("bulkWrite", overloaded(), scene.server.bulk_write)
    await scene.client.bulk_write([*inserts(1), model])


async def test_only_the_batch_with_such_writes_has_no_number(scene: Scene) -> None:
    scene.script.hello["maxWriteBatchSize"] = 2
    await scene.client.bulk_write([*inserts(1, 2, 3), UpdateMany({}, SET, namespace="d.c"), *inserts(4)])
    assert [command.get("txnNumber") for command in scene.server.commands()] == [1, None, 2]


@pytest.mark.parametrize("options", [{"retryWrites": False}])
async def test_without_retryable_writes(scene: Scene) -> None:
    scene.script.on("bulkWrite", Close())
    await scene.fails(*inserts(1))
    assert ["txnNumber" in command for command in scene.server.commands()] == [False]


async def test_a_retryable_write_concern_error(scene: Scene) -> None:
    concern = {"writeConcernError": {"code": 91, "errmsg": "shutting down"}, "errorLabels": ["RetryableWriteError"]}

    def stepping_down(command: dict[str, Any]) -> Any:
        reply: Any = scene.server.bulk_write(command)
        return {**reply, **concern}

    scene.script.on("bulkWrite", stepping_down, scene.server.bulk_write)
    assert (await scene.client.bulk_write(inserts(1))).inserted_count == 1
    assert len(scene.server.commands()) == 2
    # Without a retry that does better, its reply stands.
    scene.script.on("bulkWrite", stepping_down)
    error = await scene.fails(*inserts(2))
    assert [found["code"] for found in error.write_concern_errors] == [91]
    assert error.partial_result.inserted_count == 1
    assert error.has_error_label("RetryableWriteError")


async def test_a_retry_on_an_older_server_raises_the_first_error() -> None:
    deployment = ScriptedDeployment(["a:1"], replica_set="rs", wire_version=25)
    a = deployment["a:1"]
    BulkWriteServer(a)

    def replaced(_: dict[str, Any]) -> Any:
        a.hello["maxWireVersion"] = 21
        return Close()

    a.on("bulkWrite", replaced)
    async with scripted_client(deployment) as client:
        with pytest.raises(ClientBulkWriteException) as caught:
            await client.bulk_write(inserts(1))
    assert isinstance(caught.value.error, AutoReconnect)
    assert len(a.commands("bulkWrite")) == 1


# --- the cursor of the results ---


@pytest.mark.parametrize("is_explicit", [False, True])
async def test_results_are_read_to_the_end(scene: Scene, is_explicit: bool) -> None:
    scene.server.batch = 2
    async with scene.client.start_session() as explicit:
        session = explicit if is_explicit else None
        result = await scene.client.bulk_write(inserts(*range(5)), session, verbose_results=True, comment="why")
        assert sorted(result.insert_results) == list(range(5))
        assert scene.names() == ["bulkWrite", "getMore", "getMore"]
        (found,) = session_ids(scene.script.commands())
        assert found == bytes(explicit.session_id["id"]) or not is_explicit
        assert [command.get("comment") for command in scene.script.commands()] == ["why"] * 3
    assert scene.client.stats().sessions == 1
    assert scene.server.cursors == {}


async def test_the_results_of_an_ordered_bulk_write_end_with_the_error(scene: Scene) -> None:
    scene.server.batch = 2
    await scene.client.bulk_write(inserts(2))
    scene.script.received.clear()
    error = await scene.fails(*inserts(1, 2), verbose_results=True)
    assert sorted(error.partial_result.insert_results) == [0]
    assert scene.names() == ["bulkWrite"]


async def test_what_is_left_of_the_results_is_killed(scene: Scene) -> None:
    scene.server.batch = 1
    scene.script.on(
        "bulkWrite",
        {
            "nErrors": 1,
            "nInserted": 1,
            "cursor": {"id": 5, "ns": "admin.$cmd.bulkWrite", "firstBatch": [{"ok": 0, "idx": 1, "code": 2}]},
        },
    )
    error = await scene.fails(*inserts(1, 2))
    assert error.partial_result.inserted_count == 1
    assert scene.names() == ["bulkWrite", "killCursors"]
    assert scene.script.commands("killCursors")[0]["cursors"] == [5]


@pytest.mark.parametrize("answer", [failure(8), Close()])
async def test_a_get_more_that_fails(scene: Scene, answer: Any) -> None:
    scene.server.batch = 1
    scene.script.on("getMore", answer)
    error = await scene.fails(*inserts(1, 2), verbose_results=True)
    assert isinstance(error.error, OperationFailure | AutoReconnect)
    assert error.partial_result.inserted_count == 2
    assert sorted(error.partial_result.insert_results) == [0]
    assert scene.names() == ["bulkWrite", "getMore", "killCursors"]
    assert scene.server.cursors == {}


async def test_an_overloaded_get_more_is_retried(scene: Scene) -> None:
    scene.server.batch = 1
    scene.script.on("getMore", overloaded(), scene.server.get_more)
    result = await scene.client.bulk_write(inserts(1, 2), verbose_results=True)
    assert len(result.insert_results) == 2


@pytest.mark.parametrize(
    ("reply", "killed"),
    [
        ({"nErrors": 0, "cursor": {**EMPTY["cursor"], "id": 5, "firstBatch": [{"ok": 1, "idx": 7, "n": 1}]}}, [[5]]),
        ({"nErrors": 2, **EMPTY}, []),
    ],
    ids=["a wrong result", "errors that are missing"],
)
async def test_malformed_results(scene: Scene, reply: dict[str, Any], killed: list[list[int]]) -> None:
    scene.script.on("bulkWrite", reply)
    error = await scene.fails(*inserts(1, 2, 3), ordered=False, verbose_results=True)
    assert isinstance(error.error, ProtocolError)
    assert error.address == ("a", 1)
    assert [command["cursors"] for command in scene.script.commands("killCursors")] == killed


async def test_results_without_end(scene: Scene) -> None:
    cursor = {"id": 5, "ns": "admin.$cmd.bulkWrite"}
    failed = {"ok": 0, "idx": 0, "code": 2}
    scene.script.on("bulkWrite", {"nErrors": 1, "cursor": {**cursor, "firstBatch": [failed]}})
    more = {"cursor": {**cursor, "nextBatch": [failed]}}
    scene.script.on("getMore", *[more] * 9, {"cursor": {"id": 0, "nextBatch": []}})
    error = await scene.fails(*inserts(1, 2, 3), ordered=False)
    assert isinstance(error.error, ProtocolError)
    assert len(error.write_errors) == 3
    assert scene.names() == ["bulkWrite", *["getMore"] * 3, "killCursors"]


async def test_behind_a_load_balancer_the_results_come_from_the_same_connection() -> None:
    deployment = ScriptedDeployment(["lb:1"], services=2, wire_version=25)
    service, other = deployment.services
    server = BulkWriteServer(service, batch=1)
    BulkWriteServer(other)
    async with scripted_client(deployment) as client:
        result = await client.bulk_write(inserts(1, 2, 3), verbose_results=True)
        assert len(result.insert_results) == 3
        assert [item.name for item in service.received] == ["bulkWrite", "getMore", "getMore"]
        assert {item.connection for item in service.received} == {service.received[0].connection}
        service.on("getMore", failure(8))
        with pytest.raises(ClientBulkWriteException):
            # The next connection is the other service's: both are used.
            await client.bulk_write(inserts(4, 5), verbose_results=True)
        assert service.received[-1].name == "killCursors"
        assert server.cursors == {}
        (stats,) = client.stats().servers.values()
        assert stats.in_use == 0


# --- unacknowledged ---


async def test_unacknowledged_writes(scene: Scene) -> None:
    scene.script.hello["maxWriteBatchSize"] = 2
    result = await scene.client.bulk_write(inserts(1, 2, 3), ordered=False, write_concern=UNACKNOWLEDGED)
    assert not result.acknowledged
    assert not result.has_verbose_results
    for name, message in (("inserted_count", ""), ("insert_results", " because the write was not acknowledged")):
        with pytest.raises(InvalidOperation, match=f"{name} is unknown{message}"):
            getattr(result, name)
    await anyio.sleep(0.01)
    commands = scene.server.commands()
    assert [len(command["ops"]) for command in commands] == [2, 1]
    for command in commands:
        assert (command["writeConcern"], command["errorsOnly"]) == ({"w": 0}, True)
        assert not command.keys() & {"lsid", "txnNumber"}


# --- time limits ---


async def test_one_time_limit_for_all_commands(scene: Scene) -> None:
    scene.script.hello["maxWriteBatchSize"] = 1
    await scene.client.bulk_write(inserts("connected"))
    scene.script.received.clear()

    scene.script.on("bulkWrite", slowly(scene.server.bulk_write, 0.4))
    error = await scene.fails(*inserts(1, 2, 3), timeoutMS=1000, verbose_results=True)
    assert error.timeout
    assert isinstance(error.error, NetworkTimeout)
    assert (error.phase, error.client_limit) == ("reply", 1.0)
    assert sorted(error.partial_result.insert_results) == [0, 1]
    limits = [command["maxTimeMS"] for command in scene.server.commands()]
    assert limits == sorted(limits, reverse=True)
    assert limits[0] <= 1000
    assert limits[2] <= 200


@pytest.mark.parametrize("reply", [failure(50), {**EMPTY, "writeConcernError": {"code": 50, "errmsg": "late"}}])
async def test_a_time_limit_that_the_server_enforces(scene: Scene, reply: dict[str, Any]) -> None:
    scene.script.on("bulkWrite", reply)
    error = await scene.fails(*inserts(1), timeoutMS=1000)
    assert (error.timeout, error.client_limit) == (True, 1.0)
    assert isinstance(error.error, ExecutionTimeout) is ("cursor" not in reply)


async def test_the_results_count_towards_the_time_limit(scene: Scene) -> None:
    scene.server.batch = 1
    scene.script.on("getMore", Hang())
    error = await scene.fails(*inserts(1, 2), timeoutMS=500, verbose_results=True)
    assert error.timeout
    assert sorted(error.partial_result.insert_results) == [0]
    assert "maxTimeMS" not in scene.script.commands("getMore")[0]
    # The cursor is closed although the time is up.
    assert "killCursors" in scene.names()


# --- cancellation and memory ---


@pytest.mark.parametrize("late", [False, True])
async def test_cancelled_at_every_await(deployment: ScriptedDeployment, late: bool) -> None:
    server = BulkWriteServer(deployment["a:1"], batch=1, maxWriteBatchSize=2)
    for name, answer in (("bulkWrite", server.bulk_write), ("getMore", server.get_more)):
        deployment["a:1"].on(name, slowly(answer))
    async with scripted_client(deployment) as client:

        async def write() -> None:
            server.collections.clear()
            await client.bulk_write(inserts(1, 2, 3), ordered=False, verbose_results=True)

        await write()
        points = await count_await_points(write)
        assert points >= 3
        for point in range(1, points + 1):
            await cancel_at(write, point, late=late)
            await settle(lambda: anyio.sleep(2))
            (stats,) = client.stats().servers.values()
            assert (stats.in_use, stats.pending) == (0, 0), point
            assert server.cursors == {}, point
        await write()
        assert client.stats().sessions >= 1


@pytest.mark.parametrize("answer", [failure(8), failure(64), {**EMPTY, "nErrors": 1}])
async def test_an_error_leaves_no_cycle(deployment: ScriptedDeployment, answer: dict[str, Any]) -> None:
    server = BulkWriteServer(deployment["a:1"])
    single = {"cursor": {**EMPTY["cursor"], "firstBatch": [{"ok": 0, "idx": 0, "code": 2, "errmsg": "no"}]}}
    server.server.on("bulkWrite", {**answer, **single} if "nErrors" in answer else answer)
    async with scripted_client(deployment) as client:
        await client.aconnect(timeoutMS=0)

        async def write() -> weakref.ref[ClientBulkWriteException]:
            try:
                await client.bulk_write(inserts(1))
            except ClientBulkWriteException as error:
                return weakref.ref(error)
            raise AssertionError("it succeeded")

        with without_collector():
            reference = await write()
            await anyio.sleep(0.01)
            assert reference() is None
