"""Replies that are valid BSON and make no sense: a clear error, and nothing else suffers."""

from __future__ import annotations

from typing import Any

import anyio
import anyio.lowlevel
import pytest
from bson.timestamp import Timestamp

from motorlite._execution.session import Session
from motorlite._operations.statements import update_statement
from motorlite._operations.update import Update
from motorlite.deadline import NO_DEADLINE
from motorlite.errors import OperationFailure, ProtocolError, PyMongoError
from motorlite.testing.scripted import ScriptedDeployment
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
            await client.core.executor.execute(insert(), session, NO_DEADLINE)
        await anyio.lowlevel.checkpoint()
        last = deployment["a:1"].commands("insert")[-1]
        assert last["$clusterTime"] == newer["$clusterTime"]
        assert session.operation_time == newer["operationTime"]
        client.core.executor.release(session)
