"""An overloaded server hangs up during the TLS handshake: what each event loop makes of that, on real sockets."""

from __future__ import annotations

import socket
import ssl
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

import pytest

from motorlite._base.error_documents import RETRYABLE, SYSTEM_OVERLOADED
from motorlite._connection.establish import Establisher, EstablishmentError, HandshakeSettings
from motorlite._net.current import current_runtime
from motorlite.errors import AutoReconnect, NetworkTimeout
from tests.support.event_loops import EVERY_LOOP
from tests.support.peers import listening, server_context, serving

if TYPE_CHECKING:
    from motorlite._base.values import Address
    from motorlite._net.runtime import FrameStream
    from motorlite.testing.server.certificates import Certificates

pytestmark = [pytest.mark.anyio, pytest.mark.real_time, EVERY_LOOP]

OVERLOAD: Final = frozenset({SYSTEM_OVERLOADED, RETRYABLE})
# Closing sends RST instead of FIN.
RESET: Final = b"\1\0\0\0\0\0\0\0"


async def failure_to_open(address: Address, trusting: ssl.SSLContext, seconds: float = 30) -> EstablishmentError:
    runtime = current_runtime()

    async def connect(address: Address, framer: Any, until: float) -> FrameStream:
        return await runtime.connect(address, framer, until, trusting)

    establisher = Establisher(runtime, connect, HandshakeSettings(dict))
    with pytest.raises(EstablishmentError) as caught:
        await establisher.open(address, 1, 1, runtime.now() + seconds, authenticate=True)
    assert caught.value.error.address == address
    return caught.value


def server_flight(certificates: Certificates, hello: bytes, version: ssl.TLSVersion) -> bytes:
    """What a TLS server answers to the client's first message."""
    context = server_context(certificates)
    context.maximum_version = version
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    incoming.write(hello)
    with suppress(ssl.SSLWantReadError):
        context.wrap_bio(incoming, outgoing, server_side=True).do_handshake()
    return outgoing.read()


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3], ids=["TLS 1.2", "TLS 1.3"])
@pytest.mark.parametrize("answered", ["nothing read", "nothing", "five bytes", "half", "everything"])
@pytest.mark.parametrize("is_reset", [False, True], ids=["closed", "reset"])
async def test_hanging_up_is_a_sign_of_overload(
    certificates: Certificates, trusting: ssl.SSLContext, version: ssl.TLSVersion, answered: str, is_reset: bool
) -> None:
    def hang_up(connection: socket.socket) -> None:
        if answered != "nothing read":
            flight = server_flight(certificates, connection.recv(10_000), version)
            lengths = {"nothing": 0, "five bytes": 5, "half": len(flight) // 2, "everything": len(flight)}
            connection.sendall(flight[: lengths[answered]])
        if is_reset:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)

    async with serving(hang_up) as address:
        failed = await failure_to_open(address, trusting)
    assert type(failed.error) is AutoReconnect
    assert failed.error.error_labels == OVERLOAD
    assert not failed.during_authentication
    assert not failed.error.reached_server, "the operation was not sent"


async def test_not_answering_is_a_sign_of_overload(trusting: ssl.SSLContext) -> None:
    # The server queues connections while it is overloaded.
    async with listening("tcp") as (_, address):
        begin = current_runtime().now()
        failed = await failure_to_open(address, trusting, 0.05)
        assert 0.047 <= current_runtime().now() - begin < 5
    assert type(failed.error) is NetworkTimeout
    assert "the connection was not established in time: the TLS handshake did not end" in str(failed.error)
    assert failed.error.error_labels == OVERLOAD
