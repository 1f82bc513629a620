"""A host with several addresses, of which not all answer: on both backends the good one is found."""

from __future__ import annotations

import gc
import socket
from contextlib import ExitStack, suppress
from math import inf
from random import Random
from typing import TYPE_CHECKING, Any

import anyio
import pytest

from motorlite._net import proxy as proxy_module
from motorlite._net.current import current_runtime
from motorlite._options.parts import ProxyOptions
from motorlite._wire.frames import FrameReader
from motorlite.errors import AutoReconnect, NetworkTimeout, ProxyError
from tests.support.peers import PATIENCE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

pytestmark = pytest.mark.anyio

GOOD, BAD = "127.0.0.1", "127.0.0.2"


@pytest.fixture
def sockets() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


@pytest.fixture
def pair(sockets: ExitStack) -> tuple[socket.socket, socket.socket]:
    """Sockets that are bound to a port of GOOD and the same port of BAD, where no other process can listen then."""
    while True:
        good, bad = (sockets.enter_context(socket.socket()) for _ in range(2))
        good.bind((GOOD, 0))
        with suppress(OSError):  # taken there
            bad.bind((BAD, good.getsockname()[1]))
            return good, bad


@pytest.fixture
def port(pair: tuple[socket.socket, socket.socket]) -> int:
    """Where GOOD listens; BAD refuses."""
    good, _ = pair
    good.listen()
    number: int = good.getsockname()[1]
    return number


@pytest.fixture
def black_hole(sockets: ExitStack, pair: tuple[socket.socket, socket.socket], port: int) -> None:
    """BAD has a full backlog, so it drops what comes, as a route to nowhere does."""
    _, bad = pair
    bad.listen(0)
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
@pytest.mark.parametrize("seconds", [20, inf])
async def test_the_next_is_not_kept_waiting(port: int, resolve: Callable[..., None], seconds: float) -> None:
    resolve(BAD, BAD, GOOD)
    runtime = current_runtime()
    begin = runtime.now()
    await connect(port, seconds)
    # A quarter of a second for each; not what the limit, or the system, would leave to the first.
    assert 0.4 < runtime.now() - begin < 9


@pytest.mark.usefixtures("black_hole")
async def test_the_next_address_of_a_proxy_is_not_kept_waiting(
    port: int, resolve: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    resolve(BAD, GOOD)
    runtime = current_runtime()
    begin = runtime.now()
    accepted: list[float] = []
    real = proxy_module.conversation

    def conversation(*args: Any) -> Any:
        accepted.append(runtime.now() - begin)
        scope.cancel()  # nothing answers at GOOD
        return real(*args)

    monkeypatch.setattr(proxy_module, "conversation", conversation)
    with anyio.CancelScope() as scope:
        await runtime.connect(("server.invalid", 1), FrameReader(), begin + 20, None, ProxyOptions("db.example", port))
    assert len(accepted) == 1
    assert 0.2 < accepted[0] < 9


def open_sockets() -> set[int]:
    # One that is collected without having been closed warns, which fails the test as well.
    return {item.fileno() for item in gc.get_objects() if isinstance(item, socket.socket) and item.fileno() >= 0}


@pytest.mark.slow
@pytest.mark.usefixtures("black_hole")
@pytest.mark.parametrize("has_proxy", [False, True])
async def test_cancelled_at_any_moment_no_socket_stays_open(
    port: int, resolve: Callable[..., None], has_proxy: bool
) -> None:
    """Two addresses answer, and one swallows everything; most cancellations come about when the second is tried."""
    resolve(BAD, GOOD, GOOD)
    runtime = current_runtime()
    proxy = ProxyOptions("db.example", port) if has_proxy else None
    random = Random(1)
    before = open_sockets()
    outcomes = {"cancelled": 0, "connected": 0}

    async def attempt(seconds: float) -> None:
        with anyio.move_on_after(seconds) as scope:
            stream = await runtime.connect(("db.example", port), FrameReader(), inf, None, proxy)
            stream.abort()
        outcomes["cancelled" if scope.cancelled_caught else "connected"] += 1

    for _ in range(20):
        async with anyio.create_task_group() as group:
            for _ in range(9):
                group.start_soon(attempt, random.choice([random.uniform(0, 0.02), random.uniform(0.245, 0.27)]))
            if not has_proxy:  # one that connects, however slow the machine is
                group.start_soon(attempt, 20)
    assert outcomes["cancelled"] > 50
    assert has_proxy or outcomes["connected"] > 10
    with anyio.fail_after(PATIENCE):
        while not open_sockets() <= before:  # noqa: ASYNC110  # no event to wait for
            await anyio.sleep(0.005)


@pytest.mark.usefixtures("black_hole")
async def test_all_swallow_everything(port: int, resolve: Callable[..., None]) -> None:
    resolve(BAD, BAD)
    with pytest.raises(NetworkTimeout):
        await connect(port, 0.3)


async def test_all_refuse(port: int, resolve: Callable[..., None]) -> None:
    resolve(BAD, BAD)
    with pytest.raises(AutoReconnect, match=r"db\.example"):
        await connect(port, 10)
    runtime = current_runtime()
    with pytest.raises(ProxyError, match=r"the SOCKS5 proxy db\.example:\d+ failed"):
        await runtime.connect(
            ("server.invalid", 1), FrameReader(), runtime.now() + 10, None, ProxyOptions("db.example", port)
        )
