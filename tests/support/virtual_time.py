"""Virtual time on both backends: nothing sleeps, and a deadlocked test fails immediately.

For in-memory streams only: the clock would jump while a real socket, thread or server is still working.
"""

from __future__ import annotations

import os
from math import inf
from typing import TYPE_CHECKING, Any, Final

import trio
import trio.testing

from benchmarks.virtual import LIMIT, START, DeadlockError, VirtualTimeLoop

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["BACKENDS", "LIMIT", "START", "DeadlockError", "VirtualTimeLoop", "backend", "is_deadlocked", "trio_clock"]

# `make quick` runs on one of them.
BACKENDS: Final = tuple(os.environ.get("MOTORLITE_TEST_BACKENDS", "asyncio,trio").split(","))


def backend(name: str) -> tuple[str, dict[str, Any]]:
    """The value of `anyio_backend` that runs a test in virtual time on ``"asyncio"`` or ``"trio"``."""
    if name == "asyncio":
        return name, {"loop_factory": VirtualTimeLoop}
    return name, {"clock": trio_clock()}


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
