"""What outlives an operation, a cursor or a client, and what must not; reference counts alone free everything here."""

from __future__ import annotations

import asyncio
import gc
import logging
import threading
import warnings
from typing import TYPE_CHECKING, Any
from weakref import ref

import anyio
import pytest
from bson.datetime_ms import DatetimeMS
from bson.errors import InvalidBSON

from motorlite._base.deadline import NO_DEADLINE
from motorlite._client.background import Background
from motorlite._client.core import Core
from motorlite._client.leftovers import LIMIT, PAUSES
from motorlite._operations.reads import Count
from motorlite.errors import AutoReconnect, BulkWriteError, InvalidOperation, OperationFailure, PyMongoError
from motorlite.monitoring import CommandFailedEvent, ConnectionPoolListener, TopologyListener
from motorlite.read_preferences import ReadPreference
from motorlite.retry import RetryAction, RetryReason, RetryRequest, RetryStrategy
from motorlite.testing.scripted import Close, Hang, Raw, Reply, ScriptedDeployment, failure, overloaded
from tests.support import virtual_time
from tests.support.clients import make_client, scripted_client
from tests.support.events import Recorder
from tests.support.kept_errors import garbage, is_kept_copy, without_collector
from tests.support.srv import SRV_URI, Records

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from motorlite import AsyncMongoClient
    from motorlite.stats import ServerStats
    from motorlite.testing.scripted import Answer, ScriptedServer

anywhere = [pytest.mark.anyio, pytest.mark.virtual_time]
pytestmark = pytest.mark.virtual_time

SECONDARY = ReadPreference.SECONDARY
FIRST = {"cursor": {"id": 7, "ns": "db.coll", "firstBatch": [{"_id": 1}, {"_id": 2}]}}
NO_MORE = {"cursor": {"id": 0, "ns": "db.coll", "firstBatch": []}}
REFUSED = {"cursor": {"id": 7, "ns": "db.coll", "nextBatch": [{"at": DatetimeMS(2**60)}]}}


def deployment_of(services: int) -> tuple[ScriptedDeployment, ScriptedServer]:
    """One server, alone or (the first of `services`) behind a load balancer."""
    deployment = ScriptedDeployment(["a:1"], services=services)
    return deployment, deployment.services[0] if services else deployment["a:1"]


def stats(client: AsyncMongoClient[dict[str, Any]]) -> ServerStats:
    (server,) = client.stats().servers.values()
    return server


async def fails(function: Callable[[], Awaitable[Any]]) -> None:
    """Run what fails, or never ends, and drop the error."""
    with anyio.move_on_after(20):
        try:
            await function()
        except (PyMongoError, InvalidBSON):
            return


# --- errors that are kept ---

FAILURES: dict[str, Answer] = {
    "lost connection": Close(),
    "error": failure(2),
    "cursor not found": failure(43),
    "overload": overloaded(),
    "cancellation": Hang(),
    "no cursor": {"cursor": 5},
    "no id": {"cursor": {"nextBatch": [], "ns": "db.coll"}},
    "no batch": {"cursor": {"id": 7, "ns": "db.coll", "nextBatch": 5}},
    "an id of another type": {"cursor": {"id": "7", "ns": "db.coll", "nextBatch": []}},
    "refused value": REFUSED,
    "nonsense": Raw(b"nonsense" * 8),
}
WRITE_FAILURES: dict[str, Answer] = {
    "write error": {"n": 0, "writeErrors": [{"index": 0, "code": 11000, "errmsg": "there already"}]},
    "retried write concern error": {
        "n": 1,
        "writeConcernError": {"code": 91, "errmsg": "shutting down"},
        "errorLabels": ["RetryableWriteError"],
    },
    "write concern error": {"n": 1, "writeConcernError": {"code": 64, "errmsg": "too few"}},
}


