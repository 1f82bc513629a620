"""Writes that run at the same time in one session: they take turns, as the server wants their transaction numbers."""

from __future__ import annotations

from contextlib import asynccontextmanager
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import anyio
import anyio.lowlevel
import pytest

import motorlite
from motorlite.errors import ExecutionTimeout, InvalidOperation, PyMongoError
from motorlite.monitoring import OperationFailedEvent
from motorlite.operations import InsertOne
from motorlite.testing.cancellation import cancel_at
from motorlite.testing.scripted import Close, Hang, Reply, failure
from tests.support.bulk_write_server import BulkWriteServer
from tests.support.core import OVERLOADED
from tests.support.events import Recorder
from tests.support.transactions import Subject, in_use, numbered, replica_set, subject

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from motorlite import AsyncClientSession
    from motorlite.testing.scripted import Answer, ScriptedDeployment
    from tests.support.clients import Client

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]

TRANSACTION_TOO_OLD = failure(225)


class Writing(Subject):
    """A session on a server that takes a second for each write and refuses numbers that it has passed."""

    def __init__(self, deployment: ScriptedDeployment, client: Client, session: AsyncClientSession[Any]) -> None:
        super().__init__(deployment, client, session)
        # The newest number, and the number of writes under way.
        self.number = 0
        # What the next writes get instead.
        self.instead: list[Answer] = []
        # Those of `try_to_write`.
        self.errors: list[PyMongoError] = []
        for name in ("insert", "update", "findAndModify"):
            self.server.on(name, self._answer)

    def _answer(self, command: dict[str, Any]) -> Answer:
        if command.get("txnNumber", self.number) < self.number:
            return TRANSACTION_TOO_OLD
        self.number = command.get("txnNumber", self.number)
        return self.instead.pop(0) if self.instead else Reply({"n": 1}, 1.0)

    def numbers(self) -> list[int]:
        return [one.document["txnNumber"] for one in self.server.received if "txnNumber" in one.document]

    async def write(self, document: int = 0) -> None:
        await self.insert(_id=document)

    async def write_at_once(self, count: int) -> float:
        """Insert documents from several tasks. Returns how long it took."""
        start = anyio.current_time()
        async with anyio.create_task_group() as tasks:
            for number in range(count):
                tasks.start_soon(self.write, number)
                await anyio.sleep(0.001)
        return anyio.current_time() - start

    async def try_to_write(self) -> None:
        try:
            await self.write()
        except PyMongoError as error:
            self.errors.append(error)


@asynccontextmanager
async def writing(**options: Any) -> AsyncIterator[Writing]:
    async with subject(replica_set(wire_version=25), **options) as made:
        yield Writing(made.deployment, made.client, made.session)


@pytest.fixture
async def it() -> AsyncIterator[Writing]:
    async with writing() as made:
        yield made


async def test_writes_take_turns(it: Writing) -> None:
    assert await it.write_at_once(10) == pytest.approx(10, abs=0.1)
    assert it.numbers() == list(range(1, 11))
    documents = [one.document["documents"][0]["_id"] for one in it.server.received]
    assert documents == list(range(10)), "first in first out"


async def test_all_kinds_of_writes_take_turns(it: Writing) -> None:
    BulkWriteServer(it.server)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(lambda: it.coll.insert_many([{}, {}], session=it.session))
        tasks.start_soon(lambda: it.coll.find_one_and_update({}, {"$set": {"x": 1}}, session=it.session))
        tasks.start_soon(lambda: it.client.bulk_write([InsertOne({}, namespace="db.coll")], session=it.session))
        tasks.start_soon(lambda: it.coll.update_one({}, {"$set": {"x": 1}}, session=it.session))
    assert it.numbers() == [1, 2, 3, 4]
    arrivals = [one.at for one in it.server.received]
    gaps = [round(after - before) for before, after in pairwise(arrivals)]
    # That of the client takes no time here.
    assert sorted(gaps) in ([0, 1, 1], [1, 1, 1])


async def test_a_write_that_is_retried_keeps_its_turn(it: Writing) -> None:
    it.instead = [Close(), OVERLOADED]
    await it.write_at_once(5)
    assert it.numbers() == [1, 1, 1, 2, 3, 4, 5]


async def test_a_write_that_fails_ends_its_turn(it: Writing) -> None:
    it.instead = [failure(13), {"n": 1}]
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(it.try_to_write)
        await anyio.lowlevel.checkpoint()
        tasks.start_soon(it.write)
    assert it.numbers() == [1, 2]
    assert len(it.errors) == 1


