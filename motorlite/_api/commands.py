"""Shell: user-defined commands, and the lists of databases and collections."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from bson.codec_options import DEFAULT_CODEC_OPTIONS, CodecOptions

from motorlite._api.constants import CursorType
from motorlite._api.cursors.command_cursor import AsyncCommandCursor
from motorlite._api.cursors.server_cursor import GetMoreOptions
from motorlite._api.time_limits import CursorLimits
from motorlite._base.arguments import converted, instance, server_milliseconds
from motorlite._operations.aggregate import waits_for_data
from motorlite._operations.commands import RunCommand, RunCursorCommand
from motorlite._wire.replies import text
from motorlite.errors import AutoReconnect, OperationFailure, ProtocolError
from motorlite.read_preferences import ReadPreference, as_read_preference

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from motorlite._api.session import AsyncClientSession
    from motorlite._api.settings import Settings
    from motorlite._api.typings import TimeoutMode
    from motorlite._base.values import Address
    from motorlite._client.core import Core
    from motorlite._operations.contract import Call
    from motorlite.read_preferences import ServerMode


# User-defined commands.


class UserCommand:
    """One user-defined command, with its codec options and the errors that it accepts."""

    __slots__ = (
        "_allowed_errors",
        "_check",
        "_codec_options",
        "_database",
        "_document",
        "_has_own_preference",
        "_read_preference",
    )

    def __init__(
        self,
        database: str,
        document: dict[str, Any],
        *,
        read_preference: ServerMode | None = None,
        codec_options: CodecOptions[Any] | None = None,
        check: bool = True,
        allowed_errors: Sequence[str | int] | None = None,
    ) -> None:
        if read_preference is not None:
            read_preference = converted("read_preference", read_preference, as_read_preference)
        if codec_options is not None:
            instance("codec_options", codec_options, CodecOptions)
        self._database = database
        self._document = document
        # Run command specification: the database's read preference does not apply.
        self._read_preference = read_preference or ReadPreference.PRIMARY
        self._has_own_preference = read_preference is not None
        self._codec_options = codec_options
        self._check = check
        self._allowed_errors = allowed_errors or ()

    async def execute(self, core: Core, call: Call) -> dict[str, Any] | Mapping[str, Any]:
        """Execute the command and return the server's reply."""
        options = self._codec_options or DEFAULT_CODEC_OPTIONS
        operation = RunCommand(
            self._database,
            self._document,
            selector=self._read_preference,
            read_preference=self._read_preference,
            codec_options=options,
        )
        operation.has_own_preference = self._has_own_preference
        try:
            return await core.executor.execute(operation, call)
        except (OperationFailure, AutoReconnect) as error:
            details = self._reply_of(error)
            if details is None:
                raise
            return details

    def _reply_of(self, error: OperationFailure | AutoReconnect) -> Mapping[str, Any] | None:
        """Return the reply behind `error` if the caller asked for it, else None."""
        details = error.details
        if details.get("ok") == 0:
            # A malformed reply may have unhashable values here, which a set lookup rejects.
            both = (details.get("code"), details.get("errmsg"))
            known = [one for one in both if isinstance(one, int) or type(one) is str]
            if not self._check or any(one in self._allowed_errors for one in known):
                return details
        return None


def cursor_of_command(
    core: Core,
    settings: Settings,
    database: str,
    document: dict[str, Any],
    session: AsyncClientSession | None,
    *,
    read_preference: ServerMode | None,
    codec_options: CodecOptions[Any] | None,
    cursor_type: int | None,
    comment: Any,
    batch_size: int,
    max_await_time_ms: float | None,
    timeout_ms: float | None,
    timeout_mode: TimeoutMode | None,
) -> AsyncCommandCursor[Any]:
    """Create the cursor of a command (run command specification, "runCursorCommand")."""
    if read_preference is not None:
        read_preference = converted("read_preference", read_preference, as_read_preference)
    if codec_options is not None:
        instance("codec_options", codec_options, CodecOptions)
    if max_await_time_ms is not None:
        max_await_time_ms = converted("max_await_time_ms", max_await_time_ms, server_milliseconds)
    if cursor_type is None:
        is_tailable, is_await_data = bool(document.get("tailable")), bool(document.get("awaitData"))
    else:
        is_tailable = cursor_type != CursorType.NON_TAILABLE
        is_await_data = cursor_type == CursorType.TAILABLE_AWAIT
    if waits_for_data(document.get("pipeline")):
        is_tailable = is_await_data = True
    limits = CursorLimits(
        settings.timeout, timeout_ms, timeout_mode, is_tailable=is_tailable, is_await_data=is_await_data
    )
    preference = read_preference or ReadPreference.PRIMARY
    options = codec_options or settings.codec_options

    def make() -> RunCursorCommand:
        operation = RunCursorCommand(
            database,
            document,
            selector=preference,
            read_preference=preference,
            codec_options=options,
            time_limit=limits.time_limit,
        )
        operation.has_own_preference = read_preference is not None
        return operation

    get_more = GetMoreOptions(
        batch_size=batch_size,
        comment=comment,
        is_await_data=is_await_data or max_await_time_ms is not None,
        is_endless=is_tailable,
        max_await_time_ms=max_await_time_ms,
        read_preference=preference,
    )
    return AsyncCommandCursor(core, session, limits, options, get_more, settings.call_options, make)


# ListCollections and listDatabases, as cursors and for the methods that only return names.

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
    from motorlite._operations.collections import ListCollections

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
    from motorlite._operations.collections import ListDatabases

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
