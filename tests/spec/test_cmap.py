"""Connection monitoring and pooling: the public suite of the pool itself, on a scripted server in virtual time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import anyio
import pytest

from motorlite import monitoring as events
from motorlite._pool.state import PoolClosedError
from motorlite.errors import SYSTEM_OVERLOADED, PoolClearedError, WaitQueueTimeoutError
from motorlite.testing.scripted import Reply, ScriptedDeployment, failure
from tests.support import specifications
from tests.support.pools import Subject, pool_on, settle
from tests.support.sdam import until

if TYPE_CHECKING:
    from collections.abc import Callable

    from motorlite._pool.connection import Connection
    from motorlite._pool.establish import EstablishmentError

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]

CASES: Final = specifications.load("connection-monitoring-and-pooling/tests/cmap-format")

_OPTIONS: Final[dict[str, tuple[str, float]]] = {
    "maxPoolSize": ("max_size", 1),
    "minPoolSize": ("min_size", 1),
    "maxConnecting": ("max_connecting", 1),
    "maxIdleTimeMS": ("max_idle_time", 0.001),
    "waitQueueTimeoutMS": ("wait_queue_timeout", 0.001),
    "backgroundThreadIntervalMS": ("maintenance_interval", 0.001),
}
# -1: the background thread does nothing.
_NEVER: Final = 1e6
_TYPES: Final = {
    events.PoolCreatedEvent: "ConnectionPoolCreated",
    events.PoolReadyEvent: "ConnectionPoolReady",
    events.PoolClearedEvent: "ConnectionPoolCleared",
    events.PoolClosedEvent: "ConnectionPoolClosed",
    events.ConnectionCreatedEvent: "ConnectionCreated",
    events.ConnectionReadyEvent: "ConnectionReady",
    events.ConnectionClosedEvent: "ConnectionClosed",
    events.ConnectionCheckOutStartedEvent: "ConnectionCheckOutStarted",
    events.ConnectionCheckOutFailedEvent: "ConnectionCheckOutFailed",
    events.ConnectionCheckedOutEvent: "ConnectionCheckedOut",
    events.ConnectionCheckedInEvent: "ConnectionCheckedIn",
}
_FIELDS: Final = {"connectionId": "connection_id", "interruptInUseConnections": "interrupt_connections"}
_ERRORS: Final[dict[str, type[Exception]]] = {
    "PoolClosedError": PoolClosedError,
    "PoolClearedError": PoolClearedError,
    "WaitQueueTimeoutError": WaitQueueTimeoutError,
}
ANYTHING: Final = (42, "42")


class Thread:
    """Performs its operations one after the other."""

    def __init__(self) -> None:
        self.todo: list[Callable[[], Any]] = []
        self.error: BaseException | None = None
        self.is_busy = False

    async def run(self) -> None:
        while True:
            while self.todo and self.error is None:
                self.is_busy = True
                try:
                    await self.todo.pop(0)()
                except Exception as error:
                    self.error = error
                self.is_busy = False
            await anyio.sleep(0.001)


class Runner:
    def __init__(self, subject: Subject, group: anyio.abc.TaskGroup) -> None:
        self.subject = subject
        self.group = group
        self.threads: dict[str, Thread] = {}
        self.labels: dict[str, Connection] = {}
        self.checked_out: list[Connection] = []

    async def perform(self, operation: dict[str, Any]) -> None:
        name, thread = operation["name"], operation.get("thread")
        method = getattr(self, name)
        if thread is not None:
            self.threads[thread].todo.append(lambda: method(operation))
            await settle()
        else:
            await method(operation)
            await settle()

    async def start(self, operation: dict[str, Any]) -> None:
        thread = self.threads[operation["target"]] = Thread()
        self.group.start_soon(thread.run)

    async def wait(self, operation: dict[str, Any]) -> None:
        await anyio.sleep(operation["ms"] / 1000)

    async def waitForThread(self, operation: dict[str, Any]) -> None:
        thread = self.threads[operation["target"]]
        await until(lambda: thread.error is not None or not (thread.todo or thread.is_busy))
        if thread.error is not None:
            raise thread.error

    async def waitForEvent(self, operation: dict[str, Any]) -> None:
        kind, count = operation["event"], operation["count"]
        log = self.subject.log
        await until(
            lambda: sum(_TYPES[type(event)] == kind for event in log.events) >= count,
            operation.get("timeout", 60_000) / 1000,
        )

    async def ready(self, operation: dict[str, Any]) -> None:
        self.subject.pool.ready()

    async def clear(self, operation: dict[str, Any]) -> None:
        self.subject.pool.clear(None, interrupt_in_use=operation.get("interruptInUseConnections", False))

    async def close(self, operation: dict[str, Any]) -> None:
        self.subject.pool.close()

    async def checkOut(self, operation: dict[str, Any]) -> None:
        connection = await self.subject.check_out()
        self.checked_out.append(connection)
        if "label" in operation:
            self.labels[operation["label"]] = connection

    async def checkIn(self, operation: dict[str, Any]) -> None:
        connection = self.labels[operation["connection"]]
        self.checked_out.remove(connection)
        self.subject.pool.check_in(connection)


def options(case: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in case.get("poolOptions", {}).items():
        if name == "appName":
            continue
        ours, factor = _OPTIONS[name]
        found[ours] = value * factor if value >= 0 else _NEVER
    return found


def set_failpoint(deployment: ScriptedDeployment, case: dict[str, Any]) -> None:
    """All of them act on the handshake, and none is used up."""
    if "failPoint" not in case:
        return
    data = dict(case["failPoint"]["data"])
    assert set(data.pop("failCommands")) == {"isMaster", "hello"}
    data.pop("appName")
    assert not data.pop("closeConnection", False)
    server = deployment["a:1"]
    if data.pop("blockConnection", False):
        server.hello_delay = data.pop("blockTimeMS") / 1000
    if code := data.pop("errorCode", None):
        server.on("isMaster", Reply(failure(code)))
    assert not data


def check_event(actual: Any, expected: dict[str, Any]) -> None:
    for name, value in expected.items():
        if name == "type":
            continue
        found = getattr(actual, _FIELDS.get(name, name))
        if value in ANYTHING:
            assert found is not None
        else:
            assert found == value, (actual, expected)


@pytest.mark.parametrize("case", [pytest.param(content, id=name) for name, content in CASES])
async def test_pool(case: dict[str, Any]) -> None:
    assert case["version"] == 1
    deployment = ScriptedDeployment(["a:1"])
    set_failpoint(deployment, case)
    async with pool_on(deployment, ready=False, **options(case)) as subject, anyio.create_task_group() as group:

        def judge(failed: EstablishmentError, _: int) -> None:
            if not failed.error.has_error_label(SYSTEM_OVERLOADED):
                subject.pool.clear(failed.error)

        subject.on_error = judge
        runner = Runner(subject, group)
        error: Exception | None = None
        for operation in case["operations"]:
            try:
                await runner.perform(operation)
            except tuple(_ERRORS.values()) as raised:
                assert operation is case["operations"][-1]
                error = raised
        if "error" in case:
            assert type(error) is _ERRORS[case["error"]["type"]]
        else:
            assert error is None
        ignored = case.get("ignore", [])
        told = [event for event in subject.log.events if _TYPES[type(event)] not in ignored]
        assert [_TYPES[type(event)] for event in told] == [expected["type"] for expected in case["events"]]
        for actual, expected in zip(told, case["events"], strict=True):
            check_event(actual, expected)
        group.cancel_scope.cancel()
        for connection in runner.checked_out:
            subject.pool.check_in(connection)


def test_the_suite_is_complete() -> None:
    if specifications.not_run() is None:
        assert len(CASES) >= 25
