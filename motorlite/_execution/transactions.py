"""Shell: the part that an operation has in its session's transaction (transactions specification)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, cast

from motorlite._base.error_documents import (
    MAX_TIME_MS_EXPIRED,
    REAUTHENTICATION_REQUIRED,
    RETRYABLE,
    RETRYABLE_READ_CODES,
    RETRYABLE_WRITE,
    RETRYABLE_WRITE_CODES,
    SYSTEM_OVERLOADED,
    TRANSIENT_TRANSACTION,
    UNKNOWN_COMMIT_RESULT,
)
from motorlite._base.values import Progress
from motorlite._connection.handshake import Purpose
from motorlite._execution.pins import PinnedConnection
from motorlite._operations.contract import Kind, TransactionEnd
from motorlite._retry.classification import may_have_been_executed, was_rejected
from motorlite._retry.decision import Again
from motorlite._sessions.session import State
from motorlite.errors import (
    AdmissionError,
    AutoReconnect,
    InvalidOperation,
    NotPrimaryError,
    PyMongoError,
    WriteConcernError,
    error_code,
)
from motorlite.read_preferences import ReadPreference

if TYPE_CHECKING:
    from motorlite._base.values import Document
    from motorlite._connection.connection import Connection
    from motorlite._operations.contract import Operation
    from motorlite._retry.decision import Raise
    from motorlite._retry.failure import Failure
    from motorlite._sessions.session import ServerSession, Session, Transaction
    from motorlite._topology.selection import Selector
    from motorlite._topology.topology import Server
    from motorlite.read_preferences import ServerMode


# The rules of operations in transactions: where they read, and which labels their errors get.
#
# Transactions specification, "readPreference", "Error Labels".

_NO_LABELS: Final = frozenset[str]()


def in_transaction(operation: Operation[Any], preference: ServerMode) -> Operation[Any]:
    """Return the operation as a transaction with this read preference executes it.

    Raises:
        InvalidOperation: It would not read from the primary, or would stream replies on a connection that it keeps.
    """
    if operation.keeps_connection:
        raise InvalidOperation("an exhaust cursor cannot be opened in a transaction: no other operation could follow")
    own = operation.read_preference
    if own is None:
        return operation
    effective = own if operation.has_own_preference else preference
    if effective.mode != ReadPreference.PRIMARY.mode:
        raise InvalidOperation(f"read preference in a transaction must be primary, not: {effective!r}")
    twin = operation.reading_from(ReadPreference.PRIMARY)
    if isinstance(operation.selector, tuple):
        twin.selector = operation.selector  # the server of a cursor
    # Not sent, even where a direct connection needs one otherwise.
    twin.read_preference = None
    return twin


def added_labels(operation: Operation[Any], error: PyMongoError, progress: Progress) -> frozenset[str]:
    """Return the labels that the driver must add to the error of an attempt."""
    if operation.ends is TransactionEnd.COMMIT:
        return frozenset({UNKNOWN_COMMIT_RESULT}) if _leaves_unknown(error) else _NO_LABELS
    # A server that refuses a connection does not know of the transaction, so it sets no label.
    is_transient = _is_network_error(error) or (progress is Progress.NOT_SENT and _is_failover(error))
    return frozenset({TRANSIENT_TRANSACTION}) if is_transient else _NO_LABELS


def settles(error: PyMongoError) -> bool:
    """Whether an error of commitTransaction rules out that an earlier attempt has committed the transaction.

    The server says so once a majority agrees that there is no such transaction. An overloaded server has not checked.
    """
    return error.has_error_label(TRANSIENT_TRANSACTION) and not error.has_error_label(SYSTEM_OVERLOADED)


def _leaves_unknown(error: PyMongoError) -> bool:
    """Whether an error of commitTransaction does not tell if the transaction was committed."""
    if isinstance(error, AutoReconnect | AdmissionError) or error.has_error_label(RETRYABLE_WRITE):
        return True
    code = error_code(error)
    return code == MAX_TIME_MS_EXPIRED or code in RETRYABLE_WRITE_CODES


def _was_refused(failure: Failure) -> bool:
    """Whether no server began to carry out a command: it was rejected, or the connection failed before it was written.

    It was rejected also if the server required authentication again, whether the authentication then fails or not.
    """
    return failure.has_label(RETRYABLE) or _is_rejection(failure.error) or not failure.reached_server


def _is_rejection(error: PyMongoError) -> bool:
    """Whether a server labels a retry as safe, or requires authentication again."""
    return error.has_error_label(RETRYABLE) or error_code(error) == REAUTHENTICATION_REQUIRED


def _is_network_error(error: PyMongoError) -> bool:
    """Whether a command did not get the reply of a server, so that the transaction cannot go on.

    Servers label their replies themselves. If the client itself refuses an operation (`AdmissionError`), this
    transaction lacks it, but the transaction as a whole can be repeated.
    """
    if isinstance(error, AutoReconnect):
        return not isinstance(error, NotPrimaryError)
    return isinstance(error, AdmissionError)


def _is_failover(error: PyMongoError) -> bool:
    """Whether a server answered that it, or one that it needs, is not available now."""
    return isinstance(error, NotPrimaryError) or error_code(error) in RETRYABLE_READ_CODES


# The part that one operation has in its session's transaction.
#
# The executor's attempts ask it where to go, and tell it what came of them; `rules` and `Transaction` decide.
# Operations outside of transactions have no part, which costs them a truth test.

_UNKNOWN: Final = frozenset({UNKNOWN_COMMIT_RESULT})


def part_of(operation: Operation[Any], session: Session, open_transactions: set[Session]) -> Part | None:
    """Return the part of the operation in its session's transaction, or None if there is no transaction.

    Any operation returns the session to "no transaction" when its transaction has ended. Housekeeping (killCursors)
    neither does that nor begins a transaction.

    Raises:
        InvalidOperation: Another operation of the transaction is running, or this one would not read from the primary.
    """
    transaction = session.transaction
    if transaction is None:
        return None
    if operation.ends is None:
        if operation.is_housekeeping:
            if transaction.state is not State.IN_PROGRESS or transaction.is_busy:
                return None
        elif not transaction.is_active:
            held = session.forget_transaction()
            if held is not None:
                held.release()
            return None
        transaction.check_idle()
        operation = in_transaction(operation, transaction.concerns.read_preference)
    return Part(session, transaction, operation, open_transactions)


class Part:
    """One operation's part in a transaction. It ends with `leave`."""

    __slots__ = (
        "_is_sent",
        "_may_be_committed",
        "_needed_majority",
        "_open",
        "_session",
        "_transaction",
        "_was_cut_off",
        "_was_refused",
        "is_first",
        "operation",
    )

    def __init__(
        self, session: Session, transaction: Transaction, operation: Operation[Any], open_transactions: set[Session]
    ) -> None:
        transaction.is_busy = True
        # The sessions whose transaction stays open on the server until an abort.
        self._open = open_transactions
        self._session = session
        self._transaction = transaction
        # As the transaction executes it.
        self.operation: Operation[Any] = operation
        # Whether its command begins the transaction; so do its retries, since the server has not begun it.
        self.is_first: bool = transaction.state is State.STARTING
        # `needs_majority` and `may_be_committed` of the transaction before the newest attempt to commit it.
        self._needed_majority = transaction.needs_majority
        self._may_be_committed = transaction.may_be_committed
        # Whether the newest attempt has got as far as sending a commit.
        self._is_sent = False
        # Whether it failed before a server began to commit.
        self._was_refused = False
        # Whether the newest attempt failed because the transaction cannot go on.
        self._was_cut_off = False

    # --- an attempt ---

    @property
    def pin(self) -> PinnedConnection | None:
        """The connection that the transaction holds behind a load balancer."""
        return cast("PinnedConnection | None", self._transaction.connection)

    @property
    def selector(self) -> Selector:
        """The mongos that has the transaction, or the requirement of the operation."""
        return self._transaction.address or self.operation.selector

    def add_fields(self, document: Document, server_session: ServerSession) -> None:
        """Append the fields of a command in a transaction, and remove the concerns of its collection.

        A user-defined command is not inspected.
        """
        transaction, operation, session = self._transaction, self.operation, self._session
        session.number(transaction, server_session)
        transaction.join(document)
        if operation.ends is not None:
            transaction.end(document)
            return
        if operation.kind is not Kind.COMMAND:
            document.pop("readConcern", None)
            document.pop("writeConcern", None)
        if self.is_first:
            transaction.start(document)
            if session.is_causally_consistent and session.operation_time is not None:
                concern = document.get("readConcern") or {}
                document["readConcern"] = {**concern, "afterClusterTime": session.operation_time}

    def begin(self, server: Server, connection: Connection) -> bool:
        """Pin the transaction to where its first command goes. Call this right before a command is sent.

        Returns whether the transaction keeps the connection after the attempt.

        Raises:
            InvalidOperation: The transaction was left while the operation waited.
        """
        transaction, facts = self._transaction, connection.facts
        if transaction.when_idle is not None:
            raise InvalidOperation("the transaction was aborted while the operation waited; it was not sent")
        if self.operation.ends is TransactionEnd.COMMIT:
            transaction.commits_sent += 1
            self._is_sent, self._was_refused = True, False
            self._needed_majority, transaction.needs_majority = transaction.needs_majority, True
            self._may_be_committed, transaction.may_be_committed = transaction.may_be_committed, True
        elif self.is_first:
            transaction.state, transaction.has_begun = State.IN_PROGRESS, True
            # Behind a load balancer, no other connection reaches it, and the service aborts it with this one.
            transaction.may_begin = not facts.is_load_balanced
            self._open.add(self._session)
            if facts.is_load_balanced and self.operation.pin is None:  # else a cursor from before owns the connection
                transaction.connection = PinnedConnection(server, connection, Purpose.TRANSACTION)
                return True
            if facts.is_mongos:
                transaction.address = transaction.first_address = server.address
        return False

    def learn(self, reply: Mapping[str, Any]) -> None:
        """Learn from a reply with ``ok: 1``: that it has begun, the recovery token and the open cursors."""
        self._transaction.may_begin = False
        token = reply.get("recoveryToken")
        if isinstance(token, Mapping):
            self._transaction.recovery_token = token
        if self.pin is not None:
            self.pin.learn(self.operation.cursor_id, reply)

    # --- what came of it ---

    def failed(self, progress: Progress, error: BaseException) -> None:
        """Learn at once how the newest attempt failed: the operation may be cancelled before `decided`."""
        if self.is_first:
            self._transaction.may_begin &= progress is Progress.IN_FLIGHT
        elif self.operation.ends is TransactionEnd.COMMIT:
            self._was_refused = progress is Progress.NOT_SENT or (
                isinstance(error, PyMongoError) and _is_rejection(error) and not settles(error)
            )

    @property
    def is_retryable(self) -> bool:
        """Whether the retryable writes specification applies: only to commit and abort."""
        return self.operation.ends is not None

    def added_labels(self, error: PyMongoError, progress: Progress) -> frozenset[str]:
        """Return the labels that the driver must add to the error of an attempt."""
        is_unknown = self._may_be_committed and not settles(error)
        return added_labels(self.operation, error, progress) | (_UNKNOWN if is_unknown else frozenset())

    def decided(self, failure: Failure, decision: Again | Raise) -> None:
        """Update the transaction after a failed attempt ("When to unpin", "Interaction with Client Backpressure")."""
        if self.operation.ends is TransactionEnd.ABORT:
            self._unpin()
        elif self.operation.ends is TransactionEnd.COMMIT:
            # For further attempts too: one of them may fail before it is sent, as if the server had rejected it.
            self._needed_majority = self._needed_majority or not was_rejected(failure)
            self._transaction.needs_majority = self._needed_majority
            if settles(failure.error):
                self._may_be_committed = False
                if self._is_sent and self._transaction.may_begin:  # it overtook the first command
                    self._transaction.commits_rejected += 1
            elif may_have_been_executed(failure, self.operation):
                self._may_be_committed = True
            elif self._is_sent and _was_refused(failure):
                self._transaction.commits_rejected += 1
            self._is_sent = False
            self._transaction.may_be_committed = self._may_be_committed
            if failure.has_label(UNKNOWN_COMMIT_RESULT) or failure.has_label(TRANSIENT_TRANSACTION):
                self._unpin()
        elif isinstance(decision, Again):
            if self.is_first:
                self._unpin()  # nothing has begun, so the retry may go elsewhere
        elif failure.has_label(TRANSIENT_TRANSACTION) or decision.failure.has_label(TRANSIENT_TRANSACTION):
            self._was_cut_off = True
            self._unpin()

    def describe(self, error: PyMongoError) -> None:
        """Record whether the transaction may have been committed, and whether only a new transaction can succeed.

        The error that ends the operation may come from an earlier attempt, which did not know that yet.
        """
        if self._was_cut_off:
            error._add_error_label(TRANSIENT_TRANSACTION)
        if self.operation.ends is TransactionEnd.COMMIT and not isinstance(error, WriteConcernError):
            error.may_have_been_executed = self._may_be_committed
            if self._may_be_committed:
                error._add_error_label(UNKNOWN_COMMIT_RESULT)

    def refused(self, error: PyMongoError) -> None:
        """Update the transaction after a reply with an error that ends the operation."""
        if error.has_error_label(UNKNOWN_COMMIT_RESULT):
            self._unpin()

    def leave(self) -> None:
        """End the operation, whether it succeeded, failed or was cancelled."""
        transaction = self._transaction
        transaction.is_busy = False  # before any call, as in `Executor._end`
        if self._is_sent and self._was_refused:  # cancelled before `decided`
            transaction.commits_rejected += 1
            transaction.needs_majority, transaction.may_be_committed = self._needed_majority, self._may_be_committed
        when_idle, transaction.when_idle = transaction.when_idle, None
        if when_idle is not None:
            when_idle()
            return
        if self._session.transaction is transaction and not transaction.must_abort:
            self._open.discard(self._session)
        pin = self.pin
        if (
            self.operation.ends is TransactionEnd.ABORT
            or self._session.transaction is not transaction  # the session ended in the meantime
            or (pin is not None and not pin.is_usable)
        ):
            self._unpin()

    def _unpin(self) -> None:
        held = self._transaction.unpin()
        if held is not None:
            held.release()
