"""Shell: the turns of operations with a transaction number in a session of the application's.

A server refuses a number that is lower than one that it has seen in the session (TransactionTooOld), and numbers that
were sent over two connections may arrive in either order. So each such operation, with all of its attempts, ends before
the next one gets its number. An operation waits before it takes a connection, which another one may need to end.
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
    """Wait until the operations that came before have ended. Then the caller has to call `Session.end_turn`.

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
    except BaseException:
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
