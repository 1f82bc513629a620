"""A client's machinery for tests of the API: scripted replies, recorded commands."""

from __future__ import annotations

import uuid
from collections import deque
from collections.abc import Mapping
from contextvars import Context
from itertools import count
from math import inf
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

import anyio.lowlevel
from bson.binary import Binary

from motorlite import AsyncCollection, AsyncMongoClient
from motorlite._base.values import ServerFacts
from motorlite._client.core import Core
from motorlite._client.leftovers import LostCursors, LostTransactions
from motorlite._execution.building import CommandDefaults, remove_older_limits
from motorlite._execution.executor import Executor
from motorlite._execution.reports import Reports
from motorlite._observe.publishing import Publishers
from motorlite._operations.contract import CursorReply, Opened, Operation, TimeLimit
from motorlite._options.options import client_options
from motorlite._sessions.session import Session, SessionPool, State
from motorlite._wire.replies import error_from_reply
from motorlite.errors import InvalidOperation
from motorlite.topology_description import ServerDescription, TopologyDescription

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from motorlite._base.deadline import Deadline
    from motorlite._base.values import Address
    from motorlite._operations.contract import Call
    from motorlite._operations.cursors import LostCursor
    from motorlite._options.options import ClientOptions
    from motorlite.driver_info import DriverInfo
    from motorlite.read_preferences import ServerMode
    from motorlite.stats import ClientStats

ADDRESS = ("db.example", 27017)
FACTS = ServerFacts(ADDRESS, max_wire_version=25, session_timeout_minutes=30)


class Sent:
    """One operation as received by the executor."""

    def __init__(self, operation: Operation[Any], call: Call) -> None:
        self.operation = operation
        self.call = call
        self.session: Session | None = call.session
        self.deadline: Deadline = call.deadline
        self.operation_id: int | None = call.operation_id
        made = operation.command(FACTS)
        if call.deadline.is_set:
            remove_older_limits(made.document, operation)
        self.name = made.name
        self.command = made.document
        self.sequences = made.sequences
        self.is_time_limited = operation.time_limit is TimeLimit.SEND


class FakeServer(ServerDescription):
    """A server description."""

    def __init__(self, address: Address, server_type_name: str, max_wire_version: int = 21) -> None:
        self.address = address
        self.server_type_name = server_type_name
        self.is_server_type_known = server_type_name != "Unknown"
        self.max_wire_version = max_wire_version


class FakeTopology(TopologyDescription):
    """A topology description."""

    def __init__(self, topology_type_name: str, *servers: FakeServer) -> None:
        self.topology_type_name = topology_type_name
        self.replica_set_name: str | None = None
        self._servers = {server.address: server for server in servers}

    def server_descriptions(self) -> Mapping[Address, FakeServer]:
        return self._servers

    def has_readable_server(self, read_preference: ServerMode | None = None) -> bool:
        return any(server.server_type_name in ("RSPrimary", "Standalone") for server in self.known_servers)


class FakeExecutor(Executor):
    """Answers operations from `replies`: a reply, an exception, or a function of the `Sent` operation."""

    def __init__(self) -> None:
        self.replies: deque[Any] = deque()
        self.sent: list[Sent] = []
        self.released: list[Session] = []
        self.reports = Reports(None, Publishers())
        self.jitter = lambda: 0.5
        self.bucket = None
        self._now = anyio.current_time
        self.open_transactions = set()

    async def execute(self, operation: Operation[Any], call: Call, *, opens: bool = False) -> Any:
        reply = await self._reply(operation, call)
        return operation.unacknowledged() if reply is None else operation.parse(reply)

    async def open(self, operation: Operation[CursorReply], call: Call) -> Opened:
        reply = await self._reply(operation, call)
        assert reply is not None
        batch = operation.parse(reply)
        implicit = Session(is_implicit=True) if call.session is None and batch.cursor_id else None
        return Opened(batch, ADDRESS, implicit, None)

    async def _reply(self, operation: Operation[Any], call: Call) -> Any:
        transaction = None if call.session is None else call.session.transaction
        if transaction is not None and transaction.is_active:
            transaction.state, transaction.has_begun = State.IN_PROGRESS, True
        elif transaction is not None and operation.ends is not None:
            transaction.commits_sent += 1
        sent = Sent(operation, call)
        self.sent.append(sent)
        await anyio.lowlevel.checkpoint()
        reply = self.replies.popleft() if self.replies else {"ok": 1}
        if callable(reply):
            reply = reply(sent)
        if isinstance(reply, BaseException):
            raise reply
        if not operation.is_acknowledged:
            return None
        if reply.get("ok") != 1:
            raise error_from_reply(reply)
        return reply

    def release(self, session: Session) -> None:
        self.released.append(session)


