"""A server in a process of its own that fails in the way that the collection of a command names.

``python -m tests.support.faulty_server [--seed N]`` prints its port; standard input keeps it alive. It is a replica set
of one member, on one event loop, so that it serves thousands of connections. `BEHAVIOURS` lists the names.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import struct
import sys
from itertools import count, cycle
from typing import TYPE_CHECKING, Any, Final

import bson

from benchmarks.documents import HEADER, HELLO, OP_QUERY, messages_in, reply_to
from tests.support.malformed import REFUSED, malformed

if TYPE_CHECKING:
    from collections.abc import Callable

# Seconds that a slow reply takes, and a very slow one.
SLOW: Final = 0.02
VERY_SLOW: Final = 1.0
DATABASE: Final = "motorlite_test_faults"
OVERLOADED: Final = {
    "ok": 0,
    "code": 462,
    "errmsg": "overloaded",
    "errorLabels": ["SystemOverloadedError", "RetryableError"],
}
# Its own backoff, for tests that are about something else.
BRIEFLY: Final = {**OVERLOADED, "baseBackoffMS": 1}
_DOCUMENTS: Final = [{"_id": 1, "name": "a"}, {"_id": 2, "name": "b"}]
_FAILED: Final = {"ok": 1, "n": 0, "writeErrors": [{"index": 0, "code": 11000, "errmsg": "duplicate"}]}


def _reply(command: dict[str, Any], name: str, cursor_id: int) -> dict[str, Any]:
    namespace = f"{DATABASE}.{command[name]}"
    if name in ("find", "aggregate"):
        return {"ok": 1, "cursor": {"id": cursor_id, "ns": namespace, "firstBatch": _DOCUMENTS}}
    if name == "getMore":
        return {"ok": 1, "cursor": {"id": 0, "ns": namespace, "nextBatch": _DOCUMENTS}}
    return {"ok": 1, "n": 1, "nModified": 1}


# What is wrong with a reply; further lies are well-formed messages with a malformed document.
_LIES: Final[tuple[Callable[[bytes], bytes], ...]] = (
    lambda reply: struct.pack("<i", 5) + reply[4:],
    lambda reply: struct.pack("<i", 2**31 - 1) + reply[4:],
    lambda reply: struct.pack("<i", 47_000_000) + reply[4:],  # the rest never comes
    lambda reply: reply[:8] + struct.pack("<i", 77) + reply[12:],  # an answer to something else
    lambda reply: reply[:12] + struct.pack("<i", 1) + reply[16:],
    lambda reply: reply[:21] + struct.pack("<i", 10_000_000) + reply[25:],
    lambda reply: reply + reply,
    lambda reply: reply[: len(reply) // 2],
    lambda reply: bytes(len(reply)),
    lambda reply: reply[:16] + random.randbytes(100),
)


class Connection(asyncio.Protocol):
    """One connection."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._received = bytearray()
        self.transport: Any = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self._received += data
        for message in messages_in(self._received):
            self._answer(message)

    def _answer(self, message: bytes) -> None:
        if HEADER.unpack_from(message)[3] == OP_QUERY:
            self.transport.write(reply_to(message, self._server.hello))
            return
        command = bson.decode(message[21 : 21 + int.from_bytes(message[21:25], "little")])
        name = next(iter(command))
        if name in ("hello", "isMaster"):
            self.transport.write(reply_to(message, self._server.hello))
            return
        kind = str(command.get("collection") if name == "getMore" else command[name])
        BEHAVIOURS.get(kind, ok)(self, message, command, name)

    def reply(self, message: bytes, document: dict[str, Any]) -> None:
        self.transport.write(reply_to(message, bson.encode(document)))

    def lie(self, message: bytes, reply: bytes) -> None:
        self.transport.write(self._server.lie(message, reply))


class Server:
    """What all connections share."""

    def __init__(self, port: int, seed: int) -> None:
        me = f"127.0.0.1:{port}"
        member = {"maxWireVersion": 21, "setName": "rs", "setVersion": 1, "hosts": [me], "me": me}
        self.hello = bson.encode({**HELLO, **member})
        replies = malformed(_reply({"find": "x"}, "find", 0))
        # Not those for which bson itself raises, as it says.
        bad = [bson.encode(each) for name, each in replies if name.partition(": ")[2] not in REFUSED]
        random.seed(seed)
        random.shuffle(bad)
        self._bad = cycle(bad)
        self._numbers = count()

    def lie(self, message: bytes, reply: bytes) -> bytes:
        number = next(self._numbers) % (2 * len(_LIES))
        return _LIES[number](reply) if number < len(_LIES) else reply_to(message, next(self._bad))


def ok(connection: Connection, message: bytes, command: dict[str, Any], name: str) -> None:
    connection.reply(message, _reply(command, name, 0))


def cursor(connection: Connection, message: bytes, command: dict[str, Any], name: str) -> None:
    """A cursor stays open."""
    connection.reply(message, _reply(command, name, 7))


def failing(connection: Connection, message: bytes, command: dict[str, Any], name: str) -> None:
    """A write that fails."""
    connection.reply(message, _FAILED)


def overloaded(connection: Connection, message: bytes, command: dict[str, Any], name: str) -> None:
    connection.reply(message, OVERLOADED)


def briefly(connection: Connection, message: bytes, command: dict[str, Any], name: str) -> None:
    """Overloaded, with short backoffs."""
    connection.reply(message, BRIEFLY)


def lost(connection: Connection, message: bytes, command: dict[str, Any], name: str) -> None:
    connection.transport.close()


def half(connection: Connection, message: bytes, command: dict[str, Any], name: str) -> None:
    """Reset in the middle of a reply."""
    reply = reply_to(message, bson.encode(_reply(command, name, 0)))
    connection.transport.write(reply[: len(reply) // 2])
    connection.transport.close()


def lying(connection: Connection, message: bytes, command: dict[str, Any], name: str) -> None:
    connection.lie(message, reply_to(message, bson.encode(_reply(command, name, 0))))


def slow(connection: Connection, message: bytes, command: dict[str, Any], name: str) -> None:
    asyncio.get_running_loop().call_later(SLOW, ok, connection, message, command, name)


def very_slow(connection: Connection, message: bytes, command: dict[str, Any], name: str) -> None:
    asyncio.get_running_loop().call_later(VERY_SLOW, ok, connection, message, command, name)


def silent(connection: Connection, message: bytes, command: dict[str, Any], name: str) -> None:
    """Never answered."""


_KINDS: Final = (ok, cursor, failing, overloaded, briefly, lost, half, lying, slow, very_slow, silent)
BEHAVIOURS: Final[dict[str, Callable[[Connection, bytes, dict[str, Any], str], None]]] = {
    kind.__name__: kind for kind in _KINDS
}


async def serve(seed: int) -> None:
    loop, ended = asyncio.get_running_loop(), asyncio.Event()
    loop.add_reader(sys.stdin.fileno(), ended.set)  # nothing is ever written to it
    shared: list[Server] = []
    server = await loop.create_server(lambda: Connection(shared[0]), "127.0.0.1", 0, backlog=20_000)
    port = server.sockets[0].getsockname()[1]
    shared.append(Server(port, seed))
    print(port, flush=True)
    await ended.wait()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=0)
    asyncio.run(serve(parser.parse_args().seed))


if __name__ == "__main__":
    main()
