"""Waiting for what no event announces."""

from __future__ import annotations

from typing import TYPE_CHECKING

from anyio import fail_after, sleep

if TYPE_CHECKING:
    from collections.abc import Callable


async def until(condition: Callable[[], object], seconds: float = 30.0, *, interval: float = 0.002) -> None:
    """Wait until `condition` holds.

    Args:
        condition: Returns a true value once the wait is over.
        seconds: The longest wait.
        interval: Seconds between two checks. Virtual time makes the pauses free, but each check takes a round of the
            event loop, so a test that skips many seconds checks less often.

    Raises:
        TimeoutError: It did not within `seconds`.
    """
    with fail_after(seconds):
        while not condition():  # noqa: ASYNC110  # no event to wait for
            await sleep(interval)
