"""What every FrameStream promises, on every event loop and over every kind of connection."""

from __future__ import annotations

import asyncio
import gc
import socket
from contextlib import suppress
from math import inf
from typing import TYPE_CHECKING, Any, Final

import anyio
import anyio.lowlevel
import pytest

from motorlite._net.runtime import Parts
from motorlite.errors import AutoReconnect, NetworkTimeout, ProtocolError
from tests.support.event_loops import LOOPS
from tests.support.peers import PATIENCE, Link, SocketPeer, answer, message, open_link

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Coroutine

    from motorlite.testing.server.certificates import Certificates

pytestmark = pytest.mark.anyio

KINDS: Final = ("tcp", "tls", "unix")
SOCKETS: Final = [(backend, kind) for backend in LOOPS for kind in KINDS]
VARIANTS: Final = [*SOCKETS, ("asyncio", "memory"), ("trio", "memory")]

# A loop with a clock of milliseconds may be early by one and say so one too soon.
GRAIN: Final = 0.003
# How late a busy machine may be.
LATE: Final = 5.0
REQUEST: Final = message(50, 1)
REPLY: Final = message(60, 2)
LARGE: Final = 8_000_000


@pytest.fixture(params=VARIANTS, ids="-".join)
def variant(request: pytest.FixtureRequest) -> tuple[str, str]:
    value: tuple[str, str] = request.param
    return value


@pytest.fixture
def anyio_backend(variant: tuple[str, str]) -> tuple[str, dict[str, Any]]:
    return LOOPS[variant[0]]


@pytest.fixture(scope="module", autouse=True)
def quick_collection() -> None:
    """Each test collects garbage; only its own needs looking at."""
    gc.collect()
    gc.freeze()


@pytest.fixture
async def link(variant: tuple[str, str], certificates: Certificates) -> AsyncIterator[Link]:
    async with open_link(variant[1], certificates) as link:
        yield link


only_tls = pytest.mark.parametrize("variant", [v for v in VARIANTS if v[1] == "tls"], ids="-".join, indirect=True)
only_sockets = pytest.mark.parametrize("variant", SOCKETS, ids="-".join, indirect=True)


async def exchange(link: Link, request: bytes = REQUEST, *replies: bytes, until: float = inf) -> bytes | bytearray:
    """An exchange with a peer that answers."""
    async with anyio.create_task_group() as group:
        group.start_soon(answer, link.peer, *(replies or (REPLY,)))
        reply = await link.stream.exchange(request, until)
    return reply


async def timed_out(link: Link, waiting: Coroutine[Any, Any, Any], until: float) -> None:
    """`waiting` ends with a timeout, never early and not much late."""
    with anyio.fail_after(60), pytest.raises(NetworkTimeout, match="no reply in time"):
        await waiting
    assert until - GRAIN <= link.runtime.now() < until + LATE


async def unanswered(link: Link, seconds: float, *, request: bytes = REQUEST, method: str = "exchange") -> None:
    """A request goes out, in whole or in part, and its limit of `seconds` passes.

    A busy machine may let the limit pass before the first byte is written. On trio nothing is sent then, which is
    right, but not what these tests are about: the request is made again with more time.
    """
    while True:
        until = link.after(seconds)
        await timed_out(link, getattr(link.stream, method)(request, until), until)
        if not link.stream.sent_nothing:
            return
        assert not link.stream.has_unsent
        assert seconds < PATIENCE
        seconds *= 4


async def goes_on(link: Link) -> None:
    """The stream can be used as if nothing had happened."""
    assert link.stream.is_healthy()
    assert not link.stream.has_unsent
    assert await exchange(link, REQUEST, message(99, 9)) == message(99, 9)


# --- messages ---


async def test_exchange(link: Link) -> None:
    assert not link.stream.is_closed
    assert not link.stream.has_unsent
    for length in (16, 17, 4_000, 64 * 1024, 64 * 1024 + 1):
        request, reply = message(length, 3), message(length, 4)
        async with anyio.create_task_group() as group:
            received: list[bytes | bytearray] = []

            async def serve(reply: bytes = reply, received: list[bytes | bytearray] = received) -> None:
                received.append(await link.peer.read())
                await link.peer.write(reply)

            group.start_soon(serve)
            assert await link.stream.exchange(request, link.after(30)) == reply
        assert received == [request]
    await goes_on(link)


