"""The stream around a stream: what is compressed, what is not, and what arrives."""

from __future__ import annotations

import threading
from collections import deque
from math import inf
from typing import TYPE_CHECKING, Any

import anyio
import anyio.to_thread
import bson
import pytest

from motorlite._connection.compressed_stream import CompressedStream
from motorlite._net.current import current_runtime
from motorlite._wire import op_msg
from motorlite._wire.compression import Noop, Zlib, Zstd, compress, decompress
from motorlite._wire.frames import FrameReader
from motorlite.errors import ProtocolError

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from motorlite._net.runtime import Parts
    from motorlite._wire.compression import Buffer

pytestmark = pytest.mark.anyio

TEXT = "text " * 200
FIND = op_msg.encode(1, bson.encode({"find": "c", "text": TEXT, "$db": "d"}))
SECRET = op_msg.encode(2, bson.encode({"createUser": "u", "pwd": TEXT, "$db": "d"}))
BY_ID = {compressor.id: compressor for compressor in (Noop(), Zlib(), Zstd())}


class Inner:
    """A FrameStream that keeps what is sent, and has its answers prepared."""

    def __init__(self) -> None:
        self.sent: list[bytes] = []
        self.answers: deque[bytes] = deque()
        self.is_closed = False
        self.has_unsent = False
        self.sent_nothing = False
        self.is_sound = True
        self.ask_after = 1.0
        self.is_streaming = False

    def expect_more(self, is_expected: bool) -> None:
        self.is_streaming = is_expected

    async def exchange(self, data: bytes, until: float) -> bytes:
        await self.send(data, until)
        return await self.receive(until)

    def start_exchange(self, data: bytes | Parts, until: float) -> Awaitable[bytes]:
        assert isinstance(data, bytes)
        return self.exchange(data, until)

    def interrupted(self, waiting: Awaitable[bytes | bytearray]) -> None:
        pass

    async def receive(self, until: float) -> bytes:
        assert until == 5.0
        return self.answers.popleft()

    async def send(self, data: bytes, until: float) -> None:
        assert until == 5.0
        self.sent.append(data)

    def is_healthy(self) -> bool:
        return self.is_sound

    def abort(self) -> None:
        self.is_closed = True


@pytest.fixture
def inner() -> Inner:
    return Inner()


@pytest.fixture
def framer() -> FrameReader:
    return FrameReader()


@pytest.fixture
async def stream(inner: Inner, framer: FrameReader) -> CompressedStream:
    return CompressedStream(inner, framer, [Zstd(), Zlib()], current_runtime())


async def test_before_hello_has_told_requests_are_plain_and_replies_may_be_compressed(
    stream: CompressedStream, inner: Inner
) -> None:
    for answer in (FIND, compress(FIND, Zlib()), compress(FIND, Zstd()), compress(FIND, Noop())):
        inner.answers.append(answer)
        assert await stream.exchange(FIND, 5.0) == FIND
        assert inner.sent.pop() is FIND


async def test_what_is_compressed_afterwards(stream: CompressedStream, inner: Inner) -> None:
    assert stream.agree(["snappy", "zlib"]) is stream
    inner.answers += [FIND, compress(FIND, Zstd()), compress(FIND, Zlib())]
    assert await stream.exchange(FIND, 5.0) == FIND
    assert inner.sent.pop() == compress(FIND, Zlib())
    await stream.send(FIND, 5.0)
    assert inner.sent.pop() == compress(FIND, Zlib())
    await stream.send(SECRET, 5.0)
    assert inner.sent.pop() is SECRET
    # Replies that nobody asked for, as of an exhaust command.
    assert await stream.receive(5.0) == FIND
    assert await stream.receive(5.0) == FIND


async def test_without_an_agreement_the_inner_stream_goes_on(stream: CompressedStream, inner: Inner) -> None:
    assert stream.agree(["snappy"]) is inner
    assert stream.agree([]) is inner


async def test_the_limit_is_that_of_the_server(stream: CompressedStream, inner: Inner, framer: FrameReader) -> None:
    inner.answers += [compress(FIND, Zlib())] * 2
    framer.max_message_size = len(FIND) - 16 * 1024
    assert await stream.receive(5.0) == FIND, "servers may exceed their limit a little"
    framer.max_message_size -= 1
    with pytest.raises(ProtocolError, match="a compressed message announces"):
        await stream.receive(5.0)


async def test_a_message_that_compression_would_make_too_large(
    stream: CompressedStream, inner: Inner, framer: FrameReader
) -> None:
    stream.agree(["zlib"])
    # The shortest there is: it becomes larger.
    ping = op_msg.encode(3, bson.encode({"a": 1}))
    packed = compress(ping, Zlib())
    assert len(packed) > len(ping)
    framer.max_message_size = len(packed)
    await stream.send(ping, 5.0)
    framer.max_message_size -= 1
    await stream.send(ping, 5.0)
    assert inner.sent == [packed, ping]
    assert decompress(packed, BY_ID, len(ping)) == ping


