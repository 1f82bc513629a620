"""Net: detects the running event loop and whether the process has forked."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from typing import TYPE_CHECKING

from motorlite.errors import InvalidOperation

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop

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
    if _is_in_trio():
        from motorlite._net.on_trio.runtime import TrioRuntime

        return TrioRuntime()
    _asyncio_loop()
    from motorlite._net.on_asyncio.runtime import AsyncioRuntime

    return AsyncioRuntime()


def is_in_loop() -> bool:
    """Whether an event loop is running here. That of the parent process counts on trio, but not on asyncio."""
    try:
        return _is_in_trio() or _asyncio_loop() is not None
    except InvalidOperation:
        return False


def loop_time() -> float:
    """Return the time of the running event loop, seconds.

    Raises:
        InvalidOperation: no asyncio or trio event loop is running.
    """
    if _is_in_trio():
        import trio

        return trio.current_time()
    return _asyncio_loop().time()


# Neither package is imported for the other's programs. A loop only runs where its package is loaded.


def _is_in_trio() -> bool:
    if "trio" not in sys.modules:
        return False
    import trio

    # Not `in_trio_run`: in guest mode that is also true in the tasks of the host loop.
    return trio.lowlevel.in_trio_task()


def _asyncio_loop() -> AbstractEventLoop:
    if "asyncio" in sys.modules:
        import asyncio

        with suppress(RuntimeError):
            return asyncio.get_running_loop()
    raise InvalidOperation("motorlite needs a running asyncio or trio event loop")
