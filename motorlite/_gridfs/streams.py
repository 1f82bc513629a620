"""Shell: reads from the application's sources and writes to its destinations: files, streams, async iterables."""

from __future__ import annotations

import inspect
import io
from functools import partial
from math import inf
from typing import TYPE_CHECKING, Any, Final

import anyio
import anyio.to_thread

from motorlite._base.arguments import wrong
from motorlite.errors import no_time_left

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from motorlite._base.deadline import Deadline

# Bytes to read at once, if chunks are smaller: each read of a file may wait for a thread.
_READ: Final = 1024 * 1024


def as_bytes(data: Any, what: str) -> bytes | bytearray | memoryview:
    """Check something that should be bytes.

    Raises:
        TypeError: It is not.
    """
    if isinstance(data, bytes | bytearray):
        return data
    if isinstance(data, memoryview):
        # A view of no bytes in several dimensions cannot be cast.
        return data.cast("B") if data.c_contiguous and data.nbytes else data.tobytes()
    raise TypeError(wrong(what, data, "bytes"))


class Source:
    """What an upload is read from.

    Args:
        source: Has a method `read(size)`, which may be asynchronous, or is an async iterable.
        chunk_size: Of the upload.
        deadline: Ends waiting for an asynchronous source.

    Raises:
        TypeError: `source` is something else.
    """

    __slots__ = ("_deadline", "_next", "_size")

    def __init__(self, source: Any, chunk_size: int, deadline: Deadline) -> None:
        self._deadline = deadline
        # Whole chunks, which need not be put together then.
        self._size = chunk_size * max(1, _READ // chunk_size)
        self._next: Callable[[], Awaitable[Any]]
        if callable(getattr(source, "read", None)):
            self._next = self._reader(source)
        elif hasattr(source, "__aiter__"):
            self._next = self._iterator(source)
        else:
            raise TypeError(wrong("the data", source, "bytes, a file, a stream or an async iterable of bytes"))

    async def next(self) -> bytes | bytearray | memoryview:
        """Return the next bytes; none at the end."""
        return as_bytes(await before(self._deadline, self._next), "what the source returns")

    def _reader(self, source: Any) -> Callable[[], Awaitable[Any]]:
        read, size = source.read, self._size
        # In this order, because a file of GridFS has its other attributes only when it is open.
        if not inspect.iscoroutinefunction(read) and blocks(source):
            return lambda: anyio.to_thread.run_sync(read, size)

        async def next_piece() -> Any:
            found = read(size)
            return await found if inspect.isawaitable(found) else found

        return next_piece

    def _iterator(self, source: Any) -> Callable[[], Awaitable[Any]]:
        pieces = aiter(source)

        async def next_piece() -> Any:
            async for piece in pieces:
                if len(as_bytes(piece, "what the source yields")):
                    return piece
            return b""

        return next_piece


class Destination:
    """What a download is written to: has a method `write(data)`, which may be asynchronous.

    Raises:
        TypeError: It has not.
    """

    __slots__ = ("_blocks", "_deadline", "_is_raw", "_write")

    def __init__(self, destination: Any, deadline: Deadline) -> None:
        self._write = getattr(destination, "write", None)
        if not callable(self._write):
            raise TypeError(wrong("destination", destination, "a file or a stream, with a method write"))
        self._blocks = not inspect.iscoroutinefunction(self._write) and blocks(destination)
        # Files without a buffer may take a part only.
        self._is_raw = _is_raw(destination, self._write)
        self._deadline = deadline

    async def write(self, data: bytes) -> None:
        """Write all of `data`."""
        written = await before(self._deadline, partial(self._some, data))
        while self._is_raw and written != len(data):
            if not written:
                raise BlockingIOError("the destination takes no more data")
            data = data[written:]
            written = await before(self._deadline, partial(self._some, data))

    async def _some(self, data: bytes) -> Any:
        write: Any = self._write
        if self._blocks:
            return await anyio.to_thread.run_sync(write, data)
        found = write(data)
        return await found if inspect.isawaitable(found) else found


def blocks(file: Any) -> bool:
    """Whether the methods of a file may make their thread wait: of one of Python's files that is not in memory."""
    # The files of `tempfile` are wrapped.
    opened = getattr(file, "file", file)
    return isinstance(opened, io.IOBase) and not isinstance(opened, io.BytesIO | io.StringIO)


def _is_raw(file: Any, write: Any) -> bool:
    """Whether `write` is the method of an unbuffered Python file, or of a wrapper that returns its results."""
    # `tempfile` wraps the method. Any other object has a method of its own, which may return anything.
    found = getattr(getattr(write, "__wrapped__", write), "__self__", file)
    # anyio and trio wrap the file.
    return isinstance(getattr(found, "wrapped", found), io.RawIOBase)


async def before(deadline: Deadline, wait: Callable[[], Awaitable[Any]]) -> Any:
    """Wait for the application's own code, but not longer than until the deadline.

    Raises:
        ExecutionTimeout: The deadline passed.
    """
    if deadline.expires_at == inf:
        return await wait()
    with anyio.CancelScope(deadline=deadline.expires_at):
        return await wait()
    raise no_time_left(deadline.timeout)
