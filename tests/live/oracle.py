"""PyMongo's async client as the oracle: the same calls, on the same server, with the same outcome.

A case is written once, for both libraries: ``async def case(database, lib)``, where `lib` is `motorlite` or `pymongo`
with their equal names, and returns what is to be compared.
"""

from __future__ import annotations

import asyncio
import gc
import re
import threading
import warnings
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from importlib import import_module
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Self
from uuid import UUID

import anyio
import bson
import pymongo
from bson import SON, Binary, Code, DatetimeMS, DBRef, Decimal128, Int64, MaxKey, MinKey, ObjectId, Regex, Timestamp
from bson.binary import UuidRepresentation
from bson.codec_options import CodecOptions, DatetimeConversion
from bson.raw_bson import RawBSONDocument

import motorlite
from tests.support.clients import make_client

if TYPE_CHECKING:
    from motorlite.testing import LocalServer

Case = Callable[[Any, Any], Awaitable[Any]]

# What differs from one run to the next, or says only on which server and when something happened.
VOLATILE: Final = frozenset(
    {"$clusterTime", "operationTime", "electionId", "opTime", "lsid", "id", "ns", "uuid", "localTime"}
)
# Or is said in other words on purpose.
OWN_WORDS: Final = VOLATILE | {"errmsg", "full error"}
RESULTS: Final = {
    "InsertOneResult": ("acknowledged", "inserted_id"),
    "InsertManyResult": ("acknowledged", "inserted_ids"),
    "UpdateResult": ("acknowledged", "matched_count", "modified_count", "upserted_id", "did_upsert", "raw_result"),
    "DeleteResult": ("acknowledged", "deleted_count", "raw_result"),
    "BulkWriteResult": (
        "acknowledged",
        "inserted_count",
        "matched_count",
        "modified_count",
        "deleted_count",
        "upserted_count",
        "upserted_ids",
        "bulk_api_result",
    ),
    "ClientBulkWriteResult": (
        "acknowledged",
        "has_verbose_results",
        "inserted_count",
        "matched_count",
        "modified_count",
        "deleted_count",
        "upserted_count",
        "insert_results",
        "update_results",
        "delete_results",
        "bulk_api_result",
    ),
}

# Modules whose public names a program may use without an import.
MODULES: Final = (
    "client_session",
    "collation",
    "errors",
    "monitoring",
    "operations",
    "read_concern",
    "read_preferences",
    "write_concern",
)
# The classes of values that a program may use without an import.
VALUES: Final = {
    each.__name__: each
    for each in (
        *(
            Binary,
            Code,
            CodecOptions,
            DatetimeConversion,
            DatetimeMS,
            DBRef,
            Decimal,
            Decimal128,
            Int64,
            MappingProxyType,
        ),
        *(MaxKey, MinKey, ObjectId, RawBSONDocument, Regex, SON, Timestamp, UUID, UuidRepresentation),
        *(date, datetime, timedelta, timezone),
    )
}


