"""Shell: makes a server behave as an overloaded one, for the clients of the demo only."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import anyio

from benchmarks.demo.scenario import COLLECTION, DATABASE, Allowance
from motorlite.testing import failpoints

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from motorlite import AsyncMongoClient

APP_NAME = "overload demo"
WINDOW = 0.05  # seconds


async def reject(control: AsyncMongoClient[dict[str, Any]], share: float) -> None:
    """Reject this share of all commands from now on, whatever the load is."""
    await control.admin.command(_of_demo(failpoints.overload(share)) if share else failpoints.off())


@asynccontextmanager
async def limited(control: AsyncMongoClient[dict[str, Any]], capacity: Callable[[float], float]) -> AsyncIterator[None]:
    """Admit `capacity(elapsed)` commands per second and reject the others, like a rate limiter.

    In every window the server lets as many commands pass as the rate allows, in the order of their arrival.
    """
    async with anyio.create_task_group() as group:
        group.start_soon(_limit, control, capacity)
        try:
            yield
        finally:
            group.cancel_scope.cancel()
            with anyio.CancelScope(shield=True):
                await control.admin.command(failpoints.off())


async def _limit(control: AsyncMongoClient[dict[str, Any]], capacity: Callable[[float], float]) -> None:
    start = anyio.current_time()
    allowance = Allowance()
    before = start - WINDOW
    while True:
        now = anyio.current_time()
        admitted = allowance.attempts(capacity(now - start), now - before)
        before = now
        await control.admin.command(
            _of_demo(
                failpoints.fail_command(
                    failpoints.ORDINARY_COMMANDS,
                    error_code=failpoints.INGRESS_REQUEST_RATE_LIMIT_EXCEEDED,
                    error_labels=failpoints.OVERLOAD_LABELS,
                    skip=admitted,
                )
            )
        )
        await anyio.sleep_until(now + WINDOW)


def _of_demo(failpoint: dict[str, Any]) -> dict[str, Any]:
    """Let it act on the commands that the demo's clients send, and on nothing that these make the server do.

    Without the namespace the failpoint also hits the internal find in config.transactions with which the
    server prepares the first retryable write of a session: writes would be rejected more often than reads.
    """
    data = {**failpoint["data"], "appName": APP_NAME, "namespace": f"{DATABASE}.{COLLECTION}"}
    return {**failpoint, "data": data}
