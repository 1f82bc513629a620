"""Net: the event loop's interface to the shells, the same on asyncio and trio.

Everything that touches the loop, a socket, the clock or randomness sits behind these protocols. The rest of the driver
is written once and runs in virtual time under test.
"""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, TypeVar

if TYPE_CHECKING:
    import socket
    import ssl
    from collections.abc import Awaitable, Callable

    from motorlite._base.values import Address
    from motorlite._options.parts import ProxyOptions

T = TypeVar("T")

Connector: TypeAlias = "Callable[[Address, Framer, float], Awaitable[FrameStream]]"
"""Opens a framed stream to an address before a loop time: a runtime's `connect` with TLS bound, or a test's stub."""


class Framer(Protocol):
    """Splits received bytes into messages, like `_wire.frames.FrameReader`. Raises ProtocolError on malformed input."""

    def buffer(self) -> memoryview: ...
    def received(self, count: int) -> None: ...
    def received_one(self, count: int) -> bytes | bytearray | None: ...
    def whole(self, data: bytes) -> bytes | None: ...
    def feed(self, data: bytes | bytearray | memoryview) -> list[bytes | bytearray]: ...
    def next_frame(self) -> bytes | bytearray | None: ...
    @property
    def is_empty(self) -> bool: ...


class Parts:
    """A large message in parts. A stream that can hands them to the system as they are; another one joins them."""

    __slots__ = ("parts", "size")

    def __init__(self, *parts: bytes) -> None:
        self.parts: tuple[bytes, ...] = parts
        self.size: int = sum(map(len, parts))

    def __len__(self) -> int:
        return self.size

    def joined(self) -> bytes:
        """Return the message as one object."""
        return b"".join(self.parts)


class FrameStream(Protocol):
    """A byte stream to one server with a framer on it. One task uses it at a time.

    A request has one reply; any other bytes close the stream. `ask_after` is the idle time in seconds after which a
    caller must check `is_healthy` before using the stream; it is 0 where only the socket knows.

    The methods that wait raise NetworkTimeout at the loop time `until` (infinity: never), AutoReconnect when the
    stream is closed or closes meanwhile, and ProtocolError when the framer rejects the bytes. A timeout or cancellation
    leaves the stream unchanged: `has_unsent` says whether the whole request went out, and `receive` can wait again.
    """

    @property
    def ask_after(self) -> float: ...

    @property
    def is_closed(self) -> bool:
        """Whether either side has closed the stream, as far as known without checking the socket."""

    @property
    def has_unsent(self) -> bool:
        """Whether part of the last request has not reached the operating system."""

    @property
    def sent_nothing(self) -> bool:
        """Whether the last request was cancelled, timed out or failed before its first byte was written."""

    async def exchange(self, data: bytes, until: float) -> bytes | bytearray:
        """Write `data` and wait for one message. No earlier message may be unread."""

    def start_exchange(self, data: bytes | Parts, until: float) -> Awaitable[bytes | bytearray]:
        """Like `exchange`, with one coroutine less where that is possible. To be awaited at once.

        If awaiting it raises, call `interrupted`.
        """

    def interrupted(self, waiting: Awaitable[bytes | bytearray]) -> None:
        """Keep a message that arrived for `waiting`, the result of `start_exchange`, after its task was interrupted."""

    async def receive(self, until: float) -> bytes | bytearray:
        """Wait for one message."""

    def expect_more(self, is_expected: bool) -> None:
        """Set whether more replies may follow the next one (exhaust). When unset, no unread reply may remain."""

    async def send(self, data: bytes, until: float) -> None:
        """Write `data`."""

    def is_healthy(self) -> bool:
        """Check the socket: it is open and has no unrequested bytes."""

    def abort(self) -> None:
        """Close immediately, without waiting or sending anything more."""


class WaitTimeout(Exception):
    """`Waiter.wait` reached its time limit. Never leaves the shells."""


class Waiter(Protocol):
    """A handover of one value, usable once."""

    def offer(self, value: Any) -> bool:
        """Hand over `value`. Returns False if the waiter has given up; the caller then keeps `value`."""

    def take_back(self) -> Any | None:
        """After `wait` was cancelled, return a value that was accepted but not received, else None."""

    def wait(self, until: float) -> Awaitable[Any]:
        """Wait for the value. Raises WaitTimeout at the loop time `until`. To be awaited at once."""


class Dial(Protocol):
    """Connects sockets in another way than the driver's."""

    async def __call__(self, address: Address, until: float) -> socket.socket:
        """Return a connected socket, by the loop time `until`."""


class BackgroundTask(Protocol):
    """A running background function."""

    def cancel(self) -> None:
        """Request cancellation; returns immediately."""


class Host(Protocol):
    """The client's background work: one task group in its own task."""

    def spawn(self, function: Callable[..., Awaitable[None]], *args: Any, name: str = "work") -> BackgroundTask:
        """Run ``await function(*args)`` in an empty context. Exceptions are logged, never propagated.

        `name`, after "motorlite", names the task for tools that list the tasks of the loop.
        """

    @property
    def is_closed(self) -> bool:
        """Whether the host is ending or has ended. A function spawned now never runs."""

    def stop(self) -> None:
        """Cancel all spawned tasks; returns immediately."""

    async def close(self) -> None:
        """Cancel all spawned tasks and wait for them to end."""


class Runtime(Protocol):
    """An event loop, as the shells see it."""

    # "asyncio", "uvloop" or "trio"; for the handshake's metadata.
    name: str

    def is_current(self) -> bool:
        """Whether the caller runs on this event loop."""

    def deadline_here(self) -> float | None:
        """As `scope_deadline`; None if the caller does not run on this event loop."""

    def now(self) -> float:
        """The loop's clock, seconds."""

    def scope_deadline(self) -> float:
        """The earliest deadline of the cancel scopes around the caller; infinity if there is none."""

    def shared(self, make: Callable[[], T]) -> T:
        """Return what `make` has made for this event loop; the first call calls it."""

    def waiter(self) -> Waiter: ...

    def host(self, name: str, on_end: Callable[[], None]) -> Host:
        """Start a host task. `on_end` is called synchronously when the host ends for any reason."""

    async def sleep(self, seconds: float) -> None: ...

    async def connect(
        self,
        address: Address,
        framer: Framer,
        until: float,
        tls: ssl.SSLContext | None,
        proxy: ProxyOptions | None = None,
        dial: Dial | None = None,
    ) -> FrameStream:
        """Open a stream. A TCP address is reached through `proxy`, if there is one, or `dial` connects the socket.

        Raises NetworkTimeout, AutoReconnect, NameResolutionError, ProxyError or CertificateError.
        """

    async def run_in_thread(self, function: Callable[[], T], until: float = inf) -> T:
        """Run `function` in a thread. At the loop time `until` raises WaitTimeout and discards the outcome."""

    def run_soon(self, function: Callable[..., object], *args: Any) -> None:
        """Call ``function(*args)`` on this event loop in one of its next iterations; no effect when the loop has ended.

        Safe to call from anywhere: other threads, the garbage collector.
        """
