"""Load-balanced mode: several services behind one address, each connection leads to one of them."""

from __future__ import annotations

import asyncio
import gc
import threading
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import anyio
import pytest
from bson.datetime_ms import DatetimeMS
from bson.errors import InvalidBSON
from bson.timestamp import Timestamp

from motorlite._net import current
from motorlite.errors import (
    AutoReconnect,
    ConfigurationError,
    InvalidOperation,
    NetworkTimeout,
    NotPrimaryError,
    OperationFailure,
)
from motorlite.monitoring import PoolEvent
from motorlite.testing.cancellation import cancel_at, count_await_points
from motorlite.testing.scripted import Close, Reply, ScriptedDeployment, failure, overloaded
from tests.support.clients import Client, scripted_client
from tests.support.core import FOUND, driver, find
from tests.support.events import DISCOVERY, Recorder
from tests.support.pools import settle

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from motorlite import AsyncCollection
    from motorlite.stats import ServerStats

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]

LB = ("lb", 1)
SHUTDOWN = 11600
FIRST = {"cursor": {"id": 7, "ns": "db.coll", "firstBatch": [{"_id": 1}, {"_id": 2}]}}
MORE = {"cursor": {"id": 7, "ns": "db.coll", "nextBatch": [{"_id": 3}]}}
LAST = {"cursor": {"id": 0, "ns": "db.coll", "nextBatch": [{"_id": 4}]}}
REFUSED = {"cursor": {"id": 7, "ns": "db.coll", "nextBatch": [{"at": DatetimeMS(2**60)}]}}


class Subject:
    """A client, what it published, and the deployment."""

    client: Client
    coll: AsyncCollection[dict[str, Any]]

    def __init__(self, deployment: ScriptedDeployment) -> None:
        self.deployment = deployment
        self.one, self.other = deployment.services
        self.log = Recorder(PoolEvent)
        self.recorder = Recorder()

    @property
    def stats(self) -> ServerStats:
        return self.client.stats().servers[LB]

    @property
    def pool(self) -> Any:
        core: Any = self.client._core
        (server,) = core.topology.servers
        return server.pool

    async def connect(self) -> None:
        """One idle connection to each service; the one to the first is taken first."""
        self.one.on("find", FIRST)
        self.other.on("find", FIRST)
        one, other = await self.coll.find(), await self.coll.find()
        await other.close()
        await one.close()
        assert self.stats.idle == 2
        for service in self.deployment.services:
            service.received.clear()
        self.log.clear()
        self.recorder.clear()

    async def opened(self, **answers: Any) -> Any:
        """A cursor of the first service, with its answers (one, or a tuple of them) to further commands."""
        self.one.on("find", FIRST)
        for name, answer in answers.items():
            self.one.on(name, *(answer if isinstance(answer, tuple) else (answer,)))
        return await self.coll.find()

    def names(self, service: int) -> list[str]:
        """The commands that one service has received."""
        return [received.name for received in self.deployment.services[service].received]


@asynccontextmanager
async def balanced(**options: Any) -> AsyncIterator[Subject]:
    deployment = ScriptedDeployment(["lb:1"], services=2)
    subject = Subject(deployment)
    async with scripted_client(deployment, event_listeners=[subject.log, subject.recorder], **options) as client:
        subject.client, subject.coll = client, client.db.coll
        yield subject
    assert not any(service.open_connections for service in deployment.services)


# --- discovery and establishment ---


async def test_there_are_no_monitors_and_the_events_are_these() -> None:
    deployment = ScriptedDeployment(["lb:1"], services=1)
    log = Recorder(*DISCOVERY)
    async with scripted_client(deployment, event_listeners=[log]) as client:
        await client.admin.command("ping")
        assert client.topology_description.topology_type_name == "LoadBalanced"
        await anyio.sleep(60)
        assert log.words("topology|server|heartbeat") == [
            "topology opened",
            "topology changed Unknown to LoadBalanced",
            "server opening lb",
            "server changed lb Unknown to LoadBalancer",
            "topology changed LoadBalanced to LoadBalanced",
        ]
        (service,) = deployment.services
        assert service.connections_made == 1, "the operation's own"
        assert [hello.document["loadBalanced"] for hello in service.hellos] == [True]
    assert log.words("topology|server|heartbeat") == [
        "server closed lb",
        "topology changed LoadBalanced to Unknown",
        "topology closed",
    ]


