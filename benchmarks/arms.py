"""Net: the compared drivers, each behind the same `find_one`."""

from __future__ import annotations

import importlib
import importlib.metadata
import importlib.util
import platform
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import anyio

from benchmarks.bare import BareClient
from benchmarks.documents import COLLECTION, DATABASE

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
    from contextlib import AbstractAsyncContextManager

    FindOne = Callable[[Mapping[str, Any]], Awaitable[Mapping[str, Any] | None]]

POOL_SIZE = 100


@dataclass(frozen=True, slots=True)
class Arm:
    """A driver on an event loop."""

    name: str
    needs: tuple[str, ...]  # attributes ("module:name") or modules that must be importable
    open: Callable[[str], AbstractAsyncContextManager[FindOne]]
    backend: str = "asyncio"
    uvloop: bool = False

    def missing(self) -> list[str]:
        """The modules and attributes that this arm lacks."""
        return [need for need in self.needs if not _is_there(need)]

    def version(self) -> str:
        """The versions of the driver and of its event loop."""
        loop = ("uvloop",) if self.uvloop else (self.backend,) if self.backend != "asyncio" else ()
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
async def _bare(uri: str) -> AsyncIterator[FindOne]:
    parts = urlsplit(uri)
    if parts.username or parts.scheme != "mongodb" or "tls=true" in parts.query or "," in parts.netloc:
        raise ValueError("the bare arm supports only one server without authentication and TLS")
    client = BareClient(parts.hostname or "127.0.0.1", parts.port or 27017, POOL_SIZE)
    try:
        yield client.find_one
    finally:
        client.close()


@asynccontextmanager
async def _motorlite(uri: str) -> AsyncIterator[FindOne]:
    async with importlib.import_module("motorlite").AsyncMongoClient(uri) as client:
        yield client[DATABASE][COLLECTION].find_one


@asynccontextmanager
async def _motorlite_guarded(uri: str) -> AsyncIterator[FindOne]:
    """With queue, breaker, a retry budget per server, and statistics read ten times a second."""
    motorlite, overload, retry = map(importlib.import_module, ("motorlite", "motorlite.overload", "motorlite.retry"))
    client = motorlite.AsyncMongoClient(
        uri,
        wait_queue=overload.WaitQueue(),
        circuit_breaker=overload.CircuitBreaker(gates_first_attempts=True),
        retry_budget=retry.RetryBudget(per_server=200),
    )

    async def watch() -> None:
        while True:
            client.stats()
            await anyio.sleep(0.1)

    async with client, anyio.create_task_group() as group:
        group.start_soon(watch)
        yield client[DATABASE][COLLECTION].find_one
        group.cancel_scope.cancel()


@asynccontextmanager
async def _pymongo(uri: str) -> AsyncIterator[FindOne]:
    async with importlib.import_module("pymongo").AsyncMongoClient(uri) as client:
        yield client[DATABASE][COLLECTION].find_one


@asynccontextmanager
async def _motor(uri: str) -> AsyncIterator[FindOne]:
    client = importlib.import_module("motor.motor_asyncio").AsyncIOMotorClient(uri)
    try:
        yield client[DATABASE][COLLECTION].find_one
    finally:
        client.close()


@asynccontextmanager
async def _mongojet(uri: str) -> AsyncIterator[FindOne]:
    client = await importlib.import_module("mongojet").create_client(uri)
    try:
        yield client[DATABASE][COLLECTION].find_one
    finally:
        await client.close()


ARMS = {
    arm.name: arm
    for arm in (
        Arm("bare", (), _bare),
        Arm("bare-uvloop", ("uvloop",), _bare, uvloop=True),
        Arm("motorlite", ("motorlite:AsyncMongoClient",), _motorlite),
        Arm("motorlite-guarded", ("motorlite:AsyncMongoClient",), _motorlite_guarded),
        Arm("motorlite-uvloop", ("motorlite:AsyncMongoClient", "uvloop"), _motorlite, uvloop=True),
        Arm("motorlite-trio", ("motorlite:AsyncMongoClient", "trio"), _motorlite, backend="trio"),
        Arm("pymongo", ("pymongo:AsyncMongoClient",), _pymongo),
        Arm("motor", ("motor",), _motor),
        Arm("mongojet", ("mongojet",), _mongojet),
    )
}
DEFAULT_ARMS = ("bare", "motorlite", "pymongo", "motor", "mongojet")


def arm_uri(uri: str) -> str:
    """The URI with the same pool size for all arms; the Rust driver's default would be 10 connections."""
    head, _, query = uri.partition("?")
    if head.count("/") < 3:
        head += "/"
    options = [option for option in query.split("&") if option and not option.startswith("maxPoolSize=")]
    return f"{head}?{'&'.join([*options, f'maxPoolSize={POOL_SIZE}'])}"
