"""What tests of cancellation share: how many await points they reached, and time for what runs in the background."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import anyio

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

# Number of await points of each scenario, by name and backend; printed at the end of a test run.
counted: dict[str, int] = {}


async def settle(awaitable: Callable[[], Awaitable[None]] = lambda: anyio.sleep(0.001), rounds: int = 5) -> None:
    """Let background work that a cancellation started finish."""
    for _ in range(rounds):
        await awaitable()


class InterruptedFuture(asyncio.Future[Any]):
    """Is cancelled in the moment before it gets a result or an error.

    The signal handler of asyncio.run, which runs between any two steps, does so to what its task waits for.
    """

    def set_result(self, result: Any) -> None:
        self.cancel()
        super().set_result(result)

    def set_exception(self, exception: type | BaseException) -> None:
        self.cancel()
        super().set_exception(exception)
