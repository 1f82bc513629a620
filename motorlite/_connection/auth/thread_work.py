"""Shell: runs blocking work of authentication in few threads and shares results between callers with the same key.

A thread cannot be cancelled. If every connection that gave up left its own thread behind, a server that makes clients
hash for seconds would soon occupy every thread of the event loop's pool, which name resolution and compression need
too. So the work runs to completion in the background and counts against the limit until then, even if all callers have
left.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from math import inf
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from motorlite.errors import InvalidOperation, PyMongoError

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    from motorlite._net.runtime import Host, Runtime, Waiter

MAX_THREADS: Final = 2


class _Outcome(NamedTuple):
    """The work's return value, or the exception it raised."""

    value: Any
    error: Exception | None


@dataclass(slots=True, eq=False)
class _Work:
    """One call, and the waiters for its outcome."""

    key: Hashable
    function: Callable[[], object]
    keep: Callable[[Any], None] | None
    waiters: set[Waiter] = field(default_factory=set)


class ThreadWork:
    """The threads of one client's authentication."""

    def __init__(self, runtime: Runtime, host: Host) -> None:
        self._runtime = runtime
        self._host = host
        # Running and queued work by key.
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
        """Return the result of `function`, or that of a call with the same key if one is already in progress.

        `keep` is called with the result on the event loop, even if the result arrives too late.

        Raises:
            WaitTimeout: the call has not returned by the loop time `until`.
            InvalidOperation: the client is closed.
            Exception: the exception that the call raised.
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
                # The work has not started, and no waiter is left.
                self._queue.remove(work)
                del self._work[key]
        error = outcome.error
        if error is None:
            return outcome.value
        try:
            if isinstance(error, PyMongoError):
                # Each waiter gets a new exception: they share the cause, but not what the pool adds to the error.
                raise type(error)(str(error)) from error
            raise error
        finally:
            # Breaks the reference cycle between the error and this frame.
            del error, outcome, waiter

    def _start(self) -> None:
        while self._queue and self._running < MAX_THREADS:
            self._running += 1
            self._host.spawn(self._run, self._queue.popleft(), name="authentication thread")

    async def _run(self, work: _Work) -> None:
        outcome = _Outcome(None, _closed())
        try:
            outcome = _Outcome(await self._runtime.run_in_thread(work.function, inf), None)
        except Exception as error:
            # For the waiters. Drop this frame from the traceback: it holds the function, which may hold the password.
            outcome = _Outcome(None, error.with_traceback(None))
        finally:
            self._running -= 1
            self._answer(work, outcome)
            while self._queue and self._host.is_closed:  # queued work will never run
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
