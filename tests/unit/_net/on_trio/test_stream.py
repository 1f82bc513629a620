"""What only the trio stream does."""

from __future__ import annotations

import socket
from contextlib import suppress
from functools import partial
from math import inf
from typing import TYPE_CHECKING, Any

import pytest
import trio
import trio.testing

from motorlite._base.values import Progress
from motorlite._connection.connection import Connection
from motorlite._connection.decoding import Decoder
from motorlite._net.on_trio.stream import TrioStream
from motorlite._wire.frames import FrameReader
from motorlite.errors import AutoReconnect, NetworkTimeout, ProtocolError, PyMongoError
from tests.support.peers import message

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, Any]]:
    return "trio", {}


@pytest.fixture
def sockets() -> Iterator[tuple[socket.socket, socket.socket]]:
    one, other = socket.socketpair()
    with one, other:
        one.setblocking(False)
        yield one, other


@pytest.mark.parametrize(
    ("data", "expected"), [(b"", AutoReconnect), (message(50)[:20], AutoReconnect), (b"\xff" * 20, ProtocolError)]
)
async def test_a_stream_that_failed_holds_no_socket(
    sockets: tuple[socket.socket, socket.socket], data: bytes, expected: type[PyMongoError]
) -> None:
    near, far = sockets
    stream = TrioStream(("a", 1), FrameReader(), near)
    far.sendall(data)
    far.close()
    with pytest.raises(expected):
        await stream.receive(inf)
    assert stream.is_closed
    assert near.fileno() == -1


async def test_nor_does_one_whose_peer_is_gone(sockets: tuple[socket.socket, socket.socket]) -> None:
    near, far = sockets
    stream = TrioStream(("a", 1), FrameReader(), near)
    far.close()
    with pytest.raises(AutoReconnect, match="Broken pipe"):
        await stream.send(message(50), inf)
    assert stream.is_closed
    assert near.fileno() == -1


async def test_a_large_reply_arrives_while_its_callers_cancellation_lives_on(
    sockets: tuple[socket.socket, socket.socket],
) -> None:
    """The application cleans up after a cancellation, whose traceback has the frame that was receiving."""
    near, far = sockets
    stream = TrioStream(("a", 1), FrameReader(), near)
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
    sockets: tuple[socket.socket, socket.socket], limit: str
) -> None:
    near, far = sockets
    framer = FrameReader()
    stream = TrioStream(("a", 1), framer, near)
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


async def test_an_exchange_is_one_checkpoint(sockets: tuple[socket.socket, socket.socket]) -> None:
    near, far = sockets
    stream = TrioStream(("a", 1), FrameReader(), near)
    far.sendall(message(50))
    steps = Steps()
    trio.lowlevel.add_instrument(steps)
    with trio.testing.assert_checkpoints():
        assert await stream.exchange(message(60), inf) == message(50)
    trio.lowlevel.remove_instrument(steps)
    assert steps.count == 1


async def test_every_write_and_every_read_is_a_checkpoint(sockets: tuple[socket.socket, socket.socket]) -> None:
    near, far = sockets
    stream = TrioStream(("a", 1), FrameReader(), near)
    with trio.testing.assert_checkpoints():
        await stream.send(message(60), inf)
    stream.expect_more(True)
    far.sendall(message(50) + message(51))
    for size in (50, 51):
        with trio.testing.assert_checkpoints():
            assert await stream.receive(inf) == message(size)


@pytest.mark.parametrize("is_full", [True, False])
async def test_a_write_that_is_cancelled(sockets: tuple[socket.socket, socket.socket], is_full: bool) -> None:
    """With the system's buffer full before the first byte, or after it."""
    near, far = sockets
    stream = TrioStream(("a", 1), FrameReader(), near)
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
