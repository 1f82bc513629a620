"""Net: a server that answers every command with constant bytes: `python -m benchmarks.instructions.peer`.

It runs in a process of its own, whose instructions are not counted, and prints its port. All that differs between two
replies is the id of the request. Standard input keeps it alive: when that ends, so does the server.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from functools import partial
from typing import TYPE_CHECKING, Any

import bson

from benchmarks.documents import (
    COLLECTION,
    DATABASE,
    HEADER,
    HELLO,
    MORE_TO_COME,
    OP_QUERY,
    document,
    messages_in,
    reply_to,
)

if TYPE_CHECKING:
    from collections.abc import Collection

HELLOS, REPLICA_SET = (b"hello", b"isMaster", b"ismaster"), "rs0"
COMMAND_NAME = 26  # where the name of the first field begins in a command without a sequence before it


def hello_of(own: int, ports: list[int]) -> dict[str, Any]:
    """What a member of a replica set says; the first is the primary."""
    hosts, is_primary = [f"127.0.0.1:{port}" for port in ports], own == ports[0]
    writable = {"isWritablePrimary": is_primary, "ismaster": is_primary, "secondary": not is_primary}
    return {**HELLO, **writable, "setName": REPLICA_SET, "hosts": hosts, "primary": hosts[0], "me": f"127.0.0.1:{own}"}


def replies(documents: int) -> dict[bytes, bytes]:
    """The body of the reply to each command, for batches of so many documents."""
    batch = [document(number) for number in range(documents)]
    cursor = {"firstBatch": batch, "id": 0, "ns": f"{DATABASE}.{COLLECTION}"}
    bodies: dict[bytes, dict[str, Any]] = {
        **dict.fromkeys(HELLOS, HELLO),
        b"find": {"cursor": cursor, "ok": 1.0},
        b"aggregate": {"cursor": cursor, "ok": 1.0},
        b"insert": {"n": documents, "ok": 1.0},
        b"update": {"n": 1, "nModified": 1, "ok": 1.0},
        b"delete": {"n": 1, "ok": 1.0},
    }
    return {name: bson.encode(body) for name, body in bodies.items()}


def command_name(message: bytes) -> bytes:
    """The name of the command in an OP_MSG whose first section is its body."""
    return message[COMMAND_NAME : message.index(b"\0", COMMAND_NAME)]


class Peer(asyncio.Protocol):
    """One connection."""

    def __init__(self, bodies: dict[bytes, bytes], silent: Collection[bytes] = ()) -> None:
        self._bodies = bodies
        # Commands that are never answered.
        self._silent = silent
        self._received = bytearray()
        self._transport: Any = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._received += data
        for message in messages_in(self._received):
            reply = self._answer(message)
            if reply:
                self._transport.write(reply)

    def _answer(self, message: bytes) -> bytes:
        if HEADER.unpack_from(message)[3] == OP_QUERY:
            return reply_to(message, self._bodies[b"hello"])
        name = command_name(message)
        if int.from_bytes(message[16:20], "little") & MORE_TO_COME or name in self._silent:
            return b""
        return reply_to(message, self._bodies.get(name) or bson.encode({"ok": 1.0}))


async def serve(documents: int, silent: Collection[bytes], members: int) -> None:
    loop, ended = asyncio.get_running_loop(), asyncio.Event()
    loop.add_reader(sys.stdin.fileno(), ended.set)  # nothing is ever written to it
    servers: dict[int, dict[bytes, bytes]] = {}
    for _ in range(max(1, members)):
        bodies = replies(documents)
        server = await loop.create_server(partial(Peer, bodies, silent), "127.0.0.1", 0, backlog=20_000)
        servers[server.sockets[0].getsockname()[1]] = bodies
    if members:
        for port, bodies in servers.items():
            bodies |= dict.fromkeys(HELLOS, bson.encode(hello_of(port, [*servers])))
    print(next(iter(servers)), flush=True)
    await ended.wait()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("documents", type=int, help="the size of a batch")
    parser.add_argument("--silent", nargs="*", default=[], metavar="COMMAND", help="is never answered")
    parser.add_argument("--members", type=int, default=0, help="of a replica set (default: 0, a standalone server)")
    arguments = parser.parse_args()
    asyncio.run(serve(arguments.documents, [name.encode() for name in arguments.silent], arguments.members))


if __name__ == "__main__":
    main()
