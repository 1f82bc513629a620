"""Replies that are valid BSON and make no sense: a clear error, and nothing else suffers."""

from __future__ import annotations

from typing import Any

import anyio
import anyio.lowlevel
import pytest
from bson.codec_options import CodecOptions, TypeDecoder, TypeRegistry
from bson.datetime_ms import DatetimeMS
from bson.errors import InvalidBSON
from bson.timestamp import Timestamp

from motorlite._base.deadline import NO_DEADLINE
from motorlite._operations.commands import RunCommand
from motorlite._operations.contract import Call
from motorlite._operations.cursors import GetMore
from motorlite._operations.find import Find
from motorlite._operations.single_writes import Update
from motorlite._operations.statements import update_statement
from motorlite._sessions.session import Session
from motorlite.errors import InvalidOperation, OperationFailure, ProtocolError, PyMongoError
from motorlite.testing.scripted import Reply, ScriptedDeployment
from tests.support.clients import scripted_client
from tests.support.core import driver, find, insert

pytestmark = pytest.mark.anyio

FOUND: dict[str, Any] = {"cursor": {"id": 0, "ns": "db.coll", "firstBatch": []}}


@pytest.mark.parametrize(
    "reply",
    [
        {"ok": 1},
        {"cursor": 5},
        {"cursor": {"firstBatch": []}},
        {"cursor": {"id": 0, "ns": "db.coll"}},
        {"cursor": {"id": 7, "firstBatch": []}},
    ],
    ids=repr,
)
async def test_cursors(reply: dict[str, Any]) -> None:
    await fails_and_recovers("find", find, reply, ProtocolError, FOUND)


@pytest.mark.parametrize(
    "reply",
    [
        {"n": 1, "writeErrors": 5},
        {"n": 1, "writeConcernError": 5},
        {"writeConcernError": {"code": 91}, "errorLabels": 5},
    ],
    ids=repr,
)
async def test_writes(reply: dict[str, Any]) -> None:
    def update() -> Update:
        return Update("db", "coll", update_statement({}, {"$set": {"x": 1}}, multi=False))

    await fails_and_recovers("update", update, reply, ProtocolError, {"n": 1, "nModified": 1})


@pytest.mark.parametrize(
    "kind", [AttributeError, KeyError, IndexError, TypeError, ValueError, OverflowError, RecursionError]
)
async def test_whatever_python_says_about_a_reply(kind: type[Exception]) -> None:
    class Strict(RunCommand):
        def parse(self, reply: Any) -> Any:
            raise kind("odd")

    async with driver(ScriptedDeployment(["a:1"])) as client:
        with pytest.raises(ProtocolError, match="the reply to ping cannot be used") as raised:
            await client.run(Strict("db", {"ping": 1}))
        assert isinstance(raised.value.__cause__, kind)
        assert (raised.value.attempts, raised.value.address) == (1, ("a", 1))
        assert raised.value.reached_server
        assert raised.value.phase is None


async def test_a_cursor_in_a_reply_that_cannot_be_used_is_killed() -> None:
    class Strict(Find):
        def parse(self, reply: Any) -> Any:
            raise TypeError("odd")

    deployment = ScriptedDeployment(["a:1"])
    deployment["a:1"].on("find", {"cursor": {"id": 7, "ns": "db.coll", "firstBatch": []}})
    async with driver(deployment) as client:
        with pytest.raises(ProtocolError, match="the reply to find cannot be used"):
            await client.run(Strict("db", "coll"))
        await anyio.sleep(0.1)
        (kill,) = deployment["a:1"].commands("killCursors")
    assert (kill["killCursors"], kill["cursors"]) == ("coll", [7])


async def test_a_write_concern_error_means_nothing_to_a_read() -> None:
    deployment = ScriptedDeployment(["a:1"], replica_set="rs")
    concern_error = {"writeConcernError": {"code": 91, "errmsg": "no"}, "errorLabels": ["RetryableWriteError"]}
    deployment["a:1"].on("find", {**FOUND, **concern_error})
    async with driver(deployment) as client:
        await client.run(find())
        assert len(deployment["a:1"].commands("find")) == 1
        assert not client.recorder.cleared


