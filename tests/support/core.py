"""A client's machinery on a scripted deployment, below the public API, with exact jitter and recorded events."""

from __future__ import annotations

from contextlib import asynccontextmanager
from itertools import pairwise
from math import inf
from typing import TYPE_CHECKING, Any

import anyio
import pytest

from motorlite._base.deadline import NO_DEADLINE, Deadline
from motorlite._operations.commands import RunCommand
from motorlite._operations.contract import Call
from motorlite._operations.cursors import GetMore
from motorlite._operations.find import Find
from motorlite._operations.single_writes import Insert, Update
from motorlite._operations.statements import update_statement
from motorlite._options.options import client_options
from motorlite.errors import PyMongoError
from motorlite.monitoring import PoolEvent
from motorlite.read_preferences import ReadPreference
from motorlite.testing.scripted import Close, Reply, ScriptedDeployment, failure, overloaded
from tests.support.clients import make_core
from tests.support.events import DISCOVERY, Recorder

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Collection, Mapping

    from motorlite._base.values import Address
    from motorlite._operations.contract import Operation
    from motorlite._sessions.session import Session
    from motorlite._topology.selection import Selector
    from motorlite._topology.server_description import ServerDescription
    from motorlite._topology.topology import Server
    from motorlite.retry import RetryBudget
    from motorlite.testing.scripted import Answer, ScriptedServer

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


_PING: Operation[Any] = RunCommand("db", {"ping": 1})


class Driver:
    """One client's machinery, its deployment, and what it publishes.

    `recorder` has all events, `log` those of topology, servers and heartbeats, `pool_log` those of pools.
    """

    def __init__(
        self,
        deployment: ScriptedDeployment,
        *,
        world: Mapping[str, Any] | None = None,
        uri: str | None = None,
        jitter: float | None = None,
        **options: Any,
    ) -> None:
        self.deployment = deployment
        self.recorder = Recorder()
        self.log = Recorder(*DISCOVERY)
        self.pool_log = Recorder(PoolEvent)
        chosen = client_options(
            uri or deployment.uri, event_listeners=[self.recorder, self.log, self.pool_log], **options
        )
        self.core = make_core(chosen, deployment, world=world, jitter=jitter)

    async def run(
        self,
        operation: Operation[Any] | None = None,
        deadline: Deadline | None = None,
        *,
        session: Session | None = None,
        timeout: float = inf,  # noqa: ASYNC109
    ) -> Any:
        """Execute `operation`, or open its cursor, as the API does; by default a ping.

        `timeout` is timeoutMS in seconds; `deadline` takes its place and that of the enclosing cancel scope.
        """
        core = self.core
        core.enter()
        operation = operation or _PING
        call = Call(session, deadline or Deadline(core.now() + timeout, core.scope_deadline(), timeout))
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
        for recorder in (self.recorder, self.log, self.pool_log):
            recorder.clear()

    async def select(
        self,
        selector: Selector,
        *,
        limit: float = 30.0,
        deadline: Deadline = NO_DEADLINE,
        avoid: Collection[Address] = (),
    ) -> str:
        """The host of the selected server."""
        server = await self.core.topology.select(selector, deadline, avoid, self.now + limit)
        return server.address[0]

    @property
    def bucket(self) -> RetryBudget:
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

    def server(self, host: str = "a") -> Server:
        """The driver's server object for a host."""
        (found,) = (server for server in self.core.topology.servers if server.address[0] == host)
        return found

    def description(self, host: str = "a") -> ServerDescription:
        return self.server(host).description

    def types(self) -> dict[str, str]:
        """The servers' types by host."""
        return {server.address[0]: server.description.server_type_name for server in self.core.topology.servers}

    @property
    def now(self) -> float:
        return self.core.now()


@asynccontextmanager
async def driver(
    deployment: ScriptedDeployment,
    *,
    world: Mapping[str, Any] | None = None,
    connect: bool = True,
    **options: Any,
) -> AsyncIterator[Driver]:
    """A started `Driver`, with a connection to the primary unless `connect` is false.

    At the end it is closed, and its deployment must have no open connection.
    """
    client = Driver(deployment, world=world, **options)
    client.core.enter()
    try:
        if connect:
            await client.connect()
        yield client
    finally:
        await client.core.close()
        await deployment.close()
    remains = {server.address: len(server.open_connections) for server in deployment.servers.values()}
    assert not any(remains.values()), f"connections that were not closed: {remains}"


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


@asynccontextmanager
async def one_server(
    answers: Mapping[str, Any] | None = None, *, latency: float = 0.0, **options: Any
) -> AsyncIterator[tuple[Driver, ScriptedServer]]:
    """A driver of a replica set with one member, and that member.

    Args:
        answers: For commands by name, one answer or a list.
        latency: Seconds that handshakes and checks take.
        **options: Of `driver`.
    """
    deployment = replica_set()
    server = deployment["a:1"]
    for name, given in (answers or {}).items():
        server.on(name, *(given if isinstance(given, list) else [given]))
    if latency:
        hello_delay(deployment, "a:1", latency)
    async with driver(deployment, **options) as client:
        yield client, server


def limits(server: ScriptedServer, name: str) -> list[int | None]:
    """The maxTimeMS of each command of this name that arrived."""
    return [command.get("maxTimeMS") for command in server.commands(name)]


def answering(name: str, *answers: Answer, **arguments: Any) -> ScriptedDeployment:
    """A replica set whose primary gives these answers to a command; the last one repeats."""
    deployment = replica_set(**arguments)
    deployment["a:1"].on(name, *answers)
    return deployment


def steps_down(deployment: ScriptedDeployment, new_primary: str | None, answer: Answer) -> Callable[[Any], Answer]:
    """Give `answer` while another member becomes the primary."""

    def step_down(_: Any) -> Answer:
        deployment.step_down(new_primary)
        return answer

    return step_down
