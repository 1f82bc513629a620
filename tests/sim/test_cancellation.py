"""Pool and executor, cancelled at each of their await points: nothing lost, nothing leaked, no reply misdelivered.

Each scenario says how many await points it has; the test fails when there are fewer than were known, since it would
then test less than it claims to.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import anyio
import pytest

from motorlite._base.deadline import NO_DEADLINE
from motorlite._operations.contract import Call
from motorlite._operations.cursors import GetMore
from motorlite._operations.find import Find, FindOne
from motorlite._operations.single_writes import Insert
from motorlite.overload import WaitQueue
from motorlite.read_preferences import ReadPreference
from motorlite.testing.cancellation import cancel_at, count_await_points
from motorlite.testing.scripted import Close, Reply, ScriptedDeployment, overloaded
from motorlite.write_concern import WriteConcern
from tests.support.cancellation import counted, settle
from tests.support.core import Driver, driver

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from motorlite._client.core import Core

pytestmark = pytest.mark.anyio


def echo(delay: float = 0.01) -> Callable[[dict[str, Any]], Reply]:
    """Answer a find with the `_id` that it asked for, a little later."""

    def answer(command: dict[str, Any]) -> Reply:
        batch = [{"_id": command["filter"]["_id"]}]
        return Reply({"cursor": {"id": 0, "ns": "db.coll", "firstBatch": batch}}, delay)

    return answer


def find_one(core: Core, number: int) -> Coroutine[Any, Any, Any]:
    operation: FindOne[Any] = FindOne("db", "coll", {"_id": number}, selector=ReadPreference.PRIMARY)
    return core.executor.execute(operation, Call(None, NO_DEADLINE))


async def warm_up(core: Core) -> Any:
    """Open the connection with a command whose script is not used up by it."""
    await core.executor.execute(Insert("db", "coll", {"_id": 0}), Call(None, NO_DEADLINE))


class Scenario:
    """One operation to cancel, a read by default, in surroundings that make it wait where it usually does not."""

    # The await points that were known when the test was written.
    points = 1

    def __init__(self, **options: Any) -> None:
        self.options = options

    def deployment(self) -> ScriptedDeployment:
        deployment = ScriptedDeployment(["a:1"])
        deployment["a:1"].on("find", echo())
        deployment["a:1"].on("insert", Reply({"n": 1}, 0.01))
        return deployment

    async def prepare(self, core: Core) -> Any:
        await warm_up(core)

    async def run(self, core: Core, deployment: ScriptedDeployment, prepared: Any) -> None:
        assert await find_one(core, 1) == {"_id": 1}

    async def release(self) -> None:
        """Wait until the surroundings are as before."""


class FirstOperation(Scenario):
    """Selection waits for the first check, check-out for the first connection, then the reply."""

    points = 3

    async def prepare(self, core: Core) -> Any:
        return None


class QueuedForAConnection(Scenario):
    """The only connection is busy: the operation waits in the queue, in a configured one also for its timer."""

    points = 2

    def __init__(self, **queue: Any) -> None:
        super().__init__(maxPoolSize=1, **({"wait_queue": WaitQueue("queue", **queue)} if queue else {}))

    async def prepare(self, core: Core) -> Any:
        await warm_up(core)
        (server,) = core.topology.servers
        connection = server.pool.check_out_now()
        assert connection is not None
        return server, connection

    async def run(self, core: Core, deployment: ScriptedDeployment, prepared: Any) -> None:
        server, connection = prepared

        async def give_back() -> None:
            await anyio.sleep(0.05)
            server.pool.check_in(connection)

        core._background.host.spawn(give_back)
        await super().run(core, deployment, prepared)

    async def release(self) -> None:
        await anyio.sleep(0.1)


class OverloadedRead(Scenario):
    """Two retries: their backoff is awaited, and each attempt's reply."""

    points = 5

    def deployment(self) -> ScriptedDeployment:
        deployment = super().deployment()
        slow = Reply(overloaded(), 0.01)
        deployment["a:1"].on("find", slow, slow, echo())
        return deployment


class RetriedAfterALostConnection(Scenario):
    """The connection breaks: the retry waits for a check, a new connection and the reply."""

    points = 3

    def deployment(self) -> ScriptedDeployment:
        deployment = super().deployment()
        deployment["a:1"].on("find", Close(), echo())
        return deployment


class Write(Scenario):
    """A write on a warm connection."""

    async def run(self, core: Core, deployment: ScriptedDeployment, prepared: Any) -> None:
        await warm_up(core)


