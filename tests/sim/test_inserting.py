"""What `insert_one` makes of documents whose `_id` is not their first field, whatever their size."""

from __future__ import annotations

from typing import Any

import pytest
from bson.errors import InvalidDocument
from bson.objectid import ObjectId

from motorlite._operations.single_writes import MANY_FIELDS
from motorlite.monitoring import CommandStartedEvent
from motorlite.testing.scripted import Close
from tests.support.clients import scripted_client
from tests.support.core import DONE, replica_set
from tests.support.events import Recorder

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]
SIZES = pytest.mark.parametrize("fields", [1, MANY_FIELDS + 1])


def many(count: int) -> dict[str, Any]:
    return {f"field {number}": number for number in range(count)}


@SIZES
@pytest.mark.parametrize("options", [{}, {"comment": "why"}, {"timeoutMS": 1000}], ids=str)
@pytest.mark.parametrize("listens", [False, True])
async def test_the_id_is_the_first_field(fields: int, options: dict[str, Any], listens: bool) -> None:
    deployment, recorder = replica_set(), Recorder(CommandStartedEvent)
    async with scripted_client(deployment, event_listeners=[recorder] if listens else []) as client:
        for document in (many(fields), {**many(fields), "_id": 5}):
            # The retry sends the same.
            deployment["a:1"].on("insert", Close(), DONE)
            result = await client.db.coll.insert_one(document, **options)
            assert list(document)[-1] == "_id"
            assert isinstance(result.inserted_id, ObjectId) or result.inserted_id == 5
            first, second = deployment["a:1"].commands("insert")[-2:]
            (sent,) = first["documents"]
            assert list(sent) == ["_id", *many(fields)]
            assert sent["_id"] == document["_id"] == result.inserted_id
            assert second["documents"] == first["documents"]
            if listens:
                started = recorder.command_events[-1]
                assert isinstance(started, CommandStartedEvent)
                (seen,) = started.command["documents"]
                assert type(seen) is dict
                assert list(seen.items()) == list(sent.items())


@SIZES
async def test_what_cannot_be_encoded(fields: int) -> None:
    deployment = replica_set()
    async with scripted_client(deployment) as client:
        with pytest.raises(InvalidDocument):
            await client.db.coll.insert_one({**many(fields), "x": object()})
        assert deployment["a:1"].commands("insert") == []
