"""Connection monitoring and pooling: the pool itself, on a scripted server in virtual time ("cmap")."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import count
from math import inf
from typing import TYPE_CHECKING, Any, Final

import anyio

from motorlite import monitoring as events
from motorlite._base.error_documents import SYSTEM_OVERLOADED
from motorlite._client.settings import pool_options
from motorlite._options.options import client_options
from motorlite.errors import PoolClearedError, PoolClosedError, WaitQueueTimeoutError
from motorlite.testing.scripted import Close, Reply, ScriptedDeployment, failure
from tests.spec.formats.base import Format, equal
from tests.spec.unified.outcomes import BadTest, Failed
from tests.support.pools import PoolDriver, pool_on, settle
from tests.support.waiting import until

if TYPE_CHECKING:
    from collections.abc import Callable

    from motorlite._connection.connection import Connection
    from motorlite._connection.establish import EstablishmentError
    from motorlite.testing.scripted import Answer

_OPTIONS: Final = frozenset({"maxPoolSize", "minPoolSize", "maxConnecting", "maxIdleTimeMS", "waitQueueTimeoutMS"})
# A negative interval: the background thread does nothing.
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
_ANYTHING: Final = (42, "42")
# The commands of a handshake.
_HELLO: Final = frozenset({"hello", "isMaster", "ismaster"})


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
    """Performs the operations of a test."""

    def __init__(self, subject: PoolDriver, group: anyio.abc.TaskGroup) -> None:
        self.subject = subject
        self.group = group
        self.threads: dict[str, Thread] = {}
        self.labels: dict[str, Connection] = {}
        self.checked_out: list[Connection] = []

    async def perform(self, operation: dict[str, Any]) -> None:
        thread = operation.get("thread")
        method = getattr(self, operation["name"], None)
        if method is None:
            raise BadTest(f"there is no operation {operation['name']}")
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
        kind, times = operation["event"], operation["count"]
        log = self.subject.log
        await until(
            lambda: sum(_TYPES[type(event)] == kind for event in log.events) >= times,
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


def _options(test: Mapping[str, Any]) -> dict[str, Any]:
    """The pool's options: those of a client that has the test's."""
    chosen = dict(test.get("poolOptions", {}))
    chosen.pop("appName", None)
    interval = chosen.pop("backgroundThreadIntervalMS", None)
    if unknown := sorted(set(chosen) - _OPTIONS):
        raise BadTest(f"there is no option {', '.join(unknown)}")
    options = pool_options(client_options("mongodb://a:1", **chosen))
    if interval is not None:
        options = options._replace(maintenance_interval=interval / 1000 if interval > 0 else _NEVER)
    return options._asdict()


def _set_failpoint(deployment: ScriptedDeployment, test: Mapping[str, Any]) -> None:
    """Let handshakes be late, fail or end: those of which the mode says so."""
    if "failPoint" not in test:
        return
    mode, data = test["failPoint"]["mode"], dict(test["failPoint"]["data"])
    server = deployment["a:1"]
    times = mode["times"] if isinstance(mode, Mapping) else inf
    names, closes, code = data.pop("failCommands"), data.pop("closeConnection", False), data.pop("errorCode", None)
    delay = data.pop("blockTimeMS", 0) / 1000 if data.pop("blockConnection", False) else 0.0
    data.pop("appName", None)
    if data or not set(names) <= _HELLO or (closes and delay):
        raise BadTest(f"a fail point that does something else than delay, fail or end handshakes: {test['failPoint']}")
    number = count(1)

    def answer(request: Mapping[str, Any]) -> Answer:
        reply = server._hello_reply(request)
        if next(number) > times:
            return reply
        return Close() if closes else Reply(failure(code) if code else reply, delay)

    for name in names:
        server.on(name, answer)


def _check_event(actual: Any, expected: Mapping[str, Any], where: str) -> None:
    for name, value in expected.items():
        if name != "type":
            _match(value, getattr(actual, _FIELDS.get(name, name)), f"{where}: {name}")


def _match(expected: Any, actual: Any, where: str) -> None:
    """Compare as the format does ("Spec Test Match Function"): documents may have further fields."""
    if expected in _ANYTHING:
        if actual is None:
            raise Failed(f"{where}: expected anything, found nothing")
    elif isinstance(expected, Mapping) and isinstance(actual, Mapping):
        for name, value in expected.items():
            _match(value, actual.get(name), f"{where}.{name}")
    else:
        equal(expected, actual, where)


async def check(test: Mapping[str, Any]) -> None:
    """Perform the operations; compare the events, and the error of the last operation."""
    equal(1, test["version"], "version of the format")
    deployment = ScriptedDeployment(["a:1"])
    _set_failpoint(deployment, test)
    failure_found: Exception | None = None
    async with pool_on(deployment, ready=False, **_options(test)) as subject:

        def judge(failed: EstablishmentError, _: int) -> None:
            if not failed.error.has_error_label(SYSTEM_OVERLOADED):
                subject.pool.clear(failed.error)

        subject.on_error = judge
        async with anyio.create_task_group() as group:
            runner = Runner(subject, group)
            try:
                await _perform(test, runner)
                _check_events(test, subject)
            except Exception as raised:  # the group would wrap it
                failure_found = raised
            group.cancel_scope.cancel()
            for connection in runner.checked_out:
                subject.pool.check_in(connection)
        if failure_found is not None:
            raise failure_found


async def _perform(test: Mapping[str, Any], runner: Runner) -> None:
    error: Exception | None = None
    for operation in test["operations"]:
        try:
            await runner.perform(operation)
        except tuple(_ERRORS.values()) as raised:
            if operation is not test["operations"][-1]:
                raise
            error = raised
    expected = test["error"]["type"] if "error" in test else None
    if expected is not None and expected not in _ERRORS:
        raise BadTest(f"there is no error {expected}")
    equal(_ERRORS[expected] if expected else type(None), type(error), "error")


def _check_events(test: Mapping[str, Any], subject: PoolDriver) -> None:
    told = [event for event in subject.log.events if _TYPES[type(event)] not in test.get("ignore", ())]
    equal([event["type"] for event in test["events"]], [_TYPES[type(event)] for event in told], "events")
    for number, (actual, expected) in enumerate(zip(told, test["events"], strict=True)):
        _check_event(actual, expected, f"event {number}")


CMAP: Final = Format("cmap", check, lambda content: content.get("style") in ("unit", "integration"))
