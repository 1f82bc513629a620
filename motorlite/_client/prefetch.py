"""Shell: a batch that is requested while the program works through the one before (the option `prefetch`)."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, NamedTuple

from motorlite._base.deadline import NO_DEADLINE, Deadline
from motorlite._net.runtime import WaitTimeout
from motorlite.errors import ExecutionTimeout, InvalidOperation

if TYPE_CHECKING:
    from collections.abc import Callable

    from motorlite._net.runtime import BackgroundTask, Waiter
    from motorlite._operations.contract import CursorReply


class Prefetching(NamedTuple):
    """What a client offers to its cursors.

    Attributes:
        spawn: Runs a function in the background, with an empty context.
        waiter: Makes a handover of one value between two tasks.
    """

    spawn: Callable[..., BackgroundTask]
    waiter: Callable[[], Waiter]


class Prefetch:
    """A getMore in the background, and its outcome. At most one task waits for it."""

    __slots__ = ("_error", "_is_done", "_make_waiter", "_reply", "_waiter", "has_begun", "task")

    def __init__(self, make_waiter: Callable[[], Waiter]) -> None:
        self._make_waiter = make_waiter
        self._waiter: Waiter | None = None
        # A task that is cancelled before its first step never ends it.
        self.has_begun = False
        self._is_done = False
        self._reply: CursorReply | None = None
        # A copy without traceback: it is kept until the program's next step.
        self._error: BaseException | None = None
        # Runs the getMore; None when it has ended.
        self.task: BackgroundTask | None = None

    def finish(self, reply: CursorReply | None, error: BaseException | None) -> None:
        """Store the outcome, and wake the task that waits for it."""
        self._reply, self._error, self._is_done = reply, error, True
        # It references the cursor, which references this object.
        self.task = None
        if self._waiter is not None:
            self._waiter.offer(None)

    def cancel(self) -> None:
        """Cancel the getMore. It may still take a while to end."""
        task = self.task
        if task is not None:
            if not self.has_begun:
                self.task = None  # it never calls `finish`, and references this object
            task.cancel()

    async def wait(self, deadline: Deadline) -> None:
        """Wait until it has ended. If the wait is cancelled or times out, it goes on, and can be waited for again.

        Raises:
            ExecutionTimeout: The deadline passed before the batch arrived.
            InvalidOperation: Another task waits for it.
        """
        # First: the task that waits may not have run yet since the batch arrived, which is its own.
        if self._waiter is not None:
            raise InvalidOperation("two tasks are reading from the same cursor; give each its own, or take turns")
        if self._is_done:
            return
        waiter = self._waiter = self._make_waiter()
        try:
            await waiter.wait(deadline.expires_at)
        except WaitTimeout:
            raise _too_late(deadline.timeout) from None
        finally:
            self._waiter = None
            del waiter  # it may hold the cancellation, whose traceback references this frame

    def result(self) -> CursorReply:
        """Return the batch after it has ended.

        Raises:
            Exception: A copy of the error of the getMore.
        """
        error, self._error = self._error, None
        if error is not None:
            try:
                raise error
            finally:
                del error  # its traceback references this frame
        assert self._reply is not None
        return self._reply


def _too_late(limit: float) -> ExecutionTimeout:
    error = ExecutionTimeout("the time limit passed before the next batch arrived", 50)
    error.phase, error.client_limit = "reply", limit
    return error


def in_background(deadline: Deadline) -> Deadline:
    """Return the deadline without the end of the caller's cancel scope, which a background task does not share."""
    if deadline.expires_at == inf:
        return NO_DEADLINE
    return Deadline(deadline.expires_at, inf, deadline.timeout, is_set=deadline.is_set)
