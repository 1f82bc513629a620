"""Trying again when the driver refuses an operation: after 1, 2, 4 ... 30 seconds, 20 % more or less.

The driver never retries what its own wait queue refused: only the application knows whether the work is still wanted.
A loop like this one belongs to background work. A request of a user should rather fail (see `service.py`).
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, TypeVar

import anyio

from motorlite import AsyncMongoClient
from motorlite.errors import AdmissionError
from motorlite.overload import WaitQueue

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

R = TypeVar("R")

INITIAL_BACKOFF = 1.0
MAX_BACKOFF = 30.0
JITTER = 0.2


def backoff(retry_count: int, spread: float) -> float:
    """The seconds before a retry, the first of which is number 0; `spread` is a random number in [-1, 1]."""
    return min(INITIAL_BACKOFF * 2.0**retry_count, MAX_BACKOFF) * (1 + JITTER * spread)


async def patiently(call: Callable[[], Awaitable[R]], attempts: int = 8) -> R:
    """Await ``call()`` until the driver sends the operation; the last refusal is raised."""
    for retry_count in range(attempts - 1):
        try:
            return await call()
        except AdmissionError as refusal:
            # What the driver measured counts where it is longer.
            pause = max(backoff(retry_count, random.uniform(-1, 1)), refusal.retry_after or 0.0)
        await anyio.sleep(pause)
    return await call()


async def main(uri: str) -> None:
    queue = WaitQueue("queue", max_depth=500, timeout="5s", memory_limit="10MB")
    async with AsyncMongoClient(uri, maxPoolSize=10, wait_queue=queue) as client:
        part = await patiently(lambda: client.shop.parts.find_one({"stock": {"$gt": 0}}))
        print(part)


if __name__ == "__main__":
    anyio.run(main, "mongodb://localhost:27017")
