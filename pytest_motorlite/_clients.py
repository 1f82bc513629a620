"""The clients of tests: opened, checked for what the test left behind, and closed."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final

import anyio
import pytest

from motorlite import AsyncMongoClient

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

# The driver ends a few operations in the background, such as the cursors that a test dropped.
LOOKS: Final = 50
SECONDS_BETWEEN_LOOKS: Final = 0.02


@asynccontextmanager
async def opened(uri: str, options: Mapping[str, Any]) -> AsyncIterator[AsyncMongoClient[dict[str, Any]]]:
    """Yield a client, and fail the test if it leaves connections in use."""
    async with AsyncMongoClient[dict[str, Any]](uri, **options) as client:
        yield client
        left = await left_behind(client)
    if left:
        pytest.fail(
            f"the test left connections of motorlite_client in use: {left}. Await or cancel its tasks, and close "
            "its change streams, exhaust cursors and sessions.",
            pytrace=False,
        )


async def left_behind(client: AsyncMongoClient[Any]) -> str:
    """Name the connections that are still in use a second later; empty if there are none."""
    for _ in range(LOOKS):
        if not _in_use(client):
            break
        await anyio.sleep(SECONDS_BETWEEN_LOOKS)
    return _in_use(client)


def _in_use(client: AsyncMongoClient[Any]) -> str:
    servers = client.stats().servers.items()
    used = [(f"{address[0]}:{address[1]}", server.in_use, server.waiting) for address, server in servers]
    return ", ".join(
        f"{in_use} to {host} ({waiting} operations waiting)" if waiting else f"{in_use} to {host}"
        for host, in_use, waiting in used
        if in_use or waiting
    )
