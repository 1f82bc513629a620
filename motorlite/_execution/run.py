"""Pure: one operation on its way."""

from __future__ import annotations

from itertools import count
from math import inf
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from motorlite._execution.operation import Operation
    from motorlite._execution.pinning import PinnedConnection
    from motorlite._execution.session import ServerSession, Session
    from motorlite._topology.server import Server
    from motorlite._topology.server_description import ServerDescription
    from motorlite.deadline import Deadline
    from motorlite.errors import PyMongoError
    from motorlite.values import Address, Document

_operation_ids = count(1)


def new_operation_id() -> int:
    """An id that the command events of all attempts and batches of one operation share."""
    return next(_operation_ids)


class Run:
    """What the attempts of one operation share."""

    __slots__ = (
        "concern_error",
        "deadline",
        "deprioritized",
        "description",
        "is_retry",
        "operation",
        "operation_id",
        "pin",
        "replied",
        "reply",
        "selection_until",
        "server",
        "server_session",
        "session",
        "transaction_number",
        "wire_version",
    )

    def __init__(self, operation: Operation, session: Session | None, deadline: Deadline, operation_id: int) -> None:
        self.operation = operation
        # The caller's session; None: an implicit one is taken at the first attempt.
        self.session = session
        self.deadline = deadline
        self.operation_id = operation_id
        # Taken once and kept for retries, as the transaction number is.
        self.server_session: ServerSession | None = None
        self.transaction_number: int | None = None
        # Servers that the next attempt avoids.
        self.deprioritized: tuple[Address, ...] = ()
        self.is_retry = False
        # Of the current attempt: the server, what was known of it when it was selected (the description may be reset
        # while the operation waits for a connection), and its wire version (0: not reached).
        self.server: Server | None = None
        self.description: ServerDescription | None = None
        self.wire_version = 0
        # The connection that stays with the cursor that was opened, until the cursor has taken it.
        self.pin: PinnedConnection | None = None
        # The newest write concern error that may be retried, the reply with ok: 1 that it is in, and who sent that.
        self.concern_error: PyMongoError | None = None
        self.reply: Document | None = None
        self.replied: Server | None = None
        # Loop time at which selecting and checking out must be done; set when either has to wait.
        self.selection_until = inf

    def begin_retry(self) -> None:
        """Forget what was of the last attempt alone."""
        self.is_retry = True
        self.server = None
        self.wire_version = 0
        self.selection_until = inf
