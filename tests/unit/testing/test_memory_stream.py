"""What the in-memory stream has besides the promises of every stream (test_streams.py)."""

from __future__ import annotations

from math import inf

import anyio
import pytest

from motorlite._net.current import current_runtime
from motorlite._wire.frames import FrameReader
from motorlite.errors import AutoReconnect, NetworkTimeout, ProtocolError
from motorlite.testing.memory_stream import MemoryStream
from tests.support.peers import message

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]

REQUEST = message(40, 1)
REPLY = message(50, 2)


class Log:
    """A peer that writes down what happens to it and answers at once."""

    def __init__(self, *answers: bytes) -> None:
        self.events: list[bytes | str] = []
        self._answers = list(answers)

    def data_received(self, stream: MemoryStream, data: bytes) -> None:
        self.events.append(data)
        if self._answers:
            stream.deliver(self._answers.pop(0))

    def client_closed(self, stream: MemoryStream) -> None:
        self.events.append("closed")


def new_stream(peer: Log) -> MemoryStream:
    return MemoryStream(current_runtime(), ("a", 1), FrameReader(), peer)


async def test_an_answer_within_the_write() -> None:
    peer = Log(REPLY)
    stream = new_stream(peer)
    assert await stream.exchange(REQUEST, inf) == REPLY
    assert peer.events == [REQUEST]


async def test_the_peer_hears_of_a_close_once_and_not_of_its_own() -> None:
    peer = Log()
    stream = new_stream(peer)
    stream.abort()
    stream.abort()
    stream.close()
    assert peer.events == ["closed"]
    peer = Log()
    stream = new_stream(peer)
    stream.close()
    stream.abort()
    assert peer.events == []
    with pytest.raises(AutoReconnect, match=r"^a:1: the server closed"):
        await stream.receive(inf)


async def test_garbage_closes_both_ends() -> None:
    peer = Log(b"\xff" * 20)
    stream = new_stream(peer)
    with pytest.raises(ProtocolError):
        await stream.exchange(REQUEST, inf)
    assert peer.events == [REQUEST, "closed"]


async def test_a_stalled_peer_reads_on() -> None:
    peer = Log(REPLY)
    stream = new_stream(peer)
    stream.is_stalled = True
    start = anyio.current_time()
    with pytest.raises(NetworkTimeout):
        await stream.send(REQUEST, start + 5)
    assert anyio.current_time() == start + 5
    assert stream.has_unsent
    assert peer.events == []
    async with anyio.create_task_group() as group:

        async def read_on() -> None:
            await anyio.sleep(3)
            stream.resume()

        group.start_soon(read_on)
        assert await stream.exchange(REQUEST, inf) == REPLY
    assert anyio.current_time() == start + 8
    assert not stream.has_unsent


async def test_news_when_nobody_waits() -> None:
    stream = new_stream(Log())
    stream.resume()
    stream.deliver(REPLY)
    assert not stream.is_healthy()
    with pytest.raises(ProtocolError, match="sent more than it was asked for"):
        await stream.receive(inf)
