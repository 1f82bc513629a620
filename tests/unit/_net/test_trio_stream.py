"""What only the trio stream does."""

from __future__ import annotations

import socket
from math import inf
from typing import TYPE_CHECKING, Any

import pytest
import trio

from motorlite._net.trio_stream import TrioStream
from motorlite._wire.frames import FrameReader
from motorlite.errors import AutoReconnect, ProtocolError, PyMongoError
from tests.support.peers import message

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, Any]]:
    return "trio", {}


@pytest.fixture
def sockets() -> Iterator[tuple[socket.socket, socket.socket]]:
    one, other = socket.socketpair()
    with one, other:
        yield one, other


@pytest.mark.parametrize(
    ("data", "expected"), [(b"", AutoReconnect), (message(50)[:20], AutoReconnect), (b"\xff" * 20, ProtocolError)]
)
async def test_a_stream_that_failed_holds_no_socket(
    sockets: tuple[socket.socket, socket.socket], data: bytes, expected: type[PyMongoError]
) -> None:
    near, far = sockets
    own = trio.socket.from_stdlib_socket(near)
    stream = TrioStream(("a", 1), FrameReader(), own, None)
    far.sendall(data)
    far.close()
    with pytest.raises(expected):
        await stream.receive(inf)
    assert stream.is_closed
    assert own.fileno() == -1


async def test_nor_does_one_whose_peer_is_gone(sockets: tuple[socket.socket, socket.socket]) -> None:
    near, far = sockets
    own = trio.socket.from_stdlib_socket(near)
    stream = TrioStream(("a", 1), FrameReader(), own, None)
    far.close()
    with pytest.raises(AutoReconnect, match="Broken pipe"):
        await stream.send(message(50), inf)
    assert stream.is_closed
    assert own.fileno() == -1
