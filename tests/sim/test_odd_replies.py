"""Replies that are valid BSON and make no sense: what becomes of their connections and cursors.

`test_malformed_replies.py` spoils every field of every reply, and looks at the errors.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

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
from motorlite._sessions.session import Session
from motorlite.errors import DuplicateKeyError, InvalidOperation, OperationFailure, ProtocolError, PyMongoError
from motorlite.testing.scripted import Reply, ScriptedDeployment
from tests.support.clients import scripted_client
from tests.support.core import DONE, FOUND, driver, find, insert, run_command

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(
    ("name", "make", "reply", "error"),
    [
        ("find", find, {"cursor": 5}, ProtocolError),
        ("insert", insert, {"n": 1, "writeErrors": 5}, ProtocolError),
        ("ping", run_command, {"ok": 0, "code": 2, "errmsg": "no", "errorLabels": 3}, OperationFailure),
    ],
    ids=["cursor", "write", "error"],
)
async def test_the_connection_is_good(name: str, make: Any, reply: dict[str, Any], error: type[PyMongoError]) -> None:
    deployment = ScriptedDeployment(["a:1"])
    deployment["a:1"].on(name, reply, FOUND if name == "find" else DONE)
    async with driver(deployment) as client:
        with pytest.raises(error) as raised:
            await client.run(make())
        assert raised.value.address == ("a", 1)
        assert raised.value.attempts == 1
        await client.run(make())
        state = client.server().pool.state
        assert (len(state.idle), len(state.in_use), state.created) == (1, 0, 1), "the reply was whole"


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


async def test_a_write_concern_error_means_nothing_to_a_read() -> None:
    deployment = ScriptedDeployment(["a:1"], replica_set="rs")
    concern_error = {"writeConcernError": {"code": 91, "errmsg": "no"}, "errorLabels": ["RetryableWriteError"]}
    deployment["a:1"].on("find", {**FOUND, **concern_error})
    async with driver(deployment) as client:
        await client.run(find())
        assert len(deployment["a:1"].commands("find")) == 1
        assert not client.recorder.cleared


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


def beyond_9999(field: str) -> dict[str, Any]:
    return {"cursor": {"id": 7, "ns": "db.coll", field: [{"at": FAR_DATE}]}}


class Refusing(TypeDecoder):
    """A decoder of the user's own that fails."""

    bson_type = str

    def transform_bson(self, value: Any) -> Any:
        raise LookupError(value)


REFUSING = CodecOptions[dict[str, Any]](type_registry=TypeRegistry([Refusing()]))


class Unparsable(Find):
    """An operation whose author did not think of this reply."""

    def parse(self, reply: Any) -> Any:
        raise TypeError("odd")


def refusing(operation: Any) -> Any:
    operation.codec_options = REFUSING
    return operation


def command() -> RunCommand:
    return RunCommand("db", {"find": "coll"})


NAMED = {"cursor": {"id": 7, "ns": "db.coll", "firstBatch": [{"name": "x"}]}}


@pytest.mark.parametrize(
    ("make", "reply", "error"),
    [
        (lambda: Unparsable("db", "coll"), NAMED, ProtocolError),
        (find, {"cursor": {"id": 7, "ns": "db.coll"}}, ProtocolError),
        (find, beyond_9999("firstBatch"), InvalidBSON),
        (command, beyond_9999("firstBatch"), InvalidBSON),
        (lambda: refusing(find()), NAMED, InvalidBSON),
    ],
    ids=["a bug", "no batch", "date", "date, command", "decoder"],
)
async def test_a_cursor_in_a_reply_of_no_use_is_killed(
    make: Callable[[], Any], reply: dict[str, Any], error: type[Exception]
) -> None:
    deployment = ScriptedDeployment(["a:1"])
    deployment["a:1"].on("find", reply)
    async with driver(deployment) as client:
        with pytest.raises(error) as caught:
            await client.run(make())
        assert not isinstance(caught.value, PyMongoError) or caught.value.reached_server
        await anyio.sleep(1)
        (kill,) = deployment["a:1"].commands("killCursors")
        assert (kill["$db"], kill["killCursors"], kill["cursors"]) == ("db", "coll", [7])
        assert client.server().pool.state.created == 1, "the connection is good"


async def test_no_decoder_sees_the_reply_of_a_command() -> None:
    deployment = ScriptedDeployment(["a:1"])
    deployment["a:1"].on("find", {"note": "text"})
    async with driver(deployment) as client:
        assert (await client.run(refusing(command())))["note"] == "text"
        deployment["a:1"].on("find", {"ok": 0, "code": 11000, "errmsg": "taken"})
        with pytest.raises(DuplicateKeyError, match="taken"):
            await client.run(refusing(command()))


async def test_a_cursor_whose_next_batch_is_refused_is_left_to_its_owner() -> None:
    deployment = ScriptedDeployment(["a:1"])
    deployment["a:1"].on("getMore", beyond_9999("nextBatch"))
    async with driver(deployment) as client:
        with pytest.raises(InvalidBSON):
            await client.run(GetMore("db", "coll", 7, address=("a", 1)))
        await anyio.sleep(1)
        assert not deployment["a:1"].commands("killCursors")


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
