"""The other end of a FrameStream: a socket that threads read and write, or the peer of an in-memory stream."""

from __future__ import annotations

import gc
import socket
import ssl
import struct
import tempfile
import threading
from collections import deque
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

import anyio
from anyio import to_thread
from anyio.lowlevel import checkpoint

from motorlite._net.current import current_runtime
from motorlite._net.tls import make_context
from motorlite._options.parts import TLSOptions
from motorlite._wire.frames import FrameReader
from motorlite.testing.memory_stream import MemoryStream

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from motorlite._base.values import Address
    from motorlite._net.runtime import FrameStream, Runtime
    from motorlite.testing.server.certificates import Certificates

# Longer than any step takes here, however busy the machine is.
PATIENCE: Final = 20.0
# Small enough that a peer that does not read blocks an 8 MB request, large enough for speed.
RECEIVE_BUFFER: Final = 64 * 1024


def message(length: int, seed: int = 0) -> bytes:
    """A message of `length` bytes that reveals lost, duplicated or swapped bytes."""
    pattern = bytes((seed + i * 7) % 251 for i in range(251))
    return struct.pack("<i", length) + (pattern * (length // 251 + 1))[: length - 4]


HELLO: Final = message(200)


class Peer(Protocol):
    """The actions of the other end."""

    async def read(self) -> bytes | bytearray:
        """Return one message; raises EOFError or ConnectionError if the client has closed."""
        ...

    async def write(self, data: bytes) -> None: ...

    async def close(self) -> None:
        """Close without a farewell."""
        ...

    def stall(self) -> None:
        """Stop reading until `read` is called."""
        ...


class SocketPeer:
    """A connected socket."""

    def __init__(self, sock: socket.socket) -> None:
        sock.settimeout(PATIENCE)
        if sock.family != socket.AF_UNIX:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket = sock
        self._reader = FrameReader()
        # The thread of a cancelled read or write may not have finished, and TLS takes one write at a time.
        self._reading, self._writing = threading.Lock(), threading.Lock()

    async def read(self) -> bytes | bytearray:
        return await to_thread.run_sync(self._read, abandon_on_cancel=True)

    def _read(self) -> bytes | bytearray:
        with self._reading:
            return self._next_frame()

    def _next_frame(self) -> bytes | bytearray:
        while (frame := self._reader.next_frame()) is None:
            try:
                count = self.socket.recv_into(self._reader.buffer())
            except ssl.SSLError as error:
                # At times an end without the message that TLS has for it, and not as an SSLEOFError.
                raise EOFError from error
            if not count:
                raise EOFError
            self._reader.received(count)
        return frame

    async def write(self, data: bytes) -> None:
        await to_thread.run_sync(self._write, data, abandon_on_cancel=True)

    def _write(self, data: bytes) -> None:
        with self._writing:
            self.socket.sendall(data)

    async def close(self) -> None:
        with suppress(OSError):
            self.socket.shutdown(socket.SHUT_RDWR)  # wakes a thread that is using the socket
        # TLS would go on with the number of the descriptor, which may be another socket's by then.
        with self._reading, self._writing:
            self.socket.close()

    async def say_goodbye(self) -> None:
        """End TLS properly, then close."""
        assert isinstance(self.socket, ssl.SSLSocket)
        with suppress(OSError):
            # Nonblocking, because the socket is closed immediately and the peer need not reply.
            self.socket.setblocking(False)
            self.socket.unwrap()
        await self.close()

    async def reset(self) -> None:
        """Reset the connection (RST)."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.socket.close()

    def stall(self) -> None:
        pass


class MemoryPeer:
    """The peer of a MemoryStream."""

    def __init__(self) -> None:
        self.stream: MemoryStream
        self._reader = FrameReader()
        self._frames: deque[bytes | bytearray] = deque()
        self._news = anyio.Event()
        self._is_closed = False

    def data_received(self, stream: MemoryStream, data: bytes) -> None:
        self._frames.extend(self._reader.feed(data))
        self._news.set()

    def client_closed(self, stream: MemoryStream) -> None:
        self._is_closed = True
        self._news.set()

    async def read(self) -> bytes | bytearray:
        if self.stream.is_stalled:
            self.stream.resume()
        while not self._frames:
            if self._is_closed:
                raise EOFError
            self._news = anyio.Event()
            await self._news.wait()
        return self._frames.popleft()

    async def write(self, data: bytes) -> None:
        await checkpoint()
        self.stream.deliver(data)

    async def close(self) -> None:
        self.stream.close()

    def stall(self) -> None:
        self.stream.is_stalled = True


class HookedReader(FrameReader):
    """Calls `on_frame` once, immediately after the next frame was handed over."""

    def __init__(self) -> None:
        super().__init__()
        self.on_frame: Callable[[], object] | None = None
        self._is_over = False

    def next_frame(self) -> bytes | bytearray | None:
        frame = super().next_frame()
        if frame is not None:
            self._is_over = True
        elif self._is_over:
            self._is_over = False
            hook, self.on_frame = self.on_frame, None
            if hook is not None:
                hook()
        return frame


@dataclass
class Link:
    """A stream and its peer."""

    runtime: Runtime
    stream: FrameStream
    peer: Peer
    framer: HookedReader

    def after(self, seconds: float) -> float:
        return self.runtime.now() + seconds

    async def eventually(self, condition: Callable[[], bool]) -> None:
        """Wait until `condition` holds, so that the event loop has processed the peer's actions."""
        limit = self.after(PATIENCE)
        while not condition():
            assert self.runtime.now() < limit
            await anyio.sleep(0.002)


@asynccontextmanager
async def listening(kind: str) -> AsyncIterator[tuple[socket.socket, Address]]:
    """A listening socket of kind ``"unix"`` or else TCP, and its address."""
    with (
        tempfile.TemporaryDirectory() as folder,
        socket.socket(socket.AF_UNIX if kind == "unix" else socket.AF_INET) as listener,
    ):
        address: Address
        if kind == "unix":
            path = str(Path(folder, "s"))
            listener.bind(path)
            address = (path, None)
        else:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BUFFER)
            listener.bind(("127.0.0.1", 0))
            address = ("127.0.0.1", listener.getsockname()[1])
        listener.settimeout(PATIENCE)
        listener.listen()
        yield listener, address


def server_context(certificates: Certificates) -> ssl.SSLContext:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificates.server_file)
    return context