async def test_a_server_that_is_not_behind_a_load_balancer_is_refused() -> None:
    async with balanced() as subject:
        subject.one.hello = {"serviceId": None}
        with pytest.raises(ConfigurationError, match="the server does not support this mode"):
            await subject.coll.find_one()
        assert subject.log.words("pool|closed|ready") == ["pool created", "pool ready", "closed 1 error"]


@pytest.mark.parametrize("answer", [failure(SHUTDOWN), Close()], ids=["state change", "network"])
async def test_errors_up_to_hello_clear_nothing(answer: Any) -> None:
    async with balanced(retryReads=False) as subject:
        await subject.connect()
        cursors = [await subject.coll.find() for _ in range(2)]
        subject.one.on("hello", answer)
        with pytest.raises((OperationFailure, AutoReconnect)):
            await subject.coll.find_one()
        assert not subject.recorder.cleared
        for cursor in cursors:
            await cursor.close()
        assert subject.stats.idle == 2


# --- errors afterwards ---


async def test_a_state_change_clears_the_connections_of_its_service_only() -> None:
    async with balanced(retryWrites=False) as subject:
        await subject.connect()
        subject.one.on("insert", failure(SHUTDOWN), {"n": 1})
        with pytest.raises(NotPrimaryError):
            await subject.coll.insert_one({})
        (cleared,) = subject.recorder.cleared
        assert cleared.service_id == subject.one.process_id
        assert cleared.address == LB
        assert subject.log.words() == [
            "check-out started",
            "checked out 1",
            "pool cleared",
            "checked in 1",
            "closed 1 stale",
        ]
        assert (subject.stats.idle, subject.stats.generation) == (1, 0)
        await subject.coll.insert_one({})
        assert subject.names(1) == ["insert"]
        assert subject.client.topology_description.topology_type_name == "LoadBalanced"


async def test_the_error_of_an_older_connection_clears_nothing() -> None:
    async with balanced(retryReads=False) as subject:
        subject.one.on("find", FIRST)
        subject.other.is_down = True
        one, other = await subject.coll.find(), await subject.coll.find()
        subject.one.on("getMore", Close())
        for cursor in (one, other):
            with pytest.raises(AutoReconnect):
                await cursor.to_list()
            await cursor.close()
        (cleared,) = subject.recorder.cleared
        assert cleared.service_id == subject.one.process_id
        newer = await subject.coll.find()
        subject.one.on("getMore", LAST)
        assert len(await newer.to_list()) == 3


async def test_operations_are_retried() -> None:
    async with balanced() as subject:
        await subject.connect()
        subject.one.on("insert", Close())
        subject.other.on("insert", {"n": 1})
        await subject.coll.insert_one({})
        assert subject.recorder.history == ["started insert", "failed insert", "started insert", "succeeded insert"]
        numbers = {event.command["txnNumber"] for event in subject.recorder.command_events if hasattr(event, "command")}
        assert len(numbers) == 1
        subject.other.on("find", overloaded(), FIRST | {"cursor": FIRST["cursor"] | {"id": 0}})
        assert len(await subject.coll.find().to_list()) == 2


async def test_command_events_carry_the_service() -> None:
    async with balanced() as subject:
        await subject.client.admin.command("ping")
        subject.one.on("ping", failure(2))
        with pytest.raises(OperationFailure):
            await subject.client.admin.command("ping")
        assert subject.recorder.history == ["started ping", "succeeded ping", "started ping", "failed ping"]
        assert {event.service_id for event in subject.recorder.command_events} == {subject.one.process_id}


async def test_sessions_do_not_expire_for_the_client() -> None:
    async with balanced() as subject:
        await subject.client.admin.command("ping")
        await anyio.sleep(2 * 3600)
        await subject.client.admin.command("ping")
        first, second = (command["lsid"] for service in subject.deployment.services for command in service.commands())
        assert first == second


# --- cursors ---


@pytest.mark.parametrize("is_exhausted", [True, False])
async def test_only_a_cursor_with_more_batches_gets_the_connection(is_exhausted: bool) -> None:
    deployment = ScriptedDeployment(["lb:1"], services=1)
    deployment.services[0].on("find", FOUND if is_exhausted else FIRST)
    async with driver(deployment) as client:
        opened = await client.run(find())
        assert (opened.pin is None) is is_exhausted
        assert len(client.server("lb").pool.state.in_use) == (0 if is_exhausted else 1)
        if opened.pin is not None:
            opened.pin.release()


