"""A server that sends more than it was asked for: the connection ends, and no operation hears of it."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final

import anyio
import anyio.lowlevel
import pytest

from motorlite import AsyncMongoClient
from motorlite.errors import ProtocolError
from motorlite.testing.scripted import encode_reply
from motorlite.testing.server.certificates import Certificates, make_certificates
from tests.support.lying_server import LyingServer
from tests.support.peers import server_context

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = [pytest.mark.anyio, pytest.mark.real_time]

BACKENDS: Final[dict[str, tuple[str, dict[str, Any]]]] = {
    "asyncio": ("asyncio", {}),
    "uvloop": ("asyncio", {"use_uvloop": True}),
    "trio": ("trio", {}),
}
# What follows each reply. The reply to a request that the client will soon make is among it.
SURPLUS: Final[dict[str, bytes]] = {
    "a byte": b"\1",
    "garbage": b"\xff" * 40,
    "a message": encode_reply(7, 0, {"ok": 1}),
    "messages": b"".join(encode_reply(7, number, {"ok": 1, "forged": True}) for number in range(200)),
    "half a message": encode_reply(7, 0, {"ok": 1})[:20],
}


@pytest.fixture(params=BACKENDS.values(), ids=list(BACKENDS))
def anyio_backend(request: pytest.FixtureRequest) -> tuple[str, dict[str, Any]]:
    backend: tuple[str, dict[str, Any]] = request.param
    return backend


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return make_certificates(tmp_path_factory.mktemp("certificates"))


async def run(server: LyingServer, pause: Callable[[], object], **options: Any) -> list[Any]:
    """Ten pings, one after the other, without retries."""
    async with AsyncMongoClient(
        *server.address, directConnection=True, retryReads=False, retryWrites=False, **options
    ) as client:
        replies = []
        for number in range(10):
            replies.append(await client.admin.command("ping", number))
            pause()
            # asyncio sees that there is something to read only behind this task, and reads it in the next turn.
            for _ in range(2):
                await anyio.lowlevel.checkpoint()
        return replies


@pytest.mark.parametrize("surplus", SURPLUS.values(), ids=list(SURPLUS))
@pytest.mark.parametrize("is_secured", [False, True], ids=["plain", "tls"])
async def test_the_next_operation_gets_another_connection(
    surplus: bytes, is_secured: bool, certificates: Certificates
) -> None:
    options = {"tls": True, "tlsCAFile": str(certificates.ca_file)} if is_secured else {}
    with LyingServer(server_context(certificates) if is_secured else None) as server:
        server.lies = lambda _, reply: [reply + surplus]
        # The loop does not run while the rest of it arrives.
        assert await run(server, lambda: time.sleep(0.01), **options) == [{"ok": 1}] * 10
    numbers = [number for name, number in server.commands if name == "ping"]
    assert len(set(numbers)) == 10


@pytest.mark.slow
@pytest.mark.parametrize("is_secured", [False, True], ids=["plain", "tls"])
async def test_it_comes_a_little_later(is_secured: bool, certificates: Certificates) -> None:
    options = {"tls": True, "tlsCAFile": str(certificates.ca_file)} if is_secured else {}

    def lie(command: dict[str, Any], reply: bytes) -> list[bytes]:
        return [reply, SURPLUS["messages"]]

    with LyingServer(server_context(certificates) if is_secured else None) as server:
        server.lies = lie
        # Long enough for it to arrive, on a machine that is busy as well.
        assert await run(server, lambda: time.sleep(0.1), **options) == [{"ok": 1}] * 10
    numbers = [number for name, number in server.commands if name == "ping"]
    assert len(set(numbers)) == 10


async def test_an_operation_that_is_lied_to_fails() -> None:
    with LyingServer() as server:
        server.lies = lambda _, reply: [SURPLUS["messages"]]
        with pytest.raises(ProtocolError, match="expected the reply to request"):
            await run(server, lambda: None)