@asynccontextmanager
async def open_link(kind: str, certificates: Certificates) -> AsyncIterator[Link]:
    """A new stream of `kind` (tcp, tls, unix or memory) on the running loop; it must leave nothing behind."""
    runtime = current_runtime()
    framer = HookedReader()
    if kind == "memory":
        memory_peer = MemoryPeer()
        stream = memory_peer.stream = MemoryStream(runtime, ("memory", 1), framer, memory_peer)
        link = Link(runtime, stream, memory_peer, framer)
    else:
        async with listening(kind) as (listener, address):
            link = await _connect(kind, listener, address, framer, certificates)
    try:
        # Every connection begins with an exchange; before it, a TLS session ticket makes a socket look unhealthy.
        async with anyio.create_task_group() as group:
            group.start_soon(answer, link.peer, HELLO)
            assert await link.stream.exchange(HELLO, inf) == HELLO
        yield link
    finally:
        link.stream.abort()
        await link.peer.close()
        framer.on_frame = None
        del link
        for _ in range(3):
            await checkpoint()
        gc.collect()  # reports futures, sockets and transports that were not cleaned up


async def _connect(
    kind: str, listener: socket.socket, address: Address, framer: HookedReader, certificates: Certificates
) -> Link:
    runtime = current_runtime()
    accepted: list[SocketPeer] = []

    def accept() -> None:
        sock, _ = listener.accept()
        if kind == "tls":
            sock = server_context(certificates).wrap_socket(sock, server_side=True)
        accepted.append(SocketPeer(sock))

    tls = make_context(TLSOptions(ca_file=str(certificates.ca_file))) if kind == "tls" else None
    async with anyio.create_task_group() as group:
        group.start_soon(to_thread.run_sync, accept)
        stream = await runtime.connect(address, framer, inf, tls)
    return Link(runtime, stream, accepted[0], framer)


@asynccontextmanager
async def serving(serve: Callable[[socket.socket], None]) -> AsyncIterator[Address]:
    """A listener that passes its only connection to `serve` in a thread and closes it afterwards."""
    async with listening("tcp") as (listener, address), anyio.create_task_group() as group:

        def accept() -> None:
            connection, _ = listener.accept()
            connection.settimeout(PATIENCE)
            with connection, suppress(OSError):
                serve(connection)

        group.start_soon(to_thread.run_sync, accept)
        yield address


async def answer(peer: Peer, *replies: bytes) -> None:
    """Read one request and write the replies."""
    await peer.read()
    for reply in replies:
        await peer.write(reply)


def exceptions(error: BaseException) -> list[Any]:
    """`error` and its causes, newest first."""
    chain: list[Any] = []
    current: BaseException | None = error
    while current is not None:
        chain.append(current)
        current = current.__cause__
    return chain
