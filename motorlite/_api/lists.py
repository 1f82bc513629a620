"""Shell: the lists of databases, collections and indexes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from bson.codec_options import CodecOptions
from bson.dbref import DBRef

from motorlite._api.arguments.checks import for_operation
from motorlite._api.cursors.command_cursor import AsyncCommandCursor
from motorlite._api.cursors.server_cursor import GetMoreOptions
from motorlite._api.time_limits import CursorLimits
from motorlite._wire.replies import text
from motorlite.errors import ProtocolError
from motorlite.read_preferences import ReadPreference

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from motorlite._api.session import AsyncClientSession
    from motorlite._api.settings import Settings
    from motorlite._base.values import Address
    from motorlite._client.core import Core
    from motorlite._operations.contract import CursorReply, Operation

T = TypeVar("T")
# Decodes the server's metadata as plain dictionaries.
PLAIN: CodecOptions[dict[str, Any]] = CodecOptions()


def list_cursor(
    core: Core,
    settings: Settings,
    session: AsyncClientSession | None,
    kind: Callable[..., Operation[CursorReply]],
    *names: str,
    comment: Any,
    options: dict[str, Any],
    fields: Mapping[str, Any] | None = None,
    means_empty: Collection[int] = (),
) -> AsyncCommandCursor[dict[str, Any]]:
    """Return the cursor of a list, from the primary.

    Args:
        core: The client's.
        settings: Those of the client, database or collection.
        session: The session to use.
        kind: The operation.
        names: The database and the collection that it is about.
        comment: For all commands of the cursor.
        options: Checked, with the server's names.
        fields: Further fields of the command.
        means_empty: Error codes of the server for a list without entries.
    """
    limits = CursorLimits(settings.timeout, options.pop("timeoutMS", None), options.pop("timeoutMode", None))

    def make() -> Operation[CursorReply]:
        return kind(
            *names,
            selector=ReadPreference.PRIMARY,
            read_preference=ReadPreference.PRIMARY,
            comment=comment,
            time_limit=limits.time_limit,
            options=fields,
            **for_operation(options),
        )

    get_more = GetMoreOptions(batch_size=options.get("batchSize", 0), comment=comment)
    return AsyncCommandCursor(core, session, limits, PLAIN, get_more, settings.call_options, make, means_empty)


async def names(cursor: AsyncCommandCursor[dict[str, Any]]) -> list[str]:
    """Return the names in a list of databases or collections."""
    async with cursor:
        return [listed(text, found, "name", cursor.address) async for found in cursor]


def listed(
    read: Callable[[Mapping[str, Any], str], T],
    document: Mapping[str, Any] | DBRef,
    field: str,
    address: Address | None,
) -> T:
    """Return a field of a list entry from the server at `address`, for a database, a collection or an index.

    Raises:
        ProtocolError: The entry is malformed.
    """
    try:
        if isinstance(document, DBRef):
            raise ProtocolError(f"the server sent a malformed reply: a reference is no document with {field}")
        return read(document, field)
    except ProtocolError as error:
        error.address = address
        raise
