"""Command events come in pairs, and every decision about a retry is told with all that it was made from."""

from __future__ import annotations

import logging
from collections import Counter
from typing import TYPE_CHECKING, Any

import anyio
import pytest

from motorlite._base.deadline import NO_DEADLINE
from motorlite._execution import reports
from motorlite._operations.contract import Call
from motorlite.errors import ProtocolError, PyMongoError
from motorlite.monitoring import CommandFailedEvent, CommandStartedEvent, CommandSucceededEvent
from motorlite.testing.scripted import Close, Hang, Raw, Reply, ScriptedDeployment, failure, overloaded
from motorlite.write_concern import WriteConcern
from tests.support.clients import scripted_client
from tests.support.core import (
    BAD_VALUE,
    DONE,
    FOUND,
    HOST_UNREACHABLE,
    OVERLOADED,
    RETRYABLE_ONLY,
    WRITTEN,
    A,
    B,
    driver,
    find,
    insert,
    later,
    run_command,
)
from tests.support.events import Recorder
from tests.support.kept_errors import is_kept_copy

if TYPE_CHECKING:
    from motorlite._operations.contract import Operation
    from motorlite.testing.scripted import Answer
    from tests.support.core import Driver

pytestmark = pytest.mark.anyio


async def outcome(client: Driver, operation: Operation[Any], **arguments: Any) -> PyMongoError | None:
    try:
        await client.run(operation, **arguments)
    except PyMongoError as error:
        return error
    return None


def check_pairs(client: Driver) -> None:
    """Each started event has exactly one other, later, of the same request; nothing else is published."""
    open_requests: dict[int, CommandStartedEvent] = {}
    for event in client.recorder.command_events:
        if isinstance(event, CommandStartedEvent):
            assert event.request_id not in open_requests
            open_requests[event.request_id] = event
            continue
        assert isinstance(event, CommandSucceededEvent | CommandFailedEvent)
        started = open_requests.pop(event.request_id)
        for field in ("command_name", "database_name", "operation_id", "connection_id", "driver_connection_id"):
            assert getattr(event, field) == getattr(started, field)
        assert event.server_connection_id == started.server_connection_id == 1
        assert event.duration >= 0
    assert not open_requests


ANSWERS: list[tuple[str, list[Answer], list[str]]] = [
    ("success", [FOUND], ["succeeded"]),
    ("overload, success", [OVERLOADED, FOUND], ["failed", "succeeded"]),
    ("five overloads, success", [*[OVERLOADED] * 5, FOUND], [*["failed"] * 5, "succeeded"]),
    ("overload for ever", [OVERLOADED], ["failed"] * 6),
    ("retryable", [RETRYABLE_ONLY, FOUND], ["failed", "succeeded"]),
    ("ordinary", [HOST_UNREACHABLE, FOUND], ["failed", "succeeded"]),
    ("state change", [failure(91), FOUND], ["failed", "succeeded"]),
    ("not retryable", [BAD_VALUE], ["failed"]),
    ("closed", [Close(), FOUND], ["failed", "succeeded"]),
    ("closed twice", [Close()], ["failed", "failed"]),
    ("garbage", [Raw(b"\x10\0\0\0" + b"\xff" * 12)], ["failed"]),
]


