"""Net: detects the running event loop and whether the process has forked."""

from __future__ import annotations

import asyncio
import os
import sys
from typing import TYPE_CHECKING

from motorlite._net.on_asyncio.runtime import AsyncioRuntime
from motorlite.errors import InvalidOperation

if TYPE_CHECKING:
    from motorlite._net.runtime import Runtime

# Incremented in every forked child: the parent's sockets and loops must not be used there.
fork_generation = 0


def _after_fork() -> None:
    global fork_generation
    fork_generation += 1


os.register_at_fork(after_in_child=_after_fork)


def current_runtime() -> Runtime:
    """Return the runtime of the running event loop.

    Raises:
        InvalidOperation: no asyncio or trio event loop is running.
    """
    if "trio" in sys.modules:
        import trio

        # Not `in_trio_run`: in guest mode that is also true in the tasks of the host loop.
        if trio.lowlevel.in_trio_task():
            from motorlite._net.on_trio.runtime import TrioRuntime

            return TrioRuntime()
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        raise InvalidOperation("motorlite needs a running asyncio or trio event loop") from None
    return AsyncioRuntime()
