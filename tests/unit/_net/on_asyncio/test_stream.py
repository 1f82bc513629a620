"""What only the asyncio stream does, on a transport without a socket and in virtual time."""

from __future__ import annotations

import asyncio
import gc
import ssl
from math import inf
from typing import TYPE_CHECKING, Any

import pytest

from motorlite._net.on_asyncio.stream import AsyncioStream, Silence
from motorlite._wire.frames import FrameReader
from motorlite.errors import AutoReconnect, NetworkTimeout
from tests.support import virtual_time
from tests.support.cancellation import InterruptedFuture
from tests.support.peers import message
from tests.support.virtual_time import START

if TYPE_CHECKING:
    from collections.abc import Coroutine

pytestmark = pytest.mark.anyio

REQUEST = message(40, 1)
REPLY = message(50, 2)


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, Any]]:
    return virtual_time.backend("asyncio")


class Transport(asyncio.Transport):
    """Takes everything."""

    def __init__(self) -> None:
        super().__init__()
        self.written: list[bytes] = []
        self.is_aborted = False
        self.is_paused = False
        self.unsent = 0

    def pause_reading(self) -> None:
        self.is_paused = True

    def resume_reading(self) -> None:
        self.is_paused = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.written.append(bytes(data))

    def abort(self) -> None:
        self.is_aborted = True

    def is_closing(self) -> bool:
        return self.is_aborted

    def get_write_buffer_size(self) -> int:
        return self.unsent


class Socket:
    """Takes as many bytes as given, or fails."""

    def __init__(self, result: int | OSError) -> None:
        self._result = result

    def send(self, data: bytes) -> int:
        if isinstance(self._result, OSError):
            raise self._result
        return self._result


def new_stream(sock: Any = None) -> AsyncioStream:
    stream = AsyncioStream(("a", 1), FrameReader(), asyncio.get_running_loop(), sock)
    stream.connection_made(Transport())
    return stream


def deliver(stream: AsyncioStream, data: bytes) -> None:
    while data:
        buffer = stream.get_buffer(-1)
        count = min(len(buffer), len(data))
        buffer[:count] = data[:count]
        stream.buffer_updated(count)
        data = data[count:]


def later(seconds: float, function: Any, *args: Any) -> None:
    asyncio.get_running_loop().call_later(seconds, function, *args)


def now() -> float:
    return asyncio.get_running_loop().time()


async def fails_at(moment: float, waiting: Coroutine[Any, Any, Any]) -> None:
    with pytest.raises(NetworkTimeout, match=r"^a:1: no reply in time$"):
        await waiting
    assert now() == moment


