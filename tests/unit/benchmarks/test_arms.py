from __future__ import annotations

import argparse
import asyncio
from typing import TYPE_CHECKING, Any

import bson
import pytest
from bson.binary import Binary

from benchmarks.arms import ARMS, Arm, BareClient, BareConnection, arm_uri, names
from benchmarks.documents import message

if TYPE_CHECKING:
    from collections.abc import Callable


@pytest.mark.parametrize(
    ("uri", "expected"),
    [
        ("mongodb://h:1", "mongodb://h:1/?maxPoolSize=100"),
        ("mongodb://h:1/", "mongodb://h:1/?maxPoolSize=100"),
        ("mongodb://h:1/?a=b", "mongodb://h:1/?a=b&maxPoolSize=100"),
        ("mongodb://h:1/admin?maxPoolSize=5&a=b", "mongodb://h:1/admin?a=b&maxPoolSize=100"),
    ],
)
def test_every_arm_gets_the_same_pool(uri: str, expected: str) -> None:
    assert arm_uri(uri) == expected


def test_names_are_read_from_a_list() -> None:
    read = names({"a": 1, "b": 2})
    assert read("b,a") == ["b", "a"]
    with pytest.raises(argparse.ArgumentTypeError, match="unknown arms: c; choose from a, b"):
        read("a,c")


def test_an_arm_says_what_it_lacks() -> None:
    lacking = Arm("x", ("json", "json:loads", "json:nothing", "no_such_module"), ARMS["bare"].open)
    assert lacking.missing() == ["json:nothing", "no_such_module"]
    assert ARMS["bare"].missing() == []


def test_the_bare_arm_refuses_what_it_cannot_speak() -> None:
    async def main(uri: str) -> None:
        async with ARMS["bare"].open(uri):
            pass

    for uri in ("mongodb://u:p@h:1/", "mongodb+srv://h/", "mongodb://h:1,h:2/", "mongodb://h/?tls=true"):
        with pytest.raises(ValueError, match="one server"):
            asyncio.run(main(uri))


REPLY = {"cursor": {"firstBatch": [{"_id": 5}], "id": 0}, "ok": 1.0}


class Transport(asyncio.Transport):
    """Keeps what is written."""

    def __init__(self) -> None:
        super().__init__()
        self.written: list[bytes] = []
        self.closed = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.written.append(bytes(data))

    def close(self) -> None:
        self.closed = True


def connected() -> tuple[BareConnection, Transport]:
    connection, transport = BareConnection(), Transport()
    connection.connection_made(transport)
    return connection, transport


def feed(connection: BareConnection, data: bytes) -> None:
    view = connection.get_buffer(-1)
    view[: len(data)] = data
    connection.buffer_updated(len(data))


@pytest.mark.parametrize("size", [1, 3, 20, 1000])
def test_a_reply_may_come_in_any_pieces(size: int) -> None:
    async def main() -> None:
        connection, transport = connected()
        data = message(REPLY, 1)
        for _ in range(2):
            reply = connection.request(b"find")
            for at in range(0, len(data), size):
                assert not reply.done()
                feed(connection, data[at : at + size])
            assert await reply == REPLY
        assert transport.written == [b"find"] * 2

    asyncio.run(main())


def test_a_lost_connection_fails_its_request() -> None:
    async def main() -> None:
        connection, _ = connected()
        reply = connection.request(b"find")
        connection.connection_lost(None)
        with pytest.raises(ConnectionResetError):
            await reply

    asyncio.run(main())


@pytest.mark.parametrize("has_sessions", [False, True])
def test_requests_beyond_the_pool_wait_for_a_connection(has_sessions: bool) -> None:
    async def main() -> None:
        opened: list[tuple[BareConnection, Transport]] = []

        async def open_one(make: Callable[[], Any], *_address: Any) -> tuple[Transport, BareConnection]:
            await asyncio.sleep(0)
            opened.append(connected())
            return opened[-1][1], opened[-1][0]

        asyncio.get_running_loop().create_connection = open_one  # type: ignore[assignment, method-assign]
        client = BareClient("localhost", 1, pool_size=2, has_sessions=has_sessions)
        tasks = [asyncio.create_task(client.find_one({"_id": 5})) for _ in range(5)]
        while not all(task.done() for task in tasks):
            await asyncio.sleep(0)
            for connection, transport in opened:
                if transport.written:
                    request = bson.decode(transport.written.pop()[21:])
                    assert request["filter"] == {"_id": 5}
                    assert request.get("lsid") == ({"id": Binary(connection.session, 4)} if has_sessions else None)
                    feed(connection, message(REPLY, 1))
        assert [task.result() for task in tasks] == [{"_id": 5}] * 5
        assert len(opened) == 2
        client.close()
        assert all(transport.closed for _, transport in opened)

    asyncio.run(main())
