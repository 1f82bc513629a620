"""The handshake announces backpressure (client backpressure specification, "Handshake changes")."""

from __future__ import annotations

from typing import TYPE_CHECKING

import anyio
import pytest

from motorlite.retry import OverloadRetry
from motorlite.server_api import ServerApi
from motorlite.testing.scripted import ScriptedDeployment
from tests.support.core import driver, find

if TYPE_CHECKING:
    from motorlite.testing.scripted import Received

pytestmark = pytest.mark.anyio


def by_connection(hellos: list[Received]) -> dict[int, list[Received]]:
    found: dict[int, list[Received]] = {}
    for hello in hellos:
        found.setdefault(hello.connection, []).append(hello)
    return found


@pytest.mark.parametrize(("policy", "announced"), [(None, True), (OverloadRetry.revision_2026_07(), "2")])
@pytest.mark.parametrize("api", [None, ServerApi("1")], ids=["legacy hello", "hello"])
async def test_first_hello_of_every_connection_and_no_other(
    policy: OverloadRetry | None, announced: bool | str, api: ServerApi | None
) -> None:
    deployment = ScriptedDeployment(["a:1", "b:1"], replica_set="rs")
    async with driver(deployment, overload_policy=policy, server_api=api) as client:
        await client.run(find())
        # Two more checks by each monitor.
        await anyio.sleep(25)
    for server in deployment.servers.values():
        connections = by_connection(server.hellos)
        assert len(connections) == (2 if server.address == ("a", 1) else 1)
        for first, *later in connections.values():
            assert first.document["backpressure"] == announced
            assert first.document["client"]["driver"]["name"] == "motorlite"
            assert all("backpressure" not in hello.document for hello in later)
        assert max(len(hellos) for hellos in connections.values()) >= 3


async def test_no_other_command_carries_it() -> None:
    deployment = ScriptedDeployment(["a:1"], replica_set="rs")
    async with driver(deployment) as client:
        await client.run(find())
    assert not [command for command in deployment["a:1"].commands() if "backpressure" in command]
