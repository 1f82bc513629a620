"""Opening a stream through a SOCKS5 proxy, and everything that can go wrong with it, on every event loop."""

from __future__ import annotations

import socket
from math import inf
from typing import TYPE_CHECKING, Any, Final

import anyio
import pytest

from motorlite._net.current import current_runtime
from motorlite._options.parts import ProxyOptions
from motorlite._wire.frames import FrameReader
from motorlite.errors import AutoReconnect, CertificateError, NetworkTimeout, ProxyError, ProxyTimeout
from tests.support.event_loops import EVERY_LOOP
from tests.support.peers import PATIENCE, listening, message, server_context
from tests.support.socks5_server import Socks5Server
from tests.support.threaded_server import EchoServer

if TYPE_CHECKING:
    import ssl
    from collections.abc import Iterator

    from motorlite._base.values import Address
    from motorlite._net.runtime import FrameStream
    from motorlite.testing.server.certificates import Certificates

pytestmark = [pytest.mark.anyio, EVERY_LOOP, pytest.mark.usefixtures("nothing_is_left")]

LATE: Final = 5.0


@pytest.fixture
def proxy() -> Iterator[Socks5Server]:
    with Socks5Server() as server:
        yield server


@pytest.fixture
def port() -> Iterator[int]:
    """Where an echo server listens."""
    with EchoServer() as server:
        yield server.port


async def connect(
    address: Address,
    proxy: Socks5Server | ProxyOptions,
    tls: ssl.SSLContext | None = None,
    *,
    seconds: float = 30.0,
) -> FrameStream:
    runtime = current_runtime()
    options = proxy if isinstance(proxy, ProxyOptions) else ProxyOptions("127.0.0.1", proxy.port)
    return await runtime.connect(address, FrameReader(), runtime.now() + seconds, tls, options)


async def assert_works(stream: FrameStream) -> None:
    try:
        for length in (50, 300_000):
            assert await stream.exchange(message(length), inf) == message(length)
    finally:
        stream.abort()


async def failure(address: Address, proxy: Socks5Server | ProxyOptions, text: str, **arguments: Any) -> ProxyError:
    with pytest.raises(ProxyError, match=text) as caught:
        await connect(address, proxy, **arguments)
    host, port = address
    assert str(caught.value).startswith(f"{host}:{port}: the SOCKS5 proxy 127.0.0.")
    assert isinstance(caught.value, AutoReconnect), "as any network error"
    return caught.value


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
async def test_through_the_proxy(host: str, proxy: Socks5Server, port: int) -> None:
    await assert_works(await connect((host, port), proxy))
    assert proxy.requests == [(host, port)]
    assert proxy.methods == [b"\0"]


async def test_a_name_that_only_the_proxy_knows(port: int) -> None:
    with Socks5Server(map_to={"db.internal.invalid:27017": ("127.0.0.1", port)}) as proxy:
        await assert_works(await connect(("db.internal.invalid", 27017), proxy))


async def test_authentication(port: int) -> None:
    with Socks5Server("üser", "p4ss" * 60) as proxy:
        options = ProxyOptions("127.0.0.1", proxy.port, "üser", "p4ss" * 60)
        await assert_works(await connect(("127.0.0.1", port), options))
        assert proxy.methods == [b"\0\2"], "the proxy has the choice"
        wrong = ProxyOptions("127.0.0.1", proxy.port, "üser", "hunter2")
        error = await failure(("127.0.0.1", port), wrong, "it refused proxyUsername and proxyPassword")
        assert "hunter2" not in repr([error, error.__cause__, error.__context__, wrong])
        await failure(("127.0.0.1", port), proxy, "it requires authentication")


async def test_answers_in_pieces(proxy: Socks5Server, port: int) -> None:
    proxy.dribbles = True
    proxy.name_in_reply = 200
    await assert_works(await connect(("127.0.0.1", port), proxy))