class FakeCore(Core):
    """A core without servers and background work."""

    executor: FakeExecutor
    topology_description: Any = FakeTopology("Unknown")

    def __init__(self, options: ClientOptions | None = None) -> None:
        self._runtime = None
        self._given = options or client_options()
        self.executor = FakeExecutor()
        self.sessions = SessionPool(lambda: Binary(uuid.uuid4().bytes, 4))
        self.limits = CommandDefaults()
        self.open_cursors = WeakSet()
        self.entered = 0
        self.time = 1000.0
        # The clock advances by this much at every reading, which simulates the duration of computations.
        self.time_per_look = 0.0
        self.checkpoints = 0
        # What is to run in the event loop's next turn.
        self.soon: list[Callable[[], object]] = []
        self.run_soon = self.soon.append
        self.scope = inf
        self._is_closed = False
        # The argument of `close`.
        self.grace: float | None = None
        self.spawned: list[Callable[[], Awaitable[Any]]] = []
        # Seconds.
        self.paused: list[float] = []
        # The servers that are not available.
        self.lost: set[Address] = set()
        # The deadlines of `connect`.
        self.connected: list[Deadline] = []
        # The topology after `connect`.
        self.discovered: FakeTopology | None = None
        self.driver_infos: list[DriverInfo] = []
        self._operation_ids = count(1)

    def enter(self) -> float:
        if self._is_closed:
            raise InvalidOperation("closed")
        self.entered += 1
        return self.scope

    async def connect(self, deadline: Deadline, wanted: Any = None) -> None:
        self.connected.append(deadline)
        if self.discovered is not None:
            self.topology_description = self.discovered

    def is_known(self, address: Address) -> bool:
        return address not in self.lost

    def backoff(self, retries: int) -> float:
        return 0.1 * 2.0**retries

    async def pause(self, until: float) -> None:
        self.paused.append(until - self.time)
        self.time = until

    async def checkpoint(self) -> None:
        self.checkpoints += 1
        await anyio.lowlevel.checkpoint()

    def now(self) -> float:
        self.time += self.time_per_look
        return self.time

    def scope_deadline(self) -> float:
        return self.scope

    def new_operation_id(self) -> int:
        return next(self._operation_ids)

    def append_metadata(self, info: DriverInfo) -> None:
        self.driver_infos.append(info)

    @property
    def is_over(self) -> bool:
        return False

    def kill_cursor(self, cursor: LostCursor) -> None:
        lost_cursors = LostCursors(self.executor, self._spawn, anyio.sleep, self.now)
        lost_cursors.kill(cursor)

    def release_session(self, session: Session, publish_end: Callable[[], None] | None = None) -> None:
        self._lost_transactions().drop(session, publish_end)

    def abort_transaction(self, session: Session, *, has_failed: bool = False) -> None:
        self._lost_transactions().abort(session, has_failed=has_failed)

    def _lost_transactions(self) -> LostTransactions:
        return LostTransactions(self.executor, self._spawn, anyio.sleep, self.now)

    def _spawn(self, async_fn: Callable[..., Awaitable[Any]], *args: Any, name: str = "work") -> None:
        self.spawned.append(lambda: async_fn(*args))

    async def run_spawned(self) -> None:
        """Run the spawned background work."""
        spawned, self.spawned = self.spawned, []
        for run in spawned:
            await run()

    def take_turns(self) -> int:
        """Let the event loop take turns until nothing is left to run. Return their number."""
        for number in count():
            if not self.soon:
                return number
            functions = [*self.soon]
            self.soon.clear()
            for function in functions:
                Context().run(function)
        raise AssertionError

    async def close(self, grace: float = 5.0) -> None:
        self.grace = grace
        self._is_closed = True

    def stats(self) -> ClientStats:
        raise NotImplementedError

    # --- shorthand ---

    def reply(self, *replies: Any) -> None:
        """Append replies to the script."""
        self.executor.replies.extend(replies)

    @property
    def last(self) -> Sent:
        """The last sent operation."""
        return self.executor.sent[-1]

    @property
    def names(self) -> list[str]:
        """The names of the sent commands."""
        return [sent.name for sent in self.executor.sent]


def fake_client(uri: str = "mongodb://db.example/app", **options: Any) -> tuple[AsyncMongoClient, FakeCore]:
    """A client on top of a FakeCore."""
    client: AsyncMongoClient = AsyncMongoClient(uri, **options)
    core = FakeCore(client.options)
    client._core = core
    return client, core


class _Numbered(int):
    """Counts as a document and equals a number, which keeps tests short."""


Mapping.register(_Numbered)


def batch(documents: list[Any], cursor_id: int = 0, field: str = "firstBatch") -> dict[str, Any]:
    """A reply with a cursor; numbers may stand for documents."""
    found = [_Numbered(document) if isinstance(document, int) else document for document in documents]
    return {"ok": 1, "cursor": {"id": cursor_id, "ns": "app.things", field: found}}


def next_batch(documents: list[Any], cursor_id: int = 0) -> dict[str, Any]:
    """A reply to getMore."""
    return batch(documents, cursor_id, "nextBatch")


Collection = AsyncCollection[Any]
