"""Clients on scripted deployments and real servers, in a world of the test's choice."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from motorlite import AsyncMongoClient
from motorlite._client.core import Core
from motorlite._client.dependencies import Dependencies
from motorlite.testing.scripted import ScriptedDeployment

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

    from motorlite._options.options import ClientOptions
    from motorlite.testing import LocalServer
    from motorlite.testing.scripted import ScriptedServer

Client = AsyncMongoClient[dict[str, Any]]

# On real servers, instead of half a second, so that a client sees at once that a server is back.
HEARTBEAT_INTERVAL = 0.02


def make_core(
    options: ClientOptions,
    where: ScriptedDeployment | LocalServer | str,
    *,
    world: Mapping[str, Any] | None = None,
    jitter: float | None = None,
) -> Core:
    """A client's machinery. Nothing is random on a scripted deployment; `world` replaces `Dependencies`."""
    if isinstance(where, ScriptedDeployment):
        usual = Dependencies(connector=where.connector, jitter=lambda: 1.0, below=lambda _: 0)
    else:
        usual = Dependencies(min_heartbeat_interval=HEARTBEAT_INTERVAL)
    if jitter is not None:
        usual = usual._replace(jitter=lambda: jitter)
    return Core(options, usual._replace(**(world or {})))


def make_client(
    where: ScriptedDeployment | LocalServer | str,
    *,
    world: Mapping[str, Any] | None = None,
    uri: str | None = None,
    jitter: float | None = None,
    **options: Any,
) -> Client:
    """A client that has not connected yet.

    Args:
        where: A deployment, or the connection string of a real one.
        world: Replaces fields of its `Dependencies`.
        uri: Replaces the deployment's connection string.
        jitter: Replaces the random numbers of the backoff; on a scripted deployment it is 1.0 unless set.
        **options: The client's.
    """
    client: Client = AsyncMongoClient(uri or (where if isinstance(where, str) else where.uri), **options)
    client._core = make_core(client.options, where, world=world, jitter=jitter)
    return client


@asynccontextmanager
async def scripted_client(deployment: ScriptedDeployment, **options: Any) -> AsyncIterator[Client]:
    """A client from `make_client`; client and deployment are closed at the end."""
    try:
        async with make_client(deployment, **options) as client:
            yield client
    finally:
        await deployment.close()


@asynccontextmanager
async def one_member(
    answers: Mapping[str, Any] | None = None, *, deployment: ScriptedDeployment | None = None, **options: Any
) -> AsyncIterator[tuple[Client, ScriptedServer]]:
    """A client of a replica set with one member, and that member.

    Args:
        answers: For commands by name, one answer or a list.
        deployment: Another one; its first server is returned.
        **options: Of `make_client`.
    """
    deployment = deployment or ScriptedDeployment(["a:1"], replica_set="rs")
    server = next(iter(deployment.servers.values()))
    for name, given in (answers or {}).items():
        server.on(name, *(given if isinstance(given, list) else [given]))
    async with scripted_client(deployment, **options) as client:
        yield client, server
