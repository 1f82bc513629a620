"""Net: what the shells need of an event loop, the same on asyncio and trio.

Everything that touches the loop, a socket, the clock or randomness is behind these protocols, so that the rest of the
driver is written once and runs in virtual time under test.
"""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, TypeVar

if TYPE_CHECKING:
    import ssl
    from collections.abc import Awaitable, Callable

    from motorlite.options import ProxyOptions
    from motorlite.values import Address

T = TypeVar("T")

Connector: TypeAlias = "Callable[[Address, Framer, float], Awaitable[FrameStream]]"
"""Opens a framed stream to an address before a loop time: a runtime's `connect` with TLS decided, or a test's."""


class Framer(Protocol):
    """Cuts received bytes into messages; `_wire.frames.FrameReader` is one. Raises ProtocolError on nonsense."""

    def buffer(self) -> memoryview: ...
    def received(self, count: int) -> None: ...
    def feed(self, data: bytes | bytearray | memoryview) -> list[bytes | bytearray]: ...
    def next_frame(self) -> bytes | bytearray | None: ...
    @property
    def is_empty(self) -> bool: ...


class FrameStream(Protocol):
    """A byte stream to one server with a framer on it. One task uses it at a time.

    A request has one reply: whatever else arrives closes the stream. `ask_after` is how long a stream may be idle
    before `is_healthy` must be asked whether that has happened, seconds: no time at all where only the socket knows.

    The methods that wait raise NetworkTimeout at the loop time `until` (infinity: never), AutoReconnect when the
    stream is or gets closed, and ProtocolError when the framer refuses what arrived. After a timeout or a cancellation
    the stream is as it was: `has_unsent` tells whether the request went out whole, and `receive` may wait on.
    """

    @property
    def ask_after(self) -> float: ...

    @property
    def is_closed(self) -> bool:
        """Whether either side has closed the stream, as far as is known without asking the socket."""
        ...

    @property
    def has_unsent(self) -> bool:
        """Whether a part of the last request has not been handed to the operating system."""
        ...

    @property
    def sent_nothing(self) -> bool:
        """Whether the last request was cancelled, or out of time, before its first byte was written."""
        ...

    async def exchange(self, data: bytes, until: float) -> bytes | bytearray:
        """Write `data` and wait for one message; none may be left from before."""
        ...

    async def receive(self, until: float) -> bytes | bytearray:
        """Wait for one message."""
        ...

    def expect_more(self, is_expected: bool) -> None:
        """Whether the next reply may be followed by others (exhaust). When no more are expected, none may be left."""
        ...

    async def send(self, data: bytes, until: float) -> None:
        """Write `data`."""
        ...

    def is_healthy(self) -> bool:
        """Ask the socket: neither closed nor with bytes that nobody asked for."""
        ...

    def abort(self) -> None:
        """Close at once, without waiting and without sending anything more."""
        ...


class WaitTimeout(Exception):
    """`Waiter.wait` reached its time limit. Never leaves the shells."""


class Waiter(Protocol):
    """One value, handed over once."""

    def offer(self, value: Any) -> bool:
        """Hand `value` over. False if the waiter has given up; the caller then keeps `value`."""
        ...

    def take_back(self) -> Any | None:
        """After `wait` was cancelled: what was offered and accepted but not received, else None."""
        ...

    async def wait(self, until: float) -> Any:
        """The value. Raises WaitTimeout at the loop time `until`."""
        ...


class BackgroundTask(Protocol):
    """A running background function."""

    def cancel(self) -> None:
        """Ask it to end; returns at once."""
        ...


class Host(Protocol):
    """The client's background work: one task group inside a task of its own."""

    def spawn(self, function: Callable[..., Awaitable[None]], *args: Any) -> BackgroundTask:
        """Run ``await function(*args)`` with an empty context. What it raises is logged, never propagated."""
        ...

    @property
    def is_closed(self) -> bool:
        """Whether it is ending or has ended: what is spawned now never runs."""
        ...

    def stop(self) -> None:
        """Cancel everything that was spawned; returns at once."""
        ...

    async def close(self) -> None:
        """Cancel everything that was spawned and wait until it has ended."""
        ...


class Runtime(Protocol):
    """One event loop, as the shells see it."""

    # "asyncio", "uvloop" or "trio"; for the handshake's metadata.
    name: str

    def is_current(self) -> bool:
        """Whether the caller runs on this event loop."""
        ...

    def now(self) -> float:
        """The loop's clock, seconds."""
        ...

    def scope_deadline(self) -> float:
        """The earliest deadline of the cancel scopes around the caller; infinity when there is none."""
        ...

    def waiter(self) -> Waiter: ...

    def host(self, name: str, on_end: Callable[[], None]) -> Host:
        """Start a host task. `on_end` is called, synchronously, when the host ends for any reason."""
        ...

    async def sleep(self, seconds: float) -> None: ...

    async def connect(
        self,
        address: Address,
        framer: Framer,
        until: float,
        tls: ssl.SSLContext | None,
        proxy: ProxyOptions | None = None,
    ) -> FrameStream:
        """Open a stream, to a TCP address through the proxy where there is one.

        Raises NetworkTimeout, AutoReconnect, NameResolutionError, ProxyError or CertificateError.
        """
        ...

    async def run_in_thread(self, function: Callable[[], T], until: float = inf) -> T:
        """What `function` returns or raises; WaitTimeout at the loop time `until`, after which nobody hears of it."""
        ...

    def run_soon(self, function: Callable[..., None], *args: Any) -> None:
        """Call ``function(*args)`` on this event loop in one of its next turns; has no effect when the loop has ended.

        To be called from anywhere: other threads, the garbage collector.
        """
        ...
