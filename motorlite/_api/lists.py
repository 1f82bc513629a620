"""Shell: listCollections and listDatabases, as cursors and for the methods that read only names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from bson.codec_options import CodecOptions

from motorlite._api.command_cursor import AsyncCommandCursor
from motorlite._api.cursor_limits import CursorLimits
from motorlite._api.server_cursor import GetMoreOptions
from motorlite._operations.list_collections import ListCollections
from motorlite._operations.list_databases import ListDatabases
from motorlite._replies import text
from motorlite.errors import ProtocolError
from motorlite.read_preferences import ReadPreference

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from motorlite._api.core import CoreLike
    from motorlite._api.session import AsyncClientSession
    from motorlite._api.settings import Settings
    from motorlite.deadline import Deadline
    from motorlite.values import Address

T = TypeVar("T")
# What the server says about databases and collections is decoded as plain dictionaries.
_PLAIN: CodecOptions[dict[str, Any]] = CodecOptions()

# The server's names of the options that the operations have arguments for.
_ARGUMENTS = {
    "nameOnly": "name_only",
    "authorizedCollections": "authorized_collections",
    "authorizedDatabases": "authorized_databases",
    "filter": "filter",
    "batchSize": "batch_size",
    "maxTimeMS": "max_time_ms",
}


async def names(cursor: AsyncCommandCursor[dict[str, Any]]) -> list[str]:
    """The names in a list of databases or collections.

    Raises:
        ProtocolError: One has none.
    """
    async with cursor:
        return [listed(text, found, "name", cursor.address) async for found in cursor]


def listed(
    read: Callable[[Mapping[str, Any], str], T], document: Mapping[str, Any], field: str, address: Address | None
) -> T:
    """A field of a document that the server at `address` lists a database, a collection or an index with."""
    try:
        return read(document, field)
    except ProtocolError as error:
        error.address = address
        raise


def list_collections(
    core: CoreLike,
    settings: Settings,
    database: str,
    session: AsyncClientSession | None,
    filter: Mapping[str, Any] | None,
    comment: Any,
    options: dict[str, Any],
) -> AsyncCommandCursor[dict[str, Any]]:
    """The cursor of a database's collections; `options` are checked and have the server's names."""
    limits = CursorLimits(settings.timeout, options.pop("timeoutMS", None), options.pop("timeoutMode", None))
    keywords = {_ARGUMENTS[name]: value for name, value in options.items()}

    def make(deadline: Deadline) -> ListCollections:
        primary = ReadPreference.PRIMARY
        return ListCollections(
            database,
            selector=primary,
            read_preference=primary,
            filter=filter,
            comment=comment,
            time_limit=limits.time_limit,
            **_without_server_time(keywords, deadline),
        )

    get_more = GetMoreOptions(batch_size=options.get("batchSize", 0), comment=comment)
    return AsyncCommandCursor(core, session, limits, _PLAIN, get_more, make)


def list_databases(
    core: CoreLike,
    settings: Settings,
    session: AsyncClientSession | None,
    comment: Any,
    options: dict[str, Any],
) -> AsyncCommandCursor[dict[str, Any]]:
    """The cursor of the deployment's databases; `options` are checked and have the server's names."""
    limits = CursorLimits(settings.timeout, options.pop("timeoutMS", None), None)
    keywords = {_ARGUMENTS[name]: value for name, value in options.items()}

    def make(deadline: Deadline) -> ListDatabases:
        primary = ReadPreference.PRIMARY
        return ListDatabases(
            selector=primary,
            read_preference=primary,
            comment=comment,
            **_without_server_time(keywords, deadline),
        )

    return AsyncCommandCursor(core, session, limits, _PLAIN, GetMoreOptions(), make)


def _without_server_time(keywords: dict[str, Any], deadline: Deadline) -> dict[str, Any]:
    """`keywords` without maxTimeMS when a timeout replaces it."""
    if not deadline.is_set:
        return keywords
    return {name: value for name, value in keywords.items() if name != "max_time_ms"}