@pytest.mark.parametrize("fields", [{"errorLabels": 3}, {"code": [1]}, {"code": {"a": 1}}, {"errmsg": 5}], ids=repr)
async def test_errors(fields: dict[str, Any]) -> None:
    reply = {"ok": 0, "code": 2, "errmsg": "no", **fields}
    await fails_and_recovers("find", find, reply, OperationFailure, FOUND)


async def fails_and_recovers(
    name: str, make: Any, reply: dict[str, Any], error: type[PyMongoError], good: dict[str, Any]
) -> None:
    deployment = ScriptedDeployment(["a:1"])
    deployment["a:1"].on(name, reply, good)
    async with driver(deployment) as client:
        with pytest.raises(error) as raised:
            await client.run(make())
        assert raised.value.address == ("a", 1)
        assert raised.value.attempts == 1
        await client.run(make())
        state = client.server().pool.state
        assert (len(state.idle), len(state.in_use)) == (1, 0)
        assert client.server().pool.state.created == 1, "the reply was whole, so its connection is good"


@pytest.mark.parametrize(
    "time",
    [{"$clusterTime": {"x": 1}}, {"$clusterTime": 5}, {"$clusterTime": {"clusterTime": 5}}, {"operationTime": 5}],
    ids=repr,
)
async def test_times_are_ignored(time: dict[str, Any]) -> None:
    deployment = ScriptedDeployment(["a:1"])
    newer = {"$clusterTime": {"clusterTime": Timestamp(9, 1)}, "operationTime": Timestamp(9, 1)}
    deployment["a:1"].on("insert", {"n": 1, **newer}, {"n": 1, **time}, {"n": 1})
    session = Session(is_implicit=False, is_causally_consistent=True)
    async with driver(deployment) as client:
        for _ in range(3):
            await client.core.executor.execute(insert(), Call(session, NO_DEADLINE))
        await anyio.lowlevel.checkpoint()
        last = deployment["a:1"].commands("insert")[-1]
        assert last["$clusterTime"] == newer["$clusterTime"]
        assert session.operation_time == newer["operationTime"]
        client.core.executor.release(session)


FAR_DATE = DatetimeMS(2**60)


@pytest.mark.parametrize(
    "fields", [{"ok": 0, "code": {"a": 1}}, {"topologyVersion": 5}, {"hosts": 5}, {"tags": 7}], ids=repr
)
async def test_a_monitor_goes_on(fields: dict[str, Any]) -> None:
    deployment = ScriptedDeployment(["a:1"])
    async with driver(deployment, heartbeatFrequencyMS=500) as client:
        server = deployment["a:1"]
        server.hello = fields
        await anyio.sleep(3)
        hellos = len(server.hellos)
        server.hello = {}
        await anyio.sleep(3)
        assert len(server.hellos) > hellos
        await client.run(find())


async def test_a_value_that_python_cannot_hold_costs_no_connection() -> None:
    deployment = ScriptedDeployment(["a:1"])
    bad = {"cursor": {"id": 0, "ns": "db.coll", "firstBatch": [{"at": FAR_DATE}]}}
    deployment["a:1"].on("find", bad, FOUND)
    async with driver(deployment) as client:
        with pytest.raises(InvalidBSON):
            await client.run(find())
        await client.run(find())
        assert client.server().pool.state.created == 1


def beyond_9999(field: str) -> dict[str, Any]:
    return {"cursor": {"id": 7, "ns": "db.coll", field: [{"at": FAR_DATE}]}}


class Refusing(TypeDecoder):
    """A decoder of the user's own that fails."""

    bson_type = str

    def transform_bson(self, value: Any) -> Any:
        raise LookupError(value)


REFUSING = CodecOptions[dict[str, Any]](type_registry=TypeRegistry([Refusing()]))


