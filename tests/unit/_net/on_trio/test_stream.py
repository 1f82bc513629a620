"""What only the trio streams do: of plain sockets, with epoll and without."""

from __future__ import annotations

import errno
import os
import select
import socket
import time
from contextlib import suppress
from functools import partial
from math import inf
from typing import TYPE_CHECKING, Any, TypeAlias

import pytest
import trio
import trio.testing

from motorlite import AsyncMongoClient
from motorlite._base.values import Progress
from motorlite._connection.connection import Connection
from motorlite._connection.decoding import Decoder
from motorlite._net.host import keep_from_children
from motorlite._net.on_trio.epoll import EpollStream, Reader
from motorlite._net.on_trio.runtime import TrioRuntime
from motorlite._net.on_trio.stream import WOKEN, TrioStream
from motorlite._wire.frames import FrameReader
from motorlite.errors import AutoReconnect, NetworkTimeout, ProtocolError, PyMongoError
from tests.support.lying_server import LyingServer
from tests.support.peers import message

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Callable, Generator, Iterator

    Pair: TypeAlias = tuple[socket.socket, socket.socket]
    Open: TypeAlias = Callable[..., TrioStream]

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, Any]]:
    return "trio", {}


@pytest.fixture
def sockets() -> Iterator[Pair]:
    one, other = socket.socketpair()
    with one, other:
        one.setblocking(False)
        yield one, other


@pytest.fixture(params=["epoll", "without epoll"])
async def opened(request: pytest.FixtureRequest, sockets: Pair) -> AsyncIterator[Open]:
    """Makes a stream on the first socket, with a framer if it needs a certain one."""
    made: list[TrioStream] = []

    def make(framer: FrameReader | None = None) -> TrioStream:
        arguments = ("a", 1), framer or FrameReader(), sockets[0]
        made.append(EpollStream(*arguments, Reader()) if request.param == "epoll" else TrioStream(*arguments))
        return made[-1]

    yield make
    for stream in made:
        stream.abort()


@pytest.mark.parametrize(
    ("data", "expected"), [(b"", AutoReconnect), (message(50)[:20], AutoReconnect), (b"\xff" * 20, ProtocolError)]
)
async def test_a_stream_that_failed_holds_no_socket(
    sockets: Pair, opened: Open, data: bytes, expected: type[PyMongoError]
) -> None:
    near, far = sockets
    stream = opened()
    far.sendall(data)
    far.close()
    with pytest.raises(expected):
        await stream.receive(inf)
    assert stream.is_closed
    assert near.fileno() == -1


async def test_nor_does_one_whose_peer_is_gone(sockets: Pair, opened: Open) -> None:
    near, far = sockets
    stream = opened()
    far.close()
    with pytest.raises(AutoReconnect, match="Broken pipe"):
        await stream.send(message(50), inf)
    assert stream.is_closed
    assert near.fileno() == -1


async def test_a_large_reply_arrives_while_its_callers_cancellation_lives_on(sockets: Pair, opened: Open) -> None:
    """The application cleans up after a cancellation, whose traceback has the frame that was receiving."""
    _, far = sockets
    stream = opened()
    reply = message(300_000)
    kept: list[BaseException] = []
    with trio.CancelScope() as scope:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.to_thread.run_sync, partial(far.sendall, reply[:100_000]))
            nursery.start_soon(_cancel_soon, scope)
            try:
                await stream.receive(inf)
            except trio.Cancelled as error:
                kept.append(error)
                raise
    assert kept
    async with trio.open_nursery() as nursery:
        nursery.start_soon(trio.to_thread.run_sync, partial(far.sendall, reply[100_000:]))
        assert await stream.receive(inf) == reply


async def _cancel_soon(scope: trio.CancelScope) -> None:
    await trio.testing.wait_all_tasks_blocked(0.05)
    scope.cancel()


