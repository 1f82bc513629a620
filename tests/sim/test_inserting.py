"""What `insert_one` makes of documents whose `_id` is not their first field, whatever their size."""

from __future__ import annotations

from typing import Any

import pytest
from bson.errors import InvalidDocument
from bson.objectid import ObjectId

from motorlite._operations.template_writes import MANY_FIELDS
from motorlite.errors import AutoReconnect
from motorlite.monitoring import CommandListener, CommandStartedEvent
from motorlite.testing.scripted import Close
from tests.support.clients import scripted_client
from tests.support.core import DONE, A, replica_set

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]
SIZES = pytest.mark.parametrize("fields", [1, MANY_FIELDS + 1])


class Started(CommandListener):
    def __init__(self) -> None:
        self.commands: list[Any] = []

    def started(self, event: CommandStartedEvent) -> None:
        self.commands.append(event.command)


def many(count: int) -> dict[str, Any]:
    return {f"field {number}": number for number in range(count)}


@SIZES
@pytest.mark.parametrize("options", [{}, {"comment": "why"}, {"timeoutMS": 1000}], ids=str)
@pytest.mark.parametrize("listens", [False, True])
async def test_the_id_is_the_first_field(fields: int, options: dict[str, Any], listens: bool) -> None:
    deployment, listener = replica_set(), Started()
    async with scripted_client(deployment, event_listeners=[listener] if listens else []) as client:
        for document in (many(fields), {**many(fields), "_id": 5}):
            result = await client.db.coll.insert_one(document, **options)
            assert list(document)[-1] == "_id"
            assert isinstance(result.inserted_id, ObjectId) or result.inserted_id == 5
            command = deployment.servers[A].commands("insert")[-1]
            (sent,) = command["documents"]
            assert list(sent) == ["_id", *many(fields)]
            assert sent["_id"] == document["_id"] == result.inserted_id
            if listens:
                (seen,) = listener.commands[-1]["documents"]
                assert type(seen) is dict
                assert list(seen.items()) == list(sent.items())


@SIZES
async def test_a_retry_sends_the_same(fields: int) -> None:
    deployment = replica_set()
    deployment.servers[A].on("insert", Close(), DONE)
    async with scripted_client(deployment) as client:
        await client.db.coll.insert_one(many(fields))
    first, second = deployment.servers[A].commands("insert")
    assert first == second


@SIZES
async def test_what_cannot_be_encoded(fields: int) -> None:
    deployment = replica_set()
    async with scripted_client(deployment) as client:
        with pytest.raises(InvalidDocument):
            await client.db.coll.insert_one({**many(fields), "x": object()})
        assert deployment.servers[A].commands("insert") == []
        deployment.servers[A].on("insert", Close(), Close())
        with pytest.raises(AutoReconnect):
            await client.db.coll.insert_one(many(fields))
