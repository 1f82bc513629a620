"""Shell: ends, in the background, what nothing else ends: lost cursors and transactions."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from math import inf
from typing import TYPE_CHECKING, Any, Final, TypeVar

from motorlite._base.deadline import Deadline
from motorlite._base.error_documents import NO_SUCH_TRANSACTION, REAUTHENTICATION_REQUIRED, REFUSALS, RETRYABLE_WRITE
from motorlite._operations.contract import Call, TimeLimit
from motorlite._operations.cursors import KillCursors, LostCursor, opened_by
from motorlite.errors import InvalidOperation, OperationFailure, PyMongoError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Mapping

    from motorlite._base.values import Address
    from motorlite._execution.executor import Executor
    from motorlite._operations.contract import Operation
    from motorlite._sessions.session import Session, Transaction

R = TypeVar("R")


# Kills, in the background, cursors that were dropped or could not be closed.
#
# The time limits of the preceding operation do not apply here: a cursor is often lost because the pool is busy and
# timeoutMS is short, and would then stay open on the server as well. This work has its own limit, and retries.

# Seconds that one command may take, including server selection and checkout.
LIMIT: Final = 10.0
# Seconds between attempts. After the last one, the server's own limit closes the cursors.
PAUSES: Final = (1.0, 2.0, 4.0, 8.0)


def kill_command(cursor: LostCursor, time_limit: TimeLimit = TimeLimit.OMIT) -> KillCursors:
    """Build the command for a single cursor."""
    names, cursor_ids = (cursor.database, cursor.collection), [cursor.cursor_id]
    return KillCursors(*names, cursor_ids, address=cursor.address, pin=cursor.pin, time_limit=time_limit)


def give_back(cursor: LostCursor, executor: Executor) -> None:
    """Release the session and the connection that the cursor held."""
    session, cursor.session = cursor.session, None
    if session is not None:
        executor.release(session)
    pin, cursor.pin = cursor.pin, None
    if pin is not None:
        pin.release()


@dataclass(eq=False, repr=False)
class Cleanup:
    """Commands that a client sends in the background. Call all methods on its event loop."""

    executor: Executor
    # Runs a function in the background. A function spawned after the client's end never runs.
    spawn: Callable[..., Any]
    sleep: Callable[[float], Awaitable[None]]
    now: Callable[[], float]

    async def run(self, operation: Operation[R], limit: float, session: Session | None = None) -> R:
        """Execute `operation` within `limit` seconds."""
        deadline = Deadline(self.now() + limit, inf, limit)
        return await self.executor.execute(operation, Call(session, deadline))


class LostCursors(Cleanup):
    """The lost cursors of one client."""

    def __init__(self, *facilities: Any, is_load_balanced: Callable[[], bool] = lambda: False) -> None:
        super().__init__(*facilities)
        # Each cursor then has its own connection, or that of its transaction. Releasing the latter closes it if it has
        # open cursors.
        self.is_load_balanced: Callable[[], bool] = is_load_balanced
        # Cursor ids by server, then by database and collection, which a command must name. A server is listed while a
        # task serves it.
        self._waiting: dict[Address, dict[tuple[str, str], list[int]]] = {}
        # Servers whose task waits for its next attempt, and running commands for cursors that have a connection.
        self._pausing = self._pinned = 0

    @property
    def is_busy(self) -> bool:
        """Whether a command is running, or about to be sent."""
        return len(self._waiting) + self._pinned > self._pausing

    def are_killed_on(self, servers: Iterable[Address]) -> bool:
        """Whether a command that may still need a connection is running, or about to be sent, to one of `servers`."""
        return len(self._waiting) > self._pausing and not self._waiting.keys().isdisjoint(servers)

    def kill(self, cursor: LostCursor) -> None:
        """Kill `cursor` soon, in one command with the cursors of its collection that are lost until then."""
        pin = cursor.pin
        if pin is not None and self.is_load_balanced():
            self._pinned += 1
            self.spawn(self._kill_pinned, cursor, name="kill of a cursor")
            return
        # A stream of batches ends with its connection, and the cursor with it.
        is_streaming = pin is not None and not (pin.is_lost or pin.is_usable)
        # The server does not require the cursor's own session here, and endSessions ends the session with its cursors.
        give_back(cursor, self.executor)
        if is_streaming or self.is_load_balanced():
            return
        waiting = self._waiting.get(cursor.address)
        if waiting is None:
            waiting = self._waiting[cursor.address] = {}
            self.spawn(self._kill_waiting, cursor.address, name="kill of cursors")
        waiting.setdefault((cursor.database, cursor.collection), []).append(cursor.cursor_id)

    def kill_opened(self, address: Address, reply: Mapping[str, Any]) -> None:
        """Kill the cursor in a reply, if there is one."""
        cursor = opened_by(reply, address)
        if cursor is not None:
            self.kill(cursor)

    async def _kill_pinned(self, cursor: LostCursor) -> None:
        try:
            if cursor.pin is not None and cursor.pin.is_usable:
                # No second attempt: it would hold the connection.
                with suppress(PyMongoError):
                    await self.run(kill_command(cursor), LIMIT, cursor.session)
        finally:
            self._pinned -= 1
            give_back(cursor, self.executor)

    async def _kill_waiting(self, address: Address) -> None:
        waiting = self._waiting[address]
        pauses = iter(PAUSES)
        try:
            while waiting:
                (database, collection), cursor_ids = waiting.popitem()
                if await self._is_done(KillCursors(database, collection, cursor_ids, address=address)):
                    pauses = iter(PAUSES)
                    continue
                waiting.setdefault((database, collection), []).extend(cursor_ids)
                pause = next(pauses, None)
                if pause is None:
                    return  # the server closes abandoned cursors later
                self._pausing += 1
                try:
                    await self.sleep(pause)
                finally:
                    self._pausing -= 1
        finally:
            del self._waiting[address]

    async def _is_done(self, operation: KillCursors) -> bool:
        try:
            await self.run(operation, LIMIT)
        except PyMongoError as error:
            return is_settled(error)
        return True


def is_settled(error: PyMongoError) -> bool:
    """Whether another killCursors would end the same way: the server refused it, or the client is closed."""
    if isinstance(error, OperationFailure):
        # It did nothing, for now: it is overloaded, says itself that a retry is safe, or requires authentication.
        is_passing = error.code == REAUTHENTICATION_REQUIRED or not REFUSALS.isdisjoint(error.error_labels)
        return error.reached_server and not error.timeout and not is_passing
    return isinstance(error, InvalidOperation)


# Aborts, in the background, transactions that nothing else would end.
#
# Their session was dropped or left, or their abort was cancelled or did not reach the server. Otherwise they would
# hold their locks until the server's own limit ends them, after one minute by default.


class LostTransactions(Cleanup):
    """The lost transactions of one client."""

    def __init__(self, *facilities: Any) -> None:
        super().__init__(*facilities)
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
        self.executor.open_transactions.discard(session)
        moved = session.without_transaction()
        transaction = moved.transaction
        assert transaction is not None
        if transaction.is_busy:
            transaction.when_idle = partial(self._begin, moved)
        else:
            self._begin(moved, has_failed=has_failed)

    def drop(self, session: Session, publish_end: Callable[[], None] | None = None) -> None:
        """End a session that was dropped: abort its transaction, and release what it held."""
        if session.must_abort:
            self.abort(session)
        held = session.end()
        if held is not None:
            held.release()
        self.executor.release(session)
        if publish_end is not None:
            publish_end()

    def abort_all(self) -> None:
        """Abort all transactions in which no operation is running, because the client is closing."""
        for session in list(self.executor.open_transactions):
            if session.must_abort:
                self.abort(session)
        for session in self._pausing:
            self._aborts += 1
            self.spawn(self._abort_last, session, name="abort of a transaction")
        self._pausing = set()

    def _begin(self, session: Session, *, has_failed: bool = False) -> None:
        transaction = session.transaction
        assert transaction is not None
        if not transaction.has_begun:
            return
        self._aborts += 1
        self.spawn(self._abort, session, has_failed, name="abort of a transaction")

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
            await self.sleep(seconds)
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
        from motorlite._operations.sessions import AbortTransaction

        transaction = session.transaction
        assert transaction is not None
        if transaction.may_begin:  # no other mongos knows it then
            transaction.address = transaction.first_address
        try:
            await self.run(AbortTransaction(), LIMIT, session)
        except PyMongoError as error:
            return is_aborted(transaction, error)
        return True


def is_aborted(transaction: Transaction, error: PyMongoError) -> bool:
    """Whether another abort would end the same way.

    A server in a failover, or a mongos, may not have aborted. One that does not know the transaction may still be about
    to begin it.
    """
    if transaction.may_begin and isinstance(error, OperationFailure) and error.code == NO_SUCH_TRANSACTION:
        return False
    return is_settled(error) and not error.has_error_label(RETRYABLE_WRITE)