def collect_what_pymongo_lost() -> None:
    """Close the sockets that PyMongo loses: those of connections that are cancelled while they are made.

    Otherwise the collector finds them in a later test, which fails for it.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()


TEST_DATABASE = re.compile(r"motorlite_test_[0-9a-f]{24}")
UUIDS: Final = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


class Cases(dict[str, Case]):
    """Cases by name."""

    def add(self, case: Case) -> Case:
        """Register a case; a decorator."""
        self[getattr(case, "__name__")] = case  # noqa: B009  # a Callable has none in the stubs
        return case


class Oracle:
    """PyMongo's client on an event loop in a thread of its own.

    Args:
        server: The server to ask.
        uri: What stands in front of it, if anything does.
    """

    def __init__(self, server: LocalServer, uri: str = "") -> None:
        self._server = server
        self._uri = uri or server.uri
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._answers: dict[Case, Any] = {}
        self._client: Any = None

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_exc: object) -> None:
        if self._client is not None:
            asyncio.run_coroutine_threadsafe(self._client.close(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
        collect_what_pymongo_lost()

    def ask(self, case: Case) -> Any:
        """The outcome of a case with PyMongo; asked once for all backends."""
        if case not in self._answers:
            self._answers[case] = asyncio.run_coroutine_threadsafe(self._run(case), self._loop).result()
        return self._answers[case]

    async def _run(self, case: Case) -> Any:
        if self._client is None:
            self._client = pymongo.AsyncMongoClient(self._uri)
        name = f"motorlite_test_{ObjectId()}"
        try:
            return await outcome(case, self._client[name], pymongo)
        finally:
            if not self._server.started:  # as in the fixture `database_name`
                await self._client.drop_database(name)


async def same_outcome(case: Case, server: LocalServer | str, database_name: str, oracle: Oracle) -> None:
    """Check that a case has the same outcome with both libraries."""
    expected = oracle.ask(case)
    async with make_client(server) as client:
        actual = await outcome(case, client[database_name], motorlite)
    assert actual == expected


async def outcome(case: Case, database: Any, lib: Any) -> Any:
    """What a case returns or raises, as plain and comparable values."""
    try:
        value = await case(database, lib)
    except lib.errors.PyMongoError as error:
        details = getattr(error, "details", None)
        return {
            "raised": type(error).__name__,
            "code": getattr(error, "code", None),
            "details": plain(details),
            "labels": sorted(label for label in LABELS if error.has_error_label(label)),
            "timeout": error.timeout,
        }
    return plain(value)


def names(library: Any, grid: Any) -> dict[str, Any]:
    """What programs may use: the package's names, those of its modules, and a few values."""
    found = {name: getattr(library, name) for name in dir(library) if not name.startswith("_")}
    for name in MODULES:
        module = import_module(f"{library.__name__}.{name}")
        found |= {each: getattr(module, each) for each in dir(module) if not each.startswith("_")}
    found |= {**VALUES, "asyncio": asyncio, "bson": bson, "gridfs": grid, "library": library, "re": re}
    return {**found, "MAX": 16 * 2**20, "Mapping": Mapping, "sleep": anyio.sleep}


# Classes that say nothing.
ANY: Final = ("Exception", "BaseException", "object")


def classes(error: BaseException | None) -> list[str]:
    """The names of the public classes of an exception, and of its bases; empty without one."""
    public = [kind for kind in type(error).__mro__ if "._" not in f".{kind.__module__}.{kind.__name__}"]
    return [] if error is None else [kind.__name__ for kind in public if kind.__name__ not in ANY]


LABELS = ("RetryableWriteError", "TransientTransactionError", "RetryableError", "SystemOverloadedError")


def plain(value: Any) -> Any:
    """`value` without what is different in each run, and with result objects as dictionaries."""
    kind = type(value).__name__
    if kind in RESULTS:
        return {"kind": kind, **{name: plain(attribute(value, name)) for name in RESULTS[kind]}}
    if isinstance(value, str):
        return UUIDS.sub("uuid", TEST_DATABASE.sub("db", value))
    if isinstance(value, ObjectId):
        return "an ObjectId"
    if isinstance(value, Mapping):
        # The order of fields matters.
        return [(name, plain(each)) for name, each in value.items() if name not in VOLATILE]
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    if kind in ("InsertOne", "UpdateOne", "UpdateMany", "ReplaceOne", "DeleteOne", "DeleteMany"):
        return repr(value)
    return value


def attribute(value: Any, name: str) -> Any:
    """An attribute of a result, or the word InvalidOperation where there is none without an acknowledgement."""
    if name == "raw_result" and not value.acknowledged:
        return None  # PyMongo sometimes has an empty success
    # PyMongo asserts in one of them.
    with suppress(motorlite.errors.InvalidOperation, pymongo.errors.InvalidOperation, AssertionError):
        return getattr(value, name)
    return "InvalidOperation"
