"""Shell: kills the cursors that their owners have lost or could not close, in the background.

Such work does not follow the time limits of the operation that it comes after: a cursor is often lost because the pool
is busy and timeoutMS is short, and would be lost on the server as well. It has a limit of its own, and tries again.
"""

from __future__ import annotations

from contextlib import suppress
from math import inf
from typing import TYPE_CHECKING, Any, Final

from motorlite._execution.late_reply import open_cursor
from motorlite._execution.lost_cursor import LostCursor
from motorlite._operations.kill_cursors import KillCursors
from motorlite.deadline import Deadline
from motorlite.errors import SYSTEM_OVERLOADED, InvalidOperation, OperationFailure, PyMongoError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from motorlite._api.core import ExecutorLike
    from motorlite.values import Address

# Seconds that one command may take, with selecting a server and waiting for a connection.
LIMIT: Final = 10.0
# Seconds between two attempts; after the last one the cursors are left to the server's own limit.
PAUSES: Final = (1.0, 2.0, 4.0, 8.0)


def kill_command(cursor: LostCursor) -> KillCursors:
    """The command for one cursor alone."""
    return KillCursors(cursor.database, cursor.collection, [cursor.cursor_id], address=cursor.address, pin=cursor.pin)


def give_back(cursor: LostCursor, executor: ExecutorLike) -> None:
    """Release what the cursor had kept."""
    session, cursor.session = cursor.session, None
    if session is not None:
        executor.release(session)
    pin, cursor.pin = cursor.pin, None
    if pin is not None:
        pin.release()


class LostCursors:
    """Those of one client. All methods are to be called on its event loop."""

    def __init__(
        self,
        executor: ExecutorLike,
        *,
        spawn: Callable[..., object],
        sleep: Callable[[float], Awaitable[None]],
        now: Callable[[], float],
    ) -> None:
        self._executor = executor
        # Runs a function in the background; what is spawned after the end of the client never runs.
        self._spawn = spawn
        self._sleep = sleep
        self._now = now
        # The ids by server and then by database and collection, which a command must name. A server is in it as long
        # as a task takes care of it.
        self._waiting: dict[Address, dict[tuple[str, str], list[int]]] = {}

    def kill(self, cursor: LostCursor) -> None:
        """Kill `cursor` soon: in one command with the others of its collection that are lost until then."""
        if cursor.pin is not None:
            self._spawn(self._kill_pinned, cursor)
            return
        # The server does not ask for the cursor's own session here, and endSessions ends it with its cursors.
        give_back(cursor, self._executor)
        waiting = self._waiting.get(cursor.address)
        if waiting is None:
            waiting = self._waiting[cursor.address] = {}
            self._spawn(self._kill_those_on, cursor.address)
        waiting.setdefault((cursor.database, cursor.collection), []).append(cursor.cursor_id)

    def kill_opened(self, address: Address, reply: Mapping[str, Any]) -> None:
        """Kill the cursor that is in a reply, if there is one."""
        cursor = open_cursor(reply)
        if cursor is not None:
            self.kill(LostCursor(address, cursor.database, cursor.collection, cursor.cursor_id))

    async def _kill_pinned(self, cursor: LostCursor) -> None:
        try:
            if cursor.pin is not None and cursor.pin.is_usable:
                # No second attempt: the connection would be kept for it.
                with suppress(PyMongoError):
                    await self._executor.execute(kill_command(cursor), cursor.session, self._deadline())
        finally:
            give_back(cursor, self._executor)

    async def _kill_those_on(self, address: Address) -> None:
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
                    return  # the server closes abandoned cursors by itself, later
                await self._sleep(pause)
        finally:
            del self._waiting[address]

    async def _is_done(self, operation: KillCursors) -> bool:
        try:
            await self._executor.execute(operation, None, self._deadline())
        except PyMongoError as error:
            return is_settled(error)
        return True

    def _deadline(self) -> Deadline:
        return Deadline(self._now() + LIMIT, inf, LIMIT)


def is_settled(error: PyMongoError) -> bool:
    """Whether another killCursors would end as this one: the server refused it, or the client is closed."""
    if isinstance(error, OperationFailure):
        return error.reached_server and not error.timeout and not error.has_error_label(SYSTEM_OVERLOADED)
    return isinstance(error, InvalidOperation)
