"""What insertions send: documents whose `_id` is not their first field, and the commands of many documents."""

from __future__ import annotations

from typing import Any

import anyio
import pytest
from bson.codec_options import CodecOptions, TypeEncoder, TypeRegistry
from bson.errors import InvalidDocument
from bson.objectid import ObjectId

from motorlite._operations.single_writes import MANY_FIELDS
from motorlite._operations.slices import MAX_SIZE
from motorlite.monitoring import CommandStartedEvent
from motorlite.testing.scripted import Close, Reply
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


# --- the next command is encoded while the server executes one ---


class Number:
    """A value of the application's own."""

    def __init__(self, number: int) -> None:
        self.number = number


class Broken(BaseException):
    """Something that no codec should raise."""


class Encoder(TypeEncoder):
    """Notes when each number is encoded."""

    python_type = Number

    def __init__(self, broken: int | None = None) -> None:
        self.times: dict[int, float] = {}
        self._broken = broken

    def transform_python(self, value: Any) -> Any:
        if value.number == self._broken:
            raise Broken
        self.times.setdefault(value.number, anyio.current_time())
        return value.number

    def options(self) -> CodecOptions[Any]:
        return CodecOptions(type_registry=TypeRegistry([self]))


def large_documents() -> list[dict[str, Any]]:
    """Documents of which two fit into a command."""
    return [{"_id": n, "x": Number(n), "s": "x" * (MAX_SIZE * 2 // 5)} for n in range(6)]


@pytest.mark.parametrize("is_busy", [False, True])
async def test_the_next_command_is_encoded_meanwhile(is_busy: bool) -> None:
    """Also where the first one had to wait for a connection."""
    deployment, encoder = replica_set(), Encoder()
    async with scripted_client(deployment, maxPoolSize=1) as client, anyio.create_task_group() as group:
        await client.admin.command("ping")
        if is_busy:
            deployment["a:1"].on("ping", Reply({}, delay=3))
            group.start_soon(client.admin.command, "ping")
            await anyio.sleep(1)
        deployment["a:1"].on("insert", *[Reply({"n": 2}, delay=5)] * 3)
        began = anyio.current_time() + (2 if is_busy else 0)
        await client.db.get_collection("coll", encoder.options()).insert_many(large_documents())
    assert anyio.current_time() == pytest.approx(began + 15, abs=0.1)
    # The third document was encoded to find out that it does not fit, and so on.
    assert [round((encoder.times[n] - began) / 5, 1) for n in (3, 4, 5)] == [0, 0, 1]


async def test_a_cancelled_insertion_encodes_no_more() -> None:
    deployment, encoder = replica_set(), Encoder()
    async with scripted_client(deployment) as client:
        coll = client.db.get_collection("coll", encoder.options())
        deployment["a:1"].on("insert", {"n": 2}, Reply({"n": 2}, delay=5))
        with anyio.move_on_after(1):
            await coll.insert_many(large_documents())
        known = len(encoder.times)
        await anyio.sleep(10)
        assert len(encoder.times) == known
        assert len(deployment["a:1"].commands("insert")) == 2


async def test_a_codec_that_raises_something_odd_raises_it_in_the_caller() -> None:
    deployment = replica_set()
    async with scripted_client(deployment) as client:
        deployment["a:1"].on("insert", Reply({"n": 2}, delay=1), Reply({"n": 2}, delay=1))
        with pytest.raises(Broken):
            await client.db.get_collection("coll", Encoder(broken=4).options()).insert_many(large_documents())
        assert len(deployment["a:1"].commands("insert")) == 1
        await client.admin.command("ping")
