"""Pure: an async MongoDB driver for asyncio and trio.

    async with AsyncMongoClient("mongodb://localhost") as client:
        movie = await client.test.movies.find_one({"title": "Alien"})

Names and parameters match PyMongo's asynchronous API. This package exports the names that most programs need. The rest
is in `motorlite.errors`, `motorlite.monitoring`, `motorlite.operations` and the other modules without an underscore.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from motorlite import (
    driver_info,
    errors,
    monitoring,
    operations,
    read_concern,
    read_preferences,
    results,
    retry,
    server_api,
    topology_description,
    write_concern,
)
from motorlite._api.call_options import call_options
from motorlite._api.constants import ASCENDING, DESCENDING, GEO2D, GEOSPHERE, HASHED, TEXT, CursorType, ReturnDocument
from motorlite._api.cursors.command_cursor import AsyncCommandCursor
from motorlite._api.cursors.cursor import AsyncCursor
from motorlite._api.handles import AsyncCollection, AsyncDatabase, AsyncMongoClient
from motorlite._api.session import AsyncClientSession
from motorlite._api.time_limits import timeout
from motorlite._api.transaction_options import SessionOptions, TransactionOptions
from motorlite._base.version import __version__, get_version_string, version, version_tuple
from motorlite._base.wire_versions import NEWEST as MAX_SUPPORTED_WIRE_VERSION
from motorlite._base.wire_versions import OLDEST as MIN_SUPPORTED_WIRE_VERSION
from motorlite.driver_info import DriverInfo
from motorlite.operations import (
    DeleteMany,
    DeleteOne,
    IndexModel,
    InsertOne,
    ReplaceOne,
    SearchIndexModel,
    UpdateMany,
    UpdateOne,
)
from motorlite.read_concern import ReadConcern
from motorlite.read_preferences import ReadPreference
from motorlite.retry import OverloadRetry
from motorlite.server_api import ServerApi, ServerApiVersion
from motorlite.write_concern import WriteConcern

if TYPE_CHECKING:
    from motorlite import (
        auth_oidc,
        change_stream,
        client_options,
        client_session,
        collation,
        cursor,
        event_loggers,
        overload,
        stats,
    )
    from motorlite._api.cursors.change_stream import AsyncChangeStream
    from motorlite.collation import Collation
    from motorlite.stats import ClientStats, ServerStats
else:  # type checkers would believe that `__getattr__` has any name
    # Names that many programs never use, and their modules.
    _LATER = {
        "AsyncChangeStream": "_api.cursors.change_stream",
        "ClientStats": "stats",
        "Collation": "collation",
        "ServerStats": "stats",
        "auth_oidc": "auth_oidc",
        "change_stream": "change_stream",
        "client_options": "client_options",
        "client_session": "client_session",
        "collation": "collation",
        "cursor": "cursor",
        "event_loggers": "event_loggers",
        "overload": "overload",
        "stats": "stats",
    }

    def __getattr__(name: str) -> object:
        """Import a name at its first use."""
        if name not in _LATER:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        module = import_module(f"{__name__}.{_LATER[name]}")
        # Importing a module has set it as an attribute.
        return globals().setdefault(name, module if name == _LATER[name] else getattr(module, name))

    def __dir__() -> list[str]:
        return sorted({*globals(), *_LATER})


__all__ = [
    "ASCENDING",
    "DESCENDING",
    "GEO2D",
    "GEOSPHERE",
    "HASHED",
    "MAX_SUPPORTED_WIRE_VERSION",
    "MIN_SUPPORTED_WIRE_VERSION",
    "TEXT",
    "AsyncChangeStream",
    "AsyncClientSession",
    "AsyncCollection",
    "AsyncCommandCursor",
    "AsyncCursor",
    "AsyncDatabase",
    "AsyncMongoClient",
    "ClientStats",
    "Collation",
    "CursorType",
    "DeleteMany",
    "DeleteOne",
    "DriverInfo",
    "IndexModel",
    "InsertOne",
    "OverloadRetry",
    "ReadConcern",
    "ReadPreference",
    "ReplaceOne",
    "ReturnDocument",
    "SearchIndexModel",
    "ServerApi",
    "ServerApiVersion",
    "ServerStats",
    "SessionOptions",
    "TransactionOptions",
    "UpdateMany",
    "UpdateOne",
    "WriteConcern",
    "__version__",
    "auth_oidc",
    "call_options",
    "change_stream",
    "client_options",
    "client_session",
    "collation",
    "cursor",
    "driver_info",
    "errors",
    "event_loggers",
    "get_version_string",
    "monitoring",
    "operations",
    "overload",
    "read_concern",
    "read_preferences",
    "results",
    "retry",
    "server_api",
    "stats",
    "timeout",
    "topology_description",
    "version",
    "version_tuple",
    "write_concern",
]
