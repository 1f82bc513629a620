"""Shell: aborts, in the background, transactions that nothing else would end.

Their session was dropped or left, or their abort was cancelled or did not reach the server. Otherwise they would hold
their locks until the server's own limit ends them, after one minute by default.
"""

from __future__ import annotations

from functools import partial
from math import inf
from typing import TYPE_CHECKING, Final

from motorlite._base.deadline import Deadline
from motorlite._base.error_codes import RETRYABLE_WRITE
from motorlite._client.lost_cursors import PAUSES, is_settled
from motorlite._execution.call import Call
from motorlite.errors import PyMongoError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from motorlite._execution.executor import Executor
    from motorlite._sessions.session import Session

# Seconds that one abort may take, with its retries.
LIMIT: Final = 10.0


class LostTransactions:
    """The lost transactions of one client. Call all methods on its event loop."""

    def __init__(
        self,
        executor: Executor,
        *,
        spawn: Callable[..., object],
        sleep: Callable[[float], Awaitable[None]],
        now: Callable[[], float],
    ) -> None:
        self._executor = executor
        # Runs a function in the background. A function spawned after the client's end never runs.
        self._spawn = spawn
        self._sleep = sleep
        self._now = now
        # Spawned aborts, except those that wait for their next attempt.
        self._aborts = 0
        # The sessions of these other aborts.
        self._pausing: set[Session] = set()

    @property
    def is_busy(self) -> bool:
        """Whether an abort is under way."""
        return self._aborts > 0

    def abort(self, session: Session, *, has_failed: bool = False) -> None:
        """Abort the transaction of `session` soon, or when its operation ends. The session may be used meanwhile.

        `has_failed`: an abort has just failed, so the next one waits.
        """
        self._executor.open_transactions.discard(session)
        moved = session.without_transaction()
        transaction = moved.transaction
        assert transaction is not None
        if transaction.is_busy:
            transaction.when_idle = partial(self._begin, moved)
        else:
            self._begin(moved, has_failed=has_failed)

    def drop(self, session: Session) -> None:
        """End a session that was dropped: abort its transaction, and release what it held."""
        if session.must_abort:
            self.abort(session)
        held = session.end()
        if held is not None:
            held.release()
        self._executor.release(session)

    def abort_all(self) -> None:
        """Abort all transactions in which no operation is running, because the client is closing."""
        for session in list(self._executor.open_transactions):
            if session.must_abort:
                self.abort(session)
        for session in self._pausing:
            self._aborts += 1
            self._spawn(self._abort_last, session, name="abort of a transaction")
        self._pausing = set()

    def _begin(self, session: Session, *, has_failed: bool = False) -> None:
        transaction = session.transaction
        assert transaction is not None
        if not transaction.has_begun:
            return
        self._aborts += 1
        self._spawn(self._abort, session, has_failed, name="abort of a transaction")

    async def _abort(self, session: Session, has_failed: bool) -> None:
        """Abort until the server has replied, or until its own limit is near."""
        pauses = iter(PAUSES)
        try:
            while has_failed or not await self._is_done(session):
                has_failed = False
                pause = next(pauses, None)
                if pause is None or not await self._pause(session, pause):
                    return
        finally:
            self._aborts -= 1

    async def _pause(self, session: Session, seconds: float) -> bool:
        """Wait before the next attempt. False if `abort_all` has made that attempt."""
        self._pausing.add(session)
        self._aborts -= 1
        try:
            await self._sleep(seconds)
        finally:
            self._aborts += 1
            is_left = session in self._pausing
            self._pausing.discard(session)
        return is_left

    async def _abort_last(self, session: Session) -> None:
        try:
            await self._is_done(session)
        finally:
            self._aborts -= 1

    async def _is_done(self, session: Session) -> bool:
        from motorlite._operations.sessions.end_transaction import AbortTransaction

        call = Call(session, Deadline(self._now() + LIMIT, inf, LIMIT))
        try:
            await self._executor.execute(AbortTransaction(), call)
        except PyMongoError as error:
            return is_aborted(error)
        return True


def is_aborted(error: PyMongoError) -> bool:
    """Whether another abort would end the same way. A server in a failover, or a mongos, may not have aborted."""
    return is_settled(error) and not error.has_error_label(RETRYABLE_WRITE)
