"""Virtual time on both backends: nothing sleeps, and a deadlocked test fails immediately.

For in-memory streams only: the clock would jump while a real socket, thread or server is still working.
"""

from __future__ import annotations

import asyncio
import os
import selectors
from math import inf
from typing import TYPE_CHECKING, Any, Final

import trio
import trio.testing

if TYPE_CHECKING:
    from collections.abc import Iterator

# `make quick` runs on one of them.
BACKENDS: Final = tuple(os.environ.get("MOTORLITE_TEST_BACKENDS", "asyncio,trio").split(","))
# Not zero, to expose code that mistakes a deadline or a time of 0.0 for "none".
START: Final = 1000.0
# Ends a test whose background work keeps it waiting forever.
LIMIT: Final = START + 86_400.0


class DeadlockError(RuntimeError):
    """All tasks wait, and nothing scheduled could wake one (or a whole virtual day has passed)."""

    def __init__(self) -> None:
        super().__init__("deadlock: every task waits for something that will not happen")


def backend(name: str) -> tuple[str, dict[str, Any]]:
    """The value of `anyio_backend` that runs a test in virtual time on ``"asyncio"`` or ``"trio"``."""
    if name == "asyncio":
        return name, {"loop_factory": VirtualTimeLoop}
    return name, {"clock": trio_clock()}


class _JumpSelector(selectors.DefaultSelector):
    """Advances the loop's clock instead of sleeping when nothing is ready."""

    loop: VirtualTimeLoop

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        events = super().select(0)
        if events or timeout == 0:
            return events
        if timeout is None or self.loop.time() > LIMIT:
            raise DeadlockError
        self.loop.advance(timeout)
        return events


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """An event loop whose time passes only while every task waits."""

    def __init__(self) -> None:
        self._now = START
        selector = _JumpSelector()
        super().__init__(selector)
        selector.loop = self

    def time(self) -> float:
        return self._now

    def advance(self, seconds: float) -> None:
        """Advance the clock, exactly to the next timer: a sum of floats may miss it by a rounding error."""
        target = self._now + seconds
        timers: list[asyncio.TimerHandle] = getattr(self, "_scheduled")  # noqa: B009  # not in the stubs
        if timers and abs(timers[0].when() - target) < 1e-6:
            target = timers[0].when()
        self._now = target


def trio_clock() -> trio.testing.MockClock:
    """A clock that jumps to the next deadline, and fails the test if there is none.

    trio's own clock would then keep looking forever. Its class is final, so the method is replaced on the instance.
    """
    clock = trio.testing.MockClock(autojump_threshold=0)
    clock.jump(START)
    jump = getattr(clock, "_autojump")  # noqa: B009  # private

    def jump_or_fail() -> None:
        waiting = trio.lowlevel.current_statistics().seconds_to_next_deadline
        if waiting != inf and clock.current_time() <= LIMIT:
            jump()
        else:
            _cancel_test(shields_too=is_deadlocked(clock))
            setattr(clock, "deadlocked", True)  # noqa: B010  # an attribute of ours

    setattr(clock, "_autojump", jump_or_fail)  # noqa: B010
    return clock


def is_deadlocked(clock: object) -> bool:
    """Whether a clock made by `trio_clock` has found a deadlock."""
    return getattr(clock, "deadlocked", False)


def _cancel_test(shields_too: bool) -> None:
    root = trio.lowlevel.current_root_task()
    assert root is not None
    main = root.child_nurseries[-1]  # the innermost: system tasks live in the outer ones
    main.cancel_scope.cancel(reason=str(DeadlockError()))
    if shields_too:
        for task in _descendants(main):
            status = getattr(task, "_cancel_status", None)
            while status is not None:
                status._scope.shield = False
                status = status.parent


def _descendants(nursery: trio.Nursery) -> Iterator[trio.lowlevel.Task]:
    for task in nursery.child_tasks:
        yield task
        for inner in task.child_nurseries:
            yield from _descendants(inner)
