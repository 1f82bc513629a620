"""A round-trip time is that of a hello, whatever else it takes to open a connection."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import anyio
import pytest

from motorlite.testing.scripted import Reply, ScriptedDeployment
from tests.support.core import FOUND, A, driver, find, replica_set

if TYPE_CHECKING:
    from motorlite._base.values import Address
    from motorlite._net.runtime import Connector, Framer, FrameStream, Runtime

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]


def far_away(deployment: ScriptedDeployment, seconds: float) -> Any:
    """What `World.connector` expects: connecting takes so long, for example because of TLS."""

    def connector(runtime: Runtime, tls: Any, proxy: Any = None) -> Connector:
        inner = deployment.connector(runtime, tls, proxy)

        async def connect(address: Address, framer: Framer, until: float) -> FrameStream:
            await runtime.sleep(seconds)
            return await inner(address, framer, until)

        return connect

    return connector


@pytest.mark.parametrize("streaming", [False, True])
async def test_connecting_is_not_part_of_it(streaming: bool) -> None:
    deployment = replica_set(streaming=streaming)
    server = deployment["a:1"]
    server.hello_delay = 0.1
    async with driver(deployment, world={"connector": far_away(deployment, 0.3)}) as client:
        await anyio.sleep(5)
        server.announce()
        await anyio.sleep(30)
        stats = client.core.stats().servers[A]
        assert stats.round_trip_time == pytest.approx(0.1)
        assert stats.min_round_trip_time == pytest.approx(0.1)
        # An operation with a time limit is not refused for the sake of connections that it does not need.
        server.on("find", Reply(FOUND, 0.1))
        assert (await client.run(find(), timeout=0.35)).reply.documents == [{"_id": 1}]