@pytest.mark.parametrize("limit", ["scope", "deadline"])
async def test_a_request_that_is_too_late_to_be_written_costs_no_connection(
    sockets: Pair, opened: Open, limit: str
) -> None:
    _, far = sockets
    framer = FrameReader()
    stream = opened(framer)
    connection = Connection(("a", 1), 1, 0, stream, framer, Decoder(trio.sleep, pauses_collector=True))
    if limit == "scope":
        with trio.move_on_after(0):
            await connection.round_trip(message(50), 7, inf)
    else:
        with pytest.raises(NetworkTimeout):
            await connection.round_trip(message(50), 7, trio.current_time() - 1)
        assert connection.progress is Progress.NOT_SENT
    assert (stream.is_closed, stream.has_unsent, connection.owed) == (False, False, None)
    assert stream.is_healthy()
    # The next request is an ordinary one: once it is written, its reply is owed.
    async with trio.open_nursery() as nursery:
        nursery.start_soon(_cancel_soon, nursery.cancel_scope)
        await connection.round_trip(message(50), 8, inf)
    assert far.recv(1000) == message(50)
    assert (stream.is_closed, connection.owed) == (False, 8)


class Steps(trio.abc.Instrument):
    """Counts how often a task runs."""

    def __init__(self) -> None:
        self.count = 0
        self._task = trio.lowlevel.current_task()

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        self.count += task is self._task


async def test_an_exchange_is_one_checkpoint(sockets: Pair, opened: Open) -> None:
    _, far = sockets
    stream = opened()
    far.sendall(message(50))
    steps = Steps()
    trio.lowlevel.add_instrument(steps)
    with trio.testing.assert_checkpoints():
        assert await stream.exchange(message(60), inf) == message(50)
    trio.lowlevel.remove_instrument(steps)
    assert steps.count == 1


async def test_every_write_and_every_read_is_a_checkpoint(sockets: Pair, opened: Open) -> None:
    _, far = sockets
    stream = opened()
    with trio.testing.assert_checkpoints():
        await stream.send(message(60), inf)
    stream.expect_more(True)
    far.sendall(message(50) + message(51))
    for size in (50, 51):
        with trio.testing.assert_checkpoints():
            assert await stream.receive(inf) == message(size)


@pytest.mark.parametrize("is_full", [True, False])
async def test_a_write_that_is_cancelled(sockets: Pair, opened: Open, is_full: bool) -> None:
    """With the system's buffer full before the first byte, or after it."""
    near, far = sockets
    stream = opened()
    if is_full:
        with suppress(BlockingIOError):
            while near.send(b"x" * 10_000):
                pass
    with trio.CancelScope() as scope:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_cancel_soon, scope)
            await stream.exchange(message(4_000_000), inf)
    assert scope.cancelled_caught
    assert (stream.sent_nothing, stream.has_unsent, stream.is_closed) == (is_full, not is_full, False)
    assert far.recv(1)


# --- with epoll ---

REQUEST, REPLY = message(60, 1), message(50, 2)
only_epoll = pytest.mark.parametrize("opened", ["epoll"], indirect=True)


async def settled() -> None:
    """Let the reader see what has arrived."""
    for _ in range(5):
        await trio.testing.wait_all_tasks_blocked()


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def readers() -> int:
    """How many tasks read sockets."""
    root = trio.lowlevel.current_root_task()
    assert root is not None
    tasks = [task for nursery in root.child_nurseries for task in nursery.child_tasks]
    tasks += [task for parent in tasks for nursery in parent.child_nurseries for task in nursery.child_tasks]
    return sum(task.name == "motorlite sockets" for task in tasks)


@only_epoll
@pytest.mark.parametrize("data", [b"", REPLY, REPLY[:7], b"\xff" * 20])
async def test_an_idle_stream_learns_by_itself_that_it_is_over(sockets: Pair, opened: Open, data: bytes) -> None:
    near, far = sockets
    stream = opened()
    far.sendall(REPLY)
    assert await stream.exchange(REQUEST, inf) == REPLY
    assert far.recv(1000) == REQUEST
    if data:
        far.sendall(data)
    else:
        far.close()
    assert not stream.is_closed
    assert not stream.is_healthy(), "the socket knows"
    await settled()
    assert (stream.is_closed, stream.is_healthy(), near.fileno()) == (True, False, -1)
    with pytest.raises(AutoReconnect, match="closed the connection" if not data else "asked for"):
        await stream.exchange(REQUEST, inf)
    assert stream.sent_nothing


@only_epoll
async def test_bytes_before_the_first_request_are_not_of_the_protocol(sockets: Pair, opened: Open) -> None:
    stream = opened()
    sockets[1].sendall(REPLY)
    await settled()
    assert stream.is_closed
    with pytest.raises(ProtocolError):
        await stream.receive(inf)