class StalledWrite(Scenario):
    """The server does not read: the request is written half when the operation is cancelled."""

    async def run(self, core: Core, deployment: ScriptedDeployment, prepared: Any) -> None:
        for stream in deployment["a:1"].open_connections:
            stream.is_stalled = True

        async def resume() -> None:
            await anyio.sleep(0.05)
            for stream in list(deployment["a:1"].open_connections):
                stream.resume()

        core._background.host.spawn(resume)
        operation = Insert("db", "coll", {"_id": 1}, write_concern=WriteConcern(w=0))
        await core.executor.execute(operation, Call(None, NO_DEADLINE))

    async def release(self) -> None:
        await anyio.sleep(0.1)


class CursorAndGetMore(Scenario):
    """A cursor is opened and read on, with the implicit session that it keeps."""

    points = 2

    def deployment(self) -> ScriptedDeployment:
        deployment = super().deployment()
        first = {"cursor": {"id": 7, "ns": "db.coll", "firstBatch": [{"_id": 1}]}}
        deployment["a:1"].on("find", Reply(first, 0.01))
        deployment["a:1"].on("getMore", Reply({"cursor": {"id": 0, "ns": "db.coll", "nextBatch": [{"_id": 2}]}}, 0.01))
        return deployment

    async def run(self, core: Core, deployment: ScriptedDeployment, prepared: Any) -> None:
        opened = await core.executor.open(Find("db", "coll", {}), Call(None, NO_DEADLINE))
        assert opened.session is not None
        try:
            operation = GetMore("db", "coll", opened.reply.cursor_id, address=opened.address)
            more = await core.executor.execute(operation, Call(opened.session, NO_DEADLINE))
            assert more.documents == [{"_id": 2}]
        finally:
            core.executor.release(opened.session)


SCENARIOS: dict[str, Callable[[], Scenario]] = {
    "FirstOperation": FirstOperation,
    "WarmRead": Scenario,
    "QueuedForAConnection": QueuedForAConnection,
    **{f"Queued: {order}": partial(QueuedForAConnection, ordering=order) for order in ("fifo", "priority", "adaptive")},
    "OverloadedRead": OverloadedRead,
    "RetriedAfterALostConnection": RetriedAfterALostConnection,
    "Write": Write,
    "StalledWrite": StalledWrite,
    "CursorAndGetMore": CursorAndGetMore,
}


async def measure(scenario: Scenario) -> int:
    deployment = scenario.deployment()
    async with driver(deployment, connect=False, **scenario.options) as client:
        core = client.core
        prepared = await scenario.prepare(core)
        points = await count_await_points(lambda: scenario.run(core, deployment, prepared))
        await scenario.release()
    return points


@pytest.mark.parametrize("late", [False, True], ids=["while-waiting", "after-the-wake-up"])
@pytest.mark.parametrize("name", SCENARIOS)
async def test_cancelled_at_each_await_point(name: str, late: bool, anyio_backend_name: str) -> None:
    if late and anyio_backend_name == "trio":
        # Trio cannot cancel a task that was already woken; the case does not exist there.
        late = False
    scenario = SCENARIOS[name]()
    points = await measure(scenario)
    counted[f"{name}, {anyio_backend_name}, {'late' if late else 'while waiting'}"] = points
    assert points >= scenario.points, f"only {points} await points are left of {scenario.points}"
    for point in range(1, points + 1):
        deployment = scenario.deployment()
        async with driver(deployment, connect=False, **scenario.options) as client:
            core = client.core
            prepared = await scenario.prepare(core)
            assert await cancel_at(lambda: scenario.run(core, deployment, prepared), point, late=late)  # noqa: B023
            await scenario.release()
            await settle()
            await check_nothing_is_lost(client)


async def check_nothing_is_lost(client: Driver) -> None:
    core, deployment, recorder = client.core, client.deployment, client.recorder
    (server,) = core.topology.servers
    state = server.pool.state
    assert not state.in_use
    assert not state.queue
    assert state.bounded is None or state.bounded.memory == 0
    assert not state.connecting
    assert server.operation_count == 0
    ended = {event.request_id for event in recorder.ended_events}
    assert ended == {event.request_id for event in recorder.started_events}
    assert len(recorder.ended_events) == len(recorder.started_events) == len(ended)
    deployment["a:1"].on("find", echo())
    # Every connection is still usable, and every reply comes to the one who asked.
    async with anyio.create_task_group() as group:
        for number in range(100, 100 + len(state.idle) + 3):

            async def ask(number: int = number) -> None:
                assert await find_one(core, number) == {"_id": number}

            group.start_soon(ask)
    await settle()
    assert not state.in_use
    idle = [connection.stream for connection in state.idle]
    assert all(not stream.is_closed for stream in idle)
    monitors = 1
    assert len(deployment["a:1"].open_connections) == len(idle) + monitors
    sessions = [session.lsid["id"] for session in core.sessions._free]
    assert len(sessions) == len(set(sessions)), "a session was given back twice"
