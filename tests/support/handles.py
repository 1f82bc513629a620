"""The public classes whose methods talk to a server."""

from __future__ import annotations

from typing import Final

from motorlite import (
    AsyncChangeStream,
    AsyncClientSession,
    AsyncCollection,
    AsyncCommandCursor,
    AsyncCursor,
    AsyncDatabase,
    AsyncMongoClient,
)

HANDLES: Final = (
    AsyncMongoClient,
    AsyncDatabase,
    AsyncCollection,
    AsyncCursor,
    AsyncCommandCursor,
    AsyncChangeStream,
    AsyncClientSession,
)