@pytest.mark.real_time
async def test_a_large_request_is_compressed_in_a_thread(
    stream: CompressedStream, inner: Inner, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream.agree(["zlib"])
    threads: list[int] = []
    thread_of_the_loop = threading.get_ident()

    class Watched(Zlib):
        def compress(self, data: memoryview) -> bytes:
            threads.append(threading.get_ident())
            return super().compress(data)

    monkeypatch.setattr(stream, "_compressor", Watched())
    large = op_msg.encode(4, bson.encode({"insert": "c", "text": "x" * 256 * 1024, "$db": "d"}))
    inner.answers.append(FIND)
    packed = await stream.pack_large(large, inf)
    assert packed == compress(large, Zlib())
    assert not inner.sent, "until then nothing is written"
    for message in (packed, large):
        # Neither is compressed on the event loop.
        assert await stream.exchange(message, 5.0) == FIND
        await stream.send(message, 5.0)
        assert inner.sent == [message, message]
        inner.sent.clear()
        inner.answers.append(FIND)
    assert len(threads) == 1
    assert thread_of_the_loop not in threads
    await stream.send(FIND, 5.0)
    assert threads[1:] == [thread_of_the_loop]


class Held(Zlib):
    """Decompresses when the test lets it, and says where."""

    def __init__(self) -> None:
        super().__init__()
        self.begun, self.may_go_on = threading.Event(), threading.Event()
        self.threads: list[int] = []

    def decompress(self, data: memoryview, size: int) -> Buffer:
        self.threads.append(threading.get_ident())
        self.begun.set()
        assert self.may_go_on.wait(10)
        return super().decompress(data, size)


LARGE_ANSWER = op_msg.encode(7, bson.encode({"ok": 1, "text": TEXT * 1100}))


@pytest.mark.real_time
@pytest.mark.parametrize("method", ["exchange", "receive"])
async def test_a_large_reply_is_decompressed_in_a_thread(inner: Inner, framer: FrameReader, method: str) -> None:
    held = Held()
    stream = CompressedStream(inner, framer, [held], current_runtime())
    held.may_go_on.set()
    small = op_msg.encode(8, bson.encode({"ok": 1, "text": TEXT * 900}))
    for answer, is_elsewhere in ((LARGE_ANSWER, True), (small, False)):
        inner.answers.append(compress(answer, Zlib()))
        assert await (stream.exchange(FIND, 5.0) if method == "exchange" else stream.receive(5.0)) == answer
        assert (held.threads.pop() != threading.get_ident()) is is_elsewhere
    inner.answers.append(LARGE_ANSWER)
    assert await stream.receive(5.0) == LARGE_ANSWER
    assert not held.threads


@pytest.mark.real_time
async def test_a_reply_whose_receiver_leaves_while_it_is_decompressed_is_kept(
    inner: Inner, framer: FrameReader
) -> None:
    held = Held()
    stream = CompressedStream(inner, framer, [held], current_runtime())
    inner.answers.append(compress(LARGE_ANSWER, Zlib()))
    method: Any = stream.exchange
    for arguments in ((FIND, 5.0), (5.0,)):
        async with anyio.create_task_group() as group:
            group.start_soon(method, *arguments)
            await anyio.to_thread.run_sync(held.begun.wait, 10)
            group.cancel_scope.cancel()
        assert not stream.is_healthy(), "the next request would get this reply"
        held.begun.clear()
        method = stream.receive
    held.may_go_on.set()
    assert await stream.receive(5.0) == LARGE_ANSWER
    assert stream.is_healthy()


@pytest.mark.real_time
async def test_a_large_reply_that_cannot_be_decompressed(stream: CompressedStream, inner: Inner) -> None:
    inner.answers.append(compress(LARGE_ANSWER, Zlib())[:-10])
    with pytest.raises(ProtocolError):
        await stream.exchange(FIND, 5.0)
    assert stream.is_healthy(), "there is no other reply"


async def test_everything_else_is_the_inner_streams(stream: CompressedStream, inner: Inner) -> None:
    assert (stream.is_closed, stream.has_unsent, stream.is_healthy()) == (False, False, True)
    inner.has_unsent = True
    inner.is_sound = False
    assert (stream.is_closed, stream.has_unsent, stream.is_healthy()) == (False, True, False)
    assert stream.ask_after == inner.ask_after == 1.0
    stream.expect_more(True)
    assert inner.is_streaming
    stream.abort()
    assert inner.is_closed
    assert stream.is_closed