async def test_a_cursor_keeps_its_connection_until_it_is_exhausted() -> None:
    async with balanced() as subject:
        cursor = await subject.opened(getMore=(MORE, overloaded(), LAST))
        assert subject.stats.in_use == 1
        await subject.client.admin.command("ping")
        assert subject.names(1) == ["ping"], "another connection, to the other service"
        subject.log.clear()
        assert [document["_id"] async for document in cursor] == [1, 2, 3, 4]
        assert subject.names(0) == ["find", "getMore", "getMore", "getMore"], "a retry is sent to the same service"
        assert subject.log.words() == ["checked in 1"], "checked out once and in once"
        assert subject.stats.in_use == 0
        await cursor.close()
        assert subject.log.words() == []


@pytest.mark.parametrize("answer", [{}, Close(), failure(SHUTDOWN)], ids=["done", "network error", "refused"])
async def test_closing_kills_the_cursor_on_its_connection_and_gives_it_back(answer: Any) -> None:
    async with balanced() as subject:
        cursor = await subject.opened(killCursors=answer)
        await subject.client.admin.command("ping")
        await cursor.close()
        assert subject.names(0) == ["find", "killCursors"]
        assert subject.stats.in_use == 0
        assert subject.log.words("checked in") == ["checked in 2", "checked in 1"]


@pytest.mark.parametrize(
    ("answer", "error", "is_kept", "commands", "closed"),
    [
        # There is nothing to send killCursors on.
        (Close(), AutoReconnect, True, ["find", "getMore"], ["checked in 1", "closed 1 error"]),
        (failure(7), OperationFailure, True, ["find", "getMore", "killCursors"], ["checked in 1"]),
        # The server has lost the cursor.
        (failure(43), OperationFailure, False, ["find", "getMore"], ["checked in 1"]),
        (REFUSED, InvalidBSON, True, ["find", "getMore", "killCursors"], ["checked in 1"]),
    ],
    ids=["network error", "refused", "lost cursor", "value that is refused"],
)
async def test_after_an_error_the_connection_stays_with_a_cursor_that_may_be_open(
    answer: Any, error: type[Exception], is_kept: bool, commands: list[str], closed: list[str]
) -> None:
    async with balanced() as subject:
        cursor = await subject.opened(getMore=answer)
        with pytest.raises(error):
            await cursor.to_list()
        assert subject.stats.in_use == is_kept
        if is_kept:
            with pytest.raises(InvalidOperation):
                await cursor.to_list()
        await cursor.close()
        assert subject.stats.in_use == 0
        assert (subject.names(0), subject.names(1)) == (commands, [])
        assert subject.log.words("checked in|closed") == closed


async def test_a_connection_that_was_lost_meanwhile() -> None:
    async with balanced() as subject:
        subject.one.on("find", FIRST)
        cursor = await subject.coll.find()
        subject.one.drop_connections()
        await settle()
        with pytest.raises(AutoReconnect):
            await cursor.to_list()
        assert not cursor.alive, "a program that goes on while it is alive would never end"
        await cursor.close()
        assert subject.stats.in_use == 0


@pytest.mark.parametrize("answer", [failure(18), overloaded(), Close()], ids=["refused", "overload", "lost"])
async def test_a_connection_that_is_lost_as_it_authenticates_again(answer: Any) -> None:
    async with balanced(authMechanism="MONGODB-X509", tls=True) as subject:
        subject.one.on("authenticate", {"ok": 1}, answer)
        cursor = await subject.opened(getMore=(failure(391), MORE))
        with pytest.raises((OperationFailure, AutoReconnect)):
            await cursor.to_list()
        assert not cursor.alive
        await cursor.close()
        assert subject.stats.in_use == 0


async def test_a_cleared_service_does_not_take_the_cursor_s_connection_away() -> None:
    async with balanced(retryWrites=False) as subject:
        await subject.connect()
        subject.one.on("getMore", LAST)
        cursor = await subject.coll.find()
        core: Any = subject.client._core
        (server,) = core.topology.servers
        server.pool.clear(None, service_id=subject.one.process_id)
        assert len(await cursor.to_list()) == 3
        assert subject.log.words("closed|checked in") == ["checked in 1", "closed 1 stale"]