class TestKeptErrors:
    pytestmark = anywhere

    @pytest.mark.parametrize("services", [0, 1], ids=["alone", "load-balanced"])
    @pytest.mark.parametrize("what", FAILURES)
    async def test_a_cursor_whose_getmore_failed_is_dropped_at_once(self, what: str, services: int) -> None:
        deployment, server = deployment_of(services)
        server.on("find", FIRST)
        server.on("getMore", FAILURES[what])
        async with scripted_client(deployment, maxPoolSize=1, waitQueueTimeoutMS=5000) as client:
            await client.admin.command("ping")
            with without_collector():
                for _ in range(3):
                    cursor = await client.db.coll.find()
                    await fails(cursor.to_list)
                    await fails(cursor.to_list)
                    gone = ref(cursor)
                    del cursor
                    await anyio.sleep(0.1)  # event loops keep a cancellation until the task's next step
                    assert gone() is None
                    assert (stats(client).in_use, stats(client).pending) == (0, 0)
                await client.admin.command("ping")
                assert client.stats().sessions
                assert not garbage()

    @pytest.mark.parametrize(
        "answer",
        [{"cursor": {**FIRST["cursor"], **wrong}} for wrong in ({"id": "x"}, {"ns": 5}, {"firstBatch": 5})],
        ids=["id", "ns", "firstBatch"],
    )
    @pytest.mark.parametrize("services", [0, 1], ids=["alone", "load-balanced"])
    async def test_a_malformed_cursor_costs_no_connection(self, answer: dict[str, Any], services: int) -> None:
        deployment, server = deployment_of(services)
        server.on("find", answer)
        async with scripted_client(deployment, maxPoolSize=1, waitQueueTimeoutMS=5000) as client:
            with without_collector():
                for _ in range(3):
                    await fails(client.db.coll.find()._opened)
                    await anyio.sleep(0.1)
                    assert stats(client).in_use == 0
                assert not garbage()
            await client.admin.command("ping")

    async def test_a_reply_that_no_reader_expects_leaves_nothing(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def parse(*_: Any) -> Any:
            raise KeyError("a shape that no reader expects")

        monkeypatch.setattr(Count, "parse", parse)
        deployment, server = deployment_of(0)
        server.on("count", {"n": 1})
        async with scripted_client(deployment) as client:
            await client.admin.command("ping")
            with without_collector():
                await fails(client.db.coll.estimated_document_count)
                await anyio.sleep(0.1)
                assert not garbage()

    @pytest.mark.parametrize("options", [{}, {"timeoutMS": 3000}], ids=["", "timeoutMS"])
    @pytest.mark.parametrize(
        ("command", "what"),
        [
            *((command, what) for command in ("find", "insert", "insert many", "ping") for what in FAILURES),
            *((command, what) for command in ("insert", "insert many") for what in WRITE_FAILURES),
        ],
    )
    async def test_a_failed_operation_leaves_nothing(self, what: str, command: str, options: dict[str, Any]) -> None:
        deployment = ScriptedDeployment(["a:1"], replica_set="rs" if what in WRITE_FAILURES else None)
        server = deployment["a:1"]
        async with scripted_client(deployment, **options) as client:
            await client.admin.command("ping")
            answers = [WRITE_FAILURES[what]] if what in WRITE_FAILURES else [FAILURES[what], failure(2)]
            server.on(command.partition(" ")[0], *answers)
            operations: dict[str, Callable[[], Awaitable[Any]]] = {
                "find": client.db.coll.find_one,
                "insert": lambda: client.db.coll.insert_one({}),
                "insert many": lambda: client.db.coll.insert_many([{}]),
                "ping": lambda: client.admin.command("ping"),
            }
            with without_collector():
                await fails(operations[command])
                await anyio.sleep(0.1)
                assert not garbage()

    async def test_waiting_in_vain_leaves_nothing(self) -> None:
        deployment, server = deployment_of(0)
        options = {"maxPoolSize": 1, "waitQueueTimeoutMS": 100, "serverSelectionTimeoutMS": 100}
        async with scripted_client(deployment, **options) as client, anyio.create_task_group() as group:
            await client.admin.command("ping")
            server.on("find", Reply(NO_MORE, 1.0))
            with without_collector():
                group.start_soon(client.db.coll.find_one)
                await anyio.sleep(0.1)
                await fails(client.db.coll.find_one)
                await anyio.sleep(1)
                assert not garbage()
                server.is_down = True
                server.drop_connections()
                await fails(client.db.coll.find_one)
                assert not garbage()

    async def test_a_server_that_refuses_connections_leaves_nothing(self) -> None:
        deployment, server = deployment_of(0)
        async with scripted_client(deployment, serverSelectionTimeoutMS=100) as client:
            with without_collector():
                for name in ("isMaster", "ping"):
                    server.on(name, failure(2))
                    await fails(lambda: client.admin.command("ping"))
                    server.on(name, Close())
                    await fails(lambda: client.admin.command("ping"))
                    server.on(name, {})
                await anyio.sleep(1)
                assert not garbage()

    async def test_events_and_descriptions_keep_copies(self) -> None:
        recorder = Recorder(CommandFailedEvent)
        deployment, server = deployment_of(1)
        server.on("find", FIRST)
        server.on("getMore", Close())
        async with scripted_client(deployment, event_listeners=[recorder], maxPoolSize=1) as client:
            with without_collector():
                cursor = await client.db.coll.find()
                with pytest.raises(AutoReconnect) as caught:
                    await cursor.to_list()
                (event,) = recorder.events
                assert is_kept_copy(event.error, caught.value)
                del cursor, caught
                await anyio.sleep(0.1)
                assert stats(client).in_use == 0

    async def test_a_cursor_says_again_and_again_why_it_cannot_continue(self) -> None:
        deployment, server = deployment_of(0)
        server.on("find", FIRST)
        server.on("getMore", failure(2, message="the reason"))
        async with scripted_client(deployment) as client:
            cursor = await client.db.coll.find()
            with pytest.raises(OperationFailure, match="the reason") as first:
                await cursor.to_list()
            for _ in range(3):
                with pytest.raises(InvalidOperation, match="cannot continue") as caught:
                    await cursor.to_list()
                assert is_kept_copy(caught.value.__cause__, first.value)


# --- lost cursors ---


class TestLostCursors:
    pytestmark = anywhere

    async def test_those_of_one_collection_go_in_one_command(self) -> None:
        deployment, server = deployment_of(0)
        ids = iter(range(1, 100))
        server.on("find", lambda command: _opened(next(ids), command["find"]))
        async with scripted_client(deployment) as client:
            cursors = [await client.db[name].find() for name in "abababab"]
            cursors.clear()
            await anyio.sleep(0.1)
            killed = {command["killCursors"]: sorted(command["cursors"]) for command in server.commands("killCursors")}
            assert killed == {"a": [1, 3, 5, 7], "b": [2, 4, 6, 8]}
            assert len(server.commands("killCursors")) == 2
            assert client.stats().sessions == 8

    @pytest.mark.parametrize("way", ["dropped", "closed"])
    async def test_a_short_timeout_and_a_busy_pool_do_not_matter(self, way: str) -> None:
        deployment, server = deployment_of(0)
        server.on("find", FIRST)
        server.on("ping", Reply({}, 30.0))
        options = {"maxPoolSize": 1, "timeoutMS": 100, "waitQueueTimeoutMS": 50}
        async with scripted_client(deployment, **options) as client, anyio.create_task_group() as group:
            cursor = await client.db.coll.find()
            group.start_soon(lambda: client.admin.command("ping", timeoutMS=0))
            await anyio.sleep(0.01)
            if way == "closed":
                await cursor.close()
            del cursor
            await anyio.sleep(29)
            assert not server.commands("killCursors")
            await anyio.sleep(20)
            (kill,) = server.commands("killCursors")
            assert kill["cursors"] == [7]

    async def test_it_is_tried_again_after_an_error(self) -> None:
        deployment, server = deployment_of(0)
        server.on("find", FIRST)
        server.on("killCursors", Close(), Hang(), overloaded(), failure(2), {})
        async with scripted_client(deployment, maxAdaptiveRetries=0) as client:
            await client.db.coll.find()
            await anyio.sleep(100)
            first, second, third, fourth = server.times("killCursors")
            assert second - first == pytest.approx(PAUSES[0], abs=0.1)
            assert third - second == pytest.approx(LIMIT + PAUSES[1], abs=0.1)
            assert fourth - third == pytest.approx(PAUSES[2], abs=0.1), "a refusal is the last word"
            await client.db.coll.find()
            await anyio.sleep(1)
            assert len(server.times("killCursors")) == 5, "what is lost later is killed all the same"

    @pytest.mark.parametrize(
        "answer", [failure(462, "RetryableError"), failure(391)], ids=["retryable", "reauthenticate"]
    )
    async def test_it_is_tried_again_after_a_passing_refusal(self, answer: Any) -> None:
        deployment, server = deployment_of(0)
        server.on("find", FIRST)
        server.on("killCursors", answer, {})
        async with scripted_client(deployment, maxAdaptiveRetries=0) as client:
            await client.db.coll.find()
            await anyio.sleep(100)
            assert len(server.times("killCursors")) == 2

    async def test_a_server_that_is_gone_is_given_up(self) -> None:
        deployment, server = deployment_of(0)
        server.on("find", FIRST)
        async with scripted_client(deployment) as client:
            cursor = await client.db.coll.find()
            server.is_down = True
            server.drop_connections()
            await anyio.sleep(0.1)
            del cursor
            await anyio.sleep((LIMIT + 1) * (len(PAUSES) + 1) + sum(PAUSES))
            core: Any = client._core
            assert not core._background.lost_cursors._waiting
            assert not server.commands("killCursors")

    async def test_closing_the_client_ends_it(self) -> None:
        deployment, server = deployment_of(0)
        server.on("find", FIRST)
        server.on("killCursors", Hang())
        async with scripted_client(deployment) as client:
            await client.db.coll.find()
            await anyio.sleep(0.1)
            begun = anyio.current_time()
            await client.close(grace=0)
            assert anyio.current_time() == begun
        assert not server.open_connections


def _opened(cursor_id: int, collection: str) -> dict[str, Any]:
    return {"cursor": {"id": cursor_id, "ns": f"db.{collection}", "firstBatch": [{}]}}


# --- the end of a client ---


class Later(RetryStrategy):
    """Retries after the time limit."""

    def retry_after(self, request: RetryRequest, reason: RetryReason) -> RetryAction:
        return RetryAction(100.0)


class TestClose:
    pytestmark = anywhere

    @pytest.mark.parametrize("services", [0, 1], ids=["alone", "load-balanced"])
    @pytest.mark.parametrize("grace", [0.0, 2.5])
    async def test_what_is_in_flight_to_a_frozen_server_ends_after_the_grace(self, grace: float, services: int) -> None:
        deployment, server = deployment_of(services)
        server.on("find", FIRST)
        async with scripted_client(deployment) as client, anyio.create_task_group() as group:
            cursor = await client.db.coll.find()
            server.on("find", Hang())
            server.on("insert", Hang())
            server.on("getMore", Hang())
            outcomes = Outcomes()
            for name, function in (
                ("find", client.db.coll.find_one),
                ("insert", lambda: client.db.coll.insert_one({})),
                ("getMore", cursor.to_list),
            ):
                group.start_soon(outcomes.run, name, function)
            await anyio.sleep(1)
            begun = anyio.current_time()
            await client.close(grace=grace)
            assert anyio.current_time() - begun == pytest.approx(grace)
            await anyio.sleep(0.01)
            assert sorted(outcomes.ended) == ["find", "getMore", "insert"]
            for error, at in outcomes.ended.values():
                assert isinstance(error, AutoReconnect)
                assert "the client was closed while the operation was in flight" in str(error)
                assert at - begun == pytest.approx(grace)
            assert not server.open_connections
            with pytest.raises(InvalidOperation, match="the client is closed"):
                await client.admin.command("ping")

    async def test_what_only_waits_ends_at_once(self) -> None:
        deployment = ScriptedDeployment(["a:1"], replica_set="rs")
        server = deployment["a:1"]
        server.on("ping", overloaded(baseBackoffMS=60_000))
        server.on("insert", Reply({"n": 1}, 3.0))
        async with scripted_client(deployment, maxPoolSize=1) as client, anyio.create_task_group() as group:
            outcomes = Outcomes()
            secondary = client.db.coll.with_options(read_preference=SECONDARY)
            for name, function in (
                ("backoff", lambda: client.admin.command("ping")),
                ("in flight", lambda: client.db.coll.insert_one({})),
                ("queue", client.db.coll.find_one),
                ("selection", secondary.find_one),
            ):
                group.start_soon(outcomes.run, name, function)
                await anyio.sleep(0.1)
            begun = anyio.current_time()
            await client.close()
            assert anyio.current_time() - begun == pytest.approx(2.7, abs=0.05), "as soon as nothing is in flight"
            error, at = outcomes.ended.pop("in flight")
            assert error is None
            assert at - begun == pytest.approx(2.7)
            texts = {}
            for name, (error, at) in outcomes.ended.items():
                assert isinstance(error, InvalidOperation)
                assert at == begun
                texts[name] = str(error)
            assert "the client was closed while the operation waited for its next attempt" in texts["backoff"]
            assert isinstance(outcomes.ended["backoff"][0].__cause__, OperationFailure)
            assert outcomes.ended["backoff"][0].attempts == 1
            assert outcomes.ended["backoff"][0].retry_refusal == "closed"
            assert "the connection pool of a:1 is closed" in texts["queue"]
            assert texts["selection"].startswith("the client is closed")
            assert server.received[-1].name == "endSessions", "after the operations that use them"

    @pytest.mark.parametrize("grace", [0, 5])
    async def test_the_session_of_an_operation_in_its_backoff_is_ended(self, grace: float) -> None:
        deployment, server = deployment_of(0)
        server.on("find", overloaded(baseBackoffMS=60_000))
        async with scripted_client(deployment) as client, anyio.create_task_group() as group:
            outcomes = Outcomes()
            for name in ("first", "second"):
                group.start_soon(outcomes.run, name, client.db.coll.find_one)
            await anyio.sleep(0.1)
            await client.close(grace)
            assert outcomes.ended.keys() == {"first", "second"}
        (end,) = server.commands("endSessions")
        used = {bytes(command["lsid"]["id"]) for command in server.commands("find")}
        assert {bytes(session["id"]) for session in end["endSessions"]} == used
        assert len(used) == 2

    @pytest.mark.parametrize("wait", ["deadline", "server", "connection"])
    async def test_the_session_of_an_operation_that_waits_otherwise_is_ended(self, wait: str) -> None:
        deployment = ScriptedDeployment(["a:1", "b:1"], replica_set="rs")
        server = deployment["a:1"]
        options: dict[str, Any] = {"maxPoolSize": 1}
        if wait == "deadline":
            options |= {"retry_strategy": Later(), "maxAdaptiveRetries": 0}
        server.on("find", Reply(failure(10107) if wait == "server" else overloaded(baseBackoffMS=1), 0.1))
        server.on("insert", Reply({"n": 1}, 2.0))
        async with scripted_client(deployment, **options) as client, anyio.create_task_group() as group:
            outcomes = Outcomes()
            limit = 50_000 if wait == "deadline" else None
            # A connection to the server that stays.
            await client.admin.command("ping", read_preference=ReadPreference.SECONDARY)
            group.start_soon(outcomes.run, "find", lambda: client.db.coll.find_one(timeoutMS=limit))
            await anyio.sleep(0.05)
            if wait == "server":
                deployment.step_down(None)
            elif wait == "connection":
                group.start_soon(outcomes.run, "insert", lambda: client.db.coll.insert_one({}))
            await anyio.sleep(0.2)
            assert "find" not in outcomes.ended
            await client.close()
            assert "find" in outcomes.ended
        assert len(server.commands("find")) == 1
        ended = [end for each in deployment.servers.values() for end in each.commands("endSessions")]
        sessions = {bytes(session["id"]) for end in ended for session in end["endSessions"]}
        assert bytes(server.commands("find")[0]["lsid"]["id"]) in sessions

    @pytest.mark.parametrize("retries", [0, 2])
    async def test_an_error_that_comes_meanwhile_is_not_retried(self, retries: int) -> None:
        deployment, server = deployment_of(0)
        server.on("find", *[overloaded() for _ in range(retries)], Reply(overloaded(), 1.0))
        recorder = Recorder()
        async with (
            scripted_client(deployment, event_listeners=[recorder]) as client,
            anyio.create_task_group() as group,
        ):
            outcomes = Outcomes()
            group.start_soon(outcomes.run, "find", client.db.coll.find_one)
            with anyio.fail_after(60):
                while len(server.commands("find")) <= retries:  # noqa: ASYNC110  # virtual time, and nothing to wait for
                    await anyio.sleep(0.01)
            begun = anyio.current_time()
            await client.close(grace=100)
            assert anyio.current_time() - begun == pytest.approx(1.0, abs=0.05)
            error, _ = outcomes.ended["find"]
            assert isinstance(error, OperationFailure)
            assert (error.attempts, error.retry_reasons) == (retries + 1, ("overload",) * retries)
            assert error.retry_refusal == "closed"
            assert len(server.commands("find")) == retries + 1
            assert client.stats().retries == ({"overload": retries} if retries else {}), "only those that were made"
            assert [event.permitted for event in recorder.retries] == [*[True] * retries, False]
            # endSessions brings 0.1.
            assert client.stats().tokens == pytest.approx(1000 - retries, abs=0.11), "what was not made costs nothing"
            assert client.stats().refusals == {"closed": 1}

    async def test_a_bulk_write_tells_what_was_written_meanwhile(self) -> None:
        deployment = ScriptedDeployment(["a:1"], replica_set="rs")
        server = deployment["a:1"]
        # It was written, and the primary is about to step down.
        concern_error = {"writeConcernError": {"code": 91, "errmsg": "no"}, "errorLabels": ["RetryableWriteError"]}
        server.on("insert", Reply({"n": 2, **concern_error}, 1.0))
        async with scripted_client(deployment) as client, anyio.create_task_group() as group:
            outcomes = Outcomes()
            group.start_soon(outcomes.run, "insert", lambda: client.db.coll.insert_many([{}, {}]))
            await anyio.sleep(0.5)
            await client.close(grace=100)
            error = outcomes.ended["insert"][0]
            assert isinstance(error, BulkWriteError)
            assert error.details is not None
            assert error.details["nInserted"] == 2
            assert len(server.commands("insert")) == 1

    async def test_what_is_in_flight_to_a_server_that_has_left_ends_too(self) -> None:
        deployment = ScriptedDeployment(["a:1", "b:1"], replica_set="rs")
        deployment["b:1"].on("find", Hang())
        async with (
            scripted_client(deployment, heartbeatFrequencyMS=500) as client,
            anyio.create_task_group() as group,
        ):
            outcomes = Outcomes()
            await client.admin.command("ping")
            group.start_soon(outcomes.run, "find", client.db.coll.with_options(read_preference=SECONDARY).find_one)
            await anyio.sleep(1)
            deployment.remove("b:1")
            await anyio.sleep(5)
            assert len(client.stats().servers) == 1
            assert not outcomes.ended
            begun = anyio.current_time()
            await client.close(grace=2)
            assert anyio.current_time() - begun == pytest.approx(2)
            await anyio.sleep(0.01)
            assert isinstance(outcomes.ended["find"][0], AutoReconnect)

    @pytest.mark.parametrize(("grace", "takes"), [(100, 0.9), (0.2, 0.2), (0, 0.0)])
    async def test_a_second_close_waits_for_the_first_within_its_own_grace(self, grace: float, takes: float) -> None:
        deployment, server = deployment_of(0)
        server.on("find", Reply({"cursor": {"id": 0, "ns": "db.coll", "firstBatch": []}}, 1.0))
        async with scripted_client(deployment) as client, anyio.create_task_group() as group:
            outcomes = Outcomes()
            await client.admin.command("ping")
            group.start_soon(outcomes.run, "find", client.db.coll.find_one)
            await anyio.sleep(0.1)
            begun = anyio.current_time()
            group.start_soon(outcomes.run, "first", lambda: client.close(grace=50))
            await anyio.sleep(0.001)
            await client.close(grace=grace)
            assert anyio.current_time() - begun == pytest.approx(takes, abs=0.02)
            assert not server.open_connections
            await anyio.sleep(0.02)
            assert outcomes.ended["first"][1] - begun == pytest.approx(takes, abs=0.02)
            assert isinstance(outcomes.ended["find"][0], AutoReconnect) == (takes < 0.9)
            assert bool(server.commands("endSessions")) == (takes == 0.9)
            await client.close()
            assert anyio.current_time() - begun == pytest.approx(takes, abs=0.04), "there is nothing left to wait for"

    async def test_a_close_that_is_cancelled_closes_at_once(self) -> None:
        deployment, server = deployment_of(0)
        server.on("find", Hang())
        async with scripted_client(deployment) as client, anyio.create_task_group() as group:
            outcomes = Outcomes()
            group.start_soon(outcomes.run, "find", client.db.coll.find_one)
            await anyio.sleep(0.1)
            with anyio.move_on_after(1) as scope:
                await client.close(grace=100)
            assert scope.cancelled_caught
            await anyio.sleep(0.01)
            assert isinstance(outcomes.ended["find"][0], AutoReconnect)
            assert not server.open_connections

    @pytest.mark.parametrize("grace", [-1, float("nan"), "1", True, None])
    async def test_a_grace_that_is_none(self, grace: Any) -> None:
        deployment, _ = deployment_of(0)
        async with scripted_client(deployment) as client:
            with pytest.raises((TypeError, ValueError), match="grace"):
                await client.close(grace=grace)
            await client.admin.command("ping")


class Outcomes:
    """How operations ended, and when (loop time)."""

    def __init__(self) -> None:
        self.ended: dict[str, tuple[Any, float]] = {}

    async def run(self, name: str, function: Callable[[], Awaitable[Any]]) -> None:
        try:
            await function()
        except PyMongoError as error:
            self.ended[name] = error, anyio.current_time()
        else:
            self.ended[name] = None, anyio.current_time()


class TestDroppedSessions:
    """Nothing refers to a session any more, and nothing has ended it."""

    pytestmark = anywhere

    async def test_its_server_session_is_used_again_and_ended(self) -> None:
        deployment, server = deployment_of(0)
        with without_collector():
            async with scripted_client(deployment) as client:
                for _ in range(3):
                    session = client.start_session()
                    await client.db.coll.insert_one({}, session=session)
                    del session
                    await anyio.sleep(0.01)
                client.start_session()  # it has no server session
                async with client.start_session() as session:
                    await client.db.coll.insert_one({}, session=session)
                del session
                await anyio.sleep(0.01)
                assert client.stats().sessions == 1, "one that has ended is not given back again"
                assert len({bytes(command["lsid"]["id"]) for command in server.commands("insert")}) == 1
        (end,) = server.commands("endSessions")
        assert len(end["endSessions"]) == 1

    async def test_one_whose_operation_goes_on_is_not_used_before_its_end(self) -> None:
        deployment, server = deployment_of(0)
        server.on("insert", Reply({"n": 1}, 0.1))
        with without_collector():
            async with scripted_client(deployment) as client, anyio.create_task_group() as group:
                outcomes = Outcomes()
                group.start_soon(
                    outcomes.run, "insert", lambda: client.db.coll.insert_one({}, session=client.start_session())
                )
                await anyio.sleep(0.05)
                assert client.stats().sessions == 0
                await anyio.sleep(0.1)
                assert client.stats().sessions == 1


class TestDroppedClients:
    """Nothing refers to the client any more, and nothing has closed it."""

    pytestmark = anywhere

    @pytest.mark.parametrize("state", ["used", "cursor", "streaming", "session", "never found"])
    async def test_it_warns_once_and_leaves_nothing(self, state: str, caplog: pytest.LogCaptureFixture) -> None:
        deployment = ScriptedDeployment(["a:1", "b:1"], replica_set="rs", streaming=state == "streaming")
        servers = deployment.servers.values()
        deployment["a:1"].on("find", FIRST)
        for server in servers:
            server.is_down = state == "never found"
        with without_collector(), warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            client = make_client(deployment, minPoolSize=2, serverSelectionTimeoutMS=1000)
            background = background_of(client)
            if state == "never found":
                await fails(client.db.coll.find_one)
            else:
                await client.admin.command("ping")
            kept: Any = None
            if state == "cursor":
                kept = await client.db.coll.find()
            elif state == "session":
                kept = client.start_session()
            await anyio.sleep(12)
            assert all(server.open_connections for server in servers) == (state != "never found")
            del client
            await anyio.sleep(1)
            if kept is not None:
                assert not caught, "what belongs to the client keeps it"
                assert deployment["a:1"].open_connections
                kept = None
                await anyio.sleep(1)
            (warning,) = caught
            assert warning.category is ResourceWarning
            assert "the client of a:1,b:1 was dropped without close()" in str(warning.message)
            assert not any(server.open_connections for server in servers)
            made = [server.connections_made for server in servers]
            assert background.host.is_closed
            await anyio.sleep(100)
            assert [server.connections_made for server in servers] == made
        await deployment.close()
        assert [record for record in caplog.records if record.levelno > logging.WARNING] == []

    async def test_in_another_thread(self) -> None:
        deployment, server = deployment_of(0)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            with without_collector():
                client = make_client(deployment)
                await client.admin.command("ping")
                holder: list[Any] = [client]
                holder.append(holder)
                del client, holder
                collector = threading.Thread(target=gc.collect)
                collector.start()
                collector.join()
                assert server.open_connections, "nothing is closed in another thread"
                await anyio.sleep(1)
                assert not server.open_connections
            assert [warning.category for warning in caught] == [ResourceWarning]
        await deployment.close()

    async def test_during_the_look_up_of_srv_records(self) -> None:
        records, deployment = Records("a.example.com:1"), ScriptedDeployment(["a.example.com:1"])
        records.delay = 5.0
        with without_collector(), warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            core = make_client(deployment, world={"resolver": records.resolver}, uri=SRV_URI)._core
            core.enter()
            with anyio.move_on_after(1):
                await core.topology.select(core.options.read_preference, NO_DEADLINE, (), anyio.current_time() + 30)
            del core
            await anyio.sleep(10)
            assert [warning.category for warning in caught] == [ResourceWarning]
            assert not deployment["a.example.com:1"].connections_made
        await deployment.close()

    async def test_a_closed_one_and_an_unused_one_say_nothing(self) -> None:
        deployment, _ = deployment_of(0)
        with without_collector(), warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            async with scripted_client(deployment) as client:
                await client.admin.command("ping")
            del client
            make_client(deployment)
            await anyio.sleep(1)
            assert not caught

    async def test_an_operation_keeps_its_client(self) -> None:
        deployment, server = deployment_of(0)
        server.on("find", Reply(FIRST, 5.0))
        with without_collector(), warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            documents = await make_client(deployment).db.coll.find().to_list(1)
            assert documents == [{"_id": 1}]
            await anyio.sleep(1)
            assert len(caught) == 1
            assert not server.open_connections
        await deployment.close()


def background_of(client: AsyncMongoClient[Any]) -> Background:
    core = client._core
    assert isinstance(core, Core)
    core.enter()
    return core._background


@pytest.mark.parametrize("backend", virtual_time.BACKENDS)
def test_a_client_that_is_dropped_after_its_loop(backend: str) -> None:
    deployment, server = deployment_of(0)
    holder: list[Any] = []

    async def main() -> None:
        holder.append(make_client(deployment))
        await holder[0].admin.command("ping")

    name, options = virtual_time.backend(backend)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        anyio.run(main, backend=name, backend_options=options)
        assert not server.open_connections
        assert not caught
        holder.clear()
        assert [warning.category for warning in caught] == [ResourceWarning]


def test_a_client_that_is_closed_after_its_loop_says_nothing() -> None:
    deployment, _ = deployment_of(0)
    holder = [make_client(deployment)]

    async def use() -> None:
        await holder[0].admin.command("ping")

    name, options = virtual_time.backend("asyncio")
    anyio.run(use, backend=name, backend_options=options)
    anyio.run(holder[0].close)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        holder.clear()
        gc.collect()
        assert not caught


@pytest.mark.anyio
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
@pytest.mark.parametrize("is_host_first", [True, False])
async def test_a_task_with_a_transaction_that_ends_with_the_loop(is_host_first: bool) -> None:
    """At the end of asyncio.run, which cancels all tasks at once, nothing is cleaned up, so nothing is waited for."""
    deployment = ScriptedDeployment(["a:1"], replica_set="rs")

    async def work() -> None:
        async with make_client(deployment) as client, client.start_session() as session, session.start_transaction():
            await client.db.coll.insert_one({}, session=session)
            await anyio.sleep(600)

    task = asyncio.create_task(work())
    await anyio.sleep(1)
    begin = anyio.current_time()
    (host,) = (each for each in asyncio.all_tasks() if each.get_name() == "motorlite client")
    tasks = [host, task] if is_host_first else [task, host]
    for each in tasks:
        each.cancel()
    await asyncio.wait(tasks)
    assert anyio.current_time() - begin < 0.1
    await deployment.close()


@pytest.mark.parametrize("backend", virtual_time.BACKENDS)
def test_an_interruption_before_the_background_is_complete(
    backend: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C. The host has begun, and ends with the event loop."""
    make = Background.__init__

    def interrupted(self: Background, *args: Any) -> None:
        make(self, *args)
        raise KeyboardInterrupt

    deployment = ScriptedDeployment(["a:1"])

    async def main() -> None:
        client = make_client(deployment)
        with monkeypatch.context() as patch:
            patch.setattr(Background, "__init__", interrupted)
            with pytest.raises(KeyboardInterrupt):
                await client.db.coll.find_one()
        await client.db.coll.find_one()
        await client.close()
        await deployment.close()

    name, options = virtual_time.backend(backend)
    anyio.run(main, backend=name, backend_options=options)
    assert not caplog.records


@pytest.mark.parametrize("backend", virtual_time.BACKENDS)
@pytest.mark.parametrize("interrupted", ["topology", "pool", "connection"])
def test_an_interruption_of_the_first_operation(
    interrupted: str, backend: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Ctrl-C or an exit, while the client is bound to its loop or asks for a connection.

    The next operation binds it anew.
    """

    class Interrupts(TopologyListener, ConnectionPoolListener):
        def __init__(self) -> None:
            self.left = 1

        def opened(self, event: object) -> None:
            self._interrupt("topology")

        def pool_created(self, event: object) -> None:
            self._interrupt("pool")

        def connection_created(self, event: object) -> None:
            self._interrupt("connection")

        def _interrupt(self, where: str) -> None:
            if where == interrupted and self.left:
                self.left -= 1
                raise KeyboardInterrupt

    deployment = ScriptedDeployment(["a:1"])
    server = deployment["a:1"]

    async def main() -> None:
        client = make_client(deployment, event_listeners=[Interrupts()], maxPoolSize=1)
        with pytest.raises(KeyboardInterrupt):
            await client.db.coll.find_one()
        if interrupted != "connection":
            await anyio.sleep(30)
            assert not server.hellos, "what was begun has ended"
        await client.db.coll.find_one()
        assert stats(client).in_use == 0
        assert server.connections_made == 2, "that of the monitor, and the one that was asked for"
        await client.close()
        await deployment.close()

    name, options = virtual_time.backend(backend)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        anyio.run(main, backend=name, backend_options=options)
        gc.collect()
    assert not caplog.records