@pytest.mark.parametrize(
    "variant", [("asyncio", "tcp"), ("asyncio", "unix"), ("uvloop", "tcp")], ids="-".join, indirect=True
)
async def test_a_request_follows_what_was_only_sent(link: Link) -> None:
    """A `send` returns while the transport still has a part of it."""
    sent = 0
    while not link.stream.has_unsent:
        await link.stream.send(message(50_000, 3), link.after(30))
        sent += 1
    assert isinstance(link.peer, SocketPeer)
    # The system has room again, and the event loop does not know it yet.
    received = [link.peer._read() for _ in range(sent // 2)]

    async def serve() -> None:
        while len(received) <= sent:
            received.append(await link.peer.read())
        await link.peer.write(REPLY)

    async with anyio.create_task_group() as group:
        group.start_soon(serve)
        assert await link.stream.exchange(REQUEST, link.after(30)) == REPLY
    assert received == [*[message(50_000, 3)] * sent, REQUEST]


@pytest.mark.parametrize("limited", [True, False])
async def test_exhaust(link: Link, limited: bool) -> None:
    until = link.after(30) if limited else inf
    replies = [message(100 + seed, seed) for seed in range(4)]
    link.stream.expect_more(True)
    assert await exchange(link, REQUEST, b"".join(replies[:3]), until=until) == replies[0]
    assert await link.stream.receive(until) == replies[1]
    assert await link.stream.receive(until) == replies[2]
    async with anyio.create_task_group() as group:
        group.start_soon(link.peer.write, replies[3])
        assert await link.stream.receive(until) == replies[3]
    link.stream.expect_more(False)
    await goes_on(link)


@pytest.mark.parametrize("limited", [True, False])
async def test_send_only(link: Link, limited: bool) -> None:
    await link.stream.send(REQUEST, link.after(30) if limited else inf)
    assert await link.peer.read() == REQUEST
    await goes_on(link)


@pytest.mark.parametrize("limited", [True, False])
async def test_large_messages(link: Link, limited: bool) -> None:
    until = link.after(50) if limited else inf
    request, reply = message(LARGE, 5), message(LARGE + 7, 6)
    assert await exchange(link, request, reply, until=until) == reply
    async with anyio.create_task_group() as group:
        group.start_soon(link.stream.send, request, until)
        assert await link.peer.read() == request
    await goes_on(link)


async def test_a_request_in_parts(link: Link) -> None:
    request = message(LARGE, 5)
    parts = Parts(request[:30], request[30:-2], request[-2:])

    async def read_and_answer() -> None:
        assert await link.peer.read() == request
        await link.peer.write(REPLY)

    async with anyio.create_task_group() as group:
        group.start_soon(read_and_answer)
        assert await link.stream.start_exchange(parts, inf) == REPLY
    await goes_on(link)


async def test_a_reply_in_small_pieces(link: Link) -> None:
    pieces = [REPLY[at : at + 1] for at in range(len(REPLY))]
    assert await exchange(link, REQUEST, *pieces) == REPLY
    large = message(200_000, 7)
    assert await exchange(link, REQUEST, large[:10], large[10:70_000], large[70_000:-1], large[-1:]) == large
    await goes_on(link)


# --- time limits ---


async def test_a_late_reply_is_received(link: Link) -> None:
    await unanswered(link, 0.1)
    assert not link.stream.has_unsent
    assert not link.stream.is_closed
    assert await link.peer.read() == REQUEST
    until = link.after(0.03)
    await timed_out(link, link.stream.receive(until), until)
    async with anyio.create_task_group() as group:
        group.start_soon(link.peer.write, REPLY)
        assert await link.stream.receive(link.after(30)) == REPLY
    await goes_on(link)


async def test_half_a_reply_in_time(link: Link) -> None:
    async with anyio.create_task_group() as group:
        group.start_soon(answer, link.peer, REPLY[:30])
        await unanswered(link, 0.3)
    await link.peer.write(REPLY[30:])
    assert await link.stream.receive(link.after(30)) == REPLY
    await goes_on(link)


async def test_a_reply_that_came_while_nobody_waited(link: Link) -> None:
    await unanswered(link, 0.1)
    await answer(link.peer, REPLY)
    await link.eventually(lambda: not link.stream.is_healthy())
    assert await link.stream.receive(inf) == REPLY
    await goes_on(link)


@pytest.mark.parametrize("next_limit", [30.0, inf])
async def test_an_old_limit_does_not_end_a_later_exchange(link: Link, next_limit: float) -> None:
    until = link.after(0.25)
    async with anyio.create_task_group() as group:
        group.start_soon(answer, link.peer, REPLY)
        try:
            await link.stream.exchange(REQUEST, until)
        except NetworkTimeout:  # too busy a machine; the late reply shows as much
            await (link.stream.exchange(REQUEST, inf) if link.stream.sent_nothing else link.stream.receive(inf))

    async def slow() -> None:
        await link.peer.read()
        await anyio.sleep(max(until + 0.05 - link.runtime.now(), 0))
        await link.peer.write(REPLY)

    async with anyio.create_task_group() as group:
        group.start_soon(slow)
        assert await link.stream.exchange(REQUEST, link.after(next_limit)) == REPLY
    assert link.runtime.now() > until
    await goes_on(link)


async def test_a_limit_in_the_past(link: Link) -> None:
    until = link.after(-1)
    for waiting in (link.stream.receive(until), link.stream.exchange(REQUEST, until)):
        with pytest.raises(NetworkTimeout):
            await waiting


# --- cancellation ---


@pytest.mark.parametrize("limited", [True, False])
async def test_a_cancelled_exchange_keeps_the_late_reply(link: Link, limited: bool) -> None:
    for _ in range(2):
        async with anyio.create_task_group() as group:
            group.start_soon(link.stream.exchange, REQUEST, link.after(30) if limited else inf)
            assert await link.peer.read() == REQUEST
            group.cancel_scope.cancel()
        assert not link.stream.has_unsent
        async with anyio.create_task_group() as group:
            group.start_soon(link.stream.receive, inf)
            await anyio.sleep(0.01)
            group.cancel_scope.cancel()
        await link.peer.write(REPLY)
        assert await link.stream.receive(link.after(30)) == REPLY
    await goes_on(link)


@pytest.mark.parametrize("method", ["exchange", "receive"])
async def test_cancelled_in_the_moment_of_arrival(link: Link, method: str) -> None:
    first, second = message(70, 7), message(80, 8)
    frames: list[bytes | bytearray] = []
    link.stream.expect_more(True)
    if method == "receive":
        await link.stream.send(REQUEST, inf)
    with anyio.CancelScope() as scope:
        task = asyncio.current_task() if link.runtime.name != "trio" else None
        # anyio would wait until the task has seen its result.
        cancel: Callable[[], object] = scope.cancel if task is None else task.cancel
        link.framer.on_frame = cancel
        try:
            async with anyio.create_task_group() as group:
                group.start_soon(answer, link.peer, first + second)
                waiting = link.stream.exchange(REQUEST, inf) if method == "exchange" else link.stream.receive(inf)
                frames.append(await waiting)
        except asyncio.CancelledError:
            assert task is not None
            task.uncancel()
    assert link.framer.on_frame is None
    if task is not None:
        assert not frames
    while len(frames) < 2:
        frames.append(await link.stream.receive(link.after(30)))
    assert frames == [first, second]
    link.stream.expect_more(False)
    await goes_on(link)


# --- a peer that does not read ---


@pytest.mark.parametrize("method", ["exchange", "send"])
@pytest.mark.parametrize("end", ["timeout", "cancellation"])
async def test_a_request_that_stays_unsent(link: Link, method: str, end: str) -> None:
    link.peer.stall()
    if end == "timeout":
        await unanswered(link, 0.1, request=message(LARGE), method=method)
    else:
        async with anyio.create_task_group() as group:
            group.start_soon(getattr(link.stream, method), message(LARGE), inf)
            # Not after a while: on trio, a task whose sleep is over may run before one that was started earlier.
            await link.eventually(lambda: link.stream.has_unsent)
            group.cancel_scope.cancel()
    assert link.stream.has_unsent
    assert not link.stream.is_closed


# --- the end ---


async def assert_over(link: Link) -> None:
    assert link.stream.is_closed
    assert not link.stream.is_healthy()
    for waiting in (
        link.stream.exchange(REQUEST, inf),
        link.stream.receive(inf),
        link.stream.send(REQUEST, link.after(30)),
    ):
        with pytest.raises((AutoReconnect, ProtocolError)) as caught:
            await waiting
        assert not isinstance(caught.value, NetworkTimeout)


@pytest.mark.parametrize("who", ["peer", "client"])
@pytest.mark.parametrize(
    ("method", "arguments"),
    [
        ("exchange", (REQUEST, inf)),
        ("exchange", (message(LARGE), inf)),
        ("receive", (inf,)),
        ("send", (message(LARGE), inf)),
    ],
    ids=["exchange", "large exchange", "receive", "send"],
)
async def test_the_end_wakes_the_waiting_task(link: Link, who: str, method: str, arguments: tuple[Any, ...]) -> None:
    link.peer.stall()
    async with anyio.create_task_group() as group:

        async def end() -> None:
            await anyio.sleep(0.05)
            if who == "peer":
                await link.peer.close()
            else:
                link.stream.abort()

        group.start_soon(end)
        with pytest.raises(AutoReconnect):
            await getattr(link.stream, method)(*arguments)
    await assert_over(link)


async def test_the_peer_closes_an_idle_stream(link: Link) -> None:
    await goes_on(link)
    await link.peer.close()
    await link.eventually(lambda: not link.stream.is_healthy())
    with pytest.raises(AutoReconnect):
        await link.stream.exchange(REQUEST, link.after(30))
    await assert_over(link)


@pytest.mark.parametrize("limited", [True, False])
@pytest.mark.parametrize(
    "sent",
    [b"", REPLY[:3], REPLY[:30], message(200_000)[:150_000]],
    ids=["nothing", "half a header", "half a body", "a large part"],
)
async def test_the_peer_closes_before_the_reply_is_complete(link: Link, sent: bytes, limited: bool) -> None:
    async def close() -> None:
        await link.peer.read()
        await link.peer.write(sent)
        await link.peer.close()

    async with anyio.create_task_group() as group:
        group.start_soon(close)
        with pytest.raises(AutoReconnect, match=r"closed|reset"):
            await link.stream.exchange(REQUEST, link.after(30) if limited else inf)
    await assert_over(link)


async def test_the_peer_closes_after_the_reply(link: Link) -> None:
    async def close() -> None:
        await link.peer.read()
        await link.peer.write(REPLY + REPLY)
        await link.peer.close()

    link.stream.expect_more(True)
    async with anyio.create_task_group() as group:
        group.start_soon(close)
        assert await link.stream.exchange(REQUEST, link.after(30)) == REPLY
    await link.eventually(lambda: not link.stream.is_healthy())
    assert await link.stream.receive(link.after(30)) == REPLY
    with pytest.raises(AutoReconnect):
        await link.stream.receive(link.after(30))
    await assert_over(link)


@only_tls
async def test_the_peer_says_goodbye(link: Link) -> None:
    await goes_on(link)
    assert isinstance(link.peer, SocketPeer)
    await link.peer.say_goodbye()
    with pytest.raises(AutoReconnect):
        await link.stream.receive(link.after(30))
    await assert_over(link)


@only_sockets
async def test_the_peer_crashes(link: Link) -> None:
    peer = link.peer
    assert isinstance(peer, SocketPeer)

    async def reset() -> None:
        await peer.read()
        await peer.reset()

    async with anyio.create_task_group() as group:
        group.start_soon(reset)
        with pytest.raises(AutoReconnect):
            await link.stream.exchange(REQUEST, link.after(30))
    await assert_over(link)


@only_tls
async def test_bytes_that_are_not_tls(link: Link) -> None:
    await goes_on(link)
    assert isinstance(link.peer, SocketPeer)
    with socket.socket(fileno=link.peer.socket.detach()) as plain:
        plain.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        with pytest.raises(AutoReconnect):
            await link.stream.receive(link.after(30))
    await assert_over(link)


@pytest.mark.parametrize("limited", [True, False])
@pytest.mark.parametrize(
    "garbage",
    [b"\0" * 16, b"\xff" * 100, b"HTTP/1.1 400 Bad Request\r\n\r\n"],
    ids=["zeros", "ones", "HTTP"],
)
async def test_garbage(link: Link, garbage: bytes, limited: bool) -> None:
    async with anyio.create_task_group() as group:
        group.start_soon(answer, link.peer, garbage)
        with pytest.raises(ProtocolError, match=r"announces|speaks HTTP"):
            await link.stream.exchange(REQUEST, link.after(30) if limited else inf)
    await assert_over(link)
    with pytest.raises((EOFError, ConnectionError)):
        await link.peer.read()


async def test_garbage_that_nobody_waits_for(link: Link) -> None:
    await link.peer.write(b"\xff" * 100)
    await link.eventually(lambda: not link.stream.is_healthy())
    with pytest.raises((AutoReconnect, ProtocolError)):
        await link.stream.receive(link.after(30))
    await assert_over(link)


async def test_abort_is_seen_by_the_peer(link: Link) -> None:
    await goes_on(link)
    link.stream.abort()
    link.stream.abort()
    await assert_over(link)
    with pytest.raises((EOFError, ConnectionError)):
        await link.peer.read()


@pytest.mark.parametrize("unasked", [REPLY, REPLY[:10]], ids=["message", "part"])
async def test_unasked_bytes_are_unhealthy(link: Link, unasked: bytes) -> None:
    await goes_on(link)
    await link.peer.write(unasked)
    await link.eventually(lambda: not link.stream.is_healthy())
    # Where the stream is not asked, it has found out by itself.
    assert link.stream.is_closed or link.stream.ask_after == 0


# --- more than was asked for ---


@pytest.mark.parametrize("surplus", [REPLY, REPLY[:1], REPLY[:30], b"\xff" * 20, REPLY * 2_000])
async def test_what_follows_a_reply_closes_the_stream(link: Link, surplus: bytes) -> None:
    async def reply() -> None:
        await link.peer.read()
        with suppress(OSError):  # of much, the stream may close before the peer has written all
            await link.peer.write(REPLY + surplus)

    async with anyio.create_task_group() as group:
        group.start_soon(reply)
        assert await link.stream.exchange(REQUEST, inf) == REPLY, "the reply itself is in order"
    await link.eventually(lambda: not link.stream.is_healthy())


async def test_the_reply_to_an_abandoned_request_is_one_reply(link: Link) -> None:
    async with anyio.create_task_group() as group:
        group.start_soon(link.stream.exchange, REQUEST, inf)
        assert await link.peer.read() == REQUEST
        group.cancel_scope.cancel()
    await link.peer.write(REPLY + REPLY)
    assert await link.stream.receive(link.after(30)) == REPLY
    await link.eventually(lambda: not link.stream.is_healthy())


@pytest.mark.parametrize("surplus", [REPLY, REPLY[:1]])
async def test_what_follows_the_last_of_several_replies(link: Link, surplus: bytes) -> None:
    link.stream.expect_more(True)
    assert await exchange(link, REQUEST, REPLY + REPLY + surplus) == REPLY
    assert await link.stream.receive(link.after(30)) == REPLY
    link.stream.expect_more(False)
    await link.eventually(lambda: not link.stream.is_healthy())


@only_sockets
async def test_an_idle_stream_takes_no_flood(link: Link) -> None:
    """The peer's writes come to an end, and long before that nothing more is kept."""
    await goes_on(link)
    written = 0
    with anyio.move_on_after(PATIENCE):
        try:
            for _ in range(200):
                with anyio.fail_after(0.3):
                    await link.peer.write(message(1_000_000))
                written += 1_000_000
        except (OSError, TimeoutError):
            pass  # closed, or what the operating system buffers is full
    assert written <= 20_000_000
    await link.eventually(lambda: not link.stream.is_healthy())


async def test_of_a_flood_of_expected_messages_little_is_kept_and_nothing_lost(link: Link) -> None:
    link.stream.expect_more(True)
    count = 5_000
    messages = [message(100, seed) for seed in range(200)]
    turns = 0
    is_over = False

    async def count_turns() -> None:
        nonlocal turns
        while not is_over:
            turns += 1
            await anyio.lowlevel.checkpoint()

    async with anyio.create_task_group() as group:
        group.start_soon(answer, link.peer, REPLY + b"".join(messages) * (count // 200))
        assert await link.stream.exchange(REQUEST, inf) == REPLY
        await anyio.sleep(0.1)
        if isinstance(link.peer, SocketPeer):
            frames: Any = getattr(link.stream, "_frames")  # noqa: B009  # of either kind of stream
            assert sum(map(len, frames)) <= 64 * 1024
        group.start_soon(count_turns)
        for seed in range(count):
            assert await link.stream.receive(inf) == messages[seed % 200]
        is_over = True
    assert turns >= count // 2, "messages that wait do not keep other tasks waiting"
    link.stream.expect_more(False)
    await goes_on(link)
