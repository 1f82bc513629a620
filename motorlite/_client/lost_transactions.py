"""Shell: aborts, in the background, transactions whose session was dropped or whose abort was cancelled.

They would hold their locks on the server until its own limit ends them, one minute by default.
"""

from __future__ import annotations

from contextlib import suppress
from math import inf
from typing import TYPE_CHECKING, Final

from motorlite._base.deadline import Deadline
from motorlite._execution.call import Call
from motorlite.errors import PyMongoError

if TYPE_CHECKING:
    from collections.abc import Callable

    from motorlite._execution.executor import Executor
    from motorlite._sessions.session import Session

# Seconds that one abort may take, with its retries.
LIMIT: Final = 10.0


class LostTransactions:
    """The lost transactions of one client. Call all methods on its event loop."""

    def __init__(self, executor: Executor, *, spawn: Callable[..., object], now: Callable[[], float]) -> None:
        self._executor = executor
        # Runs a function in the background. A function spawned after the client's end never runs.
        self._spawn = spawn
        self._now = now
        # Aborts that were spawned and have not ended.
        self._aborts = 0

    @property
    def is_busy(self) -> bool:
        """Whether an abort is under way."""
        return self._aborts > 0

    def abort(self, session: Session) -> None:
        """Abort the transaction of `session` soon. The session may be used meanwhile."""
        self._aborts += 1
        self._spawn(self._abort, session.without_transaction(), name="abort of a transaction")

    def drop(self, session: Session) -> None:
        """End a session that was dropped: abort its transaction, and release what it held."""
        if session.must_abort:
            self.abort(session)
        held = session.end()
        if held is not None:
            held.release()
        self._executor.release(session)

    async def _abort(self, session: Session) -> None:
        from motorlite._operations.sessions.end_transaction import AbortTransaction

        call = Call(session, Deadline(self._now() + LIMIT, inf, LIMIT))
        try:
            # Errors are ignored: the server will abort it later.
            with suppress(PyMongoError):
                await self._executor.execute(AbortTransaction(), call)
        finally:
            self._aborts -= 1
