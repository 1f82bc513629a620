"""Pure: the rules of a client's pools, server sessions, tokens, and of the times that its commands carry.

Each class has the rules about one subject. It asks nothing of the driver but its present state.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass, field
from math import inf
from typing import TYPE_CHECKING, Any, Final, Protocol

from motorlite._connection.handshake import Purpose
from motorlite._operations.contract import TimeLimit
from motorlite._pool.state import Phase
from tests.simulation.running import is_end_of_transaction

if TYPE_CHECKING:
    from collections.abc import Collection

    from bson.timestamp import Timestamp

    from motorlite._admission.pool_queue import Request as Waiting
    from motorlite._base.values import Address, Document
    from motorlite._client.core import Core
    from motorlite._connection.connection import Connection
    from motorlite._pool.state import PoolState
    from motorlite._sessions.session import ServerSession, Session
    from motorlite._topology.topology import Server
    from motorlite.retry import RetryBudget
    from tests.simulation.running import Running
    from tests.simulation.wire import Request, Wire

# Milliseconds by which maxTimeMS may exceed the rest of a cancel scope, as the driver documents, rounding included.
_SCOPE_MARGIN: Final = 6
# A monitor has one connection, and a second one for round-trip times.
_OF_MONITOR: Final = 2
# Commands that clean up: they may use a session beside its own operations.
_CLEANING: Final = frozenset({"killCursors", "abortTransaction", "endSessions", "killOp"})


class Watch(Protocol):
    """What the rules share: the client, its bytes, its operations, and where violations go."""

    core: Core
    wire: Wire

    @property
    def running(self) -> Collection[Running]: ...
    def report(self, invariant: str, message: str) -> None: ...


@dataclass(slots=True, eq=False)
class Pools:
    """Each connection is in one place and has one owner, the limits are kept, and no wake-up is lost."""

    watch: Watch
    # Requests that may still wait for a connection, with their pool.
    waiting: dict[Waiting, PoolState] = field(default_factory=dict)
    # How many connections and requests each pool had in each place when it was last right.
    _right: dict[PoolState, tuple[object, ...]] = field(default_factory=dict)

    def step(self) -> None:
        """Check the state of each pool that has taken or given something."""
        for server in self.watch.core.topology.servers:
            state = server.pool.state
            limit, queue = state.limit, state.queue
            seen = (
                *(len(state.idle), len(state.in_use), len(state.pending), len(state.connecting)),
                *(state.phase, queue.count, len(queue)),
                None if limit is None else (limit.value, state.running),
            )
            if self._right.get(state) != seen:
                self._look(state)
                self._right[state] = seen

    def _look(self, state: PoolState) -> None:
        idle, in_use, pending, connecting = state.idle, state.in_use, state.pending, state.connecting
        options, where, report = state._options, state.address, self.watch.report
        placed = len(idle) + len(in_use) + len(pending)
        if placed and len({*idle, *in_use, *pending}) != placed:
            report("connections", f"a connection of the pool of {where} is in two places")
        total = placed + len(connecting)
        if state.total != total or (options.max_size and total > options.max_size):
            report("connections", f"the pool of {where} has {total} connections, of at most {options.max_size}")
        if len(connecting) > options.max_connecting:
            report("connections", f"{len(connecting)} are being made to {where}, of at most {options.max_connecting}")
        waits = state.queue.count
        if waits != len(state.queue):
            report("waiters", f"{waits} requests wait at {where} by the count, {len(state.queue)} by the queue")
        if waits and state.may_use():
            if state.phase is not Phase.READY:
                report("waiters", f"{waits} requests wait at {where}, whose pool is {state.phase.value}")
            elif idle:
                report("waiters", f"{waits} requests wait at {where}, although {len(idle)} connections are idle")
            elif not connecting and (not options.max_size or total < options.max_size):
                report("waiters", f"{waits} requests wait at {where}, which has room, and no connection is being made")

    def settle(self) -> None:
        """Check owners and sockets, when nothing is on its way from one owner to the next."""
        core = self.watch.core
        held: Counter[Address] = Counter()
        owners = [one for operation in self.watch.running if (one := operation.current) is not None]
        connections = [one.attempt.connection for one in owners if one.attempt.connection is not None]
        if len(set(connections)) != len(connections):
            self.watch.report("connections", "two operations have the same connection")
        attempts = Counter(one.attempt.server for one in owners)
        for server in (*core.topology.servers, *core.topology._left):
            self._settle(server, set(connections), attempts[server])
            held[server.address] += server.pool.state.total
        links = self.watch.wire.open_links()
        for link in links:
            if link.is_spoiled and not link.owed:
                self.watch.report("replies", f"a connection to {link.address} that got the reply to no request is open")
        used = Counter(link.address for link in links if link.is_used)
        for address, count in Counter(link.address for link in links).items():
            if count > held[address] + _OF_MONITOR:
                mine = f"{held[address]} in its pool"
                self.watch.report("connections", f"{count} connections to {address} are open, with {mine}")
            if used[address] > held[address]:
                self.watch.report("connections", f"{used[address]} connections to {address} are in use by no pool")
        for request, state in list(self.waiting.items()):
            if not _waits(request) or state.phase is Phase.CLOSED:
                del self.waiting[request]
            elif all(other is not request for other in state.queue):
                self.watch.report("waiters", f"a request that waits at {state.address} is not in its queue")

    def _settle(self, server: Server, owned: set[Connection], attempts: int) -> None:
        state, report = server.pool.state, self.watch.report
        for connection in state.in_use:
            if connection not in owned and connection.purpose is Purpose.OTHER:
                report("connections", f"connection {connection.id} to {server.address} is in use by no operation")
        for connection in state.idle:
            if connection.owed is not None:
                report("connections", f"idle connection {connection.id} to {server.address} owes a reply")
            if state.phase is not Phase.READY or connection.generation != state.generation_for(connection.service_id):
                report("connections", f"idle connection {connection.id} to {server.address} is stale")
        if server.operation_count != attempts:
            report("connections", f"{server.address} counts {server.operation_count} attempts, of {attempts}")

    def closed(self) -> None:
        """Check that the pools are empty."""
        for server in (*self.watch.core.topology.servers, *self.watch.core.topology._left):
            if server.pool.state.total or server.pool.state.queue.count:
                self.watch.report("nothing left", f"the pool of {server.address} is not empty after the end")


def _waits(request: Waiting) -> bool:
    waiter: Any = request.waiter
    return not waiter._future.done()


@dataclass(slots=True, eq=False)
class Number:
    """What was sent with one transaction number of a session."""

    is_transaction: bool
    # The retryable write, or the command that began the transaction; None: neither was seen.
    content: bytes | None = None
    has_continued: bool = False


@dataclass(slots=True, eq=False)
class Sessions:
    """A server session serves one operation at a time, and never again after its fate is unknown.

    Sessions are known by their ids, as the server knows them.
    """

    watch: Watch
    # The number of the time that each session in use was handed out.
    leased: dict[bytes, int] = field(default_factory=dict)
    leases: int = 0
    free: set[bytes] = field(default_factory=set)
    # A request with this session has lost its connection, so the server may still work on it.
    spoiled: set[bytes] = field(default_factory=set)
    # Requests without a reply so far, by session.
    open: dict[bytes, list[Request]] = field(default_factory=dict)
    # The transaction numbers of each session.
    numbers: dict[bytes, dict[int, Number]] = field(default_factory=dict)
    # The sessions of operations that have just ended, and the names of these.
    returning: list[tuple[bytes, int | None, str]] = field(default_factory=list)

    def acquired(self, session: ServerSession) -> None:
        """Note that the pool has handed out `session`."""
        key = _key(session)
        if key in self.leased:
            self.watch.report("sessions", "a server session was handed out to two owners")
        if key in self.spoiled:
            self.watch.report("sessions", "a server session was handed out again after a network error")
        self.free.discard(key)
        self.leases += 1
        self.leased[key] = self.leases

    def released(self, session: ServerSession, *, is_free: bool) -> None:
        """Note that `session` has come back; `is_free`: the pool keeps it."""
        key, report = _key(session), self.watch.report
        if self.leased.pop(key, None) is None and is_free:
            report("sessions", "a server session came back that was not handed out")
        if not is_free:
            return
        if key in self.free:
            report("sessions", "a server session is in the pool twice")
        if key in self.spoiled:
            report("sessions", "the pool keeps a server session after a network error")
        self.open[key] = still = [request for request in self.open.get(key, ()) if request.is_open]
        if still:
            report("sessions", f"the pool keeps a server session whose {still[0].name} has no reply yet")
        self.free.add(key)

    def step(self) -> None:
        """Check the pool as a whole."""
        free = self.watch.core.sessions._free
        if len(free) != len({id(session) for session in free}):
            self.watch.report("sessions", "a server session is in the pool twice")

    def lost(self, request: Request) -> None:
        """Note that `request` gets no reply."""
        if request.session is not None and request.link.is_used:
            self.spoiled.add(request.session)

    def sent(self, request: Request, operation: Running) -> None:
        """Check the session of a command that is being sent, and its transaction number."""
        key = request.session
        if key is None:
            return
        if key in self.free:
            self.watch.report("sessions", f"{request.name} uses a server session that is in the pool")
        others = [other for other in self.open.get(key, ()) if other.is_open]
        waited_for = {id(one) for other in self.watch.running for try_ in other.tries for one in try_.requests}
        for other in others:
            if id(other) in waited_for and not {request.name, other.name} & _CLEANING:
                self.watch.report("sessions", f"{request.name} and {other.name} use one server session at a time")
        self.open[key] = [*others, request]
        earlier = operation.newest_request
        if earlier is not None and (earlier.session, earlier.number) != (key, request.number):
            self.watch.report("numbers", f"a retry of {request.name} has another session or transaction number")
        if request.number is not None:
            self._numbered(key, request.number, request, is_retry=earlier is not None)

    def _numbered(self, key: bytes, number: int, request: Request, *, is_retry: bool) -> None:
        known, report = self.numbers.setdefault(key, {}), self.watch.report
        is_transaction, is_end = "autocommit" in request.document, is_end_of_transaction(request)
        newest, seen = max(known, default=0), known.get(number)
        if number < newest and request.name not in _CLEANING:
            report("numbers", f"{request.name} has number {number}, after {newest}")
        if seen is None:
            if is_transaction and not is_end and not request.document.get("startTransaction"):
                report("numbers", f"{request.name} continues a transaction that has not begun")
            known[number] = Number(is_transaction, request.content())
            return
        if is_transaction is not seen.is_transaction:
            report("numbers", f"{request.name} has the number of a transaction, or of a write before it")
        elif is_transaction and request.document.get("startTransaction"):
            if seen.has_continued or not is_retry:
                report("numbers", f"{request.name} begins a transaction with the number of another")
        elif is_transaction:
            seen.has_continued = True
        elif not is_retry or request.content() != seen.content:
            report("numbers", f"{request.name} has the transaction number of another command")

    def finished(self, operation: Running) -> None:
        """Note the end of an operation, which soon returns a session of its own."""
        session = operation.run.server_session
        if operation.run.call.session is None and session is not None and not operation.run.operation.creates_cursor:
            key = _key(session)
            self.returning.append((key, self.leased.get(key), operation.run.operation.name))

    def settle(self) -> None:
        """Check that operations have returned their sessions."""
        for key, lease, name in self.returning:
            if lease is not None and self.leased.get(key) == lease:
                self.watch.report("sessions", f"{name} has ended, and its server session has not come back")
        self.returning.clear()


def _key(session: ServerSession) -> bytes:
    return bytes(session.lsid["id"])


@dataclass(slots=True, eq=False)
class Tokens:
    """The budget changes by whole steps of the specification, each of which has its reason."""

    watch: Watch
    _tenths: int | None = None
    # The commits that have failed, each the last operation of its task so far: `with_transaction` may commit again.
    _commits: dict[asyncio.Task[Any] | None, Running] = field(default_factory=dict)
    # Those for whose repetition a token was taken.
    _paid: set[Running] = field(default_factory=set)
    # The repetitions, each the newest operation of its task: the last one of a series returns its token.
    _repeated: dict[asyncio.Task[Any] | None, Running] = field(default_factory=dict)

    def step(self) -> None:
        """Check the level against the changes so far."""
        bucket = self.watch.core._bucket
        if bucket is None:
            return
        tenths, report = bucket._tenths, self.watch.report
        if not 0 <= tenths <= bucket._capacity:
            report("tokens", f"the budget is at {bucket.tokens}, of {bucket.capacity}")
        elif self._tenths is None:
            self._tenths = tenths
        elif tenths != self._tenths:
            report("tokens", f"the budget is at {tenths / 10}, and its changes add up to {self._tenths / 10}")
        elif bucket.is_full and tenths != bucket._capacity:
            report("tokens", f"the budget counts as full with {bucket.tokens} tokens")

    def changed(self, bucket: RetryBudget, tenths: int) -> None:
        """Note a change that a method of the budget stands for."""
        if self._tenths is None:
            self._tenths = bucket._capacity
        self._tenths = min(bucket._capacity, self._tenths + tenths)

    def taken(self, operation: Running | None) -> None:
        """Note that a token was taken for the next attempt of `operation`, or to commit again."""
        commit = self._commits.get(asyncio.current_task()) if operation is None else None
        if commit is not None and commit not in self._paid:
            self._paid.add(commit)
            self._repeated.pop(asyncio.current_task(), None)
        elif operation is None or not operation.tries or operation.tries[-1].error is None:
            self.watch.report("tokens", "a token was taken without a failed attempt")
        else:
            operation.tries[-1].takes += 1

    def begun(self, operation: Running) -> None:
        """Note a new operation of the current task: if a token was taken for another commit, it must be that."""
        task = asyncio.current_task()
        self._close_series(task)
        commit = self._commits.pop(task, None)
        if commit in self._paid:
            self._paid.discard(commit)
            self._repeated[task] = operation
            if operation.run.operation.name != "commitTransaction":
                self.watch.report("tokens", "with_transaction has kept the token of a commit that was not made")

    def _close_series(self, task: asyncio.Task[Any] | None) -> None:
        """Check that the last of several commits of `with_transaction` has returned its token if it succeeded."""
        last = self._repeated.pop(task, None)
        if last is not None and last.has_succeeded and last.reply and "writeConcernError" not in last.reply:
            self.watch.report("tokens", "with_transaction has kept the token of a commit that succeeded")

    def given(self, operation: Running | None, why: str) -> None:
        """Check the reason of a deposit."""
        newest = operation.tries[-1] if operation is not None and operation.tries else None
        commit = self._commits.get(asyncio.current_task()) if operation is None else None
        if commit in self._paid and why == "not made":
            self._paid.discard(commit)
            return
        last = self._repeated.pop(asyncio.current_task(), None) if operation is None else None
        if last is not None and why == "not made":
            if not last.has_succeeded and last.tries and last.tries[-1].is_overload:
                self.watch.report("tokens", "with_transaction has returned a token after an overload error")
            return
        if operation is None or newest is None:
            self.watch.report("tokens", f"a deposit ({why}) without an operation")
            return
        has_failed, is_retry = newest.error is not None, len(operation.tries) > 1
        if why == "not made":
            if newest.takes != 1:
                self.watch.report("tokens", f"{newest.takes} tokens were taken for a retry that gives one back")
            newest.takes = 0
        elif why == "failed otherwise":
            if not (has_failed and is_retry) or newest.is_overload:
                self.watch.report("tokens", "a token came back that no retry without overload has earned")
        else:
            operation.successes += 1
            if has_failed or operation.successes > 1 or (why == "retry succeeded") > is_retry:
                self.watch.report("tokens", f"a deposit ({why}) without such a success")

    def finished(self, operation: Running, reply: Document | None, *, has_succeeded: bool) -> None:
        """Check that nothing is owed in either direction."""
        bucket, name = self.watch.core._bucket, operation.run.operation.name
        if name == "commitTransaction" and (not has_succeeded or (reply and "writeConcernError" in reply)):
            self._commits[asyncio.current_task()] = operation
        if bucket is None or not operation.tries:
            return
        if operation.tries[-1].takes:
            self.watch.report("tokens", f"{name} has kept the token of a retry that was not made")
        if has_succeeded and not operation.successes and not bucket.is_full and operation.tries[-1].error is None:
            self.watch.report("tokens", f"the success of {name} brought no token")

    def settle(self) -> None:
        """Check the tasks that have ended after a commit that failed."""
        for task in [task for task in self._commits if task is not None and task.done()]:
            if self._commits.pop(task) in self._paid:
                self.watch.report("tokens", "with_transaction has kept the token of a commit that was not made")
        for task in [task for task in self._repeated if task is not None and task.done()]:
            self._close_series(task)


@dataclass(slots=True, eq=False)
class Times:
    """maxTimeMS is at most what remains, and $clusterTime at least what was learnt."""

    watch: Watch
    _known: Timestamp | None = None
    # Replies of this moment; the driver has read them when it is quiet again.
    _arrived: list[Request] = field(default_factory=list)
    # The newest operationTime of each causally consistent session, and the sessions that sent what has arrived.
    _operation_times: dict[Session, Timestamp] = field(default_factory=dict)
    _causal: dict[Request, Session] = field(default_factory=dict)

    def replied(self, request: Request) -> None:
        """Note a reply, which the driver is about to read."""
        self._arrived.append(request)

    def settle(self) -> None:
        """Learn from the replies of the past moment, unless their connection was closed before they were read."""
        for request in self._arrived:
            reply = request.reply
            if reply is None or not request.link.is_open or request.link.is_cut:
                continue
            time = reply.get("$clusterTime", {}).get("clusterTime")
            if time is not None and (self._known is None or time > self._known):
                self._known = time
            session, time = self._causal.pop(request, None), reply.get("operationTime")
            if session is not None and time is not None:
                self._operation_times[session] = max(time, self._operation_times.get(session, time))
        self._arrived.clear()

    def sent(self, request: Request, operation: Running, limit: float) -> None:
        """Check the times of a command. `limit`: the loop time that its caller has set, if the test knows it."""
        time = request.document.get("$clusterTime", {}).get("clusterTime")
        if self._known is not None and (time is not None or request.session is not None):
            if time is None:
                self.watch.report("cluster time", f"{request.name} has none, and {self._known} is known")
            elif time < self._known:
                self.watch.report("cluster time", f"{request.name} has {time}, and {self._known} is known")
        self._follow(request, operation)
        run = operation.run
        milliseconds = request.document.get("maxTimeMS")
        if not isinstance(milliseconds, int | float) or isinstance(milliseconds, bool):
            if run.call.deadline.expires_at != inf and run.operation.time_limit is TimeLimit.SEND:
                self.watch.report("maxTimeMS", f"{request.name} has none, in spite of its timeoutMS")
            return
        # A cancel scope ends the wait of a cursor by itself, and shortens nothing else of it.
        is_shortened = run.operation.time_limit is TimeLimit.SEND and not run.operation.creates_cursor
        for what, until, margin in (
            ("its deadline", run.call.deadline.expires_at, 0),
            ("its caller's limit", limit, 0),
            ("its scope", run.call.deadline.scope_expires_at, _SCOPE_MARGIN),
        ):
            left = (until - request.sent_at) * 1000
            if left > 0 and milliseconds > left + margin and (margin == 0 or is_shortened):
                self.watch.report("maxTimeMS", f"{request.name} has {milliseconds}, and {what} leaves {left:.1f}")

    def _follow(self, request: Request, operation: Running) -> None:
        """Check that a read of a causally consistent session comes after what the session has seen."""
        session = operation.run.call.session
        if session is None or not session.is_causally_consistent:
            return
        self._causal[request] = session
        seen = self._operation_times.get(session)
        if seen is None or not operation.run.operation.supports_after_cluster_time or operation.run.part is not None:
            return
        after = request.document.get("readConcern", {}).get("afterClusterTime")
        if after is None or after < seen:
            self.watch.report("causal consistency", f"{request.name} reads after {after}, and its session saw {seen}")
