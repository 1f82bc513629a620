"""Net: the compared drivers, opened in the same way."""

from __future__ import annotations

import asyncio
import importlib
import importlib.metadata
import importlib.util
import inspect
import platform
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from benchmarks.bare import BareClient
from benchmarks.documents import COLLECTION, DATABASE
from benchmarks.loops import ANYIO, ASYNCIO, TRIO, UVLOOP, Loop

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
    from contextlib import AbstractAsyncContextManager

    FindOne = Callable[[Mapping[str, Any]], Awaitable[Mapping[str, Any] | None]]
    ReadAll = Callable[[Any], Awaitable[list[Any]]]

POOL_SIZE = 100


@dataclass(frozen=True, slots=True)
class Driver:
    """An open client of one driver."""

    find_one: FindOne
    # The driver's own database object; None for the bare protocol, which can do nothing else.
    database: Any = None
    # Reads what `find` or `aggregate` returned to its end.
    read_all: ReadAll | None = None
    # The module with InsertOne and the like; None: the driver has no bulk_write.
    models: Any = None


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

    def version(self) -> str:
        """The versions of the driver and of its event loop."""
        loop = (self.loop.name,) if self.loop is not ASYNCIO else ()
        parts = [need.partition(":")[0] for need in self.needs] or ["python"]
        return ", ".join(f"{part} {_version(part)}" for part in dict.fromkeys((*parts, *loop)))


def _is_there(need: str) -> bool:
    module, _, attribute = need.partition(":")
    if importlib.util.find_spec(module) is None:
        return False
    return not attribute or hasattr(importlib.import_module(module), attribute)


def _version(module: str) -> str:
    if module == "python":
        return platform.python_version()
    try:
        return importlib.metadata.version(module)
    except importlib.metadata.PackageNotFoundError:  # run from the source tree
        return str(getattr(importlib.import_module(module), "__version__", "(source tree)"))


@asynccontextmanager
async def _bare(uri: str) -> AsyncIterator[Driver]:
    parts = urlsplit(uri)
    if parts.username or parts.scheme != "mongodb" or "tls=true" in parts.query or "," in parts.netloc:
        raise ValueError("the bare arm supports only one server without authentication and TLS")
    client = BareClient(parts.hostname or "127.0.0.1", parts.port or 27017, POOL_SIZE)
    try:
        yield Driver(client.find_one)
    finally:
        client.close()


def _driver(client: Any, read_all: ReadAll, models: str | None) -> Driver:
    database = client[DATABASE]
    return Driver(
        database[COLLECTION].find_one, database, read_all, None if models is None else importlib.import_module(models)
    )


async def _to_list(cursor: Any) -> list[Any]:
    """For drivers whose `aggregate`, but not their `find`, is a coroutine."""
    if inspect.iscoroutine(cursor):
        cursor = await cursor
    found: list[Any] = await cursor.to_list()
    return found


async def _motor_list(cursor: Any) -> list[Any]:
    found: list[Any] = await cursor.to_list(None)
    return found


@asynccontextmanager
async def _motorlite(uri: str) -> AsyncIterator[Driver]:
    async with importlib.import_module("motorlite").AsyncMongoClient(uri) as client:
        yield _driver(client, _to_list, "motorlite.operations")


@asynccontextmanager
async def _motorlite_guarded(uri: str) -> AsyncIterator[Driver]:
    """With queue, breaker, a retry budget per server, and statistics read ten times a second."""
    motorlite, overload, retry = map(importlib.import_module, ("motorlite", "motorlite.overload", "motorlite.retry"))
    client = motorlite.AsyncMongoClient(
        uri,
        wait_queue=overload.WaitQueue("reject"),
        circuit_breaker=overload.CircuitBreaker(gates_first_attempts=True),
        retry_budget=retry.RetryBudget(per_server=200),
    )

    async def watch() -> None:
        while True:
            client.stats()
            await asyncio.sleep(0.1)

    async with client, asyncio.TaskGroup() as group:
        watching = group.create_task(watch())
        yield _driver(client, _to_list, "motorlite.operations")
        watching.cancel()


@asynccontextmanager
async def _pymongo(uri: str) -> AsyncIterator[Driver]:
    async with importlib.import_module("pymongo").AsyncMongoClient(uri) as client:
        yield _driver(client, _to_list, "pymongo")


@asynccontextmanager
async def _motor(uri: str) -> AsyncIterator[Driver]:
    client = importlib.import_module("motor.motor_asyncio").AsyncIOMotorClient(uri)
    try:
        yield _driver(client, _motor_list, "pymongo")
    finally:
        client.close()


@asynccontextmanager
async def _mongojet(uri: str) -> AsyncIterator[Driver]:
    client = await importlib.import_module("mongojet").create_client(uri)
    try:
        yield _driver(client, _to_list, None)
    finally:
        await client.close()


ARMS = {
    arm.name: arm
    for arm in (
        Arm("bare", (), _bare),
        Arm("bare-uvloop", ("uvloop",), _bare, UVLOOP),
        Arm("motorlite", ("motorlite:AsyncMongoClient",), _motorlite),
        Arm("motorlite-guarded", ("motorlite:AsyncMongoClient",), _motorlite_guarded),
        Arm("motorlite-uvloop", ("motorlite:AsyncMongoClient", "uvloop"), _motorlite, UVLOOP),
        Arm("motorlite-trio", ("motorlite:AsyncMongoClient", "trio"), _motorlite, TRIO),
        Arm("motorlite-anyio", ("motorlite:AsyncMongoClient",), _motorlite, ANYIO),
        Arm("pymongo", ("pymongo:AsyncMongoClient",), _pymongo),
        Arm("motor", ("motor",), _motor),
        Arm("mongojet", ("mongojet",), _mongojet, note="Rust, on tokio with a thread for each core"),
    )
}
DEFAULT_ARMS = ("bare", "motorlite", "motorlite-uvloop", "motorlite-trio", "pymongo", "motor", "mongojet")


def arm_uri(uri: str) -> str:
    """The URI with the same pool size for all arms; the Rust driver's default would be 10 connections."""
    head, _, query = uri.partition("?")
    if head.count("/") < 3:
        head += "/"
    options = [option for option in query.split("&") if option and not option.startswith("maxPoolSize=")]
    return f"{head}?{'&'.join([*options, f'maxPoolSize={POOL_SIZE}'])}"
