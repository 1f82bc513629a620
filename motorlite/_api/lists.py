"""Shell: listCollections and listDatabases, as cursors and for the methods that only return names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from bson.codec_options import CodecOptions

from motorlite._api.cursors.command_cursor import AsyncCommandCursor
from motorlite._api.cursors.limits import CursorLimits
from motorlite._api.cursors.server_cursor import GetMoreOptions
from motorlite._wire.replies import text
from motorlite.errors import ProtocolError
from motorlite.read_preferences import ReadPreference

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from motorlite._api.session import AsyncClientSession
    from motorlite._api.settings import Settings
    from motorlite._base.values import Address
    from motorlite._client.core import Core

T = TypeVar("T")
# Decodes the server's metadata of databases and collections as plain dictionaries.
_PLAIN: CodecOptions[dict[str, Any]] = CodecOptions()

# Maps the server's option names to the operations' argument names.
_ARGUMENTS = {
    "nameOnly": "name_only",
    "authorizedCollections": "authorized_collections",
    "authorizedDatabases": "authorized_databases",
    "filter": "filter",
    "batchSize": "batch_size",
    "maxTimeMS": "max_time_ms",
}


def _keywords(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of the operation: its known options, and fields of the command."""
    found: dict[str, Any] = {"options": {}}
    for name, value in options.items():
        if name in _ARGUMENTS:
            found[_ARGUMENTS[name]] = value
        else:
            found["options"][name] = value
    return found


async def names(cursor: AsyncCommandCursor[dict[str, Any]]) -> list[str]:
    """Return the names in a list of databases or collections.

    Raises:
        ProtocolError: An entry has no name.
    """
    async with cursor:
        return [listed(text, found, "name", cursor.address) async for found in cursor]


def listed(
    read: Callable[[Mapping[str, Any], str], T], document: Mapping[str, Any], field: str, address: Address | None
) -> T:
    """Return a field of a list entry from the server at `address`, for a database, a collection or an index."""
    try:
        return read(document, field)
    except ProtocolError as error:
        error.address = address
        raise


def list_collections(
    core: Core,
    settings: Settings,
    database: str,
    session: AsyncClientSession | None,
    filter: Mapping[str, Any] | None,
    comment: Any,
    options: dict[str, Any],
) -> AsyncCommandCursor[dict[str, Any]]:
    """Return the cursor of a database's collections. `options` are checked and have the server's names."""
    from motorlite._operations.schema.list_collections import ListCollections

    limits = CursorLimits(settings.timeout, options.pop("timeoutMS", None), options.pop("timeoutMode", None))
    keywords = _keywords(options)

    def make() -> ListCollections:
        primary = ReadPreference.PRIMARY
        return ListCollections(
            database,
            selector=primary,
            read_preference=primary,
            filter=filter,
            comment=comment,
            time_limit=limits.time_limit,
            **keywords,
        )

    get_more = GetMoreOptions(batch_size=options.get("batchSize", 0), comment=comment)
    return AsyncCommandCursor(core, session, limits, _PLAIN, get_more, settings.call_options, make)


def list_databases(
    core: Core,
    settings: Settings,
    session: AsyncClientSession | None,
    comment: Any,
    options: dict[str, Any],
) -> AsyncCommandCursor[dict[str, Any]]:
    """Return the cursor of the deployment's databases. `options` are checked and have the server's names."""
    from motorlite._operations.schema.list_databases import ListDatabases

    limits = CursorLimits(settings.timeout, options.pop("timeoutMS", None), None)
    keywords = _keywords(options)

    def make() -> ListDatabases:
        primary = ReadPreference.PRIMARY
        return ListDatabases(
            selector=primary,
            read_preference=primary,
            comment=comment,
            **keywords,
        )

    return AsyncCommandCursor(core, session, limits, _PLAIN, GetMoreOptions(), settings.call_options, make)
