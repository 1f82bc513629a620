"""The prose tests of the CRUD specification about bulk writes of a client, which need a server of version 8.0.

The server is scripted and implements the command. Its limits are those of a real one, divided by a thousand: the tests
compute their sizes from them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pytest

from motorlite.errors import ClientBulkWriteException, DocumentTooLarge
from motorlite.monitoring import CommandStartedEvent
from motorlite.operations import InsertOne, UpdateOne
from motorlite.testing.scripted import ScriptedDeployment, failure
from motorlite.write_concern import WriteConcern
from tests.support.bulk_write_server import BulkWriteServer
from tests.support.clients import scripted_client
from tests.support.events import Recorder

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.support.clients import Client

pytestmark = pytest.mark.anyio

MAX_BATCH: Final = 100
MAX_MESSAGE: Final = 48_000
MAX_DOCUMENT: Final = 16 * 1024
NAMESPACE: Final = "db.coll"


class Scene:
    def __init__(self, client: Client, server: BulkWriteServer, recorder: Recorder) -> None:
        self.client = client
        self.server = server
        self.recorder = recorder

    def events(self, name: str = "bulkWrite") -> list[CommandStartedEvent]:
        started: list[CommandStartedEvent] = self.recorder.of(CommandStartedEvent)
        return [event for event in started if event.command_name == name]

    def namespaces(self) -> list[list[str]]:
        """Those of each command."""
        return [[each["ns"] for each in event.command["nsInfo"]] for event in self.events()]

    async def inserts(self, models: list[Any], lengths: list[int], **options: Any) -> None:
        """Insert documents, with commands of one operation that have so many writes."""
        result = await self.client.bulk_write(models, **options)
        assert result.acknowledged is ("write_concern" not in options)
        if result.acknowledged:
            assert result.inserted_count == len(models)
        assert [len(event.command["ops"]) for event in self.events()] == lengths
        assert len({event.operation_id for event in self.events()}) == 1

    async def upserts(self, **options: Any) -> CommandStartedEvent:
        """Insert what has large results. Returns the only getMore."""
        result = await self.client.bulk_write(large_upserts(), verbose_results=True, **options)
        assert result.upserted_count == len(result.update_results) == 2
        (started,) = self.events("getMore")
        return started

    async def fails(self, models: list[Any], **options: Any) -> ClientBulkWriteException:
        with pytest.raises(ClientBulkWriteException) as caught:
            await self.client.bulk_write(models, **options)
        return caught.value


@pytest.fixture
def retry_writes() -> bool:
    return True


@pytest.fixture
async def scene(retry_writes: bool) -> AsyncIterator[Scene]:
    deployment = ScriptedDeployment(["a:1"], replica_set="rs", wire_version=25)
    limits = {
        "maxWriteBatchSize": MAX_BATCH,
        "maxMessageSizeBytes": MAX_MESSAGE,
        "maxBsonObjectSize": MAX_DOCUMENT,
    }
    server, recorder = BulkWriteServer(deployment["a:1"], **limits), Recorder()
    async with scripted_client(deployment, event_listeners=[recorder], retryWrites=retry_writes) as client:
        yield Scene(client, server, recorder)


def inserts(count: int, size: int = 1, namespace: str = NAMESPACE) -> list[Any]:
    return [InsertOne({"a": "b" * size}, namespace) for _ in range(count)]


def large_upserts() -> list[Any]:
    """Two upserts whose results do not fit into one reply."""
    return [
        UpdateOne({"_id": letter * (MAX_DOCUMENT // 2)}, {"$set": {"x": 1}}, upsert=True, namespace=NAMESPACE)
        for letter in "ab"
    ]


async def test_3_batches_are_split_at_the_number_of_writes(scene: Scene) -> None:
    await scene.inserts(inserts(MAX_BATCH + 1), [MAX_BATCH, 1])


async def test_4_batches_are_split_at_the_size_of_the_message(scene: Scene) -> None:
    count = MAX_MESSAGE // MAX_DOCUMENT + 1
    await scene.inserts(inserts(count, MAX_DOCUMENT - 500), [count - 1, 1])


@pytest.mark.parametrize("retry_writes", [False])
async def test_5_write_concern_errors_of_all_batches_are_collected(scene: Scene) -> None:
    scene.server.extra = {"writeConcernError": {"code": 91, "errmsg": "Replication is being shut down"}}
    error = await scene.fails(inserts(MAX_BATCH + 1))
    assert len(error.write_concern_errors) == 2
    assert error.partial_result.inserted_count == MAX_BATCH + 1
    assert len(scene.events()) == 2


@pytest.mark.parametrize(("ordered", "errors", "commands"), [(False, MAX_BATCH + 1, 2), (True, 1, 1)])
async def test_6_write_errors_of_all_batches(scene: Scene, ordered: bool, errors: int, commands: int) -> None:
    model = InsertOne({"_id": 1}, NAMESPACE)
    await scene.client.bulk_write([model])
    scene.recorder.clear()
    error = await scene.fails([model] * (MAX_BATCH + 1), ordered=ordered)
    assert len(error.write_errors) == errors
    assert len(scene.events()) == commands


async def test_7_results_that_need_a_get_more(scene: Scene) -> None:
    await scene.upserts()


async def test_8_results_that_need_a_get_more_in_a_transaction(scene: Scene) -> None:
    async with scene.client.start_session() as session, await session.start_transaction():
        started = await scene.upserts(session=session)
    assert started.command["txnNumber"] == scene.events()[0].command["txnNumber"]
    assert started.command["autocommit"] is False


async def test_9_an_error_of_get_more(scene: Scene) -> None:
    scene.server.server.on("getMore", failure(8))
    error = await scene.fails(large_upserts(), verbose_results=True)
    assert error.error.code == 8
    assert error.partial_result.upserted_count == 2
    assert len(error.partial_result.update_results) == 1
    assert len(scene.events("getMore")) == 1
    assert len(scene.events("killCursors")) == 1


def nearly_full() -> list[Any]:
    """As many writes as leave room for another one, but not for another long namespace."""
    count, rest = divmod(MAX_MESSAGE - 1122, MAX_DOCUMENT)
    models = inserts(count, MAX_DOCUMENT - 57)
    return models + inserts(1, rest - 57) if rest >= 217 else models


async def test_11_a_known_namespace_needs_no_room(scene: Scene) -> None:
    models = [*nearly_full(), *inserts(1)]
    await scene.inserts(models, [len(models)])
    assert scene.namespaces() == [[NAMESPACE]]


async def test_11_a_new_namespace_that_does_not_fit(scene: Scene) -> None:
    models, namespace = nearly_full(), "db." + "c" * 200
    await scene.inserts([*models, *inserts(1, namespace=namespace)], [len(models), 1])
    assert scene.namespaces() == [[NAMESPACE], [namespace]]


@pytest.mark.parametrize(
    "models", [inserts(1, MAX_MESSAGE), inserts(1, namespace="db." + "c" * MAX_MESSAGE)], ids=["document", "namespace"]
)
async def test_12_what_fits_nowhere_is_an_error_of_the_client(scene: Scene, models: list[Any]) -> None:
    with pytest.raises(DocumentTooLarge):
        await scene.client.bulk_write(models)
    assert scene.events() == []


async def test_15_unacknowledged_batches(scene: Scene) -> None:
    count = MAX_MESSAGE // MAX_DOCUMENT + 1
    models = inserts(count, MAX_DOCUMENT - 500)
    await scene.inserts(models, [count - 1, 1], ordered=False, write_concern=WriteConcern(0))
    assert [event.command["writeConcern"] for event in scene.events()] == [{"w": 0}] * 2
    assert len(scene.server.collections[NAMESPACE]) == count


async def test_16_generated_ids_are_the_first_field_of_a_client_bulk_write(scene: Scene) -> None:
    await scene.client.bulk_write([InsertOne({"x": 1, "y": 2}, NAMESPACE)])
    (event,) = scene.events()
    assert list(event.command["ops"][0]["document"]) == ["_id", "x", "y"]
