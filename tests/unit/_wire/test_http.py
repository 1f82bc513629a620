from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from motorlite._wire.http import MAX_RESPONSE, Response, ResponseReader, get
from motorlite.errors import ProtocolError

WITH_LENGTH = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 5\r\n\r\ntoken"
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3;x=1\r\ntok\r\n2\r\nen\r\n0\r\n\r\n"
UNTIL_CLOSED = b"HTTP/1.0 200 OK\r\n\r\ntoken"


def parse(data: bytes | bytearray) -> Response:
    """The response that `data` is, before the server closes the connection."""
    reader = ResponseReader()
    reader.feed(data)
    return reader.response()


def test_request() -> None:
    assert get("metadata", "/a?b=c", {"Metadata": "true"}) == (
        b"GET /a?b=c HTTP/1.1\r\nHost: metadata\r\nMetadata: true\r\nConnection: close\r\n\r\n"
    )


@pytest.mark.parametrize("data", [WITH_LENGTH, CHUNKED])
@pytest.mark.parametrize("size", [1, 7, 1000])
def test_a_response_in_pieces(data: bytes, size: int) -> None:
    fed, put = ResponseReader(), ResponseReader()
    assert fed.is_empty
    frames = []
    for start in range(0, len(data), size):
        piece = data[start : start + size]
        frames += fed.feed(piece)
        put.buffer()[: len(piece)] = piece
        put.received(len(piece))
        if (frame := put.next_frame()) is not None:
            frames.append(frame)
        assert not fed.is_empty
    assert len(frames) == 2
    assert {parse(frame).body for frame in frames} == {"token"}
    assert put.next_frame() is None, "there is one response only"


def test_a_response_that_ends_with_the_connection() -> None:
    reader = ResponseReader()
    assert reader.feed(UNTIL_CLOSED) == []
    response = reader.response()
    assert (response.status, response.body) == (200, "token")


def test_an_error() -> None:
    response = parse(b"HTTP/1.1 404 Not Found\r\ncontent-LENGTH: 2\r\n\r\nno")
    assert (response.status, response.body) == (404, "no")
    assert repr(response) == "<Response 404>", "the body may be a token"


@pytest.mark.parametrize(
    "data",
    [
        b"SSH-2.0-OpenSSH\r\n\r\n",
        b"HTTP/1.1 abc\r\n\r\n",
        b"HTTP/1.1 200\r\nContent-Length: many\r\n\r\n",
        b"HTTP/1.1 200\r\nContent-Length: -1\r\n\r\n",
        b"HTTP/1.1 200\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n",
        b"HTTP/1.1 200\r\nTransfer-Encoding: chunked\r\n\r\n\r\n",
        b"HTTP/1.1 20\r\n\r\n",
        # What Python takes for numbers.
        b"HTTP/1.1 \xb2\xb3\xb9 OK\r\n\r\n",
        b"HTTP/1.1 200\r\nContent-Length: +1\r\n\r\na",
        b"HTTP/1.1 200\r\nContent-Length: 1_0\r\n\r\n0123456789",
        b"HTTP/1.1 200\r\nContent-Length: \xb2\r\n\r\naa",
        b"HTTP/1.1 200\r\nContent-Length: " + b"9" * 5_000 + b"\r\n\r\n",
        b"HTTP/1.1 200\r\nTransfer-Encoding: chunked\r\n\r\n+1\r\na\r\n0\r\n\r\n",
        b"HTTP/1.1 200\r\nTransfer-Encoding: chunked\r\n\r\n0x1\r\na\r\n0\r\n\r\n",
        b"HTTP/1.1 200\r\nTransfer-Encoding: chunked\r\n\r\n1_0\r\n",
    ],
)
def test_nonsense(data: bytes) -> None:
    with pytest.raises(ProtocolError):
        ResponseReader().feed(data)


@pytest.mark.parametrize("data", [b"", b"HTTP/1.1 200 OK\r\n", WITH_LENGTH[:-1], CHUNKED[:-8]])
def test_a_response_that_ends_too_early(data: bytes) -> None:
    assert ResponseReader().feed(data) == []
    with pytest.raises(ProtocolError, match="ends too early"):
        parse(data)


def test_an_endless_response() -> None:
    reader = ResponseReader()
    with pytest.raises(ProtocolError, match="more than"):
        reader.feed(b"x" * (MAX_RESPONSE + 1))


def test_no_byte_is_looked_at_again_and_again() -> None:
    """Chunks of one byte, in segments of one byte: with each, only what is new is read."""

    class Counting(bytearray):
        looked_at = 0

        def __bytes__(self) -> bytes:
            Counting.looked_at += len(self)
            return bytes(memoryview(self))

        def find(self, mark: Any, start: Any = 0, *rest: Any) -> int:
            found = super().find(mark, start, *rest)
            Counting.looked_at += (len(self) if found < 0 else found + len(mark)) - start
            return found

        def __getitem__(self, key: Any) -> Any:
            found = super().__getitem__(key)
            Counting.looked_at += len(found) if isinstance(key, slice) else 1
            return found

    data = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + b"1\r\na\r\n" * 2_000 + b"0\r\n"
    reader = ResponseReader()
    reader._data = Counting()
    frames = [frame for byte in data for frame in reader.feed(bytes([byte]))]
    assert [parse(frame).body for frame in frames] == ["a" * 2_000]
    assert Counting.looked_at < 10 * len(data)


def test_chunks_count_more_than_a_length() -> None:
    both = CHUNKED.replace(b"Transfer", b"Content-Length: 1\r\nTransfer")
    assert parse(both).body == "token"


@given(st.binary(max_size=200))
def test_any_bytes(data: bytes) -> None:
    try:
        ResponseReader().feed(data)
        parse(data)
    except ProtocolError:
        pass
