"""Pure: the transaction of a session: its states, what its commands carry, and what it is pinned to.

Transactions specification. A session whose `Session.transaction` is None is in the state "no transaction". A new
`Transaction` begins in `STARTING`; its first command takes it to `IN_PROGRESS`, commit and abort end it.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any, Final, Protocol

from bson.int64 import Int64

from motorlite.errors import InvalidOperation

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from motorlite._base.values import Address, Document
    from motorlite.read_concern import ReadConcern
    from motorlite.read_preferences import ServerMode
    from motorlite.write_concern import WriteConcern

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


@dataclass(slots=True)
class Concerns:
    """What all commands of one transaction share. Nothing is left to be inherited."""

    read_concern: ReadConcern
    write_concern: WriteConcern
    read_preference: ServerMode
    max_commit_time_ms: int | None = None


@dataclass(slots=True, eq=False)
class Transaction:
    """One transaction of a session."""

    concerns: Concerns
    state: State = State.STARTING
    # txnNumber. The first command gets it together with the server session.
    number: int | None = None
    # A command of it was sent, so there is something to commit or abort.
    has_begun: bool = False
    # The command that commits it was sent, at least once.
    end_was_sent: bool = False
    # An operation of it is running. A second one is refused: the server executes them one after another.
    is_busy: bool = False
    # Called when the running operation has ended, if the transaction was left and must be aborted.
    when_idle: Callable[[], None] | None = None
    # It may have been committed: an attempt succeeded, or failed otherwise than by the rejection of an overloaded
    # server. The next one waits for a majority.
    needs_majority: bool = False
    # An attempt to commit it was sent, and no reply rules out that it succeeded.
    may_be_committed: bool = False
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
        """Whether only an abort ends it on the server, and can be sent: it was not committed, or that was not sent."""
        is_open = self.is_active or (self.state is State.COMMITTED and not self.end_was_sent)
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
