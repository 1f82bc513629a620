"""A host with several addresses, of which not all answer: on both backends the good one is found."""

from __future__ import annotations

import socket
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING, Any

import pytest

from motorlite._net.current import current_runtime
from motorlite._wire.frames import FrameReader
from motorlite.errors import AutoReconnect, NetworkTimeout, ProxyError, ProxyTimeout
from motorlite.options import ProxyOptions

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

pytestmark = pytest.mark.anyio

GOOD, BAD = "127.0.0.1", "127.0.0.2"


@pytest.fixture
def sockets() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


@pytest.fixture
def port(sockets: ExitStack) -> int:
    """Where GOOD listens; BAD refuses."""
    listener = sockets.enter_context(socket.socket())
    listener.bind((GOOD, 0))
    listener.listen()
    number: int = listener.getsockname()[1]
    return number


@pytest.fixture
def black_hole(sockets: ExitStack, port: int) -> None:
    """BAD has a full backlog, so it drops what comes, as a route to nowhere does."""
    listener = sockets.enter_context(socket.socket())
    listener.bind((BAD, port))
    listener.listen(0)
    for _ in range(4):
        filler = sockets.enter_context(socket.socket())
        filler.setblocking(False)
        with suppress(BlockingIOError):
            filler.connect((BAD, port))


@pytest.fixture
def resolve(monkeypatch: pytest.MonkeyPatch, port: int) -> Callable[..., None]:
    """Make the name `db.example` stand for these addresses."""
    real = socket.getaddrinfo

    def set_addresses(*addresses: str) -> None:
        found = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port)) for address in addresses]

        def getaddrinfo(host: Any, *args: Any, **kwargs: Any) -> Any:
            return found if host in ("db.example", b"db.example") else real(host, *args, **kwargs)

        monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)

    return set_addresses


async def connect(port: int, seconds: float) -> None:
    runtime = current_runtime()
    stream = await runtime.connect(("db.example", port), FrameReader(), runtime.now() + seconds, None)
    stream.abort()
    await runtime.sleep(0)


async def test_the_first_refuses(port: int, resolve: Callable[..., None]) -> None:
    resolve(BAD, GOOD)
    await connect(port, 10)


@pytest.mark.usefixtures("black_hole")
async def test_the_first_swallows_everything(port: int, resolve: Callable[..., None]) -> None:
    resolve(BAD, GOOD)
    await connect(port, 1)


@pytest.mark.usefixtures("black_hole")
async def test_all_swallow_everything(port: int, resolve: Callable[..., None]) -> None:
    resolve(BAD, BAD)
    with pytest.raises(NetworkTimeout):
        await connect(port, 0.3)


async def test_all_refuse(port: int, resolve: Callable[..., None]) -> None:
    resolve(BAD, BAD)
    with pytest.raises(AutoReconnect, match=r"db\.example"):
        await connect(port, 10)


async def test_a_proxy_with_several_addresses(resolve: Callable[..., None], port: int) -> None:
    """They are tried as those of a server are."""
    resolve(BAD, GOOD)
    runtime = current_runtime()
    proxy = ProxyOptions("db.example", port)
    # The listener never answers: that it was reached shows in the time that it takes.
    with pytest.raises(ProxyTimeout, match="did not connect in time"):
        await runtime.connect(("server.invalid", 1), FrameReader(), runtime.now() + 0.2, None, proxy)
    resolve(BAD, BAD)
    with pytest.raises(ProxyError, match=r"the SOCKS5 proxy db\.example:\d+ failed"):
        await runtime.connect(("server.invalid", 1), FrameReader(), runtime.now() + 10, None, proxy)
