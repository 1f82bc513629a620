"""Retryable writes through the one retry loop: transaction numbers, labels, and which error is raised.

What they have in common with reads is in test_retryable_reads.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import anyio
import pytest

from motorlite._operations.collections import Create
from motorlite._operations.single_writes import Delete, FindAndModify, Update
from motorlite._operations.statements import delete_statement, update_statement
from motorlite.errors import (
    AutoReconnect,
    ConfigurationError,
    DuplicateKeyError,
    InvalidOperation,
    OperationFailure,
    PoolClearedError,
    PyMongoError,
    WriteConcernError,
    WriteError,
)
from motorlite.testing.scripted import Close, ScriptedDeployment, failure
from motorlite.write_concern import WriteConcern
from tests.support.core import (
    BAD_VALUE,
    HOST_UNREACHABLE,
    OVERLOADED,
    RETRYABLE_ONLY,
    WRITTEN,
    A,
    B,
    answering,
    driver,
    fails,
    hello_delay,
    insert,
    later,
    replica_set,
    run_command,
    steps_down,
    update_many,
)

if TYPE_CHECKING:
    from motorlite._operations.contract import Operation
    from motorlite.testing.scripted import Answer

pytestmark = pytest.mark.anyio

LABEL: Final = "RetryableWriteError"
NOTHING: Final = "NoWritesPerformed"
UNACKNOWLEDGED: Final = WriteConcern(w=0)


def concern_error(code: int, *labels: str) -> dict[str, Any]:
    reply: dict[str, Any] = {"n": 1, "writeConcernError": {"code": code, "errmsg": "not enough members"}}
    return {**reply, "errorLabels": list(labels)} if labels else reply


def deployment_of(topology: str) -> ScriptedDeployment:
    return ScriptedDeployment(
        ["a:1"], replica_set="rs" if topology == "replica set" else None, mongos=topology == "sharded"
    )


# --- transaction numbers ---


@pytest.mark.parametrize(
    "operation",
    [
        insert(),
        Update("db", "coll", update_statement({}, {"$set": {"x": 1}})),
        Delete("db", "coll", delete_statement({})),
        FindAndModify[Any]("db", "coll", {}, update={"$set": {"x": 1}}),
    ],
    ids=lambda operation: operation.name,
)
@pytest.mark.parametrize("answer", [HOST_UNREACHABLE, OVERLOADED, RETRYABLE_ONLY, Close()])
@pytest.mark.parametrize("topology", ["replica set", "sharded"])
async def test_one_number_for_all_attempts(operation: Operation[Any], answer: Answer, topology: str) -> None:
    deployment = deployment_of(topology)
    deployment["a:1"].on(operation.name, answer, WRITTEN)
    async with driver(deployment) as client:
        await client.run(operation)
        first, second = deployment["a:1"].commands(operation.name)
        assert first["txnNumber"] == second["txnNumber"] == 1
        assert first["lsid"] == second["lsid"]


async def test_a_number_for_each_operation_of_a_session() -> None:
    deployment = answering("insert", *[OVERLOADED] * 3, WRITTEN)
    async with driver(deployment) as client:
        await client.run(insert())
        await client.run(insert())
        await client.run(run_command())
        await client.run(insert())
        commands = deployment["a:1"].commands()
        assert [command.get("txnNumber") for command in commands] == [1, 1, 1, 1, 2, None, 3]
        # One implicit session was enough.
        assert len({bytes(command["lsid"]["id"]) for command in commands}) == 1


@pytest.mark.parametrize(
    ("operation", "topology", "options"),
    [
        (update_many(), "replica set", {}),
        (Delete("db", "coll", delete_statement({}, multi=True)), "replica set", {}),
        (Create("db", "coll"), "replica set", {}),
        (insert(), "standalone", {}),
        (insert(), "replica set", {"retryWrites": False}),
    ],
    ids=["updateMany", "deleteMany", "create", "standalone", "retryWrites=false"],
)
async def test_others_have_no_number_and_no_retry(
    operation: Operation[Any], topology: str, options: dict[str, Any]
) -> None:
    deployment, name = deployment_of(topology), operation.name
    async with driver(deployment, **options) as client:
        for answer in (HOST_UNREACHABLE, Close()):
            deployment["a:1"].on(name, answer, WRITTEN)
            error = await fails(client, operation)
            assert (error.attempts, error.retry_refusal) == (1, "disabled" if options else "not retryable")
            # The label is the driver's to add only where it would retry.
            assert error.has_error_label(LABEL) is (answer is HOST_UNREACHABLE)
        if not options:
            deployment["a:1"].on(name, OVERLOADED, WRITTEN)
            await client.run(operation)
        commands = deployment["a:1"].commands(name)
        assert all("lsid" in command and "txnNumber" not in command for command in commands)


async def test_unacknowledged_writes_have_neither_session_nor_number() -> None:
    deployment = replica_set()
    async with driver(deployment) as client:
        await client.run(insert(write_concern=UNACKNOWLEDGED))
        (command,) = deployment["a:1"].commands("insert")
        assert not {"txnNumber", "lsid"} & command.keys()


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


@pytest.mark.parametrize(
    ("wire_version", "answer", "attempts"),
    [
        # From 4.4 on the server labels, before that the driver does.
        (17, failure(91), 1),
        (17, failure(91, LABEL), 2),
        (8, failure(91), 2),
        (8, BAD_VALUE, 1),
        # Network errors are always the driver's.
        (17, Close(), 2),
        (8, Close(), 2),
    ],
)
async def test_who_labels(wire_version: int, answer: Answer, attempts: int) -> None:
    async with driver(answering("insert", answer, wire_version=wire_version)) as client:
        error = await fails(client, insert())
        assert error.attempts == attempts
        assert error.has_error_label(LABEL) is (attempts == 2)
        assert error.retry_refusal == ("attempts" if attempts == 2 else error.retry_refusal)


async def test_a_write_that_has_a_number_stays_retryable_without_a_connection() -> None:
    # As it would not be if the second server had been the first one to be asked.
    deployment = replica_set(servers=2)
    other = deployment["b:1"]
    other.hello["logicalSessionTimeoutMinutes"] = None

    def step_down(_: dict[str, Any]) -> Answer:
        deployment.step_down("b:1")
        other.on("isMaster", Close())
        return failure(10107, LABEL)

    deployment["a:1"].on("insert", step_down)
    async with driver(deployment) as client:
        await fails(client, insert())
        event = client.recorder.retries[1]
        assert event.address == B
        assert isinstance(event.error, AutoReconnect)
        assert event.error.has_error_label(LABEL)


@pytest.mark.parametrize(
    ("topology", "options", "operation"),
    [
        ("standalone", {}, insert()),
        ("replica set", {"retryWrites": False}, insert()),
        ("replica set", {}, insert(write_concern=UNACKNOWLEDGED)),
    ],
    ids=["standalone", "retryWrites=false", "unacknowledged"],
)
async def test_a_write_that_may_not_be_retried_while_the_pool_is_cleared(
    topology: str, options: dict[str, Any], operation: Operation[Any]
) -> None:
    deployment = deployment_of(topology)
    deployment["a:1"].on("insert", later(failure(91), 1), WRITTEN)
    async with driver(deployment, maxPoolSize=1, **options) as client:
        async with anyio.create_task_group() as group:
            group.start_soon(fails, client, insert())
            await anyio.sleep(0.1)
            error = await fails(client, operation)
        assert isinstance(error, PoolClearedError)
        assert not error.has_error_label(LABEL)
        assert (error.attempts, error.retry_refusal) == (1, "disabled" if options else "not retryable")


# --- write concern errors ---

NOT_PRIMARY: Final = {
    "n": 0,
    "writeErrors": [{"index": 0, "code": 189, "errmsg": "Not primary while writing to db.coll"}],
}
DUPLICATE: Final = {"n": 0, "writeErrors": [{"index": 0, "code": 11000, "errmsg": "E11000"}]}


@pytest.mark.parametrize(
    ("wire_version", "answer"),
    [
        (17, concern_error(91, LABEL)),
        # By its code.
        (8, concern_error(91)),
        # What a primary answers that steps down just before it writes.
        (17, {**concern_error(189, LABEL), **NOT_PRIMARY}),
    ],
)
async def test_a_write_concern_error_is_retried(wire_version: int, answer: Answer) -> None:
    deployment = answering("insert", answer, WRITTEN, wire_version=wire_version)
    async with driver(deployment) as client:
        assert await client.run(insert()) == {**WRITTEN, "ok": 1}
        assert [command["txnNumber"] for command in deployment["a:1"].commands("insert")] == [1, 1]
        # The server answered; its commands succeeded.
        assert client.recorder.history == ["started insert", "succeeded insert"] * 2


@pytest.mark.parametrize(
    ("arguments", "answers", "kind", "code", "attempts"),
    [
        # Not retried: without a label, for another code, and from a mongos before 4.4, where it has no meaning.
        ({}, [concern_error(91)], WriteConcernError, 91, 1),
        ({"wire_version": 8}, [concern_error(64)], WriteConcernError, 64, 1),
        ({}, [{**concern_error(91), **NOT_PRIMARY}], WriteError, 189, 1),
        ({"wire_version": 8, "mongos": True}, [concern_error(91)], WriteConcernError, 91, 1),
        # Retried, and then told: what the server answered to the retry, unless that changed nothing.
        ({}, [concern_error(91, LABEL)], WriteConcernError, 91, 2),
        ({}, [{**concern_error(189, LABEL), **DUPLICATE}], DuplicateKeyError, 11000, 2),
        ({}, [concern_error(91, LABEL), BAD_VALUE], OperationFailure, 2, 2),
        ({}, [concern_error(91, LABEL), failure(10107, LABEL, NOTHING)], WriteConcernError, 91, 2),
    ],
)
async def test_a_write_concern_error_that_is_told(
    arguments: dict[str, Any], answers: list[Answer], kind: type[PyMongoError], code: int, attempts: int
) -> None:
    deployment = ScriptedDeployment(["a:1"], replica_set=None if "mongos" in arguments else "rs", **arguments)
    deployment["a:1"].on("insert", *answers)
    async with driver(deployment) as client:
        error: Any = await fails(client, insert())
        assert (type(error), error.code, error.address) == (kind, code, A)
        assert len(deployment["a:1"].commands("insert")) == error.attempts == attempts
        if attempts == 2:
            assert error.retry_reasons == ("failover",)
            assert error.retry_refusal == ("not retryable" if code == 2 else "attempts")
            assert error.has_error_label(LABEL) is (code != 2)


@pytest.mark.parametrize("new_primary", ["b:1", None])
async def test_a_write_concern_error_and_then_no_reply(new_primary: str | None) -> None:
    # The reply of the first attempt stands, with the server that sent it.
    deployment = replica_set(servers=2)
    deployment["a:1"].on("insert", steps_down(deployment, new_primary, concern_error(91, LABEL)))
    deployment["b:1"].on("insert", failure(10107, LABEL, NOTHING))
    async with driver(deployment, serverSelectionTimeoutMS=700) as client:
        error = await fails(client, insert())
        assert isinstance(error, WriteConcernError)
        assert (error.attempts, error.address) == (2, A)
        assert error.retry_reasons == ("failover",)
        assert error.phase == (None if new_primary else "selection")


async def test_a_write_concern_error_of_an_operation_that_is_not_retried_stands() -> None:
    deployment = replica_set()
    deployment["a:1"].on("update", concern_error(91, LABEL))
    deployment["a:1"].on("ping", concern_error(91, LABEL))
    async with driver(deployment) as client:
        error = await fails(client, update_many())
        assert isinstance(error, WriteConcernError)
        assert (error.attempts, error.retry_refusal) == (1, "not retryable")
        # A command of the user's own is not looked at: the reply is handed over as it is.
        reply = await client.run(run_command())
        assert reply["writeConcernError"]["code"] == 91


@pytest.mark.parametrize("is_known", [False, True])
async def test_a_write_concern_error_tells_the_topology(is_known: bool) -> None:
    """ShutdownInProgress clears the pool, unless the error is of before a step-down that is known."""
    deployment = replica_set(streaming=True)
    server = deployment["a:1"]

    def answer(_: dict[str, Any]) -> Answer:
        known = {"processId": server.process_id, "counter": server.counter}
        return {**concern_error(91, LABEL), **({"topologyVersion": known} if is_known else {})}

    server.on("insert", answer, WRITTEN)
    async with driver(deployment) as client:
        await client.run(insert())
        assert len(server.commands("insert")) == 2
        assert len(client.recorder.cleared) == (not is_known)


async def test_the_topology_is_told_whose_write_concern_failed() -> None:
    deployment = answering("insert", concern_error(10107))
    async with driver(deployment) as client:
        hello_delay(deployment, "a:1", 1)
        await fails(client, insert())
        error = client.server().description.error
        assert isinstance(error, WriteConcernError)
        assert (error.code, error.address) == (10107, A)


# --- which error is raised ---


@pytest.mark.parametrize(
    ("operation", "answers", "expected"),
    [
        (insert(), [HOST_UNREACHABLE, BAD_VALUE], 2),
        (insert(), [HOST_UNREACHABLE, failure(2, NOTHING)], 6),
        (insert(), [failure(6, LABEL, NOTHING), BAD_VALUE], 2),
        (insert(), [failure(6, LABEL, NOTHING), failure(2, NOTHING)], 6),
        (insert(), [OVERLOADED, HOST_UNREACHABLE, failure(2, NOTHING)], 6),
        (insert(), [failure(462, "SystemOverloadedError", "RetryableError", NOTHING), BAD_VALUE], 2),
        # runCommand counts as a write.
        (run_command(), [OVERLOADED, failure(2, NOTHING)], 462),
    ],
)
async def test_no_writes_performed(operation: Operation[Any], answers: list[Answer], expected: int) -> None:
    async with driver(answering(operation.name, *answers)) as client:
        error = await fails(client, operation)
        assert isinstance(error, OperationFailure)
        assert error.code == expected
        assert error.attempts == len(answers)


@pytest.mark.parametrize(
    ("first", "second", "kind", "code", "address"),
    [
        # The reply or the error that stands tells the server that it is from, and so does its cause.
        (HOST_UNREACHABLE, failure(2, NOTHING), OperationFailure, 6, A),
        (concern_error(64, LABEL), failure(2, NOTHING), WriteConcernError, 64, A),
        (concern_error(64, LABEL), DUPLICATE, DuplicateKeyError, 11000, B),
    ],
)
async def test_an_error_has_its_own_server(
    first: Answer, second: Answer, kind: type[PyMongoError], code: int, address: Any
) -> None:
    deployment = ScriptedDeployment(["a:1", "b:1"], mongos=True)
    deployment["a:1"].on("insert", first)
    deployment["b:1"].on("insert", second)
    async with driver(deployment) as client:
        error: Any = await fails(client, insert())
        assert (type(error), error.code, error.address) == (kind, code, address)
        assert (error.attempts, error.retry_reasons) == (2, ("temporary failure",))
        if code == 6:
            assert (error.__cause__.code, error.__cause__.address) == (2, B)
        assert len(deployment["b:1"].commands("insert")) == 1
