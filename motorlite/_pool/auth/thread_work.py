"""Shell: work of authentication that blocks, in threads: few at a time, and shared by all who need the same.

A thread cannot be cancelled. If each connection that gives up left its own behind, a server that makes clients hash for
seconds would soon have every thread of the event loop's pool, which name resolution and compression need too. So the
work runs in the background, to its end, and counts until then, whether anyone still waits for it or not.
"""

from __future__ import annotations

from collections import deque
from math import inf
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from motorlite.errors import InvalidOperation, PyMongoError

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    from motorlite._net.runtime import Host, Runtime, Waiter

MAX_THREADS: Final = 2


class _Outcome(NamedTuple):
    """What the work returned, or what it raised."""

    value: Any
    error: Exception | None


class _Work:
    """One call, and the waiters for its outcome."""

    __slots__ = ("function", "keep", "key", "waiters")

    def __init__(self, key: Hashable, function: Callable[[], object], keep: Callable[[Any], None] | None) -> None:
        self.key = key
        self.function = function
        self.keep = keep
        self.waiters: set[Waiter] = set()


class ThreadWork:
    """The threads of one client's authentication."""

    def __init__(self, runtime: Runtime, host: Host) -> None:
        self._runtime = runtime
        self._host = host
        # What is running or waits for a thread, by its key.
        self._work: dict[Hashable, _Work] = {}
        self._queue: deque[_Work] = deque()
        self._running = 0

    async def result(
        self,
        key: Hashable,
        function: Callable[[], object],
        until: float,
        keep: Callable[[Any], None] | None = None,
    ) -> Any:
        """What `function` returns; it is not called while a call with the same key is under way, whose result it is.

        `keep` is called with the result on the event loop, also when it has come too late.

        Raises:
            WaitTimeout: it has not returned at the loop time `until`.
            InvalidOperation: the client is closed.
            Exception: what it raises.
        """
        if self._host.is_closed:
            raise _closed()
        work = self._work.get(key)
        if work is None:
            work = self._work[key] = _Work(key, function, keep)
            self._queue.append(work)
            self._start()
        waiter = self._runtime.waiter()
        work.waiters.add(waiter)
        try:
            outcome: _Outcome = await waiter.wait(until)
        finally:
            work.waiters.discard(waiter)
            if not work.waiters and work in self._queue:
                # It has not begun, and nothing needs it any more.
                self._queue.remove(work)
                del self._work[key]
        error = outcome.error
        if error is None:
            return outcome.value
        try:
            if isinstance(error, PyMongoError):
                # One of its own for each that waits: they share the cause, but not what the pool adds to the error.
                raise type(error)(str(error)) from error
            raise error
        finally:
            # Or the error would keep this frame, and the frame the error.
            del error, outcome, waiter

    def _start(self) -> None:
        while self._queue and self._running < MAX_THREADS:
            self._running += 1
            self._host.spawn(self._run, self._queue.popleft())

    async def _run(self, work: _Work) -> None:
        outcome = _Outcome(None, _closed())
        try:
            outcome = _Outcome(await self._runtime.run_in_thread(work.function, inf), None)
        except Exception as error:
            # For those that wait; without this frame, which has the function and with it perhaps the password.
            outcome = _Outcome(None, error.with_traceback(None))
        finally:
            self._running -= 1
            self._answer(work, outcome)
            while self._queue and self._host.is_closed:  # their turn will not come
                self._answer(self._queue.popleft(), _Outcome(None, _closed()))
            self._start()
            if work.keep is not None and outcome.error is None:
                work.keep(outcome.value)

    def _answer(self, work: _Work, outcome: _Outcome) -> None:
        del self._work[work.key]
        for waiter in work.waiters:
            waiter.offer(outcome)


def _closed() -> InvalidOperation:
    return InvalidOperation("the client is closed")
