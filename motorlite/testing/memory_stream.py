"""Shell: a framed stream with a Python object as its peer, for tests in virtual time."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Protocol

from motorlite._base.values import format_address
from motorlite._net.failures import SURPLUS
from motorlite._net.runtime import WaitTimeout
from motorlite.errors import AutoReconnect, NetworkTimeout, ProtocolError, PyMongoError

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from motorlite._base.values import Address
    from motorlite._net.runtime import Framer, Parts, Runtime, Waiter


class Peer(Protocol):
    """The other end of a `MemoryStream`."""

    def data_received(self, stream: MemoryStream, data: bytes) -> None:
        """Handle `data` written by the client."""

    def client_closed(self, stream: MemoryStream) -> None:
        """Handle the client closing its end."""


class MemoryStream:
    """A FrameStream without a socket. The peer replies with `deliver` and `close`, immediately or later."""

    ask_after: float = 1.0
    # A write reaches the peer immediately.
    sent_nothing: bool = False

    def __init__(self, runtime: Runtime, address: Address, framer: Framer, peer: Peer) -> None:
        self._runtime = runtime
        self._address = address
        self._framer = framer
        self._peer = peer
        self._frames: deque[bytes | bytearray] = deque()
        # As on a socket: one reply per request, unless more are expected. None before the first request.
        self._is_owed: bool | None = None
        self._is_streaming = False
        self._waiter: Waiter | None = None
        self._error: PyMongoError | None = None
        # Set by the peer to stop reading: the client's next write then blocks half-way.
        self.is_stalled: bool = False
        self.has_unsent: bool = False

    @property
    def is_closed(self) -> bool:
        return self._error is not None

    async def exchange(self, data: bytes, until: float) -> bytes | bytearray:
        self._is_owed = True
        await self.send(data, until)
        return await self.receive(until)

    def start_exchange(self, data: bytes | Parts, until: float) -> Awaitable[bytes | bytearray]:
        return self.exchange(data if isinstance(data, bytes) else data.joined(), until)

    def interrupted(self, waiting: Awaitable[bytes | bytearray]) -> None:
        """Nothing to do: `exchange` keeps what arrives."""

    async def receive(self, until: float) -> bytes | bytearray:
        if self._is_streaming and self._frames:
            await self._runtime.sleep(0)
        while not self._frames:
            self._check_open()
            self._is_owed = True
            await self._wait(until)
        return self._frames.popleft()

    def expect_more(self, is_expected: bool) -> None:
        self._is_streaming = is_expected
        if not is_expected:
            self._is_owed = False
            if self._frames or not self._framer.is_empty:
                self._refuse_surplus()

    async def send(self, data: bytes, until: float) -> None:
        self._check_open()
        self.has_unsent = True
        while self.is_stalled:
            await self._wait(until)
            self._check_open()
        self.has_unsent = False
        self._peer.data_received(self, data)

    async def _wait(self, until: float) -> None:
        waiter = self._waiter = self._runtime.waiter()
        try:
            await waiter.wait(until)
        except WaitTimeout:
            raise NetworkTimeout(f"{format_address(self._address)}: no reply in time") from None
        finally:
            self._waiter = None

    def _wake(self) -> None:
        if self._waiter is not None:
            self._waiter.offer(True)

    def _check_open(self) -> None:
        if self._error is not None:
            raise type(self._error)(str(self._error))

    def is_healthy(self) -> bool:
        return self._error is None and not self._frames and self._framer.is_empty

    def abort(self) -> None:
        self._close(AutoReconnect(f"{format_address(self._address)}: the connection was closed by this client"))

    def _close(self, error: PyMongoError) -> None:
        if self._error is None:
            self._error = type(error)(str(error))
            self._peer.client_closed(self)
            self._wake()

    # --- the peer's side ---

    def deliver(self, data: bytes) -> None:
        """Receive `data` from the peer; messages may be split anywhere."""
        if not self._is_owed:
            self._refuse_surplus()
            return
        try:
            frames = self._framer.feed(data)
        except PyMongoError as error:
            self._close(error)
            return
        if self._is_streaming:
            self._frames.extend(frames)
        elif frames:
            self._frames.append(frames[0])
            if len(frames) > 1 or not self._framer.is_empty:
                self._refuse_surplus()
            self._is_owed = False
        self._wake()

    def _refuse_surplus(self) -> None:
        kind = ProtocolError if self._is_owed is None else AutoReconnect
        self._close(kind(f"{format_address(self._address)}: {SURPLUS}"))

    def close(self) -> None:
        """Close the stream from the peer's side."""
        if self._error is None:
            self._error = AutoReconnect(f"{format_address(self._address)}: the server closed the connection")
            self._wake()

    def resume(self) -> None:
        """Let the peer read again."""
        self.is_stalled = False
        self._wake()
