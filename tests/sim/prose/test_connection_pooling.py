"""The prose tests of the connection monitoring and pooling specification."""

from __future__ import annotations

import inspect
from typing import Any

import anyio
import pytest

from motorlite import AsyncMongoClient
from motorlite._options.options import client_options
from motorlite.errors import AutoReconnect
from motorlite.monitoring import ConnectionCheckOutFailedEvent, PoolCreatedEvent, PoolEvent
from motorlite.testing.scripted import Close, ScriptedDeployment
from tests.support.clients import scripted_client
from tests.support.events import Recorder

pytestmark = pytest.mark.anyio

OPTIONS: dict[str, Any] = {
    "maxPoolSize": 7,
    "minPoolSize": 2,
    "maxIdleTimeMS": 3000,
    "maxConnecting": 4,
    "waitQueueTimeoutMS": 500,
}
ATTRIBUTES = {
    "max_pool_size": 7,
    "min_pool_size": 2,
    "max_idle_time": 3.0,
    "max_connecting": 4,
    "wait_queue_timeout": 0.5,
}


def values(options: Any) -> dict[str, Any]:
    return {name: getattr(options, name) for name in ATTRIBUTES}


def test_1_all_options_belong_to_the_client() -> None:
    """Prose test 1: they are taken by the client, and by nothing else."""
    client: AsyncMongoClient[dict[str, Any]] = AsyncMongoClient("mongodb://host/", **OPTIONS)
    assert values(client.options) == ATTRIBUTES
    parts = (client.get_database, client.db.get_collection, client.start_session, client.db.coll.find)
    for method in parts:
        taken = {name.lower().replace("_", "") for name in inspect.signature(method).parameters}
        assert not taken & {name.lower() for name in OPTIONS}


async def test_2_all_pools_of_a_client_have_the_same_options() -> None:
    """Prose test 2."""
    deployment = ScriptedDeployment(["a:1", "b:1", "c:1"], replica_set="rs")
    log = Recorder(PoolEvent)
    async with scripted_client(deployment, event_listeners=[log], **OPTIONS) as client:
        await client.admin.command("ping")
        await anyio.sleep(1)
        created = log.of(PoolCreatedEvent)
        assert sorted(event.address[0] for event in created) == ["a", "b", "c"]
        assert all(event.options == OPTIONS for event in created)


def test_3_all_options_can_be_in_the_connection_string() -> None:
    """Prose test 3."""
    query = "&".join(f"{name}={value}" for name, value in OPTIONS.items())
    assert values(client_options(f"mongodb://host/?{query}")) == ATTRIBUTES


async def test_4_an_application_can_listen_to_the_events() -> None:
    """Prose test 4: with a subclass of the listener that is given to the client."""
    log = Recorder(PoolEvent)
    async with scripted_client(ScriptedDeployment(["a:1"]), event_listeners=[log]) as client:
        await client.admin.command("ping")
        assert log.words("created|ready|check") == [
            "pool created",
            "pool ready",
            "check-out started",
            "created 1",
            "ready 1",
            "checked out 1",
            "checked in 1",
        ]
    assert log.words("closed") == ["closed 1 poolClosed", "pool closed"]


async def test_5_a_check_out_that_fails_because_the_connection_cannot_be_set_up() -> None:
    """Prose test 5."""
    deployment = ScriptedDeployment(["a:1"])
    log = Recorder(PoolEvent)
    async with scripted_client(deployment, event_listeners=[log], maxAdaptiveRetries=0, retryReads=False) as client:
        core: Any = client._core
        core.enter()
        await anyio.sleep(1)
        deployment["a:1"].on("isMaster", Close())
        with pytest.raises(AutoReconnect):
            await client.db.coll.find_one()
        (failed,) = log.of(ConnectionCheckOutFailedEvent)
        assert failed.reason == "connectionError"
        assert isinstance(failed.error, AutoReconnect)
