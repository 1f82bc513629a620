"""What a stream does itself that otherwise a transport of asyncio's does, on real sockets."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import gc
import socket
import sys
import time
import tracemalloc
import weakref
from functools import partial
from math import inf
from typing import TYPE_CHECKING, Any

import pytest

from motorlite._net.on_asyncio.sockets import Reply, SocketStream, watches_sockets
from motorlite._net.runtime import Parts
from motorlite._wire.frames import FrameReader
from motorlite.errors import AutoReconnect, NetworkTimeout
from motorlite.testing.cancellation import cancel_at
from tests.support.peers import message

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import TypeAlias

    Pair: TypeAlias = tuple[socket.socket, socket.socket]

pytestmark = pytest.mark.anyio

REQUEST, REPLY = message(40, 1), message(50, 2)
LARGE = 8_000_000


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, Any]]:
    return "asyncio", {}


@pytest.fixture
def sockets() -> Iterator[Pair]:
    near, far = socket.socketpair()
    with near, far:
        near.setblocking(False)
        yield near, far


def opened(sockets: Pair, framer: FrameReader | None = None) -> SocketStream:
    return SocketStream(("a", 1), framer or FrameReader(), asyncio.get_running_loop(), sockets[0])


def watched(sock: socket.socket) -> int:
    """The events of this socket that the event loop waits for."""
    loop: Any = asyncio.get_running_loop()
    try:
        events: int = loop._selector.get_key(sock).events
    except (KeyError, ValueError):
        return 0
    return events


def drain(far: socket.socket, count: int) -> bytes:
    found = b""
    while len(found) < count:
        found += far.recv(count - len(found))
    return found


def in_parts(request: bytes) -> Parts:
    return Parts(request[:20], request[20:-1], request[-1:])


async def settled() -> None:
    for _ in range(3):
        await asyncio.sleep(0.01)


@pytest.mark.parametrize("cuts", [(), (1,), (15, 16), (20,), (16, 17, 49)])
async def test_a_reply_in_parts(sockets: Pair, cuts: tuple[int, ...]) -> None:
    stream = opened(sockets)
    for _ in range(2):
        waiting = asyncio.ensure_future(stream.exchange(REQUEST, inf))
        for start, end in zip((0, *cuts), (*cuts, len(REPLY)), strict=True):
            sockets[1].sendall(REPLY[start:end])
            await settled()
        assert await waiting == REPLY
        assert stream.is_healthy()
    stream.abort()


async def test_a_large_reply_after_a_small_one(sockets: Pair) -> None:
    stream, large = opened(sockets), message(500_000)
    for reply in (REPLY, large, REPLY):
        sending = asyncio.create_task(asyncio.to_thread(sockets[1].sendall, reply))
        assert await stream.exchange(REQUEST, inf) == reply
        await sending
    stream.abort()


async def test_an_idle_stream_does_not_keep_its_last_reply(sockets: Pair) -> None:
    stream = opened(sockets)
    for length in (50, 500_000):
        sending = asyncio.create_task(asyncio.to_thread(sockets[1].sendall, message(length)))
        reply = await stream.exchange(REQUEST, inf)
        await sending
        assert sys.getrefcount(reply) == 2
    stream.abort()


async def test_a_request_that_the_system_does_not_take_at_once(sockets: Pair) -> None:
    stream, large = opened(sockets), message(LARGE, 3)
    waiting = asyncio.ensure_future(stream.exchange(large, inf))
    await asyncio.sleep(0)
    assert stream.has_unsent
    assert await asyncio.to_thread(drain, sockets[1], LARGE) == large
    await settled()
    assert not stream.has_unsent
    sockets[1].sendall(REPLY)
    assert await waiting == REPLY
    # The next one goes through the same queue, and nothing of it waits.
    waiting = asyncio.ensure_future(stream.exchange(REQUEST, inf))
    await asyncio.sleep(0)
    assert drain(sockets[1], len(REQUEST)) == REQUEST
    sockets[1].sendall(REPLY)
    assert await waiting == REPLY
    stream.abort()
    assert watched(sockets[0]) == 0


@pytest.mark.parametrize("is_in_parts", [False, True])
async def test_an_unsent_request_is_not_copied(sockets: Pair, is_in_parts: bool) -> None:
    stream, large = opened(sockets), message(LARGE, 3)
    request = in_parts(large) if is_in_parts else large
    tracemalloc.start()
    try:
        waiting = asyncio.ensure_future(stream.exchange(request, inf))
        await asyncio.sleep(0)
        assert stream.has_unsent
        assert tracemalloc.get_traced_memory()[0] < LARGE // 10
    finally:
        tracemalloc.stop()
    stream.abort()
    with pytest.raises(AutoReconnect):
        await waiting


class SlowSocket(socket.socket):
    """A socket that takes only so many bytes of a message in parts."""

    takes = 0

    def sendmsg(self, buffers: Iterable[Any], *_: Any) -> int:
        return self.send(b"".join(buffers)[: self.takes])


@pytest.mark.parametrize("count", [0, 1, 19, 20, 21, 99_998, 99_999, 100_000])
async def test_the_system_takes_some_of_the_parts(sockets: Pair, count: int) -> None:
    near, far = SlowSocket(fileno=sockets[0].detach()), sockets[1]
    near.takes = count
    stream = opened((near, far))
    for number in range(2):  # the second goes through the transport's queue if a part of the first had to
        request = message(100_000, number)
        waiting = asyncio.ensure_future(stream.exchange(in_parts(request), inf))
        await asyncio.sleep(0)
        assert stream.has_unsent == (count < 100_000)
        assert await asyncio.to_thread(drain, far, len(request)) == request
        await settled()
        assert not stream.has_unsent
        far.sendall(REPLY)
        assert await waiting == REPLY
    stream.abort()


async def test_sending_waits_for_the_peer(sockets: Pair) -> None:
    stream, large = opened(sockets), message(LARGE, 3)
    sending = asyncio.ensure_future(stream.send(large, inf))
    await settled()
    assert (sending.done(), stream.has_unsent) == (False, True)
    second = asyncio.ensure_future(stream.send(REQUEST, inf))
    assert await asyncio.to_thread(drain, sockets[1], LARGE + len(REQUEST)) == large + REQUEST
    await sending
    await second
    assert not stream.has_unsent
    stream.abort()


@pytest.mark.parametrize("when", ["at once", "later"])
async def test_the_peer_is_gone_while_a_request_is_written(sockets: Pair, when: str) -> None:
    stream = opened(sockets)
    if when == "at once":
        sockets[1].close()
    waiting = asyncio.ensure_future(stream.exchange(message(LARGE, 3), inf))
    await asyncio.sleep(0)
    sockets[1].close()
    with pytest.raises(AutoReconnect, match=r"^a:1: "):
        await waiting
    assert (stream.is_closed, sockets[0].fileno()) == (True, -1)


async def test_the_reply_comes_before_the_request_has_left(sockets: Pair) -> None:
    stream = opened(sockets)
    sockets[1].sendall(REPLY)
    assert await stream.exchange(message(LARGE, 3), inf) == REPLY
    assert stream.has_unsent
    stream.abort()
    assert stream.is_closed


@pytest.mark.parametrize("data", [b"", REPLY, b"x"])
async def test_an_idle_stream_closes_with_its_peer_and_at_the_first_stray_byte(sockets: Pair, data: bytes) -> None:
    stream = opened(sockets)
    near, far = sockets
    number = near.fileno()
    far.sendall(data) if data else far.close()
    await settled()
    assert (stream.is_closed, near.fileno()) == (True, -1)
    # Another file may now have the number. The event loop must not watch it.
    loop: Any = asyncio.get_running_loop()
    assert number not in loop._selector.get_map()


async def test_two_expected_replies_pause_reading(sockets: Pair) -> None:
    stream = opened(sockets)
    stream.expect_more(True)
    waiting = asyncio.ensure_future(stream.exchange(REQUEST, inf))
    await asyncio.sleep(0)
    sockets[1].sendall(REPLY * 3)
    assert await waiting == REPLY
    assert watched(sockets[0]) == 0
    for _ in range(2):
        assert await stream.receive(inf) == REPLY
    assert watched(sockets[0]) != 0
    stream.expect_more(False)
    assert stream.is_healthy()
    stream.abort()


async def test_a_failing_framer_closes_its_stream(sockets: Pair, caplog: pytest.LogCaptureFixture) -> None:
    class Failing(FrameReader):
        def whole(self, data: bytes) -> bytes | None:
            raise MemoryError("no room")

    stream = opened(sockets, Failing())
    sockets[1].sendall(REPLY)
    with pytest.raises(AutoReconnect, match="no room"):
        await stream.exchange(REQUEST, inf)
    assert "reading from a socket failed" in caplog.text
    assert sockets[0].fileno() == -1


async def test_nor_does_one_wait_for_ever_that_has_no_memory_for_a_large_reply(
    sockets: Pair, caplog: pytest.LogCaptureFixture
) -> None:
    class Failing(FrameReader):
        def next_frame(self) -> bytes | bytearray | None:
            raise MemoryError("no room")

    stream = opened(sockets, Failing())
    sockets[1].sendall(message(200_000)[:1000])
    with pytest.raises(AutoReconnect, match="no room"):
        await stream.exchange(REQUEST, inf)
    assert (stream.is_closed, sockets[0].fileno()) == (True, -1)
    assert "reading from a socket failed" in caplog.text


async def test_a_closed_stream_needs_no_collector(sockets: Pair) -> None:
    gc.disable()
    try:

        class Framer(FrameReader):
            pass

        framer = Framer()
        reference = weakref.ref(framer)
        stream = opened(sockets, framer)
        del framer
        waiting = asyncio.ensure_future(stream.exchange(REQUEST, inf))
        await asyncio.sleep(0)
        sockets[1].sendall(message(200_000)[:1000])
        await settled()
        waiting.cancel()
        await asyncio.wait([waiting])
        stream.abort()
        del stream, waiting
        assert reference() is None
    finally:
        gc.enable()


async def test_a_request_of_which_a_part_was_never_sent(sockets: Pair) -> None:
    stream = opened(sockets)
    waiting = asyncio.ensure_future(stream.exchange(message(LARGE, 3), inf))
    await asyncio.sleep(0)
    sockets[1].recv(100_000)
    sockets[1].close()
    with pytest.raises(AutoReconnect):
        await waiting
    assert (stream.is_closed, stream.has_unsent, stream.sent_nothing) == (True, True, False)


async def test_debug_mode_names_the_task_of_a_slow_step(sockets: Pair, caplog: pytest.LogCaptureFixture) -> None:
    loop = asyncio.get_running_loop()
    loop.set_debug(True)
    loop.slow_callback_duration = 0.01
    stream = opened(sockets)

    async def ask() -> None:
        await stream.exchange(REQUEST, inf)
        time.sleep(0.05)  # noqa: ASYNC251  # a step that is too slow

    task = loop.create_task(ask(), name="of the program")
    await asyncio.sleep(0)
    sockets[1].sendall(REPLY)
    await task
    await asyncio.sleep(0)
    stream.abort()
    assert "Executing <Task finished name='of the program'" in caplog.text


async def test_a_stream_that_is_closed_in_its_turn_reads_no_more(sockets: Pair) -> None:
    """The loop has found the socket readable, and another callback closes it first."""
    stream = opened(sockets)
    other = socket.socketpair()
    with other[0], other[1]:
        loop = asyncio.get_running_loop()
        for each in other:
            each.setblocking(False)
        loop.add_reader(other[0], stream.abort)
        loop.remove_reader(sockets[0])
        loop.add_reader(sockets[0], stream.read_some)  # behind the other one, or before it: both are fine
        other[1].send(b"x")
        sockets[1].send(REPLY)
        await settled()
        loop.remove_reader(other[0])
    assert stream.is_closed
    with pytest.raises(AutoReconnect):
        await stream.receive(inf)


async def test_requests_are_sent_without_delay() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        near = socket.create_connection(server.getsockname())
        far, _ = server.accept()
        with near, far:
            near.setblocking(False)
            stream = opened((near, far))
            assert near.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
            stream.abort()


async def test_cancelled_exchanges_leave_a_usable_stream(sockets: Pair) -> None:
    stream = opened(sockets)
    for _ in range(20):
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(0):
                await stream.exchange(REQUEST, inf)
        sockets[1].sendall(REPLY)
        assert await stream.receive(inf) == REPLY
        assert stream.is_healthy()
    stream.abort()


def test_which_loops_watch_sockets() -> None:
    class Nested(asyncio.SelectorEventLoop):
        """A loop after nest_asyncio.apply()."""

        _nest_patched = True

    for make, expected in ((asyncio.SelectorEventLoop, True), (_uvloop(), False), (Nested, False)):
        loop = make()
        try:
            assert watches_sockets(loop) is expected
        finally:
            loop.close()


def _uvloop() -> Any:
    import uvloop

    return uvloop.new_event_loop


def test_an_open_stream_outlives_its_loop(sockets: Pair) -> None:
    async def main() -> SocketStream:
        return opened(sockets)

    stream = asyncio.run(main())
    assert not stream.is_closed
    stream.abort()
    assert (stream.is_closed, sockets[0].fileno()) == (True, -1)


# --- the task that waits is run by the callback that reads ---


async def test_a_reply_takes_no_turn_of_the_loop(sockets: Pair) -> None:
    stream, turns = opened(sockets), list[str]()
    loop = asyncio.get_running_loop()

    async def ask() -> None:
        await stream.exchange(REQUEST, inf)
        turns.append("reply")

    task = loop.create_task(ask())
    await asyncio.sleep(0)
    sockets[1].sendall(REPLY)
    read = stream.read_some

    def reading() -> None:
        loop.call_soon(turns.append, "next turn")
        read()
        turns.append("has read")

    loop.add_reader(sockets[0], reading)
    await task
    await asyncio.sleep(0)
    assert turns == ["reply", "has read", "next turn"]
    stream.abort()


async def test_the_task_runs_in_its_own_context_and_is_the_current_one(sockets: Pair) -> None:
    stream, variable = opened(sockets), contextvars.ContextVar("variable", default="none")
    found: list[object] = []

    async def ask() -> None:
        variable.set("mine")
        await stream.exchange(REQUEST, inf)
        found.extend((variable.get(), asyncio.current_task()))

    task = asyncio.create_task(ask())
    await asyncio.sleep(0)
    sockets[1].sendall(REPLY)
    await task
    assert found == ["mine", task]
    assert variable.get() == "none"
    stream.abort()


@pytest.mark.parametrize("what", ["a timer", "reading that was paused"])
async def test_an_open_stream_does_not_keep_the_variables_of_its_callers(sockets: Pair, what: str) -> None:
    class Request:
        pass

    variable: contextvars.ContextVar[Request] = contextvars.ContextVar("the request")
    stream, far = opened(sockets), sockets[1]

    async def use() -> weakref.ref[Request]:
        request = Request()
        variable.set(request)
        if what == "a timer":
            far.sendall(REPLY)
            await stream.exchange(REQUEST, asyncio.get_running_loop().time() + 3600)
        else:
            stream.expect_more(True)
            far.sendall(REPLY * 2)
            await stream.exchange(REQUEST, inf)
            await settled()
            await stream.receive(inf)
        return weakref.ref(request)

    kept = await asyncio.create_task(use())
    await settled()
    gc.collect()
    assert not stream.is_closed
    assert kept() is None
    stream.abort()


@pytest.mark.parametrize("message_of_it", [None, "stop"])
async def test_a_cancellation_before_the_reply(sockets: Pair, message_of_it: str | None) -> None:
    stream = opened(sockets)
    task = asyncio.create_task(stream.exchange(REQUEST, inf))
    await asyncio.sleep(0)
    task.cancel(message_of_it)
    sockets[1].sendall(REPLY)  # in the same turn
    with pytest.raises(asyncio.CancelledError) as caught:
        await task
    assert caught.value.args == (() if message_of_it is None else (message_of_it,))
    assert await stream.receive(inf) == REPLY
    assert stream.is_healthy()
    stream.abort()


async def test_a_cancellation_behind_the_reply(sockets: Pair) -> None:
    """The reply has been sorted, which wakes the task in the next turn, and another task cancels it before."""
    stream = opened(sockets)
    stream.expect_more(True)
    task = asyncio.create_task(stream.exchange(REQUEST, inf))
    await asyncio.sleep(0)
    sockets[1].sendall(REPLY)
    stream.read_some()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await stream.receive(inf) == REPLY
    stream.abort()


async def test_what_the_task_does_at_once_is_no_part_of_the_read(sockets: Pair) -> None:
    """It closes the stream, or asks again, before the callback that reads has returned."""
    stream = opened(sockets)

    async def ask() -> None:
        for _ in range(3):
            assert await stream.exchange(REQUEST, inf) == REPLY
        stream.abort()

    task = asyncio.create_task(ask())
    for _ in range(3):
        await settled()
        sockets[1].sendall(REPLY)
    await task
    assert (stream.is_closed, sockets[0].fileno()) == (True, -1)


@pytest.mark.parametrize("at", [1, 2])
async def test_a_coroutine_is_cancelled_at_each_point(sockets: Pair, at: int) -> None:
    """What watches a coroutine adds callbacks to what it yields, before those of the task."""
    stream = opened(sockets)

    async def ask() -> None:
        sockets[1].sendall(REPLY)
        assert await stream.exchange(REQUEST, inf) == REPLY
        stream.abort()

    assert await cancel_at(ask, at, late=True) is (at == 1)
    assert stream.is_closed is (at == 2)
    if at == 1:
        assert await stream.receive(inf) == REPLY
        stream.abort()


@pytest.mark.parametrize("end", ["deliver", "set_result", "cancel"])
async def test_several_callbacks(end: str) -> None:
    reply, called = Reply(asyncio.get_running_loop()), list[int]()

    def note(number: int, _reply: Reply) -> None:
        called.append(number)

    for number in range(3):
        reply.add_done_callback(partial(note, number))
    if end == "cancel":
        assert reply.cancel()
        assert not reply.cancel()
    else:
        getattr(reply, end)(REPLY)
    reply.add_done_callback(partial(note, 3))
    assert called == []
    await asyncio.sleep(0)
    assert called == [0, 1, 2, 3]


@pytest.mark.parametrize("end", ["timeout", "peer", "abort"])
async def test_the_error_of_a_wait_is_not_kept(sockets: Pair, end: str) -> None:
    gc.disable()
    try:
        stream = opened(sockets)

        class Local:
            pass

        async def ask() -> weakref.ref[Local]:
            local = Local()
            reference = weakref.ref(local)
            until = asyncio.get_running_loop().time() + (0.02 if end == "timeout" else 30)
            try:
                await stream.exchange(REQUEST, until)
            except (AutoReconnect, NetworkTimeout):
                return reference
            raise AssertionError

        task = asyncio.create_task(ask())
        await asyncio.sleep(0)
        if end == "peer":
            sockets[1].close()
        elif end == "abort":
            stream.abort()
        reference = await task
        del task
        assert reference() is None
        stream.abort()
    finally:
        gc.enable()


async def test_a_task_that_interrupts_the_program_interrupts_the_loop(sockets: Pair) -> None:
    stream = opened(sockets)

    async def ask() -> None:
        await stream.exchange(REQUEST, inf)
        raise KeyboardInterrupt

    task = asyncio.create_task(ask())
    await asyncio.sleep(0)
    asyncio.get_running_loop().remove_reader(sockets[0])
    sockets[1].sendall(REPLY)
    with pytest.raises(KeyboardInterrupt):
        _outside(stream)
    with pytest.raises(KeyboardInterrupt):
        task.result()
    stream.abort()


async def test_a_signal_handler_cancels_the_task_whose_reply_is_being_delivered(
    sockets: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On Ctrl-C, the one of asyncio.run runs between any two steps."""
    stream = opened(sockets)
    task = asyncio.create_task(stream.exchange(REQUEST, inf))
    await asyncio.sleep(0)
    deliver = Reply.deliver

    def interrupted(reply: Reply, frame: bytes) -> None:
        task.cancel()
        deliver(reply, frame)

    monkeypatch.setattr(Reply, "deliver", interrupted)
    sockets[1].sendall(REPLY)
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await stream.receive(inf) == REPLY
    stream.abort()


def _outside(stream: SocketStream) -> None:
    """Read as the loop does: while no task is running."""
    task = asyncio.current_task()
    assert task is not None
    asyncio.tasks._leave_task(asyncio.get_running_loop(), task)
    try:
        stream.read_some()
    finally:
        asyncio.tasks._enter_task(asyncio.get_running_loop(), task)
