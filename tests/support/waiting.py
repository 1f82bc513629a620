"""Waiting for what no event announces."""

from __future__ import annotations

from typing import TYPE_CHECKING

from anyio import fail_after, sleep

if TYPE_CHECKING:
    from collections.abc import Callable


async def until(condition: Callable[[], object], seconds: float = 30.0) -> None:
    """Wait until `condition` holds.

    Raises:
        TimeoutError: It did not within `seconds`.
    """
    with fail_after(seconds):
        while not condition():  # noqa: ASYNC110  # no event to wait for
            await sleep(0.002)