@pytest.mark.parametrize(("answers", "expected"), [row[1:] for row in ANSWERS], ids=[row[0] for row in ANSWERS])
async def test_one_started_and_one_other(
    answers: list[Answer], expected: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    """Of the events, and of the log messages."""
    deployment = ScriptedDeployment(["a:1"], replica_set="rs")
    deployment["a:1"].on("find", *answers)
    with caplog.at_level(logging.DEBUG, "motorlite"):
        async with driver(deployment) as client:
            caplog.clear()
            await outcome(client, find())
            check_pairs(client)
            assert client.recorder.history == [word for end in expected for word in ("started find", f"{end} find")]
            # All attempts belong to one operation.
            assert len({event.operation_id for event in client.recorder.command_events}) == 1
            assert len({event.request_id for event in client.recorder.command_events}) == len(expected)
            ids = {event.operation_id for event in client.recorder.command_events}
            assert {event.operation_id for event in client.recorder.retries} <= ids
    logged = [vars(record)["motorlite"] for record in caplog.records if record.name == "motorlite.command"]
    of_find = [fields for fields in logged if fields["commandName"] == "find"]
    words = [word for end in expected for word in ("Command started", f"Command {end}")]
    assert [fields["message"] for fields in of_find] == words
    requests = [fields["requestId"] for fields in of_find]
    assert requests[::2] == requests[1::2]
    assert len(set(requests)) == len(expected)
    # One for each decision about a retry.
    retries = [vars(record)["motorlite"] for record in caplog.records if record.name == "motorlite.retry"]
    permitted = [fields["message"] for fields in retries]
    assert permitted.count("Retry permitted") == len(expected) - 1


async def test_operations_have_different_ids_unless_one_is_given() -> None:
    async with driver(ScriptedDeployment(["a:1"])) as client:
        await client.run(find())
        await client.run(find())
        given = client.core.new_operation_id()
        await client.core.executor.execute(find(), Call(None, NO_DEADLINE, given))
        ids = [event.operation_id for event in client.recorder.command_events if isinstance(event, CommandStartedEvent)]
        assert len(set(ids)) == 3
        assert ids[2] == given


async def test_the_failed_event_has_the_reply_and_the_time() -> None:
    deployment = ScriptedDeployment(["a:1"])
    deployment["a:1"].on("serverStatus", later(OVERLOADED, 0.25), later(DONE, 0.5))
    async with driver(deployment) as client:
        await client.run(run_command("serverStatus"))
        _, failed, started, succeeded = client.recorder.command_events
        assert isinstance(failed, CommandFailedEvent)
        assert failed.failure == OVERLOADED
        assert failed.duration == pytest.approx(0.25, abs=1e-9)
        assert isinstance(failed.error, PyMongoError)
        assert isinstance(started, CommandStartedEvent)
        assert started.command["serverStatus"] == 1
        assert started.command["$db"] == "db"
        assert isinstance(succeeded, CommandSucceededEvent)
        assert succeeded.reply == DONE
        assert succeeded.duration == pytest.approx(0.5, abs=1e-9)
        # Retries of a command of the user are told by its own name.
        assert [event.command_name for event in client.recorder.retries] == ["serverStatus"]


async def test_the_error_of_the_failed_event_names_its_server() -> None:
    seen: list[Any] = []
    deployment = ScriptedDeployment(["a:1"])
    deployment["a:1"].on("ping", BAD_VALUE)
    async with driver(deployment) as client:
        # When it is published, not when the operation has ended.
        client.recorder.on_failure = lambda event: seen.append(getattr(event.error, "address", None))
        assert await outcome(client, run_command()) is not None
    assert seen == [A]


async def test_a_cancelled_command_failed() -> None:
    deployment = ScriptedDeployment(["a:1"])
    deployment["a:1"].on("find", Hang())
    async with driver(deployment) as client:
        with anyio.move_on_after(1):
            await client.run(find())
        check_pairs(client)
        _, failed = client.recorder.command_events
        assert isinstance(failed, CommandFailedEvent)
        assert failed.duration == pytest.approx(1)
        assert failed.failure["type"] == type(failed.error).__name__
        assert "Cancel" in type(failed.error).__name__
        # A cancellation is no error that a retry is decided about.
        assert not client.recorder.retries


async def test_a_backoff_that_is_cancelled_leaves_nothing_open() -> None:
    deployment = ScriptedDeployment(["a:1"])
    deployment["a:1"].on("find", OVERLOADED)
    async with driver(deployment) as client:
        client.drain_to(10)

        async def run() -> None:
            await client.run(find())

        async with anyio.create_task_group() as group:
            group.start_soon(run)
            await anyio.sleep(0.05)
            group.cancel_scope.cancel()
        check_pairs(client)
        assert client.recorder.history == ["started find", "failed find"]
        # The retry was decided on, and paid for; not made, it costs nothing.
        assert [event.tokens for event in client.recorder.retries] == [9]
        assert client.tokens == 10


async def test_a_time_out_failed() -> None:
    deployment = ScriptedDeployment(["a:1"])
    deployment["a:1"].on("ping", Hang())
    async with driver(deployment) as client:
        error = await outcome(client, run_command(), timeout=2)
        check_pairs(client)
        failed = client.recorder.command_events[-1]
        assert isinstance(failed, CommandFailedEvent)
        assert is_kept_copy(failed.error, error)
        assert failed.failure["type"] == "NetworkTimeout"


async def test_many_at_once() -> None:
    deployment = ScriptedDeployment(["a:1"], replica_set="rs")
    count = 0

    def answer(_: dict[str, Any]) -> Answer:
        nonlocal count
        count += 1
        if count % 40 == 30:
            return Close()
        answers: list[Answer] = [OVERLOADED, FOUND, later(FOUND, 0.01), HOST_UNREACHABLE]
        return answers[count % 4]

    deployment["a:1"].on("find", answer)
    async with driver(deployment, maxPoolSize=4) as client:
        async with anyio.create_task_group() as group:
            for number in range(50):
                group.start_soon(outcome, client, find())
                if number % 10 == 0:
                    await anyio.sleep(0.03)
        check_pairs(client)
        kinds = Counter(name.split()[0] for name in client.recorder.history)
        assert kinds["started"] == kinds["succeeded"] + kinds["failed"] > 50


async def test_an_unacknowledged_write_succeeds_with_a_made_up_reply() -> None:
    async with driver(ScriptedDeployment(["a:1"])) as client:
        await client.run(insert(write_concern=WriteConcern(w=0)))
        check_pairs(client)
        succeeded = client.recorder.command_events[-1]
        assert isinstance(succeeded, CommandSucceededEvent)
        assert succeeded.reply == {"ok": 1}
        # From the command to the last byte written; nothing held it up.
        assert succeeded.duration == 0


async def test_an_unacknowledged_write_that_cannot_be_written_failed() -> None:
    async with driver(ScriptedDeployment(["a:1"])) as client:
        for stream in client.deployment["a:1"].open_connections:
            stream.is_stalled = True
        error = await outcome(client, insert(write_concern=WriteConcern(w=0)), timeout=1)
        assert error is not None
        assert error.phase == "reply"
        check_pairs(client)
        assert client.recorder.history == ["started insert", "failed insert"]


@pytest.mark.parametrize("earlier", [[], [OVERLOADED]], ids=["at once", "after a retry"])
async def test_write_errors_in_a_reply_that_says_ok_succeeded(earlier: list[Answer]) -> None:
    deployment = ScriptedDeployment(["a:1"], replica_set="rs")
    duplicate = {"n": 0, "writeErrors": [{"index": 0, "code": 11000, "errmsg": "E11000"}]}
    deployment["a:1"].on("insert", *earlier, duplicate)
    async with driver(deployment) as client:
        error = await outcome(client, insert())
        assert client.recorder.history[-2:] == ["started insert", "succeeded insert"]
        assert error is not None
        assert (error.address, error.attempts, error.retry_refusal) == (A, 1 + len(earlier), None)
        assert error.retry_reasons == ("overload",) * len(earlier)


@pytest.mark.parametrize("reply", [{}, {"cursor": 5}, {"cursor": {"id": 0}}, {"cursor": {"firstBatch": []}}])
async def test_a_reply_that_cannot_be_used_is_a_protocol_error(reply: dict[str, Any]) -> None:
    deployment = ScriptedDeployment(["a:1"], replica_set="rs")
    deployment["a:1"].on("find", OVERLOADED, {"ok": 1, **reply})
    async with driver(deployment) as client:
        error = await outcome(client, find())
        assert isinstance(error, ProtocolError)
        assert (error.address, error.attempts, error.retry_reasons) == (A, 2, ("overload",))
        assert client.recorder.history[-1] == "succeeded find"
        await client.run(run_command())


async def test_without_listeners_nothing_is_built(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> None:
        raise AssertionError("an event was built")

    deployment = ScriptedDeployment(["a:1"], replica_set="rs")
    deployment["a:1"].on("find", OVERLOADED, FOUND)
    async with driver(deployment) as client:
        monkeypatch.setattr(reports, "CommandEvents", refuse)
        monkeypatch.setattr(reports, "RetryEvent", refuse)
        client.core.executor.reports.publish_command = None
        client.core.executor.reports._publish_retry = None
        await client.run(find())
        await client.run(insert(write_concern=WriteConcern(w=0)))
        deployment["a:1"].on("find", BAD_VALUE)
        assert await outcome(client, find()) is not None


# --- retry events ---

POLICY, SPECIFICATION = "overload policy", "specification"


def fields(event: Any) -> dict[str, Any]:
    names = ("permitted", "reason", "refusal", "delay", "attempt", "tokens", "address", "deprioritized")
    return {name: getattr(event, name) for name in names}


async def test_retry_events_tell_everything() -> None:
    deployment = ScriptedDeployment(["a:1"], replica_set="rs")
    deployment["a:1"].on(
        "insert", OVERLOADED, overloaded(baseBackoffMS=10), HOST_UNREACHABLE, RETRYABLE_ONLY, BAD_VALUE
    )
    async with driver(deployment) as client:
        client.drain_to(10)
        error = await outcome(client, insert())
        common = {"permitted": True, "refusal": None, "address": A}
        assert [fields(event) for event in client.recorder.retries] == [
            {**common, "reason": "overload", "delay": 0.1, "attempt": 1, "tokens": 9, "deprioritized": True},
            {**common, "reason": "overload", "delay": 0.02, "attempt": 2, "tokens": 8, "deprioritized": True},
            {**common, "reason": "temporary failure", "delay": 0.0, "attempt": 3, "tokens": 9, "deprioritized": False},
            {**common, "reason": "retryable error", "delay": 0.0, "attempt": 4, "tokens": 9, "deprioritized": False},
            {
                "permitted": False,
                "reason": "unknown",
                "refusal": "not retryable",
                "delay": 0.0,
                "attempt": 5,
                "tokens": 10,
                "address": A,
                "deprioritized": False,
            },
        ]
        rules = [POLICY, POLICY, SPECIFICATION, POLICY, None]
        assert [event.rule for event in client.recorder.retries] == rules
        assert {event.command_name for event in client.recorder.retries} == {"insert"}
        assert len({event.operation_id for event in client.recorder.retries}) == 1
        assert is_kept_copy(client.recorder.retries[-1].error, error)
        assert client.core.stats().retries == {"overload": 2, "temporary failure": 1, "retryable error": 1}
        assert client.core.stats().refusals == {"not retryable": 1}


@pytest.mark.parametrize(
    ("make", "name", "answer", "options", "tokens", "expected"),
    [
        (run_command, "ping", HOST_UNREACHABLE, {}, 10, ("temporary failure", None, "not retryable")),
        (find, "find", HOST_UNREACHABLE, {"retryReads": False}, 10, ("temporary failure", SPECIFICATION, "disabled")),
        (find, "find", OVERLOADED, {}, 0, ("overload", POLICY, "tokens")),
    ],
)
async def test_why_a_retry_is_refused(
    make: Any, name: str, answer: Answer, options: dict[str, Any], tokens: int, expected: tuple[str, str | None, str]
) -> None:
    """The event and the error have what was decided."""
    deployment = ScriptedDeployment(["a:1"], replica_set="rs")
    deployment["a:1"].on(name, answer)
    async with driver(deployment, **options) as client:
        client.drain_to(tokens)
        error = await outcome(client, make())
        (event,) = client.recorder.retries
        assert (event.reason, event.rule, event.refusal) == expected
        assert (event.permitted, event.tokens, event.attempt) == (False, tokens, 1)
        assert error is not None
        assert error.retry_refusal == expected[2]
        # The listener's copy says so too.
        assert event.error is not error
        assert (event.error.attempts, event.error.retry_refusal, event.error.address) == (1, expected[2], A)


@pytest.mark.parametrize("code", [26, 11000])
async def test_an_error_that_no_rule_is_about_is_neither_published_nor_counted(code: int) -> None:
    # 26: there is nothing to drop, which `drop` passes over in silence.
    deployment = ScriptedDeployment(["a:1"], replica_set="rs")
    recorder = Recorder()
    async with scripted_client(deployment, event_listeners=[recorder]) as client:
        deployment["a:1"].on("drop", failure(code))
        if code == 26:
            await client.db.coll.drop()
        else:
            with pytest.raises(PyMongoError) as caught:
                await client.db.coll.drop()
            assert (caught.value.attempts, caught.value.retry_refusal) == (1, None)
        assert recorder.retries == []
        assert client.stats().refusals == {}


async def test_a_server_that_was_never_found_has_no_address() -> None:
    deployment = ScriptedDeployment(["a:1"])
    deployment["a:1"].is_down = True
    async with driver(deployment, connect=False, serverSelectionTimeoutMS=1000) as client:
        error = await outcome(client, find())
        (event,) = client.recorder.retries
        assert (event.address, event.refusal) == (None, "deadline")
        assert error is not None
        assert (error.address, error.attempts, error.phase) == (None, 1, "selection")
        assert not client.recorder.command_events


async def test_each_attempt_tells_its_own_server() -> None:
    deployment = ScriptedDeployment(["a:1", "b:1"], mongos=True)
    deployment["a:1"].on("insert", OVERLOADED)
    deployment["b:1"].on("insert", Reply(WRITTEN))
    async with driver(deployment) as client:
        await client.run(insert())
        started = [event for event in client.recorder.command_events if isinstance(event, CommandStartedEvent)]
        assert [event.connection_id for event in started] == [A, B]