@pytest.fixture
def timers(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """When each timer that the stream made would fire."""
    made: list[float] = []
    call_at = virtual_time.VirtualTimeLoop.call_at

    def counting(loop: Any, when: float, callback: Any, *args: Any, **options: Any) -> asyncio.TimerHandle:
        if isinstance(getattr(callback, "__self__", None), AsyncioStream):
            made.append(when)
        return call_at(loop, when, callback, *args, **options)

    monkeypatch.setattr(virtual_time.VirtualTimeLoop, "call_at", counting)
    return made


async def test_limits_are_exact_with_one_timer(timers: list[float]) -> None:
    stream = new_stream()
    for _ in range(100):
        later(1 / 128, deliver, stream, REPLY)
        assert await stream.exchange(REQUEST, now() + 30) == REPLY
    assert timers == [START + 30]
    await fails_at(now() + 29.5, stream.exchange(REQUEST, now() + 29.5))  # past the moment that the timer is for
    assert timers == [START + 30, START + 100 / 128 + 29.5]


async def test_an_earlier_limit_replaces_the_timer(timers: list[float]) -> None:
    stream = new_stream()
    later(1, deliver, stream, REPLY)
    await stream.exchange(REQUEST, START + 100)
    later(1, deliver, stream, REPLY)
    await stream.exchange(REQUEST, START + 10)
    await fails_at(START + 50, stream.receive(START + 50))
    assert timers == [START + 100, START + 10, START + 50]
    await fails_at(START + 51, stream.receive(START + 51))


@pytest.mark.parametrize("taken", [0, 1, len(REQUEST) - 1, BlockingIOError(), InterruptedError()])
async def test_the_transport_sends_what_the_system_does_not_take(taken: int | OSError) -> None:
    stream = new_stream(Socket(taken))
    later(1, deliver, stream, REPLY)
    assert await stream.exchange(REQUEST, inf) == REPLY
    transport: Any = stream._transport
    assert transport.written == [REQUEST[taken if isinstance(taken, int) else 0 :]]
    # The transport may still have bytes of the first request.
    later(1, deliver, stream, REPLY)
    await stream.exchange(REQUEST, inf)
    assert transport.written[1:] == [REQUEST]


@pytest.mark.parametrize("unsent", [0, 1])
async def test_the_transport_sends_large_requests(unsent: int) -> None:
    """Only it knows how much of a request is unsent when the stream breaks, or when the server answers early."""
    stream = new_stream(Socket(len(REQUEST)))
    large = message(20_000, 3)
    transport: Any = stream._transport
    transport.unsent = unsent
    for request in (large, REQUEST):
        later(1, deliver, stream, REPLY)
        assert await stream.exchange(request, inf) == REPLY
    assert transport.written == [large, REQUEST][: 1 + unsent]


async def test_a_socket_that_fails() -> None:
    stream = new_stream(Socket(ConnectionResetError(104, "Connection reset by peer")))
    with pytest.raises(AutoReconnect, match=r"^a:1: \[Errno 104\] Connection reset by peer$"):
        await stream.exchange(REQUEST, inf)
    transport: Any = stream._transport
    assert (stream.is_closed, stream.sent_nothing, stream.has_unsent) == (True, True, False)
    assert (transport.is_aborted, transport.written) == (True, [])


async def test_no_limit_needs_no_timer(timers: list[float]) -> None:
    stream = new_stream()
    later(1, deliver, stream, REPLY)
    await stream.exchange(REQUEST, inf)
    assert timers == []
    later(1, deliver, stream, REPLY)
    await stream.exchange(REQUEST, START + 10)
    later(20, deliver, stream, REPLY)
    assert await stream.exchange(REQUEST, inf) == REPLY
    assert now() == START + 22
    assert timers == [START + 10]
    await fails_at(START + 30, stream.exchange(REQUEST, START + 30))


async def test_an_idle_stream_lets_its_timer_pass(timers: list[float]) -> None:
    stream = new_stream()
    later(1, deliver, stream, REPLY)
    await stream.exchange(REQUEST, START + 10)
    await asyncio.sleep(20)
    assert timers == [START + 10]
    await fails_at(START + 25, stream.exchange(REQUEST, START + 25))


async def test_a_closed_stream_keeps_no_timer() -> None:
    stream = new_stream()
    later(1, deliver, stream, REPLY)
    await stream.exchange(REQUEST, START + 10_000)
    stream.abort()
    timers: list[asyncio.TimerHandle] = vars(asyncio.get_running_loop())["_scheduled"]
    assert all(timer.cancelled() for timer in timers)


@pytest.mark.parametrize("reply_first", [True, False])
async def test_the_reply_comes_in_the_moment_of_the_timeout(reply_first: bool) -> None:
    stream = new_stream()
    # A stand-in for the timer, to have both callbacks in one turn and in a known order.
    loop = asyncio.get_running_loop()

    def both() -> None:
        actions = [lambda: deliver(stream, REPLY), stream._check_limit]
        for action in actions if reply_first else reversed(actions):
            action()

    loop.call_at(START + 5 - 1e-9, both)
    if reply_first:
        assert await stream.exchange(REQUEST, START + 5) == REPLY
    else:
        with pytest.raises(NetworkTimeout):
            await stream.exchange(REQUEST, START + 5)
        assert await stream.receive(inf) == REPLY
    assert stream.is_healthy()


@pytest.mark.parametrize("is_resumed_between", [True, False])
@pytest.mark.parametrize("end", ["timeout", "cancellation"])
async def test_send_after_a_send_that_gave_up(end: str, is_resumed_between: bool) -> None:
    stream = new_stream()
    stream.pause_writing()
    if end == "timeout":
        await fails_at(START + 5, stream.send(REQUEST, START + 5))
    else:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(5):
                await stream.send(REQUEST, inf)
    if is_resumed_between:
        stream.resume_writing()
        await stream.send(REQUEST, START + 60)
        assert now() == START + 5
        stream.pause_writing()
    later(2, stream.resume_writing)
    await stream.send(REQUEST, START + 60)
    assert now() == START + 7
    await stream.send(REQUEST, START + 60)
    assert now() == START + 7


@pytest.mark.parametrize("how", ["lost", "eof", "abort", "cancelled in the same turn", "resumed"])
async def test_the_loop_has_nothing_to_complain_of(how: str) -> None:
    complaints: list[dict[str, Any]] = []
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _, context: complaints.append(context))
    stream = new_stream()
    task = loop.create_task(stream.exchange(REQUEST, START + 5))
    await asyncio.sleep(1)
    stream.pause_writing()  # the request is large, and nobody waits for this
    if how == "lost":
        stream.connection_lost(ConnectionResetError(104, "Connection reset by peer"))
    elif how == "eof":
        assert not stream.eof_received()
        stream.connection_lost(None)
    elif how == "abort":
        stream.abort()
        stream.connection_lost(None)
    elif how == "resumed":
        stream.resume_writing()
        stream.abort()
    else:
        stream.abort()
        task.cancel()
    await asyncio.wait([task])
    if how == "cancelled in the same turn":
        assert task.cancelled()
    else:
        assert isinstance(task.exception(), AutoReconnect)
    del task, stream
    gc.collect()
    await asyncio.sleep(1)
    assert complaints == []


