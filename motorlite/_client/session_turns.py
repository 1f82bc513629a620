"""Shell: orders the operations that have a transaction number in a session of the application.

A server refuses a number lower than the highest that it has seen in the session (TransactionTooOld), and numbers sent
over two connections may arrive in either order. So each such operation ends, with all of its attempts, before the next
one gets its number. An operation waits before it takes a connection, since an earlier one may need that to end.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from motorlite._net.runtime import WaitTimeout
from motorlite._sessions.session import ENDED
from motorlite.errors import ExecutionTimeout, InvalidOperation

if TYPE_CHECKING:
    from collections.abc import Callable

    from motorlite._base.deadline import Deadline
    from motorlite._net.runtime import Waiter
    from motorlite._sessions.session import Session


async def take_turn(waiter: Callable[[], Waiter], session: Session, deadline: Deadline) -> None:
    """Wait until all earlier operations have ended. The caller must call `Session.end_turn` afterwards.

    Raises:
        ExecutionTimeout: The deadline passed.
        InvalidOperation: The session ended meanwhile.
    """
    if session.begin_turn():
        return
    waiting = waiter()
    session.join_queue(waiting)
    try:
        await waiting.wait(deadline.expires_at)
    except WaitTimeout:
        session.leave_queue(waiting)
        raise _too_late(deadline.timeout) from None
    except BaseException:  # cancelled, perhaps in the step in which the turn came
        session.leave_queue(waiting)
        if waiting.take_back() is not None:
            session.end_turn()
        raise
    if session.has_ended:
        session.end_turn()
        raise InvalidOperation(ENDED)


def _too_late(limit: float) -> ExecutionTimeout:
    error = ExecutionTimeout("the time limit passed while earlier writes of the same session were running", 50)
    error.phase, error.client_limit = "session", limit
    return error