@only_epoll
@pytest.mark.parametrize("when", ["before the reader runs", "after it", "as the task is woken"])
async def test_a_message_outlives_the_cancellation_of_its_task(sockets: Pair, opened: Open, when: str) -> None:
    stream = opened()
    received: list[bytes | bytearray] = []

    async def ask() -> None:
        received.append(await stream.exchange(REQUEST, inf))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(ask)
        await settled()
        sockets[1].sendall(REPLY)
        if when == "as the task is woken":
            assert isinstance(stream, EpollStream)
            stream.read_some()
        elif when == "after it":
            await trio.testing.wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()
    if when == "before the reader runs":
        assert not received
        await settled()
        assert not stream.is_healthy()
        received.append(await stream.receive(inf))
    assert received == [REPLY]
    assert stream.is_healthy()


@pytest.mark.parametrize("method", ["exchange", "receive"])
@pytest.mark.parametrize("data", [REPLY, b""])
async def test_what_has_arrived_while_the_loop_was_busy_is_not_too_late(
    sockets: Pair, opened: Open, data: bytes, method: str
) -> None:
    stream, far = opened(), sockets[1]
    until = trio.current_time() + 0.05

    async def wait() -> None:
        if method == "exchange":
            waiting = stream.exchange(REQUEST, until)
        else:
            await stream.send(REQUEST, inf)
            waiting = stream.receive(until)
        if data:
            assert await waiting == data
        else:
            with pytest.raises(AutoReconnect, match="closed the connection") as failure:
                await waiting
            assert not isinstance(failure.value, NetworkTimeout)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(wait)
        await settled()
        far.sendall(data)
        if not data:
            far.shutdown(socket.SHUT_WR)
        while trio.current_time() <= until:
            pass
    assert stream.is_healthy() is bool(data)


@only_epoll
@pytest.mark.parametrize("method", ["exchange", "receive"])
async def test_an_abort_wakes_the_waiting_task(sockets: Pair, opened: Open, method: str) -> None:
    stream = opened()

    async def wait() -> None:
        with pytest.raises(AutoReconnect, match="closed by this client"):
            await (stream.exchange(REQUEST, inf) if method == "exchange" else stream.receive(inf))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(wait)
        await settled()
        stream.abort()
        assert sockets[0].fileno() == -1