async def test_a_cancelled_get_more_ends_the_connection() -> None:
    async with balanced() as subject:
        cursor = await subject.opened(getMore=Reply(LAST, delay=5.0))
        with anyio.move_on_after(1) as scope:
            await cursor.to_list()
        assert scope.cancelled_caught
        assert subject.stats.in_use == 1
        # At once, not when the cursor is closed: until then it would stay open on the server.
        (server,) = subject.client._core.topology.servers
        (connection,) = server.pool.state.in_use
        assert connection.stream.is_closed
        await cursor.close()
        assert (subject.stats.in_use, subject.stats.pending, subject.stats.idle) == (0, 0, 0)
        assert "killCursors" not in subject.names(0)


async def test_an_abandoned_find_ends_the_connection_which_ends_the_cursor() -> None:
    async with balanced() as subject:
        subject.one.on("find", Reply(FIRST, delay=5.0))
        with pytest.raises(NetworkTimeout):
            await subject.coll.find(timeoutMS=1000)
        assert subject.stats.pending == 0


@pytest.mark.parametrize("way", ["dropped", "left in a cancelled scope", "in another thread", "on another loop"])
async def test_a_cursor_that_is_not_closed_on_its_loop_is_killed_there(way: str) -> None:
    async with balanced() as subject:
        cursor: Any = await subject.opened()
        gc.disable()
        try:
            if way == "left in a cancelled scope":
                with anyio.CancelScope() as scope:
                    async with cursor:
                        scope.cancel()
            elif way == "on another loop":
                _in_a_thread(lambda: asyncio.run(cursor.close()))
            else:
                holder: list[Any] = [cursor]
                holder.append(holder)
                del holder
            assert subject.stats.in_use == 1
            if way != "on another loop":
                del cursor
            if way == "in another thread":
                _in_a_thread(gc.collect)
                assert subject.stats.in_use == 1, "nothing is given back in another thread"
            else:
                gc.collect()
        finally:
            gc.enable()
        await anyio.sleep(1)
        assert subject.names(0) == ["find", "killCursors"]
        assert (subject.stats.in_use, subject.stats.idle) == (0, 1)


def _in_a_thread(function: Callable[[], object]) -> None:
    thread = threading.Thread(target=function)
    thread.start()
    thread.join()


async def test_a_close_that_is_cancelled_is_completed_in_the_background() -> None:
    async with balanced() as subject:
        cursor = await subject.opened(killCursors=Reply({}, delay=5.0))
        with anyio.move_on_after(1) as scope:
            await cursor.close()
        assert scope.cancelled_caught
        await anyio.sleep(1)
        assert subject.stats.in_use == 0


async def test_a_close_that_is_cancelled_in_its_backoff_keeps_the_connection_until_it_is_done() -> None:
    """Also when the cursor is dropped meanwhile: two commands never share a connection."""
    async with balanced() as subject, anyio.create_task_group() as group:
        subject.one.on("find", FIRST)
        subject.one.on("killCursors", overloaded(), Reply({}, delay=3.0))
        scope = anyio.CancelScope()

        async def close(cursor: Any) -> None:
            with scope:
                await cursor.close()

        group.start_soon(close, await subject.coll.find())
        await anyio.sleep(0.05)
        scope.cancel()
        await anyio.sleep(0.01)
        gc.collect()
        await settle()
        assert subject.names(0) == ["find", "killCursors", "killCursors"]
        assert (subject.stats.in_use, subject.stats.idle) == (1, 0)
        await subject.client.admin.command("ping")
        assert subject.names(1) == ["ping"], "on a connection of its own"
        await anyio.sleep(5)
        assert (subject.stats.in_use, subject.stats.idle) == (0, 2)


async def test_a_cursor_that_is_closed_while_another_task_reads_and_then_dropped_is_killed() -> None:
    async with balanced() as subject, anyio.create_task_group() as group:
        cursor = await subject.opened(getMore=Reply(MORE, delay=2.0), killCursors=Reply({}, delay=1.0))

        async def read(cursor: Any) -> None:
            await cursor.to_list()

        group.start_soon(read, cursor)
        await anyio.sleep(1)
        await cursor.close()
        del cursor
        await anyio.sleep(1.5)
        gc.collect()
        await settle()
        assert subject.names(0) == ["find", "getMore", "killCursors"]
        assert subject.stats.in_use == 1, "its own killCursors is under way"
        await anyio.sleep(1)
        assert (subject.stats.in_use, subject.stats.idle) == (0, 1)


