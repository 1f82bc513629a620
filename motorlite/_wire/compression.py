"""Pure: OP_COMPRESSED messages and their compressors (wire compression specification).

A message's announced size is trusted only up to the connection's limit, and bounds the memory that decompression uses:
a message that expands beyond it is rejected before the excess is allocated.
"""

from __future__ import annotations

import sys
from struct import Struct
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias

from motorlite._wire.frames import HEADER, HEADER_SIZE, OP_COMPRESSED
from motorlite.errors import ProtocolError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

Buffer: TypeAlias = bytes | bytearray | memoryview

# Header, original opcode, uncompressed size without the header, compressor id.
_PREFIX: Final = Struct("<iiiiiiB")
_PREFIX_SIZE: Final = _PREFIX.size
_OP_CODE: Final = slice(12, 16)
_COMPRESSED: Final = OP_COMPRESSED.to_bytes(4, "little")
# OP_MSG: header, flags, kind, size of the document, type of its first field; the field's name follows.
_NAME_OFFSET: Final = HEADER_SIZE + 4 + 1 + 4 + 1
_NEVER_COMPRESSED: Final = frozenset(
    {
        b"hello",
        b"ismaster",
        b"saslstart",
        b"saslcontinue",
        b"getnonce",
        b"authenticate",
        b"createuser",
        b"updateuser",
        b"copydbsaslstart",
        b"copydbgetnonce",
        b"copydb",
    }
)
# Zstandard frames choose their own window size; the format advises decoders to support at least 8 MiB.
_LEAST_WINDOW_LOG: Final = 23


class Compressor(Protocol):
    """A compression algorithm.

    `decompress` returns exactly `size` bytes or raises ProtocolError. It never produces many more bytes than `size`.
    """

    id: int
    name: str

    def compress(self, data: memoryview) -> bytes: ...
    def decompress(self, data: memoryview, size: int) -> Buffer: ...


class Noop:
    """No compression. Never negotiated, but a server may wrap a message this way."""

    id = 0
    name = "noop"

    def compress(self, data: memoryview) -> bytes:
        return bytes(data)

    def decompress(self, data: memoryview, size: int) -> Buffer:
        if len(data) != size:
            raise _wrong(self, f"has {len(data)} bytes, not {size}")
        return data


class Snappy:
    """Snappy, without its framing format."""

    id = 1
    name = "snappy"

    def __init__(self) -> None:
        import snappy  # type: ignore[import-untyped]  # it has no type hints

        self._snappy = snappy

    def compress(self, data: memoryview) -> bytes:
        return self._snappy.compress(data)  # type: ignore[no-any-return]

    def decompress(self, data: memoryview, size: int) -> Buffer:
        # The library allocates the size announced in the first bytes before it reads the rest.
        announced = _snappy_size(data)
        if announced != size:
            raise _wrong(self, f"announces {announced} bytes, not {size}")
        # The densest element expands 3 bytes to 64.
        if size * 3 > len(data) * 64:
            raise _wrong(self, f"of {len(data)} bytes cannot hold {size}")
        try:
            found: bytes = self._snappy.uncompress(data)
        except self._snappy.UncompressError as error:
            raise _wrong(self, f"is damaged: {error.__cause__ or error}") from None
        return found


def _snappy_size(data: memoryview) -> int:
    """The size at the start of Snappy data: at most 32 bits in groups of seven, lowest group first."""
    size = 0
    for index, byte in enumerate(data[:5]):
        size |= (byte & 0x7F) << (7 * index)
        if byte < 0x80:
            return size
    raise ProtocolError("a message compressed with snappy has no size")


class Zlib:
    """The format of RFC 1950."""

    id = 2
    name = "zlib"

    def __init__(self, level: int = -1) -> None:
        self._level = level

    def compress(self, data: memoryview) -> bytes:
        import zlib

        return zlib.compress(data, self._level)

    def decompress(self, data: memoryview, size: int) -> Buffer:
        import zlib

        stream = zlib.decompressobj()
        try:
            found = stream.decompress(data, size + 1)
        except zlib.error as error:
            raise _wrong(self, f"is damaged: {error}") from None
        _check_whole(self, stream, len(found), size)
        return found