@only_epoll
async def test_a_task_that_was_interrupted_before_it_waits_is_not_woken(
    sockets: Pair, opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A KeyboardInterrupt may come anywhere. Trio breaks when a task is woken that does not wait."""

    async def interrupted(_: object) -> None:
        raise KeyboardInterrupt

    stream = opened()
    monkeypatch.setattr("motorlite._net.on_trio.epoll.wait_task_rescheduled", interrupted)
    with pytest.raises(KeyboardInterrupt):
        await stream.exchange(REQUEST, inf)
    monkeypatch.undo()
    sockets[1].sendall(REPLY)
    await settled()
    assert await stream.receive(inf) == REPLY


@only_epoll
@pytest.mark.parametrize("step", ["exchange", "receive"])
async def test_a_task_that_was_interrupted_as_it_began_to_wait_is_not_woken(
    sockets: Pair, opened: Open, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    """As above; in a debugger or under coverage, an interrupt also comes between two lines."""

    class Interrupted(EpollStream):
        __slots__ = ()

        def __setattr__(self, name: str, value: Any) -> None:
            super().__setattr__(name, value)
            if name == "_task" and value is not None:
                raise KeyboardInterrupt

    stream = opened()

    async def ask() -> None:
        stream.__class__ = Interrupted
        with pytest.raises(KeyboardInterrupt):
            await (stream.exchange(REQUEST, inf) if step == "exchange" else stream.receive(inf))
        stream.__class__ = EpollStream
        await trio.sleep_forever()  # which raises an error when it is woken

    async with trio.open_nursery() as nursery:
        nursery.start_soon(ask)
        await settled()
        sockets[1].sendall(REPLY)
        await settled()
        nursery.cancel_scope.cancel()
    assert await stream.receive(inf) == REPLY


async def test_an_interrupt_right_after_a_request_was_sent(sockets: Pair, opened: Open) -> None:
    """The connection's next user must not get the reply, which waits for `receive`."""

    class Interrupted:
        def send(self, data: bytes) -> int:
            near.send(data)
            raise KeyboardInterrupt

    stream: Any = opened()
    near, stream._socket = stream._socket, Interrupted()
    with pytest.raises(KeyboardInterrupt):
        await stream.exchange(REQUEST, inf)
    stream._socket = near
    assert not stream.sent_nothing
    sockets[1].sendall(REPLY)
    await settled()
    assert await stream.receive(inf) == REPLY


@only_epoll
async def test_a_server_that_streams_is_read_as_its_messages_are_received(sockets: Pair, opened: Open) -> None:
    _, far = sockets
    stream = opened()
    stream.expect_more(True)
    far.setblocking(False)
    sent = 0
    with suppress(BlockingIOError):
        while True:
            sent += far.send(message(1000)) == 1000
    assert await stream.exchange(REQUEST, inf) == message(1000)
    await settled()
    with suppress(BlockingIOError):  # what made room is one reading
        while far.send(message(1000)) == 1000:
            sent += 1
            assert sent < 10_000
    await settled()
    assert len(stream._frames) <= 70
    for _ in range(sent - 1):
        assert await stream.receive(inf) == message(1000)
    far.close()
    await settled()
    assert stream.is_closed
    with pytest.raises(AutoReconnect):
        await stream.receive(inf)
    assert not stream.sent_nothing


@only_epoll
async def test_a_paused_stream_that_breaks_keeps_no_task_busy(sockets: Pair, opened: Open) -> None:
    stream = opened()
    stream.expect_more(True)
    sockets[1].sendall(REPLY * 3)
    assert await stream.exchange(REQUEST, inf) == REPLY
    sockets[1].close()
    with trio.fail_after(5):
        await settled()  # would not come to an end
    for _ in range(2):
        assert await stream.receive(inf) == REPLY
    with pytest.raises(AutoReconnect):
        await stream.receive(inf)


@only_epoll
async def test_a_large_reply_comes_in_many_readings(sockets: Pair, opened: Open) -> None:
    stream = opened()
    reply = message(5_000_000)
    async with trio.open_nursery() as nursery:
        sockets[1].setblocking(True)
        nursery.start_soon(trio.to_thread.run_sync, partial(sockets[1].sendall, reply))
        assert await stream.exchange(REQUEST, inf) == reply
    assert stream.is_healthy()


@only_epoll
async def test_a_reply_to_a_request_that_is_not_yet_written(sockets: Pair, opened: Open) -> None:
    near, far = sockets
    stream = opened()
    far.setblocking(True)
    request = message(2_000_000)

    def serve() -> None:
        far.sendall(REPLY)
        time.sleep(0.05)
        left = len(request)
        while left:
            left -= len(far.recv(100_000))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(trio.to_thread.run_sync, serve)
        assert await stream.exchange(request, inf) == REPLY
    assert (stream.is_healthy(), near.fileno() >= 0) == (True, True)


async def test_two_streams_are_ready_at_once() -> None:
    before = descriptors()
    reader = Reader()
    pairs = [socket.socketpair() for _ in range(2)]
    streams = []
    for near, _ in pairs:
        near.setblocking(False)
        streams.append(EpollStream(("a", 1), FrameReader(), near, reader))
    received: dict[int, bytes | bytearray] = {}

    async def ask(number: int) -> None:
        received[number] = await streams[number].exchange(REQUEST, inf)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(ask, 0)
        nursery.start_soon(ask, 1)
        await settled()
        for number, (_, far) in enumerate(pairs):
            far.sendall(message(70 + number))
    assert received == {0: message(70), 1: message(71)}
    for stream, (_, far) in zip(streams, pairs, strict=True):
        assert (reader.is_closed, readers()) == (False, 1)
        stream.abort()
        far.close()
    assert (reader.is_closed, descriptors()) == (True, before)
    await settled()
    assert readers() == 0


async def test_a_closed_client_leaves_no_task_and_no_descriptor() -> None:
    with LyingServer() as server:
        for way in ("close", "many"):
            tasks, files = trio.lowlevel.current_statistics().tasks_living, descriptors()
            clients = [AsyncMongoClient(*server.address, directConnection=True) for _ in range(1 + (way == "many"))]
            for client in clients:
                assert await client.admin.command("ping") == {"ok": 1}
            assert readers() == len(clients)
            for client in clients:
                await client.close()
            assert readers() == 0
            assert trio.lowlevel.current_statistics().tasks_living == tasks
            with trio.fail_after(10):
                while descriptors() > files:  # noqa: ASYNC110  # those of the server's threads
                    await trio.sleep(0.01)


def test_a_client_that_nobody_closes_ends_with_the_event_loop() -> None:
    async def main() -> AsyncMongoClient[dict[str, Any]]:
        client: AsyncMongoClient[dict[str, Any]] = AsyncMongoClient(*server.address, directConnection=True)
        await client.admin.command("ping")
        return client

    files = descriptors()
    with LyingServer() as server:
        client = trio.run(main)
    assert descriptors() == files
    trio.run(client.close)


@only_epoll
async def test_a_failure_in_one_stream_is_its_own(
    sockets: Pair, opened: Open, caplog: pytest.LogCaptureFixture
) -> None:
    class Failing(FrameReader):
        def whole(self, data: bytes) -> bytes | None:
            raise MemoryError("no room")

    stream = opened(Failing())
    sockets[1].sendall(REPLY)
    with pytest.raises(AutoReconnect, match="no room"):
        await stream.exchange(REQUEST, inf)
    assert "reading from a socket failed" in caplog.text


async def test_a_stream_is_closed_while_its_reader_is_at_another(monkeypatch: pytest.MonkeyPatch) -> None:
    class Failing(FrameReader):
        def whole(self, data: bytes) -> bytes | None:
            raise MemoryError("no room")

    logged: list[str] = []

    def close_all(message: str) -> None:
        logged.append(message)
        for stream in streams:
            stream.abort()

    reader, pairs = Reader(), [socket.socketpair() for _ in range(3)]
    streams = [EpollStream(("a", 1), Failing(), near, reader) for near, _ in pairs]
    monkeypatch.setattr("motorlite._net.on_trio.epoll._logger.exception", close_all)
    for _, far in pairs:
        far.sendall(REPLY)
    await settled()
    assert logged == ["reading from a socket failed"]
    for _, far in pairs:
        far.close()


@pytest.mark.parametrize("missing", ["epoll", "register"])
async def test_a_stream_that_cannot_be_read_leaves_nothing(missing: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """There may be no more descriptors."""

    class Full:
        def __init__(self) -> None:
            if missing == "epoll":
                raise OSError(errno.EMFILE, "too many open files")
            self._epoll = epoll()
            self.fileno, self.close, self.closed = self._epoll.fileno, self._epoll.close, False

        def register(self, *_: object) -> None:
            raise OSError(errno.ENOSPC, "no space left on device")

    epoll = select.epoll
    with socket.create_server(("127.0.0.1", 0)) as listener:
        before = descriptors()
        monkeypatch.setattr(select, "epoll", Full)
        with pytest.raises(AutoReconnect, match=r"too many|no space"):
            await TrioRuntime().connect(listener.getsockname(), FrameReader(), inf, None)
        monkeypatch.undo()
        await settled()
        assert (descriptors(), readers()) == (before, 0)


async def test_without_epoll_the_socket_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("motorlite._net.on_trio.runtime._HAS_EPOLL", False)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        stream = await TrioRuntime().connect(listener.getsockname(), FrameReader(), inf, None)
        assert (type(stream), stream.ask_after, readers()) == (TrioStream, 0.0, 0)
        stream.abort()


@only_epoll
async def test_a_forked_child_changes_no_registration_of_its_parent(sockets: Pair, opened: Open) -> None:
    stream = opened()
    keep_from_children(sockets[0])
    await settled()
    assert isinstance(stream, EpollStream)
    child = os.fork()
    if child == 0:
        code = 1
        with suppress(BaseException):
            try:
                stream._reader.read_ready()
            except OSError:  # the descriptor leads nowhere
                stream.abort()
                code = 0
        os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0  # noqa: ASYNC222  # it does not wait
    sockets[1].sendall(REPLY)
    with trio.fail_after(5):
        assert await stream.exchange(REQUEST, inf) == REPLY


async def test_what_wakes_a_task_is_a_value_of_none_that_can_be_used_again() -> None:
    def echo() -> Generator[object, None, None]:
        while True:
            yield (yield "begun")

    async def echo_later() -> AsyncGenerator[object, None]:
        while True:
            yield (yield "begun")

    later, now = echo_later(), echo()
    assert (next(now), await anext(later)) == ("begun", "begun")
    for _ in range(2):
        assert WOKEN.unwrap() is None  # type: ignore[func-returns-value]  # that it returns None is the test
        assert WOKEN.send(now) is None
        assert await WOKEN.asend(later) is None
        assert (next(now), await anext(later)) == ("begun", "begun")
    await later.aclose()
