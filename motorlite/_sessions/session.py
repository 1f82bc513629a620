"""Pure: server sessions, their pool, and the state of a session as the executor sees it.

Driver sessions specification. This module has no randomness and no clock: the caller passes `new_id` and the time.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from math import inf
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

import bson
from bson.int64 import Int64
from bson.timestamp import Timestamp

from motorlite.errors import InvalidOperation

if TYPE_CHECKING:
    from collections.abc import Callable

    from bson.binary import Binary

    from motorlite._base.deadline import Deadline
    from motorlite._base.values import Address, Document
    from motorlite._net.runtime import Waiter
    from motorlite.read_concern import ReadConcern
    from motorlite.read_preferences import ServerMode
    from motorlite.write_concern import WriteConcern

# Seconds. A server session is not used in the last minute of its life (specification, "Algorithm to acquire...").
_LAST_MINUTE = 60.0
# Bytes. Servers send about a hundred: a timestamp, a hash of 20 bytes and a key number.
_LARGEST_CLUSTER_TIME = 1024
# Bytes of that hash, and the exclusive upper bound of a key number.
_HASH = 20
_KEYS = 2**63
# PyMongo's texts, as in all messages about sessions, because programs match on them.
ENDED: Final = "Cannot use ended session"
UNACKNOWLEDGED: Final = "Explicit sessions are incompatible with unacknowledged write concern"
UNSUPPORTED: Final = "Sessions are not supported by this MongoDB deployment"


# The transaction of a session: its states, what its commands carry, and what it is pinned to.
#
# Transactions specification. A session whose `Session.transaction` is None is in the state "no transaction". A new
# `Transaction` begins in `STARTING`; its first command takes it to `IN_PROGRESS`, commit and abort end it.

# Milliseconds that a repeated commit waits for a majority ("writeConcern for commitTransaction attempts").
_WTIMEOUT: Final = 10_000
_ENDED_TWICE: Final = {
    ("commit", "aborted"): "Cannot call commitTransaction after calling abortTransaction",
    ("abort", "committed"): "Cannot call abortTransaction after calling commitTransaction",
    ("abort", "aborted"): "Cannot call abortTransaction twice",
}


class State(Enum):
    """The state of a transaction."""

    # No command of it was sent.
    STARTING = "starting"
    IN_PROGRESS = "in progress"
    COMMITTED = "committed"
    ABORTED = "aborted"


_ACTIVE: Final = (State.STARTING, State.IN_PROGRESS)


class HeldConnection(Protocol):
    """A connection that stays checked out until `release`."""

    def release(self) -> None: ...


class Concerns(NamedTuple):
    """What all commands of one transaction share. Nothing is left to be inherited."""

    read_concern: ReadConcern
    write_concern: WriteConcern
    read_preference: ServerMode
    max_commit_time_ms: int | None = None


@dataclass(slots=True, eq=False, repr=False)
class Transaction:
    """One transaction of a session."""

    concerns: Concerns
    state: State = State.STARTING
    # txnNumber. The first command gets it together with the server session.
    number: int | None = None
    # A command of it was sent, so there is something to commit or abort.
    has_begun: bool = False
    # How often the command that commits it was about to be sent, and how often no server began to carry it out.
    commits_sent: int = 0
    commits_rejected: int = 0
    # An operation of it is running. A second one is refused: the server executes them one after another.
    is_busy: bool = False
    # Called when the running operation has ended, if the transaction was left and must be aborted.
    when_idle: Callable[[], None] | None = None
    # It may have been committed: an attempt succeeded, or failed otherwise than by the rejection of an overloaded
    # server. The next one waits for a majority.
    needs_majority: bool = False
    # An attempt to commit it was sent, and no reply rules out that it succeeded.
    may_be_committed: bool = False
    # Its first command was sent, and has no reply: on another connection, an abort may reach the server before it.
    may_begin: bool = False
    # The mongos that its first command was sent to.
    first_address: Address | None = None
    # The mongos that has it, in a sharded cluster.
    address: Address | None = None
    # The connection to the service that has it, behind a load balancer.
    connection: HeldConnection | None = None
    # The newest one, for the commands that end it ("recoveryToken field").
    recovery_token: Mapping[str, Any] | None = None

    @property
    def is_active(self) -> bool:
        """Whether operations of the session belong to it."""
        return self.state in _ACTIVE

    @property
    def must_abort(self) -> bool:
        """Whether only an abort ends it on the server, and can be sent.

        It was not committed, or no server took the commands that commit it.
        """
        is_open = self.is_active or (self.state is State.COMMITTED and self.commits_sent == self.commits_rejected)
        return is_open and self.has_begun and not self.is_busy

    def unpin(self) -> HeldConnection | None:
        """Forget what it is pinned to. The caller releases the connection, if there is one."""
        connection, self.connection, self.address = self.connection, None, None
        return connection

    # --- the ends ---

    def commit(self) -> bool:
        """Commit, or commit again. Returns whether a command must be sent.

        Raises:
            InvalidOperation: It was aborted, or an operation of it is running.
        """
        self.check_end("commit")
        self.state = State.COMMITTED
        return self.has_begun

    def abort(self) -> bool:
        """Abort. Returns whether a command must be sent.

        Raises:
            InvalidOperation: It has ended, or an operation of it is running.
        """
        self.check_end("abort")
        self.state = State.ABORTED
        return self.has_begun

    def check_end(self, end: str) -> None:
        """Check that "commit" or "abort" is possible now.

        Raises:
            InvalidOperation: It is not.
        """
        message = _ENDED_TWICE.get((end, self.state.value))
        if message is not None:
            raise InvalidOperation(message)
        self.check_idle()

    def check_idle(self) -> None:
        """Check that no operation of the transaction is running.

        Raises:
            InvalidOperation: One is.
        """
        if self.is_busy:
            raise InvalidOperation(
                "another operation of the transaction is still running: the operations of a transaction must run one "
                "after another"
            )

    # --- fields of its commands ---

    def join(self, document: Document) -> None:
        """Append the fields that all of its commands have."""
        assert self.number is not None
        document["txnNumber"] = Int64(self.number)
        document["autocommit"] = False

    def start(self, document: Document) -> None:
        """Append the fields of its first command ("Constructing the first command within a transaction")."""
        document["startTransaction"] = True
        concern = self.concerns.read_concern
        if not concern.is_server_default:
            document["readConcern"] = dict(concern.document)

    def end(self, document: Document) -> None:
        """Append the fields of the command that ends it."""
        concern = dict(self.concerns.write_concern.document)
        if self.state is State.COMMITTED and self.needs_majority:
            # The primary that committed it may have failed since.
            concern["w"] = "majority"
            concern.setdefault("wtimeout", _WTIMEOUT)
        if concern:
            document["writeConcern"] = concern
        if self.recovery_token is not None:
            document["recoveryToken"] = self.recovery_token


# The sessions.


class ServerSession:
    """One server session: its id, its transaction number, and when it was last used."""

    __slots__ = ("encoded", "is_dirty", "last_use", "lsid", "transaction_number")

    def __init__(self, identifier: Binary, now: float) -> None:
        self.lsid: dict[str, Any] = {"id": identifier}
        # The field "lsid" of its commands, as bytes: without the length of a document before and the zero behind it.
        self.encoded: bytes = bson.encode({"lsid": self.lsid})[4:-1]
        # Incremented for each retryable write; kept when the session returns to the pool.
        self.transaction_number: int = 0
        # Loop time of the last command, or of the session's creation.
        self.last_use: float = now
        # Set by a network error or an abandoned reply: the server may still be using the session.
        self.is_dirty: bool = False


@dataclass(slots=True, eq=False, repr=False, kw_only=True)
class Session:
    """The state of an implicit or explicit session that the executor needs."""

    is_implicit: bool
    is_causally_consistent: bool = False
    # All its reads see the data as of `snapshot_time`; its first read sets that if it is None.
    is_snapshot: bool = False
    snapshot_time: Timestamp | None = None
    # Taken from the pool at the first command, after check-out, so that waiting operations hold no session.
    server_session: ServerSession | None = None
    cluster_time: Mapping[str, Any] | None = None
    operation_time: Timestamp | None = None
    # None: the session is in the state "no transaction".
    transaction: Transaction | None = None
    # Transactions that were started since the last one that has a number. Each takes one, even if it stays empty.
    unnumbered: int = 0
    # The time limit of the `with_transaction` call around its operations, if that has one.
    deadline: Deadline | None = None
    # The id of the published transaction, or `with_transaction` call, that its operations are part of.
    enclosing: int | None = None
    # Operations that wait for the one with the newest transaction number to end; None if no operation has one.
    # Not a dict, whose first item is slow to find after many removals.
    waiting: OrderedDict[Waiter, None] | None = None
    has_ended: bool = False

    # --- turns of operations with transaction numbers ---

    def begin_turn(self) -> bool:
        """Begin the turn of an operation. False if it is the turn of another: then it must join the queue."""
        if self.waiting is not None:
            return False
        self.waiting = OrderedDict()
        return True

    def join_queue(self, operation: Waiter) -> None:
        """Let `operation` wait behind the others."""
        assert self.waiting is not None
        self.waiting[operation] = None

    def leave_queue(self, operation: Waiter) -> None:
        """Forget `operation`, which has given up. It may have its turn already."""
        if self.waiting is not None:
            self.waiting.pop(operation, None)

    def end_turn(self) -> None:
        """End the turn of an operation, and begin that of the next one that still waits."""
        waiting = self.waiting
        while waiting:
            if waiting.popitem(last=False)[0].offer(True):
                return
        self.waiting = None

    # --- transactions ---

    @property
    def in_transaction(self) -> bool:
        """Whether its operations belong to a transaction."""
        return self.transaction is not None and self.transaction.is_active

    @property
    def is_idle(self) -> bool:
        """Whether a transaction is in progress, and no operation of it is running."""
        transaction = self.transaction
        return transaction is not None and transaction.state is State.IN_PROGRESS and not transaction.is_busy

    def start_transaction(self, concerns: Concerns) -> HeldConnection | None:
        """Begin a transaction. Returns the connection that the previous one held, for the caller to release.

        Raises:
            InvalidOperation: One is in progress, or the session reads from a snapshot.
        """
        if self.is_snapshot:
            raise InvalidOperation("Transactions are not supported in snapshot sessions")
        if self.in_transaction:
            raise InvalidOperation("Transaction already in progress")
        held = self.forget_transaction()
        self.transaction = Transaction(concerns)
        self.unnumbered += 1
        return held

    def number(self, transaction: Transaction, server_session: ServerSession) -> None:
        """Give `transaction` its number, with its first command."""
        if transaction.number is None:
            server_session.transaction_number += self.unnumbered
            self.unnumbered = 0
            transaction.number = server_session.transaction_number

    def forget_transaction(self) -> HeldConnection | None:
        """Return to "no transaction" after one has ended. Returns its connection, for the caller to release.

        Raises:
            InvalidOperation: It is being committed or aborted right now.
        """
        transaction = self.transaction
        if transaction is None:
            return None
        transaction.check_idle()
        self.transaction = None
        return transaction.unpin()

    def started_transaction(self) -> Transaction:
        """Return the transaction to commit or to abort.

        Raises:
            InvalidOperation: There is none.
        """
        if self.transaction is None:
            raise InvalidOperation("No transaction started")
        return self.transaction

    @property
    def must_abort(self) -> bool:
        """Whether an abort must end its transaction on the server."""
        return self.transaction is not None and self.transaction.must_abort

    def without_transaction(self) -> Session:
        """Move the transaction to another session, so that it can be aborted in the background.

        Both use the same server session, at the same time perhaps, so it is not used again.
        """
        moved, other = self.transaction, Session(is_implicit=False)
        assert moved is not None
        if self.server_session is not None:  # else no command of it was sent
            self.server_session.is_dirty = True
        other.transaction, other.server_session = moved, self.server_session
        self.transaction = Transaction(moved.concerns)
        self.transaction.state = moved.state = State.ABORTED
        return other

    def end(self) -> HeldConnection | None:
        """Forget the transaction for good. Returns its connection, for the caller to release.

        While an operation of the transaction is running, its part in the transaction releases the connection instead.
        """
        self.has_ended = True
        if self.waiting is not None and self.server_session is not None:
            self.server_session.is_dirty = True  # a write still uses it
        transaction, self.transaction = self.transaction, None
        if transaction is None:
            return None
        if transaction.is_busy:
            if self.server_session is not None:
                self.server_session.is_dirty = True
            return None
        return transaction.unpin()

    # --- times ---

    def advance(self, reply: Mapping[str, Any]) -> None:
        """Update operationTime, $clusterTime and the snapshot from a reply (causal consistency, snapshot reads)."""
        operation_time = reply.get("operationTime")
        if isinstance(operation_time, Timestamp) and (
            self.operation_time is None or operation_time > self.operation_time
        ):
            self.operation_time = operation_time
        self.cluster_time = newest_cluster_time(self.cluster_time, reply.get("$clusterTime"))
        if self.is_snapshot and self.snapshot_time is None:
            cursor = reply.get("cursor")
            found = (cursor if isinstance(cursor, Mapping) else reply).get("atClusterTime")
            if isinstance(found, Timestamp):
                self.snapshot_time = found


def newest_cluster_time(
    one: Mapping[str, Any] | None,
    other: Mapping[str, Any] | None,
) -> Mapping[str, Any] | None:
    """Return the greater of two $clusterTime documents. An `other` of any other shape is ignored."""
    if not isinstance(other, Mapping) or not isinstance(other.get("clusterTime"), Timestamp):
        return one
    is_newer = one is None or other["clusterTime"] > one["clusterTime"]
    return other if is_newer and _can_be_sent(other) else one


def _can_be_sent(cluster_time: Mapping[str, Any]) -> bool:
    """Whether `cluster_time` is as small as servers make it: all commands to all servers will carry it."""
    signature = cluster_time.get("signature")
    if len(cluster_time) == 2 and type(signature) is dict and len(signature) == 2:
        # The fast path: almost every reply of a busy replica set has one, and encoding it takes ten times as long.
        digest, key = signature.get("hash"), signature.get("keyId")
        if type(digest) is bytes and len(digest) == _HASH and isinstance(key, int) and abs(key) < _KEYS:
            return True
    try:
        return len(bson.encode(cluster_time)) <= _LARGEST_CLUSTER_TIME
    except Exception:  # values from a user's own decoder, or nested too deeply
        return False


class SessionPool:
    """Server sessions for reuse, last in first out (specification, "Server Session Pool")."""

    __slots__ = ("_free", "_lifetime", "_new_id", "_timeout_minutes")

    def __init__(self, new_id: Callable[[], Binary]) -> None:
        self._new_id = new_id
        self._free: deque[ServerSession] = deque()
        # The server's timeout in minutes, and for how many seconds without use a session is good for another command.
        self._timeout_minutes: int | None = None
        self._lifetime = inf

    def __len__(self) -> int:
        return len(self._free)

    def acquire(self, now: float, timeout_minutes: int | None) -> ServerSession:
        """Return a session that will not time out on the server within the next minute, a new one if necessary."""
        if timeout_minutes is not self._timeout_minutes:
            self._learn(timeout_minutes)
        free = self._free
        while free:
            session = free.pop()
            if now - session.last_use < self._lifetime:
                return session
        return ServerSession(self._new_id(), now)

    def release(self, session: ServerSession, now: float, timeout_minutes: int | None) -> None:
        """Return a session to the pool, unless it is dirty or about to time out."""
        if timeout_minutes is not self._timeout_minutes:
            self._learn(timeout_minutes)
        free, lifetime = self._free, self._lifetime
        while free and now - free[0].last_use >= lifetime:
            free.popleft()
        if now - session.last_use < lifetime and not session.is_dirty:
            free.append(session)

    def _learn(self, timeout_minutes: int | None) -> None:
        self._timeout_minutes = timeout_minutes
        self._lifetime = inf if timeout_minutes is None else timeout_minutes * 60 - _LAST_MINUTE

    def drain(self) -> list[dict[str, Any]]:
        """Empty the pool and return its session ids, for endSessions."""
        ids = [session.lsid for session in self._free]
        self._free.clear()
        return ids
