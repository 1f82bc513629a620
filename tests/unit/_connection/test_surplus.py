"""A server that sends more than it was asked for: the connection ends, and no operation hears of it."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final

import anyio
import anyio.lowlevel
import pytest

from motorlite import AsyncMongoClient
from motorlite.testing.scripted import encode_reply
from tests.support.event_loops import EVERY_LOOP
from tests.support.lying_server import LyingServer
from tests.support.peers import server_context

if TYPE_CHECKING:
    from motorlite.testing.server.certificates import Certificates

pytestmark = [pytest.mark.anyio, pytest.mark.real_time, EVERY_LOOP]

# What follows each reply. The reply to a request that the client will soon make is among it.
SURPLUS: Final[dict[str, bytes]] = {
    "a byte": b"\1",
    "garbage": b"\xff" * 40,
    "a message": encode_reply(7, 0, {"ok": 1}),
    "messages": b"".join(encode_reply(7, number, {"ok": 1, "forged": True}) for number in range(200)),
    "half a message": encode_reply(7, 0, {"ok": 1})[:20],
}


@pytest.mark.parametrize(
    ("surplus", "is_later"),
    [
        *(pytest.param(surplus, False, id=name) for name, surplus in SURPLUS.items()),
        pytest.param(SURPLUS["messages"], True, id="messages, a little later", marks=pytest.mark.slow),
    ],
)
@pytest.mark.parametrize("is_secured", [False, True], ids=["plain", "tls"])
async def test_the_next_operation_gets_another_connection(
    surplus: bytes, is_later: bool, is_secured: bool, certificates: Certificates
) -> None:
    options: dict[str, Any] = {"tls": True, "tlsCAFile": str(certificates.ca_file)} if is_secured else {}
    with LyingServer(server_context(certificates) if is_secured else None) as server:
        server.lies = lambda _, reply: [reply, surplus] if is_later else [reply + surplus]
        async with AsyncMongoClient(
            *server.address, directConnection=True, retryReads=False, retryWrites=False, **options
        ) as client:
            for number in range(10):
                assert await client.admin.command("ping", number) == {"ok": 1}
                # The loop does not run while the rest of it arrives, on a machine that is busy as well.
                time.sleep(0.1 if is_later else 0.01)  # noqa: ASYNC251
                # asyncio sees that there is something to read only behind this task, and reads it in the next turn.
                for _ in range(2):
                    await anyio.lowlevel.checkpoint()
    numbers = [number for name, number in server.commands if name == "ping"]
    assert len(set(numbers)) == 10
