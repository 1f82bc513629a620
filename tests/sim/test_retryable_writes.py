"""Retryable writes through the one retry loop: transaction numbers, labels, and which error is raised."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import anyio
import pytest
from bson.int64 import Int64

from motorlite._base.error_codes import RETRYABLE_WRITE_CODES
from motorlite._operations.collections import Create
from motorlite._operations.find_and_modify import FindAndModify
from motorlite._operations.single_writes import Delete, Update
from motorlite._operations.statements import delete_statement, update_statement
from motorlite.errors import (
    AutoReconnect,
    ConfigurationError,
    DuplicateKeyError,
    InvalidOperation,
    NetworkTimeout,
    NotPrimaryError,
    OperationFailure,
    PoolClearedError,
    ServerSelectionTimeoutError,
    WriteConcernError,
)
from motorlite.testing.scripted import Close, Hang, ScriptedDeployment, failure
from motorlite.write_concern import WriteConcern
from tests.support.core import (
    BAD_VALUE,
    FOUND,
    HOST_UNREACHABLE,
    OVERLOADED,
    RETRYABLE_ONLY,
    WRITTEN,
    A,
    B,
    driver,
    fails,
    find,
    gaps,
    hello_delay,
    insert,
    later,
    replica_set,
    run_command,
    update_many,
)

if TYPE_CHECKING:
    from motorlite._operations.single_writes import Insert
    from motorlite.testing.scripted import Answer

pytestmark = pytest.mark.anyio

WRITES = [
    ("insert", insert),
    ("update", lambda: Update("db", "coll", update_statement({}, {"$set": {"x": 1}}))),
    ("delete", lambda: Delete("db", "coll", delete_statement({}))),
]
NOT_RETRYABLE = [
    ("update", update_many),
    ("delete", lambda: Delete("db", "coll", delete_statement({}, multi=True))),
    ("create", lambda: Create("db", "coll")),
    ("ping", run_command),
]


def concern_error(code: int, *labels: str) -> dict[str, Any]:
    reply: dict[str, Any] = {"n": 1, "writeConcernError": {"code": code, "errmsg": "not enough members"}}
    return {**reply, "errorLabels": list(labels)} if labels else reply


# --- transaction numbers ---


@pytest.mark.parametrize(("name", "make"), WRITES, ids=[row[0] for row in WRITES])
@pytest.mark.parametrize("answer", [HOST_UNREACHABLE, OVERLOADED, RETRYABLE_ONLY, Close()])
async def test_one_number_for_all_attempts(name: str, make: Any, answer: Answer) -> None:
    deployment = replica_set()
    deployment["a:1"].on(name, answer, WRITTEN)
    async with driver(deployment) as client:
        await client.run(make())
        first, second = deployment["a:1"].commands(name)
        assert first["txnNumber"] == second["txnNumber"] == 1
        assert first["lsid"] == second["lsid"]


async def test_a_number_for_each_operation_of_a_session() -> None:
    deployment = replica_set()
    deployment["a:1"].on("insert", *[OVERLOADED] * 3, WRITTEN)
    async with driver(deployment) as client:
        await client.run(insert())
        await client.run(insert())
        await client.run(run_command())
        await client.run(insert())
        commands = deployment["a:1"].commands()
        assert [command.get("txnNumber") for command in commands] == [1, 1, 1, 1, 2, None, 3]
        # One implicit session was enough.
        assert len({bytes(command["lsid"]["id"]) for command in commands}) == 1


async def test_the_number_is_a_64_bit_integer() -> None:
    deployment = replica_set()
    async with driver(deployment) as client:
        await client.run(insert())
        assert isinstance(deployment["a:1"].commands("insert")[0]["txnNumber"], Int64)


@pytest.mark.parametrize(("name", "make"), NOT_RETRYABLE, ids=["updateMany", "deleteMany", "create", "runCommand"])
async def test_others_have_no_number_and_no_retry(name: str, make: Any) -> None:
    deployment = replica_set()
    deployment["a:1"].on(name, HOST_UNREACHABLE, WRITTEN)
    async with driver(deployment) as client:
        error = await fails(client, make())
        assert (error.attempts, error.retry_refusal) == (1, "not retryable")
        deployment["a:1"].on(name, OVERLOADED, WRITTEN)
        await client.run(make())
        assert all("txnNumber" not in command for command in deployment["a:1"].commands(name))


async def test_find_and_modify() -> None:
    deployment = replica_set()
    deployment["a:1"].on("findAndModify", HOST_UNREACHABLE, {"value": {"_id": 1}})
    async with driver(deployment) as client:
        await client.run(FindAndModify("db", "coll", {}, update={"$set": {"x": 1}}))
        assert [command["txnNumber"] for command in deployment["a:1"].commands("findAndModify")] == [1, 1]


async def test_a_read_has_no_number() -> None:
    deployment = replica_set()
    deployment["a:1"].on("find", HOST_UNREACHABLE, FOUND)
    async with driver(deployment) as client:
        await client.run(find())
        commands = deployment["a:1"].commands("find")
        assert ["txnNumber" in command for command in commands] == [False, False]


async def test_a_standalone_gets_no_number_and_no_retry() -> None:
    deployment = ScriptedDeployment(["a:1"])
    deployment["a:1"].on("insert", HOST_UNREACHABLE, WRITTEN)
    async with driver(deployment) as client:
        error = await fails(client, insert())
        assert (error.attempts, error.retry_refusal) == (1, "not retryable")
        (command,) = deployment["a:1"].commands("insert")
        assert "txnNumber" not in command
        assert "lsid" in command
        deployment["a:1"].on("insert", OVERLOADED, WRITTEN)
        await client.run(insert())


async def test_a_mongos_does() -> None:
    deployment = ScriptedDeployment(["a:1"], mongos=True)
    deployment["a:1"].on("insert", HOST_UNREACHABLE, WRITTEN)
    async with driver(deployment) as client:
        await client.run(insert())
        assert [command["txnNumber"] for command in deployment["a:1"].commands("insert")] == [1, 1]


async def test_retry_writes_off() -> None:
    deployment = replica_set()
    deployment["a:1"].on("insert", HOST_UNREACHABLE, WRITTEN)
    async with driver(deployment, retryWrites=False) as client:
        error = await fails(client, insert())
        # Without a txnNumber the label would mean nothing.
        assert (error.attempts, error.retry_refusal) == (1, "not retryable")
        deployment["a:1"].on("insert", Close())
        error = await fails(client, insert())
        assert error.attempts == 1
        # The label is the driver's to add only where it would retry.
        assert not error.has_error_label("RetryableWriteError")
        assert all("txnNumber" not in command for command in deployment["a:1"].commands("insert"))


async def test_unacknowledged_writes_have_neither_session_nor_number() -> None:
    deployment = replica_set()
    async with driver(deployment) as client:
        await client.run(insert(write_concern=WriteConcern(w=0)))
        (command,) = deployment["a:1"].commands("insert")
        assert "txnNumber" not in command
        assert "lsid" not in command


@pytest.mark.parametrize("change", [{"setName": None, "hosts": []}, {"logicalSessionTimeoutMinutes": None}])
async def test_a_server_that_no_longer_supports_it(change: dict[str, Any]) -> None:
    # It comes back as something else before the monitor sees that; without its number the write could happen twice.
    deployment = replica_set()
    server = deployment["a:1"]

    def change_during_the_backoff(_: dict[str, Any]) -> Answer:
        server.hello.update(change)
        return OVERLOADED

    server.on("insert", change_during_the_backoff, WRITTEN)
    async with driver(deployment) as client:

        async def restart() -> None:
            await anyio.sleep(0.05)
            server.drop_connections()

        async with anyio.create_task_group() as group:
            group.start_soon(restart)
            error = await fails(client, insert())
        assert isinstance(error, OperationFailure)
        assert (error.code, error.attempts) == (462, 2)
        assert isinstance(error.__cause__, InvalidOperation)
        assert str(error.__cause__).startswith("no equivalent command for this server: ")
        assert isinstance(error.__cause__.__cause__, ConfigurationError)
        assert len(server.commands("insert")) == 1


# --- labels ---


@pytest.mark.parametrize("code", sorted(RETRYABLE_WRITE_CODES))
async def test_from_4_4_on_the_server_labels(code: int) -> None:
    deployment = replica_set()
    deployment["a:1"].on("insert", failure(code), WRITTEN)
    async with driver(deployment) as client:
        error = await fails(client, insert())
        assert error.attempts == 1
        assert not error.has_error_label("RetryableWriteError")
    deployment["a:1"].on("insert", failure(code, "RetryableWriteError"), WRITTEN)
    async with driver(deployment) as client:
        await client.run(insert())


@pytest.mark.parametrize("code", sorted(RETRYABLE_WRITE_CODES))
async def test_before_4_4_the_driver_labels(code: int) -> None:
    deployment = replica_set(wire_version=8)
    deployment["a:1"].on("insert", failure(code), WRITTEN)
    async with driver(deployment) as client:
        await client.run(insert())
        deployment["a:1"].on("insert", failure(code))
        error = await fails(client, insert())
        assert error.has_error_label("RetryableWriteError")
        assert (error.attempts, error.retry_refusal) == (2, "attempts")


async def test_before_4_4_another_code_is_not_labelled() -> None:
    deployment = replica_set(wire_version=8)
    deployment["a:1"].on("insert", BAD_VALUE)
    async with driver(deployment) as client:
        assert (await fails(client, insert())).error_labels == frozenset()


@pytest.mark.parametrize("wire_version", [8, 17])
async def test_network_errors_are_labelled_by_the_driver(wire_version: int) -> None:
    deployment = replica_set(wire_version=wire_version)
    deployment["a:1"].on("insert", Close())
    async with driver(deployment) as client:
        error = await fails(client, insert())
        assert isinstance(error, AutoReconnect)
        assert error.has_error_label("RetryableWriteError")
        assert error.attempts == 2


async def test_a_standalones_network_errors_are_not_labelled() -> None:
    deployment = ScriptedDeployment(["a:1"])
    deployment["a:1"].on("insert", Close())
    async with driver(deployment) as client:
        error = await fails(client, insert())
        assert isinstance(error, AutoReconnect)
        assert not error.has_error_label("RetryableWriteError")
        assert (error.attempts, error.retry_refusal) == (1, "not retryable")


async def test_a_socket_time_out_is_a_network_error() -> None:
    deployment = replica_set()
    deployment["a:1"].on("insert", Hang(), WRITTEN)
    async with driver(deployment, socketTimeoutMS=500) as client:
        await client.run(insert())
        assert gaps(deployment["a:1"].times("insert")) == [0.5]
        deployment["a:1"].on("insert", Hang())
        error = await fails(client, insert())
        assert isinstance(error, NetworkTimeout)
        # Not the driver's own time limit.
        assert (error.attempts, error.phase) == (2, None)


async def test_waiting_for_a_connection_while_the_pool_is_cleared() -> None:
    # Retryable writes specification, prose test 2. The description is reset by then; what was known counts.
    deployment = replica_set()
    deployment["a:1"].on("insert", later(failure(91, "RetryableWriteError"), 1), WRITTEN)
    async with driver(deployment, maxPoolSize=1) as client:
        async with anyio.create_task_group() as group:
            group.start_soon(client.run, insert())
            await anyio.sleep(0.1)
            await client.run(insert())
        assert len(deployment["a:1"].times("insert")) == 3
        cleared, refused = sorted(client.recorder.retries, key=lambda event: type(event.error).__name__, reverse=True)
        assert isinstance(cleared.error, PoolClearedError)
        assert cleared.error.has_error_label("RetryableWriteError")
        assert isinstance(refused.error, NotPrimaryError)
        assert (cleared.reason, refused.reason) == ("server not available", "failover")
        assert {cleared.rule, refused.rule} == {"specification"}


async def test_a_write_that_has_a_number_stays_retryable_without_a_connection() -> None:
    # As it would not be if the second server had been the first one to be asked.
    deployment = replica_set(servers=2)
    other = deployment["b:1"]
    other.hello["logicalSessionTimeoutMinutes"] = None

    def step_down(_: dict[str, Any]) -> Answer:
        deployment.step_down("b:1")
        other.on("isMaster", Close())
        return failure(10107, "RetryableWriteError")

    deployment["a:1"].on("insert", step_down)
    async with driver(deployment) as client:
        await fails(client, insert())
        event = client.recorder.retries[1]
        assert event.address == B
        assert isinstance(event.error, AutoReconnect)
        assert event.error.has_error_label("RetryableWriteError")


@pytest.mark.parametrize(
    ("is_standalone", "options", "operation"),
    [
        (True, {}, insert()),
        (False, {"retryWrites": False}, insert()),
        (False, {}, insert(write_concern=WriteConcern(w=0))),
    ],
    ids=["standalone", "retryWrites=false", "unacknowledged"],
)
async def test_a_write_that_may_not_be_retried_while_the_pool_is_cleared(
    is_standalone: bool, options: dict[str, Any], operation: Insert
) -> None:
    deployment = ScriptedDeployment(["a:1"]) if is_standalone else replica_set()
    deployment["a:1"].on("insert", later(failure(91), 1), WRITTEN)
    async with driver(deployment, maxPoolSize=1, **options) as client:
        async with anyio.create_task_group() as group:
            group.start_soon(fails, client, insert())
            await anyio.sleep(0.1)
            error = await fails(client, operation)
        assert isinstance(error, PoolClearedError)
        assert not error.has_error_label("RetryableWriteError")
        assert (error.attempts, error.retry_refusal) == (1, "not retryable")


# --- write concern errors ---


@pytest.mark.parametrize(
    ("wire_version", "labels"), [(17, ("RetryableWriteError",)), (8, ())], ids=["labelled", "by its code"]
)
async def test_a_write_concern_error_is_retried(wire_version: int, labels: tuple[str, ...]) -> None:
    deployment = replica_set(wire_version=wire_version)
    deployment["a:1"].on("insert", concern_error(91, *labels), WRITTEN)
    async with driver(deployment) as client:
        assert await client.run(insert()) == {**WRITTEN, "ok": 1}
        assert [command["txnNumber"] for command in deployment["a:1"].commands("insert")] == [1, 1]
        # The server answered; its commands succeeded.
        assert client.recorder.history == ["started insert", "succeeded insert"] * 2


NOT_PRIMARY = {"n": 0, "writeErrors": [{"index": 0, "code": 189, "errmsg": "Not primary while writing to db.coll"}]}


async def test_a_write_error_beside_a_write_concern_error_is_retried() -> None:
    # What a primary answers that steps down just before it writes.
    deployment = replica_set()
    deployment["a:1"].on("insert", {**concern_error(189, "RetryableWriteError"), **NOT_PRIMARY}, WRITTEN)
    async with driver(deployment) as client:
        assert await client.run(insert()) == {**WRITTEN, "ok": 1}
        assert [command["txnNumber"] for command in deployment["a:1"].commands("insert")] == [1, 1]


async def test_a_write_error_beside_a_write_concern_error_is_told_in_the_end() -> None:
    deployment = replica_set()
    duplicate = {"n": 0, "writeErrors": [{"index": 0, "code": 11000, "errmsg": "E11000"}]}
    deployment["a:1"].on("insert", {**concern_error(189, "RetryableWriteError"), **duplicate})
    async with driver(deployment) as client:
        error = await fails(client, insert())
        assert isinstance(error, DuplicateKeyError)
        assert (error.attempts, error.retry_refusal) == (2, "attempts")


@pytest.mark.parametrize(
    ("wire_version", "reply"),
    [
        (17, concern_error(91)),
        (8, concern_error(64)),
        (17, {**concern_error(91), **NOT_PRIMARY}),
    ],
    ids=["no label", "another code", "no label beside a write error"],
)
async def test_a_write_concern_error_is_not_retried(wire_version: int, reply: dict[str, Any]) -> None:
    deployment = replica_set(wire_version=wire_version)
    deployment["a:1"].on("insert", reply)
    async with driver(deployment) as client:
        error = await fails(client, insert())
        assert len(deployment["a:1"].commands("insert")) == 1
        assert error.attempts == 1


async def test_a_write_concern_error_on_both_attempts_is_the_operations_to_tell() -> None:
    deployment = replica_set()
    deployment["a:1"].on("insert", concern_error(91, "RetryableWriteError"))
    async with driver(deployment) as client:
        error = await fails(client, insert())
        assert isinstance(error, WriteConcernError)
        assert error.code == 91
        assert error.has_error_label("RetryableWriteError")
        assert (error.attempts, error.retry_refusal, error.address) == (2, "attempts", A)
        assert error.retry_reasons == ("failover",)


@pytest.mark.parametrize("new_primary", ["b:1", None])
async def test_a_write_concern_error_and_then_no_reply(new_primary: str | None) -> None:
    # The reply of the first attempt stands, with the server that sent it.
    deployment = replica_set(servers=2)

    def step_down(_: dict[str, Any]) -> Answer:
        deployment.step_down(new_primary)
        return concern_error(91, "RetryableWriteError")

    deployment["a:1"].on("insert", step_down)
    deployment["b:1"].on("insert", failure(10107, "RetryableWriteError", "NoWritesPerformed"))
    async with driver(deployment, serverSelectionTimeoutMS=700) as client:
        error = await fails(client, insert())
        assert isinstance(error, WriteConcernError)
        assert (error.attempts, error.address) == (2, A)
        assert error.retry_reasons == ("failover",)
        assert error.phase == (None if new_primary else "selection")


async def test_a_write_concern_error_and_then_nothing_written() -> None:
    # The write was applied by the first attempt: its reply stands.
    deployment = replica_set()
    deployment["a:1"].on(
        "insert",
        concern_error(91, "RetryableWriteError"),
        failure(10107, "RetryableWriteError", "NoWritesPerformed"),
    )
    async with driver(deployment) as client:
        error = await fails(client, insert())
        assert isinstance(error, WriteConcernError)
        assert (error.code, error.attempts, error.retry_refusal) == (91, 2, "attempts")


async def test_a_write_concern_error_and_then_another_error() -> None:
    deployment = replica_set()
    deployment["a:1"].on("insert", concern_error(91, "RetryableWriteError"), BAD_VALUE)
    async with driver(deployment) as client:
        error = await fails(client, insert())
        assert isinstance(error, OperationFailure)
        assert (error.code, error.attempts) == (2, 2)


async def test_a_write_concern_error_of_an_operation_that_is_not_retried_stands() -> None:
    deployment = replica_set()
    deployment["a:1"].on("update", concern_error(91, "RetryableWriteError"))
    deployment["a:1"].on("ping", concern_error(91, "RetryableWriteError"))
    async with driver(deployment) as client:
        error = await fails(client, update_many())
        assert isinstance(error, WriteConcernError)
        assert (error.attempts, error.retry_refusal) == (1, "not retryable")
        # A command of the user's own is not looked at: the reply is handed over as it is.
        reply = await client.run(run_command())
        assert reply["writeConcernError"]["code"] == 91


async def test_a_write_concern_error_of_mongos_before_4_4_has_no_meaning() -> None:
    deployment = ScriptedDeployment(["a:1"], mongos=True, wire_version=8)
    deployment["a:1"].on("insert", concern_error(91))
    async with driver(deployment) as client:
        error = await fails(client, insert())
        assert error.attempts == 1


async def test_a_write_concern_error_tells_the_topology() -> None:
    deployment = replica_set()
    deployment["a:1"].on("insert", concern_error(91, "RetryableWriteError"), WRITTEN)
    async with driver(deployment) as client:
        await client.run(insert())
        # ShutdownInProgress clears the pool.
        assert len(client.recorder.cleared) == 1


async def test_a_write_concern_error_of_before_a_step_down_that_is_known_tells_nothing() -> None:
    deployment = replica_set(streaming=True)
    server = deployment["a:1"]

    def answer(_: dict[str, Any]) -> Answer:
        known = {"processId": server.process_id, "counter": server.counter}
        return {**concern_error(91, "RetryableWriteError"), "topologyVersion": known}

    server.on("insert", answer, WRITTEN)
    async with driver(deployment) as client:
        await client.run(insert())
        assert len(server.commands("insert")) == 2
        assert not client.recorder.cleared


async def test_the_topology_is_told_whose_write_concern_failed() -> None:
    deployment = replica_set()
    deployment["a:1"].on("insert", concern_error(10107))
    async with driver(deployment) as client:
        hello_delay(deployment, "a:1", 1)
        await fails(client, insert())
        error = client.server().description.error
        assert isinstance(error, WriteConcernError)
        assert (error.code, error.address) == (10107, A)


# --- which error is raised ---


@pytest.mark.parametrize(
    ("answers", "expected"),
    [
        ([HOST_UNREACHABLE, BAD_VALUE], 2),
        ([HOST_UNREACHABLE, failure(2, "NoWritesPerformed")], 6),
        ([failure(6, "RetryableWriteError", "NoWritesPerformed"), BAD_VALUE], 2),
        ([failure(6, "RetryableWriteError", "NoWritesPerformed"), failure(2, "NoWritesPerformed")], 6),
        ([OVERLOADED, HOST_UNREACHABLE, failure(2, "NoWritesPerformed")], 6),
        ([failure(462, "SystemOverloadedError", "RetryableError", "NoWritesPerformed"), BAD_VALUE], 2),
    ],
)
async def test_no_writes_performed(answers: list[Answer], expected: int) -> None:
    deployment = replica_set()
    deployment["a:1"].on("insert", *answers)
    async with driver(deployment) as client:
        error = await fails(client, insert())
        assert isinstance(error, OperationFailure)
        assert error.code == expected
        assert error.attempts == len(answers)


async def test_the_newest_error_is_the_cause_and_has_its_own_server() -> None:
    deployment = ScriptedDeployment(["a:1", "b:1"], mongos=True)
    deployment["a:1"].on("insert", failure(6, "RetryableWriteError"))
    deployment["b:1"].on("insert", failure(2, "NoWritesPerformed"))
    async with driver(deployment) as client:
        error = await fails(client, insert())
        cause = error.__cause__
        assert isinstance(error, OperationFailure)
        assert isinstance(cause, OperationFailure)
        assert (error.code, error.address) == (6, A)
        assert (cause.code, cause.address) == (2, B)


async def test_run_command_counts_as_a_write() -> None:
    deployment = replica_set()
    deployment["a:1"].on("ping", OVERLOADED, failure(2, "NoWritesPerformed"))
    async with driver(deployment) as client:
        error = await fails(client, run_command())
        assert isinstance(error, OperationFailure)
        assert error.code == 462


async def test_no_server_for_the_retry() -> None:
    deployment = replica_set()

    def step_down(_: dict[str, Any]) -> Answer:
        deployment.step_down(None)
        return failure(10107, "RetryableWriteError")

    deployment["a:1"].on("insert", step_down)
    async with driver(deployment, serverSelectionTimeoutMS=2000) as client:
        error = await fails(client, insert())
        assert isinstance(error, NotPrimaryError)
        assert (error.code, error.attempts, error.phase) == (10107, 2, "selection")
        assert isinstance(error.__cause__, ServerSelectionTimeoutError)


async def test_a_network_error_and_then_an_overloaded_server() -> None:
    deployment = replica_set()
    deployment["a:1"].on("insert", Close(), OVERLOADED, WRITTEN)
    async with driver(deployment) as client:
        await client.run(insert())
        assert len(deployment["a:1"].commands("insert")) == 3
        assert [event.delay for event in client.recorder.retries] == [0, 0.2]


async def test_a_new_primary_gets_the_retry() -> None:
    deployment = ScriptedDeployment(["a:1", "b:1"], replica_set="rs")

    def step_down(_: dict[str, Any]) -> Answer:
        deployment.step_down("b:1")
        return failure(10107, "RetryableWriteError")

    deployment["a:1"].on("insert", step_down)
    async with driver(deployment) as client:
        await client.run(insert())
        (first,) = deployment["a:1"].commands("insert")
        (second,) = deployment["b:1"].commands("insert")
        assert first["txnNumber"] == second["txnNumber"]
        assert first["lsid"] == second["lsid"]


async def test_the_reply_that_stands_tells_the_server_that_it_is_from() -> None:
    deployment = ScriptedDeployment(["a:1", "b:1"], mongos=True)
    deployment["a:1"].on("insert", concern_error(64, "RetryableWriteError"))
    deployment["b:1"].on("insert", failure(2, "NoWritesPerformed"))
    async with driver(deployment) as client:
        error = await fails(client, insert())
        assert isinstance(error, WriteConcernError)
        assert (error.address, error.attempts) == (A, 2)
        assert len(deployment["b:1"].commands("insert")) == 1


async def test_the_reply_of_the_retry_tells_its_own_server() -> None:
    deployment = ScriptedDeployment(["a:1", "b:1"], mongos=True)
    deployment["a:1"].on("insert", concern_error(64, "RetryableWriteError"))
    deployment["b:1"].on("insert", {"n": 0, "writeErrors": [{"index": 0, "code": 11000, "errmsg": "E11000"}]})
    async with driver(deployment) as client:
        error = await fails(client, insert())
        assert isinstance(error, DuplicateKeyError)
        assert (error.address, error.attempts, error.retry_reasons) == (B, 2, ("temporary failure",))
