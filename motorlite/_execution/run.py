"""Pure: the state of one running operation."""

from __future__ import annotations

from itertools import count
from math import inf
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from motorlite._base.values import Address
    from motorlite._execution.call import Call
    from motorlite._execution.cursors.pinning import PinnedConnection
    from motorlite._execution.failure import Failure, TimeLimits
    from motorlite._execution.operation import Operation, Selector
    from motorlite._execution.retry import Retry
    from motorlite._execution.transactions.part import Part
    from motorlite._sessions.session import ServerSession
    from motorlite.errors import PyMongoError

_operation_ids = count(1)


def new_operation_id() -> int:
    """Return an id for the command events of all attempts and batches of one operation."""
    return next(_operation_ids)


class _Defaults:
    """What few operations set: defaults of the class, which cost an operation nothing."""

    __slots__ = ()

    is_retry: bool = False
    # The time limits of the newest command, for its error.
    limits: TimeLimits | None = None
    # Loop time at which it first asked for a connection, as far as a wait queue needs it: set when it has to wait
    # or when an attempt fails.
    entered: float = inf


class Run(_Defaults):
    """State shared by the attempts of one operation."""

    __slots__ = (
        "__dict__",  # for what is in `_Defaults`; made when it is needed
        "call",
        "deprioritized",
        "ended_at",
        "operation",
        "operation_id",
        "part",
        "pin",
        "retry",
        "server_session",
        "source",
        "standing",
        "transaction_number",
    )

    def __init__(self, operation: Operation[Any], call: Call) -> None:
        self.operation: Operation[Any] = operation
        self.call: Call = call
        operation_id = call.operation_id
        self.operation_id: int = next(_operation_ids) if operation_id is None else operation_id
        # From the caller's session or an implicit one. The first attempt acquires it, and retries keep both it and the
        # transaction number.
        self.server_session: ServerSession | None = None
        self.transaction_number: int | None = None
        # Servers that the next attempt avoids.
        self.deprioritized: tuple[Address, ...] = ()
        # Its part in the session's transaction, or None.
        self.part: Part | None = None
        # None until an attempt fails.
        self.retry: Retry | None = None
        # The connection pinned to the opened cursor, until the cursor takes it.
        self.pin: PinnedConnection | None = None
        # The server whose reply ended the operation.
        self.source: Address | None = None
        # The failed attempt whose reply stands because no retry did better.
        self.standing: Failure | None = None
        # Loop time at which the newest attempt returned its connection to the pool.
        self.ended_at: float | None = None

    @property
    def selector(self) -> Selector:
        """The servers that an attempt may use."""
        return self.operation.selector if self.part is None else self.part.selector

    def annotate(self, failure: Failure) -> None:
        """Annotate `failure`, which ends the operation, and the newest failure, which is its cause if it differs."""
        assert self.retry is not None
        self.retry.newest.annotate()
        self.describe(failure.annotate())

    def describe(self, error: PyMongoError) -> PyMongoError:
        """Annotate the error that ends the operation with the facts about all of its attempts."""
        assert self.retry is not None
        self.retry.describe(error)
        if self.part is not None:
            self.part.describe(error)
        return error
