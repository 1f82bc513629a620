"""Shell: makes a server behave as if overloaded, for the demo's clients only."""

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
    """Reject this share of all commands from now on, regardless of the load."""
    await control.admin.command(_of_demo(failpoints.overload(share)) if share else failpoints.off())


@asynccontextmanager
async def limited(control: AsyncMongoClient[dict[str, Any]], capacity: Callable[[float], float]) -> AsyncIterator[None]:
    """Admit `capacity(elapsed)` commands per second and reject the others, like a rate limiter.

    In every window, the server admits as many commands as the rate allows, in order of arrival.
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
    """Restrict the failpoint to the commands of the demo's clients.

    Without the namespace, it would also hit the internal find in config.transactions with which the server prepares
    the first retryable write of a session, and writes would be rejected more often than reads.
    """
    data = {**failpoint["data"], "appName": APP_NAME, "namespace": f"{DATABASE}.{COLLECTION}"}
    return {**failpoint, "data": data}
