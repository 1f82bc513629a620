"""Pure: a minimal HTTP/1.1 client for cloud metadata services: a GET request and its response.

`ResponseReader` is a framer like `FrameReader`; its only frame is the whole response.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from motorlite.errors import ProtocolError

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping

# Bytes. Tokens take a few kilobytes.
MAX_RESPONSE: Final = 64 * 1024
_MAX_DIGITS: Final = 16
_HEXADECIMAL: Final = re.compile("[0-9A-Fa-f]+")
_CHUNK: Final = 16 * 1024


@dataclass(slots=True, eq=False)
class Response:
    """The response to a request."""

    status: int
    body: str

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

    __slots__ = ("_data", "_is_closed", "_parsing", "_position", "_response", "_space")

    def __init__(self) -> None:
        self._data = bytearray()
        # The start of the unparsed bytes. No byte is looked at again and again.
        self._position = 0
        self._is_closed = False
        self._response: Response | None = None
        self._parsing = self._parse()
        self._space = bytearray(_CHUNK)

    def buffer(self) -> memoryview:
        """The space for the next bytes."""
        return memoryview(self._space)

    def received(self, count: int) -> None:
        """Record that `count` bytes were written at the start of `buffer()`."""
        self._data += self._space[:count]

    def received_one(self, count: int) -> None:
        """Like `received`; `next_frame` returns the response."""
        self.received(count)

    def whole(self, data: bytes) -> None:
        """Consume `data`; `next_frame` returns the response."""
        self._data += data

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
        if self._response is not None:
            return None
        if len(self._data) > MAX_RESPONSE:
            raise ProtocolError(f"the HTTP response has more than {MAX_RESPONSE} bytes")
        self._response = next(self._parsing, None)
        return None if self._response is None else bytes(self._data)

    @property
    def is_empty(self) -> bool:
        """Whether nothing has arrived."""
        return not self._data

    def response(self) -> Response:
        """Return the response; no more bytes arrive.

        Raises:
            ProtocolError: what arrived is not an HTTP response, or not a complete one.
        """
        self._is_closed = True
        self._response = self._response or next(self._parsing, None)
        if self._response is None:
            raise ProtocolError("the HTTP response ends too early")
        return self._response

    def _parse(self) -> Generator[Response | None, None, None]:
        """Yield None until the response is complete, to be resumed when there are more bytes; then yield it."""
        head = yield from self._until(b"\r\n\r\n")
        status_line, *lines = head.decode("latin-1").split("\r\n")
        version, _, reason = status_line.partition(" ")
        status = reason[:3]
        if not version.startswith("HTTP/1.") or not _is_number(status) or len(status) != 3:
            raise ProtocolError("the answer is not HTTP")
        headers = {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        body: bytes | bytearray
        if "chunked" in headers.get("transfer-encoding", "").lower():
            body = bytearray()
            while True:
                line = yield from self._until(b"\r\n")
                length = _length(line.partition(b";")[0].decode("latin-1").strip(), 16)
                if not length:
                    break
                chunk = yield from self._take(length + 2)
                body += chunk[:length]
        elif "content-length" in headers:
            body = yield from self._take(_length(headers["content-length"], 10))
        else:
            while not self._is_closed:
                yield None
            body = self._data[self._position :]
        yield Response(int(status), body.decode(errors="replace"))

    def _until(self, mark: bytes) -> Generator[None, None, bytes | bytearray]:
        """Return the bytes before the next `mark` and skip past it."""
        searched = self._position
        while (end := self._data.find(mark, max(self._position, searched - len(mark) + 1))) < 0:
            searched = len(self._data)
            yield
        found = self._data[self._position : end]
        self._position = end + len(mark)
        return found

    def _take(self, count: int) -> Generator[None, None, bytes | bytearray]:
        """Return the next `count` bytes."""
        end = self._position + count
        while len(self._data) < end:
            yield
        found = self._data[self._position : end]
        self._position = end
        return found


def _is_number(text: str) -> bool:
    """Whether `text` is a number in HTTP. Python also accepts other digits, signs and underscores."""
    return text.isascii() and text.isdigit()


def _length(text: str, base: int) -> int:
    if not (_is_number(text) if base == 10 else _HEXADECIMAL.fullmatch(text)) or len(text) > _MAX_DIGITS:
        raise ProtocolError("the HTTP response announces no usable length")
    return int(text, base)