async def test_reads_and_other_sessions_do_not_wait(it: Writing) -> None:
    async with it.client.start_session() as other:
        start = anyio.current_time()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(it.write)
            tasks.start_soon(lambda: it.coll.insert_one({}, session=other))
            for _ in range(5):
                tasks.start_soon(it.coll.insert_one, {})
                tasks.start_soon(lambda: it.coll.update_many({}, {"$set": {"x": 1}}, session=it.session))
            await anyio.lowlevel.checkpoint()
            await it.coll.find_one(session=it.session)
            assert anyio.current_time() == start
        assert anyio.current_time() - start == pytest.approx(1, abs=0.1)


async def test_writes_without_numbers_do_not_wait() -> None:
    async with writing(retryWrites=False) as it:
        assert await it.write_at_once(5) == pytest.approx(1, abs=0.1)


async def test_a_write_that_waits_needs_no_connection() -> None:
    async with writing(maxPoolSize=1) as it, anyio.create_task_group() as tasks:
        for number in range(3):
            tasks.start_soon(it.write, number)
        await anyio.sleep(1.5)
        assert in_use(it.client) == 1
        assert not sum(server.waiting for server in it.client.stats().servers.values())


async def test_the_deadline_of_a_write_that_waits() -> None:
    record = Recorder(OperationFailedEvent)
    async with writing(event_listeners=[record]) as it:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(it.write)
            await anyio.sleep(0.1)
            with pytest.raises(ExecutionTimeout, match="session") as raised, motorlite.timeout(0.5):
                await it.write()
            error = raised.value
            assert (error.phase, error.timeout, error.client_limit) == ("session", True, 0.5)
            assert not error.reached_server
            assert not error.may_have_been_executed
            tasks.start_soon(it.write)
        assert it.numbers() == [1, 2]
        assert [event.operation_name for event in record.events] == ["insert"]


async def test_each_moment_of_a_cancellation_passes_the_turn_on() -> None:
    # After a second, the turn of the second write has come.
    for delay in (0, 0.5, 0.999, 1.0, 1.0001, 1.5, 2.0):
        async with writing() as it:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(it.write, 1)
                await anyio.lowlevel.checkpoint()
                with anyio.move_on_after(delay) as scope:
                    await it.write(2)
                assert scope.cancelled_caught or delay > 1
                with anyio.fail_after(3):
                    await it.write(3)
            assert it.session._state.waiting is None


async def test_a_turn_that_comes_with_the_cancellation_is_passed_on(it: Writing) -> None:
    """On asyncio: the task was woken and has not run yet."""
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(it.write, 1)
        await anyio.lowlevel.checkpoint()
        assert await cancel_at(lambda: it.write(2), 1, late=True)
        with anyio.fail_after(3):
            await it.write(3)


async def test_writes_that_gave_up_are_not_kept(it: Writing) -> None:
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(it.write)
        await anyio.lowlevel.checkpoint()
        for _ in range(5):
            with motorlite.timeout(0.01):
                await it.try_to_write()
            with anyio.move_on_after(0.01):
                await it.write()
        assert it.session._state.waiting is not None
        assert not it.session._state.waiting
    assert len(it.errors) == 5


async def test_the_client_is_closed_while_writes_wait(it: Writing) -> None:
    async with anyio.create_task_group() as tasks:
        for _ in range(4):
            tasks.start_soon(it.try_to_write)
        await anyio.sleep(0.5)
        await it.client.close()
    assert len(it.errors) == 3
    assert all(isinstance(error, InvalidOperation) for error in it.errors)
    assert it.numbers() == [1]


async def test_the_session_ends_while_writes_wait(it: Writing) -> None:
    """So ends a `bind` block whose `asyncio.gather` raises an error."""
    async with anyio.create_task_group() as tasks:
        for _ in range(3):
            tasks.start_soon(it.try_to_write)
        await anyio.sleep(0.5)
        await it.session.end_session()
    assert [str(error) for error in it.errors] == ["Cannot use ended session"] * 2
    assert it.numbers() == [1]
    assert len(it.client._core.sessions) == 0, "a write used it still"


# --- next to transactions ---


async def test_a_transaction_begins_when_earlier_writes_have_ended(it: Writing) -> None:
    async with anyio.create_task_group() as tasks:
        for number in (1, 2):
            tasks.start_soon(it.write, number)
        await anyio.sleep(0.1)
        async with it.session.start_transaction():
            await it.write(3)
            await it.write(4)
    assert it.numbers() == [1, 2, 3, 3, 3]
    assert [name for name, _ in numbered(it.server)] == ["insert", "insert", "commitTransaction"]


async def test_a_transaction_that_never_begins(it: Writing) -> None:
    it.instead = [Hang()]
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(it.write)
        await anyio.sleep(0.1)
        with anyio.move_on_after(1):
            async with it.session.start_transaction():
                await it.write()
        tasks.cancel_scope.cancel()
    await it.write()
    assert "abortTransaction" not in [one.name for one in it.server.received]
