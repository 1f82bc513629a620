"""A program that stands in for mongocryptd: it marks commands as the scripted one does, and ends when it is idle.

python -m tests.support.mongocryptd_program --port=27020 --idleShutdownTimeoutSecs=60 --record=FILE
"""

from __future__ import annotations

import argparse
import asyncio
import os
from pathlib import Path
from typing import Final

import bson

from benchmarks.documents import HEADER, HELLO, OP_QUERY, messages_in, reply_to
from tests.support.mongocryptd import mark

_HELLO: Final = bson.encode({**HELLO, "maxWireVersion": 21, "iscryptd": True})


class _Connection(asyncio.Protocol):
    def __init__(self, program: _Program) -> None:
        self._program = program
        self._received = bytearray()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._program.open_connections += 1

    def connection_lost(self, exc: Exception | None) -> None:
        self._program.open_connections -= 1

    def data_received(self, data: bytes) -> None:
        self._received += data
        for message in messages_in(self._received):
            self._transport.write(reply_to(message, self._answer(message)))

    def _answer(self, message: bytes) -> bytes:
        if HEADER.unpack_from(message)[3] == OP_QUERY:
            return _HELLO
        command = bson.decode(message[21:])
        if next(iter(command)) in ("hello", "isMaster"):
            return _HELLO
        return bson.encode(mark(command))


class _Program:
    def __init__(self) -> None:
        self.open_connections = 0

    async def run(self, port: int, idle_limit: float) -> None:
        """Serve until no connection was open for `idle_limit` seconds."""
        loop = asyncio.get_running_loop()
        async with await loop.create_server(lambda: _Connection(self), "127.0.0.1", port):
            idle = 0.0
            while idle < idle_limit:
                await asyncio.sleep(0.1)
                idle = 0.0 if self.open_connections else idle + 0.1


def main() -> None:
    parser = argparse.ArgumentParser(allow_abbrev=False)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--idleShutdownTimeoutSecs", type=float, required=True, dest="idle_limit")
    parser.add_argument("--record", type=Path, required=True)
    options = parser.parse_args()
    with options.record.open("a") as record:
        record.write(f"{os.getpid()}\n")
    asyncio.run(_Program().run(options.port, options.idle_limit))


if __name__ == "__main__":
    main()
