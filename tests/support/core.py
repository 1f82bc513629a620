"""A client's machinery on a scripted deployment, below the public API, with exact jitter and recorded events."""

from __future__ import annotations

from contextlib import asynccontextmanager
from itertools import pairwise
from math import inf
from typing import TYPE_CHECKING, Any

import anyio
import pytest

from motorlite._base.deadline import Deadline
from motorlite._client.core import Core
from motorlite._client.world import World
from motorlite._execution.call import Call
from motorlite._operations.cursors.get_more import GetMore
from motorlite._operations.reads.find import Find
from motorlite._operations.run_command import RunCommand
from motorlite._operations.writes.insert import Insert
from motorlite._operations.writes.statements import update_statement
from motorlite._operations.writes.update import Update
from motorlite._options.options import client_options
from motorlite.errors import PyMongoError
from motorlite.monitoring import (
    CommandFailedEvent,
    CommandListener,
    CommandStartedEvent,
    CommandSucceededEvent,
    ConnectionPoolListener,
    PoolClearedEvent,
    RetryEvent,
    RetryListener,
)
from motorlite.read_preferences import ReadPreference
from motorlite.testing.scripted import Close, Reply, ScriptedDeployment, failure, overloaded

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from motorlite._base.values import Address
    from motorlite._execution.operation import Operation
    from motorlite._overload.token_bucket import TokenBucket
    from motorlite._sessions.session import Session
    from motorlite._topology.server import Server
    from motorlite.monitoring import CommandEvent
    from motorlite.testing.scripted import Answer

A: Address = ("a", 1)
B: Address = ("b", 1)

OVERLOADED = overloaded()
OVERLOADED_ONLY = failure(462, "SystemOverloadedError")
RETRYABLE_ONLY = failure(462, "RetryableError")
# Retryable by the ordinary specifications, without a state change: the server stays known, so only the retry policy
# determines the time of the next attempt.
HOST_UNREACHABLE = failure(6, "RetryableWriteError")
BAD_VALUE = failure(2)
FOUND = {"cursor": {"id": 0, "ns": "db.coll", "firstBatch": [{"_id": 1}]}}
WRITTEN = {"n": 1}
DONE: dict[str, Any] = {"ok": 1}


class Recorder(CommandListener, RetryListener, ConnectionPoolListener):
    """Published events, in order."""

    def __init__(self) -> None:
        self.commands: list[CommandEvent] = []
        self.retries: list[RetryEvent] = []
        self.cleared: list[PoolClearedEvent] = []

    def started(self, event: CommandStartedEvent) -> None:
        self.commands.append(event)

    def succeeded(self, event: CommandSucceededEvent) -> None:
        self.commands.append(event)

    def failed(self, event: CommandFailedEvent) -> None:
        self.commands.append(event)

    def retry(self, event: RetryEvent) -> None:
        self.retries.append(event)

    def pool_cleared(self, event: PoolClearedEvent) -> None:
        self.cleared.append(event)

    @property
    def names(self) -> list[str]:
        """The command events as ``started find``, ``failed find``..."""
        words = {CommandStartedEvent: "started", CommandSucceededEvent: "succeeded", CommandFailedEvent: "failed"}
        return [f"{words[type(event)]} {event.command_name}" for event in self.commands]


class Driver:
    """One client's machinery and its deployment."""

    def __init__(self, core: Core, deployment: ScriptedDeployment, recorder: Recorder) -> None:
        self.core = core
        self.deployment = deployment
        self.recorder = recorder

    async def run(
        self,
        operation: Operation[Any],
        *,
        session: Session | None = None,
        timeout: float = inf,  # noqa: ASYNC109
    ) -> Any:
        """Execute `operation`, or open its cursor, as the API does. `timeout`: timeoutMS in seconds."""
        core = self.core
        core.enter()
        expires_at = core.now() + timeout
        deadline = Deadline(expires_at, core.scope_deadline(), timeout)
        call = Call(session, deadline)
        if operation.creates_cursor:
            return await core.executor.open(operation, call)
        return await core.executor.execute(operation, call)

    async def connect(self) -> None:
        """Open the first connection to the primary, with a command that no test counts.

        One second later, all servers are known and all monitors sleep.
        """
        await self.run(RunCommand("admin", {"connect": 1}))
        await anyio.sleep(1)
        for server in self.deployment.servers.values():
            server.received.clear()
        self.recorder.commands.clear()

    @property
    def bucket(self) -> TokenBucket:
        bucket = self.core.executor.bucket
        assert bucket is not None
        return bucket

    @property
    def tokens(self) -> float:
        return self.bucket.tokens

    def drain_to(self, tokens: int) -> None:
        """Take tokens until only `tokens` are left."""
        while self.bucket.tokens > tokens:
            assert self.bucket.take()

    def server(self, address: Address = A) -> Server:
        """The driver's server object for an address."""
        (found,) = (server for server in self.core.topology.servers if server.address == address)
        return found

    @property
    def now(self) -> float:
        return self.core.now()


