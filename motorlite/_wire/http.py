"""Pure: the little of HTTP/1.1 that the metadata services of clouds need: a GET request and its response.

`ResponseReader` is a framer as `FrameReader` is one: a whole response is its only frame.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from motorlite.errors import ProtocolError

if TYPE_CHECKING:
    from collections.abc import Mapping

# Tokens have a few kilobytes.
MAX_RESPONSE: Final = 64 * 1024
_MAX_DIGITS: Final = 16
_HEXADECIMAL: Final = re.compile("[0-9A-Fa-f]+")
_CHUNK: Final = 16 * 1024


class Response:
    """The answer to a request."""

    __slots__ = ("body", "status")

    def __init__(self, status: int, body: str) -> None:
        self.status = status
        self.body = body

    def __repr__(self) -> str:
        # The body may be a token.
        return f"<Response {self.status}>"


def get(host: str, target: str, headers: Mapping[str, str]) -> bytes:
    """A GET request after which the server closes the connection."""
    fields = {"Host": host, **headers, "Connection": "close"}
    lines = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
    return f"GET {target} HTTP/1.1\r\n{lines}\r\n".encode("ascii")


class ResponseReader:
    """The receiving end of a connection that carries one response."""

    __slots__ = ("_data", "_is_over", "_parser", "_space")

    def __init__(self) -> None:
        self._data = bytearray()
        self._parser = _Parser()
        self._space = bytearray(_CHUNK)
        self._is_over = False

    def buffer(self) -> memoryview:
        """Where the next bytes go."""
        return memoryview(self._space)

    def received(self, count: int) -> None:
        """`count` bytes were put at the start of `buffer()`."""
        self._data += self._space[:count]

    def feed(self, data: bytes | bytearray | memoryview) -> list[bytes | bytearray]:
        """Take over all of `data`; the response is answered once it is whole."""
        self._data += data
        frame = self.next_frame()
        return [] if frame is None else [frame]

    def next_frame(self) -> bytes | bytearray | None:
        """The response, once it is whole and its end is marked in it.

        Raises:
            ProtocolError: it is no HTTP, or far too long.
        """
        if self._is_over:
            return None
        if len(self._data) > MAX_RESPONSE:
            raise ProtocolError(f"the HTTP response has more than {MAX_RESPONSE} bytes")
        if self._parser.advance(self._data, is_closed=False) is None:
            return None
        self._is_over = True
        return bytes(self._data)

    @property
    def is_empty(self) -> bool:
        """Whether nothing has arrived."""
        return not self._data

    def so_far(self) -> bytes:
        """What has arrived: the response, where the server marks its end by closing."""
        return bytes(self._data)


def parse(data: bytes | bytearray) -> Response:
    """The response that `data` is.

    Raises:
        ProtocolError: it is none, or not a whole one.
    """
    response = _Parser().advance(data, is_closed=True)
    if response is None:
        raise ProtocolError("the HTTP response ends too early")
    return response


class _Parser:
    """How far a response has been read whose bytes arrive one after the other: none is looked at again and again."""

    __slots__ = ("_body", "_is_chunked", "_length", "_position", "_searched", "_status")

    def __init__(self) -> None:
        # Where what was not understood yet begins, and how far no end of a line was found in it.
        self._position = 0
        self._searched = 0
        # None: the head is not whole yet. Without chunks and without a length, the body ends with the connection.
        self._status: int | None = None
        self._is_chunked = False
        self._length: int | None = None
        # What the chunks held.
        self._body = bytearray()

    def advance(self, data: bytes | bytearray, *, is_closed: bool) -> Response | None:
        """Read on in `data`, which has grown. None: more bytes are needed; with `is_closed` none will come."""
        if self._status is None:
            head = self._until(b"\r\n\r\n", data)
            if head is None:
                return None
            self._read_head(head.decode("latin-1"))
        assert self._status is not None
        body: bytes | bytearray | None
        if self._is_chunked:
            body = self._read_chunks(data)
        elif self._length is not None:
            end = self._position + self._length
            body = data[self._position : end] if len(data) >= end else None
        else:
            body = data[self._position :] if is_closed else None
        return None if body is None else Response(self._status, body.decode(errors="replace"))

    def _until(self, mark: bytes, data: bytes | bytearray) -> bytes | bytearray | None:
        """What comes before the next `mark`, behind which to read on."""
        end = data.find(mark, max(self._position, self._searched - len(mark) + 1))
        if end < 0:
            self._searched = len(data)
            return None
        found = data[self._position : end]
        self._position = end + len(mark)
        return found

    def _read_head(self, head: str) -> None:
        status_line, *lines = head.split("\r\n")
        version, _, reason = status_line.partition(" ")
        status = reason[:3]
        if not version.startswith("HTTP/1.") or not _is_number(status) or len(status) != 3:
            raise ProtocolError("the answer is not HTTP")
        headers = {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        self._status = int(status)
        self._is_chunked = "chunked" in headers.get("transfer-encoding", "").lower()
        if "content-length" in headers and not self._is_chunked:
            self._length = _length(headers["content-length"], 10)

    def _read_chunks(self, data: bytes | bytearray) -> bytearray | None:
        """The body, which is sent in chunks."""
        while True:
            if self._length is None:
                line = self._until(b"\r\n", data)
                if line is None:
                    return None
                self._length = _length(line.partition(b";")[0].decode("latin-1").strip(), 16)
            if self._length == 0:
                return self._body
            end = self._position + self._length
            if len(data) < end + 2:
                return None
            self._body += data[self._position : end]
            self._position, self._length = end + 2, None


def _is_number(text: str) -> bool:
    """Python takes more for digits than HTTP does, and signs and underscores besides."""
    return text.isascii() and text.isdigit()


def _length(text: str, base: int) -> int:
    if not (_is_number(text) if base == 10 else _HEXADECIMAL.fullmatch(text)) or len(text) > _MAX_DIGITS:
        raise ProtocolError("the HTTP response announces no usable length")
    return int(text, base)
