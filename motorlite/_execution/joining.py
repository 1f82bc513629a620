"""Shell: makes an operation a part of its session's transaction."""

from __future__ import annotations

from typing import TYPE_CHECKING

from motorlite._execution.transactions import Part, in_transaction
from motorlite._operations.contract import Kind
from motorlite._sessions.session import State

if TYPE_CHECKING:
    from motorlite._execution.run import Run
    from motorlite._sessions.session import Session


def join(run: Run, session: Session, open_transactions: set[Session]) -> None:
    """Make the operation a part of its session's transaction, if there is one.

    Any operation returns the session to "no transaction" when its transaction has ended. Housekeeping (killCursors)
    neither does that nor begins a transaction.

    Raises:
        InvalidOperation: Another operation of the transaction is running, or this one would not read from the primary.
    """
    transaction, operation = session.transaction, run.operation
    if transaction is None:
        return
    if operation.ends is None:
        if operation.is_housekeeping:
            if transaction.state is not State.IN_PROGRESS or transaction.is_busy:
                return
        elif not transaction.is_active:
            held = session.forget_transaction()
            if held is not None:
                held.release()
            return
        transaction.check_idle()
        run.operation = in_transaction(operation, transaction.concerns.read_preference)
    run.part = Part(session, transaction, run.operation, open_transactions)


def needs_turn(run: Run, session: Session, *, retry_writes: bool) -> bool:
    """Whether the operation may get the next transaction number of a session that several tasks can use.

    Operations with an implicit session follow one another anyway. The first operation of a transaction begins it on the
    server, which would refuse what an earlier write sends after that.
    """
    if run.part is not None:
        return run.part.is_first
    operation = run.operation
    return retry_writes and operation.kind is Kind.WRITE and operation.is_retryable and not session.is_implicit