@asynccontextmanager
async def driver(
    deployment: ScriptedDeployment,
    *,
    jitter: float = 1.0,
    connect: bool = True,
    world: Any = None,
    **options: Any,
) -> AsyncIterator[Driver]:
    """A client on `deployment`, with a connection to the primary unless `connect` is false.

    `world` is a mapping with additional fields of its `World`.
    """
    recorder = Recorder()
    chosen = client_options(deployment.uri, event_listeners=[recorder], **options)
    parts: dict[str, Any] = {"connector": deployment.connector, "jitter": lambda: jitter, "below": lambda _: 0}
    core = Core(chosen, World(**{**parts, **(world or {})}))
    core.enter()
    client = Driver(core, deployment, recorder)
    try:
        if connect:
            await client.connect()
        yield client
    finally:
        await core.close()
        await deployment.close()


# --- operations ---


def find(**arguments: Any) -> Find:
    """A retryable read from the primary."""
    return Find("db", "coll", {}, **{"selector": ReadPreference.PRIMARY, **arguments})


def insert(**arguments: Any) -> Insert:
    """A retryable write."""
    return Insert("db", "coll", {"_id": 1}, **arguments)


def update_many() -> Update:
    """A write that the retryable writes specification does not retry."""
    return Update("db", "coll", update_statement({}, {"$set": {"x": 1}}, multi=True))


def get_more(address: Address = A) -> GetMore:
    """A read that the retryable reads specification does not retry."""
    return GetMore("db", "coll", 7, address=address)


def run_command(name: str = "ping") -> RunCommand:
    """Neither a read nor a write."""
    return RunCommand("db", {name: 1})


# --- answers ---


def hello_delay(deployment: ScriptedDeployment, address: str, delay: float) -> None:
    """Make handshakes and checks of a server take `delay` seconds."""
    server = deployment[address]

    def answer(_: dict[str, Any]) -> Reply:
        return Reply({**deployment._hello_reply(server), **server.hello}, delay)

    for name in ("hello", "isMaster"):
        server.on(name, answer)


def later(answer: Answer, delay: float) -> Reply:
    """`answer`, which must be a document, after `delay` seconds."""
    assert isinstance(answer, dict)
    return Reply(answer, delay)


def gaps(times: list[float]) -> list[float]:
    """The seconds between consecutive times."""
    return [round(after - before, 9) for before, after in pairwise(times)]


# --- one operation of each kind ---

DELAYS = [0.1, 0.2, 0.4, 0.8, 1.6]
NEXT_BATCH = {"cursor": {"id": 0, "ns": "db.coll", "nextBatch": []}}
# One operation of each kind, including those that no other specification retries: command name, operation, successful
# answer.
COMMANDS: list[tuple[str, Callable[[], Operation[Any]], dict[str, Any]]] = [
    ("find", find, FOUND),
    ("insert", insert, WRITTEN),
    ("update", update_many, WRITTEN),
    ("getMore", get_more, NEXT_BATCH),
    ("ping", run_command, DONE),
]
EVERY_KIND = pytest.mark.parametrize(("name", "make", "success"), COMMANDS, ids=[row[0] for row in COMMANDS])


def replica_set(*, servers: int = 1, **arguments: Any) -> ScriptedDeployment:
    """A replica set of up to three members: a:1, which is the primary, b:1 and c:1."""
    addresses = [f"{name}:1" for name in "abc"[:servers]]
    return ScriptedDeployment(addresses, replica_set="rs", **arguments)


def make_unreachable(deployment: ScriptedDeployment, *, hangs_up: bool) -> None:
    """Drop all connections and prevent new ones; monitors do not check for ten seconds."""
    server = deployment["a:1"]
    server.drop_connections()
    server.is_down = not hangs_up
    if hangs_up:
        server.on("isMaster", Close())


def make_reachable(deployment: ScriptedDeployment) -> None:
    """Undo `make_unreachable`."""
    server = deployment["a:1"]
    server.is_down = False
    server.on("isMaster")


async def fails(client: Driver, operation: Operation[Any], **arguments: Any) -> PyMongoError:
    """The error that `operation` raises."""
    with pytest.raises(PyMongoError) as raised:
        await client.run(operation, **arguments)
    return raised.value
