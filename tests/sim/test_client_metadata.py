"""Which connections carry the metadata that a library appended (handshake specification)."""

from __future__ import annotations

import anyio
import pytest

from motorlite import DriverInfo
from motorlite.testing.scripted import ScriptedDeployment
from tests.support.clients import scripted_client

pytestmark = pytest.mark.anyio

FRAMEWORK = DriverInfo("framework", "2.0")


def names(deployment: ScriptedDeployment) -> list[str]:
    """The names in each handshake that arrived."""
    hellos = (hello.document for hello in deployment["a:1"].hellos)
    return [hello["client"]["driver"]["name"] for hello in hellos if "client" in hello]


async def test_open_connections_stay_as_they_are() -> None:
    deployment = ScriptedDeployment(["a:1"])
    async with scripted_client(deployment) as client:
        await client.admin.command("ping")
        client.append_metadata(FRAMEWORK)
        await client.admin.command("ping")
        await anyio.sleep(30)
        assert deployment["a:1"].connections_made == 2
        assert len(deployment["a:1"].open_connections) == 2
    assert names(deployment) == ["motorlite", "motorlite"]


async def test_new_connections_of_monitors_carry_it() -> None:
    deployment = ScriptedDeployment(["a:1"], streaming=True)
    async with scripted_client(deployment) as client:
        await client.admin.command("ping")
        await anyio.sleep(1)
        before = names(deployment)
        assert before == ["motorlite"] * 3
        client.append_metadata(FRAMEWORK)
        deployment["a:1"].drop_connections()
        await anyio.sleep(30)
        after = names(deployment)[len(before) :]
        assert after == ["motorlite|framework"] * len(after)
        assert len(after) >= 2, "the monitor's and that which measures round-trip times"


async def test_polling_where_functions_are_a_service_and_metadata_has_no_room_to_say_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("AWS_EXECUTION_ENV", "AWS_Lambda_python3.11")
    deployment = ScriptedDeployment(["a:1"], streaming=True)
    async with scripted_client(deployment, driver=DriverInfo("library", None, "p" * 400)) as client:
        await client.admin.command("ping")
        await anyio.sleep(15)
    assert "env" not in deployment["a:1"].hellos[0].document["client"]
    assert all("maxAwaitTimeMS" not in hello.document for hello in deployment["a:1"].hellos)
