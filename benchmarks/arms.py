"""Net: the compared drivers, opened in the same way, and the lower bound for all: constant bytes, one reply decoded."""

from __future__ import annotations

import argparse
import asyncio
import importlib
import importlib.metadata
import importlib.util
import inspect
import platform
import uuid
from collections import deque
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import bson

from benchmarks.documents import COLLECTION, DATABASE, find_messages
from benchmarks.loops import ANYIO, ASYNCIO, TRIO, UVLOOP, Loop

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
    from contextlib import AbstractAsyncContextManager

    FindOne = Callable[[Mapping[str, Any]], Awaitable[Mapping[str, Any] | None]]
    ReadAll = Callable[[Any], Awaitable[list[Any]]]


POOL_SIZE = 100


@dataclass(frozen=True, slots=True)
class Library:
    """What differs between the drivers, as "module" or "module:name"; None: the driver does not have it."""

    client: str
    errors: str
    # With InsertOne and the like, for bulk writes.
    models: str | None
    bucket: str | None
    # With the function `timeout`.
    timeout: str | None


LIBRARIES = {
    "motorlite": Library(
        "motorlite:AsyncMongoClient",
        "motorlite.errors",
        "motorlite.operations",
        "motorlite.gridfs:AsyncGridFSBucket",
        "motorlite",
    ),
    "pymongo": Library(
        "pymongo:AsyncMongoClient", "pymongo.errors", "pymongo", "gridfs.asynchronous:AsyncGridFSBucket", "pymongo"
    ),
    # Its threads run PyMongo.
    "motor": Library(
        "motor.motor_asyncio:AsyncIOMotorClient",
        "pymongo.errors",
        "pymongo",
        "motor.motor_asyncio:AsyncIOMotorGridFSBucket",
        "pymongo",
    ),
    "mongojet": Library("mongojet:create_client", "mongojet", None, None, None),
}


def load(path: str | None) -> Any:
    """What a field of a `Library` names."""
    if path is None:
        return None
    module, _, name = path.partition(":")
    found = importlib.import_module(module)
    return getattr(found, name) if name else found


async def settled(value: Any) -> Any:
    """The value, or the result of the coroutine: some drivers have coroutines where others have functions."""
    return await value if inspect.iscoroutine(value) else value


@dataclass(frozen=True, slots=True)
class Driver:
    """An open client of one driver."""

    find_one: FindOne
    # The driver's own database object; None for the bare protocol, which can do nothing else.
    database: Any = None
    # Reads what `find` or `aggregate` returned to its end.
    read_all: ReadAll | None = None
    models: Any = None
    # Makes a GridFS bucket of a database.
    bucket: Any = None


@dataclass(frozen=True, slots=True)
class Arm:
    """A driver on an event loop."""

    name: str
    needs: tuple[str, ...]  # attributes ("module:name") or modules that must be importable
    open: Callable[[str], AbstractAsyncContextManager[Driver]]
    loop: Loop = ASYNCIO
    # What a reader of the figures must know about it.
    note: str = ""

    def missing(self) -> list[str]:
        """The modules and attributes that this arm lacks."""
        return [need for need in self.needs if not _is_there(need)]

    @property
    def about(self) -> str:
        """The versions of the driver and of its event loop, and the note."""
        loop = (self.loop.name,) if self.loop in (UVLOOP, TRIO, ANYIO) else ()
        parts = [need.partition(":")[0].partition(".")[0] for need in self.needs] or ["python"]
        versions = ", ".join(f"{part} {version(part)}" for part in dict.fromkeys((*parts, *loop)))
        return f"{versions}; {self.note}" if self.note else versions


def _is_there(need: str) -> bool:
    module, _, attribute = need.partition(":")
    if importlib.util.find_spec(module.partition(".")[0]) is None:
        return False
    return not attribute or hasattr(importlib.import_module(module), attribute)


def version(module: str) -> str:
    if module == "python":
        return platform.python_version()
    try:
        return importlib.metadata.version(module)
    except importlib.metadata.PackageNotFoundError:  # run from the source tree
        return str(getattr(importlib.import_module(module), "__version__", "(source tree)"))


