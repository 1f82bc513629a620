"""Net: the lower bound for every driver: send constant bytes, decode one reply, nothing else."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Any

import bson

from benchmarks.documents import find_messages

if TYPE_CHECKING:
    from collections.abc import Mapping

_BUFFER = 64 * 1024
_BODY = 21  # header, flag bits and section kind


class BareConnection(asyncio.BufferedProtocol):
    """One socket with at most one request in flight."""

    def __init__(self) -> None:
        self._buffer = bytearray(_BUFFER)
        self._view = memoryview(self._buffer)
        self._filled = 0
        self._reply: asyncio.Future[dict[str, Any]] | None = None
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports have the methods but not the base class.
        self._transport = transport  # type: ignore[assignment]

    def connection_lost(self, exc: Exception | None) -> None:
        if self._reply is not None and not self._reply.done():
            self._reply.set_exception(exc or ConnectionResetError("the server closed the connection"))

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._view[self._filled :]

    def buffer_updated(self, nbytes: int) -> None:
        self._filled += nbytes
        if self._filled < 4 or self._filled < int.from_bytes(self._buffer[:4], "little"):
            return
        reply = bson.decode(self._view[_BODY : self._filled])
        self._filled = 0
        assert self._reply is not None
        self._reply.set_result(reply)

    def request(self, data: bytes) -> asyncio.Future[dict[str, Any]]:
        assert self._transport is not None
        self._reply = asyncio.get_running_loop().create_future()
        self._transport.write(data)
        return self._reply

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()


class BareClient:
    """Connections without a handshake, passed from request to request in order of arrival."""

    def __init__(self, host: str, port: int, pool_size: int) -> None:
        self._address = (host, port)
        self._pool_size = pool_size
        self._messages = find_messages()
        self._all: list[BareConnection] = []
        self._idle: list[BareConnection] = []
        self._opening = 0
        self._waiters: deque[asyncio.Future[BareConnection]] = deque()

    async def find_one(self, query: Mapping[str, Any]) -> dict[str, Any] | None:
        connection = self._idle.pop() if self._idle else await self._obtain()
        reply = await connection.request(self._messages[query["_id"]])
        if self._waiters:
            self._waiters.popleft().set_result(connection)
        else:
            self._idle.append(connection)
        batch = reply["cursor"]["firstBatch"]
        return batch[0] if batch else None

    async def _obtain(self) -> BareConnection:
        loop = asyncio.get_running_loop()
        if len(self._all) + self._opening >= self._pool_size:
            waiter: asyncio.Future[BareConnection] = loop.create_future()
            self._waiters.append(waiter)
            return await waiter
        self._opening += 1
        try:
            _, connection = await loop.create_connection(BareConnection, *self._address)
        finally:
            self._opening -= 1
        self._all.append(connection)
        return connection

    def close(self) -> None:
        for connection in self._all:
            connection.close()
