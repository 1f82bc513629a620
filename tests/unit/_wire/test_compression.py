"""Wire compression specification: what is compressed comes back whole, and what is not right is a ProtocolError."""

from __future__ import annotations

import builtins
import struct
import tracemalloc
import zlib
from typing import TYPE_CHECKING, Any

import bson
import pytest
import snappy  # type: ignore[import-untyped]  # it has no type hints
from hypothesis import example, given, settings
from hypothesis import strategies as st

from motorlite._wire import op_msg
from motorlite._wire.compression import (
    Compressor,
    Noop,
    Snappy,
    Zlib,
    Zstd,
    announced_size,
    choose,
    compress,
    decompress,
    make_compressors,
    may_compress,
)
from motorlite.errors import ProtocolError

if TYPE_CHECKING:
    from collections.abc import Callable

ALL: tuple[Compressor, ...] = (Noop(), Snappy(), Zlib(), Zstd())
REAL = ALL[1:]
BY_ID = {compressor.id: compressor for compressor in ALL}
LIMIT = 100_000
EACH = pytest.mark.parametrize("compressor", ALL, ids=lambda compressor: compressor.name)
EACH_REAL = pytest.mark.parametrize("compressor", REAL, ids=lambda compressor: compressor.name)

CONTENT = b"the content of a message, " * 40


def wrapped(content: bytes, size: int, compressor_id: int, *, op_code: int = 2013) -> bytes:
    """An OP_COMPRESSED message, whatever is in it."""
    return struct.pack("<iiiiiiB", 25 + len(content), 7, 3, 2012, op_code, size, compressor_id) + content


def message(content: bytes, op_code: int = 2013) -> bytes:
    return struct.pack("<iiii", 16 + len(content), 7, 3, op_code) + content


def refuse(frame: bytes, text: str, limit: int = LIMIT) -> None:
    with pytest.raises(ProtocolError, match=text):
        decompress(frame, BY_ID, limit)


# --- there and back ---


@EACH
@settings(deadline=None)
@given(
    st.binary(max_size=2_000) | st.builds(lambda part, times: part * times, st.binary(max_size=9), st.integers(0, 5000))
)
@example(b"")
def test_round_trip(compressor: Compressor, content: bytes) -> None:
    original = message(content)
    frame = compress(original, compressor)
    assert struct.unpack_from("<iiiiiiB", frame) == (len(frame), 7, 3, 2012, 2013, len(content), compressor.id)
    assert decompress(frame, BY_ID, len(original)) == original


def test_what_is_not_compressed_stays_what_it_is() -> None:
    frame = message(CONTENT)
    assert decompress(frame, BY_ID, LIMIT) is frame


def test_other_peers_formats() -> None:
    """What other implementations send: other levels, sizes that are not announced, bytes taken from the formats."""
    zstd = Zstd()._zstd
    stream = zstd.ZstdCompressor()
    without_size = stream.compress(CONTENT) + stream.flush()
    assert zstd.get_frame_info(without_size).decompressed_size is None
    for content, compressor_id in (
        (zlib.compress(CONTENT, 9), 2),
        (zlib.compress(CONTENT, 0), 2),
        (zstd.compress(CONTENT, 19), 3),
        (without_size, 3),
    ):
        assert decompress(wrapped(content, len(CONTENT), compressor_id), BY_ID, LIMIT) == message(CONTENT)
    # "abcd", then 6 bytes from 4 back.
    literal_and_copy = bytes([10, 3 << 2]) + b"abcd" + bytes([(6 - 4) << 2 | 1, 4])
    assert decompress(wrapped(literal_and_copy, 10, 1), BY_ID, LIMIT) == message(b"abcdabcdab")


@pytest.mark.parametrize("level", range(-1, 10))
def test_the_level_of_zlib(level: int) -> None:
    assert Zlib(level).compress(memoryview(CONTENT)) == zlib.compress(CONTENT, level)


# --- what is wrong ---


@EACH
@pytest.mark.parametrize("surplus", [-len(CONTENT), -500, -1, 1, len(CONTENT)])
def test_another_size_than_is_announced(compressor: Compressor, surplus: int) -> None:
    size = len(CONTENT) + surplus
    more = "has more than the|" if surplus < 0 else ""
    content = compressor.compress(memoryview(CONTENT))
    refuse(wrapped(content, size, compressor.id), f"{more}(has|announces) 1040 bytes, not {size}$")


