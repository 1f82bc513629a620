"""Pure: a minimal HTTP/1.1 client for cloud metadata services: a GET request and its response.

`ResponseReader` is a framer like `FrameReader`; its only frame is the whole response.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from motorlite.errors import ProtocolError

if TYPE_CHECKING:
    from collections.abc import Mapping

# Bytes. Tokens take a few kilobytes.
MAX_RESPONSE: Final = 64 * 1024
_MAX_DIGITS: Final = 16
_HEXADECIMAL: Final = re.compile("[0-9A-Fa-f]+")
_CHUNK: Final = 16 * 1024


class Response:
    """The response to a request."""

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
        """The space for the next bytes."""
        return memoryview(self._space)

    def received(self, count: int) -> None:
        """Record that `count` bytes were written at the start of `buffer()`."""
        self._data += self._space[:count]

    def received_one(self, count: int) -> None:
        """Like `received`; `next_frame` returns the response."""
        self.received(count)

    def feed(self, data: bytes | bytearray | memoryview) -> list[bytes | bytearray]:
        """Consume all of `data`; return the response once it is complete."""
        self._data += data
        frame = self.next_frame()
        return [] if frame is None else [frame]

    def next_frame(self) -> bytes | bytearray | None:
        """Return the response once it is complete, provided that it marks its own end.

        Raises:
            ProtocolError: the response is not HTTP, or is far too long.
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
        """The bytes received so far; the whole response if the server marks its end by closing."""
        return bytes(self._data)


def parse(data: bytes | bytearray) -> Response:
    """Parse `data` as a response.

    Raises:
        ProtocolError: `data` is not an HTTP response, or not a complete one.
    """
    response = _Parser().advance(data, is_closed=True)
    if response is None:
        raise ProtocolError("the HTTP response ends too early")
    return response


class _Parser:
    """An incremental parser of one response; it never rescans bytes."""

    __slots__ = ("_body", "_is_chunked", "_length", "_position", "_searched", "_status")

    def __init__(self) -> None:
        # The start of the unparsed bytes, and how far they have been searched for the end of a line.
        self._position = 0
        self._searched = 0
        # None: the head is incomplete. Without chunks or a length, the body ends with the connection.
        self._status: int | None = None
        self._is_chunked = False
        self._length: int | None = None
        # The content of the chunks so far.
        self._body = bytearray()

    def advance(self, data: bytes | bytearray, *, is_closed: bool) -> Response | None:
        """Continue parsing `data`, which has grown. Returns None if more bytes are needed.

        With `is_closed`, no more bytes will arrive.
        """
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
        """Return the bytes before the next `mark` and skip past it, or None if there is no `mark` yet."""
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
        """Return the body of a chunked response, or None if it is incomplete."""
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
    """Whether `text` is a number in HTTP. Python also accepts other digits, signs and underscores."""
    return text.isascii() and text.isdigit()


def _length(text: str, base: int) -> int:
    if not (_is_number(text) if base == 10 else _HEXADECIMAL.fullmatch(text)) or len(text) > _MAX_DIGITS:
        raise ProtocolError("the HTTP response announces no usable length")
    return int(text, base)
