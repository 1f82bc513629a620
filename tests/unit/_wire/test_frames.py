from __future__ import annotations

import struct
import tracemalloc
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from motorlite._wire.frames import FrameReader, ReceiveBuffer
from motorlite.errors import ProtocolError

if TYPE_CHECKING:
    from collections.abc import Iterable

KIB = 1024
BOUNDARIES = [16, 17, 64 * KIB - 1, 64 * KIB, 64 * KIB + 1, 128 * KIB - 1, 128 * KIB, 128 * KIB + 1, 5 * KIB * KIB + 3]


def frame(length: int, seed: int = 0) -> bytes:
    """A message of `length` bytes in which bytes that are lost, doubled or swapped show."""
    pattern = bytes((seed + i * 7) % 251 for i in range(251))
    return struct.pack("<i", length) + (pattern * (length // 251 + 1))[: length - 4]


def received(reader: FrameReader, data: bytes, reads: Iterable[int]) -> list[bytes | bytearray]:
    """Put `data` into the reader's buffers, in reads of at most the given sizes, then as much as there is room."""
    frames = []
    rest = memoryview(data)
    sizes = iter(reads)
    while rest:
        target = memoryview(reader.buffer())
        assert target, "a reader without room would be read as the end of the stream"
        count = min(len(target), len(rest), next(sizes, len(rest)))
        target[:count] = rest[:count]
        target.release()
        reader.received(count)
        rest = rest[count:]
        while (found := reader.next_frame()) is not None:
            frames.append(found)
    return frames


@pytest.mark.parametrize("length", BOUNDARIES)
@pytest.mark.parametrize("around", [(16, 16), (40_000, 40_000), (64 * KIB, 70_000), (70_000, 64 * KIB)])
def test_messages_side_by_side(length: int, around: tuple[int, int]) -> None:
    parts = [frame(around[0], 1), frame(length, 2), frame(around[1], 3)]
    assert FrameReader().feed(b"".join(parts)) == parts
    assert received(FrameReader(), b"".join(parts), ()) == parts


@pytest.mark.parametrize("length", [16, 17, 300])
def test_byte_by_byte(length: int) -> None:
    reader = FrameReader()
    data = frame(length) + frame(length, 1)
    for index, byte in enumerate(data):
        frames = reader.feed(bytes([byte]))
        expected = {length - 1: [data[:length]], 2 * length - 1: [data[length:]]}
        assert frames == expected.get(index, [])
        assert reader.is_empty is bool(frames)


def test_a_large_message_byte_by_byte_around_its_ends() -> None:
    length = 64 * KIB + 100
    data = frame(length, 1) + frame(length, 2)
    sizes = [1] * 200 + [64 * KIB - 200] + [1] * 500
    assert received(FrameReader(), data, sizes) == [data[:length], data[length:]]


lengths = st.integers(16, 400) | st.sampled_from([64 * KIB - 1, 64 * KIB, 64 * KIB + 1, 150_000])


@settings(deadline=None)
@given(st.lists(lengths, max_size=6), st.lists(st.integers(1, 50_000), max_size=30), st.integers(0, 30))
def test_any_split_gives_the_same_messages(sizes: list[int], reads: list[int], cut: int) -> None:
    parts = [frame(size, seed) for seed, size in enumerate(sizes)]
    data = b"".join(parts)
    assert received(FrameReader(), data, reads) == parts
    fed, reader, position = [], FrameReader(), 0
    for size in (*reads, len(data)):
        fed += reader.feed(data[position : position + size])
        position += size
    assert fed == parts
    # What is cut off stays wanted, and nothing is made of it.
    cut = min(cut, len(parts[-1]) - 1) if parts else 0
    reader = FrameReader()
    assert received(reader, data[: len(data) - cut], reads) == (parts[:-1] if cut else parts)
    assert reader.is_empty is (cut == 0)


def test_what_is_handed_out_outlives_the_buffer() -> None:
    reader = FrameReader()
    first, second = frame(1_000, 1), frame(1_000, 2)
    kept = reader.feed(first)
    reader.feed(second)
    assert kept == [first]


@pytest.mark.parametrize("length", [-(2**31), -1, 0, 15, 48_000_000 + 16 * KIB + 1, 2**31 - 1])
def test_impossible_lengths(length: int) -> None:
    with pytest.raises(ProtocolError, match=f"announces {length} bytes"):
        FrameReader().feed(struct.pack("<i", length) + bytes(20))


@pytest.mark.parametrize("greeting", [b"SSH-2.0-OpenSSH_9.6\r\n", b"-ERR unknown command", b"220 mail.example ESMTP"])
def test_the_greeting_of_another_service(greeting: bytes) -> None:
    with pytest.raises(ProtocolError, match=r"announces \d+ bytes.*is this the port of another service\?"):
        FrameReader().feed(greeting)


def test_other_bytes_suggest_no_service() -> None:
    with pytest.raises(ProtocolError) as caught:
        FrameReader().feed(b"\xff\xff\xff\x7f" + b"shop" * 4)
    assert "service" not in str(caught.value)


def test_the_limit_is_the_servers_with_some_headroom() -> None:
    reader = FrameReader(100_000)
    largest = frame(100_000 + 16 * KIB)
    assert reader.feed(largest) == [largest]
    with pytest.raises(ProtocolError, match="16 to 100000"):
        reader.feed(frame(100_000 + 16 * KIB + 1))
    reader = FrameReader(100_000)
    reader.max_message_size = 200_000
    assert reader.feed(frame(200_000)) == [frame(200_000)]


def test_an_announced_length_allocates_nothing() -> None:
    reader = FrameReader()
    tracemalloc.start()
    try:
        reader.feed(struct.pack("<i", 48_000_000) + bytes(60))
        assert tracemalloc.get_traced_memory()[1] < 300 * KIB
        allocated = arrived = 64
        while arrived < 4_000_000:
            count = len(reader.buffer())
            arrived += count
            reader.received(count)
            assert reader.next_frame() is None
            allocated = tracemalloc.get_traced_memory()[0]
            assert allocated < 16 * arrived + 200 * KIB
    finally:
        tracemalloc.stop()
    assert allocated > arrived


@settings(deadline=None)
@given(st.binary(max_size=100), st.lists(st.integers(1, 20), max_size=10))
def test_arbitrary_bytes(data: bytes, reads: list[int]) -> None:
    """Either messages or an error, the same for every split."""

    def cut(reads: list[int]) -> tuple[list[bytes | bytearray], bool]:
        reader, frames, position = FrameReader(), [], 0
        try:
            for size in (*reads, 100):
                frames += reader.feed(data[position : position + size])
                position += size
        except ProtocolError:
            return frames, True
        assert sum(map(len, frames)) <= len(data)
        return frames, False

    whole, split = cut([]), cut(reads)
    assert whole[1] == split[1]
    if not whole[1]:
        assert whole == split


def test_exactly_one_message() -> None:
    reader = FrameReader()
    one, other = frame(100), frame(300, seed=1)

    def write(data: bytes) -> bytes | bytearray | None:
        reader.buffer()[: len(data)] = data
        return reader.received_one(len(data))

    assert write(one) == one
    assert reader.is_empty
    # In three parts, which `next_frame` puts together.
    for part in (other[:2], other[2:16]):
        assert write(part) is None
        assert reader.next_frame() is None
    assert write(other[16:]) is None
    assert reader.next_frame() == other
    # More than one, or one and a half: `next_frame` returns them.
    assert write(one + other) is None
    assert [reader.next_frame(), reader.next_frame(), reader.next_frame()] == [one, other, None]
    assert write(one + other[:20]) is None
    assert [reader.next_frame(), reader.next_frame()] == [one, None]
    assert write(other[20:]) is None
    assert [reader.next_frame(), reader.next_frame()] == [other, None]
    assert reader.is_empty


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(0, 2), st.integers(1, 80_000)), max_size=40))
def test_connections_share_a_buffer(reads: list[tuple[int, int]]) -> None:
    """Whichever of them receives next, each gets its own messages."""
    shared = ReceiveBuffer()
    readers = [FrameReader(shared=shared) for _ in range(3)]
    parts = [[frame(length, number) for length in (16, 300, 70_000, 64 * KIB, 17)] for number in range(3)]
    left = [memoryview(b"".join(messages)) for messages in parts]
    found: list[list[bytes | bytearray]] = [[], [], []]
    for chosen, size in (*reads, *((number, 80_000) for number in (0, 1, 2) * 5)):
        part, left[chosen] = left[chosen][:size], left[chosen][size:]
        found[chosen] += received(readers[chosen], bytes(part), ())
    assert found == parts


def test_an_idle_connection_has_no_buffer() -> None:
    shared = ReceiveBuffer()
    tracemalloc.start()
    try:
        readers = [FrameReader(shared=shared) for _ in range(100)]
        for reader in readers:
            reader.feed(frame(70_000))
            reader.feed(frame(16))
        assert tracemalloc.get_traced_memory()[0] < 100 * 300
    finally:
        tracemalloc.stop()


def test_exactly_one_large_message() -> None:
    reader = FrameReader()
    data = frame(200 * KIB)
    rest = memoryview(data)
    while rest:
        count = min(len(reader.buffer()), len(rest))
        reader.buffer()[:count] = rest[:count]
        rest = rest[count:]
        assert reader.received_one(count) is None
        assert reader.next_frame() == (None if rest else data)
    assert reader.is_empty


def test_an_invalid_length_is_not_a_message() -> None:
    reader = FrameReader()
    reader.buffer()[:8] = struct.pack("<ii", 8, 0)  # the length is right, but too short for a header
    assert reader.received_one(8) is None
    assert reader.next_frame() is None
    reader.buffer()[:8] = bytes(8)
    assert reader.received_one(8) is None
    with pytest.raises(ProtocolError):
        reader.next_frame()
