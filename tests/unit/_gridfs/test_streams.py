"""Sources and destinations of the application: synchronous, asynchronous, in memory and on disk."""

from __future__ import annotations

import ctypes
import io
import tempfile
import threading
from contextlib import aclosing
from math import inf
from typing import TYPE_CHECKING, Any

import anyio
import pytest

from motorlite._base.deadline import NO_DEADLINE, Deadline
from motorlite._gridfs.streams import Destination, Source, as_bytes, blocks
from motorlite.errors import InvalidOperation

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable
    from pathlib import Path

pytestmark = pytest.mark.anyio

CONTENT = bytes(range(256)) * 40


class AsyncReader:
    """Returns a few bytes at a time, as sockets do."""

    def __init__(self, data: bytes = CONTENT) -> None:
        self._file = io.BytesIO(data)
        self.sizes: list[int] = []

    async def read(self, size: int) -> bytes:
        self.sizes.append(size)
        await anyio.lowlevel.checkpoint()
        return self._file.read(min(size, 1000))


class Awaited:
    """Has a method that is not a coroutine function, but returns an awaitable."""

    def __init__(self) -> None:
        self._reader = AsyncReader()

    def read(self, size: int) -> Any:
        return self._reader.read(size)


class Reader:
    """Not one of Python's files: may need the thread of the event loop."""

    def __init__(self) -> None:
        self._file = io.BytesIO(CONTENT)
        self.threads: set[int] = set()

    def read(self, size: int) -> bytes:
        self.threads.add(threading.get_ident())
        return self._file.read(size)


async def pieces() -> AsyncGenerator[bytes, None]:
    for start in range(0, len(CONTENT), 700):
        yield CONTENT[start : start + 700]
        yield b""


async def all_of(source: Any, chunk_size: int = 4) -> bytes:
    made, found = Source(source, chunk_size, NO_DEADLINE), bytearray()
    while data := await made.next():
        found += data
    return bytes(found)


@pytest.mark.parametrize("make", [lambda: io.BytesIO(CONTENT), AsyncReader, Awaited, Reader, pieces])
async def test_sources(make: Any) -> None:
    assert await all_of(make()) == CONTENT


@pytest.mark.real_time
async def test_files(tmp_path: Path, anyio_backend_name: str) -> None:
    path = tmp_path / "file"
    path.write_bytes(CONTENT)
    with path.open("rb") as file:
        assert await all_of(file) == CONTENT
        assert not file.closed
    with path.open("rb", buffering=0) as raw:
        assert await all_of(raw) == CONTENT
    async with await anyio.open_file(path, "rb") as opened:
        assert await all_of(opened) == CONTENT
    if anyio_backend_name == "trio":
        import trio

        async with await trio.open_file(path, "rb") as wrapped:
            assert await all_of(wrapped) == CONTENT


@pytest.mark.real_time
async def test_files_are_read_and_written_in_a_thread(tmp_path: Path) -> None:
    class File(io.FileIO):
        threads: set[int] = set()  # noqa: RUF012

        def read(self, size: int | None = -1) -> bytes:
            self.threads.add(threading.get_ident())
            return super().read(-1 if size is None else size) or b""

        def write(self, data: Any) -> int:
            self.threads.add(threading.get_ident())
            # As sockets do.
            return super().write(bytes(data[:100])) or 0

    path = tmp_path / "file"
    with File(path, "wb") as file:
        await Destination(file, NO_DEADLINE).write(CONTENT)
    assert path.read_bytes() == CONTENT
    with File(path, "rb") as file:
        assert await all_of(file) == CONTENT
    assert threading.get_ident() not in File.threads


async def test_other_objects_are_used_in_the_thread_of_the_event_loop() -> None:
    reader = Reader()
    await all_of(reader)
    assert reader.threads == {threading.get_ident()}


def test_what_may_make_its_thread_wait(tmp_path: Path) -> None:
    with (tmp_path / "file").open("wb") as file, tempfile.NamedTemporaryFile() as temporary:
        assert blocks(file)
        assert blocks(temporary)
    with tempfile.SpooledTemporaryFile() as spooled:
        assert blocks(spooled)
    assert not blocks(io.BytesIO())
    assert not blocks(Reader())


