"""Errors while an operation's connection is established: which of them are retried, by which rule, and how soon."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pytest

from motorlite.errors import OperationFailure
from motorlite.testing.scripted import Close, ScriptedDeployment, failure
from tests.support.auth_servers import DONE as AUTHENTICATED
from tests.support.auth_servers import REFUSED
from tests.support.clients import scripted_client
from tests.support.core import (
    BAD_VALUE,
    EVERY_KIND,
    OVERLOADED,
    OVERLOADED_ONLY,
    RETRYABLE_ONLY,
    driver,
    fails,
    find,
    insert,
    replica_set,
    run_command,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from motorlite import AsyncClientSession
    from motorlite._operations.contract import Operation
    from motorlite.testing.scripted import Answer

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]

PLAIN: Final[dict[str, Any]] = {"username": "ada", "password": "pencil", "authMechanism": "PLAIN", "tls": True}
STEPS: Final = pytest.mark.parametrize("step", ["isMaster", "saslStart"], ids=["hello", "authentication"])


def deployment_with_users() -> ScriptedDeployment:
    deployment = replica_set()
    deployment["a:1"].on("saslStart", AUTHENTICATED)
    return deployment


def fail_next(deployment: ScriptedDeployment, step: str, *answers: Answer) -> None:
    """The next connections of operations get these answers to one step of their handshake."""
    server = deployment["a:1"]
    server.drop_connections()
    success = (lambda _: deployment._hello_reply(server)) if step == "isMaster" else AUTHENTICATED
    server.on(step, *answers, success)


@pytest.mark.parametrize(
    ("step", "answer", "reason", "delay"),
    [
        ("isMaster", Close(), "server not available", 0.1),
        ("isMaster", failure(91), "server not available", 0),
        ("isMaster", failure(11600), "server not available", 0),
        ("saslStart", Close(), "server not available", 0),
        ("saslStart", failure(91), "server not available", 0),
        ("saslStart", failure(11600), "server not available", 0),
        ("saslStart", failure(6), "server not available", 0),
    ],
)
async def test_a_read_is_retried_after_network_and_server_errors(
    step: str, answer: Answer, reason: str, delay: float
) -> None:
    deployment = deployment_with_users()
    async with driver(deployment, **PLAIN) as client:
        fail_next(deployment, step, answer)
        await client.run(find())
        assert [(event.reason, event.delay) for event in client.recorder.retries] == [(reason, delay)]
        # The command itself was sent once only: the first attempt had no connection to send it on.
        assert len(deployment["a:1"].commands("find")) == 1


@STEPS
async def test_a_read_is_not_retried_after_other_errors(step: str) -> None:
    deployment = deployment_with_users()
    async with driver(deployment, **PLAIN) as client:
        fail_next(deployment, step, BAD_VALUE)
        error = await fails(client, find())
        assert isinstance(error, OperationFailure)
        assert (error.code, error.attempts) == (2, 1)


@pytest.mark.parametrize("make", [find, insert])
@pytest.mark.parametrize("lost", ["hello", "command", "reply"])
async def test_a_wrong_password_is_shown_in_place_of_what_came_before(
    make: Callable[[], Operation[Any]], lost: str
) -> None:
    """Only what says that a write may have been executed matters more."""
    deployment = deployment_with_users()
    server, operation = deployment["a:1"], make()

    def refuse(_command: object) -> Answer:
        server.drop_connections()
        return OVERLOADED

    async with driver(deployment, **PLAIN) as client:
        if lost == "hello":
            fail_next(deployment, "isMaster", Close())
        else:
            server.on(operation.name, Close() if lost == "reply" else refuse)
            await client.run(run_command())
        server.on("saslStart", REFUSED)
        error = await fails(client, operation)
        is_hidden = lost == "reply" and operation.name == "insert"
        refused = error.__cause__ if is_hidden else error
        assert isinstance(refused, OperationFailure)
        assert refused.code == 18
        assert not refused.has_error_label("SystemOverloadedError")
        assert (error.attempts, error.retry_refusal) == (2, "not retryable")
        assert (error.reached_server, error.may_have_been_executed) == (lost != "hello", is_hidden)


@STEPS
@EVERY_KIND
async def test_an_overload_error_is_retried_as_one_of_the_command(
    name: str, make: Callable[[], Operation[Any]], success: dict[str, Any], step: str
) -> None:
    deployment = deployment_with_users()
    deployment["a:1"].on(name, success)
    async with driver(deployment, **PLAIN) as client:
        client.drain_to(10)
        fail_next(deployment, step, OVERLOADED, OVERLOADED)
        before = client.now
        await client.run(make())
        assert [(event.reason, event.delay) for event in client.recorder.retries] == [
            ("overload", 0.1),
            ("overload", 0.2),
        ]
        assert client.now == pytest.approx(before + 0.3, abs=1e-9)
        assert client.tokens == 9.1
        # The server is there, it only has no room: neither forgotten nor cleared.
        assert not client.recorder.cleared


@STEPS
@EVERY_KIND
async def test_labels_decide_there_as_well(
    name: str, make: Callable[[], Operation[Any]], success: dict[str, Any], step: str
) -> None:
    deployment = deployment_with_users()
    deployment["a:1"].on(name, success)
    async with driver(deployment, **PLAIN) as client:
        fail_next(deployment, step, OVERLOADED_ONLY)
        error = await fails(client, make())
        assert (error.attempts, error.retry_refusal) == (1, "not retryable")
        client.recorder.clear()
        fail_next(deployment, step, RETRYABLE_ONLY)
        await client.run(make())
        assert [(event.reason, event.delay) for event in client.recorder.retries] == [("retryable error", 0)]


@STEPS
@pytest.mark.parametrize("code", [91, 11600, 6])
async def test_a_transaction_whose_server_shuts_down_is_repeated(step: str, code: int) -> None:
    """The server does not know of the transaction when it answers, so it sets no label."""
    deployment = deployment_with_users()
    async with scripted_client(deployment, **PLAIN) as client, client.start_session() as session:
        calls: list[int] = []

        async def insert_two(session: AsyncClientSession) -> None:
            calls.append(len(calls))
            await client.db.coll.insert_one({}, session=session)
            if len(calls) == 1:
                fail_next(deployment, step, failure(code))
            await client.db.coll.insert_one({}, session=session)

        await session.with_transaction(insert_two)
        names = [received.name for received in deployment["a:1"].received if received.name != "saslStart"]
        assert names == ["insert", "abortTransaction", "insert", "insert", "commitTransaction"]
