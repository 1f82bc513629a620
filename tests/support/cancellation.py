"""What tests of cancellation share: how many await points they reached, and time for what runs in the background."""

from __future__ import annotations

from typing import TYPE_CHECKING

import anyio

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

# Number of await points of each scenario, by name and backend; printed at the end of a test run.
counted: dict[str, int] = {}


async def settle(awaitable: Callable[[], Awaitable[None]] = lambda: anyio.sleep(0.001), rounds: int = 5) -> None:
    """Let background work that a cancellation started finish."""
    for _ in range(rounds):
        await awaitable()
