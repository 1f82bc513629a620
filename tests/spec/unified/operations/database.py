"""Operations on a database."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from tests.spec.unified.arguments import cursor_type, read_preference, selected
from tests.spec.unified.operations.method import Method
from tests.spec.unified.operations.watch import create_change_stream

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.spec.unified.operations.method import Arguments, Handler

_CURSOR_COMMAND: Final = {
    "command": "command",
    "readPreference": "read_preference",
    "session": "session",
    "batchSize": "batch_size",
    "maxTimeMS": "max_await_time_ms",
    "comment": "comment",
    "cursorType": "cursor_type",
    "timeoutMode": "timeoutMode",
    "timeoutMS": "timeoutMS",
}


async def _run_command(database: Any, arguments: Arguments) -> Any:
    # For languages whose mappings have no order.
    arguments.pop("commandName", None)
    return await Method(
        "command", "command readPreference timeoutMS=timeoutMS", converters={"readPreference": read_preference}
    )(database, arguments)


def _cursor_of_command(database: Any, arguments: Arguments) -> Any:
    arguments.pop("commandName", None)
    given = selected(arguments, _CURSOR_COMMAND, "runCursorCommand")
    if "read_preference" in given:
        given["read_preference"] = read_preference(given["read_preference"])
    if "cursor_type" in given:
        given["cursor_type"] = cursor_type(given["cursor_type"])
    return database.cursor_command(**given)


async def _run_cursor_command(database: Any, arguments: Arguments) -> Any:
    async with _cursor_of_command(database, arguments) as cursor:
        return [document async for document in cursor]


async def _create_command_cursor(database: Any, arguments: Arguments) -> Any:
    return await _cursor_of_command(database, arguments)


async def _modify_collection(database: Any, arguments: Arguments) -> Any:
    """No method of PyMongo's; its users write the command."""
    session = arguments.pop("session", None)
    return await database.command({"collMod": arguments.pop("collection"), **arguments}, session=session)


OPERATIONS: Final[Mapping[str, Handler]] = {
    "aggregate": Method(
        "aggregate",
        "pipeline allowDiskUse=allowDiskUse batchSize=batchSize collation=collation comment let "
        "bypassDocumentValidation=bypassDocumentValidation hint maxTimeMS=maxTimeMS timeoutMS=timeoutMS "
        "timeoutMode=timeoutMode",
    ),
    "createChangeStream": create_change_stream,
    "createCollection": Method(
        "create_collection",
        "collection=name capped size max clusteredIndex=clusteredIndex timeseries validator viewOn=viewOn pipeline "
        "changeStreamPreAndPostImages=changeStreamPreAndPostImages expireAfterSeconds=expireAfterSeconds "
        "timeoutMS=timeoutMS",
        # What PyMongo does besides (a listCollections command) is not in the specifications.
        always={"check_exists": False},
    ),
    "createCommandCursor": _create_command_cursor,
    "dropCollection": Method("drop_collection", "collection=name_or_collection timeoutMS=timeoutMS"),
    "listCollections": Method(
        "list_collections",
        "filter batchSize=batchSize nameOnly=nameOnly comment timeoutMS=timeoutMS timeoutMode=timeoutMode",
    ),
    "listCollectionNames": Method("list_collection_names", "filter comment timeoutMS=timeoutMS"),
    "modifyCollection": _modify_collection,
    "runCommand": _run_command,
    "runCursorCommand": _run_cursor_command,
}