@pytest.mark.parametrize("is_secured", [False, True], ids=["plain", "tls"])
async def test_nothing_may_follow_the_reply(
    is_secured: bool, proxy: Socks5Server, certificates: Certificates, trusting: ssl.SSLContext
) -> None:
    """A server never speaks first: it is the proxy, or somebody on the way to it, who puts words into its mouth."""
    with EchoServer(server_context(certificates) if is_secured else None) as echo:
        for trailing in (b"\1", message(70), message(70)[:20], b"\xff" * 20):
            proxy.trailing = trailing
            await failure(
                ("127.0.0.1", echo.port),
                proxy,
                "did not connect: bytes followed its reply",
                tls=trusting if is_secured else None,
            )
        proxy.trailing = b""
        await assert_works(await connect(("127.0.0.1", echo.port), proxy, trusting if is_secured else None))


async def test_tls_is_for_the_server_and_its_name(
    proxy: Socks5Server, certificates: Certificates, trusting: ssl.SSLContext
) -> None:
    with EchoServer(server_context(certificates)) as echo:
        await assert_works(await connect(("localhost", echo.port), proxy, trusting))
        with (
            Socks5Server(map_to={"elsewhere.example:1": ("127.0.0.1", echo.port)}) as other,
            pytest.raises(CertificateError, match=r"^elsewhere\.example:1: TLS failed: .*mismatch"),
        ):
            await connect(("elsewhere.example", 1), other, trusting)


async def test_unix_sockets_need_no_proxy() -> None:
    nobody = ProxyOptions("127.0.0.1", 1)
    async with listening("unix") as (listener, address):
        stream = await connect(address, nobody)
        listener.accept()[0].close()
        stream.abort()


async def test_the_server_refuses(proxy: Socks5Server) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        error = await failure(("127.0.0.1", unused.getsockname()[1]), proxy, "the server refused the connection")
    assert not error.timeout


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
async def test_no_proxy_is_there(host: str) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        options = ProxyOptions(host, unused.getsockname()[1])
        with pytest.raises(
            ProxyError, match=rf"^db:1: the SOCKS5 proxy {host}:\d+ failed: .*(?i:refused|connect call failed)"
        ):
            await connect(("db", 1), options)


async def test_a_proxy_whose_name_cannot_be_resolved() -> None:
    with pytest.raises(ProxyError, match=r"^db:1: the SOCKS5 proxy no-such-host\.invalid:1080 failed"):
        await connect(("db", 1), ProxyOptions("no-such-host.invalid"))


@pytest.mark.parametrize("host", ["x" * 256, "ü" * 300], ids=["long", "long when encoded"])
async def test_a_name_that_cannot_be_sent(host: str, proxy: Socks5Server) -> None:
    with pytest.raises(ProxyError, match="the SOCKS5 proxy"):
        await connect((host, 1), proxy)


@pytest.mark.parametrize("stage", ["connection", "greeting", "request"])
async def test_the_proxy_dies(stage: str, proxy: Socks5Server) -> None:
    proxy.dies_at = stage
    await failure(("db", 1), proxy, "did not connect: it closed the connection|failed: .*reset")


@pytest.mark.parametrize("stage", ["greeting", "request"])
async def test_the_proxy_hangs(stage: str, proxy: Socks5Server) -> None:
    proxy.hangs_at = stage
    started = current_runtime().now()
    error = await failure(("db", 1), proxy, "did not connect in time", seconds=0.1)
    assert 0.09 <= current_runtime().now() - started < LATE
    assert isinstance(error, ProxyTimeout)
    assert isinstance(error, NetworkTimeout)
    assert error.timeout


@pytest.mark.slow
async def test_a_server_that_hangs_behind_the_proxy_is_no_matter_of_the_proxy(
    proxy: Socks5Server, trusting: ssl.SSLContext
) -> None:
    async with listening("tcp") as (_, address):
        with pytest.raises(NetworkTimeout, match="not established in time") as caught:
            await connect(address, proxy, trusting, seconds=1.0)
    assert not isinstance(caught.value, ProxyError)


@pytest.mark.parametrize("stage", ["greeting", "request"])
async def test_cancelled_in_the_conversation(stage: str, proxy: Socks5Server) -> None:
    proxy.hangs_at = stage
    with anyio.move_on_after(0.05) as scope:
        await connect(("db", 1), proxy)
    assert scope.cancelled_caught
    # The proxy's threads end when the client's socket is closed: else its `__exit__` would have to drop it.
    limit = current_runtime().now() + PATIENCE
    while proxy.sockets:
        assert current_runtime().now() < limit
        await anyio.sleep(0.002)