@asynccontextmanager
async def _bare(uri: str, *, has_sessions: bool = False) -> AsyncIterator[Driver]:
    parts = urlsplit(uri)
    if parts.username or parts.scheme != "mongodb" or "tls=true" in parts.query or "," in parts.netloc:
        raise ValueError("the bare arm supports only one server without authentication and TLS")
    client = BareClient(parts.hostname or "127.0.0.1", parts.port or 27017, POOL_SIZE, has_sessions=has_sessions)
    try:
        yield Driver(client.find_one)
    finally:
        client.close()


@asynccontextmanager
async def _open(library: Library, uri: str) -> AsyncIterator[Driver]:
    client = await settled(load(library.client)(uri))
    database = client[DATABASE]
    try:
        yield Driver(database[COLLECTION].find_one, database, _to_list, load(library.models), load(library.bucket))
    finally:
        await settled(client.close())


async def _to_list(cursor: Any) -> list[Any]:
    found: list[Any] = await (await settled(cursor)).to_list()
    return found


def _arm(name: str, library: str, loop: Loop = ASYNCIO, note: str = "") -> Arm:
    chosen = LIBRARIES[library]
    return Arm(name, (chosen.client, *(("uvloop",) if loop is UVLOOP else ())), partial(_open, chosen), loop, note)


ARMS = {
    arm.name: arm
    for arm in (
        Arm("bare", (), _bare),
        Arm("bare-session", (), partial(_bare, has_sessions=True), note="as every driver must, with a session"),
        _arm("motorlite", "motorlite"),
        _arm("motorlite-uvloop", "motorlite", UVLOOP),
        _arm("motorlite-trio", "motorlite", TRIO),
        _arm("motorlite-anyio", "motorlite", ANYIO),
        _arm("pymongo", "pymongo"),
        _arm("motor", "motor"),
        _arm("mongojet", "mongojet", note="Rust, on tokio with a thread for each core"),
    )
}
DEFAULT_ARMS = tuple(name for name in ARMS if name not in ("bare-session", "motorlite-anyio"))


def names(known: Mapping[str, Any], what: str = "arms") -> Callable[[str], list[str]]:
    """What reads an option with names that are separated by commas."""

    def read(text: str) -> list[str]:
        found = text.split(",")
        if unknown := [name for name in found if name not in known]:
            raise argparse.ArgumentTypeError(f"unknown {what}: {', '.join(unknown)}; choose from {', '.join(known)}")
        return found

    return read


def arm_uri(uri: str) -> str:
    """The URI with the same pool size for all arms; the Rust driver's default would be 10 connections."""
    head, _, query = uri.partition("?")
    if head.count("/") < 3:
        head += "/"
    options = [option for option in query.split("&") if option and not option.startswith("maxPoolSize=")]
    return f"{head}?{'&'.join([*options, f'maxPoolSize={POOL_SIZE}'])}"


# --- the bare protocol ---


# Enough for the largest reply.
_BUFFER = 128 * 1024
_BODY = 21  # header, flag bits and section kind


class BareConnection(asyncio.BufferedProtocol):
    """One socket with at most one request in flight."""

    def __init__(self) -> None:
        # Its session, if it has one.
        self.session = uuid.uuid4().bytes
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
    """Connections without a handshake, passed from request to request in order of arrival.

    The requests have no session, unless `has_sessions`: then each connection has one. The server looks it up.
    """

    def __init__(self, host: str, port: int, pool_size: int, *, has_sessions: bool = False) -> None:
        self._address = (host, port)
        self._pool_size = pool_size
        placeholder = uuid.uuid4()
        self._messages = find_messages(placeholder if has_sessions else None)
        # Where the session is in a message.
        self._session_at = self._messages[0].index(placeholder.bytes) if has_sessions else None
        self._all: list[BareConnection] = []
        self._idle: list[BareConnection] = []
        self._opening = 0
        self._waiters: deque[asyncio.Future[BareConnection]] = deque()

    async def find_one(self, query: Mapping[str, Any]) -> dict[str, Any] | None:
        connection = self._idle.pop() if self._idle else await self._obtain()
        message, at = self._messages[query["_id"]], self._session_at
        if at is not None:
            message = b"".join((message[:at], connection.session, message[at + 16 :]))
        reply = await connection.request(message)
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