@pytest.mark.parametrize("make", [find, lambda: RunCommand("db", {"find": "coll"})], ids=["find", "command"])
@pytest.mark.parametrize("who", ["python", "decoder"])
async def test_a_cursor_in_a_reply_that_is_refused_is_killed(make: Any, who: str) -> None:
    deployment = ScriptedDeployment(["a:1"])
    server = deployment["a:1"]
    named = {"cursor": {"id": 7, "ns": "db.coll", "firstBatch": [{"name": "x"}]}}
    server.on("find", beyond_9999("firstBatch") if who == "python" else named)
    async with driver(deployment) as client:
        operation = make()
        if who == "decoder":
            operation.codec_options = REFUSING
        with pytest.raises(InvalidBSON):
            await client.run(operation)
        await anyio.sleep(1)
        (kill,) = server.commands("killCursors")
        assert (kill["$db"], kill["killCursors"], kill["cursors"]) == ("db", "coll", [7])
        assert client.server().pool.state.created == 1, "the connection is good"


async def test_a_cursor_whose_next_batch_is_refused_is_left_to_its_owner() -> None:
    deployment = ScriptedDeployment(["a:1"])
    deployment["a:1"].on("getMore", beyond_9999("nextBatch"))
    async with driver(deployment) as client:
        with pytest.raises(InvalidBSON):
            await client.run(GetMore("db", "coll", 7, address=("a", 1)))
        await anyio.sleep(1)
        assert not deployment["a:1"].commands("killCursors")


async def test_a_cursor_in_a_reply_that_makes_no_sense_is_killed() -> None:
    deployment = ScriptedDeployment(["a:1"])
    deployment["a:1"].on("find", {"cursor": {"id": 7, "ns": "db.coll"}})
    async with driver(deployment) as client:
        with pytest.raises(ProtocolError) as caught:
            await client.run(find())
        assert caught.value.reached_server
        await anyio.sleep(1)
        (kill,) = deployment["a:1"].commands("killCursors")
        assert kill["cursors"] == [7]


async def test_after_a_next_batch_that_makes_no_sense_the_cursor_does_not_go_on() -> None:
    deployment = ScriptedDeployment(["a:1"])
    server = deployment["a:1"]
    server.on("find", {"cursor": {"id": 7, "ns": "db.coll", "firstBatch": []}})
    server.on("getMore", {"cursor": {"id": 7, "ns": "db.coll"}})
    async with scripted_client(deployment) as client:
        cursor = await client.db.coll.find()
        with pytest.raises(ProtocolError):
            await cursor.next()
        with pytest.raises(InvalidOperation, match="documents may be missing"):
            await cursor.next()
        await cursor.close()
        await anyio.sleep(0.1)
        assert len(server.commands("getMore")) == len(server.commands("killCursors")) == 1


async def test_timeout_ms_replaces_the_wait_queue_timeout() -> None:
    deployment = ScriptedDeployment(["a:1"])
    async with driver(deployment, maxPoolSize=1, waitQueueTimeoutMS=50) as client:
        await client.run(find())
        pool = client.server().pool
        busy = pool.check_out_now()
        assert busy is not None
        async with anyio.create_task_group() as group:

            async def give_back() -> None:
                await anyio.sleep(1)
                pool.check_in(busy)

            group.start_soon(give_back)
            await client.run(find(), timeout=5)


async def test_very_many_retries_are_not_all_remembered() -> None:
    deployment = ScriptedDeployment(["a:1"], replica_set="rs")
    deployment["a:1"].on("find", Reply({"ok": 0, "code": 6, "errmsg": "unreachable"}, 0.001))
    async with driver(deployment) as client:
        with pytest.raises(PyMongoError) as raised:
            await client.run(find(), timeout=600)  # one attempt in each second
        assert raised.value.attempts > 500
        assert len(raised.value.retry_reasons) == 16
        assert len(str(raised.value)) < 1000


async def test_a_monitor_survives_what_nobody_thought_of(monkeypatch: pytest.MonkeyPatch) -> None:
    deployment = ScriptedDeployment(["a:1"])
    async with driver(deployment, heartbeatFrequencyMS=500) as client:

        def fail(*_: Any, **__: Any) -> None:
            raise TypeError("a shape that nobody thought of")

        with monkeypatch.context() as broken:
            broken.setattr("motorlite._topology.monitor.ServerDescription.from_hello", fail)
            await anyio.sleep(3)
            assert isinstance(client.server().description.error, ProtocolError)
        await anyio.sleep(3)
        await client.run(find())
