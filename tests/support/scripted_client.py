"""A public client on a scripted deployment, with exact jitter."""

from __future__ import annotations

from contextlib import asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from motorlite import AsyncMongoClient
from motorlite._client.core import Core
from motorlite._client.world import World

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

    from motorlite.testing.scripted import ScriptedDeployment


@asynccontextmanager
async def scripted_client(
    deployment: ScriptedDeployment, world: Mapping[str, Any] | None = None, /, **options: Any
) -> AsyncIterator[AsyncMongoClient[dict[str, Any]]]:
    """A client that has not connected yet; client and deployment are closed at the end.

    `world` replaces fields of its `World`.
    """
    client: AsyncMongoClient[dict[str, Any]] = AsyncMongoClient(deployment.uri, **options)
    usual = World(connector=deployment.connector, jitter=lambda: 1.0, below=lambda _: 0)
    client._core = Core(client.options, replace(usual, **(world or {})))
    try:
        async with client:
            yield client
    finally:
        await deployment.close()
