"""The prose tests of the max staleness specification that need no server, or a mongos."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from motorlite import AsyncMongoClient
from motorlite._options.options import client_options
from motorlite.errors import ConfigurationError
from motorlite.testing.scripted import ScriptedDeployment
from tests.support.clients import scripted_client
from tests.support.core import driver

pytestmark = pytest.mark.anyio


def max_staleness(uri: str) -> float:
    made: AsyncMongoClient[dict[str, Any]] = AsyncMongoClient(uri)
    return made.read_preference.max_staleness


def test_connection_string_1_basic() -> None:
    """Connection string, "Basic"."""
    assert max_staleness("mongodb://host/?readPreference=secondary&maxStalenessSeconds=120") == 120


@pytest.mark.parametrize("query", ["maxStalenessSeconds=120", "readPreference=primary&maxStalenessSeconds=120"])
def test_connection_string_2_not_with_primary(query: str) -> None:
    """Connection string, "No maxStalenessSeconds with mode primary"."""
    with pytest.raises(ConfigurationError):
        AsyncMongoClient(f"mongodb://host/?{query}")


@pytest.mark.parametrize("mode", ["secondary", "primary"])
def test_connection_string_3_none(mode: str) -> None:
    """Connection string, 'Specifying "no max staleness" with "-1"'."""
    assert max_staleness(f"mongodb://host/?readPreference={mode}&maxStalenessSeconds=-1") == -1
    assert max_staleness(f"mongodb://host/?readPreference={mode}") == -1


def test_connection_string_4_no_validation() -> None:
    """Connection string, "No validation": a small value is an error when a server is selected."""
    assert max_staleness("mongodb://host/?readPreference=secondary&maxStalenessSeconds=1") == 1


async def test_heartbeat_1_the_frequency_can_be_set() -> None:
    """The heading "heartbeatFrequencyMS is configurable"."""
    assert client_options("mongodb://host/?heartbeatFrequencyMS=500").heartbeat_frequency == 0.5
    deployment = ScriptedDeployment(["a:1"])
    async with driver(deployment, uri="mongodb://a:1/?heartbeatFrequencyMS=500", connect=False):
        await anyio.sleep(10)
        assert 19 <= len(deployment["a:1"].hellos) <= 21


@pytest.mark.parametrize("sent", [{"maxStalenessSeconds": 120}, {}])
async def test_driver_2_direct_connection_to_a_mongos(sent: dict[str, Any]) -> None:
    """Driver tests, "Direct connection to mongos"."""
    deployment = ScriptedDeployment(["a:1"], mongos=True)
    async with scripted_client(deployment, readPreference="secondary", **sent) as motor:
        await motor.db.coll.find_one()
    (command,) = deployment["a:1"].commands("find")
    assert command["$readPreference"] == {"mode": "secondary", **sent}
    # BSON doubles come back as floats.
    assert not any(isinstance(value, float) for value in command["$readPreference"].values())
