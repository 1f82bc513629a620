"""A man in the middle puts bytes in the clear in front of TLS: they must not be taken for what TLS has decrypted."""

from __future__ import annotations

import socket
import threading
import time
from contextlib import suppress
from math import inf
from typing import TYPE_CHECKING, Final

import anyio
import pytest
from anyio.lowlevel import checkpoint

from motorlite._net.current import current_runtime
from motorlite._wire.frames import FrameReader
from motorlite.errors import CertificateError, ProtocolError
from tests.support.event_loops import EVERY_LOOP
from tests.support.peers import PATIENCE, message, server_context
from tests.support.threaded_server import ThreadedServer

if TYPE_CHECKING:
    import ssl

    from motorlite._base.values import Address
    from motorlite._net.runtime import FrameStream
    from motorlite.testing.server.certificates import Certificates

pytestmark = [pytest.mark.anyio, EVERY_LOOP]

REPLY: Final = message(50, 2)
# The beginning of a message that the server's own reply completes.
FORGED: Final = message(90, 9)[:40]


class Server(ThreadedServer):
    """Answers every request with REPLY; may speak first."""

    def __init__(self, tls: ssl.SSLContext | None, greeting: bytes = b"") -> None:
        super().__init__(tls)
        self._greeting = greeting

    def converse(self, connection: socket.socket, number: int) -> None:
        connection.sendall(self._greeting)
        while connection.recv(1_000):
            connection.sendall(REPLY)


class Middle(ThreadedServer):
    """Relays everything untouched, and adds bytes: before all others, or before the server's first."""

    def __init__(self, server: ThreadedServer, added: bytes, *, first: bool) -> None:
        super().__init__()
        self._server = server
        self._added = added
        self._is_first = first

    def converse(self, connection: socket.socket, number: int) -> None:
        if self._is_first:
            connection.sendall(self._added)
        with socket.create_connection(("127.0.0.1", self._server.port), PATIENCE) as server:
            self.sockets.add(server)
            back = threading.Thread(target=self._relay, args=[server, connection])
            back.start()
            with suppress(OSError):
                while data := connection.recv(65536):
                    if not self._is_first:
                        connection.sendall(self._added)
                        self._is_first = True
                    server.sendall(data)
            with suppress(OSError):
                server.shutdown(socket.SHUT_RDWR)
            back.join()
            self.sockets.discard(server)

    def _relay(self, server: socket.socket, connection: socket.socket) -> None:
        with suppress(OSError):
            while data := server.recv(65536):
                connection.sendall(data)
        with suppress(OSError):
            connection.shutdown(socket.SHUT_RDWR)


async def connect(host: str, address: Address, tls: ssl.SSLContext | None) -> tuple[FrameStream, FrameReader]:
    runtime, framer = current_runtime(), FrameReader()
    return await runtime.connect((host, address[1]), framer, runtime.now() + PATIENCE, tls), framer


async def first_reply(host: str, address: Address, tls: ssl.SSLContext) -> bytes | bytearray:
    """What the attacker wants: its bytes and the server's as one message, for which TLS vouches."""
    stream, _ = await connect(host, address, tls)
    try:
        return await stream.exchange(message(40), inf)
    finally:
        stream.abort()


async def busy() -> None:
    """Keep the event loop from noticing at once what arrives: then it arrives all together."""
    while True:
        time.sleep(0.005)  # noqa: ASYNC251  # that is the purpose
        await checkpoint()


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
@pytest.mark.parametrize("is_busy", [False, True], ids=["idle", "busy"])
@pytest.mark.parametrize("first", [True, False], ids=["before", "in between"])
@pytest.mark.parametrize("added", [b"\1", FORGED, message(70, 9), b"\x16\x03\x03\x00\x04abcd"])
async def test_bytes_in_the_clear(
    added: bytes, first: bool, is_busy: bool, host: str, certificates: Certificates, trusting: ssl.SSLContext
) -> None:
    said = "TLS failed: "
    if first and added is FORGED:
        said += "(what arrived is not TLS|bytes arrived in the clear)"
    with (
        Server(server_context(certificates)) as server,
        Middle(server, added, first=first) as middle,
    ):
        async with anyio.create_task_group() as group:
            if is_busy:
                group.start_soon(busy)
            with pytest.raises(CertificateError, match=said):
                await first_reply(host, middle.address, trusting)
            group.cancel_scope.cancel()


async def test_a_relay_that_adds_nothing(certificates: Certificates, trusting: ssl.SSLContext) -> None:
    with (
        Server(server_context(certificates)) as server,
        Middle(server, b"", first=True) as middle,
    ):
        stream, framer = await connect("127.0.0.1", middle.address, trusting)
        assert framer.is_empty
        assert await stream.exchange(message(40), inf) == REPLY
        assert framer.is_empty
        stream.abort()


@pytest.mark.parametrize("is_secured", [False, True], ids=["plain", "tls"])
@pytest.mark.parametrize("greeting", [REPLY, b"\1", b"SSH-2.0-OpenSSH_9.2\r\n"])
async def test_a_server_that_speaks_first(
    greeting: bytes, is_secured: bool, certificates: Certificates, trusting: ssl.SSLContext
) -> None:
    with Server(server_context(certificates) if is_secured else None, greeting) as server:
        with anyio.fail_after(PATIENCE):
            try:
                stream, _ = await connect("127.0.0.1", server.address, trusting if is_secured else None)
            except ProtocolError:
                return  # it was quick
            while stream.is_healthy():  # noqa: ASYNC110  # nobody tells
                await anyio.sleep(0.002)
        if current_runtime().name != "trio":
            assert stream.is_closed
            with pytest.raises(ProtocolError, match="sent more than it was asked for"):
                await stream.exchange(message(40), inf)
        stream.abort()
