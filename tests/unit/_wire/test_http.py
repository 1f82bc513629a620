from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from motorlite._wire.http import MAX_RESPONSE, ResponseReader, get, parse
from motorlite.errors import ProtocolError

WITH_LENGTH = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 5\r\n\r\ntoken"
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3;x=1\r\ntok\r\n2\r\nen\r\n0\r\n\r\n"
UNTIL_CLOSED = b"HTTP/1.0 200 OK\r\n\r\ntoken"


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
    response = parse(reader.so_far())
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


@given(st.binary(max_size=200))
def test_any_bytes(data: bytes) -> None:
    try:
        ResponseReader().feed(data)
        parse(data)
    except ProtocolError:
        pass