@pytest.mark.parametrize(
    ("chunk_size", "size"),
    # Large chunks are read one by one.
    [(4, 2**20), (2**18, 2**20), (255 * 1024, 4 * 255 * 1024), (3, 2**20 // 3 * 3), (2**24, 2**24)],
)
async def test_whole_chunks_are_read_at_once(chunk_size: int, size: int) -> None:
    reader = AsyncReader()
    await all_of(reader, chunk_size)
    assert set(reader.sizes) == {size}


async def test_text_is_refused() -> None:
    async def lines() -> AsyncGenerator[str, None]:
        yield "a"

    with pytest.raises(TypeError, match="must be bytes, not 'abc'"):
        await all_of(io.StringIO("abc"))
    async with aclosing(lines()) as source:
        with pytest.raises(TypeError, match="must be bytes, not 'a'"):
            await all_of(source)


def test_bytes() -> None:
    assert as_bytes(b"abc", "data") == b"abc"
    assert as_bytes(bytearray(b"abc"), "data") == b"abc"
    assert as_bytes(memoryview(b"abc"), "data") == b"abc"
    assert as_bytes(memoryview(b"abcdef")[::2], "data") == b"ace"
    assert len(as_bytes(memoryview(bytearray(8)).cast("I"), "data")) == 8
    assert as_bytes(memoryview((ctypes.c_int * 3 * 0)()), "data") == b""


# --- destinations ---


class Recorder:
    """Takes everything; `result` is what `write` returns."""

    def __init__(self, result: Any = None) -> None:
        self.data = bytearray()
        self._result = result

    def write(self, data: bytes) -> Any:
        self.data += data
        return self._result


class AsyncRecorder(Recorder):
    async def write(self, data: bytes) -> Any:
        await anyio.lowlevel.checkpoint()
        return super().write(data)


@pytest.mark.parametrize("result", [None, 0, 1, True, "all"])
@pytest.mark.parametrize("kind", [Recorder, AsyncRecorder])
async def test_destinations(kind: type[Recorder], result: Any) -> None:
    target = kind(result)
    await Destination(target, NO_DEADLINE).write(CONTENT)
    assert target.data == CONTENT


class Partial(io.FileIO):
    """Takes a part, as on a full disk."""

    def write(self, data: Any) -> int:
        return super().write(bytes(data[:100])) or 0


class Wrapper:
    """Not one of Python's files, whatever it has: what it returns may mean anything."""

    def __init__(self, file: io.FileIO) -> None:
        self.file = file

    def write(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            view = view[self.file.write(view) :]


@pytest.mark.real_time
async def test_files_without_a_buffer_in_a_wrapper(tmp_path: Path, anyio_backend_name: str) -> None:
    path = tmp_path / "file"
    wrappers: list[Callable[[Any], Any]] = [
        lambda file: tempfile._TemporaryFileWrapper(file, str(path), delete=False),
        anyio.wrap_file,
        Wrapper,
    ]
    if anyio_backend_name == "trio":
        import trio

        wrappers.append(trio.wrap_file)
    for wrap in wrappers:
        with Partial(path, "wb") as file:
            await Destination(wrap(file), NO_DEADLINE).write(CONTENT)
        assert path.read_bytes() == CONTENT


@pytest.mark.real_time
async def test_a_file_that_takes_nothing() -> None:
    class Full(io.RawIOBase):
        def write(self, data: Any) -> int | None:
            return None

    with pytest.raises(BlockingIOError, match="no more"):
        await Destination(Full(), NO_DEADLINE).write(b"abc")


# --- time ---


async def test_a_cancellation_is_none_of_the_deadline_s() -> None:
    class Sleeper:
        async def read(self, _size: int) -> bytes:
            await anyio.sleep(10)
            return b""

    with anyio.move_on_after(1) as scope:
        await Source(Sleeper(), 4, Deadline(anyio.current_time() + 2, inf, 2)).next()
    assert scope.cancelled_caught


async def test_a_source_with_asynchronous_reads_is_asked_for_nothing_else() -> None:
    """A file of GridFS that is not open refuses its other attributes."""

    class Refuses(AsyncReader):
        def __getattr__(self, name: str) -> Any:
            raise InvalidOperation(name)

    source = Source(Refuses(b"abc"), 4, NO_DEADLINE)
    assert await source.next() == b"abc"
