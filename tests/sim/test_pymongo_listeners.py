"""Listeners written for PyMongo: its own event loggers find in every event what they look for."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

import pytest
from pymongo import event_loggers

from motorlite.testing.scripted import ScriptedDeployment, failure
from tests.support.clients import scripted_client

if TYPE_CHECKING:
    from collections.abc import Sequence

pytestmark = pytest.mark.anyio

KINDS: Sequence[Any] = (
    event_loggers.CommandLogger,
    event_loggers.ServerLogger,
    event_loggers.HeartbeatLogger,
    event_loggers.TopologyLogger,
    event_loggers.ConnectionPoolLogger,
)


@pytest.mark.parametrize("kind", KINDS)
async def test_event_loggers(kind: Any, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    deployment = ScriptedDeployment(["a:1"], replica_set="rs")
    deployment["a:1"].on("ping", {"ok": 1}, failure(59), {"ok": 1})
    async with scripted_client(deployment, event_listeners=[kind()], heartbeatFrequencyMS=500) as client:
        await client.admin.command("ping")
        await client.admin.command("ping", check=False)
        await client.admin.command("ping")
    assert [record for record in caplog.records if record.name == "root"]
    # A listener that fails is logged as an error.
    assert [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR] == []
