"""Shell: runs operations that something else may cancel at any moment."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import anyio
import sniffio

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable


class Cancellable:
    """Runs one step after another, of which `cancel` ends the current one.

    Args:
        is_native: On asyncio, cancel as `asyncio.Task.cancel` does: once, at one await, while a cancel scope cancels at
            each await until its end.
    """

    def __init__(self, *, is_native: bool) -> None:
        self._is_native = is_native
        self._cancel: Callable[[], object] | None = None

    def cancel(self) -> None:
        """Cancel what runs now, if anything does; once, since a second time would end a clean-up on asyncio."""
        cancel, self._cancel = self._cancel, None
        if cancel is not None:
            cancel()

    async def run(self, step: Callable[[], Awaitable[None]]) -> None:
        """Run a step to its end, or until it is cancelled."""
        if self._is_native and sniffio.current_async_library() == "asyncio":
            await self._run_in_task(step)
            return
        with anyio.CancelScope() as scope:
            self._cancel = scope.cancel
            try:
                await step()
            finally:
                self._cancel = None

    async def _run_in_task(self, step: Callable[[], Awaitable[None]]) -> None:
        task = asyncio.ensure_future(step())
        self._cancel = task.cancel
        try:
            await asyncio.wait([task])
        finally:
            self._cancel = None
            task.cancel()
        if not task.cancelled():
            task.result()