async def test_the_first_reason_is_the_one_that_is_told() -> None:
    stream = new_stream()
    stream.connection_lost(ConnectionResetError(104, "Connection reset by peer"))
    stream.abort()
    errors = []
    for _ in range(2):
        with pytest.raises(AutoReconnect, match=r"a:1: .*Connection reset by peer") as caught:
            await stream.receive(inf)
        errors.append(caught.value)
    assert errors[0] is not errors[1]
    stream = new_stream()
    stream.connection_lost(None)
    with pytest.raises(AutoReconnect, match="a:1: the connection is closed"):
        await stream.receive(inf)


async def test_a_closing_transport_is_unhealthy() -> None:
    stream = new_stream()
    assert stream.is_healthy()
    assert not stream.has_unsent
    stream._transport.abort()
    assert not stream.is_healthy()


async def test_a_closed_stream_will_send_no_more() -> None:
    stream = new_stream()
    transport = stream._transport
    assert isinstance(transport, Transport)
    transport.unsent = 5
    assert stream.has_unsent
    stream.abort()
    assert not stream.has_unsent


@pytest.mark.parametrize("count", [1, 3])
async def test_expected_messages_that_arrive_one_by_one_pause_reading(count: int) -> None:
    """However the bytes are cut into reads, a stream keeps no more than those of one read."""
    stream, transport = new_stream(), Transport()
    stream.connection_made(transport)
    stream.expect_more(True)
    later(1, deliver, stream, REPLY)
    assert await stream.exchange(REQUEST, inf) == REPLY
    assert not transport.is_paused, "nothing waits to be received"
    deliver(stream, REPLY * count)
    assert transport.is_paused
    for _ in range(count):
        assert transport.is_paused
        assert await stream.receive(inf) == REPLY
    assert not transport.is_paused


async def test_only_the_connection_limits_a_tls_handshake(monkeypatch: pytest.MonkeyPatch) -> None:
    limits: list[float] = []

    async def start_tls(*_args: object, ssl_handshake_timeout: float = 60, **_options: object) -> None:
        limits.append(ssl_handshake_timeout)
        raise ConnectionResetError

    stream, lower = new_stream(), Transport()
    monkeypatch.setattr(lower, "get_protocol", Silence)
    monkeypatch.setattr(asyncio.get_running_loop(), "start_tls", start_tls)
    with pytest.raises(ConnectionResetError):
        await stream.secure(lower, ssl.create_default_context(), "a")
    assert limits[0] > 1_000_000


# --- Ctrl-C, in the moment in which a task is woken ---


@pytest.mark.parametrize("size", [len(REPLY), 10], ids=["at once", "in parts"])
async def test_a_reply_whose_task_is_cancelled_as_it_arrives(size: int) -> None:
    stream = new_stream()
    stream._make_waiter = lambda: InterruptedFuture(loop=asyncio.get_running_loop())
    task = asyncio.create_task(stream.exchange(REQUEST, inf))
    await asyncio.sleep(0)
    deliver(stream, REPLY[:size])
    deliver(stream, REPLY[size:])
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await stream.receive(inf) == REPLY
    assert stream.is_healthy()


async def test_replies_of_a_stream_whose_task_is_cancelled_as_they_arrive() -> None:
    stream = new_stream()
    stream._make_waiter = lambda: InterruptedFuture(loop=asyncio.get_running_loop())
    stream.expect_more(True)
    task = asyncio.create_task(stream.exchange(REQUEST, inf))
    await asyncio.sleep(0)
    deliver(stream, REPLY + REPLY)
    with pytest.raises(asyncio.CancelledError):
        await task
    assert [await stream.receive(inf) for _ in range(2)] == [REPLY, REPLY]


async def test_a_stream_that_closes_as_its_task_is_cancelled() -> None:
    stream = new_stream()
    stream._make_waiter = lambda: InterruptedFuture(loop=asyncio.get_running_loop())
    task = asyncio.create_task(stream.exchange(REQUEST, inf))
    await asyncio.sleep(0)
    stream.abort()
    assert stream.is_closed
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_a_write_whose_task_is_cancelled_as_the_transport_drains() -> None:
    stream = new_stream()
    stream.pause_writing()
    stream._can_write = InterruptedFuture(loop=asyncio.get_running_loop())
    task = asyncio.create_task(stream.send(REQUEST, inf))
    await asyncio.sleep(0)
    stream.resume_writing()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert stream.is_healthy()
