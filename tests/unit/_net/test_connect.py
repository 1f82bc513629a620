"""Opening a stream, and everything that can go wrong with it, on every event loop."""

from __future__ import annotations

import socket
import ssl
from contextlib import suppress
from math import inf
from typing import TYPE_CHECKING, Final

import anyio
import pytest
import trustme
from anyio import to_thread

from motorlite._net.current import current_runtime
from motorlite._net.tls import make_context
from motorlite._options.parts import TLSOptions
from motorlite._wire.frames import FrameReader
from motorlite.errors import AutoReconnect, CertificateError, NameResolutionError, NetworkTimeout
from tests.support.event_loops import EVERY_LOOP
from tests.support.peers import PATIENCE, exceptions, listening, message, server_context, serving

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from motorlite._base.values import Address
    from motorlite._net.runtime import FrameStream
    from motorlite.testing.server.certificates import Certificates

pytestmark = [pytest.mark.anyio, EVERY_LOOP, pytest.mark.usefixtures("nothing_is_left")]

GRAIN: Final = 0.003
LATE: Final = 5.0


async def connect(address: Address, tls: ssl.SSLContext | None = None, until: float | None = None) -> FrameStream:
    runtime = current_runtime()
    return await runtime.connect(address, FrameReader(), runtime.now() + 30 if until is None else until, tls)


def tls_server(context: ssl.SSLContext) -> Callable[[socket.socket], None]:
    """Shakes hands, then answers one message with itself."""

    def serve(connection: socket.socket) -> None:
        with context.wrap_socket(connection, server_side=True) as secured:
            secured.sendall(secured.recv(100))

    return serve


async def assert_works(stream: FrameStream) -> None:
    try:
        assert await stream.exchange(message(50), inf) == message(50)
    finally:
        stream.abort()


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
async def test_refused(host: str) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
        with pytest.raises(AutoReconnect, match=rf"^{host}:{port}: .*(?i:refused|connect call failed)") as caught:
            await connect((host, port))
    assert type(caught.value) is AutoReconnect


async def test_no_such_unix_socket(tmp_path: Path) -> None:
    with pytest.raises(AutoReconnect, match=r"missing\.sock: .*No such file") as caught:
        await connect((str(tmp_path / "missing.sock"), None))
    assert type(caught.value) is AutoReconnect


@pytest.mark.parametrize("host", ["no-such-host.invalid", "x" * 64 + ".invalid", "two..dots"])
async def test_a_name_that_cannot_be_resolved(host: str) -> None:
    with pytest.raises(NameResolutionError, match="cannot be resolved") as caught:
        await connect((host, 27017))
    assert isinstance(exceptions(caught.value)[-1], socket.gaierror | UnicodeError), "errors tell their cause"


async def test_nothing_is_connected_to_where_a_text_is_cut_at_a_nul(tmp_path: Path) -> None:
    path = tmp_path / "a.sock"
    with socket.create_server(("127.0.0.1", 0)) as tcp, socket.socket(socket.AF_UNIX) as unix:
        unix.bind(str(path))
        unix.listen()
        port = tcp.getsockname()[1]
        for address in (("127.0.0.1\0.mongodb.net", port), (f"{path}\0.sock", None)):
            with pytest.raises(NameResolutionError, match="cannot be a host: it contains a NUL"):
                await connect(address)
        for listener in (tcp, unix):
            listener.setblocking(False)
            with pytest.raises(BlockingIOError):
                listener.accept()


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
async def test_tls(host: str, certificates: Certificates, trusting: ssl.SSLContext) -> None:
    async with serving(tls_server(server_context(certificates))) as (_, port):
        await assert_works(await connect((host, port), trusting))


@pytest.mark.parametrize("host", ["::1%lo", "localhost."])
async def test_a_certificate_has_neither_zones_nor_absolute_names(
    host: str, certificates: Certificates, trusting: ssl.SSLContext
) -> None:
    async def dial(address: Address, until: float) -> socket.socket:
        sock = socket.create_connection(where)
        sock.setblocking(False)
        return sock

    async with serving(tls_server(server_context(certificates))) as where:
        runtime = current_runtime()
        stream = await runtime.connect((host, where[1]), FrameReader(), runtime.now() + 30, trusting, dial=dial)
        await assert_works(stream)


async def test_another_host_name(tmp_path: Path) -> None:
    authority = trustme.CA()
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    elsewhere = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("elsewhere.example").configure_cert(elsewhere)
    options = TLSOptions(ca_file=str(tmp_path / "ca.pem"))
    async with serving(tls_server(elsewhere)) as address:
        with pytest.raises(CertificateError, match=r"TLS failed: .*mismatch"):
            await connect(address, make_context(options))
    options = TLSOptions(ca_file=str(tmp_path / "ca.pem"), allow_invalid_hostnames=True)
    async with serving(tls_server(elsewhere)) as address:
        await assert_works(await connect(address, make_context(options)))


async def test_a_server_that_does_not_speak_tls(trusting: ssl.SSLContext) -> None:
    def plain(connection: socket.socket) -> None:
        connection.recv(1_000)
        connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        connection.recv(1_000)

    async with serving(plain) as address:
        with pytest.raises(CertificateError, match="TLS failed"):
            await connect(address, trusting)


async def test_a_server_that_accepts_nobody() -> None:
    async with listening("tcp") as (listener, address):
        listener.listen(0)
        waiting = []
        try:
            for _ in range(8):  # more than any system takes for a backlog of none
                waiting.append(socket.socket())
                waiting[-1].setblocking(False)
                with suppress(BlockingIOError):
                    waiting[-1].connect(address)
            until = current_runtime().now() + 0.1
            with pytest.raises(NetworkTimeout, match=r"not established in time$"):
                await connect(address, None, until)
            assert until - GRAIN <= current_runtime().now() < until + LATE
        finally:
            for sock in waiting:
                sock.close()


@pytest.mark.parametrize("secured", [True, False])
async def test_a_limit_in_the_past(secured: bool, trusting: ssl.SSLContext) -> None:
    async with listening("tcp") as (_, address):
        with pytest.raises(NetworkTimeout):
            await connect(address, trusting if secured else None, current_runtime().now() - 1)


async def test_cancelled_in_the_handshake(trusting: ssl.SSLContext) -> None:
    async with listening("tcp") as (listener, address):
        async with anyio.create_task_group() as group:
            group.start_soon(connect, address, trusting, inf)
            connection, _ = await to_thread.run_sync(listener.accept)
            connection.settimeout(PATIENCE)
            assert await to_thread.run_sync(connection.recv, 1), "the handshake has begun"
            group.cancel_scope.cancel()
        with connection:

            def drain() -> None:
                while connection.recv(10_000):
                    pass

            with suppress(ConnectionResetError):
                await to_thread.run_sync(drain)  # ends when the client's side is closed
