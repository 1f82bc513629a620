"""Pure: the public names of motorlite, an async MongoDB driver for asyncio and trio."""

from __future__ import annotations

from motorlite import concerns, errors, monitoring, read_preferences, requests, results, retry
from motorlite._api.command_cursor import AsyncCommandCursor
from motorlite._api.constants import (
    ASCENDING,
    DESCENDING,
    GEO2D,
    GEOSPHERE,
    HASHED,
    TEXT,
    CursorType,
    ReturnDocument,
)
from motorlite._api.cursor import AsyncCursor
from motorlite._api.handles import AsyncCollection, AsyncDatabase, AsyncMongoClient
from motorlite._api.limits import timeout
from motorlite._api.session import AsyncClientSession, SessionOptions
from motorlite._version import __version__
from motorlite.concerns import ReadConcern, WriteConcern
from motorlite.driver_info import DriverInfo
from motorlite.read_preferences import ReadPreference
from motorlite.requests import (
    DeleteMany,
    DeleteOne,
    IndexModel,
    InsertOne,
    ReplaceOne,
    SearchIndexModel,
    UpdateMany,
    UpdateOne,
)
from motorlite.retry import OverloadRetry
from motorlite.server_api import ServerApi, ServerApiVersion
from motorlite.stats import ClientStats, ServerStats

__all__ = [
    "ASCENDING",
    "DESCENDING",
    "GEO2D",
    "GEOSPHERE",
    "HASHED",
    "TEXT",
    "AsyncClientSession",
    "AsyncCollection",
    "AsyncCommandCursor",
    "AsyncCursor",
    "AsyncDatabase",
    "AsyncMongoClient",
    "ClientStats",
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
    "UpdateMany",
    "UpdateOne",
    "WriteConcern",
    "__version__",
    "concerns",
    "errors",
    "monitoring",
    "read_preferences",
    "requests",
    "results",
    "retry",
    "timeout",
]