class Zstd:
    """Zstandard, as a single frame."""

    id = 3
    name = "zstd"

    def __init__(self) -> None:
        if sys.version_info >= (3, 14):
            from compression import zstd
        else:
            from backports import zstd

        self._zstd = zstd

    def compress(self, data: memoryview) -> bytes:
        return self._zstd.compress(data)

    def decompress(self, data: memoryview, size: int) -> Buffer:
        zstd = self._zstd
        # The library allocates the window that the frame requests.
        window_log = max(_LEAST_WINDOW_LOG, size.bit_length())
        try:
            announced = zstd.get_frame_info(data).decompressed_size
            if announced is not None and announced != size:
                raise _wrong(self, f"announces {announced} bytes, not {size}")
            stream = zstd.ZstdDecompressor(options={zstd.DecompressionParameter.window_log_max: window_log})
            found: bytes = stream.decompress(data, size + 1)
        except zstd.ZstdError as error:
            raise _wrong(self, f"is damaged: {error}") from None
        _check_whole(self, stream, len(found), size)
        return found


def _check_whole(compressor: Compressor, stream: Any, found: int, size: int) -> None:
    if found > size:
        raise _wrong(compressor, f"has more than the {size} bytes that it announces")
    if not stream.eof:
        raise _wrong(compressor, "is cut off")
    if stream.unused_data:
        raise _wrong(compressor, "has bytes after its end")
    if found != size:
        raise _wrong(compressor, f"has {found} bytes, not {size}")


def _wrong(compressor: Compressor, what: str) -> ProtocolError:
    return ProtocolError(f"a message compressed with {compressor.name} {what}")


def make_compressors(names: Iterable[str], zlib_level: int = -1) -> tuple[tuple[Compressor, ...], tuple[str, ...]]:
    """Return the compressors for `names`, in order, and the names whose library is not installed."""
    makers: Mapping[str, Callable[[], Compressor]] = {
        "snappy": Snappy,
        "zlib": lambda: Zlib(zlib_level),
        "zstd": Zstd,
    }
    found: list[Compressor] = []
    missing: list[str] = []
    for name in names:
        try:
            found.append(makers[name]())
        except ImportError:
            missing.append(name)
    return tuple(found), tuple(missing)


def choose(offered: Sequence[Compressor], accepted: Iterable[Any]) -> Compressor | None:
    """Return the compressor for requests: the first offered one that the server accepted, or None."""
    names = tuple(accepted)
    return next((compressor for compressor in offered if compressor.name in names), None)


def may_compress(message: bytes) -> bool:
    """Whether `message` may be compressed: it is not compressed already and its command carries no secrets."""
    if message[_OP_CODE] == _COMPRESSED:
        return False
    end = message.find(b"\0", _NAME_OFFSET)
    return message[_NAME_OFFSET:end].lower() not in _NEVER_COMPRESSED


def compress(message: bytes, compressor: Compressor) -> bytes:
    """Return `message` as an OP_COMPRESSED message."""
    length, request_id, response_to, op_code = HEADER.unpack_from(message)
    content = compressor.compress(memoryview(message)[HEADER_SIZE:])
    size = _PREFIX_SIZE + len(content)
    prefix = _PREFIX.pack(size, request_id, response_to, OP_COMPRESSED, op_code, length - HEADER_SIZE, compressor.id)
    return prefix + content


def announced_size(frame: bytes | bytearray) -> int:
    """Return how many bytes `frame` announces that it has when it is decompressed. 0 if it is not compressed."""
    if len(frame) < _PREFIX_SIZE or frame[_OP_CODE] != _COMPRESSED:
        return 0
    size: int = _PREFIX.unpack_from(frame)[5]
    return size


def decompress(
    frame: bytes | bytearray, compressors: Mapping[int, Compressor], max_message_size: int
) -> bytes | bytearray:
    """Return the message compressed in `frame`, or `frame` itself if it is not compressed.

    Args:
        frame: One whole message, as returned by `FrameReader`.
        compressors: The compressors that the peer may use, by id.
        max_message_size: The maximum size of the message in bytes, including its header.

    Raises:
        ProtocolError: The message is malformed, too large, or does not match its announced size.
    """
    length, request_id, response_to, op_code = HEADER.unpack_from(frame)
    if op_code != OP_COMPRESSED:
        return frame
    if length < _PREFIX_SIZE:
        raise ProtocolError(f"a message of {length} bytes is too short for OP_COMPRESSED")
    *_, original, size, compressor_id = _PREFIX.unpack_from(frame)
    if original == OP_COMPRESSED:
        raise ProtocolError("a compressed message is compressed again")
    compressor = compressors.get(compressor_id)
    if compressor is None:
        raise ProtocolError(f"a message is compressed with compressor {compressor_id}, which was not offered")
    if not 0 <= size <= max_message_size - HEADER_SIZE:
        raise ProtocolError(
            f"a compressed message announces {size} bytes; allowed are 0 to {max_message_size - HEADER_SIZE}"
        )
    content = compressor.decompress(memoryview(frame)[_PREFIX_SIZE:], size)
    return b"".join((HEADER.pack(HEADER_SIZE + size, request_id, response_to, original), content))
