"""Pure: the little of HTTP/1.1 that the metadata services of clouds need: a GET request and its response.

`ResponseReader` is a framer as `FrameReader` is one: a whole response is its only frame.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from motorlite.errors import ProtocolError

if TYPE_CHECKING:
    from collections.abc import Mapping

# Tokens have a few kilobytes.
MAX_RESPONSE: Final = 1024 * 1024
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

    __slots__ = ("_data", "_is_over", "_space")

    def __init__(self) -> None:
        self._data = bytearray()
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
        if _parse(bytes(self._data), is_closed=False) is None:
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
    response = _parse(bytes(data), is_closed=True)
    if response is None:
        raise ProtocolError("the HTTP response ends too early")
    return response


def _parse(data: bytes, *, is_closed: bool) -> Response | None:
    """None: more bytes are needed. With `is_closed` none will come."""
    head, separator, rest = data.partition(b"\r\n\r\n")
    if not separator:
        return None
    status_line, *lines = head.decode("latin-1").split("\r\n")
    version, _, status = status_line.partition(" ")
    if not version.startswith("HTTP/1.") or not status[:3].isdigit():
        raise ProtocolError("the answer is not HTTP")
    headers = {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    if "chunked" in headers.get("transfer-encoding", "").lower():
        body = _dechunk(rest)
    elif "content-length" in headers:
        length = _length(headers["content-length"], 10)
        body = rest[:length] if len(rest) >= length else None
    else:
        body = rest if is_closed else None
    return None if body is None else Response(int(status[:3]), body.decode(errors="replace"))


def _dechunk(data: bytes) -> bytes | None:
    """The body that was sent in chunks; None: more bytes are needed."""
    body = bytearray()
    while True:
        line, separator, data = data.partition(b"\r\n")
        if not separator:
            return None
        length = _length(line.partition(b";")[0].decode("latin-1"), 16)
        if length == 0:
            return bytes(body)
        if len(data) < length + 2:
            return None
        body += data[:length]
        data = data[length + 2 :]


def _length(text: str, base: int) -> int:
    try:
        length = int(text, base)
    except ValueError:
        length = -1
    if length < 0:
        raise ProtocolError("the HTTP response announces no usable length")
    return length