def test_the_announced_size() -> None:
    message = op_msg.encode(1, bson.encode({"find": "c", "text": "x" * 5000}))
    assert announced_size(compress(message, Zlib())) == len(message) - 16
    assert [announced_size(frame) for frame in (message, bytearray(message), b"", bytes(16))] == [0, 0, 0, 0]
    assert announced_size(compress(message, Zlib())[:24]) == 0


@EACH
def test_more_than_is_allowed(compressor: Compressor) -> None:
    frame = compress(message(CONTENT), compressor)
    assert decompress(frame, BY_ID, len(CONTENT) + 16) == message(CONTENT)
    refuse(frame, "announces 1040 bytes; allowed are 0 to 1039", len(CONTENT) + 15)


@EACH
@pytest.mark.parametrize("size", [-1, -(2**31), 2**31 - 1])
def test_impossible_sizes(compressor: Compressor, size: int) -> None:
    refuse(wrapped(CONTENT, size, compressor.id), f"announces {size} bytes; allowed")


@EACH_REAL
def test_cut_off_anywhere(compressor: Compressor) -> None:
    content = compressor.compress(memoryview(CONTENT))
    for end in range(len(content)):
        refuse(wrapped(content[:end], len(CONTENT), compressor.id), f"with {compressor.name} ")


@EACH_REAL
@pytest.mark.parametrize("rest", [b"\0", b"x" * 30, CONTENT], ids=["zero", "some", "much"])
def test_bytes_behind_the_end(compressor: Compressor, rest: bytes) -> None:
    content = compressor.compress(memoryview(CONTENT)) + rest
    refuse(wrapped(content, len(CONTENT), compressor.id), "has bytes after its end|with snappy is damaged")


@pytest.mark.parametrize("length", range(16, 25))
def test_too_short(length: int) -> None:
    frame = wrapped(b"", 0, 0)[:length]
    refuse(struct.pack("<i", length) + frame[4:], f"of {length} bytes is too short for OP_COMPRESSED")


@pytest.mark.parametrize("compressor_id", [4, 77, 255])
def test_an_unknown_compressor(compressor_id: int) -> None:
    refuse(wrapped(CONTENT, 5, compressor_id), f"compressor {compressor_id}, which was not offered")


@EACH
def test_compressed_twice(compressor: Compressor) -> None:
    refuse(compress(compress(message(CONTENT), Zlib()), compressor), "is compressed again")


@EACH
def test_other_opcodes_are_for_the_next_to_refuse(compressor: Compressor) -> None:
    frame = compress(message(CONTENT, op_code=1), compressor)
    with pytest.raises(ProtocolError, match=r"opcode 1$"):
        op_msg.parse(decompress(frame, BY_ID, LIMIT))


@EACH_REAL
@settings(deadline=None, max_examples=300)
@given(st.binary(max_size=200), st.integers(0, 1_000))
def test_garbage(compressor: Compressor, content: bytes, size: int) -> None:
    check_refusal_or_size(wrapped(content, size, compressor.id), size)


@pytest.mark.slow
@EACH_REAL
@settings(deadline=None, max_examples=300)
@given(st.data())
def test_damage(compressor: Compressor, data: st.DataObject) -> None:
    frame = bytearray(compress(message(CONTENT), compressor))
    for position in data.draw(st.lists(st.integers(16, len(frame) - 1), min_size=1, max_size=4)):
        frame[position] ^= data.draw(st.integers(1, 255))
    check_refusal_or_size(bytes(frame), struct.unpack_from("<i", frame, 20)[0])


def check_refusal_or_size(frame: bytes, size: int) -> None:
    try:
        found = decompress(frame, BY_ID, LIMIT)
    except ProtocolError:
        return
    assert len(found) == 16 + size <= LIMIT


# --- memory ---


def zlib_bomb() -> bytes:
    return zlib.compress(bytes(60_000_000), 9)


def zstd_bomb(*, tells_size: bool) -> bytes:
    zstd = Zstd()._zstd
    if tells_size:
        return bytes(zstd.compress(bytes(60_000_000)))
    stream = zstd.ZstdCompressor()
    return bytes(stream.compress(bytes(60_000_000)) + stream.flush())


