"""Shell: the event loop of a simulation: virtual time, no operating system, and a hook after every step."""

from __future__ import annotations

import asyncio
import heapq
from math import inf
from typing import TYPE_CHECKING, Any, Final

from benchmarks.virtual import LIMIT, DeadlockError, VirtualTimeLoop

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from contextvars import Context

_STEPS_AT_ONCE: Final = 100_000
_FEW: Final = 50


class LivelockError(RuntimeError):
    """Steps follow each other without end, at one moment of virtual time or with hardly any between them."""


class EndlessError(RuntimeError):
    """The program waits for something longer than it may take."""


class SimulatedTask(asyncio.Task[Any]):
    """A task whose hash is its number: event loops keep tasks in sets, whose order must not depend on addresses."""

    number: int

    def __hash__(self) -> int:
        return self.number


class SimulationLoop(VirtualTimeLoop):
    """Runs the callbacks of one moment in their order, then moves the clock to the next timer.

    Attributes:
        after_step: Called after each callback.
        before_time: Called when nothing is ready to run, before the clock moves.
        steps: How many callbacks have run.
        most_steps: How many may run.
        until: The time at which the program must have ended.
    """

    def __init__(self) -> None:
        super().__init__()
        self.after_step: Callable[[], None] | None = None
        self.before_time: Callable[[], None] | None = None
        self.steps: int = 0
        self.most_steps: float = inf
        self.until: float = LIMIT
        self._steps_at_once = 0
        self._tasks_made = 0
        # Timers that were cancelled since the heap was last cleared of them.
        self._cancelled = 0
        self.set_task_factory(self._make_task)  # type: ignore[arg-type]  # the stubs name its options

    def _make_task(
        self, loop: asyncio.AbstractEventLoop, coroutine: Coroutine[Any, Any, Any], **options: Any
    ) -> SimulatedTask:
        # The number first: the constructor puts the task into a set.
        task: SimulatedTask = SimulatedTask.__new__(SimulatedTask)
        self._tasks_made += 1
        task.number = self._tasks_made
        # The default name is numbered across all loops of the process.
        options["name"] = options.get("name") or f"task {self._tasks_made}"
        SimulatedTask.__init__(task, coroutine, loop=loop, **options)
        return task

    def call_soon_threadsafe(  # type: ignore[override]  # of the stubs' generic signature
        self, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.Handle:
        """As `call_soon`: there is one thread, and no selector to wake up."""
        return self.call_soon(callback, *args, context=context)

    def _run_once(self) -> None:
        ready: Any = getattr(self, "_ready")  # noqa: B009  # not in the stubs
        scheduled: list[Any] = getattr(self, "_scheduled")  # noqa: B009
        while scheduled and scheduled[0]._cancelled:
            heapq.heappop(scheduled)._scheduled = False
        if not ready and not getattr(self, "_stopping"):  # noqa: B009
            if not scheduled:
                raise DeadlockError
            if self._now > self.until:
                raise EndlessError(f"the program goes on at {self._now}")
            if self.before_time is not None:
                self.before_time()
                if ready:
                    self._run_ready(ready)
                    return
            if scheduled[0]._when > self._now:
                self._now = scheduled[0]._when
                self._steps_at_once = 0
        while scheduled and (scheduled[0]._when <= self._now or scheduled[0]._cancelled):
            handle = heapq.heappop(scheduled)
            handle._scheduled = False
            if not handle._cancelled:
                ready.append(handle)
        self._run_ready(ready)

    def _run_ready(self, ready: Any) -> None:
        hook = self.after_step
        count = len(ready)
        for _ in range(count):
            handle = ready.popleft()
            if not handle._cancelled:
                handle._run()
                self.steps += 1
                if hook is not None:
                    hook()
        self._steps_at_once += count
        if self._steps_at_once > _STEPS_AT_ONCE or self.steps > self.most_steps:
            raise LivelockError(f"{self._steps_at_once} steps at {self._now}, {self.steps} in all")

    def _timer_handle_cancelled(self, handle: Any) -> None:
        """Cancelled timers leave the heap when their time comes, or together when most timers are cancelled."""
        scheduled: list[Any] = getattr(self, "_scheduled")  # noqa: B009
        self._cancelled += 1
        if self._cancelled > _FEW and 2 * self._cancelled > len(scheduled):
            for each in scheduled:
                each._scheduled = not each._cancelled
            scheduled[:] = [each for each in scheduled if each._scheduled]
            heapq.heapify(scheduled)
            self._cancelled = 0
