"""The public classes whose methods talk to a server."""

from __future__ import annotations

import inspect
from typing import Any, Final

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

# Asynchronous, but without a command of their own.
_SILENT: Final = {"AsyncCursor.add_option", "AsyncMongoClient.aconnect", "AsyncGridOutCursor.add_option"}
# Not asynchronous, but the cursor they return sends the command.
_CURSORS: Final = {
    "AsyncMongoClient": {"list_databases", "watch"},
    "AsyncDatabase": {"aggregate", "cursor_command", "list_collections", "watch"},
    "AsyncCollection": {
        *("aggregate", "aggregate_raw_batches", "find", "find_raw_batches"),
        *("list_indexes", "list_search_indexes", "watch"),
    },
    "AsyncCursor": {"batches"},
    "AsyncCommandCursor": {"batches"},
    "AsyncGridFS": {"find"},
    "AsyncGridFSBucket": {"find"},
    "AsyncGridOutCursor": {"batches"},
}


def methods(kind: type[Any]) -> dict[str, Any]:
    """The public methods of a class."""
    names = [name for name in dir(kind) if not name.startswith("_")]
    return {name: found for name in names if callable(found := inspect.getattr_static(kind, name))}


def sends(kind: type[Any], name: str, method: Any) -> bool:
    """Whether a method of a handle, or the cursor that it returns, sends commands."""
    if f"{kind.__name__}.{name}" in _SILENT:
        return False
    return inspect.iscoroutinefunction(method) or name in _CURSORS.get(kind.__name__, ())