async def test_a_cursor_that_is_dropped_in_a_forked_child_touches_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    async with balanced() as subject:
        cursor = await subject.opened()
        with monkeypatch.context() as child:
            child.setattr(current, "fork_generation", current.fork_generation + 1)
            del cursor
            gc.collect()
        await anyio.sleep(1)
        assert subject.names(0) == ["find"]
        assert subject.stats.in_use == 1


async def test_a_late_cursor_of_a_user_s_command_is_ended_with_its_connection() -> None:
    async with balanced() as subject:
        await subject.connect()
        newer = {"clusterTime": Timestamp(9, 1)}
        subject.one.on("aggregate", Reply({**FIRST, "$clusterTime": newer}, delay=1.5))
        with anyio.move_on_after(1):
            await subject.client.db.command({"aggregate": "coll", "pipeline": [], "cursor": {}})
        assert subject.stats.pending == 1
        await anyio.sleep(5)
        assert (subject.names(0), subject.names(1)) == (["aggregate"], []), "no other connection is sure to lead to it"
        assert (subject.stats.pending, subject.stats.idle, len(subject.one.open_connections)) == (0, 1, 0)
        assert subject.log.words("reply|closed") == ["reply awaited 1", "reply arrived 1", "closed 1 error"]
        await subject.client.admin.command("ping")
        assert subject.other.commands("ping")[0]["$clusterTime"] == newer


@pytest.mark.parametrize("kind", ["find", "command"])
async def test_a_cursor_whose_reply_is_refused_is_ended_with_its_connection(kind: str) -> None:
    async with balanced() as subject:
        cursor = {"id": 7, "ns": "db.coll", "firstBatch": [{"at": DatetimeMS(2**60)}]}
        subject.one.on("find", {"cursor": cursor})
        with pytest.raises(InvalidBSON):
            await (subject.coll.find() if kind == "find" else subject.client.db.command("find", "coll"))
        assert (subject.stats.in_use, subject.stats.idle) == (0, 0)
        await settle()
        assert not subject.one.open_connections


async def test_closing_the_client_closes_the_connections_of_open_cursors() -> None:
    deployment = ScriptedDeployment(["lb:1"], services=1)
    (service,) = deployment.services
    service.on("find", FIRST)
    async with scripted_client(deployment) as client:
        cursor = await client.db.coll.find()
        await client.close()
        await settle()
        assert not service.open_connections
        with pytest.raises(InvalidOperation):
            await cursor.to_list()
        await cursor.close()


@pytest.mark.parametrize(
    ("name", "make"),
    [
        ("aggregate", lambda subject: subject.coll.aggregate([])),
        ("listCollections", lambda subject: subject.client.db.list_collections()),
        ("listIndexes", lambda subject: subject.coll.list_indexes()),
        ("checkMetadata", lambda subject: subject.client.db.cursor_command("checkMetadata")),
    ],
)
async def test_every_kind_of_cursor_is_pinned(name: str, make: Callable[[Subject], Awaitable[Any]]) -> None:
    async with balanced() as subject:
        subject.one.on(name, FIRST)
        subject.one.on("getMore", LAST)
        cursor = await make(subject)
        assert subject.stats.in_use == 1
        await cursor.to_list()
        assert subject.stats.in_use == 0
        assert subject.other.connections_made == 0


@pytest.mark.parametrize("late", [False, True], ids=["while-waiting", "after-the-wake-up"])
async def test_a_cursor_cancelled_at_each_await_point_loses_no_connection(late: bool, anyio_backend_name: str) -> None:
    async def life(subject: Subject) -> None:
        async with subject.coll.find() as cursor:
            assert len(await cursor.to_list(3)) == 3

    def answer(subject: Subject) -> None:
        for service in subject.deployment.services:
            service.on("find", Reply(FIRST, 0.01))
            service.on("getMore", Reply(MORE, 0.01))
            service.on("killCursors", Reply({}, 0.01))

    # Trio cannot cancel a task that was already woken.
    late = late and anyio_backend_name == "asyncio"
    async with balanced() as subject:
        answer(subject)
        points = await count_await_points(lambda: life(subject))
    assert points >= 4, "check-out, find, getMore, killCursors"
    for point in range(1, points + 1):
        async with balanced() as subject:
            answer(subject)
            assert await cancel_at(lambda: life(subject), point, late=late)
            await anyio.sleep(1)
            gc.collect()
            await anyio.sleep(1)
            assert (subject.stats.in_use, subject.stats.pending, subject.stats.operations) == (0, 0, 0)
            await life(subject)
            assert subject.stats.in_use == 0
