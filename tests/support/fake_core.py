"""A client's machinery for tests of the API: replies come from a script, commands are recorded."""

from __future__ import annotations

import uuid
from collections import deque
from collections.abc import Mapping
from itertools import count
from math import inf
from typing import TYPE_CHECKING, Any

import anyio.lowlevel
from bson.binary import Binary

from motorlite import AsyncMongoClient
from motorlite._api.lost_cursors import LostCursors
from motorlite._execution.operation import CursorReply, Operation, TimeLimit
from motorlite._execution.session import Session, SessionPool
from motorlite.errors import InvalidOperation, error_from_reply
from motorlite.options import client_options
from motorlite.values import ServerFacts

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from motorlite._execution.lost_cursor import LostCursor
    from motorlite.deadline import Deadline
    from motorlite.driver_info import DriverInfo
    from motorlite.options import ClientOptions
    from motorlite.stats import ClientStats
    from motorlite.values import Address

ADDRESS = ("db.example", 27017)
FACTS = ServerFacts(ADDRESS, max_wire_version=21, session_timeout_minutes=30)


class Sent:
    """One operation as it reached the executor."""

    def __init__(
        self, operation: Operation, session: Session | None, deadline: Deadline, operation_id: int | None
    ) -> None:
        self.operation = operation
        self.session = session
        self.deadline = deadline
        self.operation_id = operation_id
        made = operation.command(FACTS)
        self.name = made.name
        self.command = made.document
        self.sequences = made.sequences
        self.is_time_limited = operation.time_limit is TimeLimit.SEND


class FakeServer:
    """A server description."""

    def __init__(self, address: Address, server_type_name: str, max_wire_version: int = 21) -> None:
        self.address = address
        self.server_type_name = server_type_name
        self.max_wire_version = max_wire_version


class FakeTopology:
    """A topology description."""

    def __init__(self, topology_type_name: str, *servers: FakeServer) -> None:
        self.topology_type_name = topology_type_name
        self.replica_set_name: str | None = None
        self.known_servers = list(servers)

    def server_descriptions(self) -> Mapping[Address, FakeServer]:
        return {server.address: server for server in self.known_servers}

    def has_writable_server(self) -> bool:
        return any(server.server_type_name in ("RSPrimary", "Standalone") for server in self.known_servers)

    def has_readable_server(self) -> bool:
        return self.has_writable_server()


class FakeExecutor:
    """Answers operations from `replies`: a reply, an exception, or a function of what was sent."""

    def __init__(self) -> None:
        self.replies: deque[Any] = deque()
        self.sent: list[Sent] = []
        self.released: list[Session] = []

    async def execute(
        self,
        operation: Operation,
        session: Session | None,
        deadline: Deadline,
        operation_id: int | None = None,
    ) -> Any:
        sent = Sent(operation, session, deadline, operation_id)
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
        value = operation.parse(reply)
        if operation.creates_cursor:
            assert isinstance(value, CursorReply)
            value.address = ADDRESS
            if session is None and value.cursor_id:
                value.session = Session(is_implicit=True)
        return value

    def release(self, session: Session) -> None:
        self.released.append(session)


class FakeCore:
    """Implements `CoreLike`."""

    def __init__(self, options: ClientOptions | None = None) -> None:
        self.options = options or client_options()
        self.executor = FakeExecutor()
        self.sessions = SessionPool(lambda: Binary(uuid.uuid4().bytes, 4))
        self.topology_description = FakeTopology("Unknown")
        self.entered = 0
        self.time = 1000.0
        # By how much the clock advances whenever it is looked at: how long computations seem to take.
        self.time_per_look = 0.0
        self.checkpoints = 0
        self.scope = inf
        self.is_closed = False
        # What `close` was called with.
        self.grace: float | None = None
        self.spawned: list[Callable[[], Awaitable[Any]]] = []
        # The deadlines of `connect`.
        self.connected: list[Deadline] = []
        # What is known after it.
        self.discovered: FakeTopology | None = None
        self.driver_infos: list[DriverInfo] = []
        self._operation_ids = count(1)

    def enter(self) -> None:
        if self.is_closed:
            raise InvalidOperation("closed")
        self.entered += 1

    async def connect(self, deadline: Deadline) -> None:
        self.connected.append(deadline)
        if self.discovered is not None:
            self.topology_description = self.discovered

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

    def kill_cursor(self, cursor: LostCursor) -> None:
        lost_cursors = LostCursors(self.executor, spawn=self._spawn, sleep=anyio.sleep, now=self.now)
        lost_cursors.kill(cursor)

    def release_session(self, session: Session) -> None:
        self.executor.release(session)

    def _spawn(self, async_fn: Callable[..., Awaitable[Any]], *args: Any) -> None:
        self.spawned.append(lambda: async_fn(*args))

    async def run_spawned(self) -> None:
        """Run what was left to the background."""
        spawned, self.spawned = self.spawned, []
        for run in spawned:
            await run()

    async def close(self, grace: float = 5.0) -> None:
        self.grace = grace
        self.is_closed = True

    def stats(self) -> ClientStats:
        raise NotImplementedError

    # --- shorthand ---

    def reply(self, *replies: Any) -> None:
        """Put replies at the end of the script."""
        self.executor.replies.extend(replies)

    @property
    def last(self) -> Sent:
        """What was sent last."""
        return self.executor.sent[-1]

    @property
    def names(self) -> list[str]:
        """The commands that were sent."""
        return [sent.name for sent in self.executor.sent]


def fake_client(uri: str = "mongodb://db.example/app", **options: Any) -> tuple[AsyncMongoClient, FakeCore]:
    """A client on top of a FakeCore."""
    client: AsyncMongoClient = AsyncMongoClient(uri, **options)
    core = FakeCore(client.options)
    client._core = core
    return client, core


class _Numbered(int):
    """Passes for a document and is equal to a number, which is shorter to write."""


Mapping.register(_Numbered)


def batch(documents: list[Any], cursor_id: int = 0, field: str = "firstBatch") -> dict[str, Any]:
    """A reply with a cursor; numbers may stand for documents."""
    found = [_Numbered(document) if isinstance(document, int) else document for document in documents]
    return {"ok": 1, "cursor": {"id": cursor_id, "ns": "app.things", field: found}}


def next_batch(documents: list[Any], cursor_id: int = 0) -> dict[str, Any]:
    """A reply to getMore."""
    return batch(documents, cursor_id, "nextBatch")