BOMBS: dict[str, tuple[int, Callable[[], bytes], str]] = {
    "snappy": (1, lambda: bytes(snappy.compress(bytes(60_000_000))), "announces 60000000 bytes, not 90000"),
    # Nothing but the size: the library would make room for 4 GB.
    "snappy's size": (1, lambda: b"\xff\xff\xff\xff\x0f" + b"\0" * 40, "announces 4294967295 bytes, not 90000"),
    "zlib": (2, zlib_bomb, "has more than the 90000 bytes"),
    "zstd": (3, lambda: zstd_bomb(tells_size=True), "announces 60000000 bytes, not 90000"),
    "zstd without a size": (3, lambda: zstd_bomb(tells_size=False), "has more than the 90000 bytes"),
}


@pytest.mark.parametrize(("compressor_id", "make", "text"), BOMBS.values(), ids=list(BOMBS))
def test_a_bomb_is_refused_before_there_is_room_for_it(compressor_id: int, make: Any, text: str) -> None:
    frame = wrapped(make(), 90_000, compressor_id)
    tracemalloc.start()
    try:
        refuse(frame, text)
        assert tracemalloc.get_traced_memory()[1] < 1_000_000 + 2 * len(frame)
    finally:
        tracemalloc.stop()


def test_snappy_is_not_believed_what_it_cannot_hold() -> None:
    """Room is made for what Snappy announces at once, so a few bytes must not announce many."""
    refuse(wrapped(b"\x80\xea\x30" + b"\0" * 50, 800_000, 1), "of 53 bytes cannot hold 800000", 10_000_000)
    densest = b"\x41" + b"\0a" + b"\xfe\x01\0" * 1  # a literal of one byte, 64 times the byte before
    assert decompress(wrapped(densest, 65, 1), BY_ID, LIMIT) == message(b"a" * 65)
    for content in (b"", b"\xff", b"\xff" * 9):
        refuse(wrapped(content, 5, 1), "snappy has no size")


def test_zstd_may_not_ask_for_a_huge_window() -> None:
    zstd = Zstd()._zstd
    for window_log, is_allowed in ((23, True), (24, False), (27, False)):
        stream = zstd.ZstdCompressor(options={zstd.CompressionParameter.window_log: window_log})
        frame = wrapped(stream.compress(CONTENT) + stream.flush(), len(CONTENT), 3)
        if is_allowed:
            assert decompress(frame, BY_ID, LIMIT) == message(CONTENT)
        else:
            refuse(frame, "with zstd is damaged")


# --- negotiation ---


@pytest.mark.parametrize(
    ("offered", "accepted", "chosen"),
    [
        ("zstd snappy zlib", ["snappy", "zlib", "zstd"], "zstd"),
        ("zstd snappy zlib", ["zlib", "snappy"], "snappy"),
        ("zlib", ["zlib"], "zlib"),
        ("zlib", ["snappy"], None),
        ("zlib", [], None),
        ("", ["zlib"], None),
        # Whatever a server answers.
        ("zlib", [1, None, {"zlib": 1}, ["zlib"]], None),
        ("zlib", ["ZLIB", "noop"], None),
    ],
)
def test_the_first_of_ours_that_the_server_has(offered: str, accepted: list[Any], chosen: str | None) -> None:
    compressors, missing = make_compressors(offered.split())
    assert missing == ()
    found = choose(compressors, accepted)
    assert (found.name if found else None) == chosen


def test_libraries_that_are_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def without(name: str, *args: Any, **kwargs: Any) -> Any:
        if name.partition(".")[0] in ("snappy", "backports", "compression"):
            raise ImportError(name)
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without)
    found, missing = make_compressors(["zstd", "zlib", "snappy"])
    assert [compressor.name for compressor in found] == ["zlib"]
    assert missing == ("zstd", "snappy")


SECRET = ["hello", "isMaster", "ismaster", "saslStart", "saslContinue", "getnonce", "authenticate", "createUser"]
SECRET += ["updateUser", "copydbSaslStart", "copydbgetnonce", "copydb", "CREATEUSER"]


@pytest.mark.parametrize(
    ("name", "expected"),
    [(name, False) for name in SECRET]
    + [(name, True) for name in ("find", "insert", "hell", "hello2", "ping", "logout", "x" * 500, "create", "ü")],
)
def test_commands_that_must_not_be_compressed(name: str, expected: bool) -> None:
    body = bson.encode({name: 1, "hello": 1, "$db": "admin"})
    assert may_compress(op_msg.encode(1, body)) is expected
    assert may_compress(op_msg.encode(1, body, [("documents", [bson.encode({})])], op_msg.MORE_TO_COME)) is expected
